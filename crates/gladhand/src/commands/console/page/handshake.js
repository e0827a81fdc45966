// A session as a sequence of messages, played at reading speed, beside the table of what its two sides agreed.

import { code, copyButton, duration, el, fill, framed, put } from "./dom.js";
import { fetchJson, isAttempt, isClient, nameOf, store, watch } from "./store.js";

/** Messages that the drawing shows at most. */
const MESSAGES = 500;

/** How long each message is shown before the next one, in milliseconds. */
const READING = 1100;

/** How often the list is drawn again at most, in milliseconds. */
const DRAWING = 500;

/** Sessions that the list shows at most. */
const SESSIONS = 300;

export function handshake(main, id) {
  const list = el("ul", { class: "list scroll" });
  const search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search sessions", oninput: () => drawList() });
  const detail = el("div", { class: "stack" });
  let stop = () => {};
  let current = id || firstSession();

  fill(
    main,
    el(
      "div",
      { class: "grid two" },
      el("section", { class: "panel", "aria-label": "Sessions" }, el("header", {}, el("h2", {}, "Sessions"), search), list),
      detail,
    ),
  );

  function drawList() {
    const wanted = search.value.trim().toLowerCase();
    const all = [...store.sessions.values()].filter((session) => `${session.id} ${nameOf(session)} ${session.dialect} ${session.version}`.toLowerCase().includes(wanted));
    all.sort((a, b) => Number(isAttempt(a)) - Number(isAttempt(b)) || Number(a.closed) - Number(b.closed) || b.number - a.number);
    fill(list, all.slice(0, SESSIONS).map(entry));
    if (all.length === 0) fill(list, el("li", { class: "empty" }, store.sessions.size === 0 ? "No session so far." : "No session matches."));
    if (all.length > SESSIONS) put(list, el("li", { class: "empty" }, `and ${all.length - SESSIONS} more`));
  }

  function entry(session) {
    const button = el(
      "button",
      { type: "button", "aria-current": String(session.id === current) },
      nameOf(session),
      el("span", { class: "faint" }, [isClient(session) ? "client" : "upstream", session.dialect, session.version, isAttempt(session) ? "no session" : session.closed ? "ended" : ""].filter(Boolean).join(" · ")),
    );
    button.addEventListener("click", () => {
      location.hash = `#sessions/${encodeURIComponent(session.id)}`;
    });
    return el("li", {}, button);
  }

  drawList();
  if (current) stop = showSession(detail, current);
  // On a narrow window, the list is above the session.
  if (id && window.innerWidth < 1024) detail.scrollIntoView({ block: "start" });
  if (!current) fill(detail, el("section", { class: "panel" }, el("p", { class: "empty" }, "Connect a client, and its session appears here.")));

  let timer = null;
  const redraw = () => {
    timer = null;
    drawList();
    if (!current && (current = firstSession())) stop = showSession(detail, current);
  };
  const unwatch = watch((event) => {
    if (event.t === "session" || event.t === "all") timer ??= setTimeout(redraw, DRAWING);
  });
  return () => {
    unwatch();
    clearTimeout(timer);
    stop();
  };
}

function firstSession() {
  const all = [...store.sessions.values()];
  return (all.find(isClient) ?? all[0])?.id ?? "";
}

