"""The host's end of a lane: a pair of pipes to a plugin's process, on which talk is last in, first out.

A call goes out, host calls come in and are answered, and what the call gives comes back. Bytes from the other side
are not trusted: what is no frame, or out of turn, ends the plugin. Processes and deadlines belong to `process.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol

from fairlead._json import dumps
from fairlead.failures import Failure, Kind, host
from fairlead.plugins import frames, slots
from fairlead.plugins.awake import IN_TALK, Awake
from fairlead.plugins.runner import Answer, Frame
from fairlead.plugins.texts import maybe_bytes, maybe_text

if TYPE_CHECKING:
    from fairlead.plugins.runner import Services

logger = logging.getLogger("fairlead.plugins")

Said = tuple[int, list[bytes | None]]
#: What a call is: words, or the kind and name of what is invoked.
Label = str | tuple[str, str]

_READ_AT_ONCE: Final = 65536
#: Seconds. An answer that comes so soon is worth waiting for on the spot; it is less than a few turns of the loop.
BRIEF: Final = 0.0001
#: How much of one lane is heard before others have their turn.
_AT_ONCE: Final = 32
#: Seconds that a thread which answered SQL waits for more of it.
LINGER: Final = 0.0003
_SQL: Final = (slots.DB_EXEC, slots.DB_QUERY)
#: What `select` can wait for.
_SELECTABLE: Final = 1024


class Peer(Protocol):
    """The process at the other end."""

    loop: asyncio.AbstractEventLoop
    loops_thread: int
    services: Services
    tasks: set[asyncio.Future[str | None]]
    #: Bytes of frames that have not come in whole.
    held: int

    def broke_off(self) -> None:
        """The other end was closed."""
        ...

    def misbehaved(self, what: str) -> None:
        """What came is against the rules."""
        ...

    def finished(self, lane: Lane) -> None:
        """The call on this lane has come back."""
        ...


class Lane:
    """One lane. At most one call is out on it at a time."""

    def __init__(self, peer: Peer, reader: int, writer: int, nobody: Frame) -> None:
        self.peer = peer
        self.reader, self.writer = reader, writer
        self.frame = self.nobody = nobody
        self.waiter: asyncio.Future[Said] | None = None
        self.timer: asyncio.TimerHandle | None = None
        #: What the call on it is, for messages.
        self.label: Label = ""
        #: Host calls that are being answered elsewhere than at once.
        self.open = 0
        self._chunks: list[asyncio.Future[None]] = []
        self._buffer = bytearray()
        self._unsent = bytearray()
        # A thread may answer while the loop closes the lane, and its number may have become something else.
        self._closing = threading.Lock()
        self.closed = False
        self._awake = Awake(reader, IN_TALK)
        #: A thread of the services reads it for now, in place of the loop.
        self.lent = False
        #: There is more to be heard, and it will be.
        self.paused = False
        #: Nothing comes from the other end any more.
        self.broken = False
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        peer.loop.add_reader(reader, self._readable)

    # --- sending ---

    def send(self, kind: int, number: int, strings: tuple[bytes | None, ...] = ()) -> None:
        """Send a frame, on the loop's thread."""
        if self.closed:
            return
        data = frames.pack_order(kind, number, strings)
        rest = len(data) - self._written(data)
        if rest:
            self._later(data[-rest:])

    def send_from_thread(self, kind: int, number: int, strings: tuple[bytes | None, ...] = ()) -> None:
        """Send a frame, on any thread."""
        data = frames.pack_order(kind, number, strings)
        with self._closing:
            if self.closed:
                return
            rest = len(data) - self._written(data)
        if rest:
            self.peer.loop.call_soon_threadsafe(self._later, data[-rest:])

    def _written(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self.writer, data)
        except BlockingIOError:
            return 0
        except OSError:
            # It has gone; whoever watches the process tells everybody who waits.
            return len(data)

    def _later(self, data: bytes) -> None:
        if self.closed:
            return
        if not self._unsent:
            self.peer.loop.add_writer(self.writer, self._writable)
        self._unsent += data

    def _writable(self) -> None:
        del self._unsent[: self._written(self._unsent)]
        if not self._unsent:
            self.peer.loop.remove_writer(self.writer)

    # --- receiving ---

    def briefly(self) -> Said | None:
        """What the call gives, if that comes at once. Host calls that can be answered at once are, meanwhile."""
        if self.reader >= _SELECTABLE:
            return None
        mine = (self.reader,)
        for _ in range(_AT_ONCE):
            if self.open or self.lent or self.paused or self.closed or self.broken:
                break
            frame = self._cut() if self._buffer else None
            if frame is None:
                if not select.select(mine, (), (), BRIEF)[0]:
                    break
                frame = self._next()
                if frame is None:
                    continue
            kind, _number, strings = frame
            if kind == frames.RETURN or kind == frames.FAILED:
                self.peer.finished(self)
                return kind, strings
            self._handle(*frame)
        if self._buffer:
            self._pause()
        return None

    def _readable(self) -> None:
        self._handle_all(self._next())

    def _handle_all(self, frame: tuple[int, int, list[bytes | None]] | None) -> None:
        for _ in range(_AT_ONCE):
            if frame is None:
                return
            self._handle(*frame)
            frame = self._cut() if self._buffer and not (self.closed or self.lent) else None
        if frame is not None:
            self._handle(*frame)
            self._pause()

    def _pause(self) -> None:
        """Let others have their turn before more of this is heard."""
        if not (self.closed or self.lent or self.paused):
            self.paused = True
            self.peer.loop.remove_reader(self.reader)
            self.peer.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self.paused = False
        if not (self.closed or self.lent or self.broken):
            self.peer.loop.add_reader(self.reader, self._readable)
            self._handle_all(self._cut())

    def _next(self) -> tuple[int, int, list[bytes | None]] | None:
        """Read what is there; the first frame, if it is whole."""
        try:
            data = os.read(self.reader, _READ_AT_ONCE)
        except BlockingIOError:
            return None
        if not data:
            self.broken = True
            self.peer.loop.remove_reader(self.reader)
            self.peer.broke_off()
            return None
        if not self._buffer:
            frame = frames.unpack_one(data)
            if frame is not None:
                return frame
            if len(data) == frames.size(data):
                return self._unpacked(data)
        self._buffer += data
        self.peer.held += len(data)
        return self._cut()

    def _cut(self) -> tuple[int, int, list[bytes | None]] | None:
        size = frames.size(self._buffer)
        if size > frames.LARGEST or self.peer.held > 2 * frames.LARGEST:
            self.peer.misbehaved("it sent more than fits one message")
            return None
        if not size or len(self._buffer) < size:
            return None
        with memoryview(self._buffer) as whole:
            data = bytes(whole[:size])
        del self._buffer[:size]
        self.peer.held -= size
        return self._unpacked(data)

    def _unpacked(self, data: bytes) -> tuple[int, int, list[bytes | None]] | None:
        try:
            return frames.unpack(data)
        except frames.Malformed:
            self.peer.misbehaved("what it sent cannot be read")
            return None

    def _handle(self, kind: int, number: int, strings: list[bytes | None]) -> None:
        if kind == frames.HOST or kind == frames.NOTE:
            self._asked(kind, number, strings)
        elif kind == frames.CHUNK_DONE and self._chunks:
            taken = self._chunks.pop()
            if not taken.done():
                taken.set_result(None)
        elif kind in (frames.RETURN, frames.FAILED) and self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            self.peer.finished(self)
            if not waiter.done():
                waiter.set_result((kind, strings))
        else:
            self.peer.misbehaved("it answered where nothing was asked")

    # --- host calls ---

    def _asked(self, kind: int, number: int, strings: list[bytes | None]) -> None:
        slot = slots.SLOTS[number] if number < len(slots.SLOTS) else None
        waits = kind == frames.HOST
        if slot is None or len(strings) != len(slot.args) or (slot.gives == slots.NOTE) == waits:
            self.peer.misbehaved("it asked for something that no host has")
            return
        # Who asks has read the last answer, and asks one thing at a time: what is held for a plugin is bounded.
        if waits and (self.open > len(self._chunks) or self._unsent):
            self.peer.misbehaved("it asked again before it had its answer")
            return
        args = tuple(map(maybe_text, strings))
        if number == slots.COMPLETE_STREAM:
            self._task(slot, self._streamed(args, self.frame))
            return
        try:
            answer = self.peer.services.call(number, args, self.frame)
        except Exception as exc:
            answer = refusal(slot, exc)
        self._answer(slot, answer, waits)

    def _answer(self, slot: slots.Slot, answer: Answer, waits: bool) -> None:
        if answer is None or isinstance(answer, str):
            if waits:
                self.send(frames.REPLY, 0, (maybe_bytes(answer),))
        elif isinstance(answer, Future):
            self.open += waits
            if slot.number in _SQL and hasattr(self.peer.services, "run"):
                self.lent = True
                self.peer.loop.remove_reader(self.reader)
            answer.add_done_callback(lambda done: self._answered_by_thread(slot, done, waits))
        else:
            self._task(slot, answer, waits)

    def _answered_by_thread(self, slot: slots.Slot, done: Future[str | None], waits: bool) -> None:
        try:
            answer = done.result()
        except BaseException as exc:
            answer = refusal(slot, exc)
        self.open -= waits
        if waits:
            self.send_from_thread(frames.REPLY, 0, (maybe_bytes(answer),))
        if self.lent:
            self._linger(self.frame)

    # --- SQL comes in bursts: the thread that answered stays on the lane for a moment ---

    def _linger(self, frame: Frame) -> None:
        """Answer the SQL that follows at once, on the thread that does SQL; anything else goes back to the loop."""
        services: Any = self.peer.services
        on_the_loop = threading.get_ident() == self.peer.loops_thread
        data = b""
        while not on_the_loop and not services.sql_waiting():
            data = self._read_within(LINGER)
            question = _sql_in(data)
            if question is None:
                break
            data = b""
            try:
                answer = services.run(*question, frame)
            except Exception as exc:
                answer = refusal(slots.BY_NAME["db_exec"], exc)
            self.send_from_thread(frames.REPLY, 0, (maybe_bytes(answer),))
        if on_the_loop:
            self._taken_back(data)
            return
        with contextlib.suppress(RuntimeError):
            self.peer.loop.call_soon_threadsafe(self._taken_back, data)

    def _read_within(self, seconds: float) -> bytes:
        with self._closing:
            if self.closed or self.reader >= _SELECTABLE:
                return b""
            data = self._awake.read()
            if data is not None:
                return data
            if not select.select((self.reader,), (), (), seconds)[0]:
                return b""
            # The other side could have taken it back meanwhile.
            with contextlib.suppress(BlockingIOError):
                return os.read(self.reader, _READ_AT_ONCE)
            return b""

    def _taken_back(self, data: bytes) -> None:
        self.lent = False
        if self.closed:
            return
        self.peer.loop.add_reader(self.reader, self._readable)
        self._buffer += data
        self.peer.held += len(data)
        self._handle_all(self._cut())

    def _task(self, slot: slots.Slot, answer: Awaitable[str | None], waits: bool = True) -> None:
        self.open += waits
        # Not wrapped into another coroutine: one that is cancelled before it began would leave this one behind.
        running = asyncio.ensure_future(answer, loop=self.peer.loop)
        self.peer.tasks.add(running)
        running.add_done_callback(lambda done: self._settled(slot, done, waits))

    def _settled(self, slot: slots.Slot, done: asyncio.Future[str | None], waits: bool) -> None:
        self.peer.tasks.discard(done)
        self.open -= waits
        if done.cancelled():
            answer = refusal(slot, asyncio.CancelledError())
        else:
            exc = done.exception()
            answer = done.result() if exc is None else refusal(slot, exc)
        if waits:
            self.send(frames.REPLY, 0, (maybe_bytes(answer),))

    async def _streamed(self, args: tuple[str | None, ...], frame: Frame) -> str | None:
        request, wanted = args
        return await self.peer.services.stream(request, frame, None if wanted is None else self._chunk)

    async def _chunk(self, piece: str) -> None:
        """Give one piece to the plugin; returns when it has taken it."""
        if self.closed:
            raise asyncio.CancelledError
        taken: asyncio.Future[None] = self.peer.loop.create_future()
        self._chunks.append(taken)
        self.send(frames.CHUNK, 0, (maybe_bytes(piece),))
        await taken

    # --- the end ---

    def close(self) -> None:
        """Let go of both pipes."""
        with self._closing:
            if self.closed:
                return
            self.closed = True
            if not (self.lent or self.paused):
                self.peer.loop.remove_reader(self.reader)
            if self._unsent:
                self.peer.loop.remove_writer(self.writer)
            os.close(self.reader)
            os.close(self.writer)
        if self.timer is not None:
            self.timer.cancel()
        self.peer.held -= len(self._buffer)
        for taken in self._chunks:
            taken.cancel()


def _sql_in(data: bytes) -> tuple[int, tuple[str | None, ...]] | None:
    """The slot and its arguments, if this is exactly one request for SQL."""
    try:
        kind, number, strings = frames.unpack_two(data) or frames.unpack(data)
    except frames.Malformed:
        return None
    if kind != frames.HOST or number not in _SQL or len(strings) != 2:
        return None
    sql, params = strings
    return number, (maybe_text(sql), maybe_text(params))


def refusal(slot: slots.Slot, exc: BaseException) -> str | None:
    """What a plugin hears when its host call failed."""
    if not isinstance(exc, Failure):
        if isinstance(exc, Exception):
            logger.error("The host failed to answer %s.", slot.name, exc_info=exc)
        exc = host.HostFailure(Kind.internal, f"The host failed to answer {slot.name}.", cause=exc)
    return dumps(host.render(exc), sort_keys=True) if slot.gives == slots.JSON else None
