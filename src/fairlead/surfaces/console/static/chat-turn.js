// One turn of a conversation: what was said to the agent, or all that the agent did and said for an answer.

import { approvalCard, chart, duration, envelopeOf, fileCard, questionCard, toolCard } from "./chat-cards.js";
import { markdown } from "./chat-markdown.js";
import { copyButton, h, icon } from "./dom.js";
import { stringify } from "./exact.js";
import { failureCard } from "./explain.js";
import { tree } from "./tree.js";

/** Tools that are shown by what they do, not by a card. */
const QUIET = new Set(["todo", "complete", "clarify"]);

/** What a person said. */
export function said(text) {
  return h("article", { class: "turn said", "aria-label": "You" }, h("div", { class: "bubble" }, text));
}

/**
 * What an agent does for an answer. `answer` sends what a person says to a question, `stop` ends the command of a call,
 * `todo` and `tell` pass things on.
 */
export class Turn {
  #parts = h("div", { class: "parts" });
  #foot = h("footer", { class: "turn-foot" });
  #busy = h(
    "p",
    { class: "busy" },
    h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
    h("span", {}, "Working…"),
  );
  #text = null;
  #thought = null;
  #cards = new Map();
  #asked = new Map();
  #used = { input: 0, output: 0, cost: 0 };
  #frame = null;
  #began = performance.now();

  constructor(agent, { answer, stop, again, todo, tell, quiet = false }) {
    this.agent = agent;
    /** Whether it is shown as it was kept: nobody is asked anew. */
    this.quiet = quiet;
    this.answer = answer;
    this.stop = stop;
    this.again = again;
    this.todo = todo;
    this.tell = tell;
    this.words = "";
    this.element = h(
      "article",
      { class: "turn agent", "aria-label": agent },
      this.#parts,
      this.#busy,
      this.#foot,
    );
  }

  event(event) {
    switch (event.type) {
      case "delta":
        this.write(event.data);
        break;
      case "activity":
        this.#activity(event);
        break;
      case "artifact":
        this.#add(fileCard(event.artifact));
        break;
      case "progress":
        this.#busy.lastChild.textContent = event.message || "Working…";
        break;
      case "log":
        if (["warn", "error"].includes(event.level)) this.#note(event.message, event.level);
        break;
      default:
    }
  }

  /** Add to the text that is being written. */
  write(text) {
    if (this.#text === null) {
      this.#text = { element: h("div", { class: "md" }), source: "" };
      this.#add(this.#text.element);
    }
    this.#text.source += text;
    this.words = this.#text.source;
    this.#frame ??= requestAnimationFrame(() => this.#draw());
  }

  think(text) {
    if (this.#thought === null) {
      const place = h("p", {});
      this.#thought = place;
      this.#add(h("details", { class: "thought" }, h("summary", {}, icon("chevron"), "Thinking"), place));
    }
    this.#thought.textContent += text;
  }

  called(id, name, input) {
    this.#settle();
    if (QUIET.has(name)) return;
    const card = toolCard(name, input, () => this.stop(id));
    this.#cards.set(id, card);
    this.#add(card.element);
    this.#busy.lastChild.textContent = `Using ${name}…`;
  }

  answered(id, envelope, ms) {
    this.#cards.get(id)?.end(envelope, ms);
    // What it drew was announced while it ran; that is not kept, and the result is.
    const drawn = this.quiet && envelope.ok !== false && chart(envelope.result);
    if (drawn) this.#add(h("figure", { class: "made" }, drawn));
    this.#busy.lastChild.textContent = "Working…";
  }

  ask(question) {
    this.#settle();
    const card = questionCard(question, this.answer);
    this.#asked.set(question.id, card);
    this.#add(card.element);
    this.#waits(card, question.question);
    return card;
  }

  /** The answer to a question, as it was kept. */
  replied(id, given) {
    this.#asked.get(id)?.end({ answer: given });
    this.#asked.delete(id);
  }

  /** The run is over. */
  end(envelope) {
    this.#settle();
    this.finish();
    const error = envelope.ok ? null : envelope.error;
    const origin = error?.origin?.code;
    if (origin === "clarify_requested") return;
    this.over();
    if (envelope.ok) this.#result(envelope.data);
    else if (error.code === "CANCELLED") this.#note(error.message || "The run was ended.", "stopped");
    else if (origin === "tool_denied")
      this.#note("The run ended here: a tool was declined. Say how to go on.", "stopped");
    else this.#add(failureCard(error, { focus: () => {}, again: this.again }));
    this.#facts(envelope.meta?.durationMs);
  }

  /** What was asked is not open any more. */
  over() {
    for (const card of this.#asked.values()) card.end();
    this.#asked.clear();
  }

  /** Nothing more comes. */
  finish() {
    this.#settle();
    this.#busy.remove();
    for (const card of this.#cards.values()) if (card.running) card.stop();
  }

  #result(data) {
    if (typeof data === "string") {
      if (data.trim() && data.trim() !== this.words.trim()) {
        this.write(data);
        this.#settle();
      }
      this.words = data;
    } else if (data !== null && data !== undefined) {
      // The same, as it was written on the way, is not worth reading twice.
      const last = this.#parts.lastElementChild;
      if (last?.classList.contains("md") && this.words.includes("{")) last.remove();
      this.#add(
        h(
          "div",
          { class: "answer-data" },
          typeof data === "object" ? tree(data) : h("p", {}, stringify(data)),
        ),
      );
      this.words = stringify(data, 2);
    }
  }

  #activity({ kind, title, data }) {
    switch (kind) {
      case "tool_call":
        this.called(data.id, data.name, data.arguments);
        break;
      case "tool_progress":
        this.#cards.get(data.id)?.progress(data.event);
        break;
      case "tool_result":
        this.answered(data.id, envelopeOf(data.envelope), data.duration_ms);
        break;
      case "thinking":
        this.think(data.text ?? "");
        break;
      case "approval":
        this.#approval(data);
        break;
      case "clarification":
        this.ask(data);
        break;
      case "answered":
        this.#settled(data);
        break;
      case "todo":
        this.todo(data.markdown);
        break;
      case "usage":
        for (const name of ["input", "output", "cost"]) this.#used[name] += Number(data[name] ?? 0);
        this.#facts();
        break;
      default:
        this.#note(title, kind);
    }
  }

  #approval(data) {
    this.#settle();
    const card = approvalCard({ agent: this.agent, ...data }, this.answer);
    this.#asked.set(data.id, card);
    this.#cards.get(data.id)?.asking();
    this.#add(card.element);
    this.#waits(card, `${this.agent} wants to use ${data.tool}. Approve or deny?`);
  }

  #waits(card, words) {
    if (this.quiet) return;
    this.#busy.lastChild.textContent = "Waiting for you…";
    this.tell(words);
    // Who is writing is not interrupted.
    if (!document.activeElement?.value) card.focus();
  }

  #settled(data) {
    this.#asked.get(data.id)?.end(data);
    this.#asked.delete(data.id);
    const card = this.#cards.get(data.id);
    if (data.approve === true) card?.running_();
    else if (data.approve === false) card?.stop("refused");
    this.#busy.lastChild.textContent = "Working…";
  }

  #note(words, kind = "info") {
    this.#settle();
    this.#add(
      h(
        "p",
        { class: `turn-note ${kind}` },
        icon(["warn", "warning", "error"].includes(kind) ? "alert" : kind === "stopped" ? "stop" : "help"),
        h("span", {}, words),
      ),
    );
  }

  #facts(ms) {
    const { input, output, cost } = this.#used;
    const count = (number) => number.toLocaleString("en");
    const facts = [
      (input || output) &&
        h(
          "span",
          { title: "Tokens that the model read and wrote" },
          `${count(input)} in · ${count(output)} out`,
        ),
      cost > 0 && h("span", { title: "US dollars" }, `$${cost < 0.01 ? cost.toFixed(4) : cost.toFixed(2)}`),
      ms !== undefined && h("span", {}, duration(ms ?? performance.now() - this.#began)),
      ms !== undefined && this.words && copyButton(() => this.words, "Copy the answer"),
    ];
    this.#foot.replaceChildren(...facts.filter(Boolean));
  }

  #add(element) {
    if (this.#text && element !== this.#text.element) this.#settle();
    this.#parts.append(element);
  }

  /** End the text that is being written: what follows is another part. */
  #settle() {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#draw();
    this.#text = this.#thought = null;
  }

  #draw() {
    this.#frame = null;
    if (this.#text) markdown(this.#text.element, this.#text.source);
  }
}

