"""`Insights`: what plugins log and what they ask of the host, kept in the store, to be searched and followed.

Lines are redacted as all events are, and written behind, many at once, by a thread: a process that is killed loses
those of its last moment. A plugin that logs faster than that loses lines, and is told how many.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.failures import Failure
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.plugins.slots import LOG_LEVELS
from fairlead.runtime.hooks import report
from fairlead.store.statements import Statement, statements
from fairlead.store.store import Row, Store, Tx, writable

SQL: Final = statements(__file__, "logs.sql")
#: Told whenever lines were written.
TOPIC: Final = "insights"
#: The method of a plugin's own lines.
LOG: Final = "LOG"
WARN: Final = 3
ERROR: Final = 4

#: Lines that are kept, for how many seconds, and how many are listed at once.
KEPT: Final = 100_000
KEPT_FOR: Final = 14 * 86400.0
MOST_LISTED: Final = 1000
#: Characters of a message, of what comes with it, and of a line's searched text.
LONGEST: Final = 8192
LONGEST_BODY: Final = 65_536
_LONGEST_SEARCH: Final = 32_768
#: Lines and characters of one plugin that may wait to be written.
MOST_WAITING: Final = 2000
_MOST_CHARACTERS: Final = 4_000_000
#: Values of a plugin's configuration that are kept out of its lines, and how long such a value is at least.
_MOST_HIDDEN: Final = 256
_SHORTEST_HIDDEN: Final = 8
#: Characters beyond the longest that are looked at, so that what looks like a secret is known for one at the cut.
_BEYOND: Final = 1024
_EVERY: Final = 0.2
#: Seconds without a line after which the thread ends; the next line begins another.
_IDLE: Final = 5.0
_PRUNE_EVERY: Final = 60.0
_PRUNED: Final = 5000
#: Seconds that a line may come later than its time says, from another process.
_LATE: Final = 5.0
_MOST_TERMS: Final = 8
_TERMS: Final = re.compile(r'"([^"]+)"|(\S+)')
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_COLUMNS: Final = "id, at, plugin, agent, level, method, message, status, body, took_ms"
_END: Final = "g"
_LOGGING: Final = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


class Line(NamedTuple):
    """One line of Insights."""

    id: str
    at: float
    plugin: str
    agent: str | None
    level: int
    method: str
    message: str
    status: int
    #: What was given besides the message; a plain line has its message here.
    body: str
    took_ms: float | None

    @property
    def title(self) -> str:
        """The line as one text: `LOG [WARN] words`, `POST /host-api/dispatch`."""
        if self.method == LOG:
            return f"LOG [{level_name(self.level)}] {self.message}"
        return f"{self.method} {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """The line as JSON."""
        moment = datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds")
        told = self._asdict()
        del told["at"]
        return told | {
            "time": moment.replace("+00:00", "Z"),
            "level": level_name(self.level),
            "title": self.title,
            "fields": fields_of(self.body),
        }


class _Note(NamedTuple):
    id: str
    at: float
    plugin: str
    agent: str | None
    level: int
    method: str
    message: str
    status: int
    body: str | None
    took_ms: float | None
    #: Characters beyond the longest that were left for now: secrets are hidden before the line is cut.
    beyond: int = _BEYOND


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines: of a plugin, an agent, a level or above, of a time, and with words or fields (`key=value`)."""

    plugin: str | None = None
    agent: str | None = None
    level: int | None = None
    since: float = 0.0
    text: str = ""


