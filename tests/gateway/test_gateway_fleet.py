"""Two gateways and two workers on one store: each of them is killed in turn, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead import App
from fairlead.store import Statement
from gateway.site_under_test import OWNER, PATIENCE, add_key
from servers import until
from warm import Warm
from warm_child import Child

#: Tasks, and conversations with so many messages each, for each process that is killed. All but every third task, and
#: one message of each conversation, are held meanwhile.
TASKS, TALKS, TURNS = 6, 2, 3
AGENT = "/api/v1/agents/echo"
_DELIVERIES = Statement.of(
    "SELECT task, number, status, attempts, error, due, waiting, holder, lease FROM webhook_deliveries "
    "WHERE task = :task"
)


class Fleet:
    """The processes, by what they do."""

    def __init__(self, warm: Warm, store: str, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._warm = warm
        self._stack = stack
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "FAIRLEAD_APP": "gateway.fleet_under_test:app",
            "FAIRLEAD_ALLOW_PRIVATE_HOSTS": "*",
            "FLEET_STORE": store,
            "FLEET_FOLDER": str(folder),
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.urls: dict[str, str] = {}
        for role in ("worker0", "worker1", "gateway0", "gateway1"):
            self.start(role)
        for role in ("worker0", "worker1", "gateway0", "gateway1"):
            self.wait_for(role)

    def start(self, role: str) -> None:
        """Start a process for a role, which may have had one before."""
        worker = role.startswith("worker")
        command = ("worker", "--lease", "1") if worker else ("serve", "--port", "0", "--worker=0")
        (self.folder / f"{role}.txt").write_bytes(b"")
        self.processes[role] = self._start(role, *command)

    def wait_for(self, role: str) -> None:
        """Until it is ready."""
        if role.startswith("worker"):
            until(lambda: "Worker" in self._said(role), "a worker is not ready")
        else:
            self.urls[role] = self._url(role)

    def kill(self, role: str) -> None:
        self.processes[role].kill()
        self.processes[role].wait()

    def go(self, turn: str) -> None:
        """Let those of this turn go on that are held."""
        (self.folder / f"go-{turn}").touch()

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.txt").open("wb") as words:
            started = Child(
                self._warm,
                "-m",
                "fairlead",
                *command,
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
            )
        self._stack.callback(started.wait)
        self._stack.callback(started.kill)
        return started

    def _said(self, name: str) -> str:
        return (self.folder / f"{name}.txt").read_text()

    def _url(self, name: str) -> str:
        until(lambda: "/fairlead/actions" in self._said(name), f"{name} does not serve", PATIENCE)
        line = next(line for line in self._said(name).splitlines() if "/fairlead/actions" in line)
        return line.split()[-1].removesuffix("/fairlead/actions")

    def holds(self, role: str, turn: str) -> bool:
        """Whether a worker has begun something of a turn that is held."""
        return any(self.folder.glob(f"begun-{self.processes[role].pid}-held {turn} *"))

    def has_begun(self, word: str) -> bool:
        """Whether any worker has begun what this word was said to."""
        return any(self.folder.glob(f"begun-*-{word}"))


class Caller:
    """One who calls whichever gateway answers."""

    def __init__(self, fleet: Fleet, first: int) -> None:
        urls = list(fleet.urls.values())
        self._urls = [urls[first % 2], urls[(first + 1) % 2]]
        self._http = httpx.AsyncClient(headers={"Authorization": f"Bearer {OWNER}"}, timeout=PATIENCE)
        #: Set once something was read, and how often a connection was lost.
        self.reading = asyncio.Event()
        self.drops = 0

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's data. What is asked has a key, or may be asked twice."""
        while True:
            try:
                answer = await self._http.request(method, f"{self._urls[0]}{path}", json=body)
            except httpx.TransportError:
                self._urls.reverse()
                continue
            assert answer.is_success, answer.text
            return answer.json()["data"]

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Messages of a stream as they come until it ends; where the connection is lost, it is taken up elsewhere."""
        since = 0
        while True:
            given = {"Last-Event-ID": str(since)} if since else {}
            try:
                async with self._http.stream("GET", f"{self._urls[0]}{path}", headers=given) as answer:
                    assert answer.status_code == 200, await answer.aread()
                    name = ""
                    async for line in answer.aiter_lines():
                        field, _, value = line.partition(": ")
                        if field == "event":
                            name = value
                        elif field == "data" and name == "message":
                            message = json.loads(value)
                            since = message["offset"]
                            self.reading.set()
                            yield message
                        elif field == "data" and name == "end":
                            if json.loads(value)["reason"] != "stream_closed":
                                return
                            break
            except httpx.TransportError:
                pass
            self.drops += 1
            self._urls.reverse()


class Hooks:
    """A server that is told of tasks: how each of them stands, as it heard. One process may get no answer."""

    def __init__(self) -> None:
        self.heard: set[tuple[str, str]] = set()
        self.changed = threading.Condition()
        #: The process that gets no answer, and how many wait for one.
        self.unanswered: int | None = None
        self.waiting = 0

    @contextmanager
    def serving(self) -> Iterator[str]:
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with hooks.changed:
                    if hooks.unanswered is not None and _is_of(self.client_address[1], hooks.unanswered):
                        hooks.waiting += 1
                        hooks.changed.notify_all()
                        hooks.changed.wait_for(lambda: hooks.unanswered is None, PATIENCE)
                        return
                    hooks.heard.add(_told(told))
                    hooks.changed.notify_all()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}/hook"
            server.shutdown()
            thread.join()

    def all_of(self, wanted: set[tuple[str, str]]) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: wanted <= self.heard, PATIENCE)

    def is_waiting(self) -> bool:
        with self.changed:
            return self.waiting > 0

    def leave(self, process: int | None) -> None:
        """Answer this process no more; None answers all again."""
        with self.changed:
            self.unanswered, self.waiting = process, 0
            self.changed.notify_all()


def _is_of(port: int, process: int) -> bool:
    """Whether a connection from this port of the machine is a process's."""
    local = f":{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(local)}
    try:
        return any(os.readlink(each) in found for each in Path(f"/proc/{process}/fd").iterdir())
    except OSError:  # it is gone, or a file of it
        return False


