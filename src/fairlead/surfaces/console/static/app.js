// The page: who is asked, what is shown where, the shortcuts, and what happens when the app changes.

import { ActionView } from "./action.js";
import { Refused, acting, ask, follow, openSession } from "./api.js";
import { chooseIdentity, showHelp } from "./dialogs.js";
import { button, h, icon, toast } from "./dom.js";
import { failurePage, forgetFailures } from "./explain.js";
import { gatewayPage } from "./gateway.js";
import { insightsPage } from "./insights.js";
import { actionList } from "./list.js";
import { Past, pastList } from "./past.js";
import { pipelinesPage } from "./pipelines.js";
import { pluginsPage } from "./plugins.js";

const $ = (id) => document.getElementById(id);
const main = $("main");

/** What actions share. */
const page = { app: "Fairlead", past: null, placeholder: "", broken: false, go };
const state = { actions: [], about: {}, generation: undefined, views: new Map(), current: null };

const list = actionList(() => document.body.classList.remove("side-open"));
const name = h("a", { class: "app-name", href: "#/" });
const operation = h(
  "a",
  { class: "button quiet bar-link", href: "#/-/gateway", title: "Gateway", hidden: true },
  icon("gate"),
  h("span", {}, "Gateway"),
);
const pipelines = h(
  "a",
  { class: "button quiet bar-link", href: "#/-/pipelines", title: "Pipelines", hidden: true },
  icon("pipes"),
  h("span", {}, "Pipelines"),
);
const plugins = h(
  "a",
  { class: "button quiet bar-link", href: "#/-/plugins", title: "Plugins", hidden: true },
  icon("plug"),
  h("span", {}, "Plugins"),
);
const insights = h(
  "a",
  { class: "button quiet bar-link", href: "#/-/insights", title: "Insights", hidden: true },
  icon("eye"),
  h("span", {}, "Insights"),
);
const signal = h("span", { class: "signal", role: "status" });
const who = button("", () => chooseIdentity(state.about.identity, changeCaller), {
  sign: "person",
  kind: "quiet who",
});

function drawBar() {
  const toggle = button("", () => fairleadTheme.toggle(), {
    sign: "sun",
    label: "Light or dark",
    kind: "quiet",
  });
  const menu = button("", () => document.body.classList.toggle("side-open"), {
    sign: "menu",
    label: "Actions",
    kind: "quiet menu",
  });
  const go = (text, href, sign) =>
    h("a", { class: "button quiet bar-link", href, title: text }, icon(sign), h("span", {}, text));
  $("bar").append(
    menu,
    h("img", { class: "logo", src: new URL("icon.svg", import.meta.url).href, alt: "" }),
    name,
    signal,
    h("span", { class: "grow" }),
    pipelines,
    plugins,
    insights,
    operation,
    go("History", "#/-/history", "clock"),
    go("Failures", "#/-/failures", "book"),
    who,
    toggle,
    button("", showHelp, { sign: "help", label: "Keyboard shortcuts", kind: "quiet" }),
  );
  $("side").append(list.element);
}

function drawIdentity() {
  who.hidden = !state.about.identity;
  const { user } = acting.as ?? state.about.identity ?? {};
  const called =
    user === null || user === undefined
      ? "nobody"
      : typeof user === "object"
        ? (user.id ?? user.name ?? "someone")
        : user;
  who.title = `Acting as ${called}`;
  who.replaceChildren(icon("person"), h("span", {}, who.title));
  who.classList.toggle("other", acting.as !== null);
}

function changeCaller() {
  drawIdentity();
  for (const view of state.views.values()) view.changeCaller();
}

/** The console's own pages. No action can be called "-": behind it they are there whatever the app calls its actions. */
const PAGES = {
  __proto__: null,
  failures: ["Failures", (code) => failurePage(code).catch(trouble)],
  history: ["History", pastPage],
  gateway: ["Gateway", gatewayPage],
  plugins: ["Plugins", pluginsPage],
  pipelines: ["Pipelines", pipelinesPage],
  insights: ["Insights", insightsPage],
};

/** What the address asks for; `own` says that it is one of the console's pages, and not an action. */
function route() {
  const steps = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const marked = steps[0] === "-";
  const [first = "", second = "", third = ""] = marked ? steps.slice(1) : steps;
  const named = state.actions.some((each) => each.name === first);
  return { own: marked || (first in PAGES && !named), first, second, third };
}

function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

function go(action, tab = "call") {
  const first = state.actions.find((each) => each.name === action)?.agent ? "chat" : "call";
  const hash = `#/${action}${tab === first ? "" : `/${tab}`}`;
  if (location.hash !== hash) location.hash = hash;
}

async function show() {
  try {
    await draw();
  } catch (error) {
    // One page that cannot be drawn must not take the others along.
    console.error(error);
    put(trouble(error), "Trouble");
  }
}

async function draw() {
  const { own, first, second, third } = route();
  document.body.classList.remove("side-open");
  state.current = null;
  list.mark(own ? null : first);
  if (!page.past) return put(unfinished(), "Waiting");
  if (own && first in PAGES) {
    const [title, make] = PAGES[first];
    const asked = location.hash;
    const made = await make(second, third);
    // Who has gone on meanwhile is not taken back.
    return location.hash === asked && put(made, (first === "failures" && second) || title);
  }
  const action =
    state.actions.find((each) => each.name === first) ?? (first === "" ? state.actions[0] : undefined);
  if (!action || own) return put(nothing(first), "Not found");
  if (first === "") return history.replaceState(null, "", `#/${action.name}`) ?? draw();
  if (!state.views.has(action.name)) state.views.set(action.name, new ActionView(action, page));
  state.current = state.views.get(action.name);
  state.current.open(second, third);
  return put(state.current.element, action.title);
}

