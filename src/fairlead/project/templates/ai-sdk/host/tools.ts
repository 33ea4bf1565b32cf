/** The app's actions as tools of the AI SDK: what the server offers is what the model gets. */

import { dynamicTool, jsonSchema, type ToolSet } from "ai";

import { type ActionName, createClient } from "./client.ts";

interface Described {
  name: ActionName;
  description: string;
  inputSchema: object;
}

/** `generateText({ model, tools: await actionTools("http://127.0.0.1:8000"), prompt })` */
export async function actionTools(url: string, apiKey?: string): Promise<ToolSet> {
  const client = createClient({ url, ...(apiKey === undefined ? {} : { apiKey }) });
  const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const listed = (await (await fetch(`${url}/fairlead/actions`, { headers })).json()) as { actions: Described[] };
  const tools: ToolSet = {};
  for (const { name, description, inputSchema } of listed.actions) {
    tools[name] = dynamicTool({
      description,
      inputSchema: jsonSchema(inputSchema),
      // A failure is an answer, too: the model reads what went wrong and mends it.
      execute: (input, { abortSignal }) =>
        client.$invoke(name, input as never, { raw: true, ...(abortSignal ? { signal: abortSignal } : {}) }),
    });
  }
  return tools;
}
