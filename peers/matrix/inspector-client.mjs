// The Inspector's command line as a client of ours: one process for each cell that it has a flag for.
//
// `node inspector-client.mjs INSPECTOR PLAN` as the others (see session.mjs), with the protocol era as the mode. It declares
// neither elicitation nor sampling, shows no notifications, and a process of it makes one call: what it cannot do is
// left out.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const [inspector, plan] = process.argv.slice(2);
const { transport, mode, fixture } = JSON.parse(plan);
const target = transport === 'stdio' ? fixture : [fixture, '--transport', transport];

async function ask(method, ...flags) {
  const words = [inspector, '--cli', ...target, '--protocol-era', mode, '--method', method, ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, words, { timeout: 40_000 });
  return JSON.parse(stdout);
}

const call = async (...flags) => (await ask('tools/call', '--tool-name', ...flags)).content[0].text;
const cells = {
  open: async () => (await ask('initialize')).protocolVersion,
  list: async () => (await ask('tools/list')).tools.some((tool) => tool.name === 'test_simple_text'),
  call: () => call('test_simple_text'),
  read: async () => (await ask('resources/read', '--uri', 'test://static-text')).contents[0].text,
  prompt: async () => {
    const flags = ['--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=a', 'arg2=b'];
    return (await ask('prompts/get', ...flags)).messages[0].content.text;
  },
  elicit: () => call('test_elicitation', '--tool-arg', 'message=x'),
  sample: () => call('test_sampling', '--tool-arg', 'prompt=x'),
};
const seen = {};
for (const [name, look] of Object.entries(cells)) {
  seen[name] = await look().catch((error) => ({ error: String(error.stderr || error.message).slice(0, 300) }));
}
// A process that does not end well makes an error of its cell.
seen.close = ['open', 'list', 'call', 'read', 'prompt'].every((name) => seen[name].error === undefined);
process.stdout.write(JSON.stringify(seen) + '\n');
