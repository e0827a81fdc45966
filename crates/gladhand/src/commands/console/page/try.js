// Try it: the page as a client. Tools, resources and prompts of all upstreams, and questions of servers answered by hand.

import { code, copyButton, duration, el, fill, note, put } from "./dom.js";
import { Client } from "./client.js";
import { block, resource, result } from "./content.js";
import { objectForm } from "./form.js";
import { answer } from "./questions.js";
import { store } from "./store.js";

/** Entries that the list shows at most. */
const ENTRIES = 500;

/** Log lines that are kept. */
const LOG = 200;

/** The client, which stays open while another view is shown. */
let client = null;
let lists = { tools: [], resources: [], templates: [], prompts: [] };
let refresh = () => {};
const logged = [];

const KINDS = [
  { id: "tools", title: "Tools" },
  { id: "resources", title: "Resources" },
  { id: "prompts", title: "Prompts" },
];

const chosen = { kind: "tools", search: "" };

export function tryIt(main) {
  const list = el("ul", { class: "list scroll" });
  const detail = el("div", { class: "stack" });
  const head = el("div", { class: "row", role: "group", "aria-label": "Kind" });
  const state = el("p", { class: "empty", role: "status" }, "Connecting…");
  const log = el("section", { class: "panel", "aria-label": "Log" });
  const search = el("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search tools, resources and prompts",
    value: chosen.search,
    oninput: () => {
      chosen.search = search.value;
      drawList();
    },
  });
  fill(
    main,
    el(
      "div",
      { class: "grid two" },
      el("section", { class: "panel", "aria-label": "Offer of the server" }, el("header", {}, head, search), state, list),
      el("div", { class: "stack" }, detail, log),
    ),
  );

  function entries() {
    const all = chosen.kind === "resources" ? [...lists.resources, ...lists.templates] : lists[chosen.kind];
    const wanted = chosen.search.trim().toLowerCase();
    return all.filter((one) => `${one.name} ${one.title ?? ""} ${one.uri ?? one.uriTemplate ?? ""} ${one.description ?? ""}`.toLowerCase().includes(wanted));
  }

  function drawList() {
    fill(
      head,
      KINDS.map((kind) => {
        const count = kind.id === "resources" ? lists.resources.length + lists.templates.length : lists[kind.id].length;
        const button = el("button", { type: "button", class: "quiet", "aria-pressed": String(chosen.kind === kind.id) }, `${kind.title} ${count}`);
        button.addEventListener("click", () => {
          chosen.kind = kind.id;
          drawList();
        });
        return button;
      }),
    );
    const shown = entries();
    fill(list, shown.slice(0, ENTRIES).map(entry));
    if (shown.length > ENTRIES) put(list, el("li", { class: "empty" }, `and ${shown.length - ENTRIES} more: search for them`));
    if (client && shown.length === 0) fill(list, el("li", { class: "empty" }, chosen.search ? "Nothing matches." : "The server offers none."));
  }

  function entry(one) {
    const button = el("button", { type: "button" }, one.title ?? one.name ?? one.uri, el("span", { class: "faint" }, one.uri ?? one.uriTemplate ?? one.description ?? ""));
    button.addEventListener("click", () => {
      list.querySelectorAll("[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
      button.setAttribute("aria-current", "true");
      if (chosen.kind === "tools") showTool(detail, one);
      else if (chosen.kind === "prompts") showPrompt(detail, one);
      else showResource(detail, one);
      if (window.innerWidth < 1024) detail.scrollIntoView({ block: "start" });
    });
    return el("li", {}, button);
  }

  function drawLog() {
    if (logged.length === 0) {
      fill(log);
      log.hidden = true;
      return;
    }
    log.hidden = false;
    fill(log, el("header", {}, el("h2", {}, "Log of servers"), el("button", { type: "button", class: "quiet", onclick: () => { logged.length = 0; drawLog(); } }, "clear")));
    put(log, el("div", { class: "body" }, code(logged.slice().reverse().join("\n"), "Log of servers")));
  }

  refresh = (what) => {
    if (what === "log") drawLog();
    else drawList();
  };

  async function connect(token) {
    fill(state, "Connecting…");
    const fresh = new Client({ ask: (method, params, signal) => answer(method, params, signal), notice });
    fresh.token = token ?? "";
    try {
      await fresh.open();
      client = fresh;
      await loadLists();
      state.hidden = true;
    } catch (error) {
      state.hidden = false;
      fill(state, error.status === 401 ? askForToken(connect) : [`The endpoint cannot be used: ${error.message} `, el("button", { type: "button", onclick: () => connect(token) }, "Try again")]);
    }
    drawList();
  }

  drawList();
  drawLog();
  if (client) state.hidden = true;
  else if (store.needsToken) fill(state, askForToken(connect));
  else connect();
  return () => {
    refresh = () => {};
  };
}

window.addEventListener("pagehide", () => client?.close());

