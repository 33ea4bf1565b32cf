// Only compiled: what the types of a written client say, and what they refuse.

import {
  type ActionName,
  type Actions,
  type InvokeOptions,
  type Envelope,
  type ErrorCode,
  type HarbourClient,
  type RawInvokeOptions,
  createClient,
  useAction,
} from "./harbour";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <_ extends true>(): void => undefined;

const client: HarbourClient = createClient({ url: "http://localhost" });

export async function calls(): Promise<void> {
  const plain = await client.greet({ name: "Ada" });
  is<Same<typeof plain, string>>();
  const whole = await client.greet({ name: "Ada" }, { raw: true });
  is<Same<typeof whole, Envelope<string>>>();
  if (whole.ok) is<Same<typeof whole.data, string>>();
  else is<Same<typeof whole.error.code, ErrorCode>>();
  const named = await client.$invoke("berths", { count: 1 });
  is<Same<typeof named, Array<number>>>();
  const raw: RawInvokeOptions = { raw: true, timeoutMs: 5 };
  const both = await client.$invoke("berths", { count: 1 }, raw);
  is<Same<typeof both, Envelope<Array<number>>>>();
  await client.sail();
  await client.sail(undefined, { raw: true });
  await client.wreck();
  await client.nothing(null);
  const odd = (await client.shapes(shapes)).odd["odd-key"];
  is<Same<typeof odd, number>>();
  // @ts-expect-error: the name is missing
  await client.greet({});
  // @ts-expect-error: so is the input
  await client.greet();
  // @ts-expect-error: and here
  await client.$invoke("greet");
  // @ts-expect-error: there is no such field
  await client.greet({ name: "Ada", quiet: true });
  // @ts-expect-error: there is no such action
  await client.$invoke("great", { name: "Ada" });
  // @ts-expect-error: who is calling is not the caller's to say
  await client.greet({ name: "Ada" }, { user: "ada" });
  // @ts-expect-error: a client is no promise
  client.then;
  for await (const event of client.$stream("buoys", { count: 1 })) {
    if (event.type === "chunk") is<Same<typeof event.data, string>>();
    if (event.type === "delta") is<Same<typeof event.data, string>>();
    if (event.type === "activity") is<Same<typeof event.title, string>>();
    if (event.type === "result") is<Same<typeof event.envelope, Envelope<Array<string>>>>();
  }
}

const shapes: Actions["shapes"]["input"] = {
  pair: [1, "a"],
  counts: { any: 1 },
  either: null,
  one: true,
  odd: { "odd-key": 1 },
  tree: { label: "root", children: [{ label: "leaf" }] },
};

export const wrong: Actions["shapes"]["input"] = {
  // @ts-expect-error: the second is a text
  pair: [1, 2],
  // @ts-expect-error: these are numbers
  counts: { any: "1" },
  either: ["x"],
  // @ts-expect-error: not one of them
  one: "three",
  odd: { "odd-key": 1, class: "c" },
};

export const names: ActionName = "add_boat";
export const options: InvokeOptions = { retry: { retries: 1 }, signal: AbortSignal.timeout(5) };

export function Component(): string {
  const hook = useAction(client, "add_boat");
  is<Same<typeof hook.data, Actions["add_boat"]["output"] | null>>();
  void hook.invoke({ boat: { name: "Elida", kind: "sail" } });
  // @ts-expect-error: there is no such kind of boat
  void hook.invoke({ boat: { name: "Elida", kind: "raft" } });
  return hook.data?.name ?? hook.status;
}