/** A conversation that was kept, as turns; `failed` is how its last run ended, if it failed. */
export function kept(messages, make, failed = null) {
  const turns = [];
  let turn = null;
  const own = () => {
    if (turn === null) turns.push((turn = make()));
    return turn;
  };
  const calls = new Map();
  for (const message of messages) {
    if (message.role === "user") {
      turn?.finish();
      turn = null;
      turns.push({ element: said(message.content) });
    } else if (message.role === "assistant") {
      if (message.reasoning) own().think(message.reasoning);
      if (message.content) own().write(message.content);
      for (const call of message.calls ?? []) {
        calls.set(call.id, call);
        const input = argumentsOf(call.arguments);
        own().called(call.id, call.name, input);
        if (call.name === "clarify" && input?.question) own().ask({ id: call.id, ...input });
      }
    } else if (message.role === "tool") {
      const envelope = envelopeOf(message.content);
      own().answered(message.call, envelope);
      if (calls.get(message.call)?.name === "clarify")
        own().replied(message.call, envelope.result?.text ?? "");
    }
  }
  if (failed) {
    if (failed.said) {
      turn = null;
      turns.push({ element: said(failed.said) });
    }
    own().end({ ok: false, error: failed.error });
  }
  return turns;
}

function argumentsOf(text) {
  const read = envelopeOf(text);
  return read?.ok === true && read.result === text ? text : read;
}
