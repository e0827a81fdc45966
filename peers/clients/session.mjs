// What every JavaScript client does with an open session. Prints one line of JSON: what the client saw.
//
// `call(name, arguments, options)` is the SDK's way of calling a tool; `options` has `onprogress` and `signal`.

const SILENCE = 1200;

export async function report({ client, call, protocol }) {
  const seen = { protocol: protocol(), server: client.getServerVersion()?.name ?? null };
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
  seen.echo = (await call('echo', { message: 'grüezi "🤝" \u2028 \\ ' })).content;
  seen.unknown_tool = await outcome(call('no_such_tool', {}));
  seen.progress = [];
  // The SDK loses a report that arrives together with the reply, as the last one does: it looks at notifications
  // a moment later than at replies. So the last is left to the tap.
  const onprogress = ({ progress, total }) => progress < total && seen.progress.push([progress, total]);
  seen.wait = await outcome(call('wait', { ms: 600, steps: 3 }, { onprogress }));
  Object.assign(seen, await cancelled(call));
  seen.echo_afterwards = (await call('echo', { message: 'still here' })).content;
  await client.close();
  process.stdout.write(JSON.stringify(seen) + '\n');
}

// Cancels a long call at its first sign of progress, then listens whether the server goes on with it.
async function cancelled(call) {
  const controller = new AbortController();
  let reports = 0;
  const onprogress = () => {
    reports += 1;
    controller.abort('enough');
  };
  const options = { onprogress, signal: controller.signal };
  const rejected = await call('wait', { ms: 60000, steps: 120 }, options).then(() => false, () => true);
  await new Promise((resolve) => setTimeout(resolve, SILENCE));
  return { cancelled: rejected, reports_of_the_cancelled: reports };
}

async function outcome(called) {
  try {
    const result = await called;
    return { failed: result.isError ?? false };
  } catch (error) {
    return { code: error.code };
  }
}
