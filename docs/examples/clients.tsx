// Calling actions from TypeScript, and from a component. `tasks.ts` is what `fairlead client ts --react` wrote.

import { ClientError, createClient, useAction } from "./tasks";

const tasks = createClient({ url: "https://tasks.example.com", apiKey: "a key of the server's" });

export async function mend(): Promise<void> {
  const task = await tasks.create_task({ title: "Mend the net", priority: "high" });
  console.log(task.id, task.due);

  const envelope = await tasks.list_tasks({ limit: 10 }, { raw: true, timeoutMs: 5000 });
  console.log(envelope.ok ? envelope.data.length : envelope.error.code);

  try {
    await tasks.complete_task({ id: 1000 });
  } catch (error) {
    if (error instanceof ClientError && error.code === "NOT_FOUND") console.log(error.message);
    else throw error;
  }

  for await (const event of tasks.$stream("search_tasks", { text: "net" })) {
    if (event.type === "chunk") console.log(event.data.title);
  }
}

export function Import({ text }: { text: string }) {
  const importing = useAction(tasks, "import_tasks");
  return (
    <section>
      <button onClick={() => void importing.invoke({ text })}>Import</button>
      <button onClick={importing.cancel} disabled={importing.status !== "loading"}>
        Stop
      </button>
      <progress max={100} value={importing.progress?.percent ?? 0} />
      {importing.error && <p role="alert">{importing.error.message}</p>}
      {importing.data && <p>{importing.data.imported} tasks are new.</p>}
    </section>
  );
}
