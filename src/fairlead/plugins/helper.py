"""The process of one plugin: takes calls over lanes, makes them, and carries host calls back.

Started as a bare interpreter that loads this file and its neighbours by path, not as part of the package: it imports
almost nothing, so that it starts quickly. A lane is a pair of pipes, always made by the host, and
for its calls a thread; on a lane
talk is strictly last in, first out. A thread that the plugin made itself borrows a lane for each host call.
When the host goes away, this process ends, with all of its group.
"""

import _socket
import os
import sys
from _queue import Empty, SimpleQueue
from _thread import allocate_lock, get_ident, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fairlead.plugins import awake, confinement, frames, native, slots
elif __name__ == "helper":
    import awake
    import confinement
    import frames
    import native
    import slots
else:
    from fairlead.plugins import awake, confinement, frames, native, slots

_SIGKILL = 9
_LARGEST = frames.LARGEST


class Lane:
    """One pair of pipes; whoever has it, talks alone."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader, self.writer = reader, writer
        self.agent: bytes | None = None
        self._rest = b""
        self._orders = awake.Awake(reader)
        self._answers = awake.Awake(reader, awake.IN_TALK)
        os.set_blocking(reader, False)

    def send(self, kind: int, number: int, strings: "tuple[bytes | None, ...]" = ()) -> None:
        """Send a frame; returns when all of it is on its way. Raises `TooLarge` before any of it is."""
        data = frames.pack(kind, number, strings)
        size = len(data)
        if size > _LARGEST:
            raise frames.TooLarge(size)
        sent = os.write(self.writer, data)
        while sent < size:
            sent += os.write(self.writer, memoryview(data)[sent:])

    def order(self) -> "tuple[int, int, tuple[bytes | None, ...]]":
        """The next call; does not return when there is none any more."""
        return self._frame(self._rest or self._orders.read() or self._read())

    def answer(self) -> "tuple[int, int, tuple[bytes | None, ...]]":
        """What the host says to a host call."""
        return self._frame(self._rest or self._answers.read() or self._read())

    def _frame(self, data: bytes) -> "tuple[int, int, tuple[bytes | None, ...]]":
        size = frames.size(data)
        if len(data) == size:
            self._rest = b""
            return frames.unpack_order(data)
        parts, have = [data], len(data)
        while not size or have < size:
            parts.append(self._read())
            have += len(parts[-1])
            if not size:
                size = frames.size(b"".join(parts))
        data = b"".join(parts)
        self._rest = data[size:]
        return frames.unpack_order(data[:size])

    def _read(self) -> bytes:
        data = self._orders.sleep()
        if not data:
            # The host has closed the lane; whether it has gone altogether, the control socket tells.
            _wait_for_the_end()
        return data


def _wait_for_the_end() -> None:
    never = allocate_lock()
    never.acquire()
    never.acquire()


class Helper:
    """The plugin in this process, and the way back to its host."""

    def __init__(self, control: int, library: str) -> None:
        self._control = _socket.socket(fileno=control)
        self._path = library
        self._lanes: dict[int, Lane] = {}
        self._borrowable: SimpleQueue[Lane] = SimpleQueue()
        self._borrowed = 0
        self._asking = allocate_lock()
        self._library: native.Library | None = None

    def run(self) -> None:
        """Serve until the host says so, or goes away."""
        while True:
            try:
                word, passed, _flags, _address = self._control.recvmsg(
                    1, _socket.CMSG_SPACE(8), _socket.MSG_CMSG_CLOEXEC
                )
            except OSError:  # the plugin closed it; the host sees that, too, tells its caller and ends us
                SimpleQueue[None]().get()
                return
            if word == frames.QUIT:
                os._exit(0)
            if not word or not passed:
                os.kill(0, _SIGKILL)
            reader, writer = memoryview(passed[0][2]).cast("i")
            if word == frames.LOAN:
                self._borrowable.put(Lane(reader, writer))
            else:
                start_new_thread(self._serve, (Lane(reader, writer),))

    def _serve(self, lane: Lane) -> None:
        self._lanes[get_ident()] = lane
        while True:
            _kind, number, strings = lane.order()
            lane.agent = strings[0]
            try:
                kind, given = frames.RETURN, self._made(number, strings[1:])
            except Exception as exc:
                kind, given = frames.FAILED, (_text(exc),)
            lane.agent = None
            try:
                lane.send(kind, number, given)
            except frames.TooLarge as exc:
                lane.send(frames.FAILED, number, (b"its answer is too large: " + _text(exc),))

    def _made(self, what: int, args: "tuple[bytes | None, ...]") -> "tuple[bytes | None, ...]":
        library = self._library
        if library is None:
            return self._load()
        if what == frames.INVOKE:
            return (library.invoke(*args),)  # type: ignore[arg-type]
        if what == frames.ROUTE:
            return (library.handle_route(*args),)  # type: ignore[arg-type]
        if what == frames.CONFIG:
            library.config_changed(*args)  # type: ignore[arg-type]
        elif what == frames.EVENT:
            task, event, payload = args
            library.task_event(task, int(event or 0), payload)  # type: ignore[arg-type]
        else:
            library.destroy()
        return ()

    def _load(self) -> "tuple[bytes | None, ...]":
        library = _opened(self._path)
        manifest = library.load(self)
        self._library = library
        offers = bytes(b"ny"[each] for each in (library.routes, library.config, library.events))
        return b"%d" % library.abi, offers, manifest

    # --- host calls, on whichever thread the plugin makes them ---

    def ask(self, slot: int, args: "tuple[bytes | None, ...]") -> "bytes | None":
        """The host's answer."""
        lane = self._lanes.get(get_ident())
        if lane is None:
            return self._borrowing(lambda: self.ask(slot, args))
        try:
            lane.send(frames.HOST, slot, args)
        except frames.TooLarge as exc:
            if slots.ALL[slot - 1].gives == slots.JSON:
                return _refused(exc)
            lane.send(frames.HOST, slot, _cut(args))
        answer: bytes | None = lane.answer()[2][0]
        return answer

    def note(self, slot: int, args: "tuple[bytes | None, ...]") -> None:
        """Tell the host, and do not wait."""
        lane = self._lanes.get(get_ident())
        if lane is None:
            self._borrowing(lambda: self.note(slot, args))
            return
        try:
            lane.send(frames.NOTE, slot, args)
        except frames.TooLarge:
            lane.send(frames.NOTE, slot, _cut(args))

    def stream(self, request: bytes, chunk: "Callable[[bytes], None] | None") -> "bytes | None":
        """The host's answer to `complete_stream`, its pieces given to the plugin on this thread."""
        lane = self._lanes.get(get_ident())
        if lane is None:
            return self._borrowing(lambda: self.stream(request, chunk))
        try:
            lane.send(frames.HOST, slots.COMPLETE_STREAM, (request, b"" if chunk else None))
        except frames.TooLarge as exc:
            return _refused(exc)
        while True:
            kind, _number, strings = lane.answer()
            if kind == frames.REPLY or chunk is None:
                return strings[0]
            chunk(strings[0] or b"")
            lane.send(frames.CHUNK_DONE, 0)

    def agent(self) -> "bytes | None":
        """The agent of the call that this thread is in."""
        lane = self._lanes.get(get_ident())
        return lane.agent if lane else None

    def _borrowing(self, work: "Callable[[], bytes | None]") -> "bytes | None":
        lane = self._borrow()
        thread = get_ident()
        self._lanes[thread] = lane
        try:
            return work()
        finally:
            del self._lanes[thread]
            self._borrowable.put(lane)

    def _borrow(self) -> Lane:
        try:
            return self._borrowable.get_nowait()
        except Empty:
            pass
        with self._asking:
            more = self._borrowed < frames.MOST_BORROWED
            self._borrowed += more
        if more:
            self._control.send(frames.BORROW)
        return self._borrowable.get()


