/** The tools call the real server. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { actionTools } from "./tools.ts";

const port = 20000 + Math.floor(Math.random() * 20000);
const url = `http://127.0.0.1:${port}`;
let server: ReturnType<typeof spawn>;

before(async () => {
  const notes = join(await mkdtemp(join(tmpdir(), "notes-")), "notes.jsonl");
  const env = { ...process.env, MY_APP_NOTES: notes };
  server = spawn("fairlead", ["serve", "--port", String(port)], { cwd: "..", env, stdio: "ignore" });
  for (let tries = 0; tries < 200; tries += 1) {
    const ready = await fetch(`${url}/readyz`).then((answer) => answer.ok, () => false);
    if (ready) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("The server did not start.");
});

after(async () => {
  server.kill();
  await once(server, "exit");
});

const call = { toolCallId: "1", messages: [], context: {} } as never;

test("the model is offered what the server shows", async () => {
  assert.deepEqual(Object.keys(await actionTools(url)).sort(), ["add_note", "find_notes", "read_note"]);
});

test("a call gives the envelope", async () => {
  const tools = await actionTools(url);
  const answer = (await tools["find_notes"]?.execute?.({ word: "tea" }, call)) as { ok: boolean; data: unknown };
  assert.deepEqual([answer.ok, answer.data], [true, []]);
});

test("a failure is an answer the model can read", async () => {
  const tools = await actionTools(url);
  const answer = (await tools["add_note"]?.execute?.({ text: "x" }, call)) as { error: { code: string } };
  assert.equal(answer.error.code, "AUTHENTICATION_ERROR");
});
