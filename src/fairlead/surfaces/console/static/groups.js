// Values made of values: objects, lists, records and unions, each as members that can be filled in.

import { ABSENT } from "./controls.js";
import { button, h, icon } from "./dom.js";
import { Member, notes, placed } from "./member.js";

/** With more optional members than this, those that are not set are folded away. */
const MANY = 6;
const MAKERS = { object: objectOf, array: arrayOf, record: recordOf, union: unionOf };

export const isGroup = (shape) => shape.kind in MAKERS;

/** The group for a shape: `element`, `get`, `set`, `focus`, `clear`, and `issue` to show one at its place. */
export const group = (shape, changed) => MAKERS[shape.kind](shape, changed);

function objectOf(shape, changed) {
  const required = shape.required;
  const members = new Map(
    shape.members.map(([name, member]) => [name, new Member(name, member, required.has(name), changed)]),
  );
  const others = shape.others ? recordOf({ others: shape.others, title: "Others" }, changed) : null;
  const own = notes();
  let rest = {};
  const optional = [...members.values()].filter((member) => !required.has(member.name));
  const folded =
    optional.length > MANY
      ? h(
          "details",
          { class: "more" },
          h("summary", {}, icon("chevron"), h("span", {}, "")),
          h("div", { class: "fields" }),
        )
      : null;
  const shown = h("div", { class: "fields" });
  const extra = h("p", { class: "extra", hidden: true });
  const nothing = members.size || others ? null : h("p", { class: "soft" }, "This action takes no input.");

  function place() {
    const away = folded ? optional.filter((member) => !member.isSet) : [];
    const here = [...members.values()].filter((member) => !away.includes(member));
    if (
      shown.childElementCount === here.length &&
      here.every((member) => member.element.parentNode === shown)
    )
      return;
    shown.replaceChildren(...here.map((member) => member.element));
    if (!folded) return;
    folded.lastChild.replaceChildren(...away.map((member) => member.element));
    folded.hidden = !away.length;
    folded.firstChild.lastChild.textContent = `${away.length} more, all optional`;
  }
  place();
  return {
    element: h("div", { class: "object" }, nothing, own.element, shown, extra, others?.element, folded),
    get() {
      const entries = [...members].map(([name, member]) => [name, member.get()]);
      const value = Object.fromEntries(entries.filter(([, item]) => item !== ABSENT));
      return { ...value, ...(others?.get() ?? {}), ...rest };
    },
    set(value) {
      const given = isObject(value) ? value : {};
      for (const [name, member] of members) member.set(Object.hasOwn(given, name) ? given[name] : ABSENT);
      const foreign = Object.fromEntries(Object.entries(given).filter(([name]) => !members.has(name)));
      others?.set(foreign);
      rest = others ? {} : foreign;
      extra.hidden = !Object.keys(rest).length;
      extra.textContent = `Also in the JSON, unknown to the schema: ${Object.keys(rest).join(", ")}`;
      place();
    },
    focus: () => members.values().next().value?.focus(),
    clear() {
      own.clear();
      for (const member of members.values()) member.clear();
      others?.clear();
    },
    issue(path, message) {
      const [name, ...inner] = path;
      const member = members.get(name);
      if (!member) {
        if (message !== null) own.show(placed(path, message));
        return () => own.element.scrollIntoView({ block: "center" });
      }
      if (folded?.contains(member.element)) folded.open = true;
      return member.issue(inner, message);
    },
  };
}

function arrayOf(shape, changed) {
  const list = h("ol", { class: "items" });
  const own = notes();
  const fixed = shape.fixed;
  let items = [];
  const add = button(
    "Add an item",
    () => {
      append(shape.item(items.length).blank(1) ?? null);
      changed();
      items.at(-1).focus();
    },
    { kind: "quiet add", sign: "plus", hidden: fixed !== null },
  );

  function append(value) {
    const at = items.length;
    const member = new Member(`item ${at + 1}`, shape.item(at), true, changed, { labelled: false });
    member.set(value);
    items.push(member);
    const remove = button(
      "",
      () => {
        const here = items.indexOf(member);
        items = items.filter((each) => each !== member);
        row.remove();
        changed();
        (items[Math.min(here, items.length - 1)] ?? { focus: () => add.focus() }).focus();
      },
      { sign: "close", label: "Remove this item", kind: "quiet small", hidden: fixed !== null },
    );
    const row = h("li", { class: "item" }, member.element, remove);
    list.append(row);
  }
  return {
    element: h("div", { class: "array" }, own.element, list, add),
    get: () => items.map((item) => item.get()),
    set(value) {
      const given = Array.isArray(value) ? value : [];
      // In place where the number is the same, so that what is open stays open.
      if (given.length === items.length) {
        items.forEach((item, at) => item.set(given[at]));
        return;
      }
      items = [];
      list.replaceChildren();
      given.forEach(append);
    },
    focus: () => (items[0] ?? { focus: () => add.focus() }).focus(),
    clear() {
      own.clear();
      for (const item of items) item.clear();
    },
    issue(path, message) {
      const [at, ...inner] = path;
      if (items[at]) return items[at].issue(inner, message);
      if (message !== null) own.show(placed(path, message));
      return () => add.focus();
    },
  };
}

