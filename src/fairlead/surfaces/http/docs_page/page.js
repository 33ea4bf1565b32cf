
"use strict";
(() => {
  const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
  const DEEPEST = 6;
  // How deep the words for a type go: a type may contain itself.
  const DEEPEST_WORDS = 3;
  // A schema that nothing fits.
  const NOTHING = Object.freeze({ not: {} });
  const here = new URL("openapi.json", document.baseURI);
  let loaded = false;
  const one = (id) => document.getElementById(id);
  let api = null;
  let actions = [];
  let others = [];
  let failures = [];
  let running = null;
  const drafts = new Map();

  // Everything is made of nodes and text: what a document says is never read as HTML.
  function node(tag, about, ...inside) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(about || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
      else if (name === "text") made.textContent = value;
      else if (name === "value") made.value = value;
      else made.setAttribute(name === "cls" ? "class" : name, value === true ? "" : String(value));
    }
    made.append(...inside.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
    return made;
  }

  // The little of Markdown that descriptions use: paragraphs, lists, `code` and **strong** words.
  function prose(text, cls) {
    return String(text || "").split(/\n{2,}/).filter(Boolean).map((part) => {
      const lines = part.split("\n");
      if (lines.every((line) => line.startsWith("- "))) {
        return node("ul", {}, lines.map((line) => node("li", {}, words(line.slice(2)))));
      }
      return node("p", { cls }, words(part));
    });
  }

  function words(text) {
    return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
      if (/^`.+`$/s.test(part)) return node("code", { text: part.slice(1, -1) });
      if (/^\*\*.+\*\*$/s.test(part)) return node("strong", { text: part.slice(2, -2) });
      return part;
    });
  }

  const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

  function coloured(json) {
    const made = node("code", { cls: "plain" });
    let done = 0;
    for (const found of json.matchAll(TOKEN)) {
      made.append(json.slice(done, found.index));
      const kind = found[2] ? "t-p" : found[1] ? "t-s" : found[3] ? "t-k" : "t-n";
      made.append(node("span", { cls: kind, text: found[1] || found[0] }), found[2] || "");
      done = found.index + found[0].length;
    }
    made.append(json.slice(done));
    return made;
  }

  function block(text, json) {
    return node("pre", { tabindex: "0" }, json ? coloured(text) : text);
  }

  function resolved(part) {
    for (let hops = 0; part && typeof part.$ref === "string" && hops < 20; hops++) {
      let found = api;
      for (const step of part.$ref.replace(/^#\//, "").split("/")) {
        const key = decodeURIComponent(step).replace(/~1/g, "/").replace(/~0/g, "~");
        found = found && Object.hasOwn(found, key) ? found[key] : undefined;
      }
      const { $ref, ...beside } = part;
      part = found && typeof found === "object" ? { ...found, ...beside } : beside;
    }
    if (part === false) return NOTHING;
    return part === true || part === undefined ? {} : part;
  }

  const refName = (part) => (part && typeof part.$ref === "string" ? part.$ref.split("/").pop() : null);

  // Reading the document.

  function read(given) {
    api = given;
    for (const [path, methods] of Object.entries(api.paths || {})) {
      for (const method of METHODS) {
        const operation = methods[method];
        if (!operation) continue;
        const found = /\/actions\/([^/{}]+)\/(invoke|stream)$/.exec(path);
        if (found && found[2] === "invoke") actions.push({ name: found[1], path, operation });
        else if (found) (actions.find((each) => each.name === found[1]) || {}).stream = path;
        else others.push({ path, method, operation });
      }
    }
    for (const [name, response] of Object.entries((api.components || {}).responses || {})) {
      const examples = (((response.content || {})["application/json"] || {}).examples) || {};
      for (const example of Object.values(examples)) {
        const error = (example.value || {}).error;
        if (error) failures.push({ status: name.replace(/\D+/g, ""), ...error });
      }
    }
  }

  function parts(action) {
    const body = resolved(action.operation.requestBody);
    const content = ((body.content || {})["application/json"]) || {};
    const schema = resolved(content.schema);
    const answer = resolved((action.operation.responses || {})["200"]);
    const envelope = resolved((((answer.content || {})["application/json"]) || {}).schema);
    const example = Object.values(content.examples || {})[0];
    return {
      input: (schema.properties || {}).input || {},
      output: (envelope.properties || {}).data || {},
      example: example && example.value,
      facts: action.operation["x-fairlead"] || {},
    };
  }

  // Schemas for people.

  function typeOf(schema, depth = 0) {
    const name = refName(schema);
    const real = resolved(schema);
    if (real === NOTHING) return "nothing";
    if (depth > DEEPEST_WORDS && (real.anyOf || real.oneOf || real.allOf || real.prefixItems)) return name || "any";
    if ("const" in real) return JSON.stringify(real.const);
    if (Array.isArray(real.enum)) return real.enum.map((value) => JSON.stringify(value)).join(" | ");
    const choices = real.anyOf || real.oneOf;
    if (choices) return [...new Set(choices.map((each) => typeOf(each, depth + 1)))].join(" | ");
    if (real.allOf) return real.allOf.map((each) => typeOf(each, depth + 1)).join(" & ");
    const type = Array.isArray(real.type) ? real.type.join(" | ") : real.type;
    if (type === "array") {
      if (real.prefixItems) return `[${real.prefixItems.map((each) => typeOf(each, depth + 1)).join(", ")}]`;
      return depth > DEEPEST_WORDS ? "array" : `array of ${typeOf(real.items || {}, depth + 1)}`;
    }
    if (name) return name;
    if (type === "string" && real.format) return `string (${real.format})`;
    return type || (real.properties ? "object" : "any");
  }

  const RULES = {
    pattern: "pattern", minimum: "≥", maximum: "≤", exclusiveMinimum: ">", exclusiveMaximum: "<",
    multipleOf: "multiple of", minLength: "min length", maxLength: "max length", minItems: "min items", maxItems: "max items",
  };

  function rules(schema, given) {
    const told = Object.entries(RULES).filter(([key]) => key in schema).map(([key, word]) => `${word} ${schema[key]}`);
    if (schema.uniqueItems) told.push("unique");
    if (given && "default" in schema) told.push(`default ${JSON.stringify(schema.default)}`);
    return told;
  }

  // What is inside a schema: its own properties, its items' or its alternatives'. What holds only itself holds nothing.
  function inner(schema, depth = 0) {
    const real = resolved(schema);
    if (real.properties && Object.keys(real.properties).length) return { kind: "object", real };
    if (depth > DEEPEST) return null;
    const choices = (real.anyOf || real.oneOf || real.allOf || []).filter((each) => inner(each, depth + 1));
    if (choices.length) return { kind: "choices", choices };
    const { items, additionalProperties: others } = real;
    return (items && inner(items, depth + 1)) || (typeof others === "object" && inner(others, depth + 1)) || null;
  }

  function fields(schema, given, depth = 0) {
    const found = inner(schema);
    if (!found) return null;
    if (found.kind === "choices") {
      if (found.choices.length === 1) return fields(found.choices[0], given, depth);
      return node("ul", { cls: "fields" }, found.choices.map((each) =>
        node("li", {}, node("div", { cls: "field" }, node("span", { cls: "rule", text: "one of:" }), node("span", { cls: "type", text: typeOf(each) })), fields(each, given, depth + 1))));
    }
    const needed = new Set(found.real.required || []);
    return node("ul", { cls: "fields" }, Object.entries(found.real.properties).map(([name, each]) => field(name, each, needed.has(name), given, depth)));
  }

  // Of what one sends it matters what is needed, of what one gets what may be missing.
  function field(name, schema, needed, given, depth) {
    const real = resolved(schema);
    const line = node("div", { cls: "field" },
      node("span", { cls: "mono", text: name }), node("span", { cls: "type", text: typeOf(schema) }),
      given && needed && node("span", { cls: "need", text: "required" }), !given && !needed && node("span", { cls: "rule", text: "may be missing" }), real.deprecated && node("span", { cls: "pill warn", text: "deprecated" }),
      rules(real, given).map((rule) => node("span", { cls: "rule", text: rule })));
    const made = node("li", {}, line, real.description && node("p", { cls: "note" }, words(real.description)));
    if (!inner(schema)) return made;
    // What is inside is made when it is first looked at: a shape may hold itself.
    const more = node("details", { open: depth < 1 }, node("summary", { text: "fields" }));
    const fill = () => { if (more.open && more.childElementCount === 1) more.append(fields(schema, given, depth + 1)); };
    more.addEventListener("toggle", fill);
    fill();
    made.append(more);
    return made;
  }

  function shape(schema, given) {
    const real = resolved(schema);
    const inside = fields(schema, given);
    const line = node("p", { cls: "field" }, node("span", { cls: "type", text: typeOf(schema) }), rules(real, given).map((rule) => node("span", { cls: "rule", text: rule })));
    const plain = real.type === "object" && inside;
    return [!plain && line, real.description && !plain && node("p", { cls: "note" }, words(real.description)), inside];
  }

  function sample(schema, depth = 0) {
    const real = resolved(schema);
    if (Array.isArray(real.examples) && real.examples.length) return real.examples[0];
    if ("default" in real) return real.default;
    if ("const" in real) return real.const;
    if (Array.isArray(real.enum)) return real.enum[0];
    const choices = real.anyOf || real.oneOf || real.allOf;
    if (choices) return depth > DEEPEST ? null : sample(choices[0], depth + 1);
    const type = Array.isArray(real.type) ? real.type[0] : real.type;
    if (type === "object" || real.properties) {
      if (depth > DEEPEST) return {};
      const needed = Object.entries(real.properties || {}).filter(([name]) => (real.required || []).includes(name));
      return Object.fromEntries(needed.map(([name, each]) => [name, sample(each, depth + 1)]));
    }
    if (type === "array") return real.prefixItems ? real.prefixItems.map((each) => sample(each, depth + 1)) : [];
    if (type === "string") return { "date-time": "2030-01-31T12:00:00Z", date: "2030-01-31", time: "12:00:00Z", uuid: "836faa8f-1bbf-4004-88f8-5efc857b3e42", duration: "PT5M" }[real.format] || "";
    if (type === "integer" || type === "number") return real.minimum ?? (real.exclusiveMinimum === undefined ? 0 : real.exclusiveMinimum + 1);
    return type === "boolean" ? false : null;
  }

  // Calling.

  const address = (path) => new URL(path.replace(/^\//, ""), here).href;
  const quoted = (text) => `'${text.replace(/'/g, `'\\''`)}'`;

  function schemes(operation) {
    const known = (api.components || {}).securitySchemes || {};
    const ways = operation.security || api.security || [];
    return ways.flatMap((way) => Object.keys(way)).map((name) => known[name]).filter(Boolean);
  }

  function curl(path, operation, body, lines) {
    const told = [`curl ${quoted(address(path))}`, "-H 'Content-Type: application/json'"];
    if (lines) told.push("-N -H 'Accept: application/x-ndjson'");
    const way = schemes(operation)[0];
    if (way) told.push(way.type === "apiKey" ? `-H "${way.name}: $KEY"` : '-H "Authorization: Bearer $KEY"');
    told.push(`-d ${quoted(body)}`);
    return told.join(" \\\n  ");
  }

  function headers(operation, accept) {
    const sent = { "Content-Type": "application/json", Accept: accept };
    const key = one("key")?.value.trim();
    const ways = schemes(operation);
    if (!key) return sent;
    const header = ways.length && ways.every((way) => way.type === "apiKey") ? ways[0].name : null;
    if (header) sent[header] = key;
    else sent.Authorization = `Bearer ${key}`;
    return sent;
  }

  function pretty(text) {
    try { return { text: JSON.stringify(JSON.parse(text), null, 2), json: true }; }
    catch { return { text, json: false }; }
  }

  async function call(action, body, lines, show) {
    running?.abort();
    const control = (running = new AbortController());
    const started = performance.now();
    const took = () => `${Math.round(performance.now() - started)} ms`;
    show({ state: "Running…", busy: true });
    try {
      const accept = lines ? "application/x-ndjson" : "application/json";
      const answer = await fetch(address(lines ? action.stream : action.path), {
        method: "POST", headers: headers(action.operation, accept), body, signal: control.signal, credentials: "same-origin", cache: "no-store",
      });
      if (lines && answer.ok) { await follow(answer, show, took); return; }
      const told = pretty(await answer.text());
      show({ state: `${answer.status} ${answer.statusText}`, good: answer.ok, took: took(), ...told });
    } catch (error) {
      if (running === control) show({ state: control.signal.aborted ? "Cancelled" : `No answer: ${error.message}`, good: false, took: took() });
    } finally {
      if (running === control) running = null;
    }
  }

  async function follow(answer, show, took) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let seen = "";
    let last = null;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines.filter(Boolean)) {
        last = JSON.parse(line);
        seen += `${JSON.stringify(last, null, 2)}\n`;
        show({ state: `Running… ${last.type}`, busy: true, took: took(), text: seen, json: true, percent: last.type === "progress" ? last.percent : undefined });
      }
    }
    const good = Boolean(last && last.type === "result" && last.envelope.ok);
    const ended = last && last.type === "result" ? (good ? "Done" : last.envelope.error.code) : "The stream broke off";
    show({ state: ended, good, took: took(), text: seen, json: true });
  }

  // The views.

  function copied(text) {
    const button = node("button", { type: "button", text: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1200);
    });
    return button;
  }

  function pills(action) {
    const { facts } = parts(action);
    return node("div", { cls: "pills" },
      facts.sideEffects && node("span", { cls: `pill ${facts.sideEffects}`, text: facts.sideEffects }),
      facts.idempotency && facts.idempotency !== "unspecified" && node("span", { cls: "pill", text: facts.idempotency.replace("_", "-") }),
      facts.requiresConfirmation && node("span", { cls: "pill warn", text: "asks for confirmation" }),
      action.operation.deprecated && node("span", { cls: "pill warn", text: "deprecated" }),
      (facts.permissions || []).map((name) => node("span", { cls: "pill key", text: name })),
      facts.version && node("span", { cls: "pill", text: `v${facts.version}` }));
  }

  function actionView(action) {
    const { input, output, example, facts } = parts(action);
    if (!drafts.has(action.name)) drafts.set(action.name, JSON.stringify((example && example.input) ?? sample(input), null, 2));
    const editor = node("textarea", { spellcheck: "false", "aria-label": "Input as JSON", value: drafts.get(action.name) });
    const confirm = node("input", { type: "checkbox", id: "confirm" });
    const problem = node("span", { cls: "state bad", role: "alert" });
    const send = node("button", { type: "button", cls: "main", text: "Send", title: "Ctrl+Enter" });
    const stream = node("button", { type: "button", text: "Stream" });
    const cancel = node("button", { type: "button", text: "Cancel", disabled: true });
    const state = node("span", { cls: "state", role: "status", "aria-live": "polite" });
    const time = node("span", { cls: "quiet" });
    const meter = node("div");
    const result = node("div", {}, node("p", { cls: "quiet", text: "The answer will be here." }));
    const command = node("pre", { tabindex: "0" });

    function body() {
      let value;
      try { value = JSON.parse(editor.value.trim() || "{}"); }
      catch (error) { problem.textContent = `Not JSON: ${error.message}`; return null; }
      problem.textContent = "";
      return JSON.stringify(confirm.checked ? { input: value, confirm: true } : { input: value });
    }
    function refresh() {
      drafts.set(action.name, editor.value);
      const made = body();
      send.disabled = stream.disabled = made === null;
      if (made !== null) command.textContent = curl(action.path, action.operation, made, false);
    }
    function show(told) {
      cancel.disabled = !told.busy;
      state.textContent = told.state;
      state.className = `state ${told.good === undefined ? "" : told.good ? "good" : "bad"}`;
      time.textContent = told.took || "";
      if (told.percent !== undefined) meter.replaceChildren(node("progress", { max: 100, ...(told.percent === null ? {} : { value: told.percent }) }));
      if (!told.busy) meter.replaceChildren();
      if (told.text !== undefined) result.replaceChildren(block(told.text, told.json && told.text.length < 200000));
      else if (!told.busy) result.replaceChildren();
    }
    const run = (lines) => { const made = body(); if (made !== null) call(action, made, lines, show); };
    editor.addEventListener("input", refresh);
    confirm.addEventListener("change", refresh);
    send.addEventListener("click", () => run(false));
    stream.addEventListener("click", () => run(true));
    cancel.addEventListener("click", () => running?.abort());
    editor.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(false); }
    });
    refresh();
    return [
      node("div", { cls: "route" }, node("b", { text: "POST" }), action.path),
      node("h1", { text: action.operation.summary || action.name }), pills(action), prose(action.operation.description, "lead"),
      node("div", { cls: "two try" },
        node("section", { cls: "card" }, node("h2", { text: "Try it" }), editor,
          node("div", { cls: "row" }, send, action.stream && stream, cancel,
            facts.requiresConfirmation && node("label", { for: "confirm" }, confirm, "Confirm"), problem)),
        node("section", { cls: "card" }, node("div", { cls: "head" }, node("h2", { text: "Answer" }), state, time), meter, result)),
      node("section", { cls: "card" }, node("div", { cls: "head" }, node("h2", { text: "The same with curl" }), copied(() => command.textContent)), command),
      node("div", { cls: "two" },
        node("section", { cls: "card" }, node("h2", { text: "Input" }), shape(input, true)),
        node("section", { cls: "card" }, node("h2", { text: "Output" }), shape(output, false))),
      node("details", { cls: "card" }, node("summary", { text: "Failures" }), failureTable()),
    ];
  }

  function failureTable() {
    const head = node("tr", {}, ["Code", "HTTP", "Again?", "Meaning"].map((text) => node("th", { scope: "col", text })));
    const rows = failures.map((each) => node("tr", {}, node("td", {}, node("code", { text: each.code })), node("td", { text: each.status }),
      node("td", { text: each.retryable ? "yes" : "" }), node("td", { text: each.message })));
    return node("div", { cls: "scroll" }, node("table", {}, node("thead", {}, head), node("tbody", {}, rows)));
  }

  function overview() {
    const info = api.info || {};
    const known = Object.values((api.components || {}).securitySchemes || {});
    return [
      node("h1", { text: info.title || "API" }), info.summary && node("p", { cls: "lead", text: info.summary }), prose(info.description),
      info.contact && node("p", { cls: "quiet" }, info.contact.name || ""),
      node("p", {}, node("a", { href: here.href, text: "openapi.json" })),
      node("div", { cls: "cards" }, actions.map((each) => node("a", { href: `#/${encodeURIComponent(each.name)}` },
        node("strong", { text: each.operation.summary || each.name }), node("p", { text: String(each.operation.description || "").split("\n")[0] }), pills(each)))),
      known.length > 0 && node("section", { cls: "card" }, node("h2", { text: "Saying who you are" }),
        known.map((way) => prose(way.description)), node("p", { cls: "quiet", text: "A key typed above stays in this page's memory and goes to this server only." })),
      others.length > 0 && node("section", { cls: "card" }, node("h2", { text: "Beside the actions" }),
        node("div", { cls: "scroll" }, node("table", {}, node("tbody", {}, others.map((each) => node("tr", {},
          node("td", {}, node("code", { text: `${each.method.toUpperCase()} ${each.path}` })), node("td", { text: each.operation.summary || "" }))))))),
    ];
  }

  function failureView() {
    return [
      node("h1", { text: "Failures" }),
      node("p", { cls: "lead", text: "A call that fails says why by a code. Programs can rely on it; the message is for people." }),
      node("section", { cls: "card" }, failureTable()),
    ];
  }

  // Finding one's way.

  function link(href, text, cls, current) {
    return node("li", {}, node("a", { href, cls, text, "aria-current": current ? "page" : null }));
  }

  function list() {
    const asked = one("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const at = current();
    const fits = (each) => asked.every((word) => `${each.name} ${each.operation.summary} ${each.operation.description}`.toLowerCase().includes(word));
    const shown = actions.filter(fits);
    const groups = (api.tags || []).map((tag) => [tag.name, shown.filter((each) => (each.operation.tags || [])[0] === tag.name)]);
    one("list").replaceChildren(...[
      !asked.length && node("ul", {}, link("#/", "Overview", "plain", at === ""), link("#/?failures", "Failures", "plain", at === "?failures")),
      ...groups.filter(([, each]) => each.length).map(([name, each]) => [node("h2", { text: name }), node("ul", {}, each.map((action) =>
        link(`#/${encodeURIComponent(action.name)}`, action.name, `${name}${action.operation.deprecated ? " old" : ""}`, at === action.name)))]),
      asked.length && !shown.length && node("p", { cls: "quiet", text: "Nothing fits." }),
    ].flat().filter(Boolean));
  }

  function current() {
    try { return decodeURIComponent(location.hash.replace(/^#\/?/, "")); }
    catch { return ""; }
  }

  function render(moved) {
    running?.abort();
    const at = current();
    const action = actions.find((each) => each.name === at);
    const view = action ? actionView(action) : at === "?failures" ? failureView() : overview();
    one("main").replaceChildren(...view.flat(Infinity).filter(Boolean));
    document.title = `${action ? `${action.name} · ` : ""}${(api.info || {}).title || "API"}`;
    list();
    if (moved) {
      one("side").classList.remove("open");
      one("menu").setAttribute("aria-expanded", "false");
      window.scrollTo(0, 0);
      one("main").focus({ preventScroll: true });
    }
  }

  function walk(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...one("list").querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const next = event.key === "ArrowDown" ? at + 1 : at - 1;
    event.preventDefault();
    if (next < 0) one("search").focus();
    else links[Math.min(next, links.length - 1)]?.focus();
  }

  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); one("main").focus(); });
  one("search").addEventListener("input", list);
  one("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") one("list").querySelector("a")?.click();
    if (event.key === "Escape") { one("search").value = ""; list(); }
  });
  one("side").addEventListener("keydown", walk);
  one("credentials").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!loaded) load();
  });
  one("menu").addEventListener("click", () => {
    const open = one("side").classList.toggle("open");
    one("menu").setAttribute("aria-expanded", String(open));
    if (open) one("search").focus();
  });
  one("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    one("side").classList.add("open");
    one("search").focus();
  });

  function load() {
    const key = one("key").value.trim();
    const sent = key ? { Authorization: `Bearer ${key}` } : {};
    fetch(here, { credentials: "same-origin", headers: sent }).then((answer) => {
      if (answer.status === 401) throw new Error("It is for known callers only: give your key or token above, and press Enter.");
      if (!answer.ok) throw new Error(`openapi.json: ${answer.status}`);
      return answer.json();
    }).then((given) => {
      loaded = true;
      read(given);
      one("title").textContent = (api.info || {}).title || "API";
      one("version").textContent = (api.info || {}).version || "";
      if (!Object.keys((api.components || {}).securitySchemes || {}).length) one("credentials").remove();
      window.addEventListener("hashchange", () => render(true));
      render(false);
    }).catch((error) => {
      one("main").replaceChildren(node("h1", { text: "The API's description cannot be read" }), node("p", { text: error.message }));
    });
  }

  load();
})();
