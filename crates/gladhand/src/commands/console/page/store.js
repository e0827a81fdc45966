// What the page knows of the server: sessions, calls and the newest messages. One stream of events keeps it up to date.

import { note } from "./dom.js";

/** Number of messages that the live view remembers. */
const LINES = 2000;

/** Number of calls that the live view remembers. */
const CALLS = 1000;

/** Number of sessions. The server keeps fewer. */
const SESSIONS = 2500;

/** Number of durations for the line of a session. */
const LATENCIES = 40;

export const store = {
  title: "",
  isLive: false,
  hasMcp: false,
  needsToken: false,
  mayApprove: false,
  startedMs: 0,
  /** Session id → summary. */
  sessions: new Map(),
  /** Call id → call, the oldest first. */
  calls: new Map(),
  /** The newest messages, the oldest first. */
  lines: [],
  status: null,
  remarks: [],
  lost: 0,
  /** `open`, `lost` or `ended`. */
  link: "open",
  offset: 0,
};

const listeners = new Set();

/** Calls a function after changes, until the returned function is called. */
export function watch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function changed(event) {
  for (const listener of listeners) listener(event);
}

/** Data of the server. */
export async function fetchJson(path, options) {
  const response = await fetch(`/console/${path}`, options);
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

/** Milliseconds since the console started, as the server counts them. */
export function now() {
  return performance.now() + store.offset;
}

async function overview() {
  const all = await fetchJson("data/overview");
  store.title = all.title;
  store.version = all.version;
  store.isLive = all.live;
  store.hasMcp = all.mcp;
  store.needsToken = all.needs_token;
  store.mayApprove = all.may_approve;
  store.startedMs = all.started_ms;
  store.remarks = all.remarks;
  store.status = all.status;
  store.lost = all.dropped;
  store.offset = (all.now_ms ?? 0) - performance.now();
  store.sessions = new Map(all.sessions.map((session) => [session.id, session]));
  store.calls = new Map((all.calls ?? []).map((call) => [call.id, call]));
}

/** Loads everything, and follows the events if the server is live. */
export async function begin() {
  await overview();
  changed({ t: "all" });
  if (store.isLive) follow();
}

function follow() {
  const stream = new EventSource("/console/events");
  let wasLost = false;
  stream.onmessage = async (message) => {
    if (wasLost) {
      // Events were missed meanwhile.
      wasLost = false;
      await overview().catch(() => {});
      changed({ t: "all" });
    }
    setLink("open");
    JSON.parse(message.data).forEach(take);
  };
  stream.onerror = () => {
    wasLost = true;
    setLink("lost");
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
  };
}

function setLink(link) {
  if (store.link === link) return;
  store.link = link;
  changed({ t: "link" });
}

function take(event) {
  switch (event.t) {
    case "line":
      takeLine(event.session, event.line);
      break;
    case "session": {
      store.sessions.set(event.session.id, event.session);
      if (store.sessions.size > SESSIONS) store.sessions.delete(store.sessions.keys().next().value);
      break;
    }
    case "call":
      store.calls.set(event.call.id, event.call);
      if (store.calls.size > CALLS) store.calls.delete(store.calls.keys().next().value);
      break;
    case "status":
      store.status = event.status;
      break;
    case "lost":
      store.lost += event.events;
      note(`${event.events} messages are missing here: there were too many at once`, true);
      break;
    default:
      return;
  }
  changed(event);
}

function takeLine(id, line) {
  const known = store.sessions.get(id);
  const session = known ?? emptySession(id, line.ms);
  session.messages += 1;
  session.last_ms = line.ms;
  if (line.error) session.errors += 1;
  if (line.kind === "request" && line.tool) session.calls += 1;
  if (line.took !== null && line.label.includes("call")) {
    session.latencies.push(line.took);
    if (session.latencies.length > LATENCIES) session.latencies.shift();
  }
  if (!known) store.sessions.set(id, session);
  store.lines.push({ session: id, ...line });
  if (store.lines.length > LINES + 500) store.lines.splice(0, 500);
}

function emptySession(id, ms) {
  return {
    id,
    number: store.sessions.size,
    dialect: null,
    version: null,
    name: "",
    peer_version: "",
    principal: null,
    upstream: null,
    first_ms: ms,
    last_ms: ms,
    closed: false,
    reason: null,
    messages: 0,
    calls: 0,
    errors: 0,
    latencies: [],
    forgotten: 0,
  };
}

/** Whether a session is with a client of ours. In a recording, ids of other programs are clients too. */
export function isClient(session) {
  return !session.id.startsWith("server-");
}

/** Whether it ended before it opened, as when the dialect of a server is found out. */
export function isAttempt(session) {
  return store.isLive && session.closed && !session.version;
}

/** The name of a session for people. */
export function nameOf(session) {
  if (session.id === "client-0") return "requests without a session";
  if (session.upstream) return session.upstream;
  return session.name || session.id;
}