def _opened(path: str) -> "native.Library":
    if not path.endswith(".py"):
        return native.Library(path)
    import sdk  # type: ignore[import-not-found]

    opened: native.Library = sdk.opened(path)
    return opened


def _refused(exc: Exception) -> bytes:
    """What a plugin hears of a request that the host cannot be sent."""
    return b'{"error":"request_too_large","message":"The request is too large: %s."}' % _text(exc)


def _cut(args: "tuple[bytes | None, ...]") -> "tuple[bytes | None, ...]":
    """What is left of a call without an answer: the host still sees that it was made, and that it is too large."""
    return tuple(each and each[: frames.CUT] for each in args)


def _text(exc: Exception) -> bytes:
    said = str(exc) if isinstance(exc, native.LoadError | frames.TooLarge) else f"{type(exc).__name__}: {exc}"
    return said.encode("utf-8", "replace")


def leave_terminal() -> None:
    """Give up the terminal that the host may run at: nobody here can type into it, or be stopped by it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # there is none
        return
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCNOTTY)
    os.close(terminal)


def main() -> None:
    """Put up the fence that the host asks for, then serve."""
    leave_terminal()
    control = int(sys.argv[1])
    first = Lane(control, control)
    _kind, _number, strings = first.order()
    library, fence, allowed, limits, readable, writable = (os.fsdecode(each or b"") for each in strings)
    try:
        if fence != "none":
            confinement.confine(
                landlock=fence == "landlock",
                allowed=frozenset(allowed.split()),
                limits={
                    name: int(most) for name, _, most in (each.partition("=") for each in limits.split())
                },
                readable=readable.split("\0") if readable else [],
                writable=writable.split("\0") if writable else [],
            )
    except Exception as exc:
        first.send(frames.FAILED, 0, (_text(exc),))
        os._exit(1)
    first.send(frames.RETURN, 0, ())
    os.set_blocking(control, True)
    Helper(control, library).run()
