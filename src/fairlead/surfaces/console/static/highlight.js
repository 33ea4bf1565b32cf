// JSON in colours, as elements.

import { h } from "./dom.js";

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|\b(true|false|null)\b/g;
/** Longer texts are shown plain: colours are not worth a slow page. */
const LONGEST = 60_000;

/** The text's pieces: coloured spans, and the text between them. What stands under one of `secrets` is veiled. */
export function coloured(text, secrets = []) {
  if (text.length > LONGEST) {
    const held = secrets.some((name) => text.includes(JSON.stringify(name)));
    return [held ? h("span", { class: "veiled" }, text) : text];
  }
  const pieces = [];
  const veil = veiling(secrets);
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const between = text.slice(at, found.index);
    if (between) pieces.push(between);
    veil.pass(between);
    const [whole, string, colon, number] = found;
    if (string && colon) {
      pieces.push(h("span", { class: "j-key" }, string), colon);
      veil.key(string);
    } else {
      const kind = string ? "j-string" : number ? "j-number" : "j-word";
      pieces.push(h("span", { class: veil.value() ? `${kind} veiled` : kind }, whole));
    }
    at = found.index + whole.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

/** Which values are secrets, from one token to the next: the one after a secret's name, or all that are inside it. */
function veiling(secrets) {
  let depth = 0;
  let since = null;
  let next = false;
  return {
    pass(between) {
      for (const sign of between) {
        if (sign === "[" || sign === "{") {
          if (next) since ??= depth;
          next = false;
          depth += 1;
        } else if (sign === "]" || sign === "}") {
          depth -= 1;
          if (since !== null && depth <= since) since = null;
        }
      }
    },
    key(string) {
      next = secrets.some((name) => JSON.stringify(name) === string);
    },
    value() {
      const veiled = next || since !== null;
      next = false;
      return veiled;
    },
  };
}

/** A block of text that scrolls by itself. */
export function block(text, language = "json", name = "Text") {
  return h(
    "pre",
    { class: "code", tabIndex: 0, role: "region", "aria-label": name },
    h("code", {}, language === "json" ? coloured(text) : text),
  );
}
