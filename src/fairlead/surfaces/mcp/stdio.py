"""MCP over stdin and stdout: bytes in, bytes out, and nothing but the protocol on stdout.

What the messages say is `Connection`'s business, where they end is `Framer`'s. Here are the pipes: they are taken
away from the rest of the process before any code of the app runs, so that neither a stray `print`, nor a C library,
nor a child process can write into the protocol or read from it.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.surfaces.mcp.connection import Connection
from fairlead.surfaces.mcp.framing import LARGEST, Frame, Framer, Framing, Refused, decoded

if TYPE_CHECKING:
    from fairlead.runtime import Signal
    from fairlead.surfaces.mcp.server import Server

#: How long running calls may take to end when the input has. Clients wait about two seconds before they kill.
GRACE: Final = 1.0
#: How long calls that are cancelled may take to clean up.
_CLOSING: Final = 0.5
_CHUNK: Final = 65536
#: How many bytes may wait for a client that does not read; then nothing more is read from it.
_HIGH_WATER: Final = 1 << 20
_LOCAL: Final[Any] = object()

#: What to wait for before more is sent or read; None when there is no need to.
Room = asyncio.Future[None] | None
Received = Callable[[bytes], Room]


class Pipes:
    """The protocol's two ends, on descriptors of their own that no child process inherits."""

    def __init__(self) -> None:
        """Take stdin and stdout. From here on prints go to stderr, and whoever reads stdin finds it empty."""
        _flush(sys.stdout)
        try:
            self.source = os.dup(0)
            self.sink = os.dup(1)
        except OSError as exc:
            raise Failure(Kind.misconfigured, "There is no stdin or no stdout to serve a client on.") from exc
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # there is no stderr
            os.dup2(nothing, 1)
        os.close(nothing)
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")

    def give_back(self) -> None:
        """Make them the process's stdin and stdout again."""
        _flush(sys.stdout)
        os.dup2(self.source, 0)
        os.dup2(self.sink, 1)
        os.close(self.source)
        os.close(self.sink)


def _flush(stream: Any) -> None:
    with suppress(OSError, ValueError, AttributeError):
        stream.flush()


async def serve_stdio(
    server: Server,
    *,
    framing: Framing = "auto",
    max_frame_bytes: int = LARGEST,
    user: Any = _LOCAL,
    auth: Any = _LOCAL,
    grace: float = GRACE,
    pipes: Pipes | None = None,
) -> None:
    """Serve the client at the other end of stdin and stdout until it hangs up.

    The calls are made for the person who runs the program unless `user` or `auth` say otherwise. When the input
    ends, running calls have `grace` seconds to end too; then they are cancelled. So they are at once when nobody
    reads the answers any more, and when this is cancelled.
    """
    from fairlead.surfaces.cli.identity import local

    person = local()
    who = {
        "user": person.user if user is _LOCAL else user,
        "auth": person.auth if auth is _LOCAL else auth,
    }
    taken = Pipes() if pipes is None else pipes
    try:
        await _Link(server, taken, Framer(framing, max_frame_bytes), who).serve(grace)
    finally:
        if pipes is None:
            taken.give_back()


def run(server: Server, **options: Any) -> int:
    """Serve as a process of its own, to its exit code: until the client hangs up, or Ctrl-C or SIGTERM ask to stop.

    The options are those of `serve_stdio`.
    """
    from fairlead.surfaces.cli import interrupts

    loop: asyncio.AbstractEventLoop | None = None
    with suppress(ImportError):  # where it is installed, a call costs a quarter less
        import uvloop

        loop = uvloop.new_event_loop()
    return interrupts.run(lambda signal: _serve(server, signal, options), loop)


async def _serve(server: Server, signal: Signal, options: dict[str, Any]) -> int:
    loop = asyncio.get_running_loop()
    serving = loop.create_task(serve_stdio(server, **options))
    signal.subscribe(lambda: loop.call_soon_threadsafe(serving.cancel))
    await asyncio.wait((serving,))
    if not serving.cancelled():
        serving.result()
    await server.app.stop()
    return 0


