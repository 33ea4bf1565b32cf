// @vitest-environment happy-dom
// The hook in a real render, against a real server of ours; and section F 71-76 of the contract.

import { act, cleanup, fireEvent, render, renderHook, screen, waitFor } from "@testing-library/react";
import { StrictMode, type ReactNode } from "react";
import { afterEach, expect, test } from "vitest";

import {
  type Envelope,
  type StreamEvent,
  type Transport,
  createClient,
  createReactActionAdapter,
  makeInvoker,
  streamAction,
  useAction,
} from "./harbour";

const url = process.env["HARBOUR_URL"] ?? "";
const client = createClient({ url });
let marks = 0;
const mark = (): string => `tsx ${process.pid} ${(marks += 1)}`;
const happened = (what: string): Promise<void> =>
  waitFor(async () => expect(await client.seen({ mark: what })).toBe(1), { timeout: 5000, interval: 5 });

afterEach(cleanup);

function Sailing(): ReactNode {
  const sailing = useAction(client, "sail");
  return (
    <div>
      <button onClick={() => void sailing.invoke({ legs: 4 })}>Sail</button>
      <output>{sailing.status}</output>
      <progress max={100} value={sailing.progress?.percent ?? 0} />
      <ul>
        {sailing.logs.map((entry) => (
          <li key={entry.time + entry.message}>{entry.message}</li>
        ))}
      </ul>
      <p>{sailing.data?.["legs"] ?? "no"} legs</p>
    </div>
  );
}

test("a component shows what the action says", async () => {
  render(
    <StrictMode>
      <Sailing />
    </StrictMode>,
  );
  expect(screen.getByRole("status").textContent).toBe("idle");
  fireEvent.click(screen.getByText("Sail"));
  expect(screen.getByRole("status").textContent).toBe("loading");
  await waitFor(() => expect(screen.getByRole("status").textContent).toBe("success"));
  expect(screen.getByText("4 legs")).toBeTruthy();
  expect(screen.getAllByRole("listitem").map((item) => item.textContent)).toEqual(["Cast off.", "Made fast."]);
  expect(screen.getByRole<HTMLProgressElement>("progressbar").value).toBe(100);
});

test("a failure is a state, not an exception", async () => {
  const { result } = renderHook(() => useAction(client, "greet"));
  const envelope = await act(() => result.current.invoke({ name: "" }));
  expect(envelope).toMatchObject({ ok: false, error: { code: "VALIDATION_ERROR" } });
  expect(result.current).toMatchObject({ status: "error", data: null, error: { code: "VALIDATION_ERROR" } });
});

test("a server that cannot be reached is a state too", async () => {
  const none = createClient({ url: "http://127.0.0.1:1", retry: false });
  const { result } = renderHook(() => useAction(none, "greet"));
  const envelope = await act(() => result.current.invoke({ name: "Ada" }));
  expect(envelope).toMatchObject({ ok: false, meta: { invocationId: "react-1", surface: "react" } });
  expect(result.current).toMatchObject({ status: "error", error: { code: "TRANSPORT_ERROR" } });
});

test("the items of an action that yields them come one by one", async () => {
  const { result } = renderHook(() => useAction(client, "buoys"));
  await act(() => result.current.invoke({ count: 3 }));
  expect(result.current).toMatchObject({ status: "success", data: ["buoy 0", "buoy 1", "buoy 2"] });
});

test("a new call cancels the one before, whose words are not heard any more", async () => {
  const { result } = renderHook(() => useAction(client, "anchor"));
  const [first, second] = [mark(), mark()];
  let before: Promise<Envelope<string>> | undefined;
  act(() => void (before = result.current.invoke({ mark: first })));
  await waitFor(() => expect(result.current.logs.length).toBe(1));
  await act(() => result.current.invoke({ mark: second, seconds: 0 }));
  expect(result.current).toMatchObject({ status: "success", data: "aweigh" });
  expect(result.current.logs.length).toBe(1);
  expect(await before).toMatchObject({
    ok: false,
    error: { code: "CANCELLED" },
    meta: { action: "anchor", invocationId: "react-1" },
  });
  await happened(`${first} cancelled`);
  expect(result.current.status).toBe("success");
});

test("cancel stops the call", async () => {
  const { result } = renderHook(() => useAction(client, "anchor"));
  const what = mark();
  let call: Promise<Envelope<string>> | undefined;
  act(() => void (call = result.current.invoke({ mark: what })));
  await waitFor(() => expect(result.current.logs.length).toBe(1));
  act(() => result.current.cancel());
  expect(result.current.status).toBe("cancelled");
  await act(async () => expect(await call).toMatchObject({ ok: false, error: { code: "CANCELLED" } }));
  expect(result.current.status).toBe("cancelled");
  await happened(`${what} cancelled`);
});

