"""`Services`: what a plugin can ask of its host, each slot led to the part that answers it.

Arguments that are NULL, reserved slots, failures as JSON and the lines in Insights are the same for all slots, and are
seen to here. `services_for` makes the services of one plugin of an app.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from fairlead._json import dumps, loads
from fairlead.failures import Failure, from_exception
from fairlead.failures.host import (
    ContextUnavailable,
    HostTimeout,
    NotSupported,
    insights_status,
    parse,
    render,
)
from fairlead.plugins import slots
from fairlead.plugins.config import Config
from fairlead.plugins.database import Database
from fairlead.plugins.delivery import Delivery
from fairlead.plugins.files import Files
from fairlead.plugins.http import PER_MINUTE, Http
from fairlead.plugins.limits import Window
from fairlead.plugins.logs import ERROR, WARN, Insights
from fairlead.plugins.runner import Answer, Frame
from fairlead.plugins.warnings import Warned, Warnings
from fairlead.runtime.hooks import report

if TYPE_CHECKING:
    from fairlead.outgoing import Outgoing
    from fairlead.plugins.plugin import Plugin
    from fairlead.runtime import App
    from fairlead.store import Secrets

Args = tuple[str | None, ...]
Chunk = Callable[[str], Awaitable[None]]

#: Seconds that the host works on one call at most.
LONGEST: Final = 1800.0
#: Characters of an id that a line in Insights shows.
_SHOWN: Final = 100
_INFERENCE: Final = frozenset({slots.COMPLETE, slots.EMBED, slots.LIST_MODELS, slots.COMPLETE_CANCEL})
_DISPATCH: Final = frozenset(
    {
        slots.DISPATCH,
        slots.TASK_STATUS,
        slots.DISPATCH_CANCEL,
        slots.LIST_ACTIVE_TASKS,
        slots.SEND_DRAFT,
        slots.DISPATCH_INTERRUPT,
    }
)
_SQL: Final = frozenset({slots.DB_EXEC, slots.DB_QUERY})

#: How a call is written down, `{}` for its first argument; and the status of one that went well, or is reserved.
_ROWS: Final[dict[int, tuple[str, int]]] = {
    slots.DISPATCH: ("POST /host-api/dispatch", 202),
    slots.TASK_STATUS: ("GET /host-api/tasks/{}", 200),
    slots.DISPATCH_CANCEL: ("DELETE /host-api/tasks/{}", 200),
    slots.DISPATCH_CLARIFY: ("POST /host-api/tasks/{}/clarify", 410),
    slots.SEND_DRAFT: ("POST /host-api/tasks/{}/draft", 200),
    slots.DISPATCH_INTERRUPT: ("POST /host-api/tasks/{}/interrupt", 200),
    slots.DISPATCH_ADD_ISSUE: ("POST /host-api/tasks/{}/issues", 410),
    slots.LIST_ACTIVE_TASKS: ("GET /host-api/tasks", 200),
    slots.COMPLETE: ("POST /host-api/chat/completions", 200),
    slots.COMPLETE_STREAM: ("POST /host-api/chat/completions", 200),
    slots.EMBED: ("POST /host-api/embeddings", 200),
    slots.LIST_MODELS: ("GET /host-api/models", 200),
    slots.COMPLETE_CANCEL: ("DELETE /host-api/streams/{}", 204),
}


class Handler(Protocol):
    """Who answers some of the slots."""

    def call(self, slot: int, args: Args, frame: Frame) -> str | Awaitable[str | None] | None: ...


class Streaming(Handler, Protocol):
    """Who answers the slots of models."""

    def stream(self, request: str, frame: Frame, chunk: Chunk | None) -> Awaitable[str | None]: ...


class Services:
    """Answers one plugin. Called on the loop's thread; SQL may be run on any."""

    def __init__(
        self,
        plugin: str,
        *,
        config: Config,
        database: Database,
        insights: Insights,
        http: Http,
        files: Files,
        warnings: Warnings,
        inference: Streaming | None = None,
        dispatch: Handler | None = None,
    ) -> None:
        self.plugin = plugin
        self.config = config
        self.database = database
        self.insights = insights
        self.http = http
        self.files = files
        self.warnings = warnings
        self.inference = inference
        self.dispatch = dispatch

    def call(self, slot: int, args: Args, frame: Frame) -> Answer:
        """The answer of a slot: at once, awaitable, or from the plugin's SQL thread. A failure is JSON, too."""
        if _lacks(slot, args):
            return None
        first = args[0] if args else None
        if slot in _SQL:
            return self.database.submit(slot == slots.DB_QUERY, str(first), args[1])
        if slot in (slots.LOG, slots.LOG_STRUCTURED):
            self._log(args, frame)
            return None
        if slot == slots.CONFIG_GET:
            return self._quietly(slot, self.config.get(str(first), frame))
        if slot == slots.CONFIG_SET:
            return self._quietly(slot, self.config.set(str(first), str(args[1]), frame))
        if slot == slots.CONFIG_DELETE:
            return self._quietly(slot, self.config.delete(str(first), frame))
        if slot == slots.GET_ACTIVE_AGENT_ID:
            return frame.agent
        return self._told(slot, args, frame)

    def run(self, slot: int, args: Args, frame: Frame) -> str | None:
        """The answer to `db_exec` and `db_query` on this thread, whichever it is."""
        if _lacks(slot, args):
            return None
        do = self.database.query if slot == slots.DB_QUERY else self.database.exec
        return do(str(args[0]), args[1])

    def sql_waiting(self) -> bool:
        """Whether statements wait for the plugin's SQL thread."""
        return self.database.waiting

    def stream(self, request: str | None, frame: Frame, chunk: Chunk | None) -> Awaitable[str | None]:
        """The answer to `complete_stream`."""
        return self._streamed(request, frame, chunk)

    def abandoned(self) -> None:
        """The plugin's process is gone: what it left open is undone."""
        self.database.abandon()

    def fell(self, why: str, last_words: str) -> None:
        """The plugin's process broke; what it printed last is told, too."""
        said = dumps({"last_words": last_words}) if last_words else None
        self.insights.log(self.plugin, None, ERROR, f"The plugin fell: {why}", said)

    async def close(self) -> None:
        """Refuse SQL from now on, let go of the database and of connections, and write the last lines."""
        await self.http.close()
        await asyncio.to_thread(self.database.close)
        await asyncio.to_thread(self.insights.flush)

    def _log(self, args: Args, frame: Frame) -> None:
        level, message, *payload = args
        number = int(level) if level is not None and level.lstrip("-").isdigit() else -1
        self.insights.log(self.plugin, frame.agent, number, str(message), payload[0] if payload else None)

    async def _quietly(self, slot: int, asked: Awaitable[str | None]) -> str | None:
        """What has no JSON to fail with fails with nothing, and with a line in Insights."""
        try:
            return await asked
        except Failure as failure:
            entry = slots.SLOTS[slot]
            name = entry.name if entry is not None else str(slot)
            self.insights.log(self.plugin, None, ERROR, f"{name} failed: {failure.message}")
            return None

    async def _told(self, slot: int, args: Args, frame: Frame) -> str | None:
        what, status = self._row(slot, args)
        return await self._kept(slot, frame, what, status, self._answered(slot, args, frame))

    async def _streamed(self, request: str | None, frame: Frame, chunk: Chunk | None) -> str | None:
        if request is None:
            return None
        if chunk is None:
            words = "complete_stream was called without on_chunk: what it would be given is dropped."
            self.warnings.once(self.plugin, "complete_stream", "null_chunk", words)
        what, status = _ROWS[slots.COMPLETE_STREAM]
        return await self._kept(
            slots.COMPLETE_STREAM, frame, what, status, self._stream(request, frame, chunk)
        )

    async def _stream(self, request: str, frame: Frame, chunk: Chunk | None) -> str | None:
        if self.inference is None:
            raise _unavailable()
        return await self.inference.stream(request, frame, chunk)

    async def _kept(
        self, slot: int, frame: Frame, what: str, status: int, asked: Awaitable[str | None]
    ) -> str | None:
        """An answer, written down."""
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(LONGEST):
                answer = await asked
        except TimeoutError as error:
            answer = _rendered(HostTimeout(f"The host did not finish within {LONGEST:g} s.", cause=error))
        except Failure as failure:
            answer = _rendered(failure)
        except Exception as error:
            report(
                f"A call of the plugin {self.plugin!r} failed in an unexpected way.", self.insights.redactor
            )
            answer = _rendered(from_exception(error))
        code, entry = _error_in(answer), slots.SLOTS[slot]
        reserved = entry is not None and entry.reserved
        if code is not None and not reserved:
            status = insights_status(parse(answer))
        elif slot == slots.HTTP_REQUEST:
            status = loads(answer or "{}").get("status", status)
        took = (time.perf_counter() - begun) * 1000
        self.insights.call(self.plugin, frame.agent, what, status, answer if code else None, took)
        return answer if entry is not None and entry.gives == slots.JSON else None

    async def _answered(self, slot: int, args: Args, frame: Frame) -> str | None:
        first = str(args[0]) if args else ""
        if slot == slots.HTTP_REQUEST:
            return await self.http.request(first, frame)
        if slot == slots.FILE_READ:
            return await asyncio.to_thread(self.files.read, first)
        if slot == slots.DISPATCH_CLARIFY:
            return None
        if slot == slots.DISPATCH_ADD_ISSUE:
            raise NotSupported("dispatch_add_issue is reserved: there are no issues any more. Call dispatch.")
        handler = self.inference if slot in _INFERENCE else self.dispatch if slot in _DISPATCH else None
        if handler is None:
            raise _unavailable()
        answer = handler.call(slot, args, frame)
        return answer if answer is None or isinstance(answer, str) else await answer

    def _row(self, slot: int, args: Args) -> tuple[str, int]:
        first = str(args[0]) if args else ""
        if slot == slots.HTTP_REQUEST:
            asked = _object(first)
            method = str(asked.get("method", "?"))[:20].upper().replace(" ", "_")
            return f"{method} /host-api/http → {asked.get('url', '')}", 200
        if slot == slots.FILE_READ:
            return f"GET /host-api/file_read → {_object(first).get('path', '')}", 200
        words, status = _ROWS.get(slot, (f"POST /host-api/{slot}", 200))
        return words.format(first[:_SHOWN]), status


