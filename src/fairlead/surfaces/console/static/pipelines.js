// Pipelines as pictures: what flows, what waits, what was spent, and what went wrong, where it did.

import { ask, who } from "./api.js";
import { h, pill } from "./dom.js";

const EVERY = 500;
const SVG = "http://www.w3.org/2000/svg";
const STATES = { running: "", done: "good", failed: "bad", stopped: "warn" };
const UNITS = { tokens: "tokens", cost: "US dollars", calls: "calls", time: "seconds" };

/** A drawing from a tree: tag, attributes, children. Nothing of it is ever read as HTML. */
function drawn([tag, attributes, children]) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((child) => (Array.isArray(child) ? drawn(child) : child)));
  return element;
}

function text(x, y, words, kind) {
  return drawn(["text", { x, y, class: kind, "text-anchor": "middle" }, [words]]);
}

/** What a node says of itself: how many came, how many wait, and what went wrong. */
function mark(svg, id, node, before) {
  const group = svg.querySelector(`g[data-node="${CSS.escape(id)}"]`);
  if (!group) return;
  const box = group.querySelector("rect");
  const at = (name) => Number(box.getAttribute(name));
  const [x, y, width, height] = ["x", "y", "width", "height"].map(at);
  group.querySelectorAll(".live").forEach((each) => each.remove());
  group.classList.toggle("busy", node.busy > 0);
  group.classList.toggle("failed", Boolean(node.failure));
  if (node.failure) group.append(text(x + width / 2, y + height + 14, node.failure, "live live-failure"));
  const words = node.waiting ? `${node.seen} · ${node.waiting} waiting` : String(node.seen);
  if (node.seen) group.append(text(x + width / 2, y - 6, words, "live live-count"));
  for (const wire of svg.querySelectorAll(`path[data-to="${CSS.escape(id)}"]`))
    wire.classList.toggle("flowing", node.seen > (before?.seen ?? 0));
}

function spent({ name, limits, spent: used }) {
  const rows = Object.entries(limits).map(([what, limit]) =>
    h(
      "li",
      {},
      h("span", {}, `${what}: ${used[what]} of ${limit} ${UNITS[what]}`),
      h("meter", { min: 0, max: limit || 1, value: used[what], high: limit * 0.8, "aria-label": `${name} ${what}` }),
    ),
  );
  const whole = `${used.tokens} tokens · ${used.calls} calls · ${used.cost} US dollars · ${used.time} seconds`;
  return rows.length ? h("ul", { class: "budget" }, rows) : h("p", { class: "soft" }, `The whole run: ${whole}`);
}

function listed(pipelines) {
  const entry = (each) =>
    h(
      "li",
      {},
      h("a", { href: `#/-/pipelines/${encodeURIComponent(each.name)}` }, each.name),
      " ",
      h("code", {}, each.type),
    );
  return h(
    "article",
    { class: "prose wide" },
    h("h1", {}, "Pipelines"),
    h("p", { class: "lead" }, "Each is an action, too. Choose one to see it at work."),
    h("ul", { class: "pipelines" }, pipelines.map(entry)),
  );
}

/** The page: all pipelines, or one of them at work. */
export function pipelinesPage(name = "") {
  const element = h("div", { class: "pipeline-page" });
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  element.append(trouble);

  const told = async (path) => {
    try {
      const answer = await ask(path, { headers: who() });
      trouble.hidden = true;
      return answer;
    } catch (error) {
      trouble.textContent = error.message;
      trouble.hidden = false;
      return null;
    }
  };

  async function all() {
    const answer = await told("pipelines");
    if (!answer || !element.isConnected) return;
    if (answer.pipelines.length === 1) location.replace(`#/-/pipelines/${encodeURIComponent(answer.pipelines[0].name)}`);
    else element.append(listed(answer.pipelines));
  }

  async function one() {
    const answer = await told(`pipelines/${encodeURIComponent(name)}`);
    if (!answer) return;
    const svg = drawn(answer.picture);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `The pipeline ${name}`);
    const runs = h("select", { class: "input", "aria-label": "Run" });
    const state = h("span", { role: "status" });
    const budgets = h("div", { class: "budgets" });
    const failure = h("p", { class: "trouble", role: "alert", hidden: true });
    const events = h("pre", { class: "code", tabIndex: 0, role: "region", "aria-label": "Events" });
    let chosen = "";
    let before = {};
    let shown = null;
    runs.addEventListener("change", () => {
      chosen = runs.value;
      before = {};
    });
    element.append(
      h(
        "article",
        { class: "prose full" },
        h("h1", {}, name),
        h("p", { class: "lead" }, h("code", {}, answer.type)),
        h("div", { class: "pipeline-asked" }, h("a", { href: `#/${name}` }, "Call it"), runs, state),
        h("div", { class: "pipeline-picture", tabIndex: 0, role: "region", "aria-label": "Picture" }, svg),
        failure,
        budgets,
        h("h2", {}, "Events"),
        events,
      ),
    );

    function draw(list) {
      const numbers = list.map((each) => String(each.number));
      if (runs.dataset.said !== numbers.join()) {
        runs.dataset.said = numbers.join();
        const label = (each) => `Run ${each.number}, ${new Date(each.started * 1000).toLocaleTimeString()}`;
        runs.replaceChildren(
          h("option", { value: "" }, "The newest run"),
          ...list.map((each) => h("option", { value: String(each.number) }, label(each))),
        );
        runs.value = chosen;
      }
      const run = list.find((each) => String(each.number) === chosen) ?? list[0];
      if (!run) {
        state.textContent = "It has not been called yet.";
        events.textContent = "None yet.";
        return;
      }
      if (shown !== run.number) before = {};
      shown = run.number;
      state.replaceChildren(pill(run.state, STATES[run.state]));
      for (const [id, node] of Object.entries(run.nodes)) mark(svg, id, node, before[id]);
      before = run.nodes;
      failure.hidden = !run.failure;
      failure.textContent = run.failure ? `${run.failure.error}: ${run.failure.detail}` : "";
      budgets.replaceChildren(...run.budgets.map(spent));
      events.textContent = run.events.map((each) => JSON.stringify(each)).join("\n") || "None yet.";
    }

    async function again() {
      const now = await told(`pipelines/${encodeURIComponent(name)}/runs`);
      if (now) draw(now.runs);
      setTimeout(() => element.isConnected && again(), EVERY);
    }

    draw(answer.runs);
    setTimeout(() => element.isConnected && again(), EVERY);
  }

  (name ? one : all)();
  return element;
}
