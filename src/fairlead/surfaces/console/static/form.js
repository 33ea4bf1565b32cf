// A form from a shape, in step with a value: whatever is typed changes the value, whatever changes the value is shown.
// What the form has no place for stays in the value.

import { h } from "./dom.js";
import { group, isGroup } from "./groups.js";
import { Member } from "./member.js";

/** The form of a whole input. `changed` is told that the value is another now. */
export function form(shape, changed) {
  const whole = isGroup(shape) ? group(shape, changed) : new Member("input", shape, true, changed);
  return {
    element: h("div", { class: "form" }, whole.element),
    get: () => whole.get(),
    set: (value) => whole.set(value),
    focus: () => whole.focus(),
    clearIssues: () => whole.clear(),
    /** Show an issue at its field, or with null only find it; gives what focuses it. */
    showIssue: (path, message) => whole.issue(path, message),
  };
}
