"""`Context`: what an action may know and say during one call. The same object serves all attempts of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from math import isfinite
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fairlead._json import encode, loads, packed
from fairlead.actions import Action
from fairlead.actions.binding import Injected
from fairlead.actions.policy import near_miss
from fairlead.actions.surfaces import IN_PROCESS, is_local
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.failures.redaction import Redactor
from fairlead.runtime.durable import CURRENT, Durable
from fairlead.runtime.events import READY, Channel, Event
from fairlead.runtime.identity import caller_of
from fairlead.runtime.signal import Signal
from fairlead.schema import NotJsonable, jsonable

if TYPE_CHECKING:
    from fairlead.runtime.runtime import Runtime

#: The newest log entries an envelope carries; a stream carries them all.
MAX_LOGS = 10_000
#: How deep actions may call each other.
MOST_DEEP = 100
_DEPTH: ContextVar[int] = ContextVar("fairlead_depth", default=0)
#: Old ones go in batches.
_MOST_NOTES = 2 * MAX_LOGS
_INT64 = 2**63
#: What cannot change.
_LASTING = frozenset({str, int, float, bool, type(None)})
_PLAIN = frozenset({str, bool, type(None)})


#: Something an action said: level, message, percent, fields, time. Without a level it is a progress report.
#: Words are redacted and times are spelled when somebody looks, which is rare. Fields that could change until
#: then are redacted at once, and kept as JSON. No fields are None: what holds no dict is no work for the collector.
Note = tuple[str | None, str | None, float | None, dict[str, Any] | bytes | None, float]


#: A call's result as it is kept in memory: data and artifacts as JSON, what was said, and who redacts that.
Record = tuple[bytes, bytes, Sequence[Note], "Runtime"]


class Services(dict[str, Any]):
    """Shared services, as `services["db"]` or `services.db`, whatever they are called."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return dict.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(sorted(self)) or "none"
        hint = near_miss(name, self)
        raise Failure(Kind.misconfigured, f"No service is named {name!r}.{hint} Known services: {known}.")

    def __missing__(self, name: Any) -> Any:
        return self.__getattr__(str(name))