def _told(payload: dict[str, Any]) -> tuple[str, str]:
    return str(payload["task_id"]), str(payload["status"])


async def _task(caller: Caller, turn: str, number: int, hook: str) -> str:
    """Give a task, follow it to its end, and see that all of its log was read once. Gives its id."""
    word = f"held {turn} task {number}" if number % 3 else f"task {turn} {number}"
    body = {"message": word, "idempotency_key": f"task-{turn}-{number}"}
    id: str = (await caller.ask("POST", f"{AGENT}/tasks", body))["task_id"]
    await caller.ask("POST", f"{AGENT}/tasks/{id}/webhooks", {"url": hook})
    seen = [message async for message in caller.follow(f"{AGENT}/tasks/{id}/events")]
    told = await caller.ask("GET", f"{AGENT}/tasks/{id}")
    assert (told["status"], told["result"]) == ("completed", f"You said: {word}")
    assert (await caller.ask("POST", f"{AGENT}/tasks", body))["task_id"] == id
    page = await caller.ask("GET", f"{AGENT}/tasks/{id}/messages?include_deltas=true")
    assert seen == page["messages"]
    assert _offsets(seen) == sorted(set(_offsets(seen)))
    return id


async def _talk(caller: Caller, turn: str, number: int) -> None:
    """Talk, the next message once the last is replied to, and see that all of the log was read once."""
    id = (await caller.ask("POST", f"{AGENT}/conversations", {}))["conversation_id"]
    path = f"{AGENT}/conversations/{id}"
    words = [
        f"held {turn} {number}.{each}" if each % 2 else f"{turn} {number}.{each}" for each in range(TURNS)
    ]
    replies: list[tuple[str, str]] = []
    seen: list[dict[str, Any]] = []
    sent = [await _sent(caller, path, words[0])]
    async with aclosing(caller.follow(f"{path}/events")) as messages:  # type: ignore[type-var]
        async for message in messages:
            seen.append(message)
            if message["type"] == "agent_reply" and message.get("state") == "completed":
                replies.append((message["in_reply_to"], message["body"]))
                if len(sent) == TURNS:
                    break
                sent.append(await _sent(caller, path, words[len(sent)]))
    assert replies == [(id, f"You said: {word}") for id, word in zip(sent, words, strict=True)]
    assert _offsets(seen) == sorted(set(_offsets(seen)))
    page = await caller.ask("GET", f"{path}/messages?include_deltas=true")
    assert set(_offsets(page["messages"])) <= set(_offsets(seen))
    whole = await caller.ask("GET", f"{path}/messages")
    said = [each["body"] for each in whole["messages"] if each["type"] == "chat_message"]
    assert (said, len(whole["messages"])) == (words, 2 * TURNS)


