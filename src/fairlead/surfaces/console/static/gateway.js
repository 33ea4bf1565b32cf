// The agents' API at work: agents, live tasks with their timelines, deliveries, keys, rates, and who did what.

import { ask, who } from "./api.js";
import { button, copyButton, h, pill, tabs, toast } from "./dom.js";

const EVERY = 2000;
const KINDS = {
  running: "note",
  queued: "",
  input_required: "warn",
  auth_required: "warn",
  completed: "good",
  succeeded: "good",
  active: "good",
  pending: "note",
  failed: "bad",
  dead_letter: "bad",
  rejected: "bad",
  timeout: "bad",
  revoked: "",
  expired: "warn",
};

const status = (word) => pill(word.replaceAll("_", " "), KINDS[word] ?? "");
const short = (id) => h("code", { title: id }, id.length > 14 ? `${id.slice(0, 6)}…${id.slice(-6)}` : id);
const soft = (text) => h("span", { class: "soft" }, text);

function moment(text) {
  if (!text) return soft("–");
  const when = new Date(text);
  return h("time", { dateTime: text, title: when.toLocaleString() }, ago(when));
}

function ago(when) {
  const seconds = Math.round((Date.now() - when) / 1000);
  const past = Math.abs(seconds);
  const told =
    past < 60
      ? `${past} s`
      : past < 3600
        ? `${Math.floor(past / 60)} min`
        : past < 172_800
          ? `${Math.floor(past / 3600)} h`
          : `${Math.floor(past / 86_400)} d`;
  return seconds >= 0 ? `${told} ago` : `in ${told}`;
}

/** A table with these columns: pairs of a head and a function of the row. `set` draws rows anew. */
function grid(label, columns, empty) {
  const body = h("tbody");
  const none = h("p", { class: "empty" }, empty);
  const box = h(
    "div",
    { class: "table-box", tabIndex: 0, role: "region", "aria-label": label },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map(([head]) => h("th", { scope: "col" }, head)),
        ),
      ),
      body,
    ),
  );
  let drawn = "";
  return {
    element: h("div", { class: "gateway-list" }, box, none),
    set(rows) {
      none.hidden = rows.length > 0;
      box.hidden = rows.length === 0;
      // What has not changed stays: the focus and what was selected, too. Times grow by themselves.
      const said = `${JSON.stringify(rows)}${Math.floor(Date.now() / 10_000)}`;
      if (said === drawn) return;
      drawn = said;
      const focused = body.contains(document.activeElement) ? document.activeElement.dataset.of : null;
      body.replaceChildren(
        ...rows.map((row) =>
          h(
            "tr",
            {},
            columns.map(([, cell]) => h("td", {}, cell(row) ?? "")),
          ),
        ),
      );
      if (focused) body.querySelector(`[data-of="${CSS.escape(focused)}"]`)?.focus();
    },
  };
}

const LISTS = {
  agents: () =>
    grid(
      "Agents",
      [
        ["Agent", (row) => [h("code", {}, row.id), h("div", { class: "soft about" }, row.description)]],
        ["Owner", (row) => row.owner],
        ["Visibility", (row) => pill(row.visibility, row.visibility === "private" ? "" : "note")],
        ["Where", (row) => (row.instance === "local" ? "this app" : row.instance)],
        ["Takes work", (row) => row.mode],
        ["State", (row) => (row.online ? pill("online", "good") : pill("offline", "bad"))],
      ],
      "This app has no agents.",
    ),
  deliveries: () =>
    grid(
      "Deliveries of webhooks",
      [
        ["Status", (row) => status(row.status)],
        ["Task", (row) => taskLink(row)],
        ["To", (row) => row.host ?? soft("removed")],
        ["Attempts", (row) => String(row.attempt_num)],
        ["Answer", (row) => (row.last_response_status ? String(row.last_response_status) : soft("–"))],
        ["Trouble", (row) => (row.last_error ? h("div", { class: "about" }, row.last_error) : soft("–"))],
        ["Next", (row) => moment(row.next_attempt_at)],
        ["Made", (row) => moment(row.created_at)],
      ],
      "Nothing was delivered yet. Callers register webhooks for their tasks.",
    ),
  rates: () =>
    grid(
      "Rates",
      [
        ["Key", (row) => row.key ?? soft(row.key_id ? short(row.key_id) : "token")],
        ["Owner", (row) => row.owner],
        ["Endpoint", (row) => h("code", {}, row.endpoint)],
        ["Last 2 min", (row) => String(row.lately)],
        ["Last hour", (row) => String(row.last_hour)],
        ["Refused", (row) => (row.limited ? pill(String(row.limited), "warn") : "0")],
        [
          "Limit a minute",
          (row) => (row.rate_limit_per_minute ? String(row.rate_limit_per_minute) : soft("the server's")),
        ],
      ],
      "Nobody called in the last hour.",
    ),
  audit: () =>
    grid(
      "Who did what",
      [
        ["When", (row) => moment(row.time)],
        ["Owner", (row) => row.owner || soft("unknown")],
        ["What", (row) => h("code", {}, row.endpoint)],
        ["Agent", (row) => row.agent ?? soft("–")],
        ["On", (row) => (row.target ? short(row.target) : soft("–"))],
        ["Status", (row) => pill(String(row.status), row.status < 400 ? "good" : "bad")],
        ["From", (row) => row.address ?? soft("–")],
      ],
      "Nobody did anything yet.",
    ),
};

