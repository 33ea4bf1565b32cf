// The client against a real server of ours, and against answers that no server of ours would give.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { createParser } from "eventsource-parser";
import { expect, test } from "vitest";

import { type InvokeOptions, ClientError, type Envelope, EventReader, type StreamEvent, createClient } from "./harbour";

const url = process.env["HARBOUR_URL"] ?? "";
const client = createClient({ url });
let marks = 0;
const mark = (): string => `ts ${process.pid} ${(marks += 1)}`;

async function failure(work: Promise<unknown>): Promise<ClientError> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(ClientError);
  return error as ClientError;
}

/** Asks the server until something has happened there. */
async function happened(what: string): Promise<void> {
  const end = Date.now() + 5000;
  while ((await client.seen({ mark: what })) === 0) {
    if (Date.now() > end) throw new Error(`${what} did not happen`);
  }
}

async function collect<T>(events: AsyncIterable<T>): Promise<Array<T>> {
  const found: Array<T> = [];
  for await (const event of events) found.push(event);
  return found;
}

/** A client whose server answers with these, one a request; and the requests. */
function answered(...answers: Array<Response | Error>) {
  const requests: Array<{ url: string; headers: Headers; body: { [key: string]: unknown }; at: number }> = [];
  const fetch = async (to: unknown, request?: RequestInit): Promise<Response> => {
    const body = JSON.parse(String(request?.body)) as { [key: string]: unknown };
    requests.push({ url: String(to), headers: new Headers(request?.headers), body, at: Date.now() });
    const answer = answers.shift();
    if (answer instanceof Response) return answer;
    throw answer ?? new Error("no more answers");
  };
  const retry = { retries: 3, delayMs: 1 };
  return { requests, client: createClient({ url: "http://harbour", fetch: fetch as typeof globalThis.fetch, retry }) };
}

const ok = (data: unknown): Response => Response.json({ ok: true, data });
const refused = (code: string, retryable: boolean, more: object = {}, headers: HeadersInit = {}): Response =>
  Response.json({ ok: false, error: { code, message: "m", issues: [], retryable, ...more } }, { headers });
const streamed = (...pieces: Array<string>): Response => {
  const body = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
};

test("a call gives the data, and raw gives the envelope", async () => {
  expect(await client.greet({ name: "Ada" })).toBe("Hello Ada");
  const envelope = await client.sail({ legs: 1 }, { raw: true });
  expect(envelope).toMatchObject({ ok: true, data: { legs: 1 }, meta: { action: "sail", surface: "http" } });
  expect(envelope.logs.map((entry) => entry.message)).toEqual(["Cast off.", "Leg 1", "Made fast."]);
  expect(await client.$invoke("greet", { name: "Ada" })).toBe("Hello Ada");
  expect(await client.$invoke("greet", { name: "Ada" }, { raw: true })).toMatchObject({ ok: true });
});

test("null is an input, and is not the same as none", async () => {
  expect(await client.nothing(null)).toBe("null");
  expect(await client.echo(null)).toBe(null);
  expect((await failure(client.nothing({} as unknown as null))).code).toBe("VALIDATION_ERROR");
});

test("all sorts of shapes get there and back", async () => {
  const given = {
    pair: [1, "a"] as [number, string],
    counts: { a: 1 },
    either: ["x"],
    one: "two" as const,
    odd: { "odd-key": 1, class: "c", ünïcode: true },
    tree: { label: "root", children: [{ label: "leaf", children: [] }] },
  };
  expect(await client.shapes(given)).toEqual(given);
});

test("a failure is thrown with its code, its issues and its envelope", async () => {
  const error = await failure(client.greet({ name: "" }));
  expect(error).toMatchObject({ name: "ClientError", code: "VALIDATION_ERROR", retryable: false });
  expect(error.issues.map((issue) => issue.path)).toEqual([["name"]]);
  expect(error.envelope?.ok).toBe(false);
  expect(await failure(client.wreck())).toMatchObject({ code: "INTERNAL_ERROR" });
  const full = await failure(client.moor({ name: "Elida" }));
  expect(full).toMatchObject({ code: "HARBOUR_FULL", message: "No berth for you." });
  expect(full.envelope?.error.details).toEqual({ berths: 3 });
});

test("an action called then does not make the client a promise", async () => {
  expect("then" in client).toBe(false);
  expect(await client).toBe(client);
  expect(await client.$invoke("then", { value: 3 })).toBe(3);
});

test("confirmation, metadata and keys get through", async () => {
  expect((await failure(client.launch({ name: "Elida" }))).code).toBe("CONFIRMATION_REQUIRED");
  expect(await client.launch({ name: "Elida" }, { confirm: true })).toBe("Elida floats");
  const told = await client.whoami({}, { metadata: { trip: 7 }, idempotencyKey: "schlüssel" });
  expect(told).toMatchObject({ metadata: { trip: 7 }, key: "schlüssel", surface: "http" });
});