function put(element, title) {
  document.title = `${title} · ${page.app}`;
  if (main.firstChild !== element) {
    main.replaceChildren(element);
    main.scrollTop = 0;
  }
}

function pastPage() {
  const open = (entry, after) => {
    go(entry.action);
    show();
    if (state.current?.fillKept(entry.input)) after?.();
  };
  const box = pastList(page.past, {
    open: (entry) => open(entry),
    rerun: (entry) => open(entry, () => state.current.run()),
  });
  return h(
    "article",
    { class: "prose wide" },
    h("h1", {}, "History"),
    h("p", { class: "lead" }, "Your last calls, in this browser only and without secrets."),
    box,
  );
}

function nothing(asked) {
  if (!state.actions.length)
    return h(
      "article",
      { class: "prose" },
      h("h1", {}, "No actions yet"),
      h("p", { class: "lead" }, "Write one, and it appears here."),
      h(
        "pre",
        { class: "code" },
        '@app.action\ndef greet(name: str) -> str:\n    """Say hello."""\n    return f"Hello, {name}!"',
      ),
    );
  return h(
    "article",
    { class: "prose" },
    h("h1", {}, "No such action"),
    h(
      "p",
      { class: "lead" },
      `Nothing is called ${asked} here. It may have been renamed; the list has what there is.`,
    ),
  );
}

function unfinished() {
  return h(
    "article",
    { class: "prose lock" },
    h("h1", {}, "The app is not there yet"),
    h(
      "p",
      { class: "lead" },
      "It cannot be imported as it is; the message above says why. This page goes on by itself as soon as the file is mended.",
    ),
  );
}

function trouble(error) {
  return h(
    "article",
    { class: "prose" },
    h("h1", {}, "That did not work"),
    h("p", { class: "lead" }, error.message),
  );
}

/** No session, no server: say what to do about it. */
function locked(error) {
  document.body.classList.add("locked");
  main.replaceChildren(
    h(
      "article",
      { class: "prose lock" },
      h("h1", {}, error.status === 401 ? "This page needs its link" : "The console cannot be reached"),
      h("p", { class: "lead" }, error.message),
      h(
        "p",
        { class: "soft" },
        "The terminal in which the console was started shows the link. It works once; the browser remembers the rest.",
      ),
    ),
  );
}

/** Ask for the app anew. Gives whether there is one: code that cannot be imported is told in a banner. */
async function load() {
  let answer;
  try {
    answer = await ask("actions");
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401 || error.code === "TRANSPORT_ERROR") throw error;
    state.generation = error.error.details?.generation;
    broken(error.error);
    return false;
  }
  const { app, actions, about } = answer;
  broken(null);
  if (page.app !== app) page.past = new Past(app);
  Object.assign(page, { app, placeholder: about.placeholder });
  Object.assign(state, { actions, about, generation: about.generation });
  name.textContent = app;
  name.title = about.description;
  pipelines.hidden = !about.pipelines;
  plugins.hidden = !about.plugins;
  insights.hidden = !about.plugins;
  operation.hidden = !actions.some((each) => each.agent);
  list.set(actions);
  for (const [key, view] of state.views) {
    const action = actions.find((each) => each.name === key);
    if (action) view.update(action);
  }
  drawIdentity();
  return true;
}

function broken(error) {
  page.broken = error !== null;
  const banner = $("banner");
  banner.hidden = error === null;
  const trace = error?.details?.traceback;
  banner.replaceChildren(
    ...(error
      ? [
          h("p", {}, icon("alert"), h("span", {}, error.message)),
          ...(trace
            ? [
                h(
                  "details",
                  { open: !state.actions.length },
                  h("summary", {}, "Traceback"),
                  h("pre", { class: "code", tabIndex: 0, role: "region", "aria-label": "Traceback" }, trace),
                ),
              ]
            : []),
        ]
      : []),
  );
  for (const view of state.views.values()) view.refresh();
}

function drawSignal(kind, text) {
  signal.className = `signal ${kind}`;
  signal.textContent = text;
}

async function watch() {
  await follow(state.generation, {
    back: () => drawSignal("live", "live"),
    async changed() {
      forgetFailures();
      if (await load()) {
        toast(`Reloaded: ${state.actions.length} actions`);
        await show();
      }
    },
    lost(ended) {
      drawSignal("lost", ended ? "session ended" : "reconnecting…");
      if (ended)
        locked(
          new Refused(
            {
              message: "The console was started again, and this page belongs to the one before.",
              code: "AUTHENTICATION_ERROR",
            },
            401,
          ),
        );
    },
  });
}

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    state.current?.run();
    return;
  }
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (document.body.classList.contains("side-open")) document.body.classList.remove("side-open");
    else if (state.current?.running) state.current.cancel();
    return;
  }
  const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog[open]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    "/": () => {
      document.body.classList.add("side-open");
      list.focus();
    },
    "?": showHelp,
    f: () => state.current?.focusForm(),
    j: () => state.current?.focusEditor(),
    r: () => state.current?.focusOutcome(),
    t: () => fairleadTheme.toggle(),
  };
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
addEventListener("hashchange", show);
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

async function begin() {
  drawBar();
  drawIdentity();
  try {
    await openSession();
    await load();
    await show();
    if (!state.generation) return undefined;
  } catch (error) {
    return locked(error);
  }
  return watch();
}

begin();