class Context(Injected):
    """The call as its action sees it."""

    # Most calls use few of these: what is not set on the way keeps its default here.
    surface = IN_PROCESS
    user: Any = None
    auth: Any = None
    metadata: Mapping[str, Any] = MappingProxyType({})
    idempotency_key: str | None = None
    attempt = 1
    chunks = 0
    #: Whether this call gives the kept result of an earlier one.
    replayed = False
    input: Any = None
    warnings: list[str] = []  # noqa: RUF012  # replaced, never changed in place
    #: What the action adds to the envelope's `meta`, by name. It is told redacted.
    told_meta: Mapping[str, Any] = MappingProxyType({})
    _artifacts: list[dict[str, Any]] | None = None
    _caller: str | None = None
    _env: str | None = None
    _id: str | None = None
    #: The loop of sync functions, which do not run on its thread.
    _loop: asyncio.AbstractEventLoop | None = None
    _services: Services | None = None
    _signal: Signal | None = None
    #: Where a sync function runs.
    _thread: Future[Any] | None = None

    # Set on each, by the runtime, which makes it: without an `__init__`, that takes half as long.
    _runtime: Runtime
    action: Action[..., Any]
    started: float
    # What is looked at for each event is found sooner there than on the class, so it is set, too.
    _channel: Channel | None
    _closed: bool
    #: The thread of the loop where the function runs on another; 0 where all is on one.
    _loop_thread: int
    _notes: list[Note] | None

    @property
    def invocation_id(self) -> str:
        if self._id is None:
            self._id = self._runtime.new_id()
        return self._id

    @property
    def env(self) -> str:
        return self._env or self._runtime.env

    @property
    def services(self) -> Services:
        return self._runtime._lifespan.values if self._services is None else self._services

    @property
    def runtime(self) -> Runtime:
        """Who carries this call."""
        return self._runtime

    @property
    def signal(self) -> Signal:
        """This attempt's cancellation token."""
        if self._signal is None:
            self._signal = Signal()
        return self._signal

    @property
    def caller(self) -> str:
        """Who is calling, as one stable text; empty when nobody said."""
        caller = self._caller
        if caller is None:
            caller = self._caller = caller_of(self.user, self.auth)
        return caller

    @property
    def by_operator(self) -> bool:
        """Whether who runs the program calls: on a surface of theirs, or in process for nobody else."""
        if self.surface == IN_PROCESS:
            return self.user is None and self.auth is None
        return is_local(self.surface)

    @property
    def task(self) -> Durable | None:
        """The task that this call is run for, if it is."""
        return CURRENT.get()

    def checkpoint(self, state: Any) -> Awaitable[None]:
        """Keep where this call is, so that a later run of its task can go on there: `ctx.task.state`.

        Outside a task there is no later run, and nothing is kept.
        """
        run = CURRENT.get()
        return READY if run is None else run.checkpoint(state)

    @property
    def logger(self) -> Logger:
        logger = Logger()
        logger._context = self
        return logger

    @property
    def progress(self) -> Progress:
        return Progress(self)

    @property
    def artifacts(self) -> Artifacts:
        return Artifacts(self)

    async def invoke(self, action: str | Action[..., Any], *input: Any, **options: Any) -> Any:
        """Call another action with this call's identity and services; gives its data or raises its failure."""
        inherited = {"user": self.user, "auth": self.auth, "env": self.env, "services": self.services}
        inherited |= {"metadata": self.metadata, "surface": "unknown", "signal": self.signal}
        # Each call is a task of its own, so that no stack of Python's ends one that goes round in a circle.
        depth = _DEPTH.get()
        if depth >= MOST_DEEP:
            raise Failure(
                Kind.internal,
                f"Actions call each other more than {MOST_DEEP} deep: do they go round in a circle?",
            )
        _DEPTH.set(depth + 1)
        try:
            result = await self._runtime.invoke(action, *input, **(inherited | options))
        finally:
            _DEPTH.set(depth)
        return result.unwrap()

    def invoke_sync(self, action: str | Action[..., Any], *input: Any, **options: Any) -> Any:
        """`invoke` for sync functions: the call runs on the event loop while this thread waits."""
        if self._loop is None or get_ident() == self._loop_thread:
            raise Failure(
                Kind.internal, "ctx.invoke_sync is for sync functions: use `await ctx.invoke(...)` here."
            )
        self.signal.check()
        call = asyncio.run_coroutine_threadsafe(self.invoke(action, *input, **options), self._loop)
        unsubscribe = self.signal.subscribe(call.cancel)
        # A thread that waits for another does not count, or a full pool would wait for itself.
        self._runtime.workers.lend()
        try:
            return call.result()
        except CancelledError:
            self.signal.check()
            raise
        finally:
            self._runtime.workers.reclaim()
            unsubscribe()

    def say(
        self, level: str | None, text: str | None, percent: float | None, fields: dict[str, Any]
    ) -> Awaitable[None]:
        """Record a log entry or a progress report, and pass it to whoever is streaming. The fields are now ours."""
        on_worker = self._loop_thread and get_ident() != self._loop_thread
        if on_worker:
            # Sync code of a cancelled call stops where it next says something.
            self.signal.check()
        if self._closed:
            return READY
        runtime = self._runtime
        if type(text) is not str and text is not None:
            text = str(text)
        kept: dict[str, Any] | bytes | None = None
        if fields:
            # They are kept as they are now, whatever becomes of them.
            kept = fields
            for value in fields.values():
                if type(value) not in _LASTING or not runtime.plainly_redacted:
                    kept = packed(encode(shown(fields, runtime.redactor)))
                    break
        wall = runtime.wall
        note = (level, text, percent, kept, wall())
        notes = self._notes
        if notes is None:
            self._notes = [note]
        else:
            notes.append(note)
            if len(notes) >= _MOST_NOTES:
                del notes[:MAX_LOGS]
        channel = self._channel
        if channel is None:
            return READY
        event = _event(note, runtime)
        return channel.put_blocking(event) if on_worker else channel.put(event)

    def announce(self, artifact: dict[str, Any]) -> None:
        on_worker = self._loop_thread != 0 and get_ident() != self._loop_thread
        if on_worker:
            self.signal.check()
        if self._closed:
            return
        if self._artifacts is None:
            self._artifacts = []
        self._artifacts.append(artifact)
        if self._channel is not None:
            event = {"type": "artifact", "artifact": loads(encode(artifact))}
            self._channel.put_blocking(event) if on_worker else self._channel.put(event)

    def warn(self, text: str) -> None:
        """Tell the caller, beside the result, what they should know of it."""
        self.warnings = [*self.warnings, self._runtime.redactor.text(str(text))]

    def activity(self, kind: str, title: str, detail: str | None = None, **data: Any) -> Awaitable[None]:
        """Tell those who stream what is being done: a tool called, a question asked. It is not kept."""
        return self.emit("activity", kind=kind, title=title, detail=detail, data=data)

    def delta(self, text: str) -> Awaitable[None]:
        """Pass a piece of a text on that is being written, to those who stream."""
        channel = self._channel
        if channel is None or self._closed:
            return READY
        return channel.put({"type": "delta", "data": self._runtime.redactor.text(text)})

    @property
    def heard(self) -> bool:
        """Whether somebody streams this call, and so hears what is told on the way."""
        return self._channel is not None

    def emit(self, type: str, **told: Any) -> Awaitable[None]:
        """Pass an event on to those who stream, redacted."""
        channel = self._channel
        if channel is None or self._closed:
            return READY
        runtime = self._runtime
        event = {"type": type, **shown(told, runtime.redactor), "time": runtime.clock.stamp(runtime.wall())}
        on_worker = self._loop_thread != 0 and get_ident() != self._loop_thread
        return channel.put_blocking(event) if on_worker else channel.put(event)

    @property
    def notes(self) -> Sequence[Note]:
        """What was said, the newest of it if it was very much."""
        return () if self._notes is None else self._notes[-MAX_LOGS:]

    def told(self) -> list[dict[str, Any]]:
        """What was said, as the envelope lists it."""
        return [_entry(note, self._runtime) for note in self.notes]

    def replay(self, kept: Record | bytes) -> Any:
        """Take over what an earlier call with the same key said and made; gives its data, or raises its failure."""
        told = loads(kept if isinstance(kept, bytes) else spelled(kept))
        if isinstance(told, dict):
            raise wire.parse(told["error"])
        data, artifacts, notes = told
        self.replayed = True
        self._notes = [
            (level, text, percent, encode(fields), time) for level, text, percent, fields, time in notes
        ]
        self._artifacts = artifacts
        return data

    async def _tell_again(self, chunks: Any) -> None:
        """Pass on what an earlier call with the same key yielded; middleware may have made something else of it."""
        if not isinstance(chunks, list):
            return
        self.chunks = len(chunks)
        if self._channel is not None:
            for chunk in chunks:
                await self._channel.put({"type": "chunk", "data": chunk})


