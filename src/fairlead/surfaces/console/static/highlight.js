// JSON in colours, as elements.

import { h } from "./dom.js";

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|\b(true|false|null)\b/g;
/** Longer texts are shown plain: colours are not worth a slow page. */
const LONGEST = 60_000;

/** The text's pieces: coloured spans, and the text between them. */
export function coloured(text) {
  if (text.length > LONGEST) return [text];
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    if (found.index > at) pieces.push(text.slice(at, found.index));
    const [whole, string, colon, number] = found;
    if (string && colon) pieces.push(h("span", { class: "j-key" }, string), colon);
    else pieces.push(h("span", { class: string ? "j-string" : number ? "j-number" : "j-word" }, whole));
    at = found.index + whole.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

/** A block of text that scrolls by itself. */
export function block(text, language = "json", name = "Text") {
  return h(
    "pre",
    { class: "code", tabIndex: 0, role: "region", "aria-label": name },
    h("code", {}, language === "json" ? coloured(text) : text),
  );
}
