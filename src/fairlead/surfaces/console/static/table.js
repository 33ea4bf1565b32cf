// A list of objects as a table: a column for each name that occurs, sorted by a click on its head.

import { button, h } from "./dom.js";
import { stringify } from "./exact.js";

const PAGE = 100;
const WIDEST = 40;

/** Whether a value is a list of objects, which a table shows best. */
export function isTabular(value) {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((row) => row !== null && typeof row === "object" && !Array.isArray(row))
  );
}

export function table(rows) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, WIDEST);
  let order = rows;
  let sorted = { column: null, up: true };
  let drawn = 0;
  const heads = columns.map((column) =>
    h(
      "th",
      { scope: "col" },
      h("button", { type: "button", class: "sorter", on: { click: () => sort(column) } }, column),
    ),
  );
  const body = h("tbody");
  const more = button("", draw, { kind: "quiet" });
  const element = h(
    "div",
    { class: "table-box", tabIndex: 0, role: "region", "aria-label": "Result as a table" },
    h("table", {}, h("thead", {}, h("tr", {}, heads)), body),
    more,
  );

  function draw() {
    const next = order.slice(drawn, drawn + PAGE);
    drawn += next.length;
    body.append(
      ...next.map((row) =>
        h(
          "tr",
          {},
          columns.map((column) => cell(of(row, column))),
        ),
      ),
    );
    more.hidden = drawn >= order.length;
    more.textContent = `Show ${Math.min(PAGE, order.length - drawn)} more of ${order.length} rows`;
  }
  function sort(column) {
    sorted = { column, up: sorted.column === column ? !sorted.up : true };
    const way = sorted.up ? 1 : -1;
    order = [...rows].sort((a, b) => way * compare(of(a, column), of(b, column)));
    heads.forEach((head, at) => {
      if (columns[at] === column) head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    drawn = 0;
    body.replaceChildren();
    draw();
  }
  draw();
  return element;
}

/** What a row has under a name; what every object of JavaScript has is not meant. */
const of = (row, name) => (Object.hasOwn(row, name) ? row[name] : undefined);

function compare(a, b) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  const numeric = (value) => typeof value === "number" || typeof value === "bigint";
  if (numeric(a) && numeric(b)) return a < b ? -1 : a > b ? 1 : 0;
  return String(typeof a === "object" ? stringify(a) : a).localeCompare(
    String(typeof b === "object" ? stringify(b) : b),
    undefined,
    { numeric: true },
  );
}

function cell(value) {
  if (value === undefined) return h("td", { class: "none" }, "");
  if (value === null) return h("td", { class: "none" }, "null");
  if (typeof value === "number" || typeof value === "bigint")
    return h("td", { class: "number" }, String(value));
  if (typeof value === "boolean") return h("td", { class: "j-word" }, String(value));
  if (typeof value === "object") return h("td", { class: "inner" }, stringify(value));
  return h("td", {}, value);
}
