// The live view: sessions, upstreams, and calls and messages as they happen.

import { clock, duration, el, fill, framed, put, sparkline } from "./dom.js";
import { isAttempt, isClient, nameOf, now, store, watch } from "./store.js";
import { showCall } from "./call.js";

/** Rows that a table shows at most. */
const ROWS = 150;

/** How often ages are drawn again, in milliseconds. */
const AGES = 1000;

/** How often the sessions are drawn again at most, in milliseconds. */
const SESSIONS = 1000;

/** State that survives a change of the view. */
const chosen = { search: "", session: "", kind: "calls", onlyErrors: false, isPaused: false };

export function live(main) {
  const sessions = el("tbody");
  const upstreams = el("div");
  const head = el("thead");
  const rows = el("tbody");
  const detail = el("div", { class: "stack" });
  const count = el("span", { class: "faint", id: "count" });
  const sessionCount = el("span", { class: "faint" });

  const search = el("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search calls and messages",
    value: chosen.search,
    oninput: () => {
      chosen.search = search.value;
      drawRows();
    },
  });
  const pick = el("select", {
    "aria-label": "Session",
    onchange: () => {
      chosen.session = pick.value;
      drawRows();
    },
  });
  const toggle = (label, name) => {
    const button = el("button", { type: "button", class: "quiet", "aria-pressed": String(chosen[name]) }, label);
    button.addEventListener("click", () => {
      chosen[name] = !chosen[name];
      button.setAttribute("aria-pressed", String(chosen[name]));
      if (name === "isPaused") frozen = chosen.isPaused ? snapshot() : null;
      drawRows();
    });
    return button;
  };
  const kinds = ["calls", "messages"].map((kind) => {
    const button = el("button", { type: "button", class: "quiet", "aria-pressed": String(chosen.kind === kind) }, kind);
    button.addEventListener("click", () => {
      chosen.kind = kind;
      kinds.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      drawRows();
    });
    return button;
  });

  fill(
    main,
    el(
      "div",
      { class: "grid wide" },
      el(
        "div",
        { class: "stack" },
        el(
          "section",
          { class: "panel", "aria-label": "Traffic" },
          el(
            "header",
            {},
            el("h2", {}, "Traffic ", count),
            el("div", { class: "row", role: "group", "aria-label": "Rows" }, kinds),
            search,
            pick,
            toggle("errors only", "onlyErrors"),
            toggle("pause", "isPaused"),
          ),
          el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Calls and messages" }, el("table", { id: "traffic" }, head, rows)),
        ),
        el(
          "section",
          { class: "panel", "aria-label": "Sessions" },
          el("header", {}, el("h2", {}, "Sessions ", sessionCount)),
          el(
            "div",
            { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of sessions" },
            el(
              "table",
              { id: "sessions" },
              el(
                "thead",
                {},
                el(
                  "tr",
                  {},
                  ["Peer", "Dialect"].map((title) => el("th", { scope: "col" }, title)),
                  el("th", { scope: "col", class: "num hide-small" }, "Age"),
                  el("th", { scope: "col", class: "num" }, "Calls"),
                  el("th", { scope: "col", class: "num" }, "Errors"),
                  el("th", { scope: "col", class: "hide-small" }, "Latency"),
                ),
              ),
              sessions,
            ),
          ),
        ),
      ),
      el(
        "div",
        { class: "stack" },
        detail,
        el("section", { class: "panel", "aria-label": "Upstreams" }, el("header", {}, el("h2", {}, "Upstreams")), upstreams),
      ),
    ),
  );

  let picked = null;
  const sessionRows = keptRows(sessionRow);
  const callRows = keptRows(callRow);
  const lineRows = keptRows(lineRow);
  let frozen = chosen.isPaused ? snapshot() : null;
  let selected = null;

  function snapshot() {
    return { calls: [...store.calls.values()], lines: [...store.lines] };
  }

  function drawSessions() {
    const all = [...store.sessions.values()].filter((session) => !isAttempt(session));
    const open = all.filter((session) => !session.closed);
    fill(sessionCount, `${open.length} open${all.length > open.length ? `, ${all.length - open.length} ended` : ""}`);
    all.sort((a, b) => Number(a.closed) - Number(b.closed) || b.number - a.number);
    fill(sessions, sessionRows(all.slice(0, ROWS), (session) => session.id, (session) => `${session.messages} ${session.closed} ${session.version}`));
    if (all.length === 0) fill(sessions, emptyRow(6, "No client and no server has connected since the console started."));
    if (all.length > ROWS) put(sessions, emptyRow(6, `and ${all.length - ROWS} more`));
    const ids = all.filter(isClient).slice(0, ROWS);
    const known = ids.map((session) => session.id).join();
    if (document.activeElement !== pick && known !== picked) {
      picked = known;
      const options = ids.map((session) => el("option", { value: session.id }, nameOf(session) === session.id ? session.id : `${nameOf(session)} (${session.id})`));
      fill(pick, el("option", { value: "" }, "all sessions"), options);
      pick.value = chosen.session;
    }
  }

  function drawUpstreams() {
    const all = store.status?.upstreams ?? [];
    fill(upstreams, all.map(upstream));
    if (all.length === 0) fill(upstreams, el("p", { class: "empty" }, "No upstream is configured."));
  }

  function drawRows() {
    const source = frozen ?? snapshot();
    if (chosen.kind === "calls") {
      fill(head, headings(["Time", "Tool or target", "Client", "Upstream"], "Duration"));
      const shown = source.calls.filter(isShownCall);
      fill(count, `${shown.length}${frozen ? ", paused" : ""}`);
      fill(rows, callRows(shown.slice(-ROWS).reverse(), (call) => call.id, (call) => `${call.outcome} ${call.id === selected}`));
      if (shown.length === 0) fill(rows, emptyRow(5, "No call so far."));
    } else {
      fill(head, headings(["Time", "Message", "Session", "From"], "Took"));
      const shown = source.lines.filter(isShownLine);
      fill(count, `${shown.length}${frozen ? ", paused" : ""}`);
      fill(rows, lineRows(shown.slice(-ROWS).reverse(), (line) => line.n, () => ""));
      if (shown.length === 0) fill(rows, emptyRow(5, "No message so far."));
    }
  }

  function isShownCall(call) {
    const isError = call.outcome && call.outcome !== "ok";
    const text = `${call.name} ${call.client} ${call.upstream ?? ""} ${call.outcome ?? ""} ${call.rule ?? ""} ${call.session}`;
    return (!chosen.onlyErrors || isError) && (!chosen.session || call.session === chosen.session) && has(text);
  }

  function isShownLine(line) {
    return (!chosen.onlyErrors || line.error) && (!chosen.session || line.session === chosen.session) && has(`${line.label} ${line.tool ?? ""} ${line.session}`);
  }

  function has(text) {
    return text.toLowerCase().includes(chosen.search.trim().toLowerCase());
  }

  function callRow(call) {
    const isBad = call.outcome && call.outcome !== "ok";
    const row = el(
      "tr",
      { class: isBad ? "pick is-bad" : "pick", "aria-selected": String(call.id === selected) },
      el("td", { class: "mono hide-small" }, clock(store.startedMs + call.begun_ms)),
      el("td", {}, el("button", { type: "button", class: "link-like" }, call.name || call.kind), call.kind === "tool" ? null : el("span", { class: "faint" }, ` ${call.kind}`)),
      el("td", { class: "hide-small" }, call.client || call.session),
      el("td", {}, call.upstream ?? "", call.rule ? el("span", { class: "chip bad" }, `refused by ${call.rule}`) : null),
      el("td", { class: "num" }, call.outcome === undefined ? "runs" : isBad ? `${call.outcome} ${duration(call.duration_ms)}` : duration(call.duration_ms)),
    );
    row.addEventListener("click", () => {
      selected = call.id;
      drawRows();
      showCall(detail, call.id);
    });
    return row;
  }

  function lineRow(line) {
    return el(
      "tr",
      { class: line.error ? "is-bad" : "" },
      el("td", { class: "mono hide-small" }, clock(store.startedMs + line.ms)),
      el("td", {}, el("a", { href: `#sessions/${encodeURIComponent(line.session)}` }, line.tool ? `${line.label}: ${line.tool}` : line.label)),
      el("td", { class: "hide-small" }, line.session),
      el("td", {}, line.from),
      el("td", { class: "num" }, duration(line.took)),
    );
  }

  drawSessions();
  drawUpstreams();
  drawRows();

  const due = { sessions: false, rows: false, upstreams: false };
  let sessionsDrawn = 0;
  const draw = framed(() => {
    if (due.sessions && performance.now() - sessionsDrawn >= SESSIONS) {
      drawSessions();
      sessionsDrawn = performance.now();
      due.sessions = false;
    }
    if (due.upstreams) drawUpstreams();
    if (due.rows && !frozen) drawRows();
    due.rows = due.upstreams = false;
    if (due.sessions) soon();
  });
  let drawn = 0;
  let timer = null;
  // At most four times a second, however much happens.
  const soon = () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = null;
      drawn = performance.now();
      draw();
    }, Math.max(0, 250 - (performance.now() - drawn)));
  };
  const unwatch = watch((event) => {
    if (["line", "session", "all"].includes(event.t)) due.sessions = true;
    if (["line", "call", "all"].includes(event.t)) due.rows = true;
    if (["status", "session", "all"].includes(event.t)) due.upstreams = true;
    soon();
  });
  const ages = setInterval(() => {
    for (const cell of sessions.querySelectorAll("[data-since]")) cell.textContent = duration(now() - Number(cell.dataset.since));
  }, AGES);
  return () => {
    unwatch();
    clearInterval(ages);
    clearTimeout(timer);
  };
}