function askForToken(connect) {
  const token = el("input", { type: "password", autocomplete: "off", id: "token" });
  const form = el("form", {}, el("label", { for: "token" }, "Token of the endpoint"), el("p", { class: "faint" }, "The page calls tools as a client with this token, and does not store it."), el("div", { class: "row" }, token, el("button", { type: "submit", class: "main" }, "Connect")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    connect(token.value.trim());
  });
  return form;
}

async function loadLists() {
  const { capabilities } = client;
  const listOf = (isThere, method, member) => (isThere ? client.list(method, member).catch((error) => (note(`${method}: ${error.message}`, true), [])) : []);
  const [tools, resources, templates, prompts] = await Promise.all([
    listOf(capabilities.tools, "tools/list", "tools"),
    listOf(capabilities.resources, "resources/list", "resources"),
    listOf(capabilities.resources, "resources/templates/list", "resourceTemplates"),
    listOf(capabilities.prompts, "prompts/list", "prompts"),
  ]);
  lists = { tools, resources, templates, prompts };
}

function notice(method, params) {
  if (method === "notifications/message") {
    const text = typeof params.data === "string" ? params.data : JSON.stringify(params.data);
    logged.push(`${params.level ?? "info"} ${params.logger ?? ""} ${text}`.replace(/ +/g, " "));
    logged.splice(0, Math.max(0, logged.length - LOG));
    refresh("log");
  } else if (method.endsWith("/list_changed")) {
    loadLists().then(() => refresh("lists"), () => {});
  }
}

/** Runs a request with a button to cancel it, and shows progress and outcome. */
async function run(place, request, show) {
  const aborted = new AbortController();
  const bar = el("progress", { "aria-label": "Progress" });
  const said = el("p", { class: "faint", role: "status" }, "Running…");
  fill(place, bar, said, el("button", { type: "button", onclick: () => aborted.abort() }, "Cancel"));
  const begun = performance.now();
  const progress = ({ progress: done, total, message }) => {
    if (total > 0) {
      bar.max = total;
      bar.value = done;
    }
    fill(said, [message, total > 0 ? `${done} of ${total}` : done].filter((part) => part !== undefined && part !== "").join(" · "));
  };
  try {
    const value = await request({ progress, signal: aborted.signal });
    fill(place, el("p", { class: "faint", role: "status" }, `Answered in ${duration(performance.now() - begun)}`), show(value));
  } catch (error) {
    const facts = error.code === undefined ? null : code(JSON.stringify({ code: error.code, message: error.message, data: error.data }), "Error");
    fill(place, el("p", { class: "bad", role: "status" }, `${error.message} (after ${duration(performance.now() - begun)})`), facts);
  }
}

function openResource(place) {
  return (uri) => run(place, (options) => client.request("resources/read", { uri }, options), showContents);
}

function showContents(value) {
  return (value.contents ?? []).map((contents) => el("div", { class: "content" }, resource(contents)));
}

function showTool(place, tool) {
  const schema = tool.inputSchema ?? {};
  const form = objectForm(schema);
  const raw = el("textarea", { rows: "8", spellcheck: "false", "aria-label": "Arguments as JSON" });
  const answer = el("div", { id: "answer" });
  let isRaw = false;
  const body = el("div", {}, form.element);
  const toggle = el("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "JSON");
  toggle.addEventListener("click", () => {
    isRaw = !isRaw;
    toggle.setAttribute("aria-pressed", String(isRaw));
    if (isRaw) raw.value = JSON.stringify(quietly(form.read), null, 2);
    else form.write(quietly(() => JSON.parse(raw.value)));
    fill(body, isRaw ? raw : form.element);
  });
  const given = () => (isRaw ? JSON.parse(raw.value || "{}") : form.read());
  const made = el("form", { novalidate: true }, body, el("div", { class: "row" }, el("button", { type: "submit", class: "main" }, "Call"), toggle, copyButton(() => line(tool, quietly(given)), "Copy gladhand call")));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    let values;
    try {
      values = given();
    } catch (error) {
      fill(answer, el("p", { class: "bad", role: "alert" }, error.message));
      return;
    }
    run(answer, (options) => client.request("tools/call", { name: tool.name, arguments: values }, options), (value) => result(value, openResource(answer)));
  });
  const hints = Object.entries(tool.annotations ?? {}).filter(([name]) => name !== "title");
  fill(
    place,
    el(
      "section",
      { class: "panel", "aria-label": "Tool" },
      el("header", {}, el("h2", {}, tool.title ?? tool.name, " ", tool.title ? el("code", {}, tool.name) : null)),
      el(
        "div",
        { class: "body" },
        tool.description && el("pre", { class: "plain" }, tool.description),
        hints.length > 0 ? el("p", {}, hints.map(([name, value]) => [el("span", { class: "chip" }, `${name}: ${JSON.stringify(value)}`), " "])) : null,
        made,
        el("details", {}, el("summary", {}, "Schemas"), code(JSON.stringify({ inputSchema: tool.inputSchema, outputSchema: tool.outputSchema }), "Schemas")),
      ),
    ),
    el("section", { class: "panel", "aria-label": "Result" }, el("div", { class: "body" }, answer)),
  );
  fill(answer, el("p", { class: "faint" }, "The result appears here."));
}