/** Shows one session. Returns how to stop. */
function showSession(place, id) {
  const sequence = el("section", { class: "panel", "aria-label": "Messages", id: "sequence" });
  const agreement = el("section", { class: "panel", "aria-label": "Agreement", id: "agreement" });
  const player = newPlayer();
  const title = el("h2", {}, id);
  const facts = el("p", { class: "faint" });
  const arrows = el("ol", { class: "arrows" });
  const ends = el("div", { class: "ends" });
  const slider = el("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Message" });
  const position = el("span", { class: "faint" });
  const play = el("button", { type: "button", class: "main" }, "Play");
  let lines = [];
  let first = 0;

  fill(
    sequence,
    el("header", {}, title, play, slider, position),
    el("div", { class: "sequence" }, facts, ends, arrows),
    el(
      "div",
      { class: "body row" },
      el("a", { href: `/console/export?id=${encodeURIComponent(id)}&as=recording`, download: "" }, "Save as recording"),
      el("a", { href: `/console/export?id=${encodeURIComponent(id)}&as=html`, download: "" }, "Save as HTML"),
    ),
  );
  fill(place, el("div", { class: "grid halves" }, sequence, agreement));
  fill(agreement, el("p", { class: "empty" }, "Loading…"));

  function newPlayer() {
    return { timer: null, until: Infinity };
  }

  function pause() {
    clearInterval(player.timer);
    player.timer = null;
    fill(play, "Play");
  }

  function drawPosition() {
    const shown = Math.min(player.until, lines.length);
    slider.max = String(lines.length);
    slider.value = String(shown);
    fill(position, `${shown} of ${lines.length}`);
  }

  /** Shows the messages up to the position of the player. Only the difference is drawn. */
  function draw(isPlayed) {
    const shown = lines.slice(0, player.until);
    while (arrows.children.length > shown.length) arrows.lastChild.remove();
    for (let at = arrows.children.length; at < shown.length; at += 1) {
      const item = arrow(shown[at], first);
      if (isPlayed) item.classList.add("is-new");
      arrows.append(item);
      if (isPlayed) item.scrollIntoView({ block: "nearest" });
    }
    drawPosition();
  }

  play.addEventListener("click", () => {
    if (player.timer) return pause();
    if (player.until >= lines.length) {
      player.until = 0;
      fill(arrows);
    }
    fill(play, "Pause");
    const next = () => {
      if (player.until >= lines.length) {
        player.until = Infinity;
        return pause();
      }
      player.until += 1;
      draw(true);
    };
    player.timer = setInterval(next, READING);
    next();
  });
  slider.addEventListener("input", () => {
    pause();
    player.until = Number(slider.value);
    draw(false);
  });

  async function load() {
    let loaded;
    try {
      loaded = await fetchJson(`data/session?id=${encodeURIComponent(id)}`);
    } catch (error) {
      fill(sequence, el("p", { class: "empty" }, `The session cannot be shown: ${error.message}`));
      fill(agreement);
      return;
    }
    const { session } = loaded;
    lines = loaded.lines.slice(0, MESSAGES);
    first = lines[0]?.ms ?? 0;
    fill(title, nameOf(session), " ", el("span", { class: "faint" }, [session.dialect, session.version].filter(Boolean).join(" ")));
    const said = [session.id, session.principal && `principal ${session.principal}`, `${session.messages} messages`, session.reason && `ended: ${session.reason}`];
    if (session.forgotten > 0) said.push(`${session.forgotten} older messages are not kept`);
    if (loaded.lines.length > MESSAGES) said.push(`the first ${MESSAGES} are shown`);
    fill(facts, said.filter(Boolean).join(" · "));
    const [client, server] = isClient(session) ? [nameOf(session), "gladhand"] : ["gladhand", nameOf(session)];
    fill(ends, el("span", { class: "client" }, client), el("span", { class: "server" }, server));
    fill(arrows);
    draw(false);
    await showAgreement(agreement, id);
  }

  load();

  const more = framed(async () => {
    const loaded = await fetchJson(`data/session?id=${encodeURIComponent(id)}`).catch(() => null);
    if (!loaded || loaded.lines.length <= lines.length) return;
    const had = lines.length;
    lines = loaded.lines.slice(0, MESSAGES);
    if (had === 0) return load();
    draw(false);
    // The opening may have ended only now.
    if (had < 8) await showAgreement(agreement, id);
  });
  let timer = null;
  const unwatch = watch((event) => {
    if (event.t !== "line" || event.session !== id || lines.length >= MESSAGES || timer) return;
    timer = setTimeout(() => {
      timer = null;
      more();
    }, 500);
  });
  return () => {
    unwatch();
    pause();
    clearTimeout(timer);
  };
}

/** One message as an arrow that opens to its text. */
export function arrow(line, first) {
  const body = el("div", {});
  const label = line.tool ? `${line.label}: ${line.tool}` : line.label;
  const button = el(
    "button",
    { type: "button", class: "arrow", "aria-expanded": "false" },
    el("span", { class: "label" }, label),
    first === null ? null : el("span", { class: "time" }, [`+${duration(line.ms - first)}`, line.took != null && `took ${duration(line.took)}`].filter(Boolean).join(", ")),
    el("span", { class: "shaft", "aria-hidden": "true" }),
  );
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) fill(body);
    else fill(body, code(line.text, label), copyButton(() => line.text, "Copy message"));
  });
  return el("li", { class: `from-${line.from}${line.error ? " is-bad" : ""}` }, button, body);
}

async function showAgreement(place, id) {
  let agreed;
  try {
    agreed = await fetchJson(`data/agreement?id=${encodeURIComponent(id)}`);
  } catch {
    agreed = null;
  }
  fill(place, agreementOf(agreed));
}

/** The capability table: declared by each side, in force or not, and the answer to what is closed. */
export function agreementOf(agreed) {
  if (!agreed) {
    return [el("header", {}, el("h2", {}, "Agreement")), el("p", { class: "empty" }, "The kept messages contain no complete opening. Requests without a session carry their declarations one by one.")];
  }
  if (agreed.refusal) return [el("header", {}, el("h2", {}, "No session")), el("p", { class: "empty bad" }, agreed.refusal)];
  const rows = agreed.terms.map((term) =>
    el(
      "tr",
      {},
      el("td", {}, el("code", {}, term.capability), " ", el("span", { class: "faint" }, term.owner)),
      el("td", { class: "word" }, term.client),
      el("td", { class: "word" }, term.server),
      el("td", { class: term.agreed ? "good" : "bad" }, term.agreed ? "in force" : `closed: ${term.why}`),
    ),
  );
  const closed = agreed.closed.map((request) =>
    el(
      "details",
      {},
      el("summary", {}, el("code", {}, request.name), ` from the ${request.from} `, el("span", { class: "faint" }, request.needs ? `needs ${request.needs}` : "not in this version")),
      request.answer ? code(request.answer, `Answer to ${request.name}`) : el("p", { class: "faint" }, "It gets no answer."),
    ),
  );
  const version = agreed.asked_version ? `${agreed.version}, asked for ${agreed.asked_version}` : agreed.version;
  return [
    el("header", {}, el("h2", {}, "Agreement ", el("span", { class: "faint" }, `${agreed.dialect} ${version}`))),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Capabilities" },
      el("table", {}, el("thead", {}, el("tr", {}, ["Capability", "Client", "Server", "Verdict"].map((title) => el("th", { scope: "col" }, title)))), el("tbody", {}, rows)),
    ),
    rows.length === 0 ? el("p", { class: "empty" }, "Neither side declared a capability.") : null,
    el("div", { class: "body" }, el("h3", {}, `Closed requests (${closed.length})`), el("p", { class: "faint" }, "With the exact answer that each one gets, computed by the dialect itself."), closed),
  ];
}
