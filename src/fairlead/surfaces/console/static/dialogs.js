// Questions to the person, and the page of shortcuts. The browser's own dialogs keep the focus inside.

import { acting } from "./api.js";
import { button, h, icon, toast, uid } from "./dom.js";
import { complaint, parse, spelled, stringify } from "./exact.js";
import { block } from "./highlight.js";

/** Something to read or answer before anything else. */
export function dialog(title, content, actions, { kind = "", danger = false } = {}) {
  const titleId = uid("title");
  const element = h(
    "dialog",
    { class: `dialog ${kind}`, "aria-labelledby": titleId },
    h("h2", { id: titleId, class: danger ? "danger" : "" }, danger && icon("alert"), title),
    content,
    actions && h("div", { class: "dialog-actions" }, actions),
  );
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  return element;
}

/** Ask before an action that cannot be undone; gives whether to go ahead. */
export function confirmCall(action, input, reason) {
  return new Promise((resolve) => {
    let yes = false;
    const go = button(
      `Run ${action.name}`,
      () => {
        yes = true;
        asked.close();
      },
      { kind: action.sideEffects === "destructive" ? "danger" : "primary" },
    );
    const stay = button("Do not run", () => asked.close(), { autofocus: true });
    const effect =
      action.sideEffects === "destructive"
        ? "It is destructive: what it does may not be undone."
        : "It asks to be confirmed.";
    const asked = dialog(
      `Run ${action.title}?`,
      h(
        "div",
        { class: "stack" },
        h("p", {}, action.description),
        h("p", { class: "soft" }, reason ?? effect),
        block(spelled(masked(input, action.secretFields ?? []))),
      ),
      [stay, go],
      { danger: action.sideEffects === "destructive", kind: "confirm" },
    );
    asked.addEventListener("close", () => resolve(yes));
    stay.focus();
  });
}

/** An input with dots for its secrets, as its form has them. */
export function masked(value, names) {
  if (Array.isArray(value)) return value.map((item) => masked(item, names));
  if (value === null || typeof value !== "object") return value;
  if (![Object.prototype, null].includes(Object.getPrototypeOf(value))) return value;
  const shown = ([name, item]) => [name, names.includes(name) && item !== null ? "••••••" : masked(item, names)];
  return Object.fromEntries(Object.entries(value).map(shown));
}

/** Choose whom calls are made for. `own` is whoever runs the console. */
export function chooseIdentity(own, changed) {
  const start = acting.as ?? own;
  const note = h("p", { class: "issue", role: "status", hidden: true });
  const fields = ["user", "auth"].map((name) => {
    const id = uid("who");
    const input = h("textarea", {
      class: "input mono",
      id,
      rows: name === "auth" ? 4 : 3,
      spellcheck: false,
      value: stringify(start[name] ?? null, 2),
    });
    return {
      name,
      input,
      row: h("div", { class: "field" }, h("label", { class: "name", htmlFor: id }, name), input),
    };
  });
  const act = button(
    "Act as this caller",
    () => {
      const wrong = fields.find(({ input }) => complaint(input.value));
      if (wrong) {
        note.textContent = `${wrong.name}: ${complaint(wrong.input.value)}`;
        note.hidden = false;
        wrong.input.focus();
        return;
      }
      acting.as = Object.fromEntries(fields.map(({ name, input }) => [name, parse(input.value)]));
      done("Acting as another caller");
    },
    { kind: "primary" },
  );
  const back = button("Act as yourself", () => {
    acting.as = null;
    done("Acting as yourself");
  });
  function done(text) {
    shown.close();
    toast(text);
    changed();
  }
  const shown = dialog(
    "Acting as",
    h(
      "div",
      { class: "stack" },
      h(
        "p",
        { class: "soft" },
        "Calls from this page carry this identity, until it is changed or the page is loaded again. Try an action as someone with fewer permissions; null is nobody.",
      ),
      fields.map(({ row }) => row),
      note,
    ),
    [button("Close", () => shown.close(), { kind: "quiet" }), back, act],
  );
}

const MAC = navigator.platform.startsWith("Mac");
export const RUN_KEYS = MAC ? "⌘ ↵" : "Ctrl ↵";
const SHORTCUTS = [
  ["/", "Search the actions; arrows and Enter choose one"],
  [RUN_KEYS, "Run the action, from wherever you are"],
  ["Esc", "Cancel what runs, or close what is open"],
  ["f", "Go to the form"],
  ["j", "Go to the JSON editor"],
  ["r", "Go to the result"],
  ["t", "Light or dark"],
  ["?", "This page"],
];

export function showHelp() {
  if (document.querySelector("dialog[open]")) return;
  const rows = SHORTCUTS.map(([keys, does]) => [
    h(
      "dt",
      {},
      keys.split(" ").map((key) => h("kbd", {}, key)),
    ),
    h("dd", {}, does),
  ]);
  const shown = dialog("Keyboard", h("dl", { class: "keys" }, rows), [
    button("Close", () => shown.close(), { autofocus: true }),
  ]);
}