async def _sent(caller: Caller, path: str, word: str) -> str:
    body = {"message": word, "idempotency_key": word}
    return str((await caller.ask("POST", f"{path}/messages", body))["message_id"])


def _completed(ids: Iterable[str]) -> set[tuple[str, str]]:
    return {(id, "completed") for id in ids}


def _known(store_url: str, missing: set[tuple[str, str]], folder: Path) -> str:
    """What is known of deliveries that did not come, and what the fleet said."""
    app = App("fleet", store=store_url)
    now = app.wall()
    rows = app.store.read_now(lambda tx: [row for id, _ in missing for row in tx.all(_DELIVERIES, task=id)])
    app.store.close()
    said = [(each.name, each.read_text()) for each in folder.glob("*.txt")]
    return "\n".join(map(str, [now, missing, *rows, *said]))


def _offsets(messages: list[dict[str, Any]]) -> list[int]:
    return [each["offset"] for each in messages]


async def _load(fleet: Fleet, hooks: Hooks, hook: str, turn: str, victim: str) -> set[str]:
    """Load on all of them, in the midst of which one dies. Gives the tasks' ids."""
    callers = [Caller(fleet, number // 2) for number in range(TASKS + TALKS)]
    more = Caller(fleet, 0)
    process = fleet.processes[victim].pid
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for caller in (*callers, more):
            stack.push_async_callback(caller.close)
        hooks.leave(process)
        tasks = [group.create_task(_task(callers[number], turn, number, hook)) for number in range(TASKS)]
        for number in range(TALKS):
            group.create_task(_talk(callers[TASKS + number], turn, number))
        for caller in callers:
            await caller.reading.wait()
        while not hooks.is_waiting():  # any of them may deliver: until it is this one
            extra = TASKS + 3 * (len(tasks) - TASKS)
            tasks.append(group.create_task(_task(more, turn, extra, hook)))
            await tasks[-1]
        held = 0
        while victim.startswith("worker") and not fleet.holds(victim, turn):  # either of them may take one
            held, number = held + 1, TASKS + 3 * held + 1
            tasks.append(group.create_task(_task(more, turn, number, hook)))
            begun = partial(fleet.has_begun, f"held {turn} task {number}")
            await asyncio.to_thread(until, begun, "a task is not begun")
        await asyncio.to_thread(fleet.kill, victim)
        hooks.leave(None)
        fleet.start(victim)
        fleet.go(turn)
    await asyncio.to_thread(fleet.wait_for, victim)
    if victim.startswith("gateway"):
        assert sum(caller.drops for caller in callers) > 0
    return {task.result() for task in tasks}


@pytest.mark.timeout(240)
def test_any_of_the_fleet_is_killed_and_nothing_that_was_accepted_is_lost(
    store_url: str, tmp_path: Path, warm_python: Warm
) -> None:
    app = App("fleet", store=store_url)
    add_key(app, OWNER, "k-owner", "local")
    app.store.close()
    hooks = Hooks()
    with ExitStack() as stack, hooks.serving() as hook:
        fleet = Fleet(warm_python, store_url, tmp_path, stack)
        for turn, victim in enumerate(("gateway0", "worker0", "gateway1", "worker1")):
            ids = asyncio.run(_load(fleet, hooks, hook, str(turn), victim))
            assert len(ids) >= TASKS
            assert hooks.all_of(_completed(ids)), _known(store_url, _completed(ids) - hooks.heard, tmp_path)
