"""For authors of plugins: a host that is none, so that a plugin can be tried without an app, models or a network.

    with open_plugin("build/acme.notes") as plugin:
        plugin.host.config["signature"] = "Ada"
        plugin.host.answers["http_request"] = {"status": 200, "body": "{}"}
        assert plugin.tool("add_note", {"title": "a", "body": "b"})["id"] == 1
        assert plugin.host.asked("http_request")

The plugin runs as it does for users, in its own process and fence, whichever language it is written in. What it asks
is answered here and written down.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures import tool as envelopes
from fairlead.plugins import slots
from fairlead.plugins.manifest import Manifest, decode
from fairlead.plugins.runner import Frame, Runner, Started

__all__ = ["AGENT", "Asked", "Logged", "MockHost", "TriedPlugin", "open_plugin"]

#: The agent that calls where a test says no other.
AGENT: Final = "A0000000-0000-4000-8000-000000000001"
#: Seconds that one call may take.
LONGEST: Final = 30.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that a plugin asked of its host."""

    slot: str
    args: tuple[str | None, ...]
    agent: str | None

    @property
    def request(self) -> Any:
        """The first argument, read as JSON."""
        return json.loads(self.args[0] or "null")


@dataclass(frozen=True, slots=True)
class Logged:
    """One line that a plugin logged."""

    level: str
    message: str
    payload: Any = None


