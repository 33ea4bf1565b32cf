// JSON without loss: whole numbers that a double cannot hold become BigInt, and go back as they came.

const CAN_WRITE = typeof JSON.rawJSON === "function";

function revive(_, value, context) {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  if (/^-?\d+$/.test(context?.source ?? "")) return BigInt(context.source);
  // It would be written as null.
  if (!Number.isFinite(value)) throw new SyntaxError("A number is too large");
  return value;
}

function replace(_, value) {
  if (typeof value !== "bigint") return value;
  return CAN_WRITE ? JSON.rawJSON(String(value)) : Number(value);
}

/** The value of a JSON text. Throws SyntaxError. */
export const parse = (text) => JSON.parse(text, revive);

/** A value as JSON; `indent` makes it readable. */
export const stringify = (value, indent = 0) => JSON.stringify(value, replace, indent);

/** Characters that are not seen, or that show others in another order. */
const UNSEEN = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** A value as JSON in which nothing can pass for something else: for what a person is asked to agree to. */
export const spelled = (value) =>
  stringify(value, 2).replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** A copy that shares nothing. */
export const copy = (value) => (value === undefined ? undefined : parse(stringify(value)));

export const same = (a, b) => stringify(a) === stringify(b);

/** Where a text stops being JSON, as a person says it. */
export function complaint(text) {
  if (!text.trim()) return "Empty: write JSON here, such as {}.";
  try {
    parse(text);
  } catch (error) {
    const at = /position (\d+)/.exec(error.message);
    const where = at ? placeOf(text, Number(at[1])) : "";
    return `Not JSON${where}: ${error.message.replace(/ ?(in JSON )?at position.*$/, "").replace(/, "?.*"? is not valid JSON$/s, "")}.`;
  }
  return null;
}

function placeOf(text, position) {
  const before = text.slice(0, position).split("\n");
  return ` in line ${before.length}, column ${before.at(-1).length + 1}`;
}
