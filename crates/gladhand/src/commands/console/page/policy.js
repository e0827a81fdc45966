// What the policy refused and by which rule, and the changed definitions that wait to be approved.

import { clock, el, fill, note } from "./dom.js";
import { fetchJson, store, watch } from "./store.js";

/** How often the waiting definitions are asked for, in milliseconds. */
const PERIOD = 5000;

/** Refused calls that are shown of one rule. */
const CALLS = 20;

export function policy(main) {
  const waiting = el("div", { class: "body", id: "waiting" });
  const refused = el("div", { class: "body", id: "refused" });
  fill(
    main,
    el(
      "div",
      { class: "grid halves" },
      el("section", { class: "panel", "aria-label": "Changed definitions" }, el("header", {}, el("h2", {}, "Definitions that wait for approval")), waiting),
      el("section", { class: "panel", "aria-label": "Refused calls" }, el("header", {}, el("h2", {}, "Refused calls by rule")), refused),
    ),
  );
  let shown = "";

  async function load() {
    const list = await fetchJson("data/pins").catch((error) => error);
    const text = list instanceof Error ? list.message : JSON.stringify(list);
    if (text === shown) return;
    shown = text;
    if (list instanceof Error) fill(waiting, el("p", { class: "bad" }, list.message));
    else if (list.length === 0) fill(waiting, el("p", { class: "faint" }, "No pinned tool, prompt or instruction has changed."));
    else fill(waiting, list.map((one) => definition(one, load)));
  }

  function drawRefused() {
    const rules = new Map();
    for (const call of store.calls.values()) {
      if (call.rule) rules.set(call.rule, [...(rules.get(call.rule) ?? []), call]);
    }
    if (rules.size === 0) fill(refused, el("p", { class: "faint" }, "No call was refused since the console started."));
    else fill(refused, [...rules].map(([rule, calls]) => ruleOf(rule, calls)));
  }

  load();
  drawRefused();
  const timer = setInterval(load, PERIOD);
  const unwatch = watch((event) => {
    if (event.t === "all" || (event.t === "call" && event.call.rule)) drawRefused();
  });
  return () => {
    clearInterval(timer);
    unwatch();
  };
}

function ruleOf(rule, calls) {
  const rows = calls.slice(-CALLS).reverse().map((call) => el("li", {}, el("span", { class: "mono faint" }, clock(store.startedMs + call.begun_ms)), ` ${call.name} `, el("span", { class: "faint" }, `from ${call.client || call.session}`), call.failure && el("p", { class: "faint" }, call.failure)));
  return el("details", { open: true }, el("summary", {}, el("code", {}, rule), ` refused ${calls.length}`), el("ul", {}, rows));
}

function definition(one, load) {
  const isShort = one.changes === null;
  const approve = el("button", { type: "button", class: "main", disabled: isShort }, "Approve");
  approve.addEventListener("click", async () => {
    approve.disabled = true;
    try {
      await fetchJson("data/approve", { method: "POST", body: JSON.stringify({ key: one.key, sha256: one.sha256 }) });
      note(`${one.name} is approved`);
    } catch (error) {
      note(error.message, true);
    }
    load();
  });
  const line = `gladhand policy approve ${one.name}`;
  return el(
    "article",
    { class: "content" },
    el("h3", {}, one.name, " ", el("span", { class: "faint" }, `pinned ${one.since}, changed ${one.at}`)),
    isShort ? el("p", { class: "bad" }, "The new definition is too long to be shown, so it cannot be approved.") : el("ul", {}, one.changes.map((change) => el("li", { class: "mono" }, change))),
    store.mayApprove ? el("div", { class: "row" }, approve) : el("p", {}, "This console has no token and approves nothing. Run ", el("code", {}, line), "."),
  );
}
