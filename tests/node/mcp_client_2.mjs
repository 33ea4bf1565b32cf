// The second TypeScript SDK, in both eras: `node mcp_client_2.mjs '{"command": [...], "url": "..."}'`.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { answer, main, scenario } from "./mcp_scenario.mjs";

async function run(transport, mode) {
  const asked = [];
  const logged = [];
  const client = new Client(
    { name: "test", version: "1" },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
  );
  client.setRequestHandler("elicitation/create", (request) => answer(asked, request.params));
  client.setNotificationHandler("notifications/message", (each) => void logged.push(each.params.data));
  await client.connect(transport);
  const report = await scenario(client, (params, options) => client.callTool(params, options), { asked, logged });
  await client.close();
  return report;
}

const stdio = ({ command: [command, ...args] }) => new StdioClientTransport({ command, args, stderr: "inherit" });
const http = ({ url }) => new StreamableHTTPClientTransport(new URL(url));
const newest = { pin: "2026-07-28" };

await main({
  stdio: (target) => run(stdio(target), "legacy"),
  http: (target) => run(http(target), "legacy"),
  "stdio, stateless": (target) => run(stdio(target), newest),
  "http, stateless": (target) => run(http(target), newest),
});
