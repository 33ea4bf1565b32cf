// What an agent does, as cards: tools with their arguments and results, requests to approve, questions, files.

import { button, h, icon, pill, toast, uid } from "./dom.js";
import { parse, spelled, stringify } from "./exact.js";
import { block } from "./highlight.js";

/** Lines of what a tool says that are kept in its card. */
const LINES = 200;

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000
    ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** A value on one line, as far as it fits. */
function brief(value) {
  if (value === undefined || value === null) return "";
  if (typeof value !== "object") return String(value);
  const told = Object.values(value).map((each) => (typeof each === "string" ? each : stringify(each)));
  return told.join(", ").replace(/\s+/g, " ").slice(0, 160);
}

/** The envelope of a tool's result, from its text. */
export function envelopeOf(text) {
  try {
    return parse(text);
  } catch {
    return { ok: true, result: text };
  }
}

/** One use of a tool: what it was given, what it says, and what came of it. `stop` ends the command that it runs. */
export function toolCard(name, input, stop) {
  const state = h("span", { class: "tool-state" });
  const time = h("span", { class: "soft tool-time" });
  const about = h("span", { class: "tool-brief" }, brief(input));
  const end = button("End", ended, {
    sign: "stop",
    kind: "danger-quiet small",
    title: "End this command; the run goes on",
    "aria-label": "End this command",
    hidden: true,
  });
  const word = h("p", { class: "tool-word", hidden: true });
  const bar = h("progress", { max: 100, class: "progress", hidden: true, "aria-label": "Progress" });
  const lines = h("ol", { class: "tool-lines", hidden: true, "aria-label": "What it says" });
  const result = h("div", { class: "tool-result" });
  const given = input !== undefined && (typeof input !== "object" || Object.keys(input ?? {}).length > 0);
  const element = h(
    "details",
    { class: "tool", data: { state: "running" } },
    h(
      "summary",
      {},
      icon("chevron"),
      state,
      h("code", { class: "tool-name" }, name),
      about,
      h("span", { class: "grow" }),
      time,
      end,
    ),
    h(
      "div",
      { class: "tool-body" },
      given && [
        h("h4", {}, "Arguments"),
        block(typeof input === "string" ? input : stringify(input, 2), "json", "Arguments"),
      ],
      bar,
      word,
      lines,
      result,
    ),
  );
  element.setAttribute("aria-label", `Tool ${name}`);
  draw("running");

  async function ended() {
    end.disabled = true;
    await stop().catch((error) => toast(error.message));
  }

  function draw(now) {
    element.dataset.state = now;
    if (now !== "running") end.hidden = true;
    const words = {
      running: "running",
      ok: "done",
      failed: "failed",
      refused: "not run",
      stopped: "stopped",
      asking: "waiting for you",
    };
    state.replaceChildren(
      now === "running"
        ? h("span", { class: "spinner" })
        : icon({ ok: "check", asking: "help" }[now] ?? "alert"),
      h("span", { class: "unseen" }, words[now]),
    );
  }

  function say(text, kind = "") {
    lines.hidden = false;
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 24;
    lines.append(h("li", { class: kind }, text));
    while (lines.childElementCount > LINES) lines.firstChild.remove();
    if (atEnd) lines.scrollTop = lines.scrollHeight;
  }

  return {
    element,
    name,
    get running() {
      return ["running", "asking"].includes(element.dataset.state);
    },
    asking: () => draw("asking"),
    running_: () => draw("running"),
    progress(event) {
      if (event.type === "progress") {
        bar.hidden = word.hidden = false;
        // Only commands have one.
        if (event.fields?.pid !== undefined) end.hidden = false;
        if (event.percent === null || event.percent === undefined) bar.removeAttribute("value");
        else bar.value = event.percent;
        word.textContent = event.message ?? "";
        about.textContent = event.message || about.textContent;
      } else if (event.type === "log") say(event.message, event.level);
      else if (event.type === "delta" || event.type === "chunk")
        say(typeof event.data === "string" ? event.data : stringify(event.data));
      else if (event.type === "activity")
        say([event.title, brief(event.data?.arguments)].filter(Boolean).join(" "));
    },
    end(envelope, ms) {
      bar.hidden = word.hidden = true;
      about.textContent = envelope.ok === false ? (envelope.message ?? "") : brief(input);
      const denied = ["user_denied", "rejected"].includes(envelope.kind);
      draw(envelope.ok !== false ? "ok" : denied ? "refused" : "failed");
      if (ms !== undefined && ms !== null) time.textContent = duration(ms);
      result.replaceChildren(...resultOf(envelope));
    },
    stop(now = "stopped") {
      bar.hidden = word.hidden = true;
      draw(now);
    },
  };
}

