// Builds the page. Text of peers becomes text nodes only, and characters that could hide or reorder text are made visible.

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Text with every hidden character written as its number. */
export function visible(text) {
  return String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** An element. Properties that begin with `on` are listeners; `class`, `data-…`, `aria-…` and the like are attributes. */
export function el(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled" || key === "open") element[key] = value;
    else element.setAttribute(key, value === true ? "" : visible(value));
  }
  put(element, ...children);
  return element;
}

/** Appends children. Anything but an element becomes text. */
export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

/** Replaces all children. */
export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

const SVG = "http://www.w3.org/2000/svg";

/** An element of a drawing. */
export function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, value);
  return put(element, ...children);
}

/** Durations as bars, the newest on the right. */
export function sparkline(values) {
  const [width, height] = [80, 18];
  const drawing = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const largest = Math.max(...values, 0.001);
  values.slice(-40).forEach((value, at, all) => {
    const tall = Math.max(1, (value / largest) * height);
    const x = width - (all.length - at) * 2;
    put(drawing, svg("rect", { x, y: height - tall, width: 1.5, height: tall }));
  });
  return drawing;
}

/** A duration for people. */
export function duration(ms) {
  if (ms === undefined || ms === null) return "";
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

/** A time of day with milliseconds. */
export function clock(unixMs) {
  const date = new Date(unixMs);
  return Number.isNaN(date.getTime()) ? "" : `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** JSON with line breaks, or other text as it is. */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** JSON in a box that can be scrolled with the keyboard. */
export function code(text, label) {
  return el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": label ?? "JSON" }, pretty(text));
}

/** A button that copies a text. */
export function copyButton(text, label) {
  const button = el("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      note(`Copied: ${label}`);
    } catch {
      note("The browser does not allow copying here", true);
    }
  });
  return button;
}

/** Says something at the edge of the page for a while. */
export function note(text, isBad) {
  const shown = el("p", { class: isBad ? "note bad" : "note" }, text);
  const notes = document.getElementById("notes");
  notes.append(shown);
  while (notes.children.length > 4) notes.firstChild.remove();
  setTimeout(() => shown.remove(), 6000);
}

/** Runs a function once in the next frame, however often it is asked for. */
export function framed(work) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      work();
    });
  };
}