class Unasked(NamedTuple):
    """What a context is made of, for a call of which nobody has asked for it yet."""

    runtime: Runtime
    action: Action[..., Any]
    surface: str

    def context(self, id: str | None) -> Context:
        context = context_of(self.runtime, self.action, 0.0)
        context.surface = self.surface
        context._id = id
        return context


def context_of(runtime: Runtime, action: Action[..., Any], started: float) -> Context:
    """A context with what each one has."""
    context = Context()
    context._runtime = runtime
    context.action = action
    context.started = started
    context._channel = None
    context._closed = False
    context._loop_thread = 0
    context._notes = None
    return context


def spelled(record: Record) -> bytes:
    """A record as JSON, redacted: what a store elsewhere keeps."""
    data, artifacts, notes, runtime = record
    redact = runtime.redactor.text
    told = [
        (level, None if text is None else redact(text), percent, _fields(fields, runtime), time)
        for level, text, percent, fields, time in notes[-MAX_LOGS:]
    ]
    return b"[%b,%b,%b]" % (data, artifacts, encode(told))


def _fields(kept: dict[str, Any] | bytes | None, runtime: Runtime) -> dict[str, Any]:
    """A note's fields as somebody may see them, and change them."""
    if kept is None:
        return {}
    told: dict[str, Any] = loads(kept) if type(kept) is bytes else shown(kept, runtime.redactor)
    return told