/** Makes rows, and makes a row again only if it has changed. */
function keptRows(make) {
  let kept = new Map();
  return (entries, keyOf, stampOf) => {
    const next = new Map();
    for (const entry of entries) {
      const [key, stamp] = [keyOf(entry), stampOf(entry)];
      const known = kept.get(key);
      next.set(key, known?.stamp === stamp ? known : { stamp, row: make(entry) });
    }
    kept = next;
    return [...next.values()].map(({ row }) => row);
  };
}

function headings(titles, last) {
  const hidden = ["Time", "Client", "Session"];
  return el("tr", {}, titles.map((title) => el("th", { scope: "col", class: hidden.includes(title) ? "hide-small" : "" }, title)), el("th", { scope: "col", class: "num" }, last));
}

function emptyRow(columns, text) {
  return el("tr", {}, el("td", { colspan: String(columns), class: "faint" }, text));
}

function sessionRow(session) {
  const age = session.closed ? session.last_ms - session.first_ms : now() - session.first_ms;
  const who = [session.peer_version, session.principal && `as ${session.principal}`].filter(Boolean).join(", ");
  return el(
    "tr",
    { class: session.closed ? "is-closed" : "" },
    el(
      "td",
      {},
      el("span", { class: "chip" }, isClient(session) ? "client" : "upstream"),
      " ",
      el("a", { href: `#sessions/${encodeURIComponent(session.id)}` }, nameOf(session)),
      " ",
      el("span", { class: "faint" }, who),
    ),
    el("td", {}, session.dialect ?? "", " ", el("span", { class: "faint" }, session.version ?? "")),
    el("td", { class: "num hide-small", "data-since": session.closed ? undefined : String(session.first_ms) }, duration(age)),
    el("td", { class: "num" }, session.calls),
    el("td", { class: session.errors ? "num bad" : "num" }, session.errors),
    el("td", { class: "hide-small" }, sparkline(session.latencies)),
  );
}

