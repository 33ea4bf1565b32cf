// Talking with an agent: the conversations that were kept, the one that is open, and what is written next.

import { Refused, ask, stream, who } from "./api.js";
import { todoBox } from "./chat-cards.js";
import { Turn, kept, said } from "./chat-turn.js";
import { dialog, masked } from "./dialogs.js";
import { button, h, icon, pill, toast, uid } from "./dom.js";
import { stringify } from "./exact.js";
import { form } from "./form.js";
import { Shape } from "./shape.js";

/** How much of an answer is read out. */
const READ_OUT = 600;

export class ChatView {
  #page;
  /** Those in which a run goes on: others are read anew, as they may have grown elsewhere. */
  #threads = new Map();
  #thread = null;
  #entries = [];
  #asked = 0;
  #list = h("ul", { class: "talks" });
  #place = h("div", { class: "thread-place" });
  #status = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  #composer;

  constructor(action, page) {
    this.action = action;
    this.#page = page;
    this.#composer = this.#compose();
    const fresh = button("New conversation", () => this.begin(), { sign: "plus", kind: "new" });
    const side = h("aside", { class: "talks-side", "aria-label": "Conversations" }, fresh, this.#list);
    const fold = button("Conversations", () => this.element.classList.toggle("side-shown"), {
      sign: "chat",
      kind: "quiet small fold",
    });
    this.element = h(
      "div",
      { class: `chat ${action.agent.keeps ? "" : "alone"}` },
      side,
      h(
        "section",
        { class: "talk", "aria-label": "Conversation" },
        fold,
        this.#place,
        this.#composer.element,
        this.#status,
      ),
    );
    this.#refresh();
  }

  #compose() {
    return composer(this.action, {
      send: () => this.send(),
      stop: () => this.terminate(),
      keep: () => this.#keep(),
    });
  }