function quietly(read) {
  try {
    return read();
  } catch {
    return {};
  }
}

function line(tool, values) {
  return `gladhand call '${tool.name.replaceAll("'", `'\\''`)}' --args '${JSON.stringify(values).replaceAll("'", `'\\''`)}' ${location.origin}/mcp`;
}

function showPrompt(place, prompt) {
  const answer = el("div", { id: "answer" });
  const fields = (prompt.arguments ?? []).map((argument) => completed(argument, { type: "ref/prompt", name: prompt.name }, () => given()));
  const given = () => Object.fromEntries(fields.map(({ name, input }) => [name, input.value]).filter(([, value]) => value !== ""));
  const form = el("form", {}, fields.map((field) => field.element), el("button", { type: "submit", class: "main" }, "Get prompt"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(answer, (options) => client.request("prompts/get", { name: prompt.name, arguments: given() }, options), (value) => [
      value.description && el("p", {}, value.description),
      (value.messages ?? []).map((message) => el("div", {}, el("h3", {}, message.role), block(message.content, openResource(answer)))),
    ]);
  });
  offer(place, prompt.title ?? prompt.name, prompt.description, form, answer);
}

function showResource(place, one) {
  const answer = el("div", { id: "answer" });
  let form;
  if (one.uri !== undefined) {
    form = el("form", {}, el("p", { class: "mono" }, one.uri), el("button", { type: "submit", class: "main" }, "Read"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      openResource(answer)(one.uri);
    });
  } else {
    const names = [...new Set([...one.uriTemplate.matchAll(/\{[+#./;?&]?([^}]+)\}/g)].flatMap((match) => match[1].split(",")).map((name) => name.replace(/[*:].*$/, "")))];
    const reference = { type: "ref/resource", uri: one.uriTemplate };
    const fields = names.map((name) => completed({ name, required: true }, reference, () => Object.fromEntries(fields.map((field) => [field.name, field.input.value]))));
    const uri = () => one.uriTemplate.replace(/\{([+#./;?&]?)([^}]+)\}/g, (_, kind, list) => expand(kind, list, fields));
    form = el("form", {}, el("p", { class: "mono" }, one.uriTemplate), fields.map((field) => field.element), el("button", { type: "submit", class: "main" }, "Read"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      openResource(answer)(uri());
    });
  }
  offer(place, one.title ?? one.name, one.description, form, answer);
}

/** Fills one expression of a URI template. */
function expand(kind, list, fields) {
  const values = list.split(",").map((name) => name.replace(/[*:].*$/, "")).map((name) => [name, fields.find((field) => field.name === name)?.input.value ?? ""]);
  const encode = kind === "+" || kind === "#" ? encodeURI : encodeURIComponent;
  const named = values.map(([name, value]) => `${name}=${encode(value)}`);
  const plain = values.map(([, value]) => encode(value));
  switch (kind) {
    case "?":
      return `?${named.join("&")}`;
    case "&":
      return `&${named.join("&")}`;
    case ";":
      return `;${named.join(";")}`;
    case "#":
    case "/":
    case ".":
      return kind + plain.join(kind === "#" ? "," : kind);
    default:
      return plain.join(",");
  }
}

function offer(place, title, description, form, answer) {
  fill(
    place,
    el("section", { class: "panel", "aria-label": title }, el("header", {}, el("h2", {}, title)), el("div", { class: "body" }, description && el("pre", { class: "plain" }, description), form)),
    el("section", { class: "panel", "aria-label": "Result" }, el("div", { class: "body" }, answer)),
  );
  fill(answer, el("p", { class: "faint" }, "The result appears here."));
}

let nextList = 0;

/** A field whose values the server completes while they are typed. */
function completed(argument, reference, context) {
  const id = `completed-${++nextList}`;
  const values = el("datalist", { id: `${id}-values` });
  const input = el("input", { type: "text", id, list: `${id}-values`, autocomplete: "off", required: argument.required, "data-name": argument.name });
  let timer = null;
  const ask = async () => {
    if (!client?.capabilities.completions) return;
    const others = { ...context() };
    delete others[argument.name];
    const params = { ref: reference, argument: { name: argument.name, value: input.value }, context: { arguments: others } };
    const found = await client.request("completion/complete", params).catch(() => null);
    fill(values, (found?.completion?.values ?? []).slice(0, 100).map((value) => el("option", { value })));
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 150);
  };
  input.addEventListener("input", soon);
  input.addEventListener("focus", soon);
  return {
    name: argument.name,
    input,
    element: el("div", { class: "field" }, el("label", { for: id }, argument.title ?? argument.name, " ", el("span", { class: "faint" }, argument.required ? "required" : "")), input, values, el("p", { class: "help" }, argument.description ?? "")),
  };
}
