// Two peers with a switch for every capability. The server computes what they would agree, with the code of real sessions.

import { el, fill, note, pretty } from "./dom.js";
import { agreementOf, arrow } from "./handshake.js";
import { fetchJson } from "./store.js";

/** What a usual pair has. */
const USUAL = ["tools", "tools.listChanged", "resources", "prompts", "logging", "sampling", "elicitation", "roots", "tool", "memory", "handshake", "tools.call", "agent"];

const chosen = { dialect: "mcp", version: "", other: "", client: new Set(USUAL), server: new Set(USUAL) };

export function explorer(main) {
  const place = el("div", { class: "stack" });
  fill(main, place);
  let dialects = [];
  let asked = 0;

  const agreement = el("section", { class: "panel", "aria-label": "Agreement", id: "explored" });
  const opening = el("section", { class: "panel", "aria-label": "Opening" });
  const difference = el("section", { class: "panel", "aria-label": "Difference of two revisions" });

  fetchJson("data/dialects").then(
    (loaded) => {
      dialects = loaded;
      draw();
    },
    (error) => fill(place, el("p", { class: "note bad" }, error.message)),
  );

  function dialect() {
    return dialects.find((one) => one.name === chosen.dialect) ?? dialects[0];
  }

  function select(label, options, value, change) {
    const list = el("select", { "aria-label": label }, options.map((option) => el("option", { value: option }, option)));
    list.value = value;
    list.addEventListener("change", () => change(list.value));
    return el("label", { class: "row" }, el("span", {}, label), list);
  }

  function draw() {
    const current = dialect();
    const versions = current.versions;
    if (!versions.includes(chosen.version)) chosen.version = versions.find((one) => one === "2025-11-25") ?? versions[0];
    if (!versions.includes(chosen.other)) chosen.other = versions.find((one) => one !== chosen.version) ?? versions[0];
    fill(
      place,
      el(
        "section",
        { class: "panel", "aria-label": "Peers" },
        el(
          "header",
          {},
          el("h2", {}, "Two peers"),
          select("Dialect", dialects.map((one) => one.name), current.name, (name) => {
            chosen.dialect = name;
            draw();
          }),
          select("Revision", versions, chosen.version, (version) => {
            chosen.version = version;
            draw();
          }),
        ),
        el("div", { class: "body grid halves" }, switches("Client", "client", current), switches("Server", "server", current)),
      ),
      el("div", { class: "grid halves" }, agreement, el("div", { class: "stack" }, opening, versions.length > 1 ? difference : null)),
    );
    ask();
  }

  function switches(title, side, current) {
    const names = current[side].filter((one) => one.name !== "experimental" && one.name !== "extensions");
    const boxes = names.map(({ name, since, until }) => {
      const isOther = since && (chosen.version < since || chosen.version > until);
      const box = el("input", { type: "checkbox", checked: chosen[side].has(name) });
      box.addEventListener("change", () => {
        if (box.checked) chosen[side].add(name);
        else chosen[side].delete(name);
        ask();
      });
      return el("label", { class: name.includes(".") ? "part" : "" }, box, el("span", {}, el("code", {}, name), isOther ? el("span", { class: "faint" }, since === until ? ` only ${since}` : ` ${since} to ${until}`) : null));
    });
    return el("fieldset", { class: "switches" }, el("legend", {}, `${title} declares`), boxes.length > 0 ? boxes : el("p", { class: "faint" }, "nothing in this dialect"));
  }

  function request(version) {
    const names = (side) => dialect()[side].map((one) => one.name).filter((name) => chosen[side].has(name));
    const body = { dialect: dialect().name, version, client: names("client"), server: names("server") };
    return fetchJson("data/open", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  }

  async function ask() {
    const number = ++asked;
    try {
      const opened = await request(chosen.version);
      if (number !== asked) return;
      fill(agreement, agreementOf(opened));
      const lines = opened.messages.map((message) => ({ ...message, label: labelOf(message.text) }));
      fill(
        opening,
        el("header", {}, el("h2", {}, "Opening")),
        el(
          "div",
          { class: "sequence" },
          el("div", { class: "ends" }, el("span", { class: "client" }, "client"), el("span", { class: "server" }, "server")),
          el("ol", { class: "arrows" }, lines.map((line) => arrow(line, null))),
        ),
      );
      if (dialect().versions.length > 1) await compare(opened, number);
    } catch (error) {
      if (number === asked) note(error.message, true);
    }
  }

  async function compare(opened, number) {
    const other = await request(chosen.other);
    if (number !== asked) return;
    const pick = select("with", dialect().versions, chosen.other, (version) => {
      chosen.other = version;
      ask();
    });
    const [left, right] = [opened, other].map((one) => one.messages.map((message) => `${message.from}\n${pretty(message.text)}`).join("\n\n").split("\n"));
    const { before, after } = diff(left, right);
    fill(
      difference,
      el("header", {}, el("h2", {}, `${chosen.version} compared`), pick),
      el(
        "div",
        { class: "body diff" },
        el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": `Opening in ${chosen.version}` }, before),
        el("pre", { class: "code", tabindex: "0", role: "region", "aria-label": `Opening in ${chosen.other}` }, after),
      ),
    );
  }
}

function labelOf(text) {
  try {
    const message = JSON.parse(text);
    return message.method ?? message.type ?? (message.error ? "error" : "result");
  } catch {
    return "not a message";
  }
}

/** Marks the lines that only one of two texts has, by their longest common sequence. */
function diff(left, right) {
  const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      table[i][j] = left[i] === right[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const [before, after] = [[], []];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      before.push(`${left[i]}\n`);
      after.push(`${right[j]}\n`);
      i += 1;
      j += 1;
    } else if (j >= right.length || (i < left.length && table[i + 1][j] >= table[i][j + 1])) {
      before.push(el("del", {}, left[i] || " "));
      i += 1;
    } else {
      after.push(el("ins", {}, right[j] || " "));
      j += 1;
    }
  }
  return { before, after };
}
