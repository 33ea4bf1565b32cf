// What plugins log and ask of the host: searched by the store, newest first, and looked at again while it is seen.

import { ask, who } from "./api.js";
import { button, h, icon, pill } from "./dom.js";
import { parse, stringify } from "./exact.js";

const EVERY = 2000;
/** Lines that are there without being asked for; the oldest go first. */
const MOST = 500;
const KINDS = { WARN: "warn", ERROR: "bad", DEBUG: "", TRACE: "", INFO: "", LOG: "" };
const SPANS = [
  ["", "Any time"],
  ["1", "Last hour"],
  ["24", "Last day"],
  ["168", "Last week"],
];

function pretty(body) {
  try {
    return stringify(parse(body), 2);
  } catch {
    return body;
  }
}

/** One line; what came with it is behind it. */
function row(line, narrow) {
  const fields = Object.entries(line.fields);
  const words = line.method === "LOG" ? line.message : line.title;
  const facts = [
    line.agent && ["agent", line.agent],
    ["status", String(line.status)],
    line.took_ms !== null && ["took", `${line.took_ms.toFixed(1)} ms`],
    ["id", line.id],
  ].filter(Boolean);
  const field = ([key, value]) =>
    h(
      "button",
      {
        type: "button",
        class: "insight-field",
        title: "Show lines with the same",
        on: { click: () => narrow(`${key}=${value}`) },
      },
      h("b", {}, key),
      ` ${value}`,
    );
  return h(
    "details",
    { class: `insight ${line.level.toLowerCase()}`, data: { id: line.id } },
    h(
      "summary",
      {},
      h("time", { dateTime: line.time, title: line.time }, new Date(line.time).toLocaleTimeString()),
      pill(line.level, KINDS[line.level] ?? ""),
      h("code", {}, line.plugin),
      h("span", { class: "words" }, words),
      line.method === "LOG" ? "" : h("span", { class: "soft" }, String(line.status)),
    ),
    fields.length ? h("div", { class: "insight-fields" }, fields.map(field)) : "",
    line.body === line.message
      ? ""
      : h("pre", { class: "code", tabIndex: 0, role: "region", "aria-label": "Payload" }, pretty(line.body)),
    h("p", { class: "soft" }, facts.map(([name, value]) => `${name} ${value}`).join(" · ")),
  );
}

let page = null;

/** The page, of one plugin where `plugin` is said. */
export function insightsPage(plugin = "") {
  page ??= build();
  page.open(plugin);
  return page.element;
}

function build() {
  const asked = { text: "", plugin: "", level: "", since: "" };
  const change = (name) => (event) => {
    asked[name] = event.target.value;
    begin();
  };
  const search = h("input", {
    type: "search",
    class: "input",
    placeholder: "Words, or a field: event=registered",
    "aria-label": "Search lines",
    on: { input: change("text") },
  });
  const choice = (name, label) =>
    h("select", { class: "input", "aria-label": label, on: { change: change(name) } });
  const plugins = choice("plugin", "Plugin");
  const levels = choice("level", "Level");
  const since = choice("since", "Time");
  since.append(...SPANS.map(([value, text]) => h("option", { value }, text)));
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const list = h("div", { class: "insights", role: "log", "aria-label": "Lines", "aria-live": "off" });
  const older = button("Older", more, { kind: "quiet", hidden: true });
  const element = h(
    "article",
    { class: "prose wide" },
    h("h1", {}, "Insights"),
    h("p", { class: "lead" }, "What plugins log, and what they ask of the host."),
    h("div", { class: "insights-asked" }, icon("search"), search, plugins, levels, since),
    trouble,
    list,
    older,
  );
  let timer = null;
  let turn = 0;
  /** Whether lines have been asked for that the list is to end with. */
  let asking = false;
  let most = MOST;

  const question = (before = "") => {
    const given = Object.entries({ ...asked, before }).filter(([, value]) => value !== "");
    return `insights${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  };

  function options(select, names, all, value) {
    const said = names.join("\n");
    if (select.dataset.said !== said) {
      select.dataset.said = said;
      select.replaceChildren(
        h("option", { value: "" }, all),
        ...names.map((each) => h("option", { value: each }, each)),
      );
    }
    select.value = value;
  }

  async function told(path) {
    try {
      const answer = await ask(path, { headers: who() });
      trouble.hidden = true;
      const names = new Set([...answer.plugins, ...(asked.plugin ? [asked.plugin] : [])]);
      options(plugins, [...names].sort(), "All plugins", asked.plugin);
      options(levels, answer.levels, "All levels", asked.level);
      return answer;
    } catch (error) {
      trouble.textContent = error.message;
      trouble.hidden = false;
      return null;
    }
  }

  function narrow(term) {
    search.value = asked.text = /\s/.test(term) ? `"${term}"` : term;
    begin();
  }

  /** Ask anew. A later question makes the answer to an earlier one worthless. */
  async function begin() {
    turn += 1;
    const mine = turn;
    clearTimeout(timer);
    asking = true;
    const answer = await told(question());
    if (mine !== turn) return;
    asking = false;
    if (answer) {
      most = MOST;
      list.replaceChildren(...answer.lines.map((line) => row(line, narrow)));
      if (!answer.lines.length)
        list.append(h("p", { class: "empty" }, "Nothing was found. Plugins write here with log and log_structured."));
      older.hidden = !answer.more;
    }
    wait();
  }

  /** Begin the list anew: there may be more that is new than was told. */
  function replace(answer) {
    turn += 1;
    asking = false;
    most = MOST;
    list.replaceChildren(...answer.lines.map((line) => row(line, narrow)));
    older.hidden = !answer.more;
  }

  /** Put what is new above the rest: lines that somebody has opened stay as they are. */
  async function refresh() {
    const mine = turn;
    const answer = await told(question());
    if (mine !== turn || !answer) return wait();
    const known = new Set([...list.querySelectorAll("details")].map((each) => each.dataset.id));
    const fresh = answer.lines.filter((line) => !known.has(line.id));
    if (fresh.length === answer.lines.length && fresh.length) replace(answer);
    else list.prepend(...fresh.map((line) => row(line, narrow)));
    while (list.childElementCount > most) {
      list.lastChild.remove();
      older.hidden = false;
    }
    return wait();
  }

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(() => element.isConnected && refresh(), EVERY);
  }

  async function more() {
    if (asking) return;
    const mine = turn;
    asking = true;
    const answer = await told(question(list.lastElementChild?.dataset.id ?? ""));
    if (mine !== turn) return;
    asking = false;
    if (!answer) return;
    list.append(...answer.lines.map((line) => row(line, narrow)));
    most = Math.max(most, list.childElementCount);
    older.hidden = !answer.more;
  }

  function open(plugin) {
    asked.plugin = plugin;
    begin();
  }
  return { element, open };
}