function resultOf(envelope) {
  if (envelope.ok === false)
    return [
      h("h4", {}, "What went wrong"),
      h(
        "p",
        { class: "tool-wrong" },
        envelope.message ?? "It failed.",
        " ",
        envelope.kind && pill(envelope.kind, "bad"),
      ),
    ];
  const data = envelope.result;
  const warned =
    envelope.warnings?.length &&
    h(
      "ul",
      { class: "warnings" },
      envelope.warnings.map((each) => h("li", {}, each)),
    );
  if (data === null || data === undefined)
    return [h("h4", {}, "Result"), h("p", { class: "soft" }, "Nothing to say."), warned].filter(Boolean);
  const picture = chart(data);
  const { svg: _, ...rest } = typeof data === "object" && !Array.isArray(data) ? data : {};
  const told = typeof data === "string" ? data : Object.keys(rest).join() === "text" ? data.text : null;
  return [
    h("h4", {}, "Result"),
    warned,
    picture,
    !picture &&
      (told !== null
        ? h("pre", { class: "code plain", tabIndex: 0, role: "region", "aria-label": "Result" }, told)
        : block(stringify(data, 2), "json", "Result")),
  ].filter(Boolean);
}

/** A drawing that a tool made, as a picture: in there, nothing of it can run. */
export function chart(data) {
  if (data?.kind !== "chart" || typeof data.svg !== "string") return null;
  const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(data.svg)}`;
  return h("img", { class: "chart", src: source, alt: data.description || data.title || "Chart" });
}

/** Something that the agent made. */
export function fileCard(artifact) {
  const name = artifact.name ?? artifact.id;
  const address = artifact.uri ?? "";
  const data = /^data:/i.test(address);
  const web = /^https?:\/\//i.test(address);
  const kind = [artifact.mimeType, artifact.metadata?.description].filter(Boolean).join(" · ");
  const title = web
    ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, name)
    : data
      ? h("a", { href: address, download: name }, name)
      : h("span", {}, name);
  return h(
    "figure",
    { class: "made" },
    data && /^data:image\//i.test(address) && h("img", { class: "chart", src: address, alt: name }),
    h(
      "figcaption",
      {},
      icon("file"),
      title,
      h("span", { class: "soft" }, kind),
      !data && !web && address && h("code", { class: "soft" }, address),
    ),
  );
}

/** Ask whether a tool may be used. `answer` is given what to send; it throws where that cannot be done. */
export function approvalCard({ id, tool, input, agent }, answer) {
  const titleId = uid("ask");
  const note = h("p", { class: "issue", role: "alert", hidden: true });
  const reason = h("input", {
    class: "input",
    placeholder: "Why not? (optional, the agent is told)",
    "aria-label": "Why not",
    maxLength: 2000,
  });
  const send = (told) => async () => {
    try {
      await answer({ question: id, ...told() });
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
    }
  };
  const yes = button(
    "Approve",
    send(() => ({ approve: true })),
    { kind: "primary", sign: "check" },
  );
  const always = button(
    "Always",
    send(() => ({ approve: true, always: true })),
    { title: "Approve every use of this tool in this conversation" },
  );
  const no = button(
    "Deny",
    send(() => ({ approve: false, reason: reason.value })),
    { kind: "danger-quiet", sign: "close" },
  );
  const element = h(
    "section",
    { class: "ask", role: "group", "aria-labelledby": titleId, tabIndex: -1 },
    h("h3", { id: titleId }, icon("alert"), h("span", {}, `May ${agent} use `, h("code", {}, tool), "?")),
    block(spelled(input), "json", "What it would be given"),
    note,
    h("div", { class: "ask-row" }, yes, always, no, reason),
  );
  return {
    element,
    // Not a button: a key that was meant for something else must not answer.
    focus: () => element.focus({ preventScroll: true }),
    end({ approve, always: all, late } = {}) {
      const words = approve
        ? all
          ? "Approved, for the whole conversation"
          : "Approved"
        : late
          ? "Nobody answered in time"
          : approve === false
            ? "Denied"
            : "Not answered";
      settled(element, approve ? "good" : "bad", h("span", {}, words, ": ", h("code", {}, tool)));
    },
  };
}

/** A question of the agent's: choices as buttons, several as boxes, else words. */
export function questionCard({ id, question, options = [], allow_multiple: many }, answer) {
  const titleId = uid("ask");
  const note = h("p", { class: "issue", role: "alert", hidden: true });
  const send = async (given) => {
    if (!given.length) return;
    try {
      await answer({ question: id, answer: given });
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
    }
  };
  const words = h("input", {
    class: "input",
    "aria-label": "Your answer",
    placeholder: options.length ? "or in your own words" : "Your answer",
  });
  words.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
    said();
  });
  const boxes = options.map((each) => h("input", { type: "checkbox", value: each }));
  const said = () => {
    const chosen = boxes.filter((each) => each.checked).map((each) => each.value);
    const typed = words.value.trim();
    if (many && chosen.length) send(typed ? [...chosen, typed] : chosen);
    else send(typed);
  };
  const choices = many
    ? h(
        "div",
        { class: "ask-boxes" },
        options.map((each, at) => h("label", {}, boxes[at], h("span", {}, each))),
      )
    : options.length > 0 &&
      h(
        "div",
        { class: "ask-row" },
        options.map((each) => button(each, () => send(each), { kind: "choice" })),
      );
  const element = h(
    "section",
    { class: "ask question", role: "group", "aria-labelledby": titleId, tabIndex: -1 },
    h("h3", { id: titleId }, icon("help"), h("span", {}, question)),
    choices,
    note,
    h("div", { class: "ask-row" }, words, button("Answer", said, { kind: "primary" })),
  );
  return {
    element,
    focus: () => element.focus({ preventScroll: true }),
    end({ answer: given } = {}) {
      const told = Array.isArray(given) ? given.join(", ") : given;
      settled(element, told ? "good" : "", h("span", {}, question, told && [" ", h("strong", {}, told)]));
    },
  };
}

function settled(element, kind, words) {
  element.className = `ask settled ${kind}`;
  element.replaceChildren(icon(kind === "bad" ? "close" : kind === "good" ? "check" : "help"), words);
}

/** The agent's list of things to do. */
export function todoBox() {
  const count = h("span", { class: "soft" });
  const bar = h("progress", { class: "progress", max: 1, value: 0, "aria-label": "Things done" });
  const items = h("ul", { class: "todo-items" });
  const element = h(
    "details",
    { class: "todo", hidden: true, open: true },
    h("summary", {}, icon("chevron"), h("span", {}, "To do"), count, bar),
    items,
  );
  return {
    element,
    set(text) {
      const found = [...(text ?? "").matchAll(/^\s*(?:[-*+]|\d+[.)])?\s*\[([ xX])\]\s*(.+)$/gm)];
      element.hidden = found.length === 0;
      const done = found.filter(([, mark]) => mark !== " ").length;
      count.textContent = `${done} of ${found.length} done`;
      bar.max = found.length || 1;
      bar.value = done;
      items.replaceChildren(
        ...found.map(([, mark, words]) =>
          h(
            "li",
            { class: mark === " " ? "" : "done" },
            icon(mark === " " ? "circle" : "check"),
            h("span", {}, words),
          ),
        ),
      );
      if (done === found.length) element.open = false;
    },
  };
}
