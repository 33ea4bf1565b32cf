// Markdown as elements. Text stays text: what looks like HTML is shown as it was written, and only links to the web
// become links. Pictures of elsewhere are not fetched.

import { copyButton, h } from "./dom.js";
import { coloured } from "./highlight.js";

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])\s*(?:\1\s*){2,}$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Draw a text into an element; what has not changed since the last time is left alone. */
export function markdown(element, text) {
  const found = blocks(text.replace(/\r\n?/g, "\n").split("\n"));
  const drawn = element.children;
  found.forEach((block, at) => {
    const old = drawn[at];
    if (old?.source === block.source) return;
    const made = block.make();
    made.source = block.source;
    if (old) old.replaceWith(made);
    else element.append(made);
  });
  while (drawn.length > found.length) element.lastChild.remove();
}

/** The blocks of some lines, each with its source and how to make it. */
function blocks(lines) {
  const found = [];
  let at = 0;
  const add = (end, make) => {
    found.push({ source: lines.slice(at, end).join("\n"), make });
    at = end;
  };
  while (at < lines.length) {
    const line = lines[at];
    let match;
    if (!line.trim()) at += 1;
    else if ((match = FENCE.exec(line))) {
      const [, indent, mark, language] = match;
      const closes = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},}\\s*$`);
      let end = at + 1;
      while (end < lines.length && !closes.test(lines[end])) end += 1;
      const body = lines
        .slice(at + 1, end)
        .map((each) => (each.startsWith(indent) ? each.slice(indent.length) : each));
      add(Math.min(end + 1, lines.length), () => code(body.join("\n"), language));
    } else if ((match = HEADING.exec(line))) {
      const [, marks, words] = match;
      // The page has its own first and second headings.
      add(at + 1, () =>
        h(`h${Math.min(marks.length + 2, 6)}`, { class: `md-h md-h${marks.length}` }, inline(words)),
      );
    } else if (RULE.test(line)) add(at + 1, () => h("hr"));
    else if (QUOTE.test(line)) {
      const inner = while_(lines, at, (each) => QUOTE.test(each)).map((each) => QUOTE.exec(each)[1]);
      add(at + inner.length, () => h("blockquote", {}, made(inner)));
    } else if (ITEM.test(line)) {
      const end = listEnd(lines, at);
      const taken = lines.slice(at, end);
      add(end, () => list(taken));
    } else if (
      line.includes("|") &&
      at + 1 < lines.length &&
      DIVIDER.test(lines[at + 1]) &&
      lines[at + 1].includes("-")
    ) {
      const rows = [line, ...while_(lines, at + 2, (each) => each.includes("|") && each.trim() !== "")];
      const divider = lines[at + 1];
      add(at + rows.length + 1, () => table(rows, divider));
    } else {
      const words = [line, ...while_(lines, at + 1, (each) => each.trim() && !begins(each))];
      add(at + words.length, () => h("p", {}, broken(words)));
    }
  }
  return found;
}

/** Quotes in quotes and lists in lists: deeper than people write, they are just words. */
const DEEPEST = 16;
let depth = 0;

function made(lines) {
  if (depth >= DEEPEST) return [h("p", {}, lines.join("\n"))];
  depth += 1;
  try {
    return blocks(lines).map((each) => each.make());
  } finally {
    depth -= 1;
  }
}

function while_(lines, from, fits) {
  let end = from;
  while (end < lines.length && fits(lines[end])) end += 1;
  return lines.slice(from, end);
}

/** Whether a line begins another block, and so ends a paragraph. */
function begins(line) {
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    QUOTE.test(line) ||
    RULE.test(line) ||
    /^\s{0,3}([-*+]|1[.)])\s+\S/.test(line)
  );
}

const indentOf = (line) => /^\s*/.exec(line)[0].length;

function listEnd(lines, from) {
  const base = indentOf(lines[from]);
  let end = from + 1;
  while (end < lines.length) {
    const line = lines[end];
    if (!line.trim()) {
      const next = lines[end + 1];
      if (next === undefined || !(ITEM.test(next) || indentOf(next) > base + 1)) break;
    } else if (!ITEM.test(line) && indentOf(line) <= base && (begins(line) || !lines[end - 1].trim())) break;
    end += 1;
  }
  return end;
}

function list(lines) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const base = indent.length;
  const items = [];
  for (const line of lines) {
    const match = ITEM.exec(line);
    if (match && match[1].length <= base + 1)
      items.push({ lines: [match[3]], inner: line.length - match[3].length });
    else items.at(-1).lines.push(line.slice(Math.min(indentOf(line), items.at(-1).inner)));
  }
  const numbered = /\d/.test(mark);
  const given = numbered ? { start: Number.parseInt(mark, 10) } : {};
  return h(numbered ? "ol" : "ul", { class: "md-list", ...given }, items.map(item));
}

function item({ lines }) {
  const task = /^\[([ xX])\]\s+(.*)$/.exec(lines[0]);
  const rest = task ? [task[2], ...lines.slice(1)] : lines;
  const inner = made(rest);
  // A lone paragraph is just words.
  const content =
    inner.length && inner[0].tagName === "P" ? [...inner[0].childNodes, ...inner.slice(1)] : inner;
  if (!task) return h("li", {}, content);
  const done = task[1] !== " ";
  const box = h("input", {
    type: "checkbox",
    checked: done,
    disabled: true,
    "aria-label": done ? "done" : "to do",
  });
  return h("li", { class: done ? "task done" : "task" }, box, h("span", {}, content));
}

function table(rows, divider) {
  const sides = cells(divider).map((each) =>
    /^:.*:$/.test(each) ? "center" : each.endsWith(":") ? "right" : "",
  );
  const row = (line, tag) =>
    h(
      "tr",
      {},
      cells(line).map((each, at) => h(tag, { class: sides[at] ?? "" }, inline(each))),
    );
  return h(
    "div",
    { class: "md-table", tabIndex: 0, role: "region", "aria-label": "Table" },
    h(
      "table",
      {},
      h("thead", {}, row(rows[0], "th")),
      h(
        "tbody",
        {},
        rows.slice(1).map((each) => row(each, "td")),
      ),
    ),
  );
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((each) => each.trim().replaceAll("\\|", "|"));
}

function code(text, language) {
  const colours = ["json", "jsonc"].includes(language.toLowerCase());
  return h(
    "div",
    { class: "md-code" },
    h(
      "div",
      { class: "md-code-head" },
      h("span", {}, language || "text"),
      copyButton(() => text, "Copy the code"),
    ),
    h(
      "pre",
      { tabIndex: 0, role: "region", "aria-label": `Code, ${language || "text"}` },
      h("code", {}, colours ? coloured(text) : text),
    ),
  );
}

/** Lines of a paragraph, broken where two spaces or a backslash say so. */
function broken(lines) {
  const parts = [];
  let words = "";
  lines.forEach((line, at) => {
    const hard = at < lines.length - 1 && /(?: {2,}|\\)$/.test(line);
    words += line.replace(/(?: +|\\)$/, "").trimStart();
    if (hard) {
      parts.push(inline(words), h("br"));
      words = "";
    } else if (at < lines.length - 1) words += "\n";
  });
  return [...parts, inline(words)];
}

const INLINE = [
  [/^\\([!-/:-@[-`{-~])/, (m) => m[1]],
  [/^(`+)([\s\S]*?[^`])\1(?!`)/, (m) => h("code", {}, m[2].replace(/^ (.*) $/s, "$1"))],
  [
    /^!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s<>()]*(?:\([^\s()]*\))?[^\s<>()]*)>?(?:\s+"[^"]*")?\s*\)/,
    (m) => link(m[1], m[2]),
  ],
  [/^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i, (m) => link(null, m[1])],
  [/^https?:\/\/[^\s<>()]*[^\s<>().,:;!?'"*_`]/i, (m) => link(null, m[0])],
  [/^(\*\*|__)(?=\S)([\s\S]*?\S)\1/, (m) => h("strong", {}, inline(m[2]))],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (m) => h("del", {}, inline(m[1]))],
  [/^\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)/, (m) => h("em", {}, inline(m[1]))],
];
const UNDERLINED = /^_(?=[^\s_])([\s\S]*?[^\s_])_(?![\w])/;
/** Where something other than plain words may begin. */
const SPECIAL = /[\\`![<*_~h]/;

/** Longer paragraphs are shown as they were written: marks are not worth a slow page. */
const LONGEST = 10_000;

/** The pieces of a line: words, and elements for what is marked. */
function inline(text) {
  if (text.length > LONGEST) return [text];
  const pieces = [];
  let words = "";
  let rest = text;
  while (rest) {
    const next = rest.search(SPECIAL);
    if (next !== 0) {
      const plain = next < 0 ? rest : rest.slice(0, next);
      words += plain;
      rest = rest.slice(plain.length);
      continue;
    }
    const found = special(rest, words.at(-1));
    if (found === null) {
      words += rest[0];
      rest = rest.slice(1);
      continue;
    }
    const [length, piece] = found;
    if (typeof piece === "string") words += piece;
    else {
      if (words) pieces.push(words);
      words = "";
      pieces.push(piece);
    }
    rest = rest.slice(length);
  }
  return words ? [...pieces, words] : pieces;
}

function special(rest, before) {
  if (rest[0] === "_" && rest[1] !== "_") {
    // Underscores inside of words are no marks.
    const match = /\w/.test(before ?? "") ? null : UNDERLINED.exec(rest);
    return match && [match[0].length, h("em", {}, inline(match[1]))];
  }
  if (rest[0] === "h" && /\w/.test(before ?? "")) return null;
  for (const [pattern, make] of INLINE) {
    const match = pattern.exec(rest);
    if (match) return [match[0].length, make(match)];
  }
  return null;
}

function link(words, address) {
  const shown = words === null ? address : inline(words);
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return h("span", { title: address }, shown);
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, shown);
}
