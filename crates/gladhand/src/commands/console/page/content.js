// The content of results: text, images, audio, resources and links, and structured data.

import { code, el } from "./dom.js";

/** The largest media that is shown, in characters of base64. */
const LARGEST = 32 * 1024 * 1024;

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;
const AUDIO = /^audio\/[\w.+-]+$/;
const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;

/** A block of content. `openResource(uri)` shows a linked resource. */
export function block(content, openResource) {
  switch (content?.type) {
    case "text":
      return el("div", { class: "content" }, el("pre", { class: "plain" }, content.text ?? ""));
    case "image":
      return el("div", { class: "content" }, media(content.data, content.mimeType, "Image"));
    case "audio":
      return el("div", { class: "content" }, media(content.data, content.mimeType, "Audio"));
    case "resource":
      return el("div", { class: "content" }, resource(content.resource ?? {}));
    case "resource_link":
      return el(
        "div",
        { class: "content" },
        el("button", { type: "button", onclick: () => openResource?.(content.uri) }, `Open ${content.title ?? content.name ?? content.uri}`),
        el("p", { class: "faint" }, [content.uri, content.mimeType, content.description].filter(Boolean).join(" · ")),
      );
    default:
      return el("div", { class: "content" }, code(JSON.stringify(content), "Content"));
  }
}

/** The contents of a resource. */
export function resource(contents) {
  const facts = el("p", { class: "faint" }, [contents.uri, contents.mimeType].filter(Boolean).join(" · "));
  if (contents.blob !== undefined) return el("div", {}, facts, media(contents.blob, contents.mimeType, contents.uri));
  return el("div", {}, facts, contents.text === undefined ? null : el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": contents.uri ?? "Resource" }, contents.text));
}

function media(data, type, name) {
  const size = `${Math.floor(((data?.length ?? 0) * 3) / 4)} bytes`;
  const isFine = typeof data === "string" && data.length <= LARGEST && BASE64.test(data);
  // An image of the page's own policy: scripts in an SVG do not run in <img>.
  if (isFine && IMAGES.test(type)) return el("img", { src: `data:${type};base64,${data}`, alt: `${name} (${type}, ${size})` });
  if (isFine && AUDIO.test(type)) return el("audio", { controls: true, src: `data:${type};base64,${data}`, "aria-label": `${name} (${type}, ${size})` });
  return el("p", { class: "faint" }, `${type ?? "unknown type"}, ${size}`);
}

/** The result of a tool. */
export function result(value, openResource) {
  const blocks = (value.content ?? []).map((one) => block(one, openResource));
  return [
    value.isError ? el("p", { class: "bad" }, "The tool reports a failure.") : null,
    blocks,
    value.structuredContent === undefined ? null : el("details", { open: blocks.length === 0 }, el("summary", {}, "Structured content"), code(JSON.stringify(value.structuredContent), "Structured content")),
    el("details", {}, el("summary", {}, "Raw result"), code(JSON.stringify(value), "Raw result")),
  ];
}