function upstream(status) {
  const state = { open: "good", failed: "bad", opening: "warn" }[status.state] ?? "";
  const session = [...store.sessions.values()].filter((one) => one.upstream === status.name && !one.closed).at(-1);
  const facts = [
    session && `${session.dialect} ${session.version}`,
    `${status.tools} tools`,
    `${status.calls} running`,
    `${status.ways} connections`,
    `${status.restarts} restarts`,
    status.processes.length > 0 && `process ${status.processes.join(", ")}`,
  ];
  return el(
    "div",
    { class: "upstream" },
    el("div", { class: "row" }, el("h3", {}, status.name), el("span", { class: `chip ${state}` }, status.state)),
    el("p", { class: "faint" }, facts.filter(Boolean).join(" · ")),
    el("p", { class: "mono faint" }, status.target),
    (status.stderr ?? []).length > 0 && el("details", {}, el("summary", { class: "faint" }, "stderr"), el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": `stderr of ${status.name}` }, status.stderr.join("\n"))),
    status.detail && el("p", { class: status.state === "failed" ? "bad" : "faint" }, status.detail),
    status.unlisted.map((why) => el("p", { class: "bad" }, why)),
    status.offences.map((one) => el("p", { class: "bad" }, `${one.count} × ${one.rule}`)),
  );
}
