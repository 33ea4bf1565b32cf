// Controls for single values: text, numbers, choices, dates, secrets, and JSON for the rest.
// Each has `element`, `focus()`, `set(value)`, `idle(value)` (nothing is set; this applies) and tells `changed(value)`.
// A text that is no value yet is told as it stands, with a complaint: the server has the last word.

import { button, h, uid } from "./dom.js";
import { complaint, parse, same, stringify } from "./exact.js";
import { label } from "./shape.js";

/** Nothing is set: the member is left out. */
export const ABSENT = Symbol("absent");

const SHORT = 300;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const PLACEHOLDERS = {
  "date-time": "2026-01-31T12:00:00Z",
  time: "12:00:00",
  duration: "PT1H30M",
  uuid: "123e4567-e89b-12d3-a456-426614174000",
  email: "ada@example.com",
  uri: "https://example.com",
};

/** The control for a shape that is neither an object, a list nor a union. */
export function control(shape, changed, secret) {
  if (shape.kind === "choice") return choice(shape, changed);
  if (shape.kind === "boolean") return toggle(changed);
  const made = typed(shape, changed, secret);
  return secret ? masked(made) : made;
}

function typed(shape, changed, secret) {
  if (shape.kind === "integer" || shape.kind === "number") return number(shape, changed);
  if (shape.kind === "any") return json(changed);
  return text(shape, changed, secret);
}

/** Hidden by style: a password field would have the browser offer to keep it. */
function masked(made) {
  const { input } = made;
  input.classList.add("masked");
  const reveal = button(
    "",
    () => reveal.setAttribute("aria-pressed", String(!input.classList.toggle("masked"))),
    { sign: "eye", label: "Show the secret", kind: "quiet", "aria-pressed": "false" },
  );
  return { ...made, element: h("div", { class: "beside" }, made.element, reveal) };
}

function shown(value) {
  return value === undefined || value === null ? "" : label(value);
}

function isLong({ schema }) {
  return !schema.format && !schema.pattern && !schema.contentEncoding && !(schema.maxLength <= SHORT);
}

function text(shape, changed, secret) {
  const { format } = shape.schema;
  const long = isLong(shape) && !secret;
  const input = long
    ? h("textarea", { class: "input", rows: 1, spellcheck: false })
    : h("input", { class: "input", type: format === "date" ? "date" : "text", spellcheck: false });
  input.autocomplete = "off";
  input.addEventListener("input", () => changed(input.value, input.value === ""));
  const place = PLACEHOLDERS[format] ?? "";
  input.placeholder = place;
  const parts = [input];
  if (format === "date-time") {
    parts.push(
      button(
        "Now",
        () => {
          input.value = new Date().toISOString();
          changed(input.value, false);
        },
        { kind: "quiet" },
      ),
    );
  }
  return {
    element: parts.length > 1 ? h("div", { class: "beside" }, parts) : input,
    input,
    focus: () => input.focus(),
    set(value) {
      // A date field shows nothing but dates, and what is wrong must be seen.
      if (format === "date") input.type = DATE.test(value) || value === "" ? "date" : "text";
      input.value = shown(value);
      input.placeholder = place;
    },
    idle(value) {
      input.value = "";
      input.placeholder = shown(value) || place;
    },
  };
}

function number(shape, changed) {
  const whole = shape.kind === "integer";
  const input = h("input", {
    class: "input",
    type: "text",
    inputMode: whole ? "numeric" : "decimal",
    autocomplete: "off",
  });
  input.addEventListener("input", () => {
    const typed = input.value.trim();
    const value = readNumber(typed);
    const wrong = typeof value === "string" && typed ? "Not a number yet." : null;
    changed(value, typed === "", wrong);
  });
  return {
    element: input,
    input,
    focus: () => input.focus(),
    set(value) {
      if (!same(readNumber(input.value.trim()), value)) input.value = shown(value);
      input.placeholder = "";
    },
    idle(value) {
      input.value = "";
      input.placeholder = shown(value);
    },
  };
}

function readNumber(typed) {
  if (/^-?\d+$/.test(typed)) return Number.isSafeInteger(Number(typed)) ? Number(typed) : BigInt(typed);
  const decimal = /^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) && Number.isFinite(Number(typed));
  return decimal ? Number(typed) : typed;
}

function toggle(changed) {
  const input = h("input", { type: "checkbox", class: "switch", role: "switch" });
  const word = h("span", { class: "switch-word", "aria-hidden": "true" });
  const say = () => (word.textContent = String(input.checked));
  input.addEventListener("change", () => {
    say();
    changed(input.checked, false);
  });
  const show = (value) => {
    input.checked = value === true;
    say();
  };
  show(false);
  return {
    element: h("div", { class: "switching" }, input, word),
    input,
    focus: () => input.focus(),
    set: show,
    idle: show,
  };
}

function choice(shape, changed) {
  const { choices } = shape;
  if (choices.length === 1) return only(choices[0]);
  const names = choices.map(label);
  return choices.length <= 5 && names.join("").length <= 36
    ? segments(choices, names, changed)
    : select(choices, names, changed);
}

/** A value that cannot be another. */
function only(value) {
  const element = h("code", { class: "only" }, label(value));
  return { element, input: null, focus() {}, set() {}, idle() {}, value };
}

function segments(choices, names, changed) {
  const group = uid("choice");
  const inputs = choices.map((value) =>
    h("input", { type: "radio", name: group, on: { change: () => changed(value, false) } }),
  );
  const element = h(
    "div",
    { class: "segments", role: "radiogroup" },
    inputs.map((input, at) => h("label", { class: "segment" }, input, h("span", {}, names[at]))),
  );
  const show = (value) => {
    inputs.forEach((input, at) => (input.checked = same(choices[at], value)));
    const foreign = value !== undefined && value !== null && !choices.some((each) => same(each, value));
    element.classList.toggle("foreign", foreign);
  };
  return {
    element,
    input: element,
    focus: () => (inputs.find((input) => input.checked) ?? inputs[0]).focus(),
    set: show,
    idle: show,
  };
}

function select(choices, names, changed) {
  const unset = h("option", { value: "" }, "Not set");
  const input = h(
    "select",
    { class: "input" },
    unset,
    names.map((name, at) => h("option", { value: String(at) }, name)),
  );
  input.addEventListener("change", () =>
    changed(input.value === "" ? ABSENT : choices[Number(input.value)], false),
  );
  return {
    element: input,
    input,
    focus: () => input.focus(),
    set(value) {
      const at = choices.findIndex((each) => same(each, value));
      unset.textContent = at < 0 ? `${shown(value)} (not a choice)` : "Not set";
      input.value = at < 0 ? "" : String(at);
    },
    idle(value) {
      unset.textContent = value === undefined || value === null ? "Not set" : `${shown(value)} (default)`;
      input.value = "";
    },
  };
}

/** Any JSON, as text. */
function json(changed) {
  const input = h("textarea", { class: "input mono", rows: 1, spellcheck: false, placeholder: "JSON" });
  let value = null;
  input.addEventListener("input", () => {
    const wrong = input.value.trim() ? complaint(input.value) : null;
    if (!wrong && input.value.trim()) value = parse(input.value);
    changed(value, !input.value.trim(), wrong);
  });
  return {
    element: input,
    input,
    focus: () => input.focus(),
    set(given) {
      value = given;
      input.value = stringify(given, 2);
    },
    idle() {
      input.value = "";
    },
  };
}