const taskLink = (row) =>
  h(
    "a",
    { href: `#/-/gateway/tasks/${encodeURIComponent(row.task_id)}`, data: { of: row.task_id } },
    short(row.task_id),
  );

function taskList(label, empty) {
  return grid(
    label,
    [
      ["Task", taskLink],
      ["Agent", (row) => h("code", {}, row.agent_id)],
      ["Owner", (row) => row.owner],
      ["Status", (row) => status(row.status)],
      ["Kind", (row) => row.kind],
      ["Made", (row) => moment(row.created_at)],
      ["Began", (row) => moment(row.started_at)],
      ["Ended", (row) => moment(row.completed_at)],
      ["Worker", (row) => (row.worker ? short(row.worker) : soft("–"))],
    ],
    empty,
  );
}

/** What happened in one task, in order. */
function timeline() {
  const element = h("section", { class: "timeline", "aria-label": "Timeline", hidden: true });
  let shown = "";
  let asked = 0;
  return {
    element,
    async set(id) {
      const mine = ++asked;
      element.hidden = !id;
      if (!id) return;
      let task;
      try {
        ({ task } = await ask("gateway/task", { method: "POST", body: { id }, headers: who() }));
        if (mine !== asked) return;
      } catch (error) {
        if (mine !== asked) return;
        shown = "";
        element.replaceChildren(h("p", { class: "empty" }, error.message));
        return;
      }
      const said = JSON.stringify(task);
      if (said === shown) return;
      shown = said;
      const begun = new Date(task.created_at);
      element.replaceChildren(
        h(
          "header",
          {},
          h("h2", {}, "Timeline of ", h("code", {}, task.task_id)),
          status(task.status),
          h("span", { class: "grow" }),
          h("a", { class: "button quiet small", href: "#/-/gateway/tasks" }, "Close"),
        ),
        h(
          "ol",
          {},
          task.events.map((event) =>
            h(
              "li",
              { class: `event ${event.type}` },
              h(
                "time",
                { dateTime: event.time, title: new Date(event.time).toLocaleString() },
                `+${((new Date(event.time) - begun) / 1000).toFixed(1)} s`,
              ),
              h("span", { class: "event-type" }, event.type),
              h("span", { class: "event-detail" }, event.detail),
            ),
          ),
        ),
        task.events.length ? "" : h("p", { class: "empty" }, "Nothing has happened yet."),
      );
    },
  };
}

