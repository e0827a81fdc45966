// A form from a JSON Schema. What a form cannot express is written as JSON.

import { el, fill } from "./dom.js";

/** Objects within objects, down to this depth, have fields of their own. */
const DEPTH = 3;

let nextId = 0;

/** A form for an object. `read()` returns the value, or throws and marks the field that is wrong. */
export function objectForm(schema, depth = 0) {
  const required = new Set(Array.isArray(schema?.required) ? schema.required : []);
  const properties = Object.entries(schema?.properties ?? {});
  const fields = properties.map(([name, property]) => ({ name, ...field(name, resolve(property, schema), required.has(name), depth) }));
  // A tool that takes arbitrary members, or a schema without any.
  const rest = properties.length === 0 && schema?.additionalProperties !== false && depth > 0 ? json("value", {}, false) : null;
  return {
    element: el("div", {}, fields.map((one) => one.element), rest?.element, properties.length === 0 && !rest ? el("p", { class: "faint" }, "It takes no arguments.") : null),
    write(value) {
      fields.forEach((one) => one.write?.(value?.[one.name]));
    },
    read() {
      if (rest) return rest.read() ?? {};
      const value = {};
      for (const one of fields) {
        const read = one.read();
        if (read !== undefined) value[one.name] = read;
      }
      return value;
    },
  };
}

/** Follows a reference within the schema, and takes the choice that is not `null`. */
function resolve(schema, root) {
  let found = typeof schema === "object" && schema !== null ? schema : {};
  for (let step = 0; step < 8; step += 1) {
    if (typeof found.$ref === "string" && found.$ref.startsWith("#/")) {
      const target = found.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
      if (!target || target === found) break;
      found = { ...target, ...(found.description ? { description: found.description } : {}) };
      continue;
    }
    const choices = (found.anyOf ?? found.oneOf)?.filter((one) => one?.type !== "null");
    if (choices?.length === 1) {
      found = { ...found, ...choices[0], anyOf: undefined, oneOf: undefined };
      continue;
    }
    break;
  }
  const definitions = root?.$defs ?? root?.definitions;
  return definitions && !found.$defs ? { ...found, $defs: root.$defs, definitions: root.definitions } : found;
}

/** The type of a schema, without `null`. */
function typeOf(schema) {
  const types = [schema.type].flat().filter((type) => type && type !== "null");
  if (types.length === 1) return types[0];
  return schema.properties ? "object" : "";
}

function field(name, schema, isRequired, depth) {
  const choices = options(schema);
  if (choices) return choice(name, schema, isRequired, choices);
  switch (typeOf(schema)) {
    case "string":
      return text(name, schema, isRequired);
    case "number":
    case "integer":
      return number(name, schema, isRequired);
    case "boolean":
      return choice(name, schema, isRequired, [[true, "true"], [false, "false"]]);
    case "array": {
      const items = resolve(schema.items ?? {}, schema);
      const some = options(items);
      return some ? several(name, schema, isRequired, some) : json(name, schema, isRequired, "[]");
    }
    case "object":
      return depth < DEPTH && schema.properties ? group(name, schema, isRequired, depth) : json(name, schema, isRequired, "{}");
    default:
      return json(name, schema, isRequired, "");
  }
}

/** The values of a schema that lists them, with titles. */
function options(schema) {
  if (schema.const !== undefined) return [[schema.const, String(schema.const)]];
  if (Array.isArray(schema.enum)) return schema.enum.map((value, at) => [value, schema.enumNames?.[at] ?? String(value)]);
  const titled = schema.oneOf ?? schema.anyOf;
  return titled?.length > 0 && titled.every((one) => one?.const !== undefined) ? titled.map((one) => [one.const, one.title ?? String(one.const)]) : null;
}

/** A label, a control, help, and a place for an error. */
function framed(name, schema, isRequired, control, readValue) {
  const id = `field-${++nextId}`;
  const error = el("p", { class: "error", id: `${id}-error`, role: "alert" });
  control.id = id;
  control.setAttribute("aria-describedby", `${id}-help ${id}-error`);
  control.setAttribute("data-name", name);
  if (isRequired) control.setAttribute("aria-required", "true");
  const help = [schema.title && schema.title !== name && schema.title, schema.description].filter((part) => typeof part === "string").join(": ");
  return {
    control,
    element: el(
      "div",
      { class: "field" },
      el("label", { for: id }, name, " ", el("span", { class: "faint" }, isRequired ? "required" : "")),
      control,
      el("p", { class: "help", id: `${id}-help` }, help),
      error,
    ),
    read() {
      fill(error);
      control.removeAttribute("aria-invalid");
      try {
        const value = readValue();
        if (value === undefined && isRequired) throw new Error("a value is required");
        return value;
      } catch (problem) {
        fill(error, problem.message);
        control.setAttribute("aria-invalid", "true");
        control.focus();
        throw new Error(`${name}: ${problem.message}`);
      }
    },
  };
}

