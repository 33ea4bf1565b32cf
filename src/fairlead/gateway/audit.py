"""`Audit`: who did what over the gateway, kept in the store. No bodies, no answers, no credentials.

Every request that changes something is written down, and every one that was refused; those that only look are not.
Lines are written behind, many at once: a process that is killed loses those of its last second.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead._json import dumps
from fairlead.failures import Failure
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.gateway.keys import SQL as KEYS_SQL
from fairlead.runtime.clock import random_id
from fairlead.runtime.hooks import report
from fairlead.store.statements import statements
from fairlead.store.store import Row, Store, Tx, writable

if TYPE_CHECKING:
    from fairlead.gateway.call import Caller

SQL: Final = statements(__file__, "audit.sql")
#: Seconds between two writings.
_EVERY: Final = 1.0
#: Lines that wait to be written; of strangers, who cost us nothing more than that.
_MOST_WAITING: Final = 10_000
#: With so many the writing does not wait.
_MANY: Final = 1000
_MOST_STRANGERS: Final = 100
#: How long lines are kept, in seconds and in number.
KEPT_FOR: Final = 90 * 86400.0
KEPT: Final = 1_000_000
_PRUNE_EVERY: Final = 600.0
_PRUNED: Final = 5_000
#: Minutes of usage that are kept, and told.
_USAGE_KEPT: Final = 24 * 60
_USAGE_TOLD: Final = 60
MOST_LISTED: Final = 1000
_LONGEST: Final = 128
_LOOKS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: After all ids there are, which are digits, in whatever order a database has texts.
_END: Final = "g"


class Line(NamedTuple):
    """One thing that somebody did."""

    id: str
    at: float
    owner: str
    key_id: str
    endpoint: str
    agent: str | None
    target: str | None
    status: int
    request: str
    address: str | None

    def to_dict(self) -> dict[str, Any]:
        moment = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")
        told = self._asdict()
        del told["at"], told["request"]
        return told | {"time": moment.replace("+00:00", "Z"), "request_id": self.request}


#: When, the owner, the key, endpoint, status, the parts of the path, the request's id, the client's address, what was
#: made. Somebody who is not known has no owner.
_Noted = tuple[float, str | None, str, str, int, Mapping[str, str] | None, str, str | None, str | None]
#: Of what was noted, what makes requests alike, and when a key was used.
_ALIKE: Final = itemgetter(1, 2, 3, 4)
_KEY_USED: Final = itemgetter(2, 0)


class Audit:
    """Keeps lines and finds them again."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        redactor: Redactor = DEFAULT,
        *,
        kept_for: float = KEPT_FOR,
        kept: int = KEPT,
        looks: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._redactor = redactor
        self._kept_for = kept_for
        self._kept = kept
        #: Whether requests that only look are written down, too.
        self._looks = looks
        #: What is to become lines; only what a request cannot be asked for later is done while it waits.
        self._waiting: list[_Noted] = []
        #: Lines that could not be written when they should have been.
        self._unwritten: list[tuple[Any, ...]] = []
        self._used: dict[str, float] = {}
        #: Requests, and those that were too many, by minute, owner, key and endpoint.
        self._usage: dict[tuple[int, str, str, str], list[int]] = {}
        self._strangers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._alone = asyncio.Lock()
        self._pruned = 0.0
        #: Lines that there was no room for.
        self.lost = 0

    def note(
        self,
        caller: Caller | None,
        method: str,
        endpoint: str,
        status: int,
        params: Mapping[str, str] | None = None,
        request_id: str = "",
        address: str | None = None,
        made: str | None = None,
    ) -> None:
        """Write down a request that was answered, in a moment. None is somebody who is not known."""
        now, waiting = self._clock(), self._waiting
        if method in _LOOKS and status not in (401, 403, 429) and not self._looks:
            if caller is not None:
                self._count(caller, endpoint, status, now)
            return
        if caller is None:
            self._strangers += 1
            owner, key = None, ""
        else:
            owner, key = caller.owner, caller.key
        many = len(waiting)
        if many + len(self._unwritten) >= _MOST_WAITING or (
            caller is None and self._strangers > _MOST_STRANGERS
        ):
            self.lost += 1
            if caller is not None:
                self._count(caller, endpoint, status, now)
            return
        # What waits is counted when it is written.
        waiting.append((now, owner, key, endpoint, status, params, request_id, address, made))
        if many + 1 == _MANY:
            self._write()
        elif self._timer is None:
            self._soon()

    async def flush(self) -> None:
        """Write what waits. What cannot be written just now waits on."""
        async with self._alone:
            await self._flushed()

    async def _flushed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # A line keeps its id when it is written again: it may have been written after all.
        lines = self._unwritten + [_line(each) for each in self._waiting]
        self._count_waiting()
        self._waiting, self._unwritten = [], []
        used, self._used = self._used, {}
        usage, self._usage = self._usage, {}
        self._strangers = 0
        if not lines and not used and not usage:
            return
        now = self._clock()

        def work(tx: Tx) -> None:
            tx.enter(SQL.add, lines)
            # In one order everywhere, so that two processes do not wait for each other.
            if used:
                tx.many(KEYS_SQL.use, [{"id": id, "at": at} for id, at in sorted(used.items())])
            tx.many(SQL.use, [_usage_row(*each) for each in sorted(usage.items())])
            if now - self._pruned > _PRUNE_EVERY:
                self._prune(tx, now)

        try:
            await self._store.write(work)
        except Failure:
            report("The audit log could not be written.", self._redactor)
            room = max(0, _MOST_WAITING - len(self._waiting))
            self.lost += max(0, len(lines) - room)
            self._unwritten = lines[len(lines) - room :] if room else []
            self._used = used | self._used
            self._soon()
            return
        if now - self._pruned > _PRUNE_EVERY:
            self._pruned = now

    async def page(
        self,
        *,
        owner: str | None = None,
        agents: Collection[str] | None = None,
        since: float = 0.0,
        before: str | None = None,
        most: int = 100,
    ) -> list[Line]:
        """The newest lines; of one owner, and there about some agents only, since a time, before another line."""
        return await self._store.read(lambda tx: _page(tx, owner, since, before, most, agents))

    def page_now(self, *, owner: str | None = None, since: float = 0.0, most: int = 100) -> list[Line]:
        """`page` for code without an event loop."""
        return self._store.read_now(lambda tx: _page(tx, owner, since, None, most))

    async def usage(self, owner: str | None = None, most: int = 200) -> list[dict[str, Any]]:
        """How often callers called what in the last hour, and in this and the last minute; the busiest first."""
        minute = int(self._clock() // 60)
        given = {"lately": minute - 1, "since": minute - _USAGE_TOLD, "most": most}

        def work(tx: Tx) -> list[Row]:
            return tx.all(SQL.usage, **given) if owner is None else tx.all(SQL.usage_of, owner=owner, **given)

        names = ("owner", "key_id", "endpoint", "lately", "last_hour", "limited")
        rows = await self._store.read(work)
        return [dict(zip(names, (*row[:3], *(int(each) for each in row[3:])), strict=True)) for row in rows]

    def _count(self, caller: Caller, endpoint: str, status: int, now: float) -> None:
        if caller.key:
            self._used[caller.key] = now
        self._add(int(now // 60), caller.owner, caller.key, endpoint, status, 1)
        self._soon()

    def _count_waiting(self) -> None:
        """Count the requests that are to become lines, those that are alike at once."""
        for key, at in dict(map(_KEY_USED, self._waiting)).items():
            if key and self._used.get(key, at) <= at:
                self._used[key] = at
        for minute, noted in groupby(self._waiting, _minute):
            for (owner, key, endpoint, status), requests in Counter(map(_ALIKE, noted)).items():
                if owner is not None:
                    self._add(minute, owner, key, endpoint, status, requests)

    def _add(self, minute: int, owner: str, key_id: str, endpoint: str, status: int, requests: int) -> None:
        key = minute, owner, key_id, endpoint
        counted = self._usage.get(key)
        if counted is None:
            if len(self._usage) >= _MOST_WAITING:
                return
            counted = self._usage[key] = [0, 0]
        counted[0] += requests
        if status == 429:
            counted[1] += requests

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._write)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None and not self._writing.done():
            self._soon()
            return
        self._writing = asyncio.ensure_future(self.flush())

    def _prune(self, tx: Tx, now: float) -> None:
        before = _id(max(0.0, now - self._kept_for))
        oldest = tx.one(SQL.oldest_kept, rows=self._kept)
        if oldest is not None:
            before = max(before, oldest[0])
        tx.run(SQL.prune, before=before, most=_PRUNED)
        tx.run(SQL.prune_usage, before=int(now // 60) - _USAGE_KEPT)


def _line(noted: _Noted) -> tuple[Any, ...]:
    """The columns of a line."""
    at, owner, key, endpoint, status, params, request_id, address, made = noted
    agent, target = _about(params or {})
    id = _id(at) + random_id()[-12:]
    return (
        id,
        at,
        _name(owner or ""),
        key,
        endpoint,
        agent,
        _short(made) or target,
        status,
        request_id,
        address,
    )


def _minute(noted: _Noted) -> int:
    return int(noted[0] // 60)


def _usage_row(key: tuple[int, str, str, str], counted: list[int]) -> dict[str, Any]:
    minute, owner, key_id, endpoint = key
    about = {"minute": minute, "owner": writable(owner), "key_id": key_id, "endpoint": endpoint}
    return about | {"requests": counted[0], "limited": counted[1]}


def spelled(agents: Collection[str] | None) -> str | None:
    """Agents as statements take them; None stands for all there are."""
    return None if agents is None else dumps(sorted(agents))


def _page(
    tx: Tx,
    owner: str | None,
    since: float,
    before: str | None,
    most: int,
    agents: Collection[str] | None = None,
) -> list[Line]:
    given = {"since": _id(max(0.0, since)), "before": before or _END, "most": min(most, MOST_LISTED)}
    if owner is None:
        rows = tx.all(SQL.page, **given)
    else:
        rows = tx.all(SQL.page_of, owner=owner, agents=spelled(agents), **given)
    return [Line(*row) for row in rows]


def _id(moment: float) -> str:
    """The beginning of the ids of a moment: microseconds, in digits that sort."""
    return f"{int(moment * 1_000_000):016x}"


def _about(params: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The agent that a path names, and what else it names last."""
    agent = params.get("agentId") or params.get("agent")
    if agent is not None and len(params) == 1:
        return _name(agent[:_LONGEST]), None
    others = [value for name, value in params.items() if name not in ("agentId", "agent")]
    return _short(agent), _short(others[-1] if others else None)


def _short(text: str | None) -> str | None:
    return None if text is None else _writable(text[:_LONGEST])


def _writable(text: str) -> str:
    # What can be printed in ASCII is written as it is.
    return text if text.isascii() and text.isprintable() else writable(text)


#: The same for names, of which there are few.
_name = lru_cache(_writable)
