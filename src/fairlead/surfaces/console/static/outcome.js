// How a call goes and how it ended: progress, logs, artifacts, and the result as a tree, a table or raw.

import { button, copyButton, h, icon, pill, tabs } from "./dom.js";
import { stringify } from "./exact.js";
import { failureCard } from "./explain.js";
import { block } from "./highlight.js";
import { isTabular, table } from "./table.js";
import { tree } from "./tree.js";

/** Log lines drawn in the page; a call may say much more than a person reads. */
const LINES = 1000;
/** What is kept of the events of one call: the newest logs, the first pieces of its result. */
const MOST = 10_000;
/** What an agent does, among the logs. */
const SAID = { type: "log", level: "info", fields: {} };
const VIEWS = { tree: "Tree", table: "Table", raw: "Raw" };

export function outcome({ cancel, again, focus }) {
  const element = h("section", { class: "outcome", "aria-label": "Outcome", tabIndex: -1 });
  let live = null;
  let view = null;
  let looking = null;
  idle();

  /** Bring the outcome into sight, if it is out of it. */
  function look() {
    if (element.getBoundingClientRect().top > innerHeight - 160)
      element.scrollIntoView({ block: "start", behavior: "smooth" });
  }

  function idle() {
    element.dataset.state = "idle";
    element.replaceChildren(h("p", { class: "empty" }, "The result will be here."));
  }

  function start() {
    element.dataset.state = "running";
    live = running(cancel);
    element.replaceChildren(live.element);
    // What ends at once shows itself at its end.
    looking = setTimeout(look, 400);
  }

  function event(told) {
    live?.add(told);
  }

  function end(envelope) {
    clearTimeout(looking);
    const heard = live?.stop() ?? { logs: [], artifacts: [], chunks: [], count: 0 };
    live = null;
    // What was streamed is not repeated in the envelope's data.
    const streamed = envelope.ok && envelope.data === null && heard.chunks.length > 0;
    const data = streamed ? heard.chunks : envelope.data;
    const logs = envelope.logs?.length ? envelope.logs : heard.logs;
    const artifacts = envelope.artifacts?.length ? envelope.artifacts : heard.artifacts;
    element.dataset.state = envelope.ok ? "ok" : "failed";
    element.replaceChildren(
      summary(envelope, streamed && heard.count),
      ...warnings(envelope),
      ended(envelope, data, logs, artifacts, heard.chunks),
    );
  }

  function ended(envelope, data, logs, artifacts, chunks) {
    const entries = [
      {
        id: "result",
        title: envelope.ok ? "Result" : "Failure",
        make: () => (envelope.ok ? result(data) : failed(envelope.error, chunks)),
      },
    ];
    if (logs.length) entries.push({ id: "logs", title: `Logs ${logs.length}`, make: () => logList(logs) });
    if (artifacts.length)
      entries.push({
        id: "artifacts",
        title: `Artifacts ${artifacts.length}`,
        make: () => artifactList(artifacts),
      });
    entries.push({ id: "envelope", title: "Envelope", make: () => raw(envelope) });
    const made = tabs("Outcome", entries);
    made.open("result");
    return h("div", { class: "outcome-tabs" }, made.list, made.panels);
  }

  function failed(error, chunks) {
    const card = failureCard(error, { focus, again });
    return chunks.length
      ? h(
          "div",
          { class: "stack" },
          card,
          h("h4", {}, `What came before it: ${chunks.length}`),
          result(chunks),
        )
      : card;
  }

  function result(data) {
    const tabular = isTabular(data);
    const branched = data !== null && typeof data === "object";
    const possible = Object.keys(VIEWS).filter((each) =>
      each === "table" ? tabular : each === "tree" ? branched : true,
    );
    let chosen = possible.includes(view) ? view : possible[0] === "tree" && tabular ? "table" : possible[0];
    const place = h("div", { class: "view" });
    const choices = possible.map((each) =>
      button(VIEWS[each], () => show(each), { kind: "quiet small", "aria-pressed": "false" }),
    );
    function show(each) {
      chosen = each;
      possible.forEach((one, at) => choices[at].setAttribute("aria-pressed", String(one === chosen)));
      place.replaceChildren(
        chosen === "table"
          ? table(data)
          : chosen === "tree"
            ? tree(data)
            : branched
              ? block(stringify(data, 2))
              : plain(data),
      );
    }
    for (const each of choices) each.addEventListener("click", () => (view = chosen));
    show(chosen);
    const tools = h(
      "div",
      { class: "view-tools" },
      choices.length > 1 && h("div", { class: "group", role: "group", "aria-label": "Show as" }, choices),
      h("span", { class: "grow" }),
      copyButton(() => (typeof data === "string" ? data : stringify(data, 2)), "Copy the result"),
    );
    return h("div", { class: "result" }, tools, place);
  }

  return {
    element,
    start,
    event,
    end,
    look,
    focus() {
      element.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest" });
    },
  };
}

