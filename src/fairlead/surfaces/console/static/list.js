// The actions at the side: a search over all that is known of them, and pills for what one should know first.

import { h, icon, pill } from "./dom.js";

const MEANINGS = {
  read: "Reads only",
  write: "Changes data",
  destructive: "What it does may not be undone",
  private: "Shown nowhere but here",
  local: "Shown on this machine only",
  public: "Shown on every surface it supports",
  idempotent: "Doing it twice is the same as doing it once",
  non_idempotent: "Doing it twice does it twice",
  conditional: "Whether it may be repeated depends on the input",
  unspecified: "Nobody said whether it may be repeated",
};
const EFFECTS = { read: "", write: "note", destructive: "bad" };

/** All the facts of an action, as pills. */
export function pills(action) {
  const fact = (word, kind = "") => pill(word.replace("_", "-"), kind, MEANINGS[word]);
  return [
    fact(action.sideEffects, EFFECTS[action.sideEffects]),
    fact(action.visibility, action.visibility === "public" ? "" : "warn"),
    action.idempotency === "unspecified"
      ? pill("repeat: unspecified", "", MEANINGS.unspecified)
      : fact(action.idempotency),
    action.requiresConfirmation && pill("asks first", "warn", "It needs to be confirmed"),
    action.deprecated && pill("deprecated", "warn", action.deprecation?.message),
    ...action.permissions.map((each) => pill(`needs ${each}`, "", "A permission that the caller must have")),
  ].filter(Boolean);
}

/** Only what is out of the ordinary, for the list. */
function remarkable(action) {
  return [
    action.agent && pill("agent", "good", "A model that uses actions"),
    action.sideEffects !== "read" && !action.agent && pill(action.sideEffects, EFFECTS[action.sideEffects]),
    action.visibility !== "public" && pill(action.visibility, "warn"),
    action.requiresConfirmation && action.sideEffects !== "destructive" && pill("asks first", "warn"),
    action.deprecated && pill("deprecated", "warn"),
  ].filter(Boolean);
}

function searched(action) {
  const words = [
    action.name,
    action.title,
    action.description,
    action.sideEffects,
    action.visibility,
    action.idempotency,
    ...action.permissions,
  ];
  if (action.deprecated) words.push("deprecated");
  if (action.agent) words.push("agent", "chat");
  if (action.requiresConfirmation) words.push("asks first", "confirmation");
  return words.join(" ").toLowerCase();
}

export function actionList(chosen) {
  const search = h("input", {
    class: "search",
    type: "search",
    placeholder: "Search actions",
    "aria-label": "Search actions",
    autocomplete: "off",
    spellcheck: false,
  });
  const count = h("p", { class: "count", role: "status" });
  const list = h("ul", { class: "actions" });
  const element = h(
    "div",
    { class: "side-box" },
    h("div", { class: "search-box" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/")),
    count,
    list,
  );
  let rows = [];

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let seen = 0;
    for (const { row, text } of rows) {
      const fits = words.every((word) => text.includes(word));
      row.hidden = !fits;
      seen += fits ? 1 : 0;
    }
    count.textContent = words.length
      ? `${seen} of ${rows.length}`
      : `${rows.length} ${rows.length === 1 ? "action" : "actions"}`;
  }
  search.addEventListener("input", filter);

  const visible = () => rows.filter(({ row }) => !row.hidden).map(({ link }) => link);
  element.addEventListener("keydown", (event) => {
    const links = visible();
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
    else if (event.key === "ArrowUp") at <= 0 ? search.focus() : links[at - 1].focus();
    else if (event.key === "Enter" && at < 0) links[0]?.click();
    else if (event.key === "Escape" && search.value) {
      search.value = "";
      filter();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  return {
    element,
    focus() {
      search.focus();
      search.select();
    },
    set(actions) {
      rows = actions.map((action) => {
        const link = h(
          "a",
          { href: `#/${action.name}`, class: `action ${action.sideEffects}`, on: { click: chosen } },
          h("span", { class: "action-name" }, action.name),
          h("span", { class: "action-about" }, action.description),
          h("span", { class: "action-pills" }, remarkable(action)),
        );
        return { name: action.name, link, row: h("li", {}, link), text: searched(action) };
      });
      list.replaceChildren(...rows.map(({ row }) => row));
      filter();
    },
    mark(name) {
      for (const each of rows) {
        if (each.name === name) {
          each.link.setAttribute("aria-current", "page");
          each.link.scrollIntoView({ block: "nearest" });
        } else each.link.removeAttribute("aria-current");
      }
    },
  };
}