test("an outer signal is passed on", async () => {
  const { result } = renderHook(() => useAction(client, "anchor"));
  const [what, abort] = [mark(), new AbortController()];
  let call: Promise<Envelope<string>> | undefined;
  act(() => void (call = result.current.invoke({ mark: what }, { signal: abort.signal })));
  await waitFor(() => expect(result.current.logs.length).toBe(1));
  await act(async () => {
    abort.abort();
    expect(await call).toMatchObject({ error: { code: "CANCELLED" } });
  });
  expect(result.current.status).toBe("cancelled");
  await happened(`${what} cancelled`);
  const late = await act(() => result.current.invoke({ mark: what }, { signal: abort.signal }));
  expect(late).toMatchObject({ error: { code: "CANCELLED" } });
});

test("reset stops the call and forgets everything", async () => {
  const { result } = renderHook(() => useAction(client, "anchor"));
  const what = mark();
  let call: Promise<Envelope<string>> | undefined;
  act(() => void (call = result.current.invoke({ mark: what })));
  await waitFor(() => expect(result.current.logs.length).toBe(1));
  act(() => result.current.reset());
  expect(result.current).toMatchObject({ status: "idle", logs: [] });
  expect(await call).toMatchObject({ error: { code: "CANCELLED" }, meta: { invocationId: "react-1" } });
  expect(result.current.status).toBe("idle");
  await happened(`${what} cancelled`);
});

test("a component that goes takes its call with it", async () => {
  const { result, unmount } = renderHook(() => useAction(client, "anchor"));
  const what = mark();
  let call: Promise<Envelope<string>> | undefined;
  act(() => void (call = result.current.invoke({ mark: what })));
  await waitFor(() => expect(result.current.logs.length).toBe(1));
  unmount();
  expect(await call).toMatchObject({ error: { code: "CANCELLED" } });
  await happened(`${what} cancelled`);
});

test("the functions of the hook stay the same", async () => {
  const { result, rerender } = renderHook(() => useAction(client, "greet"));
  const { invoke, cancel, reset } = result.current;
  await act(() => invoke({ name: "Ada" }));
  rerender();
  expect(result.current).toMatchObject({ data: "Hello Ada" });
  expect([result.current.invoke, result.current.cancel, result.current.reset]).toEqual([invoke, cancel, reset]);
});

/** A runtime in this process: what it was asked, and one good answer. */
function recording(): { transport: Transport; surfaces: Array<string | undefined> } {
  const surfaces: Array<string | undefined> = [];
  const envelope: Envelope<unknown> = { ok: true, data: "recorded", artifacts: [], logs: [], meta: {} };
  const transport: Transport = {
    invoke: async (_name, _input, options) => (surfaces.push(options.surface), envelope),
    async *stream(_name, _input, options): AsyncGenerator<StreamEvent<unknown>> {
      surfaces.push(options.surface);
      yield { type: "log", level: "info", message: "m", time: "t", fields: {} };
      yield { type: "progress", message: "p", percent: 50, fields: {}, time: "t" };
      yield { type: "result", envelope };
    },
  };
  return { transport, surfaces };
}

test("F 71: an invoker calls through its client, as the react surface", async () => {
  const { transport, surfaces } = recording();
  const greet = makeInvoker("greet", { client: createClient({ transport }) });
  expect(await greet({ name: "Ada" })).toMatchObject({ ok: true, data: "recorded" });
  expect(surfaces).toEqual(["react"]);
});

test("F 72: an invoker without a client makes one, for the page's own server", async () => {
  // happy-dom's page is the harbour's own, as vitest.config.ts says.
  expect(globalThis.location.origin).toBe(url);
  expect(await makeInvoker("greet")({ name: "Ada" })).toMatchObject({ ok: true, data: "Hello Ada" });
});

test("F 73: an invoker's surface can be chosen", async () => {
  const { transport, surfaces } = recording();
  await makeInvoker("greet", { client: createClient({ transport }), surface: "kiosk" })({ name: "Ada" });
  expect(surfaces).toEqual(["kiosk"]);
});

test("F 74: a streamed action yields log, progress and its good result", async () => {
  const types: Array<string> = [];
  let last: StreamEvent<unknown> | undefined;
  for await (const event of streamAction(client, "sail", { legs: 1 })) {
    types.push(event.type);
    last = event;
  }
  expect(types).toEqual(["log", "progress", "artifact", "log", "result"]);
  expect(last).toMatchObject({ envelope: { ok: true, data: { legs: 1 } } });
  const { transport, surfaces } = recording();
  for await (const _ of streamAction(createClient({ transport }), "wreck"));
  expect(surfaces).toEqual(["react"]);
});

test("F 75: an adapter has a client and makes invokers", async () => {
  const adapter = createReactActionAdapter();
  expect(await adapter.client.greet({ name: "Ada" })).toBe("Hello Ada");
  expect(await adapter.useAction("greet")({ name: "Ada" })).toMatchObject({ ok: true, data: "Hello Ada" });
});

test("F 76: an adapter uses the client it is given", async () => {
  const { transport, surfaces } = recording();
  const given = createClient({ transport });
  const adapter = createReactActionAdapter({ client: given });
  expect(adapter.client).toBe(given);
  await adapter.useAction("greet")({ name: "Ada" });
  expect(surfaces).toEqual(["react"]);
});
