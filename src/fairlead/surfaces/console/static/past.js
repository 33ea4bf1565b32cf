// Calls that were made, kept by the browser without their secrets: the server says what may be kept.

import { ask } from "./api.js";
import { button, h, pill } from "./dom.js";
import { parse, same, stringify } from "./exact.js";

const MOST = 100;
const LONGEST = 20_000;

/** The history of one app, in local storage. */
export class Past {
  constructor(app) {
    this.key = `fairlead:history:${app}`;
    /** Who draws the calls of an action, or of all: the newest list of each, as the ones before are seen no more. */
    this.heard = new Map();
    addEventListener("storage", (event) => event.key === this.key && this.#tell());
  }

  all() {
    try {
      const kept = parse(localStorage.getItem(this.key) ?? "[]");
      return Array.isArray(kept) ? kept : [];
    } catch {
      return [];
    }
  }

  of(action) {
    return this.all().filter((entry) => entry.action === action);
  }

  async add(action, input, envelope) {
    const { input: kept } = await ask(`actions/${action}/keep`, { method: "POST", body: { input } });
    const entry = {
      action,
      time: Date.now(),
      ok: envelope.ok,
      code: envelope.error?.code ?? null,
      durationMs: envelope.meta?.durationMs ?? null,
    };
    if (stringify(kept).length <= LONGEST) entry.input = kept;
    this.#write([entry, ...this.all()].slice(0, MOST));
  }

  clear(action) {
    this.#write(action ? this.all().filter((entry) => entry.action !== action) : []);
  }

  #write(entries) {
    // A full storage forgets the oldest first.
    for (let count = entries.length; ; count = Math.floor(count / 2)) {
      try {
        localStorage.setItem(this.key, stringify(entries.slice(0, count)));
        break;
      } catch {
        if (count === 0) break;
      }
    }
    this.#tell();
  }

  #tell() {
    for (const draw of this.heard.values()) draw();
  }
}

/** The list of past calls: of one action, or of all. `open` fills a form, `rerun` runs it too. */
export function pastList(past, { action, open, rerun }) {
  const list = h("ul", { class: "past" });
  const empty = h(
    "p",
    { class: "empty" },
    "No calls yet. What you run is listed here, without secrets, in this browser only.",
  );
  const clear = button("Clear", () => past.clear(action), { kind: "quiet" });
  const element = h(
    "div",
    { class: "past-box" },
    h("div", { class: "view-tools" }, h("span", { class: "grow" }), clear),
    list,
    empty,
  );
  function draw() {
    const entries = action ? past.of(action) : past.all();
    list.replaceChildren(...entries.map(row));
    empty.hidden = entries.length > 0;
    clear.hidden = entries.length === 0;
  }
  function row(entry) {
    const when = new Date(entry.time);
    const input = entry.input === undefined ? "(input too large to keep)" : stringify(entry.input);
    return h(
      "li",
      { class: "past-entry" },
      h(
        "div",
        { class: "past-head" },
        entry.ok ? pill("ok", "good") : pill(entry.code ?? "failed", "bad"),
        !action && h("a", { href: `#/${entry.action}`, class: "mono" }, entry.action),
        h(
          "time",
          { class: "soft", dateTime: when.toISOString(), title: when.toLocaleString() },
          ago(entry.time),
        ),
        entry.durationMs !== null && h("span", { class: "soft" }, `${entry.durationMs} ms`),
      ),
      h("code", { class: "past-input", title: input }, input),
      h(
        "div",
        { class: "past-actions" },
        button("Open", () => open(entry), { kind: "quiet small", disabled: entry.input === undefined }),
        button("Run again", () => rerun(entry), { kind: "quiet small", disabled: entry.input === undefined }),
      ),
    );
  }
  past.heard.set(action, draw);
  draw();
  return element;
}

function ago(time) {
  const seconds = Math.round((Date.now() - time) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h ago` : new Date(time).toLocaleDateString();
}

/** Whether a kept input lost something, and the input without the placeholders. */
export function restored(input, placeholder) {
  const clean = (value) => {
    if (value === placeholder) return undefined;
    if (Array.isArray(value)) return value.map((item) => clean(item) ?? null);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value)
        .map(([name, item]) => [name, clean(item)])
        .filter(([, item]) => item !== undefined),
    );
  };
  const value = clean(input);
  return { value, whole: same(value, input) };
}
