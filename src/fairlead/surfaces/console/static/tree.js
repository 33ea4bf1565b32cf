// A JSON value as a tree that opens and closes, with the keys that trees have. Branches are drawn when they are opened.

import { button, h } from "./dom.js";
import { stringify } from "./exact.js";

/** Children drawn at once; the rest on request. */
const PAGE = 100;
/** How many entries a branch may have to be open from the start. */
const OPEN = 30;
const LONG = 400;

export function tree(value, name = "Result") {
  const list = h("ul", { class: "tree", role: "tree", "aria-label": name });
  list.append(branch(null, value, 1));
  list.firstChild.tabIndex = 0;
  list.addEventListener("keydown", (event) => move(list, event));
  list.addEventListener("focusin", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (item !== event.target) return;
    for (const other of list.querySelectorAll("[tabindex='0'][role=treeitem]")) other.tabIndex = -1;
    item.tabIndex = 0;
  });
  return list;
}

const isBranch = (value) => value !== null && typeof value === "object";

function branch(key, value, level) {
  const item = h("li", { role: "treeitem", tabIndex: -1, "aria-level": String(level) });
  const named =
    key === null
      ? null
      : [
          h("span", { class: typeof key === "number" ? "t-index" : "j-key" }, String(key)),
          h("span", { class: "t-colon" }, ": "),
        ];
  if (!isBranch(value)) {
    item.append(h("span", { class: "t-row" }, named, leaf(value)));
    return item;
  }
  const entries = Array.isArray(value) ? value.map((each, at) => [at, each]) : Object.entries(value);
  const group = h("ul", { role: "group" });
  const row = h(
    "span",
    { class: "t-row t-branch" },
    h("span", { class: "t-mark", "aria-hidden": "true" }),
    named,
    summary(value, entries.length),
  );
  item.append(row, group);
  let drawn = 0;
  function more() {
    const next = entries.slice(drawn, drawn + PAGE);
    drawn += next.length;
    group.append(...next.map(([name, each]) => branch(name, each, level + 1)));
    if (drawn < entries.length) {
      const rest = button(
        `Show ${Math.min(PAGE, entries.length - drawn)} more of ${entries.length}`,
        () => {
          rest.parentNode.remove();
          more();
        },
        { kind: "quiet" },
      );
      group.append(h("li", { role: "none" }, rest));
    }
  }
  item.toggle = (open = item.getAttribute("aria-expanded") !== "true") => {
    if (open && !drawn) more();
    item.setAttribute("aria-expanded", String(open));
    group.hidden = !open;
  };
  row.addEventListener("click", () => item.toggle());
  item.toggle(entries.length > 0 && (level === 1 || (entries.length <= OPEN && level <= 3)));
  return item;
}

function summary(value, count) {
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const what = Array.isArray(value) ? "item" : "member";
  return h(
    "span",
    { class: "t-summary" },
    count ? `${open} ${count} ${what}${count === 1 ? "" : "s"} ${close}` : `${open}${close}`,
  );
}

function leaf(value) {
  if (typeof value === "string") return text(value);
  const kind = typeof value === "number" || typeof value === "bigint" ? "j-number" : "j-word";
  return h("span", { class: kind }, String(value));
}

function text(value) {
  const quoted = stringify(value);
  if (quoted.length <= LONG) return h("span", { class: "j-string" }, quoted);
  const shown = h("span", { class: "j-string" }, `${quoted.slice(0, LONG)}… `);
  const all = button(`All ${value.length} characters`, () => shown.replaceChildren(quoted), {
    kind: "quiet small",
  });
  shown.append(all);
  return shown;
}

function move(list, event) {
  const here = document.activeElement;
  if (here?.getAttribute("role") !== "treeitem") return;
  const seen = [...list.querySelectorAll("[role=treeitem]")].filter((item) => item.offsetParent !== null);
  const at = seen.indexOf(here);
  const expanded = here.getAttribute("aria-expanded");
  const go = (item) => item?.focus();
  const keys = {
    ArrowDown: () => go(seen[at + 1]),
    ArrowUp: () => go(seen[at - 1]),
    Home: () => go(seen[0]),
    End: () => go(seen.at(-1)),
    ArrowRight: () =>
      expanded === "false" ? here.toggle(true) : expanded === "true" ? go(seen[at + 1]) : null,
    ArrowLeft: () =>
      expanded === "true" ? here.toggle(false) : go(here.parentNode.closest("[role=treeitem]")),
    Enter: () => here.toggle?.(),
    " ": () => here.toggle?.(),
  };
  if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key]();
}