function text(name, schema, isRequired) {
  const isLong = (schema.maxLength ?? 0) > 200 || /text|content|body|message|prompt|query/i.test(name);
  const given = { placeholder: schema.examples?.[0] ?? "", value: schema.default ?? "", autocomplete: "off", spellcheck: "false" };
  const control = isLong ? el("textarea", { ...given, rows: "3" }) : el("input", { type: "text", ...given });
  const made = framed(name, schema, isRequired, control, () => {
    const value = control.value;
    // An optional text that is left empty is not sent. A required one may be empty.
    if (value === "" && !isRequired) return undefined;
    if (schema.minLength && value.length < schema.minLength) throw new Error(`at least ${schema.minLength} characters`);
    if (schema.maxLength && value.length > schema.maxLength) throw new Error(`at most ${schema.maxLength} characters`);
    return value;
  });
  return { ...made, write: (value) => value !== undefined && (control.value = String(value)) };
}

function number(name, schema, isRequired) {
  const isWhole = typeOf(schema) === "integer";
  const control = el("input", { type: "text", inputmode: isWhole ? "numeric" : "decimal", autocomplete: "off", value: schema.default ?? "" });
  const made = framed(name, schema, isRequired, control, () => {
    const given = control.value.trim();
    if (given === "") return undefined;
    const value = Number(given);
    if (!Number.isFinite(value)) throw new Error("a number is expected");
    if (isWhole && !Number.isInteger(value)) throw new Error("a whole number is expected");
    if (schema.minimum !== undefined && value < schema.minimum) throw new Error(`at least ${schema.minimum}`);
    if (schema.maximum !== undefined && value > schema.maximum) throw new Error(`at most ${schema.maximum}`);
    return value;
  });
  return { ...made, write: (value) => value !== undefined && (control.value = String(value)) };
}

function choice(name, schema, isRequired, values) {
  const control = el("select", {}, el("option", { value: "" }, isRequired ? "choose" : "not set"), values.map(([, title], at) => el("option", { value: String(at) }, title)));
  const write = (wanted) => {
    const at = values.findIndex(([value]) => value === wanted);
    if (at >= 0) control.value = String(at);
  };
  write(schema.default);
  if (schema.const !== undefined) write(schema.const);
  return { ...framed(name, schema, isRequired, control, () => (control.value === "" ? undefined : values[Number(control.value)][0])), write };
}

function several(name, schema, isRequired, values) {
  const boxes = values.map(([value, title]) => [value, el("input", { type: "checkbox", checked: (schema.default ?? []).includes(value) }), title]);
  const control = el("div", { role: "group", tabindex: "-1", "aria-label": name }, boxes.map(([, box, title]) => el("label", { class: "row" }, box, title)));
  return framed(name, schema, isRequired, control, () => {
    const chosen = boxes.filter(([, box]) => box.checked).map(([value]) => value);
    return chosen.length === 0 && !isRequired ? undefined : chosen;
  });
}

function group(name, schema, isRequired, depth) {
  const inner = objectForm(schema, depth + 1);
  const isUsed = el("input", { type: "checkbox", checked: isRequired, disabled: isRequired });
  return {
    element: el(
      "div",
      { class: "field", role: "group", "aria-label": name },
      el("label", { class: "row label" }, isRequired ? null : isUsed, name),
      el("div", { class: "group" }, inner.element),
    ),
    write(value) {
      if (value !== undefined) isUsed.checked = true;
      inner.write(value);
    },
    read: () => (isUsed.checked ? inner.read() : undefined),
  };
}

function json(name, schema, isRequired, empty = "") {
  const given = schema.default === undefined ? "" : JSON.stringify(schema.default, null, 2);
  const control = el("textarea", { rows: "3", spellcheck: "false", placeholder: empty || "JSON", value: given });
  const made = framed(name, { ...schema, description: [schema.description, "JSON"].filter(Boolean).join(" · ") }, isRequired, control, () => {
    if (control.value.trim() === "") return undefined;
    try {
      return JSON.parse(control.value);
    } catch {
      throw new Error("this is no JSON");
    }
  });
  return { ...made, write: (value) => value !== undefined && (control.value = JSON.stringify(value, null, 2)) };
}