class _Link:
    """One client, from the first byte to the last."""

    def __init__(self, server: Server, pipes: Pipes, framer: Framer, who: dict[str, Any]) -> None:
        self._framer = framer
        self._pipes = pipes
        self._ended = asyncio.get_running_loop().create_future()
        self._output = _Output(pipes.sink)
        self._connection = Connection(server, self._send, **who)

    async def serve(self, grace: float) -> None:
        source = _source(self._pipes.source, self._received)
        gone = self._output.gone
        try:
            await asyncio.wait((self._ended, gone), return_when=asyncio.FIRST_COMPLETED)
            for frame in self._framer.finish():
                self._take(frame)
            finishing = asyncio.ensure_future(self._connection.finish())
            await asyncio.wait((finishing, gone), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            finishing.cancel()
        finally:
            source.close()
            await asyncio.wait((asyncio.ensure_future(self._connection.close()),), timeout=_CLOSING)
            await self._output.close(grace)

    def _received(self, data: bytes) -> Room:
        """Take what came; gives what to wait for before more is read."""
        for frame in self._framer.feed(data):
            self._take(frame)
        if not data and not self._ended.done():
            self._ended.set_result(None)
        return self._output.room()

    def _take(self, frame: Frame) -> None:
        message = decoded(frame)
        if type(message) is Refused:
            self._send(message.answer)
        else:
            self._connection.take(message)

    def _send(self, body: bytes) -> Room:
        return self._output.write(self._framer.wrap(body))


class _Output:
    """Writes without waiting. What the pipe does not take is kept, in order, until it does."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        #: Done when there is nobody to read any more.
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._kept: deque[memoryview] = deque()
        self._size = 0
        self._watching = False
        self._waiting: list[asyncio.Future[None]] = []
        self._patient = _is_ours(descriptor)
        if self._patient:
            os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> Room:
        """Write, or keep what cannot be written yet; gives what `room` does."""
        written = 0 if self._kept else self._written(data)
        if written == len(data):
            return None
        self._kept.append(memoryview(data)[written:])
        self._size += len(data) - written
        if not self._watching:
            self._watching = True
            self._loop.add_writer(self._descriptor, self._writable)
        return self.room()

    def room(self) -> Room:
        """None while there is room for more, else what to wait for."""
        return self._drained() if self._size > _HIGH_WATER else None

    async def close(self, grace: float) -> None:
        """Write what is kept, if the client reads it in time, and leave the pipe as it was."""
        if self._kept:
            await asyncio.wait((self._drained(),), timeout=grace)
        self._forget()
        if self._patient:
            os.set_blocking(self._descriptor, True)

    def _drained(self) -> asyncio.Future[None]:
        """Each waits for one of its own, so that nobody's cancellation is another's."""
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        return waiting

    def _writable(self) -> None:
        while self._kept:
            data = self._kept[0]
            written = self._written(data)
            self._size -= written
            if written < len(data):
                self._kept[0] = data[written:]
                break
            self._kept.popleft()
        if not self._kept or self.gone.done():
            self._forget()

    def _forget(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._descriptor)
        self._kept.clear()
        self._size = 0
        for each in self._waiting:
            if not each.done():
                each.set_result(None)
        self._waiting.clear()

    def _written(self, data: bytes | memoryview) -> int:
        """Write as much as there is room for; gives how much that was."""
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError:  # the client has gone, and there is nobody to tell
            if not self.gone.done():
                self.gone.set_result(None)
            return len(data)


def _is_ours(descriptor: int) -> bool:
    """Whether we may have writes return at once: on a pipe or a socket that nobody else writes to.

    A terminal is shared with the shell, stderr with everyone; and a file never makes one wait.
    """
    if os.name != "posix":
        return False
    found = os.fstat(descriptor)
    try:
        shared = os.path.samestat(found, os.fstat(2))
    except OSError:
        shared = False
    return not shared and (stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode))


class _Polled:
    """Reads when the event loop says that there is something."""

    def __init__(self, descriptor: int, received: Received) -> None:
        self._descriptor = descriptor
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.Future[None] | None = None
        self._loop.add_reader(descriptor, self._readable)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        if self._pause is not None:
            self._pause.cancel()

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._pause = self._received(data)
        if not data:
            self.close()
        elif self._pause is not None:
            self._loop.remove_reader(self._descriptor)
            self._pause.add_done_callback(self._resume)

    def _resume(self, pause: asyncio.Future[None]) -> None:
        if not pause.cancelled():
            self._loop.add_reader(self._descriptor, self._readable)


class _Threaded:
    """Reads on a thread, where the event loop cannot tell: files, and all input on Windows."""

    def __init__(self, descriptor: int, received: Received) -> None:
        self._descriptor = descriptor
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._next = threading.Event()
        threading.Thread(target=self._read, name="fairlead-stdin", daemon=True).start()

    def close(self) -> None:
        self._received = lambda data: None

    def _read(self) -> None:
        data = b"anything"
        while data:
            try:
                data = os.read(self._descriptor, _CHUNK)
            except OSError:
                data = b""
            self._next.clear()
            try:
                self._loop.call_soon_threadsafe(self._deliver, data)
            except RuntimeError:  # the loop has been closed meanwhile
                return
            self._next.wait()

    def _deliver(self, data: bytes) -> None:
        pause = self._received(data)
        if pause is None:
            self._next.set()
        else:
            pause.add_done_callback(lambda _: self._next.set())


def _source(descriptor: int, received: Received) -> _Polled | _Threaded:
    try:
        return _Polled(descriptor, received)
    except (OSError, NotImplementedError):
        return _Threaded(descriptor, received)