class Insights:
    """The log of a store. Lines may be noted on any thread."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor = DEFAULT,
        *,
        clock: Callable[[], float] = time.time,
        kept: int = KEPT,
        kept_for: float = KEPT_FOR,
    ) -> None:
        self._store = store
        self.redactor = redactor
        self._clock = clock
        self._kept = kept
        self._kept_for = kept_for
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: list[_Note] = []
        #: Lines and characters that wait, and lines that were lost, by plugin.
        self._held: dict[str, list[int]] = {}
        self._lost: dict[str, int] = {}
        #: Values that are not to be read in the lines of a plugin.
        self._hidden: dict[str, dict[str, None]] = {}
        self._longest: dict[str, int] = {}
        self._last = 0
        self._pruned = float("-inf")
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def log(
        self, plugin: str, agent: str | None, level: int, message: str, payload: str | None = None
    ) -> None:
        """Keep a line of a plugin's own; `payload` is what it gives to be searched."""
        level = level if 0 <= level < len(LOG_LEVELS) else -1
        status = {WARN: 299, ERROR: 500}.get(level, 200)
        self._note(plugin, agent, level, LOG, message, status, payload, None)

    def call(
        self,
        plugin: str,
        agent: str | None,
        what: str,
        status: int,
        body: str | None = None,
        took_ms: float | None = None,
    ) -> None:
        """Keep a line about what a plugin asked: `what` is a method and a path."""
        method, _, path = what.partition(" ")
        level = ERROR if status >= 500 else WARN if status >= 400 else 2
        self._note(plugin, agent, level, method, path, status, body, took_ms)

    def hide(self, plugin: str, value: str) -> None:
        """Keep a value of a plugin's configuration out of its lines. Short ones are too common to be secret."""
        if not _SHORTEST_HIDDEN <= len(value) <= LONGEST:
            return
        with self._lock:
            hidden = self._hidden.setdefault(plugin, {})
            # As it is, and as JSON would have it.
            for form in (value, dumps(writable(value))[1:-1]):
                hidden.pop(form, None)
                hidden[form] = None
                self._longest[plugin] = max(self._longest.get(plugin, 0), len(form))
            while len(hidden) > _MOST_HIDDEN:
                del hidden[next(iter(hidden))]

    def discreet(self, plugin: str, text: str) -> str:
        """What a plugin says, without its secrets."""
        return writable(self.redactor.text(self._without(plugin, text)))

    def flush(self) -> None:
        """Write what waits, on this thread."""
        with self._writing:
            with self._lock:
                notes, self._waiting = self._waiting, []
                lost, self._lost = self._lost, {}
                self._held.clear()
            notes += [self._loss(plugin, count) for plugin, count in lost.items()]
            now = self._clock()
            prune = now - self._pruned > _PRUNE_EVERY
            if not notes:
                return
            rows = [self._row(note) for note in notes]
            try:
                self._store.write_now(lambda tx: self._write(tx, rows, now if prune else None))
            except Failure as failure:
                if failure.message.endswith("is closed."):
                    return  # when the program has ended, its last words have nowhere to go
                report(f"Insights could not be written: {failure.message}", self.redactor)
                with self._lock:
                    for note in notes:
                        self._lost[note.plugin] = self._lost.get(note.plugin, 0) + 1
                return
            if prune:
                self._pruned = now

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._stop.set()
        self._wake.set()
        if thread is not None:
            thread.join()
        self.flush()

    async def page(
        self, wanted: Wanted | None = None, *, before: str | None = None, most: int = 100
    ) -> list[Line]:
        """The newest lines that are wanted, the newest first; `before` is the id of the last that is known."""
        return await self._store.read(lambda tx: _page(tx, wanted or Wanted(), "", before, most))

    def page_now(
        self, wanted: Wanted | None = None, *, before: str | None = None, most: int = 100
    ) -> list[Line]:
        """`page` for code without an event loop."""
        return self._store.read_now(lambda tx: _page(tx, wanted or Wanted(), "", before, most))

    async def follow(self, wanted: Wanted | None = None, *, first: int = 10) -> AsyncIterator[Line]:
        """The newest lines that are wanted, the oldest of them first, and then each new one, from any process."""
        asked, seen = wanted or Wanted(), dict[str, None]()
        with self._store.listening(TOPIC) as bell:
            newest = await self.page(asked, most=max(first, 1))
            after = newest[0].id if newest else _id(0.0)
            # What is there already is known, and all of it that is not among the newest is passed over.
            async for line in self._from(asked, _before(after)):
                seen[line.id] = None
            for line in reversed(newest[:first]):
                seen[line.id] = None
                yield line
            while True:
                # Others may write lines of a moment ago, so that much is read again.
                start = _before(after)
                seen = {id: None for id in seen if id >= start}
                async for line in self._from(asked, start):
                    after = max(after, line.id)
                    if line.id not in seen:
                        seen[line.id] = None
                        yield line
                await bell.rung(_LATE)

    async def _from(self, wanted: Wanted, start: str) -> AsyncIterator[Line]:
        """The lines from an id on, the oldest first."""
        while lines := await self._after(wanted, start):
            for line in lines:
                yield line
            start = lines[-1].id + "0"

    async def _after(self, wanted: Wanted, after: str) -> list[Line]:
        return await self._store.read(lambda tx: _page(tx, wanted, after, None, MOST_LISTED, oldest=True))

    async def plugins(self) -> dict[str, int]:
        """Which plugins have lines, and how many."""
        return {name: int(count) for name, count in await self._store.read(lambda tx: tx.all(SQL.plugins))}

    async def forget(self, plugin: str) -> int:
        """Forget the lines of a plugin."""
        await asyncio.to_thread(self.flush)
        return await self._store.write(lambda tx: tx.run(SQL.forget, plugin=plugin))

    def _note(
        self,
        plugin: str,
        agent: str | None,
        level: int,
        method: str,
        message: str,
        status: int,
        body: str | None,
        took_ms: float | None,
    ) -> None:
        now = self._clock()
        beyond = self._longest.get(plugin, 0) + _BEYOND
        message = message[: LONGEST + beyond]
        body = None if body is None else body[: LONGEST_BODY + beyond]
        with self._lock:
            held = self._held.setdefault(plugin, [0, 0])
            if held[0] >= MOST_WAITING or held[1] > _MOST_CHARACTERS:
                self._lost[plugin] = self._lost.get(plugin, 0) + 1
                return
            held[0] += 1
            held[1] += len(message) + len(body or "")
            # Lines of one process are in the order in which they were noted, whatever the clock does.
            self._last = max(int(now * 1_000_000), self._last + 1)
            id = f"{self._last:016x}{threading.get_native_id() & 0xFFFFFF:06x}"
            self._waiting.append(
                _Note(id, now, plugin, agent, level, method, message, status, body, took_ms, beyond)
            )
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="insights", daemon=True)
                self._thread.start()
                atexit.register(self.flush)
        if not self._wake.is_set():
            self._wake.set()

    def _work(self) -> None:
        while True:
            woken = self._wake.wait(_IDLE)
            # Lines gather for a moment, and are written together.
            self._stop.wait(_EVERY if woken else 0)
            self._wake.clear()
            try:
                self.flush()
            except Exception:
                report("Insights could not be written.", self.redactor)
            with self._lock:
                if self._closed or not (woken or self._waiting):
                    self._thread = None
                    atexit.unregister(self.flush)
                    return

    def _loss(self, plugin: str, count: int) -> _Note:
        words = f"{count} lines were lost: the plugin logs faster than they can be kept."
        now = self._clock()
        with self._lock:
            self._last = max(int(now * 1_000_000), self._last + 1)
            id = f"{self._last:016x}000000"
        return _Note(id, now, plugin, None, WARN, LOG, words, 299, None, None)

    def _row(self, note: _Note) -> dict[str, Any]:
        redactor = self.redactor
        message = _cut(self.discreet(note.plugin, note.message), note.message, LONGEST, note.beyond)
        body = None
        if note.body is not None:
            body = writable(_redacted(self._without(note.plugin, note.body), redactor))
            body = _cut(body, note.body, LONGEST_BODY, note.beyond)
        if note.method == LOG:
            level = _LOGGING[note.level] if note.level >= 0 else logging.INFO
            # It may go to a terminal, to which a plugin has nothing to say.
            plain = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", message)
            logging.getLogger("fairlead.plugins").log(level, "%s: %s", note.plugin, plain)
        told = note._asdict() | {"message": message, "body": body}
        del told["beyond"]
        return told | {"search": _searched(note.plugin, message, body)}

    def _without(self, plugin: str, text: str) -> str:
        """A text without the values that are hidden."""
        with self._lock:
            hidden = list(self._hidden.get(plugin, ()))
        for value in hidden:
            text = text.replace(value, self.redactor.placeholder)
        return text

    def _write(self, tx: Tx, rows: list[dict[str, Any]], prune: float | None) -> None:
        tx.many(SQL.add, rows)
        if prune is not None:
            before = _id(max(0.0, prune - self._kept_for))
            oldest = tx.one(SQL.oldest_kept, rows=self._kept - 1)
            tx.run(SQL.prune, before=max(before, oldest[0] if oldest else ""), most=_PRUNED)
        tx.tell(TOPIC)