  /** Take another definition of the same agent; what was said, and what was written to be said, stays. */
  update(action) {
    this.action = action;
    const { element, text } = this.#composer;
    this.#composer = this.#compose();
    this.#composer.set(text);
    element.replaceWith(this.#composer.element);
    this.element.classList.toggle("alone", !action.agent.keeps);
    for (const thread of [...this.#threads.values(), this.#thread]) thread?.update(action);
    this.#draw();
  }

  get running() {
    return this.#thread?.running ?? false;
  }

  /** The conversation that is shown, if it has begun. */
  get id() {
    return this.#thread && !this.#thread.blank ? this.#thread.id : "";
  }

  /** Where the chat is on its action's page. */
  get place() {
    return this.id && this.action.agent.keeps ? `chat/${encodeURIComponent(this.id)}` : "chat";
  }

  get #path() {
    return `agents/${this.action.name}`;
  }

  /** Show a conversation; without an id, a new one. */
  async open(id) {
    const { keeps } = this.action.agent;
    if (this.#thread && (this.#thread.id === id || (!id && (this.#thread.blank || !keeps)))) return;
    this.element.classList.remove("side-shown");
    const thread = this.#threads.get(id) ?? new Thread(this.action, id, (told) => this.#heard(thread, told));
    this.#show(thread);
    if (!id || thread.loaded) return;
    await (thread.loading = this.#load(thread));
    this.#draw();
  }

  async #load(thread) {
    try {
      await thread.load();
    } catch (error) {
      if (error.status === 404) toast("This conversation is not there any more.");
      thread.wrong(error);
    }
  }

  /** Begin a conversation, or go on in one that has not begun. */
  begin() {
    this.element.classList.remove("side-shown");
    this.#startOver();
    this.focus();
  }

  /** Another caller acts now, and the conversations are theirs. */
  changeCaller() {
    this.#threads.clear();
    this.#thread = null;
    this.#list.replaceChildren();
    // Who looks at something else is left there.
    if (this.element.offsetParent) this.#startOver();
    this.#refresh();
  }

  #startOver() {
    const place = `#/${this.action.name}/chat`;
    if (location.hash === place) this.open(null);
    else location.hash = place;
  }

  focus() {
    this.#composer.focus();
  }

  async send() {
    const thread = this.#thread;
    // What is said stands below what was said before.
    await thread?.loading;
    if (!thread || thread !== this.#thread || thread.running || this.#page.broken) return;
    const given = this.#composer.read();
    if (given === null) return;
    this.#composer.set("");
    this.#keep();
    if (thread.blank && this.action.agent.keeps)
      history.replaceState(null, "", `#/${this.action.name}/chat/${encodeURIComponent(thread.id)}`);
    await thread.say(given.input, given.text);
  }

  async terminate() {
    const thread = this.#thread;
    if (!thread?.running) return;
    this.#composer.stopping();
    await thread.terminate().catch((error) => toast(error.message));
  }

  #show(thread) {
    this.#thread = thread;
    this.#place.replaceChildren(thread.element);
    this.#composer.set(sessionStorage.getItem(this.#draft) ?? "");
    this.#mark();
    this.#draw();
    thread.bottom();
  }

  /** What a thread tells: `begun`, `heard` (the first word of a run), `asks` (with words), `over` (with words). */
  #heard(thread, { kind, words }) {
    if (kind === "begun") {
      this.#threads.set(thread.id, thread);
      this.#draw();
    }
    if (kind === "asks" || kind === "over") {
      if (thread === this.#thread) this.#status.textContent = words.slice(0, READ_OUT);
      if (document.hidden && kind === "asks") document.title = `? ${document.title.replace(/^\? /, "")}`;
    }
    if (kind === "over") {
      this.#threads.delete(thread.id);
      this.#draw();
    }
    if (kind === "heard" || kind === "over") this.#refresh();
  }

  #draw() {
    this.#composer.draw(this.running);
  }

  async #refresh() {
    if (!this.action.agent.keeps) return;
    const mine = ++this.#asked;
    try {
      const { conversations } = await ask(`${this.#path}/conversations`, { headers: who() });
      if (mine !== this.#asked) return;
      this.#entries = conversations;
    } catch (error) {
      if (mine !== this.#asked) return;
      this.#list.replaceChildren(h("li", { class: "soft" }, error.message));
      return;
    }
    this.#list.replaceChildren(
      ...(this.#entries.length
        ? this.#entries.map((each) => this.#row(each))
        : [h("li", { class: "none soft" }, "What you say is kept here.")]),
    );
    this.#mark();
  }

  #row(entry) {
    const title = entry.title || "Without a title";
    const moment = new Date(entry.updated * 1000);
    return h(
      "li",
      { data: { id: entry.id } },
      h(
        "a",
        { href: `#/${this.action.name}/chat/${encodeURIComponent(entry.id)}` },
        h("span", { class: "talk-title" }, title),
        h(
          "span",
          { class: "talk-about" },
          entry.running && h("span", { class: "spinner", title: "The agent is at work" }),
          entry.awaiting && !entry.running && pill("asks you", "warn"),
          h("time", { dateTime: moment.toISOString(), title: moment.toLocaleString() }, since(moment)),
        ),
      ),
      h(
        "span",
        { class: "talk-tools" },
        button("", () => this.#rename(entry), { sign: "pen", label: `Rename ${title}`, kind: "quiet small" }),
        button("", () => this.#delete(entry), { sign: "bin", label: `Delete ${title}`, kind: "quiet small" }),
      ),
    );
  }

  #mark() {
    for (const row of this.#list.children) {
      const link = row.querySelector("a");
      if (row.dataset.id === this.#thread?.id) link?.setAttribute("aria-current", "page");
      else link?.removeAttribute("aria-current");
    }
  }

  #rename(entry) {
    const id = uid("title");
    const input = h("input", { class: "input", id, value: entry.title ?? "", maxLength: 80 });
    const save = async () => {
      const title = input.value.trim();
      if (!title) return input.focus();
      shown.close();
      await this.#tell("rename", { id: entry.id, title });
      return this.#refresh();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      // The button that gets the focus back must not take this as meant for it.
      event.preventDefault();
      save();
    });
    const shown = dialog(
      "Rename the conversation",
      h("div", { class: "field" }, h("label", { class: "name", htmlFor: id }, "Title"), input),
      [button("Cancel", () => shown.close(), { kind: "quiet" }), button("Rename", save, { kind: "primary" })],
    );
    input.select();
  }

