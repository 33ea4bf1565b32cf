
// For React: the state of an action as its events change it, and the hook that keeps it.

export type ActionStatus = "idle" | "loading" | "success" | "error" | "cancelled";

/**
 * What a component shows of a call. `chunks` are the items of an action that yields them, as they come; `text` is
 * what an agent has written so far, and `activities` what it has done, where it has.
 */
export interface ActionState<Data> {
  status: ActionStatus;
  data: Data | null;
  error: ErrorBody | null;
  logs: Array<LogEvent>;
  artifacts: Array<Artifact>;
  chunks: Array<unknown>;
  progress: { percent: number | null; message: string | null } | null;
  text?: string;
  activities?: Array<ActivityEvent>;
}

export type ActionEvent<Data> = StreamEvent<Data> | { type: "start" } | { type: "cancel" };

export function initialActionState<Data = unknown>(): ActionState<Data> {
  return { status: "idle", data: null, error: null, logs: [], artifacts: [], chunks: [], progress: null };
}

/** The state after an event; the same object where the event changes nothing. */
export function reduceActionEvent<Data>(
  state: ActionState<Data>,
  event: ActionEvent<Data> | { type?: undefined } | null | undefined,
): ActionState<Data> {
  switch (event?.type) {
    case "start":
      return { ...initialActionState<Data>(), status: "loading" };
    case "log":
      return { ...state, logs: [...state.logs, event] };
    case "artifact":
      return { ...state, artifacts: [...state.artifacts, event.artifact] };
    case "chunk":
      return { ...state, chunks: [...state.chunks, event.data] };
    case "delta":
      return { ...state, text: (state.text ?? "") + event.data };
    case "activity":
      return { ...state, activities: [...(state.activities ?? []), event] };
    case "progress":
      return { ...state, progress: { percent: event.percent ?? null, message: event.message ?? null } };
    case "result":
      return reduceResult(state, event.envelope);
    case "cancel":
      return state.status === "loading" ? { ...state, status: "cancelled" } : state;
    default:
      return state;
  }
}

/** The state after the end of a call. */
export function reduceResult<Data>(
  state: ActionState<Data>,
  envelope: Envelope<Data> | { ok: false; error?: undefined },
): ActionState<Data> {
  if (envelope.ok) {
    // A streamed result leaves out what came in chunks.
    const data = envelope.data === null && state.chunks.length > 0 ? (state.chunks as Data) : envelope.data;
    return { ...state, status: "success", data, error: null };
  }
  const error = envelope.error ?? null;
  if (error?.code === "CANCELLED") return { ...state, status: "cancelled", error };
  return state.status === "cancelled" ? state : { ...state, status: "error", error };
}

type Call<Name extends ActionName> = Arguments<Actions[Name]["input"], StreamOptions>;

/** An action as a function that gives its envelope. */
export type Invoker<Name extends ActionName> = (...call: Call<Name>) => Promise<Envelope<Actions[Name]["output"]>>;

/** The action's state, and the ways to change it. */
export interface ActionHandle<Name extends ActionName> extends ActionState<Actions[Name]["output"]> {
  /** Calls the action; a call that still runs is cancelled. Never rejects. */
  invoke: Invoker<Name>;
  /** Stops the call that runs. */
  cancel: () => void;
  /** Stops the call that runs and forgets everything. */
  reset: () => void;
}

/** Calls an action from a component and follows what it says. Leaving the page cancels the call. */
export function useAction<Name extends ActionName>(client: __Client__, name: Name): ActionHandle<Name> {
  type Data = Actions[Name]["output"];
  const [state, setState] = useState<ActionState<Data>>(initialActionState<Data>);
  const running = useRef<{ number: number; controller: AbortController | null }>({ number: 0, controller: null });

  /** Stops what runs; whatever it still says is not heard. */
  const supersede = useCallback((): number => {
    running.current.controller?.abort();
    running.current.controller = null;
    running.current.number += 1;
    return running.current.number;
  }, []);

  const invoke = useCallback(
    async (...[input, options = {}]: Call<Name>): Promise<Envelope<Data>> => {
      const number = supersede();
      const controller = new AbortController();
      running.current.controller = controller;
      const tell = (event: ActionEvent<Data>): void => {
        if (running.current.number === number) setState((now) => reduceActionEvent(now, event));
      };
      const stop = (): void => controller.abort();
      options.signal?.addEventListener("abort", stop);
      if (options.signal?.aborted) stop();
      tell({ type: "start" });
      let envelope: Envelope<Data> | undefined;
      try {
        const chosen = { surface: REACT, ...options, signal: controller.signal };
        for await (const event of client.$stream(name, ...([input, chosen] as Call<Name>))) {
          if (event.type === "result") envelope = event.envelope;
          tell(event);
        }
      } catch (error) {
        envelope = failed(name, number, error);
        tell({ type: "result", envelope });
      } finally {
        options.signal?.removeEventListener("abort", stop);
      }
      const superseded = running.current.number !== number;
      return superseded || envelope === undefined ? cancelled(name, number) : envelope;
    },
    [client, name, supersede],
  );

  const cancel = useCallback((): void => {
    running.current.controller?.abort();
    setState((now) => reduceActionEvent(now, { type: "cancel" }));
  }, []);

  const reset = useCallback((): void => {
    supersede();
    setState(initialActionState<Data>());
  }, [supersede]);

  useEffect(() => () => void supersede(), [supersede]);

  return { ...state, invoke, cancel, reset };
}

const REACT = "react";

/** The envelope of a call that its component gave up. */
function cancelled(action: string, number: number): Refusal {
  return failed(action, number, new ClientError("CANCELLED", "The call was cancelled."));
}

function failed(action: string, number: number, error: unknown): Refusal {
  const meta = { action, invocationId: `react-${number}`, surface: REACT };
  if (error instanceof ClientError && error.envelope !== undefined) return error.envelope;
  const told =
    error instanceof ClientError
      ? { code: error.code, message: error.message, issues: error.issues, retryable: error.retryable }
      : { code: "INTERNAL_ERROR", message: "The client failed before it had an answer.", issues: [], retryable: false };
  return { ok: false, error: told, artifacts: [], logs: [], meta };
}

/** An action as a function that gives its envelope, for code outside of components. */
export function makeInvoker<Name extends ActionName>(
  name: Name,
  { client = createClient(), surface = REACT }: { client?: __Client__; surface?: string } = {},
): Invoker<Name> {
  return (...[input, options = {}]) =>
    client.$invoke(name, input as Actions[Name]["input"], { surface, ...options, raw: true });
}

/** An action's events, the result last. */
export function streamAction<Name extends ActionName>(
  client: __Client__,
  name: Name,
  ...[input, options = {}]: Call<Name>
): AsyncIterable<StreamEvent<Actions[Name]["output"]>> {
  return client.$stream(name, ...([input, { surface: REACT, ...options }] as Call<Name>));
}

/** One client for a tree of components. */
export function createReactActionAdapter({ client = createClient() }: { client?: __Client__ } = {}): {
  client: __Client__;
  useAction: <Name extends ActionName>(name: Name) => Invoker<Name>;
} {
  return { client, useAction: (name) => makeInvoker(name, { client }) };
}
