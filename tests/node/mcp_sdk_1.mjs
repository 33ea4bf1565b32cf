// The first TypeScript SDK: `node mcp_sdk_1.mjs '{"command": [...], "url": "..."}'`.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

import { answer, main, scenario } from "./mcp_scenario.mjs";

async function run(transport) {
  const asked = [];
  const logged = [];
  const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, (request) => answer(asked, request.params));
  client.setNotificationHandler(LoggingMessageNotificationSchema, (each) => void logged.push(each.params.data));
  await client.connect(transport);
  const report = await scenario(client, (params, options) => client.callTool(params, undefined, options), { asked, logged });
  await client.close();
  return report;
}

await main({
  stdio: ({ command: [command, ...args] }) => run(new StdioClientTransport({ command, args, stderr: "inherit" })),
  http: ({ url }) => run(new StreamableHTTPClientTransport(new URL(url))),
});