def _lacks(slot: int, args: Args) -> bool:
    """Whether an argument is NULL without which the slot does nothing."""
    entry = slots.SLOTS[slot]
    return entry is not None and None in args[: entry.required]


def _unavailable() -> Failure:
    return ContextUnavailable("The host has no app behind this call.")


def _rendered(failure: Failure) -> str:
    return dumps(render(failure), sort_keys=True)


def _error_in(answer: str | None) -> str | None:
    """The code of an answer that is an error."""
    # A text that is within another has its quotes escaped.
    if answer is None or '"error":"' not in answer:
        return None
    code = _object(answer).get("error")
    return code if isinstance(code, str) else None


def _object(text: str) -> dict[str, Any]:
    try:
        value = loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Shared:
    """What all plugins of an app have in common."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._secrets: Secrets | None = None
        self.insights = Insights(app.store, app.redactor, clock=app.wall)
        self.warnings = Warnings(self._warn)
        self.requests = Window(PER_MINUTE)
        #: Sends the requests of all plugins, where it is set: tests know other addresses.
        self.outgoing: Outgoing | None = None

    @classmethod
    def of(cls, app: App) -> Shared:
        """That of an app, made when it is first asked for."""
        found = _SHARED.get(app)
        if found is None:
            found = _SHARED[app] = cls(app)
        return found

    def secrets(self) -> Secrets:
        """What seals; the key is looked for when it is first needed."""
        from fairlead.store import Secrets

        self._secrets = self._secrets or Secrets(self._app.store)
        return self._secrets

    def _warn(self, warned: Warned) -> None:
        self.insights.log(warned.plugin, None, WARN, warned.text, dumps({"warning": warned.key}))


_SHARED: Final[WeakKeyDictionary[Any, Shared]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Hosting:
    """All that is there for one plugin."""

    services: Services
    delivery: Delivery
    dispatch: Any

    async def close(self) -> None:
        """After the plugin was destroyed: its database is closed."""
        await self.services.close()


def services_for(app: App, plugin: Plugin) -> Hosting:
    """What a plugin of an app can ask, and what tells it of its configuration."""
    from fairlead.outgoing import Outgoing
    from fairlead.plugins.joining import dispatches_of, inference_of
    from fairlead.store.opening import data_folder

    shared = Shared.of(app)

    def warn(operation: str, reason: str, text: str) -> None:
        shared.warnings.once(plugin.id, operation, reason, text)

    config = Config(plugin.id, app.store, shared.secrets, shared.warnings, clock=app.wall)
    config.on_value = shared.insights.hide
    dispatch = dispatches_of(app, plugin, warn)
    services = Services(
        plugin.id,
        config=config,
        database=Database(
            plugin.id, plugin.layout.database(plugin.id), config.database_key, redactor=app.redactor
        ),
        insights=shared.insights,
        http=Http(plugin.id, shared.outgoing or Outgoing(), shared.requests),
        files=Files(data_folder() / "artifacts"),
        warnings=shared.warnings,
        inference=inference_of(app, plugin, warn),
        dispatch=dispatch,
    )
    settings = plugin.manifest.config
    fields = [field for section in settings.sections for field in section.fields] if settings else []
    delivery = Delivery(
        plugin.id,
        plugin.runner_config_changed,
        config,
        fields,
        app.redactor,
        routes=bool(plugin.manifest.routes),
    )
    return Hosting(services, delivery, dispatch)
