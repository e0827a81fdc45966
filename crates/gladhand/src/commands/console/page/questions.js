// Questions of servers during a call, which the user answers in a dialog.

import { el, fill, note } from "./dom.js";
import { block } from "./content.js";
import { objectForm } from "./form.js";

/** Questions wait for each other, so that only one is open. */
let asking = Promise.resolve();

/** Answers a request of a server: the user does. */
export function answer(method, params, signal) {
  const question = { "elicitation/create": elicitation, "sampling/createMessage": sampling }[method];
  if (!question) return Promise.reject(Object.assign(new Error("method not found"), { code: -32601 }));
  const answered = asking.then(() => question(params, signal));
  asking = answered.catch(() => {});
  return answered;
}

/** A dialog that ends with a value. */
function dialog(title, content, buttons, signal) {
  return new Promise((resolve, reject) => {
    const shown = el("dialog", { "aria-label": title });
    const end = (value) => {
      shown.close();
      shown.remove();
      resolve(value);
    };
    const row = buttons.map(([label, value, isMain]) =>
      el("button", { type: "button", class: isMain ? "main" : "", onclick: () => {
        try {
          end(value());
        } catch (error) {
          note(error.message, true);
        }
      } }, label),
    );
    fill(shown, el("h2", {}, title), content, el("div", { class: "row" }, row));
    shown.addEventListener("cancel", (event) => {
      event.preventDefault();
      end(buttons.at(-1)[1]());
    });
    signal.addEventListener("abort", () => {
      shown.close();
      shown.remove();
      reject(new Error("withdrawn"));
    });
    document.body.append(shown);
    shown.showModal();
  });
}

function elicitation(params, signal) {
  const buttons = [
    ["Decline", () => ({ action: "decline" })],
    ["Cancel", () => ({ action: "cancel" })],
  ];
  if (params.mode === "url") {
    const isWeb = /^https?:\/\//i.test(params.url ?? "");
    const link = isWeb ? el("a", { href: params.url, target: "_blank", rel: "noopener noreferrer" }, params.url) : el("code", {}, params.url ?? "");
    return dialog("A server asks you to open an address", [el("p", { class: "plain" }, params.message ?? ""), el("p", {}, link)], [["I have opened it", () => ({ action: "accept" }), true], ...buttons], signal);
  }
  const form = objectForm(params.requestedSchema ?? {});
  return dialog("A server asks you", [el("p", { class: "plain" }, params.message ?? ""), form.element], [["Accept", () => ({ action: "accept", content: form.read() }), true], ...buttons], signal);
}

function sampling(params, signal) {
  const text = el("textarea", { rows: "6", "aria-label": "Answer of the model" });
  const messages = (params.messages ?? []).map((message) => el("div", {}, el("h3", {}, message.role), [message.content].flat().map((one) => block(one))));
  const reply = () => ({ role: "assistant", content: { type: "text", text: text.value }, model: "written-by-hand", stopReason: "endTurn" });
  const content = [
    params.systemPrompt && el("p", { class: "faint" }, params.systemPrompt),
    el("div", { class: "scroll", tabindex: "0" }, messages),
    el("p", {}, "Write the answer of the model:"),
    text,
  ];
  const answered = dialog("A server asks your model", content, [["Answer", reply, true], ["Refuse", () => null]], signal);
  return answered.then((value) => value ?? Promise.reject(Object.assign(new Error("the user refused the request"), { code: -1 })));
}