@dataclass
class MockHost:
    """Answers a plugin and writes down what it asked.

    It keeps values in `config` and rows in a real database in memory; other slots give what `answers` has for their
    name: a value, or a function of the request. Without one they say what a host says that can do nothing.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    #: The pieces that `complete_stream` gives.
    chunks: list[Any] = field(default_factory=list)
    calls: list[Asked] = field(default_factory=list)
    logs: list[Logged] = field(default_factory=list)
    #: Every change of a value that the plugin made, as (key, value); None where it was deleted.
    config_writes: list[tuple[str, str | None]] = field(default_factory=list)
    #: The tasks that the plugin dispatched, by their ids.
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.row_factory = sqlite3.Row

    def asked(self, slot: str) -> list[Asked]:
        """What was asked of one slot, the oldest first."""
        if slot not in slots.BY_NAME:
            raise KeyError(f"There is no slot {slot!r}; there are: {', '.join(slots.BY_NAME)}.")
        return [each for each in self.calls if each.slot == slot]

    # --- what a runner asks for ---

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> str | None:
        """The answer of a slot."""
        about = slots.SLOTS[slot]
        assert about is not None
        self.calls.append(Asked(about.name, args, frame.agent))
        if about.name in self.answers:
            return _text(self._told(about.name, args))
        known = getattr(self, f"_{about.name}", None)
        if known is not None:
            return _text(known(*args))
        return _text(_nothing(about.name)) if about.gives == slots.JSON else None

    async def stream(
        self, request: str | None, frame: Frame, chunk: Callable[[str], Awaitable[None]] | None
    ) -> str | None:
        """The answer of `complete_stream`, after its pieces."""
        self.calls.append(Asked("complete_stream", (request,), frame.agent))
        for each in self.chunks if chunk else ():
            assert chunk is not None
            await chunk(_text(each) or "")
        if "complete_stream" in self.answers:
            return _text(self._told("complete_stream", (request,)))
        return _text(_nothing("complete_stream"))

    def _told(self, slot: str, args: tuple[str | None, ...]) -> Any:
        answer = self.answers[slot]
        if not callable(answer):
            return answer
        about = slots.BY_NAME[slot]
        takes_json = slot in ("dispatch", "complete", "complete_stream", "embed", "http_request", "file_read")
        given: list[Any] = list(args)
        if takes_json and given and given[0] is not None:
            given[0] = json.loads(given[0])
        return answer(*given[: len(about.args)])

    # --- what it can do itself ---

    def _config_get(self, key: str) -> str | None:
        return self.config.get(key)

    def _config_set(self, key: str, value: str) -> None:
        self.config[key] = value
        self.config_writes.append((key, value))

    def _config_delete(self, key: str) -> None:
        self.config.pop(key, None)
        self.config_writes.append((key, None))

    def _log(self, level: str, message: str) -> None:
        self._log_structured(level, message, None)

    def _log_structured(self, level: str, message: str, payload: str | None) -> None:
        name = slots.LOG_LEVELS[int(level)] if 0 <= int(level) < len(slots.LOG_LEVELS) else "LOG"
        try:
            fields = None if payload is None else json.loads(payload)
        except ValueError:
            fields = payload
        self.logs.append(Logged(name, message, fields))

    def _db_exec(self, sql: str, params: str | None) -> Any:
        done = self._run(sql, params)
        if isinstance(done, dict):
            return done
        return {"changes": max(0, done.rowcount), "last_insert_rowid": done.lastrowid or 0}

    def _db_query(self, sql: str, params: str | None) -> Any:
        done = self._run(sql, params)
        if isinstance(done, dict):
            return done
        columns = [each[0] for each in done.description or ()]
        rows = [{name: _value(row[name]) for name in columns} for row in done.fetchall()]
        return {"columns": columns, "rows": rows}

    def _run(self, sql: str, params: str | None) -> sqlite3.Cursor | dict[str, str]:
        given = json.loads(params) if params else []
        if isinstance(given, dict):
            given = {name.lstrip(":@$"): value for name, value in given.items()}
        try:
            return self._database.execute(sql, given)
        except sqlite3.Error as exc:
            return {"error": "database_error", "message": str(exc)}

    def _dispatch(self, request: str) -> Any:
        told = json.loads(request)
        task = str(told.get("id") or uuid4()).upper()
        self.tasks[task] = told
        return {"id": task, "status": "running"}

    def _task_status(self, task: str) -> Any:
        if task in self.tasks:
            return {"id": task, "status": "running", "title": self.tasks[task].get("title", "Chat")}
        return {"error": "not_found", "message": f"There is no task {task!r}."}

    def _list_active_tasks(self) -> Any:
        return {"tasks": [self._task_status(task) for task in self.tasks]}

    def _dispatch_cancel(self, task: str) -> None:
        self.tasks.pop(task, None)

    def _http_request(self, request: str) -> Any:
        words = 'There is no network here. Say what the server answers: host.answers["http_request"] = ...'
        return {"error": "network_error", "message": words, "elapsed_ms": 0}

    def _list_models(self) -> Any:
        return {"models": []}


class TriedPlugin:
    """A plugin that runs, with the calls that its host makes."""

    def __init__(
        self, runner: Runner, host: MockHost, loop: asyncio.AbstractEventLoop, started: Started
    ) -> None:
        self.host = host
        self.started = started
        self.manifest: Manifest = decode(started.manifest)
        self._runner = runner
        self._loop = loop

    def invoke(self, kind: str, id: str, payload: str, *, agent: str | None = AGENT) -> str:
        """What `invoke` gives, as it is."""
        return self._wait(self._runner.invoke(kind, id, payload, agent=agent, timeout=LONGEST))

    def tool(self, id: str, arguments: Mapping[str, Any] | None = None, *, agent: str | None = AGENT) -> Any:
        """The result of a tool. Raises the Failure that the tool tells."""
        envelope = envelopes.normalize(self.invoke("tool", id, json.dumps(arguments or {}), agent=agent), id)
        if envelopes.is_error(envelope):
            raise envelopes.parse(envelope)
        return _json.loads(envelope).get("result")

    def route(
        self,
        id: str,
        *,
        method: str | None = None,
        path: str | None = None,
        params: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: str | bytes | dict[str, Any] = "",
        agent: str | None = AGENT,
    ) -> dict[str, Any]:
        """What a route answers: status, headers, body. A body that is an object is sent as JSON."""
        route = next((each for each in self.manifest.routes if each.id == id), None)
        if route is None:
            known = ", ".join(each.id for each in self.manifest.routes) or "none"
            raise Failure(Kind.not_found, f"The plugin has no route {id!r}; it has: {known}.")
        request = {
            "route_id": id,
            "method": method or route.methods[0],
            "path": path or route.path,
            "query": dict(query or {}),
            "path_params": dict(params or {}),
            "headers": {name.lower(): value for name, value in (headers or {}).items()},
            "remote_addr": "",
            "plugin_id": self.manifest.plugin_id,
            "osaurus": {
                "base_url": "http://127.0.0.1",
                "plugin_url": f"http://127.0.0.1/plugins/{self.manifest.plugin_id}",
                "agent_address": agent or "",
            },
            **_body(body),
        }
        answer = self._wait(self._runner.handle_route(json.dumps(request), agent=agent, timeout=LONGEST))
        told: dict[str, Any] = json.loads(answer)
        return told

    def set(self, key: str, value: str, *, agent: str | None = AGENT) -> None:
        """Set a value as a person does: it is kept, and the plugin is told."""
        self.host.config[key] = value
        self._wait(self._runner.config_changed(key, value, agent=agent))

    def event(
        self, task: str, name: str, data: Mapping[str, Any] | None = None, *, agent: str | None = AGENT
    ) -> None:
        """Tell the plugin what became of a task: started, clarification, completed, ..."""
        number = slots.TASK_EVENTS.index(name.upper())
        self._wait(self._runner.task_event(task, number, json.dumps(data or {}), agent=agent))

    def artifact(self, artifact: Mapping[str, Any], *, agent: str | None = AGENT) -> str:
        """Tell the plugin of a file that was shared."""
        return self.invoke("artifact", "share", json.dumps(artifact), agent=agent)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@contextmanager
def open_plugin(
    source: str | PathLike[str], host: MockHost | None = None, *, in_process: bool = False
) -> Iterator[TriedPlugin]:
    """Run a plugin: a library, a `plugin.py`, or a folder with one of them. `in_process` is for debuggers.

    Raises:
        Failure: it cannot be loaded.
    """
    library = library_of(Path(source))
    host = host or MockHost()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fairlead-plugin-kit", daemon=True)
    thread.start()
    try:
        runner = asyncio.run_coroutine_threadsafe(_made(library, host, in_process), loop).result()
        try:
            started = asyncio.run_coroutine_threadsafe(runner.start(), loop).result()
            yield TriedPlugin(runner, host, loop, started)
        finally:
            asyncio.run_coroutine_threadsafe(runner.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def library_of(source: Path) -> Path:
    """The library or `plugin.py` that is meant. Raises Failure."""
    from fairlead.plugins.finding import chosen_library, fit

    if source.is_dir():
        return chosen_library(source.resolve())
    if not source.exists():
        raise Failure(Kind.not_found, f"There is no file or folder {str(source)!r}. Build the plugin first.")
    return fit(source.resolve())


async def _made(library: Path, host: MockHost, in_process: bool) -> Runner:
    if in_process:
        from fairlead.plugins.inprocess import InProcessRunner

        return InProcessRunner(library.stem, library, host)
    from fairlead.plugins.process import ProcessRunner

    return ProcessRunner(library.stem, library, host, folder=library.parent)


def _nothing(slot: str) -> dict[str, str]:
    if slot == "dispatch_add_issue":
        return {"error": "not_supported", "message": "dispatch_add_issue is reserved."}
    return {
        "error": "context_unavailable",
        "message": f"The mock host has no answer for {slot}. Give one: host.answers[{slot!r}] = ...",
    }


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)


def _value(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _body(body: str | bytes | dict[str, Any]) -> dict[str, str]:
    if isinstance(body, bytes):
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    return {"body": body if isinstance(body, str) else json.dumps(body), "body_encoding": "utf8"}
