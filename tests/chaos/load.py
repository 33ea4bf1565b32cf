"""Clients of the fleet: they give tasks, follow them, lose connections, come back, and check what they are told."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from chaos.fleet_in_chaos import reply_to
from fairlead import Failure, Kind
from fairlead.tasks import State, Tasks

AGENT = "/api/v1/agents/echo"
DELTA = "agent_reply_delta"
#: Seconds of silence after which a client goes elsewhere.
IMPATIENCE = 3.0
#: Answers that say: not now.
NOT_NOW = {429, 500, 502, 503, 504}
FULL = "has no room on its disk"
#: What callers hear of it, as of any store that is away: whether the disk was full, they do not.
AWAY = "The store is not available."
#: How often a task may lose its worker; more than a test can do to it.
ATTEMPTS = 1000


class Broken(AssertionError):
    """Something does not hold that must."""


def hold(true: bool, otherwise: str) -> None:
    if not true:
        raise Broken(otherwise)


class Client:
    """Calls whichever gateway answers."""

    def __init__(self, urls: list[str], key: str, first: int, seen: Counter[str]) -> None:
        self._urls = urls[first % 2 :] + urls[: first % 2]
        self._http = httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=IMPATIENCE)
        self._seen = seen

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """The answer, from whom and whenever it comes. What is asked has a key, or may be asked twice."""
        while True:
            try:
                answer = await self._http.request(
                    method, f"{self._urls[0]}{path}", json=body, headers=headers
                )
            except httpx.TransportError as error:
                await self._elsewhere(type(error).__name__)
                continue
            if answer.is_success:
                return answer.json()
            hold(answer.status_code in NOT_NOW, f"{method} {path}: {answer.status_code} {answer.text}")
            await self._elsewhere(f"{answer.status_code} {_code(answer)}")

    async def follow(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Messages of a stream until it ends; where the connection is lost, it is taken up elsewhere."""
        since = 0
        while True:
            given = {"Last-Event-ID": str(since)} if since else {}
            try:
                async with self._http.stream("GET", f"{self._urls[0]}{path}", headers=given) as answer:
                    if answer.is_success:
                        async for name, told in _events(answer):
                            if name == "message":
                                since = told["offset"]
                                yield told
                            elif name == "end" and told["reason"] != "stream_closed":
                                return
                        why = "stream ended"
                    else:
                        await answer.aread()
                        hold(answer.status_code in NOT_NOW, f"GET {path}: {answer.status_code} {answer.text}")
                        why = f"{answer.status_code} {_code(answer)}"
            except httpx.TransportError as error:
                why = type(error).__name__
            await self._elsewhere(why)

    async def _elsewhere(self, why: str) -> None:
        self._seen[why] += 1
        self._urls.reverse()
        await asyncio.sleep(0.1)


