// Runs custom tools: reads requests from stdin and writes answers to stdout, one JSON text per line. Each answer begins
// with a secret prefix from the environment, so that no other output on stdout is taken for an answer.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const word = process.env.GLADHAND_DRIVER_WORD;
delete process.env.GLADHAND_DRIVER_WORD;

// Output that tools print is not an answer.
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
for (const name of ["log", "info", "debug", "dir", "table"]) console[name] = console.error;

const answer = (id, body) => {
  let line;
  try {
    line = JSON.stringify(body);
  } catch (error) {
    line = JSON.stringify({ thrown: `the tool's result cannot be written as JSON: ${message(error)}` });
  }
  write(`${word}${id} ${line}\n`);
};

const message = (error) => (error instanceof Error ? error.message : String(error));
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const modules = new Map();
const running = new Map();

const load = async (path, version) => {
  const module = await import(`${pathToFileURL(path).href}?version=${version}`);
  const given = module.default;
  const candidates = [given, module.tool, given?.tool, { ...module.meta, run: module.run }];
  if (given?.meta) candidates.push({ ...given.meta, run: given.run });
  const tool = candidates.find((one) => isObject(one) && typeof one.run === "function" && typeof one.name === "string");
  if (!tool) throw new Error("it exports no tool: an object with `name` and `run`");
  modules.set(path, { version, tool });
  return tool;
};

// Parses the body of a function as the files of created tools do (`generated.rs`). A body cannot end its function early.
const AsyncFunction = (async () => {}).constructor;
const check = (body) => {
  new AsyncFunction("input", "context", '"use strict";\n' + body);
  return {};
};

const schema = (given) => {
  if (!isObject(given) || !isObject(given.properties)) return undefined;
  const known = { type: "object", properties: given.properties };
  if (Array.isArray(given.required) && given.required.every((name) => typeof name === "string")) {
    known.required = given.required;
  }
  if (typeof given.additionalProperties === "boolean" || isObject(given.additionalProperties)) {
    known.additionalProperties = given.additionalProperties;
  }
  return known;
};

const describe = (tool) => ({
  name: tool.name.trim(),
  description: typeof tool.description === "string" ? tool.description.trim() : "",
  schema: schema(tool.args ?? tool.inputSchema),
});

const run = async (path, version, input, signal) => {
  const known = modules.get(path);
  const tool = known?.version === version ? known.tool : await load(path, version);
  signal.throwIfAborted();
  const value = await tool.run(input, { now: new Date(), signal });
  if (isObject(value) && typeof value.ok === "boolean" && "output" in value) {
    return { ok: value.ok, output: value.output ?? null, error: typeof value.error === "string" ? value.error : undefined };
  }
  return { ok: true, output: value ?? null };
};

const respond = async ({ load: wanted, check: body, run: called, version, input }, signal) => {
  if (wanted !== undefined) return describe(await load(wanted, version));
  if (body !== undefined) return check(body);
  return run(called, version, input, signal);
};

const handle = async ({ id, stop, ...request }) => {
  if (stop !== undefined) return running.get(stop)?.abort();
  const controller = new AbortController();
  running.set(id, controller);
  try {
    answer(id, await respond(request, controller.signal));
  } catch (error) {
    answer(id, { thrown: message(error) });
  } finally {
    running.delete(id);
  }
};

process.on("uncaughtException", (error) => console.error("uncaught:", error));
process.on("unhandledRejection", (error) => console.error("unhandled:", error));

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on("line", (line) => handle(JSON.parse(line)));
lines.on("close", () => process.exit(0));
