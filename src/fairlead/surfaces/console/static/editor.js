// A JSON editor: a text area over its own text in colours. Tab leaves it, as it leaves any field.

import { h, uid } from "./dom.js";
import { complaint, parse, stringify } from "./exact.js";
import { coloured } from "./highlight.js";

/**
 * `changed` is told the value of each text that is JSON; a text that is not is complained about.
 * Values under the names `secrets` are seen by who edits the text, and veiled else.
 */
export function editor(name, changed, secrets = []) {
  const note = h("p", { class: "issue", id: uid("issue"), role: "status", hidden: true });
  const input = h("textarea", {
    class: "editor-text",
    spellcheck: false,
    autocomplete: "off",
    "aria-label": name,
    "aria-describedby": note.id,
    wrap: "soft",
  });
  const behind = h("pre", { class: "editor-behind", "aria-hidden": "true" });
  const element = h("div", { class: "editor" }, h("div", { class: "editor-page" }, behind, input));
  let valid = true;

  function paint() {
    // The line end keeps the last line as high as the others.
    behind.replaceChildren(...coloured(`${input.value}\n`, secrets));
  }
  function complain() {
    const wrong = complaint(input.value);
    valid = wrong === null;
    note.textContent = wrong ?? "";
    note.hidden = valid;
    element.classList.toggle("wrong", !valid);
    if (valid) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
  }
  input.addEventListener("input", () => {
    paint();
    complain();
    if (valid) changed(parse(input.value));
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const line = input.value.slice(0, input.selectionStart).split("\n").at(-1);
    const indent = /^\s*/.exec(line)[0] + (/[[{]\s*$/.test(line) ? "  " : "");
    event.preventDefault();
    // Through the browser's own editing, so that undo works.
    document.execCommand("insertText", false, `\n${indent}`);
  });
  return {
    element: h("div", { class: "editor-box" }, element, note),
    get valid() {
      return valid;
    },
    focus: () => input.focus(),
    get text() {
      return input.value;
    },
    set(value) {
      input.value = stringify(value, 2);
      paint();
      complain();
    },
    format() {
      if (valid) this.set(parse(input.value));
    },
  };
}
