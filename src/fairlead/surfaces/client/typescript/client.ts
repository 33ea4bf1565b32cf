
// What follows is the same in every client: it knows HTTP and envelopes, and no action.

/** A code of a failure; an action may have others of its own. */
export type ErrorCode = KnownCode | (string & {});

/** One thing wrong with a value: where, by which rule, and what would have been right. */
export interface Issue {
  path: Array<string | number>;
  code: string;
  message: string;
  expected?: string;
  received?: string;
}

/** What went wrong, as an envelope tells it. `retryAfter` is in seconds. */
export interface ErrorBody {
  code: ErrorCode;
  message: string;
  issues: Array<Issue>;
  retryable: boolean;
  field?: string;
  expected?: string;
  details?: { [key: string]: unknown };
  retryAfter?: number;
  origin?: { family: string; code: string; kind?: string };
}

export interface Artifact {
  id: string;
  type: string;
  name?: string;
  mimeType?: string;
  uri?: string;
  sizeBytes?: number;
  metadata: { [key: string]: unknown };
}

export interface LogEntry {
  level: "debug" | "info" | "warn" | "error";
  message: string;
  time: string;
  fields: { [key: string]: unknown };
}

export interface Meta {
  action?: string;
  invocationId?: string;
  surface?: string;
  durationMs?: number;
  idempotent?: "replayed";
  warnings?: Array<string>;
  chunks?: number;
}

export interface Success<Data> {
  ok: true;
  data: Data;
  artifacts: Array<Artifact>;
  logs: Array<LogEntry>;
  meta: Meta;
}

export interface Refusal {
  ok: false;
  error: ErrorBody;
  artifacts: Array<Artifact>;
  logs: Array<LogEntry>;
  meta: Meta;
}

/** How a call ended. */
export type Envelope<Data> = Success<Data> | Refusal;

export type LogEvent = { type: "log" } & LogEntry;
export interface ArtifactEvent {
  type: "artifact";
  artifact: Artifact;
}
export interface ProgressEvent {
  type: "progress";
  message: string | null;
  percent: number | null;
  fields: { [key: string]: unknown };
  time: string;
}
/** One item of an action that yields them; a streamed result then leaves its data out. */
export interface ChunkEvent<Item> {
  type: "chunk";
  data: Item;
}
/** A piece of the text that an agent is writing. */
export interface DeltaEvent {
  type: "delta";
  data: string;
}
/** Something that an agent does: `kind` says what, and so what is in `data`. */
export interface ActivityEvent {
  type: "activity";
  kind: ActivityKind;
  title: string;
  detail: string | null;
  data: { [key: string]: unknown };
  time: string;
}
export type ActivityKind =
  | "tool_call"
  | "tool_progress"
  | "tool_result"
  | "thinking"
  | "info"
  | "warning"
  | "approval"
  | "clarification"
  | "todo"
  | "usage"
  | (string & {});
/** The last event of every stream. */
export interface ResultEvent<Data> {
  type: "result";
  envelope: Envelope<Data>;
}
export type StreamEvent<Data> =
  | LogEvent
  | ArtifactEvent
  | ProgressEvent
  | ChunkEvent<Data extends Array<infer Item> ? Item : unknown>
  | DeltaEvent
  | ActivityEvent
  | ResultEvent<Data>;

/** How often a call is sent again where its failure says that may help. Pauses double, up to the longest. */
export interface RetryOptions {
  retries?: number;
  delayMs?: number;
  maxDelayMs?: number;
}

/** What can be said about a call besides its input. */
export interface InvokeOptions {
  /** Cancels the call, here and on the server. */
  signal?: AbortSignal;
  confirm?: boolean | string;
  metadata?: { [key: string]: unknown };
  /** Makes repeating a write harmless. With retries on, every call has one. */
  idempotencyKey?: string;
  /** For one attempt: the server is told, and the wait ends soon after. */
  timeoutMs?: number;
  /** For the whole call, with its retries and the pauses between them. */
  deadlineMs?: number;
  retry?: boolean | number | RetryOptions;
  /** For a transport of your own: what kind of caller this is. A server decides that by itself. */
  surface?: string;
  raw?: false;
}

/** The same, for the whole envelope instead of its data. */
export type RawInvokeOptions = Omit<InvokeOptions, "raw"> & { raw: true };

