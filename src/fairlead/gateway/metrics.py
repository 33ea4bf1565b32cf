"""What `/metrics` tells of the gateway: requests, streams, turns of agents, deliveries, and what waits.

There is a series for each route and agent, and no other: no caller can add one without end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure
from fairlead.gateway.call import Caller as KeyOwner
from fairlead.gateway.keys import is_admin
from fairlead.store.statements import statements
from fairlead.store.store import Tx
from fairlead.surfaces.auth import ANONYMOUS, Caller
from fairlead.surfaces.http.metrics import BUCKETS
from fairlead.tasks.ledger import APART

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway
    from fairlead.gateway.turns import Ended

SQL: Final = statements(__file__, "metrics.sql")
#: Turns are counted by agent for so many agents, and for the rest together.
_MOST_AGENTS: Final = 500
_OTHER: Final = "OTHER"
#: Seconds that what the store says is taken to hold.
_REMEMBERED: Final = 5.0


class _Endpoint:
    """The requests of one route."""

    __slots__ = ("buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)


class GatewayMetrics:
    """Counts, since the process began."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._endpoints: dict[str, _Endpoint] = {}
        self._turns: dict[tuple[str, str], int] = {}
        self._agents: set[str] = set()
        #: Streams that are being sent.
        self.streams = 0
        self._told: tuple[float, Mapping[str, Mapping[str, int]]] | None = None

    def request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        found = self._endpoints.get(endpoint)
        if found is None:
            found = self._endpoints[endpoint] = _Endpoint()
        statuses = found.statuses
        statuses[status] = statuses.get(status, 0) + 1
        found.seconds += seconds
        found.buckets[bisect_left(BUCKETS, seconds)] += 1

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """While a stream is being sent."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def turn(self, agent: str, outcome: str) -> None:
        """Count a turn of an agent that ended: `ok`, `asked`, or the code that it failed with."""
        if agent not in self._agents:
            if len(self._agents) >= _MOST_AGENTS:
                agent = _OTHER
            self._agents.add(agent)
        turns, key = self._turns, (agent, outcome)
        turns[key] = turns.get(key, 0) + 1

    async def stored(self) -> Mapping[str, Mapping[str, int]]:
        """What the store says: tasks by state, tasks that wait by queue, deliveries by status."""
        now = self._gateway.app.clock.monotonic()
        if self._told is None or self._told[0] < now:
            try:
                told = await self._gateway.app.store.read(_counted)
            except Failure:
                return {}  # a database that is away is no reason to tell nothing else
            self._told = now + _REMEMBERED, told
        return self._told[1]

    async def text(self, caller: Caller = ANONYMOUS) -> bytes:
        named = await self._named(caller)
        lines = [*self._lines(named), *_stored_lines(_folded(await self.stored(), named))]
        return "".join(f"{line}\n" for line in lines).encode()

    async def _named(self, caller: Caller) -> frozenset[str] | None:
        """The agents that the owner of a key may know of; None for all. Those of others are counted together."""
        auth = caller.auth
        if not isinstance(auth, Mapping) or auth.get("type") != "gateway" or is_admin(auth["permissions"]):
            return None
        try:
            listed = await self._gateway.agents.listed(KeyOwner(caller.user["id"]))
        except Failure:
            return frozenset()
        return frozenset(each.id for each in listed)

    def to_dict(self) -> dict[str, Any]:
        """The same for people's pages: requests by endpoint and status."""
        return {
            "in_flight": self._gateway.in_flight,
            "streams": self.streams,
            "requests": [
                {"endpoint": name, "status": status, "count": count}
                for name, found in sorted(self._endpoints.items())
                for status, count in sorted(found.statuses.items())
            ],
            "turns": [
                {"agent": agent, "outcome": outcome, "count": count}
                for (agent, outcome), count in sorted(self._turns.items())
            ],
        }

    def _lines(self, named: frozenset[str] | None) -> Iterator[str]:
        name = "fairlead_gateway_requests_total"
        yield from _head(name, "counter", "Requests to the gateway that were answered, by route and status.")
        for endpoint, found in self._endpoints.items():
            for status, count in sorted(found.statuses.items()):
                yield f'{name}{{endpoint="{endpoint}",status="{status}"}} {count}'
        name = "fairlead_gateway_request_duration_seconds"
        yield from _head(name, "histogram", "How long requests to the gateway took, streams to their end.")
        for endpoint, found in self._endpoints.items():
            yield from _histogram(name, endpoint, found)
        gauges = (
            ("requests_in_flight", "Requests to the gateway that are served now.", self._gateway.in_flight),
            ("streams_open", "Streams that are being sent.", self.streams),
        )
        for short, help, value in gauges:
            yield from _head(f"fairlead_gateway_{short}", "gauge", help)
            yield f"fairlead_gateway_{short} {value}"
        name = "fairlead_gateway_turns_total"
        yield from _head(name, "counter", "Turns of agents that have ended, by how they ended.")
        turns: dict[tuple[str, str], int] = {}
        for (agent, outcome), count in self._turns.items():
            key = (agent if named is None or agent in named else _OTHER), outcome
            turns[key] = turns.get(key, 0) + count
        for (agent, outcome), count in turns.items():
            yield f'{name}{{agent="{_quoted(agent)}",outcome="{_quoted(outcome)}"}} {count}'
        name = "fairlead_gateway_audit_lost_total"
        yield from _head(name, "counter", "Lines of the audit log that there was no room for.")
        yield f"{name} {self._gateway.audit.lost}"


