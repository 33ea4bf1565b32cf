// The way to the server: the session, questions, calls as streams, and word of changes.

import { parse, stringify } from "./exact.js";

const BASE = new URL("api/", document.baseURI);
const SESSION = "fairlead:session";

/** The server refused, or could not be reached (`code` TRANSPORT_ERROR). */
export class Refused extends Error {
  constructor(error, status = 0) {
    super(error.message);
    this.error = error;
    this.code = error.code;
    this.status = status;
  }
}

const unreachable = () =>
  new Refused({
    code: "TRANSPORT_ERROR",
    message: "The console's server cannot be reached. Is it still running?",
    issues: [],
    retryable: true,
  });

/** Whom calls are made for; null is whoever runs the console. */
export const acting = { as: null };

async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  const all = { ...headers };
  const session = localStorage.getItem(SESSION);
  if (session) all["fairlead-session"] = session;
  if (body !== undefined) all["content-type"] = "application/json";
  try {
    return await fetch(new URL(path, BASE), {
      method,
      headers: all,
      body: body === undefined ? undefined : stringify(body),
      signal,
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
}

async function read(response) {
  try {
    return parse(await response.text());
  } catch {
    throw unreachable();
  }
}

/** Ask the server; gives its answer or throws `Refused`. */
export async function ask(path, options) {
  const response = await send(path, options);
  const answer = await read(response);
  if (!answer.ok) throw new Refused(answer.error, response.status);
  return answer;
}

/** Change the link's token for the session's secret, which this origin's pages keep. */
export async function openSession() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  try {
    const { session } = await ask("session", { method: "POST", body: { token } });
    localStorage.setItem(SESSION, session);
  } catch (error) {
    // Another tab may have used the link: its session is ours too.
    if (!localStorage.getItem(SESSION) || error.code === "TRANSPORT_ERROR") throw error;
  }
}

/** The events of a text/event-stream body, each as its data's JSON. */
async function* events(response) {
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trimStart());
      if (data.length) yield parse(data.join("\n"));
    }
  }
}

/** The header that says whom a request is made for. */
export const who = () => (acting.as ? { "fairlead-act-as": encodeURIComponent(stringify(acting.as)) } : {});

/** Call an action and hear what it says; the last event is the result. Throws `Refused`, or AbortError. */
export const call = (action, body, signal) => stream(`actions/${action}/stream`, body, signal);

/** Ask for something that is told in events; the last is the result. Throws `Refused`, or AbortError. */
export async function* stream(path, body, signal) {
  const headers = { accept: "text/event-stream", ...who() };
  const response = await send(path, { method: "POST", body, headers, signal });
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    yield { type: "result", envelope: await read(response), status: response.status };
    return;
  }
  try {
    for await (const event of events(response)) {
      yield event;
      if (event.type === "result") return;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof SyntaxError) throw error;
  }
  throw new Refused({
    code: "TRANSPORT_ERROR",
    message:
      "The connection broke before the result came: the server stopped or was reloaded. Whether the action finished is not known.",
    issues: [],
    retryable: true,
  });
}

/** Resolves as soon as somebody looks at the page. */
const seen = () =>
  new Promise((resolve) => {
    if (document.hidden) document.addEventListener("visibilitychange", resolve, { once: true });
    else resolve();
  });

/** Hear when the app is another than the `known` one: `changed` is told, `back` each time the line stands, `lost` each break. */
export async function follow(known, { changed, back, lost }) {
  let pause = 100;
  for (;;) {
    // A browser opens six connections to a server, for all its tabs: those that nobody looks at do without.
    await seen();
    const unseen = new AbortController();
    const leave = () => unseen.abort();
    document.addEventListener("visibilitychange", leave, { once: true });
    try {
      const response = await send("changes", { signal: unseen.signal });
      if (response.status === 401) return lost(true);
      if (response.ok) {
        for await (const event of events(response)) {
          pause = 100;
          back();
          if (event.generation !== known) await changed();
          known = event.generation;
        }
      }
    } catch {
      // Told below, like an answer that ended.
    }
    document.removeEventListener("visibilitychange", leave);
    if (unseen.signal.aborted) continue;
    lost(false);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 2000);
  }
}