/** A stream gives events, the envelope in the last of them. */
export type StreamOptions = Omit<InvokeOptions, "raw">;

/** Input may be left out where nothing in it is required. */
export type Arguments<Input, Options> = {} extends Input
  ? [input?: Input, options?: Options]
  : [input: Input, options?: Options];

/** What a transport sees of a call's options. */
export type TransportOptions = Omit<InvokeOptions, "raw" | "retry" | "deadlineMs">;

/** Carries calls. `input` is undefined where none was given; null is an input like any other. */
export interface Transport {
  invoke(action: string, input: unknown, options: TransportOptions): Promise<Envelope<unknown>>;
  stream(action: string, input: unknown, options: TransportOptions): AsyncIterable<StreamEvent<unknown>>;
}

export interface ClientOptions {
  /** Where the server is; the page's own origin unless given. */
  url?: string;
  /** Where its routes are: `/fairlead` unless given. */
  basePath?: string;
  /** Sent with every request; a function is asked each time. */
  headers?: { [name: string]: string } | (() => { [name: string]: string } | Promise<{ [name: string]: string }>);
  /** Sent as a bearer token. */
  apiKey?: string;
  fetch?: typeof fetch;
  retry?: boolean | number | RetryOptions;
  timeoutMs?: number;
  /** Instead of all the above: carries the calls itself. */
  transport?: Transport;
}

/** What a call throws. */
export class ClientError extends Error {
  readonly code: ErrorCode;
  readonly issues: Array<Issue>;
  /** Whether the same call, sent again, may succeed. */
  readonly retryable: boolean;
  /** Seconds after which to try again, where the server said so. */
  readonly retryAfter: number | undefined;
  /** The answer, where there was one. */
  readonly envelope: Refusal | undefined;

  constructor(code: ErrorCode, message: string, more: ErrorDetails = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.name = "ClientError";
    this.code = code;
    this.issues = more.issues ?? [];
    this.retryable = more.retryable ?? false;
    this.retryAfter = more.retryAfter;
    this.envelope = more.envelope;
  }

  static of(envelope: Refusal): ClientError {
    const { code, message, issues, retryable, retryAfter } = readError(envelope.error);
    return new ClientError(code, message, {
      issues,
      retryable,
      envelope,
      ...(retryAfter === undefined ? {} : { retryAfter }),
    });
  }
}

export interface ErrorDetails {
  issues?: Array<Issue>;
  retryable?: boolean;
  retryAfter?: number;
  envelope?: Refusal;
  cause?: unknown;
}

/** No connection was made: nothing was sent, and sending it again repeats nothing. */
class Unreachable extends ClientError {}

function readError(sent: unknown): ErrorBody {
  const error = isObject(sent) ? sent : {};
  return {
    ...error,
    code: typeof error["code"] === "string" ? error["code"] : "EXTERNAL_SERVICE_ERROR",
    message: typeof error["message"] === "string" ? error["message"] : "The call failed.",
    issues: Array.isArray(error["issues"]) ? (error["issues"] as Array<Issue>) : [],
    retryable: error["retryable"] === true,
  };
}

/** How much longer than its time-out a call is waited for: its server says better what became of it. */
const GRACE_MS = 1000;
const USUAL_RETRY: Required<RetryOptions> = { retries: 2, delayMs: 200, maxDelayMs: 10_000 };
/** Characters that one event may have: the result of a call comes as one. */
const LARGEST_EVENT = 64 * 1024 * 1024;

class HttpTransport implements Transport {
  readonly #place: string;
  readonly #fetch: typeof fetch;
  readonly #headers: () => Promise<{ [name: string]: string }>;

