// One action on the page: its words, its input as a form and as JSON, its run, and its other views.

import { Refused, ask, call } from "./api.js";
import { ChatView } from "./chat.js";
import { codePanel, schemaPanel, surfacesPanel } from "./beside.js";
import { RUN_KEYS, confirmCall } from "./dialogs.js";
import { button, copyButton, h, icon, tabs, toast } from "./dom.js";
import { editor } from "./editor.js";
import { copy, parse, same, stringify } from "./exact.js";
import { form } from "./form.js";
import { pills } from "./list.js";
import { outcome } from "./outcome.js";
import { pastList, restored } from "./past.js";
import { Shape } from "./shape.js";

const TABS = {
  chat: "Chat",
  call: "Call",
  code: "Code",
  surfaces: "Surfaces",
  schema: "Schema",
  history: "History",
};

/** `page` has what actions share: the past, the placeholder for secrets, and where to go. */
export class ActionView {
  #page;
  #shape;
  #form;
  #editor;
  #outcome;
  #abort = null;
  #value;
  #code = null;
  #surfaces = null;
  #tabs;
  #run;
  #options;
  #chat = null;

  constructor(action, page) {
    this.action = action;
    this.#page = page;
    this.element = h("article", { class: "view-action" });
    this.#outcome = outcome({
      cancel: () => this.cancel(),
      again: () => this.run(),
      focus: (issue) => this.#focusIssue(issue),
    });
    this.#value = start(action);
    this.#build();
    this.#recall();
  }

  get tab() {
    return this.open_;
  }

  get running() {
    return this.#chatting ? (this.#chat?.running ?? false) : this.#abort !== null;
  }

  get #chatting() {
    return this.open_ === "chat";
  }

  get value() {
    return this.#value;
  }

  /** Show a tab, the first if none is named; `id` is the conversation that the chat is to show. */
  open(tab, id = "") {
    const { agent } = this.action;
    this.open_ = tab in TABS && (tab !== "chat" || agent) ? tab : agent ? "chat" : "call";
    this.#tabs.open(this.open_);
    this.element.classList.toggle("chatting", this.#chatting);
    if (this.#chatting) this.#chat.open(id);
    if (this.open_ === "code") this.#code.draw();
    if (this.open_ === "surfaces") this.#surfaces.draw();
  }

  /** Take another definition of the same action; what was typed stays. */
  update(action) {
    if (same(action, this.action)) return;
    this.action = action;
    if (action.agent) this.#chat?.update(action);
    this.#build();
    this.open(this.open_, this.#chat?.id);
  }

  fill(value) {
    this.#value = value;
    this.#form.set(value);
    this.#editor.set(value);
    this.#keep();
  }

  /** Fill in a kept input. Gives whether it is whole: secrets were not kept. */
  fillKept(input) {
    const { value, whole } = restored(input, this.#page.placeholder);
    this.fill(value);
    if (!whole) toast("Secrets were not kept: please fill them in.");
    return whole;
  }

  /** Another caller acts now. */
  changeCaller() {
    this.#chat?.changeCaller();
  }

  focusForm() {
    if (this.#chatting) this.#chat.focus();
    else this.#form.focus();
  }

  focusEditor() {
    this.#editor.focus();
  }

  focusOutcome() {
    this.#outcome.focus();
  }

  cancel() {
    if (this.#chatting) this.#chat.terminate();
    else this.#abort?.abort();
  }

  async run() {
    if (this.#chatting) {
      await this.#chat.send();
      return;
    }
    if (this.running || this.#page.broken) return;
    if (!this.#editor.valid) {
      this.#editor.focus();
      return;
    }
    if (this.open_ !== "call") this.#page.go(this.action.name, "call");
    const input = copy(this.#value);
    if (this.action.requiresConfirmation && !(await confirmCall(this.action, input))) return;
    await this.#send(input, this.action.requiresConfirmation || undefined);
  }

  async #send(input, confirm) {
    const body = { input, ...this.#options.read() };
    if (confirm !== undefined) body.confirm = confirm;
    this.#form.clearIssues();
    this.#abort = new AbortController();
    this.#draw();
    this.#outcome.start();
    const envelope = await this.#heard(body);
    this.#abort = null;
    this.#draw();
    const token =
      envelope.error?.code === "CONFIRMATION_REQUIRED" && typeof confirm !== "string"
        ? envelope.error.details?.confirmation?.code
        : null;
    // Who has agreed to this very input need not be asked again for the token that stands for it.
    if (token && (confirm === true || (await confirmCall(this.action, input, envelope.error.message)))) {
      await this.#send(input, token);
      return;
    }
    this.#outcome.end(envelope);
    if (!this.#showIssues(envelope)) this.#outcome.look();
    this.#page.past.add(this.action.name, input, envelope).catch(() => {});
  }

  /** The envelope the call ended with; one of our own where the server could not give it. */
  async #heard(body) {
    const began = performance.now();
    const meta = () => ({
      action: this.action.name,
      surface: "dev",
      durationMs: Math.round(performance.now() - began),
    });
    try {
      for await (const event of call(this.action.name, body, this.#abort.signal)) {
        if (event.type === "result") return event.envelope;
        this.#outcome.event(event);
      }
      throw new TypeError("a stream ends with its result");
    } catch (error) {
      if (error.name === "AbortError")
        return {
          ok: false,
          error: { code: "CANCELLED", message: "You cancelled the call.", issues: [], retryable: false },
          meta: meta(),
        };
      if (error instanceof Refused) return { ok: false, error: error.error, meta: meta() };
      throw error;
    }
  }

  /** Put the issues at their fields; gives whether the focus went to the first. */
  #showIssues(envelope) {
    const error = envelope.error;
    if (error?.code !== "VALIDATION_ERROR") return false;
    const issues = error.issues.length
      ? error.issues
      : error.field
        ? [{ path: [error.field], message: error.message }]
        : [];
    const places = issues.map((issue) => this.#form.showIssue(issue.path, issue.message));
    // Whoever is at the form goes on at the first field that is wrong; who edits JSON is left alone.
    const there =
      this.#form.element.contains(document.activeElement) ||
      document.activeElement === this.#run ||
      document.activeElement === document.body;
    if (!places.length || !there) return false;
    places[0]();
    return true;
  }

  #focusIssue(issue) {
    this.#page.go(this.action.name, "call");
    this.#form.showIssue(issue.path, null)();
  }

  #build() {
    const { action } = this;
    this.#shape = new Shape(action.inputSchema, action.secretFields);
    this.#form = form(this.#shape, () => {
      this.#value = this.#form.get();
      this.#editor.set(this.#value);
      this.#keep();
    });
    const typed = (value) => {
      this.#value = value;
      this.#form.set(value);
      this.#keep();
    };
    this.#editor = editor("Input as JSON", typed, action.secretFields);
    this.#run = h(
      "button",
      { type: "button", class: "button primary run", on: { click: () => this.run() } },
      icon("play"),
      h("span", {}, "Run"),
      h("kbd", { "aria-hidden": "true" }, RUN_KEYS),
    );
    this.#options = callOptions();
    this.#code = codePanel(action, () => this.#value);
    this.#surfaces = surfacesPanel(action);
    const chat = () => (this.#chat ??= new ChatView(action, this.#page)).element;
    this.#tabs = tabs(
      "Views of the action",
      [
        ...(action.agent ? [{ id: "chat", title: TABS.chat, make: chat }] : []),
        { id: "call", title: TABS.call, make: () => this.#callPanel() },
        { id: "code", title: TABS.code, make: () => this.#code.element },
        { id: "surfaces", title: TABS.surfaces, make: () => this.#surfaces.element },
        { id: "schema", title: TABS.schema, make: () => schemaPanel(action) },
        {
          id: "history",
          title: TABS.history,
          make: () =>
            pastList(this.#page.past, {
              action: action.name,
              open: (entry) => this.#reopen(entry),
              rerun: (entry) => this.#rerun(entry),
            }),
        },
      ],
      (id) => this.#page.go(action.name, id === "chat" ? this.#chat.place : id),
    );
    this.element.replaceChildren(heading(action), this.#tabs.list, this.#tabs.panels);
    this.#form.set(this.#value);
    this.#editor.set(this.#value);
    this.#draw();
  }

  #callPanel() {
    const reset = button(
      "Start over",
      () => {
        this.fill(start(this.action));
        this.#form.clearIssues();
      },
      { kind: "quiet small", sign: "reset" },
    );
    const format = button("Format", () => this.#editor.format(), { kind: "quiet small" });
    return h(
      "div",
      { class: "call" },
      h(
        "div",
        { class: "inputs" },
        h(
          "section",
          { class: "card form-card", "aria-label": "Input as a form" },
          h("header", { class: "card-head" }, h("h2", {}, "Input"), h("span", { class: "grow" }), reset),
          this.#form.element,
        ),
        h(
          "section",
          { class: "card editor-card", "aria-label": "Input as JSON" },
          h(
            "header",
            { class: "card-head" },
            h("h2", {}, "JSON"),
            h("span", { class: "grow" }),
            format,
            copyButton(() => this.#editor.text, "Copy the input"),
          ),
          this.#editor.element,
        ),
      ),
      h("div", { class: "run-bar" }, this.#run, this.#options.element),
      this.#outcome.element,
    );
  }

  #reopen(entry) {
    this.#page.go(this.action.name, "call");
    this.fillKept(entry.input);
  }

  #rerun(entry) {
    this.#page.go(this.action.name, "call");
    if (this.fillKept(entry.input)) this.run();
  }

  /** Show whether it runs, and whether it can. */
  #draw() {
    // Not `disabled`: the focus would be lost with every run.
    this.#run.setAttribute("aria-disabled", String(this.#abort !== null || this.#page.broken));
  }

  refresh() {
    this.#draw();
  }

  /** Keep what was typed for this tab's next load, without the secrets. */
  #keep() {
    clearTimeout(this.keeping);
    const mine = (this.keeping = setTimeout(async () => {
      try {
        const { input } = await ask(`actions/${this.action.name}/keep`, {
          method: "POST",
          body: { input: this.#value },
        });
        if (mine === this.keeping) sessionStorage.setItem(this.#draftKey, stringify(input));
      } catch {
        // A draft is a comfort, not a promise.
      }
    }, 400));
  }

  #recall() {
    const kept = sessionStorage.getItem(this.#draftKey);
    if (kept === null) return;
    const { value } = restored(parse(kept), this.#page.placeholder);
    this.#value = value ?? this.#value;
    this.#form.set(this.#value);
    this.#editor.set(this.#value);
  }

  get #draftKey() {
    return `fairlead:draft:${this.#page.app}:${this.action.name}`;
  }
}

/** What an input starts from: the docs' example, else what the schema suggests. */
function start(action) {
  const example = action.docs?.inputExample;
  return example === undefined || example === null ? new Shape(action.inputSchema).blank() : copy(example);
}

function heading(action) {
  const { docs, deprecation } = action;
  const lines = (given) => (Array.isArray(given) ? given.join(" ") : given);
  const notes = [
    docs.whenToUse && ["When to use it", docs.whenToUse],
    docs.whenNotToUse && ["When not to", docs.whenNotToUse],
    docs.usageNotes && ["Notes", docs.usageNotes],
  ].filter(Boolean);
  const replaced =
    deprecation &&
    [
      deprecation.message,
      deprecation.since && `Since ${deprecation.since}.`,
      deprecation.removeAfter && `To be removed after ${deprecation.removeAfter}.`,
    ]
      .filter(Boolean)
      .join(" ");
  return h(
    "header",
    { class: "heading" },
    h(
      "div",
      { class: "heading-line" },
      h("h1", {}, action.title),
      h("code", { class: "soft" }, `${action.name}@${action.version}`),
    ),
    h("p", { class: "lead" }, action.description),
    h("div", { class: "pills" }, pills(action)),
    deprecation &&
      h(
        "p",
        { class: "notice warn" },
        "Deprecated. ",
        replaced,
        deprecation.replacement && [
          " Use ",
          h("a", { href: `#/${deprecation.replacement}` }, deprecation.replacement),
          " instead.",
        ],
      ),
    notes.length > 0 &&
      h(
        "dl",
        { class: "notes" },
        notes.map(([name, text]) => [h("dt", {}, name), h("dd", {}, lines(text))]),
      ),
  );
}

/** What a call may carry besides its input. */
function callOptions() {
  const key = h("input", { class: "input mono", autocomplete: "off", placeholder: "none" });
  const time = h("input", { class: "input", inputMode: "numeric", autocomplete: "off", placeholder: "none" });
  const fresh = button("New", () => (key.value = crypto.randomUUID()), { kind: "quiet small" });
  const element = h(
    "details",
    { class: "options" },
    h("summary", {}, icon("chevron"), "Options"),
    h(
      "div",
      { class: "option-rows" },
      h("label", {}, h("span", {}, "Idempotency key"), key),
      fresh,
      h("label", {}, h("span", {}, "Time limit, ms"), time),
    ),
  );
  return {
    element,
    read() {
      const limit = Number(time.value);
      return {
        ...(key.value ? { idempotencyKey: key.value } : {}),
        ...(time.value.trim() ? { timeoutMs: Number.isFinite(limit) ? limit : time.value } : {}),
      };
    },
  };
}
