// The state of an action as its events change it: section F 1-13 of the contract.

import { expect, test } from "vitest";

import {
  type ActionEvent,
  type ActionState,
  type Refusal,
  initialActionState,
  reduceActionEvent,
  reduceResult,
} from "./harbour";

const ENDS = { artifacts: [], logs: [], meta: {} };
const LOG = { type: "log", level: "info", message: "m", time: "t", fields: {} } as const;
const refusal = (code: string): Refusal => ({
  ok: false,
  error: { code, message: "m", issues: [], retryable: false },
  ...ENDS,
});
const after = (...events: Array<ActionEvent<unknown>>): ActionState<unknown> =>
  events.reduce<ActionState<unknown>>(reduceActionEvent, initialActionState());

test("F 1: the first state is idle and empty", () => {
  const empty = { status: "idle", data: null, error: null, logs: [], artifacts: [], chunks: [], progress: null };
  expect(initialActionState()).toEqual(empty);
});

test("F 2: each first state is an object of its own", () => {
  const [one, two] = [initialActionState(), initialActionState()];
  expect(one).not.toBe(two);
  expect(one.logs).not.toBe(two.logs);
  expect(one.artifacts).not.toBe(two.artifacts);
});

test("F 3: start forgets what was before", () => {
  const before = after(LOG, { type: "result", envelope: { ok: true, data: 1, ...ENDS } });
  expect(reduceActionEvent(before, { type: "start" })).toEqual({ ...initialActionState(), status: "loading" });
});

test("F 4: a log event is appended whole, and the state before is left alone", () => {
  const before = after({ type: "start" });
  const now = reduceActionEvent(before, LOG);
  expect(now.logs).toEqual([LOG]);
  expect(before.logs).toEqual([]);
});

test("F 5: an artifact event adds its artifact", () => {
  const artifact = { id: "1", type: "file", metadata: {} };
  expect(after({ type: "artifact", artifact }).artifacts).toEqual([artifact]);
});

test("F 6: a progress event replaces the progress", () => {
  const told = (percent: number): ActionEvent<unknown> => ({
    type: "progress",
    percent,
    message: `${percent}`,
    fields: {},
    time: "t",
  });
  expect(after(told(10), told(20)).progress).toEqual({ percent: 20, message: "20" });
});

test("F 7: a good result is a success with its data", () => {
  const now = after({ type: "start" }, { type: "result", envelope: { ok: true, data: { a: 1 }, ...ENDS } });
  expect(now).toMatchObject({ status: "success", data: { a: 1 }, error: null });
});

test("F 8: a failed result is an error with its error", () => {
  const now = after({ type: "start" }, { type: "result", envelope: refusal("CONFLICT") });
  expect(now).toMatchObject({ status: "error", data: null, error: { code: "CONFLICT" } });
});

test("F 9: a cancelled result is cancelled, not an error", () => {
  const now = after({ type: "start" }, { type: "result", envelope: refusal("CANCELLED") });
  expect(now).toMatchObject({ status: "cancelled", error: { code: "CANCELLED" } });
});

test("F 10: a late failure leaves a cancelled state as it is", () => {
  const before = after({ type: "start" }, { type: "cancel" });
  expect(before.status).toBe("cancelled");
  expect(reduceResult(before, refusal("INTERNAL_ERROR"))).toBe(before);
});

test("F 11: cancel acts only while loading", () => {
  for (const before of [initialActionState(), after({ type: "result", envelope: refusal("CONFLICT") })]) {
    expect(reduceActionEvent(before, { type: "cancel" })).toBe(before);
  }
});

test("F 12: unknown, empty and missing events change nothing", () => {
  const before = after({ type: "start" });
  for (const event of [{ type: "weather" }, {}, null, undefined]) {
    expect(reduceActionEvent(before, event as ActionEvent<unknown>)).toBe(before);
  }
});

test("F 13: a failed envelope without an error is an error all the same", () => {
  expect(reduceResult(initialActionState(), { ok: false })).toMatchObject({ status: "error", error: null });
});

test("chunks are kept as they come, and are the data of a result that leaves it out", () => {
  const now = after({ type: "start" }, { type: "chunk", data: 1 }, { type: "chunk", data: 2 });
  expect(now.chunks).toEqual([1, 2]);
  expect(reduceResult(now, { ok: true, data: null, ...ENDS }).data).toEqual([1, 2]);
});

test("what an agent writes is joined, and what it does is listed", () => {
  const activity = {
    type: "activity",
    kind: "tool_call",
    title: "look",
    detail: null,
    data: { name: "look" },
    time: "t",
  } as const;
  const now = after({ type: "start" }, { type: "delta", data: "All is " }, activity, { type: "delta", data: "quiet." });
  expect(now.text).toBe("All is quiet.");
  expect(now.activities).toEqual([activity]);
  expect(reduceActionEvent(now, { type: "start" }).text).toBeUndefined();
});