  constructor(options: ClientOptions) {
    const { url, basePath = "/fairlead", headers, apiKey } = options;
    if (url === undefined && typeof globalThis.location === "undefined") {
      throw new TypeError("createClient: there is no page whose server to call. Give its url.");
    }
    this.#place = [(url ?? "").replace(/\/+$/, ""), basePath.replace(/^\/+|\/+$/g, ""), "actions"]
      .filter((part, index) => index === 0 || part !== "")
      .join("/");
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
    this.#headers = async () => ({
      "content-type": "application/json",
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...(typeof headers === "function" ? await headers() : headers),
    });
  }

  async invoke(action: string, input: unknown, options: TransportOptions): Promise<Envelope<unknown>> {
    const wait = new Wait(options);
    try {
      const response = await this.#send(action, "invoke", "application/json", input, options, wait);
      return await this.#envelope(response, wait);
    } finally {
      wait.end();
    }
  }

  async *stream(
    action: string,
    input: unknown,
    options: TransportOptions,
  ): AsyncGenerator<StreamEvent<unknown>, void, undefined> {
    const wait = new Wait(options);
    let body: ReadableStreamDefaultReader<Uint8Array> | undefined;
    try {
      const response = await this.#send(action, "stream", "text/event-stream", input, options, wait);
      if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream") || response.body === null) {
        yield { type: "result", envelope: await this.#envelope(response, wait) };
        return;
      }
      body = response.body.getReader();
      const decoder = new TextDecoder();
      const reader = new EventReader();
      for (;;) {
        const { done, value } = await wait.for(body.read());
        if (done) throw new ClientError("TRANSPORT_ERROR", "The stream ended before its result came.", RETRYABLE);
        for (const message of reader.feed(decoder.decode(value, { stream: true }))) {
          const event = readEvent(message.data);
          yield event;
          if (event.type !== "result") continue;
          // A connection that was read to its end can be used again.
          await Promise.race([body.read().catch(() => undefined), slept(GRACE_MS, options.signal)]);
          return;
        }
      }
    } finally {
      wait.end();
      // The rest is not wanted: closing the connection is how the server hears of it.
      await body?.cancel().catch(() => undefined);
      wait.abort();
    }
  }

  async #send(
    action: string,
    verb: "invoke" | "stream",
    accept: string,
    input: unknown,
    options: TransportOptions,
    wait: Wait,
  ): Promise<Response> {
    refuseIdentity(options);
    const { confirm, metadata, idempotencyKey, timeoutMs } = options;
    // A header takes fewer characters than a body.
    const fits = /^[!-~]([ -~]*[!-~])?$/.test(idempotencyKey ?? "");
    const body = JSON.stringify({ input, confirm, metadata, idempotencyKey, timeoutMs });
    const headers: Record<string, string> = { ...(await this.#headers()), accept };
    if (fits) headers["idempotency-key"] = idempotencyKey ?? "";
    const place = `${this.#place}/${encodeURIComponent(action)}/${verb}`;
    // Another place is not followed to: the credentials are for this one, and `headers` may hold some.
    const redirect = "manual";
    return await wait.for(this.#fetch(place, { method: "POST", headers, body, redirect, signal: wait.signal }));
  }

  async #envelope(response: Response, wait: Wait): Promise<Envelope<unknown>> {
    const text = await wait.for(response.text());
    let sent: unknown;
    try {
      sent = JSON.parse(text);
    } catch (cause) {
      const found = `The server answered ${response.status} with something that is not an envelope.`;
      throw new ClientError("INVALID_RESPONSE", `${found} Check the URL and the base path.`, { ...RETRYABLE, cause });
    }
    const envelope = readEnvelope(sent);
    const after = Number(response.headers.get("retry-after") ?? NaN);
    if (!envelope.ok && envelope.error.retryAfter === undefined && after >= 0) {
      return { ...envelope, error: { ...envelope.error, retryAfter: after } };
    }
    return envelope;
  }
}

const RETRYABLE: ErrorDetails = { retryable: true };

/** One call's patience: aborted by the caller's signal and by its time-out, and told which it was. */
class Wait {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  /** Counted only while it is waited: a slow listener costs nothing. */
  #leftMs: number;
  #late = false;

  constructor(options: TransportOptions) {
    this.#caller = options.signal;
    this.#leftMs = options.timeoutMs === undefined ? Infinity : options.timeoutMs + GRACE_MS;
    if (options.signal?.aborted) this.#controller.abort(options.signal.reason);
    options.signal?.addEventListener("abort", this.abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly abort = (): void => this.#controller.abort(this.#caller?.reason);

  end(): void {
    this.#caller?.removeEventListener("abort", this.abort);
  }

  /** What is waited for, its failure in our words. */
  async for<T>(work: Promise<T>): Promise<T> {
    const began = Date.now();
    const timer = this.#leftMs === Infinity ? undefined : later(this.#expire, this.#leftMs);
    try {
      return await work;
    } catch (cause) {
      throw this.#told(cause);
    } finally {
      clearTimeout(timer);
      this.#leftMs -= Date.now() - began;
    }
  }

  readonly #expire = (): void => {
    this.#late = true;
    this.#controller.abort();
  };

  #told(cause: unknown): ClientError {
    if (cause instanceof ClientError) return cause;
    if (this.#late) return new ClientError("TIMEOUT", "No answer came in time.", { ...RETRYABLE, cause });
    if (this.#caller?.aborted) return new ClientError("CANCELLED", "The call was cancelled.", { cause });
    const told = "The server could not be reached, or the connection broke.";
    return new (neverSent(cause) ? Unreachable : ClientError)("TRANSPORT_ERROR", told, { ...RETRYABLE, cause });
  }
}

/** Node says why; a browser does not, and then it may have been sent. */
function neverSent(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = isObject(cause) ? cause["code"] : undefined;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(String(code));
}

function refuseIdentity(options: object): void {
  const given = options as { user?: unknown; auth?: unknown };
  if (given.user === undefined && given.auth === undefined) return;
  const told = "A remote call cannot carry the caller's identity; let the server find it from the credentials.";
  throw new ClientError("UNTRUSTED_REMOTE_IDENTITY", told);
}

function isObject(value: unknown): value is { [key: string]: unknown } {
  return typeof value === "object" && value !== null;
}

function readEnvelope(sent: unknown): Envelope<unknown> {
  if (!isObject(sent) || typeof sent["ok"] !== "boolean") {
    const told = "The answer is JSON, but not an envelope: it has no boolean 'ok'.";
    throw new ClientError("INVALID_RESPONSE", told, RETRYABLE);
  }
  const told = { artifacts: [], logs: [], meta: {}, ...sent };
  return (sent["ok"] ? told : { ...told, error: readError(sent["error"]) }) as unknown as Envelope<unknown>;
}

function readEvent(data: string): StreamEvent<unknown> {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch (cause) {
    throw new ClientError("INVALID_RESPONSE", "An event of the stream is not JSON.", { ...RETRYABLE, cause });
  }
  if (!isObject(event) || typeof event["type"] !== "string") {
    throw new ClientError("INVALID_RESPONSE", "An event of the stream has no type.", RETRYABLE);
  }
  if (event["type"] === "result") return { type: "result", envelope: readEnvelope(event["envelope"]) };
  return event as unknown as StreamEvent<unknown>;
}

/** Reads server-sent events, in whatever pieces they arrive. */
export class EventReader {
  #line = "";
  #afterReturn = false;
  #type = "";
  #id = "";
  #data: Array<string> = [];
  #size = 0;

  feed(text: string): Array<{ type: string; data: string; id: string }> {
    const messages: Array<{ type: string; data: string; id: string }> = [];
    if (text === "") return messages;
    const piece = this.#afterReturn && text.startsWith("\n") ? text.slice(1) : text;
    this.#afterReturn = piece.endsWith("\r");
    const lines = piece.split(/\r\n|\n|\r/);
    const begun = lines.pop() ?? "";
    for (const line of lines) {
      this.#hold(line);
      const whole = this.#line;
      this.#line = "";
      if (whole !== "") this.#field(whole);
      else this.#dispatch(messages);
    }
    this.#hold(begun);
    return messages;
  }

  #hold(text: string): void {
    this.#line += text;
    if (this.#line.length + this.#size <= LARGEST_EVENT) return;
    const told = `One event of the stream is longer than ${LARGEST_EVENT} characters.`;
    throw new ClientError("INVALID_RESPONSE", told, RETRYABLE);
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      this.#data.push(value);
      this.#size += value.length + 1;
    } else if (name === "event") this.#type = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #dispatch(messages: Array<{ type: string; data: string; id: string }>): void {
    if (this.#data.length > 0) {
      messages.push({ type: this.#type || "message", data: this.#data.join("\n"), id: this.#id });
    }
    this.#data = [];
    this.#size = 0;
    this.#type = "";
  }
}

/** The attempts of one call, within its deadline. */
class Attempts {
  readonly #retry: Required<RetryOptions>;
  readonly #end: number;
  readonly #signal: AbortSignal | undefined;
  #made = 0;

  constructor(options: InvokeOptions, usual: InvokeOptions["retry"]) {
    this.#retry = retryOptions(options.retry ?? usual ?? true);
    this.#end = Date.now() + (options.deadlineMs ?? Infinity);
    this.#signal = options.signal;
  }

  get any(): boolean {
    return this.#retry.retries > 0;
  }

  /** The time-out of the next attempt. */
  timeoutMs(given: number | undefined): { timeoutMs?: number } {
    const least = Math.min(given ?? Infinity, Math.max(this.#end - Date.now(), 1));
    return least === Infinity ? {} : { timeoutMs: least };
  }

  /** Whether to send the call again; it is time to when this resolves. */
  async again(error: { retryable: boolean; retryAfter?: number | undefined } | undefined): Promise<boolean> {
    this.#made += 1;
    if (error === undefined || !error.retryable || this.#made > this.#retry.retries) return false;
    const { delayMs, maxDelayMs } = this.#retry;
    const asked = (error.retryAfter ?? 0) * 1000;
    // Whoever asks for a longer wait than the longest pause is not worth holding the caller for.
    if (asked > maxDelayMs) return false;
    const pause = Math.max(Math.random() * Math.min(delayMs * 2 ** (this.#made - 1), maxDelayMs), asked);
    if (Date.now() + pause >= this.#end) return false;
    await slept(pause, this.#signal);
    if (this.#signal?.aborted) throw new ClientError("CANCELLED", "The call was cancelled.");
    return true;
  }
}

function retryOptions(given: boolean | number | RetryOptions): Required<RetryOptions> {
  if (typeof given === "boolean") return given ? USUAL_RETRY : { ...USUAL_RETRY, retries: 0 };
  return { ...USUAL_RETRY, ...(typeof given === "number" ? { retries: given } : given) };
}

/** What a timer can count to, 24 days: one that is set to more rings at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function later(ring: () => void, pauseMs: number): ReturnType<typeof setTimeout> {
  return setTimeout(ring, Math.min(pauseMs, LONGEST_TIMER_MS));
}

/** Returns after a while, or when the signal is aborted. */
function slept(pauseMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = later(done, pauseMs);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}

/** Pages without TLS have no randomUUID. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A client whose actions are methods: each gives the data of its action, or throws a ClientError. */
export function createClient(options: ClientOptions = {}): __Client__ {
  const { transport: given, url, retry, timeoutMs } = options;
  if (given !== undefined && url !== undefined) {
    throw new TypeError("createClient: give a url or a transport, not both.");
  }
  const transport = given ?? new HttpTransport(options);
  // What carries calls itself knows best when to try again.
  const usual = retry ?? given === undefined;

  async function invoke(
    name: string,
    input?: unknown,
    said: InvokeOptions | RawInvokeOptions = {},
  ): Promise<unknown> {
    const { raw, retry: again, deadlineMs, ...sent } = { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...said };
    const attempts = new Attempts(said as InvokeOptions, usual);
    // One key for all attempts, so that a write whose reply was lost is not done twice.
    if (attempts.any) sent.idempotencyKey ??= newKey();
    for (;;) {
      try {
        const envelope = await transport.invoke(name, input, { ...sent, ...attempts.timeoutMs(sent.timeoutMs) });
        if (await attempts.again(envelope.ok ? undefined : envelope.error)) continue;
        if (raw) return envelope;
        if (!envelope.ok) throw ClientError.of(envelope);
        return envelope.data;
      } catch (error) {
        if (!(error instanceof Unreachable) || !(await attempts.again(error))) throw error;
      }
    }
  }

  async function* stream(
    name: string,
    input?: unknown,
    said: StreamOptions = {},
  ): AsyncGenerator<StreamEvent<unknown>, void, undefined> {
    const { retry: again, deadlineMs, ...sent } = { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...said };
    const attempts = new Attempts(said, usual);
    for (;;) {
      try {
        return yield* transport.stream(name, input, { ...sent, ...attempts.timeoutMs(sent.timeoutMs) });
      } catch (error) {
        if (!(error instanceof Unreachable) || !(await attempts.again(error))) throw error;
      }
    }
  }

  const methods = ACTION_NAMES.filter((name) => (name as string) !== "then").map((name) => [
    name,
    (input?: unknown, said?: InvokeOptions | RawInvokeOptions) => invoke(name, input, said),
  ]);
  const client: unknown = { ...Object.fromEntries(methods), $invoke: invoke, $stream: stream, $transport: transport };
  return client as __Client__;
}