async def _events(answer: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    name = ""
    async for line in answer.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data" and name in ("message", "end"):
            yield name, json.loads(value)


def _inside(client: asyncio.Task[None]) -> str:
    """The functions that a task is in, and what the outermost of them works on."""
    words: list[str] = []
    inner: Any = client.get_coro()
    while (frame := getattr(inner, "cr_frame", None)) is not None:
        words.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        if "name" in frame.f_locals:
            words.append(f"{frame.f_locals['name']} {frame.f_locals.get('id', '')}")
        inner = getattr(inner, "cr_await", None)
    return " > ".join(words)


def _same(seen: list[dict[str, Any]], log: list[dict[str, Any]], begun: int) -> bool:
    """Whether what was read is the log. What a lost run said last, before the one that has `begun` since, may come to
    the log too late to be read."""
    missed = [each for each in log if each not in seen]
    late = all(each["type"] == DELTA and each["offset"] < begun for each in missed)
    return late and [each for each in log if each not in missed] == seen


def _code(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        return answer.text[:80]
    error = told.get("error")
    return str(error.get("code") if isinstance(error, dict) else error)


class Load:
    """All clients, until they are told to stop."""

    def __init__(
        self, urls: list[str], key: str, tasks: Tasks, was_full_since: Callable[[float], bool]
    ) -> None:
        self._urls = urls
        self._was_full_since = was_full_since
        self._key = key
        self._tasks = tasks
        self._stopped = False
        self._clients: list[asyncio.Task[None]] = []
        self.count: Counter[str] = Counter()
        #: Why clients went elsewhere.
        self.seen: Counter[str] = Counter()
        #: Ids of tasks by their keys.
        self.effects: dict[str, str] = {}
        self.singles: dict[str, str] = {}
        #: What tasks of the agent's were heard to say, piece by piece, and what their reply is.
        self.said: dict[str, tuple[str, str]] = {}

    def stop(self) -> None:
        self._stopped = True

    def waiting(self) -> str:
        """Where those are that have not ended."""
        return "; ".join(_inside(client) for client in self._clients if not client.done())

    async def run(self) -> None:
        kinds = [self._talking] * 3 + [self._calling] + [self._working] * 5
        clients = [Client(self._urls, self._key, number, self.seen) for number in range(len(kinds))]
        try:
            async with asyncio.TaskGroup() as group:
                for number, (kind, client) in enumerate(zip(kinds, clients, strict=True)):
                    self._clients.append(group.create_task(self._lasting(kind, client, number)))
        finally:
            for client in clients:
                await client.close()

    async def _lasting(self, kind: Callable[[Client, str], Any], client: Client, number: int) -> None:
        turn = 0
        while not self._stopped:
            await kind(client, f"{number}-{turn}")
            turn += 1

    async def _talking(self, client: Client, name: str) -> None:
        """Give an agent a task and follow it to its end: all of its log is read, in order, once."""
        body, began = {"message": f"word {name}", "idempotency_key": f"talk-{name}"}, time.monotonic()
        id = (await client.ask("POST", f"{AGENT}/tasks", body))["data"]["task_id"]
        seen = [message async for message in client.follow(f"{AGENT}/tasks/{id}/events")]
        told = (await client.ask("GET", f"{AGENT}/tasks/{id}"))["data"]
        # A run that could not write something down. Nothing else that the store goes through may end it.
        if AWAY in told.get("error", "") and self._was_full_since(began):
            self.count["failed for want of room"] += 1
        else:
            hold(told["status"] == "completed", f"task {id} is {told}")
            hold(told["result"] == reply_to(f"word {name}"), f"task {id} says {told['result']!r}")
        again = (await client.ask("POST", f"{AGENT}/tasks", body))["data"]["task_id"]
        hold(again == id, f"the key talk-{name} is of {id} and of {again}")
        page = (await client.ask("GET", f"{AGENT}/tasks/{id}/messages?include_deltas=true"))["data"]
        begun = await self._surely(lambda: self._begun(id))
        hold(
            _same(seen, page["messages"], begun),
            f"task {id} was read as {seen}, and its log is {page['messages']}",
        )
        offsets = [each["offset"] for each in seen]
        hold(offsets == sorted(set(offsets)), f"task {id} has the offsets {offsets}")
        if told["status"] == "completed":
            said = "".join(each["payload"]["text"] for each in seen if each["type"] == DELTA)
            self.said[id] = said, told["result"]
        self.count["talks"] += 1

    async def _begun(self, id: str) -> int:
        """Where the last run of a task began to speak."""
        events = self._tasks.events(id, follow=False)
        return max([each.offset async for each in events if each.type == "started"], default=0)

    async def _calling(self, client: Client, name: str) -> None:
        """Call an action by a key: once it has given something, it gives the same for ever."""
        path, headers = "/fairlead/actions/draw/invoke", {"Idempotency-Key": f"call-{name}"}
        first, again = [(await client.ask("POST", path, {}, headers))["data"] for _ in range(2)]
        hold(first == again, f"the key call-{name} gave {first}, then {again}")
        self.count["calls"] += 1
        await asyncio.sleep(0.02)  # others are to have the machine, too

    async def _working(self, client: Client, name: str) -> None:
        """Give tasks that end, and tasks that must not be begun twice."""
        kept = (("effect", self.effects, ATTEMPTS), ("once", self.singles, 1))
        for action, ids, attempts in kept:
            key = f"{action}-{name}"
            ids[key] = await self._submitted(action, key, attempts)
            again = await self._submitted(action, key, attempts)
            hold(again == ids[key], f"the key {key} is of {ids[key]} and of {again}")
        task = await self._surely(lambda: self._tasks.wait(self.effects[f"effect-{name}"], None))
        if FULL in str(task.failure):
            del self.effects[f"effect-{name}"]
            self.count["failed for want of room"] += 1
        else:
            hold(task.state is State.completed, f"task {task.id} is {task.state}: {task.failure}")
        self.count["tasks"] += 1

    async def _submitted(self, action: str, key: str, attempts: int) -> str:
        given = {"pause": int(key.rpartition("-")[2]) % 5 * 0.2}
        task = await self._surely(lambda: self._tasks.submit(action, given, key=key, max_attempts=attempts))
        return str(task.id)

    async def _surely(self, ask: Callable[[], Any]) -> Any:
        while True:
            try:
                return await ask()
            except Failure as failure:
                hold(failure.kind is Kind.unavailable, f"a task was refused: {failure.kind} {failure}")
                self.seen[f"engine {failure.kind.value}"] += 1
                await asyncio.sleep(0.1)
