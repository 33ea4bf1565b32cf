// Elements from data. Text stays text: nothing here can make HTML of it.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `on` holds listeners, `data` the dataset, `class` the classes; other names are properties or attributes. */
export function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (name === "on")
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "class") element.className = value;
    else if (name.startsWith("aria-") || !(name in element)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const ICONS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v1M12 20v1M3 12h1M20 12h1M5.6 5.6l.7.7M17.7 17.7l.7.7M5.6 18.4l.7-.7M17.7 6.3l.7-.7",
  help: "M9.5 9a2.5 2.5 0 1 1 3.6 2.2c-.7.4-1.1 1-1.1 1.8v.5M12 17h.01M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  person: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 20c1-4 4.5-5 8-5s7 1 8 5",
  play: "M7 5l12 7-12 7z",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 13l4 4L19 7",
  close: "M6 6l12 12M18 6L6 18",
  circle: "M12 5a7 7 0 1 0 0 14 7 7 0 0 0 0-14z",
  down: "M12 5v14M6 13l6 6 6-6",
  send: "M5 12h13M12 5l7 7-7 7",
  chat: "M4 5h16v11H9l-5 4z",
  pen: "M4 20h4L19 9l-4-4L4 16z",
  bin: "M5 7h14M10 4h4M7 7l1 13h8l1-13",
  plus: "M12 5v14M5 12h14",
  chevron: "M9 6l6 6-6 6",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3 2",
  alert: "M12 4l9 16H3zM12 10v4M12 17h.01",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  eye: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7-10-7-10-7zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  book: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11",
  gate: "M4 20V8l8-4 8 4v12M4 12h16M9 20v-8M15 20v-8",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  pipes: "M4 7h6a3 3 0 0 1 3 3v4a3 3 0 0 0 3 3h4M4 17h5M17 14l3 3-3 3",
  reset: "M4 12a8 8 0 1 0 3-6.2M4 4v4h4",
};

/** A small drawing that says nothing to a screen reader: its button does. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("icon");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button. With `label` it is an icon whose name only a screen reader and a tooltip tell. */
export function button(text, click, { kind = "", sign, label, ...more } = {}) {
  const name = label ? { "aria-label": label, title: label } : {};
  const classes = `button ${kind} ${label ? "sign" : ""}`.trim();
  return h(
    "button",
    { type: "button", class: classes, on: { click }, ...name, ...more },
    sign && icon(sign),
    text,
  );
}

/** A button that copies what `text()` gives, and says that it did. */
export function copyButton(text, label = "Copy") {
  const sign = icon("copy");
  const made = h(
    "button",
    { type: "button", class: "button quiet copy", "aria-label": label, title: label },
    sign,
  );
  made.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      toast("The browser does not let the page copy");
      return;
    }
    sign.replaceChildren(icon("check").firstChild);
    toast("Copied");
    setTimeout(() => sign.replaceChildren(icon("copy").firstChild), 1500);
  });
  return made;
}

/** A word about what just happened, for a moment. */
export function toast(text) {
  const note = h("div", { class: "toast" }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), 3000);
}

/** A pill: a fact about an action in one word, with its meaning on hover. */
export function pill(text, kind = "", meaning = "") {
  return h("span", { class: `pill ${kind}`, title: meaning || null }, text);
}

let last = 0;
/** An id that no other element has. */
export function uid(stem = "e") {
  last += 1;
  return `${stem}${last}`;
}

/** Tabs with their panels; each panel is made when it is first opened. `choose` is told the tab's id. */
export function tabs(label, entries, choose = () => {}) {
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const panels = h("div", { class: "panels" });
  const known = entries.map(({ id, title, make }) => {
    const tabId = uid("tab");
    const panel = h("div", {
      class: "panel",
      role: "tabpanel",
      id: uid("panel"),
      "aria-labelledby": tabId,
      hidden: true,
    });
    const tab = h(
      "button",
      { type: "button", class: "tab", role: "tab", id: tabId, "aria-controls": panel.id, tabIndex: -1 },
      title,
    );
    tab.addEventListener("click", () => open(id, true));
    list.append(tab);
    panels.append(panel);
    return { id, tab, panel, make };
  });
  list.addEventListener("keydown", (event) => {
    const at = known.findIndex((each) => each.tab === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + known.length, Home: 0, End: known.length - 1 }[
      event.key
    ];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = known[to % known.length];
    open(next.id, true);
    next.tab.focus();
  });
  function open(id, told = false) {
    for (const each of known) {
      const here = each.id === id;
      each.tab.setAttribute("aria-selected", String(here));
      each.tab.tabIndex = here ? 0 : -1;
      each.panel.hidden = !here;
      if (here) each.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (here && each.make) {
        each.panel.append(each.make());
        each.make = null;
      }
    }
    if (told) choose(id);
  }
  return { list, panels, open, tab: (id) => known.find((each) => each.id === id).tab };
}
