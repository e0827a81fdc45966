// One session of a JavaScript client with a server behind `gladhand bridge`, cell by cell.
// Prints one line of JSON: what was seen in each cell, or the error that came instead.
//
// The plan says what there is to call: `steps` has a tool with its arguments for each cell that the server has
// something for; `server` is a file with the process ids of the server, which is killed in the middle of a call.
import { readFileSync } from 'node:fs';
import { soon } from './session.mjs';

const ROUNDS = 40;
const PAUSE = 50;
const UNDER_WAY = 700;

// Kills all processes of a file. Of those that were only asked what they speak, some are gone.
function kill(file) {
  for (const id of readFileSync(file, 'utf8').trim().split('\n')) {
    try {
      process.kill(Number(id), 'SIGKILL');
    } catch {}
  }
}

// Acts once: at a first sign of progress, or when a call must be under way although nothing tells of its progress.
function underWay(act) {
  let acted = false;
  const once = () => {
    if (!acted) act();
    acted = true;
  };
  setTimeout(once, UNDER_WAY);
  return once;
}

export async function coupled(connect, plan) {
  const { steps } = plan;
  const changes = [];
  const answers = {
    elicit: () => ({ action: 'accept', content: plan.form }),
    sample: () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'Bern' } }),
    updated: () => {},
    changed: () => changes.push(true),
  };
  const seen = {};
  const cell = async (name, look) => {
    seen[name] = await soon(look()).catch((error) => ({ error: String(error?.message ?? error) }));
  };
  let session;
  await cell('open', async () => {
    session = await connect(plan.target, plan, answers);
    return session.protocol();
  });
  if (session) {
    const make = (step, options) => session.call(step.tool, step.arguments, options);
    const text = async (result) => (await result).content.map((block) => block.text).join();
    const has = async (name) => (await session.client.listTools()).tools.some((tool) => tool.name === name);
    const steadily = async (look) => {
      for (let round = 0; round < ROUNDS && !(await look()); round += 1) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
      return look();
    };
    await cell('list', () => has(steps.call.tool));
    await cell('call', () => text(make(steps.call)));
    if (steps.progress) {
      await cell('progress', async () => {
        const reports = [];
        await make(steps.progress, { onprogress: ({ progress }) => reports.push(progress) });
        return reports;
      });
    }
    await cell('error', async () => {
      const failed = await make(steps.error).catch(() => ({ isError: true }));
      return { failed: failed.isError === true, afterwards: await text(make(steps.call)) };
    });
    for (const name of ['elicit', 'sample']) if (steps[name]) await cell(name, () => text(make(steps[name])));
    if (steps.change) {
      await cell('change', async () => {
        await session.follow();
        const before = await has('grown');
        await make(steps.change);
        const told = await steadily(async () => changes.length > 0);
        return { before, told, after: await has('grown') };
      });
    }
    if (steps.cancel) {
      await cell('cancel', async () => {
        const controller = new AbortController();
        const onprogress = underWay(() => controller.abort('enough'));
        const options = { onprogress, signal: controller.signal };
        const cancelled = await make(steps.cancel, options).then(() => false, () => true);
        const isProven = async () => (await text(make(steps.proof))).includes(plan.proof);
        return { cancelled, proven: await steadily(isProven) };
      });
    }
    if (steps.linger) {
      await cell('dies', async () => {
        const onprogress = underWay(() => kill(plan.server));
        const lost = await make(steps.linger, { onprogress }).then((result) => result.isError === true, () => true);
        return { lost, afterwards: await text(make(steps.call)) };
      });
    }
    await soon(session.client.close()).catch(() => {});
  }
  process.stdout.write(JSON.stringify(seen) + '\n');
  process.exit(0);
}