test("identity in the options is refused, and nothing is sent", async () => {
  const { client, requests } = answered();
  for (const identity of [{ user: "ada" }, { auth: {} }]) {
    const error = await failure(client.greet({ name: "Ada" }, identity as InvokeOptions));
    expect(error.code).toBe("UNTRUSTED_REMOTE_IDENTITY");
    const stream = collect(client.$stream("greet", { name: "Ada" }, identity as InvokeOptions));
    expect((await failure(stream)).code).toBe("UNTRUSTED_REMOTE_IDENTITY");
  }
  expect(requests).toEqual([]);
});

test("a network that fails is a transport error, with its cause, and is not tried again", async () => {
  const cause = new TypeError("fetch failed");
  const { client, requests } = answered(cause);
  const error = await failure(client.greet({ name: "Ada" }));
  expect(error).toMatchObject({ code: "TRANSPORT_ERROR", cause, retryable: true });
  expect(requests.length).toBe(1);
});

test("what is not an envelope is an invalid response", async () => {
  const answers = [new Response("<html>"), new Response(""), Response.json([1]), Response.json({ ok: "yes" })];
  const { client, requests } = answered(...answers);
  for (const _ of answers) expect((await failure(client.greet({ name: "Ada" }))).code).toBe("INVALID_RESPONSE");
  expect(requests.length).toBe(4);
});