def level_name(level: int) -> str:
    """A level as it is shown; numbers that have no name are LOG."""
    return LOG_LEVELS[level] if 0 <= level < len(LOG_LEVELS) else LOG


def level_of(name: str) -> int | None:
    """The number of a level's name, in any case; None if there is none of that name."""
    return LOG_LEVELS.index(name.upper()) if name.upper() in LOG_LEVELS else None


def fields_of(body: str) -> dict[str, str]:
    """The fields of a body that is a JSON object, by their paths; none of another."""
    try:
        value = loads(body)
    except ValueError:
        return {}
    return dict(_flat(value, "")) if isinstance(value, dict) else {}


def _flat(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth < 8:
        for key, each in value.items():
            yield from _flat(each, f"{path}.{key}" if path else str(key), depth + 1)
    elif path:
        yield path, value if isinstance(value, str) else dumps(value)


def _cut(shown: str, noted: str, longest: int, beyond: int) -> str:
    """A text without its secrets, cut. At the end of what was noted there may be the beginning of one."""
    whole = len(noted) < longest + beyond
    return (shown if whole else shown[:-beyond])[:longest]


def _redacted(body: str, redactor: Redactor) -> str:
    try:
        value = loads(body)
    except ValueError:
        return redactor.text(body)
    return dumps(redactor.value(value)) if isinstance(value, dict | list) else redactor.text(body)


def _searched(plugin: str, message: str, body: str | None) -> str:
    fields = "".join(f"{key}={value}\n" for key, value in fields_of(body or "").items())
    text = f"\nplugin={plugin}\n{fields}{message}\n{'' if fields else body or ''}".lower()
    return writable(text[:_LONGEST_SEARCH])


def _page(
    tx: Tx, wanted: Wanted, after: str, before: str | None, most: int, oldest: bool = False
) -> list[Line]:
    since = max(_id(max(0.0, wanted.since)), after)
    conditions = ["id >= :since", "id < :before"]
    values: dict[str, Any] = {"since": since, "before": before or _END}
    for name in ("plugin", "agent"):
        if (value := getattr(wanted, name)) is not None:
            conditions.append(f"{name} = :{name}")
            values[name] = value
    if wanted.level is not None:
        conditions.append("level >= :level")
        values["level"] = wanted.level
    terms = [one or other for one, other in _TERMS.findall(wanted.text)][:_MOST_TERMS]
    for number, term in enumerate(terms):
        conditions.append(_holding(term, f"term{number}", values))
    given = {**values, "most": min(most, MOST_LISTED)}
    order = "" if oldest else "DESC"
    sql = f"SELECT {_COLUMNS} FROM insights WHERE {' AND '.join(conditions)} ORDER BY id {order} LIMIT :most"  # noqa: S608
    return [_line(row) for row in tx.all(Statement.of(sql), **given)]


def _holding(term: str, name: str, values: dict[str, Any]) -> str:
    """A condition for a word, or for a field `key=value`, which must be the whole value."""
    words = re.sub(r"([\\%_])", r"\\\1", writable(term.lower()))
    values[name] = f"%{words}%"
    condition = f"search LIKE :{name} ESCAPE '\\'"
    if "=" not in term:
        return condition
    values[f"{name}f"] = f"%\n{words}\n%"
    return f"(search LIKE :{name}f ESCAPE '\\' OR lower(message) LIKE :{name} ESCAPE '\\')"


def _line(row: Row) -> Line:
    line = Line(*row)
    return line if line.body is not None else line._replace(body=line.message)  # type: ignore[redundant-expr]


def _before(id: str) -> str:
    """The beginning of the ids that may still come when this one is there."""
    return _id(max(0.0, int(id[:16], 16) / 1e6 - _LATE))


def _id(moment: float) -> str:
    """The beginning of the ids of a moment: microseconds, in digits that sort."""
    return f"{int(moment * 1_000_000):016x}"