function recordOf(shape, changed) {
  const list = h("div", { class: "rows" });
  const own = notes();
  let rows = [];
  const add = button(
    "Add a name",
    () => {
      append("", shape.others?.blank(1) ?? null);
      changed();
      rows.at(-1).key.focus();
    },
    { kind: "quiet add", sign: "plus" },
  );

  function told() {
    own.clear();
    const names = rows.map((row) => row.key.value);
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined)
      own.show(`${twice ? `'${twice}'` : "The empty name"} is there twice; the last one counts.`);
    changed();
  }
  function append(name, value) {
    const key = h("input", {
      class: "input mono",
      value: name,
      placeholder: "name",
      "aria-label": "Name",
      autocomplete: "off",
      on: { input: told },
    });
    const member = new Member("value", shape.others, true, changed, { labelled: false });
    member.set(value);
    const entry = { key, member };
    rows.push(entry);
    const remove = button(
      "",
      () => {
        rows = rows.filter((each) => each !== entry);
        row.remove();
        told();
        add.focus();
      },
      { sign: "close", label: "Remove this name", kind: "quiet small" },
    );
    const row = h("div", { class: "row" }, key, member.element, remove);
    list.append(row);
  }
  return {
    element: h(
      "div",
      { class: "record" },
      shape.title && h("p", { class: "soft" }, shape.title),
      own.element,
      list,
      add,
    ),
    get: () => Object.fromEntries(rows.map(({ key, member }) => [key.value, member.get()])),
    set(value) {
      const given = Object.entries(isObject(value) ? value : {});
      const known = rows.map(({ key }) => key.value).join("\n");
      if (rows.length && known === given.map(([name]) => name).join("\n")) {
        rows.forEach(({ member }, at) => member.set(given[at][1]));
        return;
      }
      rows = [];
      list.replaceChildren();
      for (const [name, item] of given) append(name, item);
    },
    focus: () => (rows[0]?.key ?? add).focus(),
    clear() {
      own.clear();
      for (const { member } of rows) member.clear();
    },
    issue(path, message) {
      const [name, ...inner] = path;
      const row = rows.find(({ key }) => key.value === String(name));
      if (row) return row.member.issue(inner, message);
      if (message !== null) own.show(placed(path, message));
      return () => add.focus();
    },
  };
}

function unionOf(shape, changed) {
  const { branches } = shape;
  const made = new Map();
  const own = notes();
  const place = h("div", { class: "branch" });
  let at = 0;
  const chooser = h(
    "select",
    { class: "input chooser", "aria-label": "Kind of value" },
    branches.map((branch, index) => h("option", { value: String(index) }, branch.label)),
  );
  chooser.addEventListener("change", () => {
    open(Number(chooser.value));
    member().set(branches[at].blank());
    changed();
  });
  const member = () => made.get(at);

  function open(index) {
    at = index;
    chooser.value = String(index);
    if (!made.has(index))
      made.set(index, new Member(branches[index].label, branches[index], true, changed, { labelled: false }));
    place.replaceChildren(made.get(index).element);
  }
  open(0);
  return {
    element: h("div", { class: "union" }, chooser, own.element, place),
    get: () => member().get(),
    set(value) {
      const fits = branches.map((branch) => branch.fit(value));
      const best = Math.max(...fits);
      if (!(fits[at] === best && best > 0)) open(Math.max(fits.indexOf(best), 0));
      member().set(value);
    },
    focus: () => chooser.focus(),
    clear() {
      own.clear();
      member().clear();
    },
    issue: (path, message) => member().issue(path, message),
  };
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
