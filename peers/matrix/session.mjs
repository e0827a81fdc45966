// One session of a JavaScript client with our fixture, cell by cell, and one with our toolbox to give up a call.
// Prints one line of JSON: what was seen in each cell, or the error that came instead.
//
// `node CLIENT '{"transport": "stdio" | "http" | "sse", "mode": …, "fixture": TARGET, "toolbox": TARGET}'`, where a
// TARGET is a URL or the words of a command. A client hands in its own ways:
//
//   connect(target, plan, { elicit, sample, updated, changed })  opens a session and answers by these functions
//   session.call(name, arguments, options)              calls a tool; options: `onprogress`, `signal`
//   session.watch(uri)                                  has updates of a resource told to `updated`
//   session.follow()                                    has changes of the list of tools told to `changed`
//
// A plan with `steps` is for a server behind our bridge: see coupled.mjs. One with `trials` compares what a client sees
// of an ordinary server with and without a bridge between them: see features.mjs.
import { coupled } from './coupled.mjs';
import { features } from './features.mjs';

const PATIENCE = 20_000;
const SILENCE = 1200;
const WATCHED = 'test://watched-resource';

export async function run(connect) {
  const plan = JSON.parse(process.argv[2]);
  if (plan.steps) return coupled(connect, plan);
  if (plan.trials) return features(connect, plan);
  const updates = watcher();
  const answers = {
    elicit: () => ({ action: 'accept', content: { username: 'ada', email: 'ada@example.org' } }),
    sample: () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'Bern' } }),
    updated: updates.tell,
    changed: () => {},
  };
  const seen = {};
  const cell = async (name, look) => {
    seen[name] = await soon(look()).catch((error) => ({ error: String(error?.message ?? error) }));
  };
  let session;
  await cell('open', async () => {
    session = await connect(plan.fixture, plan, answers);
    return session.protocol();
  });
  const { client, call } = session ?? {};
  const text = async (result) => (await result).content.map((block) => block.text).join();
  await cell('list', async () => (await client.listTools()).tools.some((tool) => tool.name === 'test_simple_text'));
  await cell('call', () => text(call('test_simple_text', {})));
  await cell('progress', async () => {
    const reports = [];
    // The SDK loses a report that arrives together with the reply, as the last one does.
    const onprogress = ({ progress, total }) => progress < total && reports.push([progress, total]);
    await call('test_tool_with_progress', {}, { onprogress });
    return reports;
  });
  await cell('elicit', () => text(call('test_elicitation', { message: 'Who are you?' })));
  await cell('sample', () => text(call('test_sampling', { prompt: 'Which city?' })));
  await cell('subscribe', async () => {
    await session.watch(WATCHED);
    await call('test_trigger_resource_update', {});
    return updates.next;
  });
  await cell('read', async () => (await client.readResource({ uri: 'test://static-text' })).contents[0].text);
  await cell('prompt', async () => {
    const params = { name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } };
    return (await client.getPrompt(params)).messages[0].content.text;
  });
  await cell('cancel', async () => {
    const toolbox = await connect(plan.toolbox, plan, answers);
    const seen = await givenUp(toolbox.call);
    seen.afterwards = await text(toolbox.call('echo', { message: 'still here' }));
    await toolbox.client.close();
    return seen;
  });
  await cell('close', async () => (await client.close()) ?? true);
  process.stdout.write(JSON.stringify(seen) + '\n');
  process.exit(0);
}

// Gives a long call up at its first sign of progress, then listens whether the server goes on with it.
async function givenUp(call) {
  const controller = new AbortController();
  let reports = 0;
  const onprogress = () => {
    reports += 1;
    controller.abort('enough');
  };
  const options = { onprogress, signal: controller.signal };
  const cancelled = await call('wait', { ms: 60_000, steps: 120 }, options).then(() => false, () => true);
  await new Promise((resolve) => setTimeout(resolve, SILENCE));
  return { cancelled, reports };
}

function watcher() {
  const watcher = {};
  watcher.next = new Promise((resolve) => {
    watcher.tell = resolve;
  });
  return watcher;
}

export function soon(promise) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error('nothing came')), PATIENCE).unref());
  return Promise.race([promise, late]);
}
