// Run by node itself, which only strips the types: one call, one failure, one stream.

import { ClientError, createClient } from "./tasks.ts";

const client = createClient({ url: process.env["HARBOUR_URL"] ?? "" });
console.log(await client.greet({ name: "node" }));
try {
  await client.wreck();
} catch (error) {
  if (error instanceof ClientError) console.log(error.code);
}
for await (const event of client.$stream("sail", { legs: 1 })) console.log(event.type);