function plain(data) {
  if (data === "")
    return h("p", { class: "plain-value" }, '""', h("span", { class: "soft" }, " an empty text"));
  if (typeof data === "string")
    return h("pre", { class: "code plain", tabIndex: 0, role: "region", "aria-label": "Text" }, data);
  return h(
    "p",
    { class: "plain-value" },
    data === null ? "null: the action has nothing to say, and that is fine." : String(data),
  );
}

function raw(envelope) {
  const text = stringify(envelope, 2);
  return h(
    "div",
    { class: "result" },
    h(
      "div",
      { class: "view-tools" },
      h("span", { class: "grow" }),
      copyButton(() => text, "Copy the envelope"),
    ),
    block(text),
  );
}

function summary(envelope, chunks) {
  const { meta } = envelope;
  const facts = [];
  if (meta.durationMs !== undefined)
    facts.push(h("span", { title: "How long it took" }, time(meta.durationMs)));
  if (chunks)
    facts.push(
      h("span", {}, chunks > MOST ? `the first ${MOST} of ${chunks} streamed` : `${chunks} streamed`),
    );
  if (meta.idempotent === "replayed")
    facts.push(pill("replayed", "note", "The kept result of an earlier call with the same idempotency key"));
  if (meta.invocationId) facts.push(h("code", { class: "soft", title: "Invocation id" }, meta.invocationId));
  return h(
    "div",
    { class: "summary", role: "status" },
    envelope.ok
      ? pill("ok", "good")
      : pill(envelope.error.code === "CANCELLED" ? "cancelled" : "failed", "bad"),
    facts,
  );
}

function warnings({ meta }) {
  return meta.warnings?.length
    ? [
        h(
          "ul",
          { class: "warnings" },
          meta.warnings.map((each) => h("li", {}, each)),
        ),
      ]
    : [];
}