def outcome_of(last: Ended | None) -> str:
    """How a turn ended, in a word. None says that nobody waited for the end."""
    if last is None:
        return "left"
    if last.failure is not None:
        return str(last.failure.code)
    return "ok" if last.question is None else "asked"


def _counted(tx: Tx) -> dict[str, dict[str, int]]:
    return {
        "tasks": dict(_pairs(tx.all(SQL.tasks))),
        "queues": dict(_pairs(tx.all(SQL.queues))),
        "deliveries": dict(_pairs(tx.all(SQL.deliveries))),
    }


def _pairs(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, int]]:
    for name, count in rows:
        yield str(name), int(count)


def _folded(
    told: Mapping[str, Mapping[str, int]], named: frozenset[str] | None
) -> Mapping[str, Mapping[str, int]]:
    """The same, with the queues of agents that are not named as one."""
    if named is None:
        return told
    queues: dict[str, int] = {}
    for queue, count in told.get("queues", {}).items():
        hidden = queue.startswith(APART) and queue.removeprefix(APART) not in named
        key = f"{APART}{_OTHER}" if hidden else queue
        queues[key] = queues.get(key, 0) + count
    return {**told, "queues": queues}


def _stored_lines(told: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    families = (
        ("tasks", "fairlead_tasks", "state", "Tasks in the store that have not ended, by state."),
        ("queues", "fairlead_queue_length", "queue", "Tasks that wait for a worker, by queue."),
        ("deliveries", "fairlead_gateway_deliveries", "status", "Deliveries of webhooks, by status."),
    )
    for key, name, label, help in families:
        yield from _head(name, "gauge", help)
        for value, count in sorted(told.get(key, {}).items()):
            yield f'{name}{{{label}="{_quoted(value)}"}} {count}'


def _head(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP {name} {help}", f"# TYPE {name} {kind}"


def _histogram(name: str, endpoint: str, found: _Endpoint) -> Iterator[str]:
    total = 0
    for bound, count in zip((*BUCKETS, "+Inf"), found.buckets, strict=True):
        total += count
        yield f'{name}_bucket{{endpoint="{endpoint}",le="{bound}"}} {total}'
    yield f'{name}_sum{{endpoint="{endpoint}"}} {found.seconds:.6f}'
    yield f'{name}_count{{endpoint="{endpoint}"}} {total}'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
