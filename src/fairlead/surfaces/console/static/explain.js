// Failures: one in a result, and the pages that explain every code.

import { ask } from "./api.js";
import { button, h, icon, pill } from "./dom.js";
import { stringify } from "./exact.js";
import { block } from "./highlight.js";

let catalogue = null;

/** Every failure code with its explanation, asked for once in each generation of the app. */
export function failures() {
  catalogue ??= ask("failures").then(({ failures: listed }) => listed);
  catalogue.catch(() => (catalogue = null));
  return catalogue;
}

export function forgetFailures() {
  catalogue = null;
}

const find = (listed, code) =>
  listed.find((each) => each.code === code && each.family === "action") ??
  listed.find((each) => each.code === code);

/** A failure as its own page: what happened, where, and what to do next. */
export function failureCard(error, { focus, again }) {
  const card = h(
    "section",
    { class: "failure", "aria-label": "Failure" },
    h(
      "header",
      { class: "failure-head" },
      icon("alert"),
      h(
        "div",
        {},
        h("a", { class: "failure-code", href: `#/-/failures/${encodeURIComponent(error.code)}` }, error.code),
        h("p", { class: "failure-message" }, error.message),
      ),
    ),
  );
  if (error.issues?.length) card.append(issueList(error.issues, focus));
  if (error.details && Object.keys(error.details).length)
    card.append(
      h(
        "details",
        { class: "fold" },
        h("summary", {}, icon("chevron"), "Details"),
        block(stringify(error.details, 2)),
      ),
    );
  const help = h("div", { class: "advice" });
  card.append(help);
  failures().then(
    (listed) => {
      const entry = find(listed, error.code);
      if (entry) help.append(...advice(entry, error));
    },
    () => {},
  );
  if (error.retryable && again)
    card.append(
      h(
        "p",
        {},
        button(error.retryAfter ? `Try again (after ${error.retryAfter} s)` : "Try again", again, {
          sign: "reset",
        }),
      ),
    );
  return card;
}

function issueList(issues, focus) {
  const rows = issues.map((issue) => {
    const where = issue.path.join(".") || "input";
    return h(
      "li",
      {},
      button(where, () => focus(issue), { kind: "link mono", title: "Go to the field" }),
      h(
        "span",
        {},
        issue.message,
        issue.expected &&
          !issue.message.includes(issue.expected) &&
          h("span", { class: "soft" }, ` Expected ${issue.expected}.`),
      ),
    );
  });
  return h("ul", { class: "issues" }, rows);
}

function advice(entry, error = {}) {
  const facts = [
    `It is the turn of ${entry.turn}.`,
    (error.retryable ?? entry.retryable)
      ? "The same call may succeed if tried again."
      : "Trying the same again will not help.",
  ];
  return [
    h("h4", {}, "What to do"),
    h(
      "ul",
      { class: "steps" },
      entry.steps.map((step) => h("li", {}, ...withCode(step))),
    ),
    h("p", { class: "soft" }, facts.join(" ")),
  ];
}

/** Text with what is between backticks as code. */
function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

/** All codes, or one explained in full. */
export async function failurePage(code) {
  const listed = await failures();
  if (!code) return everyFailure(listed);
  const found = listed.filter((each) => each.code === code);
  if (!found.length)
    return h(
      "article",
      { class: "prose" },
      h("h1", {}, "No such code"),
      h("p", {}, h("a", { href: "#/-/failures" }, "All failure codes")),
    );
  return h(
    "article",
    { class: "prose" },
    found.map(oneFailure),
    h("p", {}, h("a", { href: "#/-/failures" }, "All failure codes")),
  );
}

function oneFailure(entry) {
  const facts = [
    ["Kind", entry.kind],
    ["HTTP status", entry.httpStatus],
    ["Exit code", entry.exitCode],
    [
      "Elsewhere",
      Object.entries(entry.elsewhere)
        .map(([family, word]) => `${word} (${family})`)
        .join(", "),
    ],
  ].filter(([, value]) => value !== null && value !== undefined);
  return h(
    "section",
    { class: "stack" },
    h("h1", { class: "mono" }, entry.code),
    h("p", { class: "lead" }, entry.message),
    h(
      "p",
      {},
      pill(`${entry.family} family`),
      " ",
      pill(
        entry.retryable ? "may be tried again" : "not to be repeated as it is",
        entry.retryable ? "good" : "",
      ),
    ),
    advice(entry),
    h(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]),
    ),
  );
}

function everyFailure(listed) {
  const families = [...new Set(listed.map((each) => each.family))];
  const row = (each) =>
    h(
      "li",
      {},
      h("a", { href: `#/-/failures/${encodeURIComponent(each.code)}`, class: "mono" }, each.code),
      h("span", { class: "soft" }, each.message),
    );
  const section = (family) => [
    h("h2", {}, `${family} family`),
    h("ul", { class: "codes" }, listed.filter((each) => each.family === family).map(row)),
  ];
  return h(
    "article",
    { class: "prose" },
    h("h1", {}, "Failure codes"),
    h("p", { class: "lead" }, "Everything that can go wrong has a code, and every code has a way out."),
    families.map(section),
  );
}
