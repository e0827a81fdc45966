// One call on its way: the client's request, the policy, the upstream, and back.

import { code, copyButton, duration, el, fill } from "./dom.js";
import { fetchJson, store } from "./store.js";

/** Shows the path of a call. */
export async function showCall(place, id) {
  let path;
  try {
    path = await fetchJson(`data/call?id=${encodeURIComponent(id)}`);
  } catch (error) {
    fill(place, el("section", { class: "panel" }, el("p", { class: "empty" }, `The call cannot be shown: ${error.message}`)));
    return;
  }
  const { call } = path;
  const begun = path.client_request?.line.ms ?? call.begun_ms;
  const isRefused = Boolean(call.rule);
  const steps = [
    message("The client asks", path.client_request, begun),
    el(
      "li",
      { class: isRefused ? "is-bad" : "" },
      el("h3", {}, "Policy ", time(call.begun_ms - begun)),
      isRefused
        ? el("p", { class: "bad" }, `Refused by ${call.rule}`)
        : el("p", {}, call.upstream ? `Allowed: ${call.name} is ${call.own} of ${call.upstream}` : call.outcome === undefined ? "The call runs" : "No provider was called"),
      call.failure && el("p", { class: "bad" }, call.failure),
    ),
    !isRefused && message("The upstream is asked", path.upstream_request, begun),
    !isRefused && message("The upstream answers", path.upstream_answer, begun),
    message("The client is answered", path.client_answer, begun),
  ];
  const panel = el(
    "section",
    { class: "panel", id: "call", "aria-label": "Call" },
    el(
      "header",
      {},
      el("h2", {}, call.name || call.kind, " ", el("span", { class: "faint" }, call.outcome ? `${call.outcome}, ${duration(call.duration_ms)}` : "runs")),
      el("button", { type: "button", class: "quiet", onclick: () => showCall(place, id) }, "refresh"),
      el("button", { type: "button", class: "quiet", onclick: () => fill(place) }, "close"),
    ),
    el(
      "div",
      { class: "body" },
      el("p", { class: "faint" }, [call.client, call.principal && `as ${call.principal}`, `${call.dialect} ${call.version}`, call.session].filter(Boolean).join(" · ")),
      el("ol", { class: "path" }, steps),
      call.kind === "tool" && path.client_request && el("div", { class: "row" }, lines(path).map(([label, text]) => copyButton(() => text, label))),
    ),
  );
  fill(place, panel);
}

function time(ms) {
  return el("span", { class: "faint" }, ms > 0 ? `+${duration(ms)}` : "");
}

function message(title, step, begun) {
  if (!step) return el("li", { class: "is-none" }, el("h3", {}, title), el("p", { class: "faint" }, "no such message is kept"));
  const { line } = step;
  return el(
    "li",
    { class: line.error ? "is-bad" : "" },
    el("h3", {}, title, " ", time(line.ms - begun)),
    el("p", { class: "faint" }, `${line.label} in `, el("a", { href: `#sessions/${encodeURIComponent(step.session)}` }, step.session)),
    el("details", {}, el("summary", {}, `${line.bytes} bytes`), code(line.text, title)),
  );
}

/** The call as a line for a shell. Masked secrets stay masked. */
function lines(path) {
  const { call } = path;
  let params = {};
  try {
    params = JSON.parse(path.client_request.line.text).params ?? {};
  } catch {
    // The line is shown without its arguments.
  }
  const given = params.arguments ?? {};
  const url = `${location.origin}/mcp`;
  const own = `gladhand call ${quote(call.name)} --args ${quote(JSON.stringify(given))} ${url}`;
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "curl", version: "1" },
  };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: call.name, arguments: given, _meta: meta } };
  const headers = ["Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", `Mcp-Name: ${call.name}`];
  const curl = `curl ${url} ${headers.map((header) => `-H ${quote(header)}`).join(" ")} -d ${quote(JSON.stringify(body))}`;
  return store.hasMcp ? [["Copy gladhand call", own], ["Copy curl", curl]] : [];
}

function quote(text) {
  return /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
