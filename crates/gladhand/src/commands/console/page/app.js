// The frame of the page: the views, the address, and the state of the connection.

import { el, fill, note } from "./dom.js";
import { begin, store, watch } from "./store.js";
import { live } from "./live.js";
import { handshake } from "./handshake.js";
import { explorer } from "./explorer.js";
import { policy } from "./policy.js";
import { tryIt } from "./try.js";

const VIEWS = [
  { id: "live", title: "Live", show: live, isFor: () => store.isLive },
  { id: "sessions", title: "Handshake", show: handshake, isFor: () => true },
  { id: "try", title: "Try it", show: tryIt, isFor: () => store.isLive && store.hasMcp },
  { id: "policy", title: "Policy", show: policy, isFor: () => store.isLive },
  { id: "explorer", title: "Explorer", show: explorer, isFor: () => true },
];

const main = document.getElementById("view");
let leave = () => {};
let shown = "";

/** Shows the view in the address, as in `#sessions/client-1`. */
function route() {
  const [id, ...rest] = location.hash.slice(1).split("/");
  const views = VIEWS.filter((view) => view.isFor());
  const view = views.find((one) => one.id === id) ?? views[0];
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} · Gladhand console`;
  leave();
  fill(main);
  const argument = rest.map((part) => decodeURIComponent(part)).join("/");
  leave = view.show(main, argument) ?? (() => {});
  if (shown && shown !== view.id) main.focus({ preventScroll: true });
  shown = view.id;
}

function links() {
  const views = VIEWS.filter((view) => view.isFor());
  const list = views.map((view, at) =>
    el("a", { href: `#${view.id}`, "data-view": view.id, "aria-keyshortcuts": String(at + 1) }, view.title),
  );
  fill(document.getElementById("views"), list);
  fill(document.getElementById("title"), store.title || "console");
}

function linkState() {
  const link = document.getElementById("link");
  if (!store.isLive) fill(link, "recording");
  else fill(link, store.link === "open" ? "live" : "connection lost, trying again");
  link.dataset.state = store.isLive ? store.link : "recording";
}

/** Digits select views, `/` the search of a view. */
function keys(event) {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const views = VIEWS.filter((view) => view.isFor());
  const view = views[Number(event.key) - 1];
  if (view) location.hash = `#${view.id}`;
  if (event.key === "/") {
    const search = main.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
}

async function start() {
  // The token is in a cookie now. It should not stay in the address or in the history.
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  try {
    await begin();
  } catch (error) {
    fill(main, el("p", { class: "note bad" }, `The console cannot be loaded: ${error.message}`));
    return;
  }
  links();
  linkState();
  route();
  store.remarks.forEach((remark) => note(remark, true));
  watch((event) => {
    if (event.t === "link") linkState();
  });
  window.addEventListener("hashchange", route);
  document.addEventListener("keydown", keys);
}

start();
