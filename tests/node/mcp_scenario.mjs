// What every TypeScript client is made to do with the workshop, whichever SDK, transport and revision it has.
// The Python test reads the report; nothing is judged here.

const texts = (result) => result.content.map((block) => block.text ?? block.type);

async function refusal(promise) {
  try {
    return { answered: await promise };
  } catch (error) {
    return { code: error.code ?? null, name: error.name };
  }
}

async function until(check) {
  for (;;) {
    const found = await check();
    if (found) return found;
  }
}

async function waiting(client) {
  return (await client.callTool({ name: "waiting", arguments: {} })).structuredContent;
}

// `call(params, options)` is the SDK's own callTool; `asked` and `logged` are filled by the handlers.
export async function scenario(client, call, { asked, logged }) {
  const report = {};
  report.server = client.getServerVersion();
  report.instructions = client.getInstructions() ?? null;
  const { tools } = await client.listTools();
  report.tools = tools.map((tool) => tool.name);
  report.titles = tools.map((tool) => tool.title);

  const added = await call({ name: "add", arguments: { a: 40 } });
  report.add = { structured: added.structuredContent, texts: texts(added), isError: added.isError ?? false };
  report.greet = texts(await call({ name: "greet", arguments: { name: "Ann" } }));
  report.everything = (
    await call({
      name: "everything",
      arguments: { boards: [{ wood: "oak", length: 2.5 }], cut: { at: "1.5", by: "axe" } },
    })
  ).structuredContent;
  report.whatever = (await call({ name: "whatever", arguments: { value: { deep: [1, null, "é☃"] } } })).structuredContent;
  report.picture = texts(await call({ name: "picture", arguments: {} }));

  const failed = await call({ name: "fail", arguments: { how: "expected" } });
  report.fail = { isError: failed.isError, text: JSON.parse(texts(failed)[0]) };
  const invalid = await call({ name: "add", arguments: { a: "many" } });
  report.invalid = { isError: invalid.isError, text: JSON.parse(texts(invalid)[0]) };
  report.unknown = await refusal(call({ name: "ad", arguments: {} }));

  report.progress = [];
  const onprogress = ({ progress, total, message }) => {
    report.progress.push([Math.round(progress), total, message]);
    call({ name: "go_on", arguments: {} });
  };
  await call({ name: "plane", arguments: { strokes: 4 } }, { onprogress });
  report.logged = logged;

  const abort = new AbortController();
  const before = (await waiting(client)).stopped;
  const cancelled = refusal(call({ name: "wait", arguments: {} }, { signal: abort.signal }));
  await until(async () => (await waiting(client)).running > 0);
  abort.abort("enough");
  report.cancelled = Object.keys(await cancelled);
  await until(async () => (await waiting(client)).stopped > before);
  report.running = (await waiting(client)).running;

  report.painted = texts(await call({ name: "paint", arguments: {} }));
  report.burned = texts(await call({ name: "burn", arguments: { what: "the chair" } }));
  report.asked = asked;

  report.resources = (await client.listResources()).resources.map((each) => each.uri);
  const [guide] = (await client.readResource({ uri: report.resources.find((uri) => uri.includes("guide")) })).contents;
  report.guide = guide.text.includes("add");
  report.prompts = (await client.listPrompts()).prompts.map((each) => each.name);
  report.prompt = (await client.getPrompt({ name: report.prompts[0], arguments: {} })).messages.length;
  const three = await Promise.all([1, 2, 3].map((a) => call({ name: "add", arguments: { a } })));
  report.three = three.map((each) => each.structuredContent.total);
  return report;
}

// Answers a question as a person would: yes, and red.
export function answer(asked, params) {
  asked.push(params.message);
  const fields = Object.keys(params.requestedSchema?.properties ?? {});
  return { action: "accept", content: fields.includes("colour") ? { colour: "red" } : {} };
}

export async function main(connections) {
  const target = JSON.parse(process.argv[2]);
  const report = {};
  for (const [name, run] of Object.entries(connections)) report[name] = await run(target);
  process.stdout.write(JSON.stringify(report));
}