function time(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

/** The live part: drawn at most once a frame, however much is said. */
function running(cancel) {
  const began = performance.now();
  const clock = h("span", { class: "clock" });
  const bar = h("progress", { class: "progress", max: 100, "aria-label": "Progress" });
  const word = h("p", { class: "progress-word", role: "status" }, "Running…");
  const logs = h("ol", { class: "logs", "aria-label": "Logs" });
  const files = h("div");
  const made = h("p", { class: "soft" });
  const written = h("pre", { class: "code plain", hidden: true });
  const heard = { logs: [], artifacts: [], chunks: [], count: 0 };
  let fresh = [];
  let frame = null;

  function draw() {
    frame = null;
    const atEnd = logs.scrollHeight - logs.scrollTop - logs.clientHeight < 24;
    logs.append(...fresh.slice(-LINES).map(logLine));
    fresh = [];
    while (logs.childElementCount > LINES) logs.firstChild.remove();
    if (atEnd) logs.scrollTop = logs.scrollHeight;
    made.textContent = heard.count ? `${heard.count} streamed so far` : "";
  }
  function add(event) {
    if (event.type === "progress") {
      if (event.percent === null || event.percent === undefined) bar.removeAttribute("value");
      else bar.value = event.percent;
      word.textContent = [
        event.message,
        event.percent !== null && event.percent !== undefined && `${Math.round(event.percent)} %`,
      ]
        .filter(Boolean)
        .join(" · ");
    } else if (event.type === "log") {
      heard.logs.push(event);
      fresh.push(event);
      if (heard.logs.length > 2 * MOST) heard.logs = heard.logs.slice(-MOST);
    } else if (event.type === "artifact") {
      heard.artifacts.push(event.artifact);
      files.replaceChildren(artifactList(heard.artifacts));
    } else if (event.type === "delta") {
      written.hidden = false;
      written.append(event.data);
    } else if (event.type === "activity") {
      const { kind, title, data, time } = event;
      if (kind === "tool_call")
        add({ ...SAID, message: `uses ${title}`, fields: data.arguments ?? {}, time });
      else if (kind === "tool_result")
        add({
          ...SAID,
          level: data.ok ? "info" : "warn",
          message: `${title} ${data.ok ? "is done" : "failed"}`,
          time,
        });
      else if (kind === "warning" || kind === "clarification")
        add({ ...SAID, level: "warn", message: title, time });
    } else if (event.type === "chunk") {
      heard.count += 1;
      if (heard.count <= MOST) heard.chunks.push(event.data);
    }
    frame ??= requestAnimationFrame(draw);
  }
  const ticking = setInterval(tick, 100);
  function tick() {
    clock.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`;
  }
  tick();
  const stop = button("Cancel", cancel, { sign: "stop", kind: "danger-quiet" });
  return {
    element: h(
      "div",
      { class: "running" },
      h("div", { class: "running-head" }, word, h("span", { class: "grow" }), clock, stop),
      bar,
      logs,
      written,
      made,
      files,
    ),
    add,
    stop() {
      clearInterval(ticking);
      if (frame !== null) cancelAnimationFrame(frame);
      return heard;
    },
  };
}

function logLine(entry) {
  const fields = Object.entries(entry.fields ?? {});
  return h(
    "li",
    { class: `log ${entry.level}` },
    h("time", { dateTime: entry.time }, entry.time?.slice(11, 23) ?? ""),
    h("span", { class: "level" }, entry.level),
    h(
      "span",
      { class: "log-message" },
      entry.message,
      fields.length > 0 &&
        h(
          "span",
          { class: "log-fields" },
          ` ${fields.map(([name, value]) => `${name}=${typeof value === "string" ? value : stringify(value)}`).join(" ")}`,
        ),
    ),
  );
}

function logList(logs) {
  const shown = logs.slice(-LINES);
  return h(
    "div",
    {},
    shown.length < logs.length &&
      h("p", { class: "soft" }, `The last ${LINES} of ${logs.length}; the envelope has them all.`),
    h("ol", { class: "logs", "aria-label": "Logs", tabIndex: 0 }, shown.map(logLine)),
  );
}

function artifactList(artifacts) {
  return h("ul", { class: "artifacts", "aria-label": "Artifacts" }, artifacts.map(artifact));
}

function artifact(each) {
  const name = each.name ?? each.id;
  const web = /^https?:\/\//i.test(each.uri ?? "");
  const data = /^data:/i.test(each.uri ?? "");
  const facts = [each.mimeType, each.sizeBytes !== undefined && bytes(each.sizeBytes)]
    .filter(Boolean)
    .join(", ");
  return h(
    "li",
    { class: "artifact" },
    icon("file"),
    h(
      "div",
      { class: "artifact-about" },
      web
        ? h("a", { href: each.uri, target: "_blank", rel: "noopener noreferrer" }, name)
        : data
          ? h("a", { href: each.uri, download: name }, name)
          : h("span", {}, name),
      h("span", { class: "soft" }, facts),
      each.uri && !data && h("code", { class: "soft" }, each.uri),
      data && /^data:image\//i.test(each.uri) && h("img", { src: each.uri, alt: name }),
    ),
    each.uri && copyButton(() => each.uri, "Copy its address"),
  );
}

function bytes(count) {
  if (count < 1024) return `${count} bytes`;
  return count < 1 << 20 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / (1 << 20)).toFixed(1)} MiB`;
}