def _event(note: Note, runtime: Runtime) -> Event:
    """A note as a stream tells it."""
    level, text, percent, kept, moment = note
    message = None if text is None else runtime.redactor.text(text)
    fields = {} if kept is None else _fields(kept, runtime)
    time = runtime.clock.stamp(moment)
    if level is None:
        return {"type": "progress", "message": message, "percent": percent, "fields": fields, "time": time}
    return {"type": "log", "level": level, "message": message, "time": time, "fields": fields}


def _entry(note: Note, runtime: Runtime) -> dict[str, Any]:
    """A note as an envelope lists it."""
    event = _event(note, runtime)
    if event.pop("type") == "log":
        return event
    fields = {"type": "progress", "percent": event["percent"], **event["fields"]}
    message = event["message"] or "Progress update."
    return {"level": "info", "message": message, "time": event["time"], "fields": fields}


class Logger:
    """`ctx.logger.info("message", count=3)`; awaiting the call waits for a slow listener."""

    __slots__ = ("_context",)

    _context: Context

    def debug(self, message: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> Awaitable[None]:
        return self._context.say("debug", message, None, {**fields, **more} if fields else more)

    def info(self, message: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> Awaitable[None]:
        return self._context.say("info", message, None, {**fields, **more} if fields else more)

    def warn(self, message: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> Awaitable[None]:
        return self._context.say("warn", message, None, {**fields, **more} if fields else more)

    def error(self, message: str, fields: Mapping[str, Any] | None = None, /, **more: Any) -> Awaitable[None]:
        return self._context.say("error", message, None, {**fields, **more} if fields else more)

    warning = warn


class Progress:
    """`ctx.progress.report(message="Imported 3 of 10", percent=30)`."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def report(
        self,
        message: str | None = None,
        percent: float | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> Awaitable[None]:
        share = None if percent is None or not isfinite(percent) else float(percent)
        return self._context.say(None, message, share, {**fields} if fields else {})


class Artifacts:
    """`ctx.artifacts.add(name="report.csv", mime_type="text/csv", uri=...)`."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(
        self,
        name: str | None = None,
        *,
        uri: str | None = None,
        data: bytes | str | None = None,
        mime_type: str | None = None,
        size_bytes: int | None = None,
        type: str = "file",
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Announce something the call made; gives the record that callers will see.

        `data` carries the thing itself, when it is small, in place of a `uri` that leads to it.
        """
        context = self._context
        redactor = context._runtime.redactor
        record: dict[str, Any] = {
            "id": id or context._runtime.new_id(),
            "type": type,
            "name": name,
            "mimeType": mime_type,
        }
        if data is not None:
            data = data.encode() if isinstance(data, str) else data
            size_bytes = len(data)
        record |= {"uri": uri, "sizeBytes": None if size_bytes is None else int(size_bytes)}
        record = {key: shown(value, redactor) for key, value in record.items() if value is not None}
        if data is not None:
            record["uri"] = _data_uri(data, mime_type)
        record["metadata"] = shown(metadata, redactor) if metadata else {}
        context.announce(record)
        return record


def _data_uri(data: bytes, mime_type: str | None) -> str:
    from base64 import b64encode

    return f"data:{mime_type or 'application/octet-stream'};base64,{b64encode(data).decode()}"


def shown(value: Any, redactor: Redactor) -> Any:
    """A value as others may see it: redacted, and JSON all the way down."""
    if type(value) is dict and type(redactor) is Redactor and "value" not in value:
        # The common case in one pass: a few plain values under plain names, none of which names another.
        told: dict[str, Any] = {}
        for key, item in value.items():
            kind = type(item)
            if type(key) is not str or not (kind in _PLAIN or (kind is int and -_INT64 < item < _INT64)):
                break
            name, hidden = redactor.field(key)
            if kind in hidden:
                told[name] = redactor.placeholder
            else:
                told[name] = redactor.text(item) if kind is str else item
        else:
            return told
    hidden = redactor.value(value)
    try:
        return jsonable(hidden)
    except NotJsonable:
        return _plain(hidden)


def _plain(value: Any) -> Any:
    """What is not JSON is told by its type, never by its content."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    try:
        return jsonable(value)
    except NotJsonable:
        return f"<{type(value).__name__}>"