function keyDesk(refresh) {
  const field = (label, given) => {
    const input = h("input", { class: "input", autocomplete: "off", ...given });
    return { input, element: h("label", { class: "key-field" }, h("span", {}, label), input) };
  };
  const name = field("Name", { required: true, maxLength: 200, placeholder: "ci" });
  const owner = field("Owner", { placeholder: "whose the app's agents are", maxLength: 200 });
  const agents = field("Only these agents", { placeholder: "all" });
  const minute = field("Requests a minute", { type: "number", min: "1", placeholder: "the server's" });
  const days = field("Good for days", { type: "number", min: "1", placeholder: "until revoked" });
  const admin = h("input", { type: "checkbox" });
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const once = h("div", { class: "key-once", role: "status", hidden: true });
  const form = h(
    "form",
    { class: "key-form", "aria-label": "New key" },
    [name, owner, agents, minute, days].map((each) => each.element),
    h("label", { class: "key-admin" }, admin, "May make and revoke keys"),
    button("Make a key", () => form.requestSubmit(), { sign: "plus", kind: "primary" }),
  );
  let making = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (making) return;
    making = true;
    trouble.hidden = true;
    const body = { name: name.input.value, admin: admin.checked };
    if (owner.input.value) body.owner = owner.input.value;
    if (agents.input.value.trim()) body.agents = agents.input.value.split(/[\s,]+/).filter(Boolean);
    if (minute.input.value) body.per_minute = Number(minute.input.value);
    if (days.input.value) body.days = Number(days.input.value);
    try {
      const { key } = await ask("gateway/key", { method: "POST", body, headers: who() });
      once.replaceChildren(
        h("p", {}, `The key ${key.name} is shown this once. Keep it where secrets are kept.`),
        h("div", { class: "key-token" }, h("code", {}, key.key), copyButton(() => key.key, "Copy the key")),
      );
      once.hidden = false;
      form.reset();
    } catch (error) {
      trouble.textContent = error.message;
      trouble.hidden = false;
    }
    making = false;
    await refresh();
  });
  /** The keys that somebody is about to revoke, also when their rows are drawn anew. */
  const doubted = new Set();
  const revoke = (row) => {
    const doubt = () => {
      doubted.add(row.id);
      sure.hidden = !(first.hidden = true);
    };
    const first = button("Revoke", doubt, {
      kind: "quiet small",
      data: { of: row.id },
      "aria-label": `Revoke ${row.name}`,
      hidden: doubted.has(row.id),
    });
    const sure = button(
      "Really revoke",
      async (event) => {
        // The second half of a double click is not an answer.
        if (event.detail > 1) return;
        try {
          await ask("gateway/revoke", { method: "POST", body: { id: row.id }, headers: who() });
          toast(`Revoked ${row.name}`);
        } catch (error) {
          toast(error.message);
        }
        await refresh();
      },
      { kind: "danger small", data: { of: `really ${row.id}` }, hidden: !doubted.has(row.id) },
    );
    return h("span", {}, first, sure);
  };
  const list = grid(
    "Keys",
    [
      ["Name", (row) => row.name],
      ["Key", (row) => h("code", {}, `${row.key_prefix}…`)],
      ["Owner", (row) => row.owner],
      ["Agents", (row) => (row.agents ? row.agents.join(", ") : soft("all"))],
      ["A minute", (row) => (row.rate_limit_per_minute ? String(row.rate_limit_per_minute) : soft("–"))],
      ["May", (row) => row.permissions.map((each) => pill(each, "warn"))],
      ["Expires", (row) => moment(row.expires_at)],
      ["Last used", (row) => moment(row.last_used_at)],
      ["Status", (row) => status(row.status)],
      ["", (row) => (row.status === "active" ? revoke(row) : "")],
    ],
    "There are no keys yet: nobody can call the agents from elsewhere.",
  );
  return { element: h("div", {}, form, trouble, once, list.element), set: list.set };
}

let page = null;

/** The page; it looks again every other second for as long as it is seen. */
export function gatewayPage(tab, id) {
  page ??= build();
  page.show(tab || "tasks", id);
  return page.element;
}

function build() {
  const lists = Object.fromEntries(Object.entries(LISTS).map(([name, make]) => [name, make()]));
  const live = taskList("Live tasks", "No task is running or waiting.");
  const ended = taskList("Latest tasks", "There were no tasks yet.");
  const line = timeline();
  const keys = keyDesk(() => refresh());
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const tasks = h(
    "div",
    {},
    line.element,
    h("h2", {}, "Live"),
    live.element,
    h("h2", {}, "Latest"),
    ended.element,
  );
  const panels = {
    tasks: ["Tasks", tasks],
    agents: ["Agents", lists.agents.element],
    deliveries: ["Deliveries", lists.deliveries.element],
    keys: ["Keys", keys.element],
    rates: ["Rates", lists.rates.element],
    audit: ["Audit", lists.audit.element],
  };
  const all = tabs(
    "Gateway",
    Object.entries(panels).map(([name, [title, element]]) => ({ id: name, title, make: () => element })),
    (name) => (location.hash = `#/-/gateway/${name}`),
  );
  const element = h(
    "article",
    { class: "prose wide gateway" },
    h("h1", {}, "Gateway"),
    h("p", { class: "lead" }, "What other people's programs do with this app's agents."),
    trouble,
    all.list,
    all.panels,
  );
  let task = "";
  let timer = null;

  async function refresh() {
    clearTimeout(timer);
    try {
      const told = await ask("gateway", { headers: who() });
      trouble.hidden = true;
      for (const [name, list] of Object.entries(lists)) list.set(told[name]);
      live.set(told.tasks);
      ended.set(told.ended);
      keys.set(told.keys);
      await line.set(task);
    } catch (error) {
      trouble.textContent = error.message;
      trouble.hidden = false;
    }
    clearTimeout(timer);
    timer = setTimeout(() => element.isConnected && refresh(), EVERY);
  }
  return {
    element,
    show(tab, id) {
      task = tab === "tasks" ? (id ?? "") : "";
      all.open(tab in panels ? tab : "tasks");
      refresh();
    },
  };
}