test("credentials are not taken along to another place", async () => {
  const elsewhere: Array<unknown> = [];
  const other = createServer((request, response) => {
    elsewhere.push(request.headers);
    response.end('{"ok": true, "data": "stolen"}');
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const to = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`;
  const first = createServer((_, response) => response.writeHead(307, { location: to }).end());
  await new Promise<void>((resolve) => first.listen(0, "127.0.0.1", resolve));
  const { port } = first.address() as AddressInfo;
  const led = createClient({ url: `http://127.0.0.1:${port}`, headers: { "x-api-key": "secret" } });
  expect((await failure(led.greet({ name: "Ada" }))).code).toBe("INVALID_RESPONSE");
  expect(elsewhere).toEqual([]);
  for (const server of [first, other]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("a call is sent again where its failure says that may help, with one key", async () => {
  const { client, requests } = answered(refused("TIMEOUT", true), refused("QUITE_NEW", true), ok("here"), ok("there"));
  expect(await client.greet({ name: "Ada" })).toBe("here");
  expect(await client.greet({ name: "Ada" })).toBe("there");
  const keys = requests.map((request) => request.body["idempotencyKey"]);
  expect(new Set(keys.slice(0, 3)).size).toBe(1);
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[3]).not.toBe(keys[0]);
  expect(requests[0]?.headers.get("idempotency-key")).toBe(keys[0]);
});

test("a call is not sent again where that would not help, or is not wanted", async () => {
  const { client, requests } = answered(refused("CONFLICT", false), refused("TIMEOUT", true), refused("TIMEOUT", true));
  expect((await failure(client.greet({ name: "Ada" }))).code).toBe("CONFLICT");
  const options = { retry: false } as const;
  expect((await failure(client.greet({ name: "Ada" }, options))).retryable).toBe(true);
  expect(await client.greet({ name: "Ada" }, { ...options, raw: true })).toMatchObject({ ok: false });
  expect(requests.length).toBe(3);
  expect(requests[1]?.body).toEqual({ input: { name: "Ada" } });
});

test("retries end", async () => {
  const { client, requests } = answered(...Array.from({ length: 9 }, () => refused("TIMEOUT", true)));
  expect((await failure(client.greet({ name: "Ada" }))).code).toBe("TIMEOUT");
  expect(requests.length).toBe(4);
  await failure(client.greet({ name: "Ada" }, { retry: 1 }));
  expect(requests.length).toBe(6);
});

test("pauses are as long as the failure asks, but nobody is held for too long", async () => {
  const { client, requests } = answered(
    refused("RATE_LIMITED", true, { retryAfter: 0.05 }),
    ok(1),
    refused("RATE_LIMITED", true, {}, { "retry-after": "60" }),
  );
  await client.greet({ name: "Ada" });
  expect((requests[1]?.at ?? 0) - (requests[0]?.at ?? 0)).toBeGreaterThanOrEqual(49);
  expect(await failure(client.greet({ name: "Ada" }))).toMatchObject({ code: "RATE_LIMITED", retryAfter: 60 });
  expect(requests.length).toBe(3);
});

test("a deadline bounds all attempts", async () => {
  const busy = Array.from({ length: 99 }, () => refused("BUSY", true, { retryAfter: 0.15 }));
  const { client, requests } = answered(...busy);
  await failure(client.greet({ name: "Ada" }, { retry: 99, deadlineMs: 400 }));
  expect(requests.length).toBeGreaterThan(1);
  expect(requests.length).toBeLessThan(4);
  expect(requests[0]?.body["timeoutMs"]).toBeLessThanOrEqual(400);
});

test("an abort ends the pause between attempts", async () => {
  const { client, requests } = answered(refused("BUSY", true, { retryAfter: 9 }));
  const abort = new AbortController();
  const call = failure(client.greet({ name: "Ada" }, { signal: abort.signal }));
  await expect.poll(() => requests.length).toBe(1);
  abort.abort();
  expect((await call).code).toBe("CANCELLED");
});

test("a server that was never reached is tried again", async () => {
  const server = createServer((_, response) => response.end(JSON.stringify({ ok: true, data: "up" })));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const late = createClient({ url: `http://127.0.0.1:${port}`, retry: { retries: 200, delayMs: 10, maxDelayMs: 10 } });
  const call = late.greet({ name: "Ada" });
  const none = await failure(createClient({ url: `http://127.0.0.1:${port}`, retry: 1 }).greet({ name: "Ada" }));
  expect(none.code).toBe("TRANSPORT_ERROR");
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  expect(await call).toBe("up");
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test("an abort here is a cancel there", async () => {
  const abort = new AbortController();
  const what = mark();
  const call = failure(client.anchor({ mark: what }, { signal: abort.signal }));
  await happened(`${what} began`);
  abort.abort();
  expect(await call).toMatchObject({ code: "CANCELLED", retryable: false });
  await happened(`${what} cancelled`);
  expect((await failure(client.greet({ name: "Ada" }, { signal: abort.signal }))).code).toBe("CANCELLED");
});

test("a time-out is told to the server, and guards the wait", async () => {
  const what = mark();
  const late = await failure(client.anchor({ mark: what }, { timeoutMs: 50, retry: false }));
  expect(late).toMatchObject({ code: "TIMEOUT", retryable: true });
  expect(late.envelope?.meta.surface).toBe("http");
  await happened(`${what} cancelled`);
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const deaf = createClient({ url: `http://127.0.0.1:${port}`, timeoutMs: 1 });
  expect(await failure(deaf.greet({ name: "Ada" }))).toMatchObject({ code: "TIMEOUT" });
  silent.closeAllConnections();
  await new Promise((resolve) => silent.close(resolve));
});

test("a time-out may be longer than a timer can count to", async () => {
  const month = 31 * 24 * 3600 * 1000;
  expect(await client.greet({ name: "Ada" }, { timeoutMs: month })).toBe("Hello Ada");
  expect(await client.greet({ name: "Ada" }, { deadlineMs: month })).toBe("Hello Ada");
  const events = await collect(client.$stream("greet", { name: "Ada" }, { timeoutMs: month }));
  expect(events.at(-1)).toMatchObject({ type: "result", envelope: { ok: true } });
});

test("events come in order and the result is last", async () => {
  const events = await collect(client.$stream("sail", { legs: 2 }));
  expect(events.map((event) => event.type)).toEqual(["log", "progress", "progress", "artifact", "log", "result"]);
  expect(events[1]).toMatchObject({ message: "Leg 1", percent: 50 });
  const last = events.at(-1) as { envelope: Envelope<unknown> };
  expect(last.envelope).toMatchObject({ ok: true, data: { legs: 2 } });
  const chunks = await collect(client.$stream("buoys", { count: 2 }));
  expect(chunks.flatMap((event) => (event.type === "chunk" ? [event.data] : []))).toEqual(["buoy 0", "buoy 1"]);
  const refusal = await collect(client.$stream("greet", { name: "" }));
  expect(refusal).toMatchObject([{ type: "result", envelope: { error: { code: "VALIDATION_ERROR" } } }]);
});

test("what an agent writes and does comes as it happens", async () => {
  const events = await collect(client.$stream("narrate"));
  expect(events.map((event) => event.type)).toEqual(["delta", "activity", "delta", "result"]);
  expect(events.flatMap((event) => (event.type === "delta" ? [event.data] : [])).join("")).toBe("All is quiet.");
  expect(events[1]).toMatchObject({ kind: "tool_call", title: "look", detail: null, data: { name: "look" } });
});

test("large events get through", async () => {
  const events = await collect(client.$stream("buoys", { count: 5, size: 300_000 }));
  expect(events.length).toBe(6);
  expect(String((events[4] as { data: unknown }).data).length).toBe(300_006);
});

test("leaving a stream early is a cancel there", async () => {
  const what = mark();
  for await (const event of client.$stream("anchor", { mark: what })) {
    expect(event).toMatchObject({ type: "log", message: "At anchor." });
    break;
  }
  await happened(`${what} cancelled`);
});

test("a stream is aborted by its signal", async () => {
  const abort = new AbortController();
  const what = mark();
  const events = collect(client.$stream("anchor", { mark: what }, { signal: abort.signal }));
  await happened(`${what} began`);
  abort.abort();
  expect((await failure(events)).code).toBe("CANCELLED");
  await happened(`${what} cancelled`);
});

test("a stream that is broken says how", async () => {
  const cases: Array<[string, string]> = [
    ["", "TRANSPORT_ERROR"],
    ['data: {"type":"log"}\n\n', "TRANSPORT_ERROR"],
    ["data: {\n\n", "INVALID_RESPONSE"],
    ["data: 1\n\n", "INVALID_RESPONSE"],
    ['data: {"type":"result"}\n\n', "INVALID_RESPONSE"],
  ];
  const { client } = answered(...cases.map(([body]) => streamed(body)), Response.json({ ok: false }));
  for (const [, code] of cases) {
    expect((await failure(collect(client.$stream("greet", { name: "Ada" })))).code).toBe(code);
  }
  expect(await collect(client.$stream("greet", { name: "Ada" }))).toMatchObject([{ envelope: { ok: false } }]);
});

test("another reader of events reads the same, whatever the pieces", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  const pick = <T>(items: ReadonlyArray<T>): T => items[random(items.length)] as T;
  for (let round = 0; round < 300; round += 1) {
    let text = pick(["", "", "\ufeff"]);
    for (let line = random(14); line > 0; line -= 1) {
      const name = pick(["data", "data", "event", "id", "", ":"]);
      const field = name + pick([":", ": "]) + pick(["a", "b c", "€𝄞", "", " x"]);
      text += pick(["", "data: x", field]) + pick(["\n", "\r\n", "\r"]);
    }
    text += "\n";
    const theirs: Array<unknown> = [];
    const parser = createParser({
      onEvent: ({ event = "message", data, id }) => theirs.push({ type: event, data, id }),
    });
    parser.feed(text.replace(/\r\n?/g, "\n"));
    // Theirs tells an event's own id, ours the last one that was told; and bytes are decoded before they are fed.
    const reader = new EventReader();
    const ours: Array<{ type: string; data: string; id: string }> = [];
    const decoder = new TextDecoder();
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; ) {
      const next = at + 1 + random(5);
      ours.push(...reader.feed(decoder.decode(bytes.slice(at, next), { stream: true })));
      at = next;
    }
    expect(ours.map(({ type, data }) => ({ type, data }))).toEqual(
      theirs.map((event) => ({ type: (event as { type: string }).type, data: (event as { data: string }).data })),
    );
  }
});

test("headers, keys and places are the maker's to choose", async () => {
  const requests: Array<[string, Headers]> = [];
  const fetch = (async (to: string, request: RequestInit) => {
    requests.push([to, new Headers(request.headers)]);
    return ok(1);
  }) as typeof globalThis.fetch;
  await createClient({ url: "http://a/", fetch, apiKey: "k", headers: async () => ({ "x-a": "1" }) }).wreck();
  await createClient({ url: "http://a/below", basePath: "ageniti/", fetch, headers: { "x-b": "2" } }).wreck();
  await createClient({ url: "http://a", basePath: "", fetch }).wreck();
  expect(requests.map(([to]) => to)).toEqual([
    "http://a/fairlead/actions/wreck/invoke",
    "http://a/below/ageniti/actions/wreck/invoke",
    "http://a/actions/wreck/invoke",
  ]);
  expect(requests[0]?.[1].get("authorization")).toBe("Bearer k");
  expect(requests[0]?.[1].get("x-a")).toBe("1");
  expect(requests[1]?.[1].get("x-b")).toBe("2");
});

test("a client that makes no sense is refused", () => {
  const transport = { invoke: async () => ({ ok: true }) as never, stream: async function* () {} };
  expect(() => createClient()).toThrow(TypeError);
  expect(() => createClient({ url: "http://a", transport })).toThrow(TypeError);
});

test("a transport of ones own carries the calls", async () => {
  const seen: Array<unknown> = [];
  const transport = {
    invoke: async (action: string, input: unknown, options: object) => {
      seen.push([action, input, options]);
      return { ok: true as const, data: "carried", artifacts: [], logs: [], meta: {} };
    },
    async *stream(): AsyncGenerator<StreamEvent<unknown>> {
      yield { type: "result", envelope: { ok: true, data: 1, artifacts: [], logs: [], meta: {} } };
    },
  };
  const own = createClient({ transport });
  expect(own.$transport).toBe(transport);
  expect(await own.greet({ name: "Ada" }, { surface: "kiosk" })).toBe("carried");
  expect(seen).toEqual([["greet", { name: "Ada" }, { surface: "kiosk" }]]);
  expect((await collect(own.$stream("wreck"))).length).toBe(1);
});