  #delete(entry) {
    const gone = async () => {
      shown.close();
      if (!(await this.#tell("delete", { id: entry.id }))) return;
      this.#threads.delete(entry.id);
      sessionStorage.removeItem(this.#draftOf(entry.id));
      if (this.#thread?.id === entry.id) this.begin();
      await this.#refresh();
    };
    const stay = button("Keep it", () => shown.close());
    const shown = dialog(
      "Delete the conversation?",
      h(
        "p",
        {},
        h("strong", {}, entry.title || "Without a title"),
        " and all that was said in it will be gone.",
      ),
      [stay, button("Delete", gone, { kind: "danger" })],
      { danger: true },
    );
    stay.focus();
  }

  async #tell(question, body) {
    try {
      await ask(`${this.#path}/${question}`, { method: "POST", body, headers: who() });
      return true;
    } catch (error) {
      toast(error.message);
      return false;
    }
  }

  get #draft() {
    return this.#draftOf(this.#thread.blank ? "" : this.#thread.id);
  }

  #draftOf(id) {
    return `fairlead:chat:${this.#page.app}:${this.action.name}:${id}`;
  }

  #keep() {
    const text = this.#composer.text;
    if (text) sessionStorage.setItem(this.#draft, text);
    else sessionStorage.removeItem(this.#draft);
  }
}

/** One conversation on the page. It goes on when another is looked at. */
class Thread {
  #action;
  #tell;
  #scroller = h("div", {
    class: "scroller",
    tabIndex: 0,
    role: "log",
    "aria-live": "off",
    "aria-label": "What was said",
  });
  #turns = h("div", { class: "turns" });
  #todo = todoBox();
  #down = button("", () => this.bottom(true), { sign: "down", label: "To the newest", kind: "down" });
  #stuck = true;
  #top = 0;
  #last = null;
  #input = null;

  /** Without an id it is a new one, in which nothing has been said. */
  constructor(action, id, tell) {
    this.#action = action;
    this.id = id || crypto.randomUUID();
    this.#tell = tell;
    this.blank = !id;
    this.loaded = false;
    this.running = false;
    this.#turns.append(welcome(action));
    this.#scroller.append(this.#turns);
    this.#down.hidden = true;
    const top = h("div", { class: "thread-top" }, this.#scroller, this.#down);
    this.element = h("div", { class: "thread" }, top, this.#todo.element);
    this.#scroller.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
      // By the time this is told, more may have been said: only going up means that somebody reads further up.
      if (scrollHeight - scrollTop - clientHeight < 48) this.#stuck = true;
      else if (scrollTop < this.#top) this.#stuck = false;
      this.#top = scrollTop;
      this.#down.hidden = this.#stuck;
    });
    const follow = new ResizeObserver(() => this.bottom());
    follow.observe(this.#turns);
    follow.observe(this.#scroller);
  }

  update(action) {
    this.#action = action;
  }

  /** Go to the newest, where that was in sight, or was asked for. */
  bottom(asked = false) {
    if (asked) this.#stuck = true;
    if (!this.#stuck) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#top = this.#scroller.scrollTop;
  }

  async load() {
    this.#turns.replaceChildren(h("p", { class: "waiting" }, "Loading the conversation…"));
    const { conversation, messages, said: words, failed } = await this.#ask("open");
    this.loaded = true;
    const turns = kept(messages, () => this.#turn(true), failed);
    this.#turns.replaceChildren(...turns.map((each) => each.element));
    this.#todo.set(conversation.todo);
    const last = turns.at(-1);
    if (!conversation.running) {
      last?.finish?.();
      if (conversation.awaiting) this.#last = last;
      for (const each of turns) if (!(conversation.awaiting && each === last)) each.over?.();
    } else {
      // A run may end before it is followed. What it said is kept then.
      const ended = () => this.load().catch((error) => this.wrong(error));
      this.#listen(words, `agents/${this.#action.name}/follow`, { id: this.id }, ended);
    }
    this.bottom(true);
  }

  /** Say something, and hear the answer to its end. */
  async say(input, text) {
    if (this.blank) this.#turns.replaceChildren();
    this.blank = false;
    this.loaded = true;
    this.#input = [input, text];
    this.#last?.over();
    await this.#listen(text, `agents/${this.#action.name}/say`, { id: this.id, input });
  }

  async terminate() {
    await this.#ask("terminate");
  }

  wrong(error) {
    this.#turns.replaceChildren(h("p", { class: "empty" }, error.message));
  }

  /** Hear a run to its end; `ended` is asked for where it ended before anything was heard of it. */
  async #listen(text, path, body, ended = null) {
    if (text) this.#turns.append(said(text));
    const turn = (this.#last = this.#turn());
    this.#turns.append(turn.element);
    this.running = true;
    this.#tell({ kind: "begun" });
    this.bottom(true);
    let envelope = null;
    let heard = false;
    let missed = false;
    try {
      for await (const event of stream(path, body)) {
        if (!heard) this.#tell({ kind: "heard" });
        heard = true;
        missed = event.status === 404;
        if (event.type === "result") envelope = event.envelope;
        else turn.event(event);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      envelope = { ok: false, error: error.error, meta: {} };
    } finally {
      this.running = false;
    }
    if (ended && missed) {
      this.#tell({ kind: "over", words: "" });
      await ended();
      return;
    }
    turn.end(envelope);
    const words = envelope.ok ? turn.words : envelope.error.message;
    this.#tell({ kind: "over", words });
  }

  #turn(quiet = false) {
    return new Turn(this.#action.title, {
      quiet,
      answer: (told) => this.#answer(told),
      stop: (call) => this.#ask("stop", { call }),
      // What was said before this was loaded is not known here as it was given.
      again: this.#input && (() => !this.running && this.say(...this.#input)),
      todo: (text) => this.#todo.set(text),
      tell: (words) => this.#tell({ kind: "asks", words }),
    });
  }

  /** An answer to a run that goes on, or to one that has paused: then it is the next thing that is said. */
  async #answer(told) {
    if (this.running) {
      await this.#ask("answer", told);
      return;
    }
    const words = Array.isArray(told.answer) ? told.answer.join("\n") : told.answer;
    const name = this.#action.agent.prompt;
    if (!name) throw new Error("The run has ended meanwhile. Ask again, with what you know now.");
    this.#last?.replied(told.question, told.answer);
    this.#last = null;
    await this.say({ [name]: words }, null);
  }

  #ask(question, body = {}) {
    return ask(`agents/${this.#action.name}/${question}`, {
      method: "POST",
      body: { ...body, id: this.id },
      headers: who(),
    });
  }
}

function welcome(action) {
  return h(
    "div",
    { class: "welcome" },
    icon("chat"),
    h("h2", {}, `Talk with ${action.title}`),
    h("p", { class: "soft" }, action.description),
  );
}

/** Where one writes. `read` gives the input and its words, or null where there is nothing to send. */
function composer(action, { send, stop, keep }) {
  const name = action.agent.prompt;
  const hint = h(
    "span",
    {},
    name ? "Enter sends, Shift+Enter begins a line, Esc ends the run" : "Ctrl+Enter sends, Esc ends the run",
  );
  const go = button("Send", send, { sign: "send", kind: "primary send" });
  const end = button("Terminate", stop, {
    sign: "stop",
    kind: "danger terminate",
    title: "End the run (Esc)",
  });
  end.hidden = true;
  const area = h("textarea", {
    class: "say",
    rows: 1,
    placeholder: `Message ${action.title}`,
    "aria-label": `Message ${action.title}`,
    autocomplete: "off",
  });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.ctrlKey || event.metaKey)
      return;
    event.preventDefault();
    send();
  });
  area.addEventListener("input", keep);
  const fields = name
    ? null
    : form(new Shape(withoutConversation(action.inputSchema), action.secretFields), () => {});
  if (fields) fields.set(new Shape(withoutConversation(action.inputSchema)).blank());
  const element = h(
    "div",
    { class: "composer" },
    h(
      "div",
      { class: "composer-box" },
      fields ? h("div", { class: "composer-form" }, fields.element) : area,
      h("div", { class: "composer-go" }, go, end),
    ),
    h(
      "p",
      { class: "composer-hint soft" },
      hint,
      h("span", { class: "grow" }),
      action.agent.model && h("code", {}, action.agent.model),
    ),
  );
  return {
    element,
    focus: () => (fields ? fields.focus() : area.focus()),
    get text() {
      return area.value;
    },
    set(text) {
      area.value = text;
    },
    read() {
      if (fields) {
        const input = fields.get();
        return { input, text: stringify(masked(input, action.secretFields ?? []), 2) };
      }
      const text = area.value;
      return text.trim() ? { input: { [name]: text }, text } : null;
    },
    draw(running) {
      go.hidden = running;
      end.hidden = !running;
      end.disabled = false;
    },
    stopping() {
      end.disabled = true;
    },
  };
}

function withoutConversation(schema) {
  const { conversation: _, ...properties } = schema.properties ?? {};
  return { ...schema, properties };
}

/** How long ago something was, in a word or two. */
function since(moment) {
  const seconds = (Date.now() - moment) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return moment.toLocaleDateString(undefined, {
    day: "numeric",
    month: "short",
    year: seconds > 3e7 ? "numeric" : undefined,
  });
}
