// The app's native plugins: what they offer, and what is wrong with those that are not loaded.

import { ask, who } from "./api.js";
import { button, h, pill, toast } from "./dom.js";

const EVERY = 3000;
const KINDS = { running: "good", ready: "", failed: "bad", closed: "" };

const words = (label, names) =>
  names?.length ? h("p", { class: "soft" }, `${label}: `, names.map((each) => [h("code", {}, each), " "])) : "";

function card(plugin, act) {
  const failed = Boolean(plugin.reason);
  return h(
    "section",
    { class: `plugin ${failed ? "failed" : ""}`, "aria-label": plugin.id },
    h(
      "header",
      {},
      h("h2", {}, plugin.name || plugin.id),
      plugin.name ? h("code", {}, plugin.id) : "",
      h("span", { class: "soft" }, plugin.version ?? ""),
      pill(plugin.state, KINDS[plugin.state] ?? ""),
      h("span", { class: "grow" }),
      failed
        ? button("Try again", () => act("retry", plugin.id), { kind: "small", sign: "reset" })
        : button("Reload", () => act("reload", plugin.id), { kind: "quiet small", sign: "reset" }),
    ),
    plugin.description ? h("p", {}, plugin.description) : "",
    failed ? h("p", { class: "trouble" }, pill(plugin.reason.replaceAll("_", " "), "bad"), " ", plugin.message) : "",
    plugin.wayOut ? h("p", { class: "way-out" }, plugin.wayOut) : "",
    words("Tools", plugin.tools),
    words("Routes", plugin.routes),
    words("Granted", plugin.grants),
  );
}

let page = null;

/** The page; it looks again every few seconds for as long as it is seen. */
export function pluginsPage() {
  page ??= build();
  page.refresh();
  return page.element;
}

function build() {
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const list = h("div", { class: "plugins" });
  const element = h(
    "article",
    { class: "prose wide" },
    h("h1", {}, "Plugins"),
    h("p", { class: "lead" }, "Native plugins of this app, each in a process of its own."),
    trouble,
    list,
  );
  let drawn = "";
  let timer = null;

  function draw(plugins) {
    const said = JSON.stringify(plugins);
    if (said === drawn) return;
    drawn = said;
    list.replaceChildren(...plugins.map((each) => card(each, act)));
    if (!plugins.length) list.append(h("p", { class: "empty" }, "There are none yet: fairlead plugin install PATH"));
  }

  async function tell(asked) {
    try {
      const { plugins } = await asked;
      draw(plugins);
      trouble.hidden = true;
      return plugins;
    } catch (error) {
      trouble.textContent = error.message;
      trouble.hidden = false;
      return null;
    }
  }

  async function act(what, id) {
    const plugins = await tell(ask(`plugins/${what}`, { method: "POST", body: { id }, headers: who() }));
    if (plugins === null) return;
    const found = plugins.find((each) => each.id === id);
    toast(found && !found.reason ? `Loaded ${id}` : `${id} is not loaded: ${found?.message ?? "it is gone"}`);
  }

  async function refresh() {
    clearTimeout(timer);
    await tell(ask("plugins", { headers: who() }));
    clearTimeout(timer);
    timer = setTimeout(() => element.isConnected && refresh(), EVERY);
  }
  return { element, refresh };
}
