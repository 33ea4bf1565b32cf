// The action in others' words: the same call as code, the schemas, and what each surface shows, side by side.

import { ask } from "./api.js";
import { button, copyButton, h, pill } from "./dom.js";
import { stringify } from "./exact.js";
import { block } from "./highlight.js";

/** A box with a title, a text and a way to copy it. */
function box(title, text, language, note) {
  return h(
    "section",
    { class: "box" },
    h(
      "header",
      { class: "box-head" },
      h("h3", {}, title),
      h("span", { class: "grow" }),
      copyButton(() => text, `Copy ${title}`),
    ),
    note && h("p", { class: "soft" }, note),
    block(text, language, title),
  );
}

function failedTo(error) {
  return h("p", { class: "issue" }, error.message);
}

/** The call as code. Draw it again when the input has changed. */
export function codePanel(action, input) {
  const element = h("div", { class: "boxes code-boxes" });
  let asked = 0;
  async function draw() {
    const mine = ++asked;
    try {
      const { snippets } = await ask(`actions/${action.name}/snippets`, {
        method: "POST",
        body: { input: input() },
      });
      if (mine === asked) element.replaceChildren(...snippets.map((each) => box(each.name, each.text, each.language, each.note)));
    } catch (error) {
      if (mine === asked) element.replaceChildren(failedTo(error));
    }
  }
  return { element, draw };
}

export function schemaPanel(action) {
  const schemas = [["Input", action.inputSchema]];
  if (action.outputSchema) schemas.push(["Output", action.outputSchema]);
  return h(
    "div",
    { class: "boxes two" },
    schemas.map(([title, schema]) => box(title, stringify(schema, 2), "json")),
    !action.outputSchema &&
      h(
        "p",
        { class: "soft" },
        "The action does not say what it returns: annotate the function's return type.",
      ),
  );
}

const FIRST = ["cli", "http", "mcp", "openai"];

/** What each surface shows of the action; those that are chosen stand beside each other. It is asked for by `draw`. */
export function surfacesPanel(action) {
  const element = h("div", { class: "stack" }, h("p", { class: "soft" }, "Loading…"));
  const chosen = new Set(FIRST);
  async function draw() {
    try {
      const { surfaces } = await ask(`actions/${action.name}/surfaces`);
      element.replaceChildren(...sideBySide(surfaces, chosen));
    } catch (error) {
      element.replaceChildren(failedTo(error));
    }
  }
  return { element, draw };
}

function sideBySide(surfaces, chosen) {
  const boxes = h("div", { class: "boxes columns" });
  const chips = surfaces.map((each) => {
    const chip = button(
      each.title,
      () => {
        if (!chosen.delete(each.id)) chosen.add(each.id);
        draw();
      },
      { kind: "quiet small chip" },
    );
    return [each.id, chip];
  });
  function draw() {
    for (const [id, chip] of chips) chip.setAttribute("aria-pressed", String(chosen.has(id)));
    boxes.replaceChildren(...surfaces.filter((each) => chosen.has(each.id)).map(surface));
  }
  draw();
  const group = { class: "chips", role: "group", "aria-label": "Surfaces" };
  return [h("div", group, chips.map(([, chip]) => chip)), boxes];
}

function surface(each) {
  const made = box(each.title, each.text, each.language);
  made.firstChild.children[0].after(each.shown ? pill("shown", "good") : pill("not shown", "", each.why));
  if (each.why) made.firstChild.after(h("p", { class: "soft" }, each.why));
  return made;
}
