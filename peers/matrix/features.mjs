// One session of a JavaScript client with an ordinary server, feature by feature. Prints one line of JSON: for each
// trial what the client saw, whole, or the error that came instead.
//
// `trials` of the plan has the trials in order: a `name`, what is done (`do`), and what that needs. `declares` has what
// the client declares beside its answers to questions.
import { soon } from './session.mjs';

const ROUNDS = 40;
const PAUSE = 50;
const UNDER_WAY = 700;

const STATELESS = '2026-07-28';

// In the stateless era log lines come to requests that ask for them.
const LOGS = { 'io.modelcontextprotocol/logLevel': 'debug' };

export async function features(connect, plan) {
  let [logs, updates, changes, asked] = [[], [], 0, []];
  const answer = (kind, result) => (request) => {
    const { _meta, ...params } = request?.params ?? {};
    asked.push({ kind, params });
    return result;
  };
  const answers = {
    elicit: answer('elicit', { action: 'accept', content: plan.form }),
    sample: answer('sample', { role: 'assistant', model: 'm', content: { type: 'text', text: 'Bern' } }),
    roots: answer('roots', { roots: [{ uri: plan.root, name: 'one' }] }),
    updated: (uri) => updates.push(uri),
    changed: () => (changes += 1),
    logged: (params) => logs.push(params),
  };
  const failed = (error) => ({ error: String(error?.message ?? error) });
  const session = await soon(connect(plan.target, plan, answers)).catch(failed);
  const { client } = session;
  const call = ({ tool, arguments: given }, options) => session.call(tool, given ?? {}, options);
  const text = async (result) => (await result).content.map((block) => block.text).join();
  const until = async (look) => {
    for (let round = 0; round < ROUNDS && !(await look()); round += 1) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    return look();
  };
  const has = async (name) => (await client.listTools()).tools.some((tool) => tool.name === name);
  const looks = {
    open: () => session.protocol(),
    identity: () => ({ info: client.getServerVersion(), instructions: client.getInstructions() }),
    capabilities: () => client.getServerCapabilities(),
    tools: async () => (await client.listTools()).tools,
    call: async (trial) => {
      const reports = [];
      asked = [];
      const options = trial.reports ? { onprogress: (report) => reports.push(report) } : undefined;
      const result = await call(trial, options);
      return { result, reports, asked };
    },
    cancel: async (trial) => {
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort('enough'), UNDER_WAY);
      const onprogress = () => controller.abort('enough');
      const cancelled = await call(trial, { onprogress, signal: controller.signal }).then(() => false, () => true);
      clearTimeout(timer);
      const proven = await until(async () => (await text(call({ tool: trial.proof }))) !== '0');
      return { cancelled, proven };
    },
    log: async (trial) => {
      if (trial.level) await client.setLoggingLevel(trial.level);
      logs = [];
      await session.call(trial.tool, {}, undefined, session.protocol() === STATELESS ? LOGS : undefined);
      await until(async () => logs.length >= trial.lines);
      return logs;
    },
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    read: async ({ uri }) => (await client.readResource({ uri })).contents,
    watch: async (trial) => {
      updates = [];
      await session.watch(trial.uri);
      await call(trial);
      await until(async () => updates.length > 0);
      return updates.slice(0, 1);
    },
    prompts: async () => (await client.listPrompts()).prompts,
    prompt: async ({ prompt, arguments: given }) => client.getPrompt({ name: prompt, arguments: given }),
    complete: async ({ ref, argument }) => (await client.complete({ ref, argument })).completion,
    change: async (trial) => {
      await session.follow();
      const before = await has('grown');
      changes = 0;
      await call(trial);
      const told = await until(async () => changes > 0);
      return { before, told, after: await has('grown') };
    },
    task: async ({ tool, arguments: given }) => {
      const stream = client.experimental.tasks.callToolStream({ name: tool, arguments: given }, undefined, {
        task: { ttl: 60_000 },
      });
      const kinds = [];
      for await (const message of stream) {
        if (message.type === 'error') throw message.error;
        if (message.type === 'result') return { kinds: [...new Set(kinds)], result: message.result };
        kinds.push(message.type);
      }
      return kinds;
    },
  };
  const seen = {};
  for (const trial of plan.trials) {
    if (session.error) seen[trial.name] = { error: session.error };
    else {
      const look = soon((async () => looks[trial.do](trial))());
      seen[trial.name] = (await look.catch(failed)) ?? null;
    }
  }
  if (client) await soon(client.close()).catch(() => {});
  process.stdout.write(JSON.stringify(seen) + '\n');
  process.exit(0);
}
