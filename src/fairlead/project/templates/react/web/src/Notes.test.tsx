import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";

import { createClient } from "./client.ts";
import { Notes } from "./Notes.tsx";

afterEach(cleanup);

/** A server that answers every call with one stream of events. */
function answering(envelope: object): typeof fetch {
  const event = { type: "result", envelope: { artifacts: [], logs: [], meta: {}, ...envelope } };
  const body = `event: result\nid: 1\ndata: ${JSON.stringify(event)}\n\n`;
  return async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
}

function show(envelope: object): void {
  render(<Notes client={createClient({ url: "http://server", fetch: answering(envelope) })} />);
  fireEvent.click(screen.getByRole("button", { name: "Find" }));
}

test("notes that were found are listed", async () => {
  show({ ok: true, data: [{ id: 1, text: "Buy tea" }] });
  expect(await screen.findByText("Buy tea")).toBeTruthy();
});

test("a failure is told", async () => {
  show({ ok: false, error: { code: "TIMEOUT", message: "It took too long.", issues: [], retryable: true } });
  expect((await screen.findByRole("alert")).textContent).toBe("It took too long.");
});
