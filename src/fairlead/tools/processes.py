"""Commands as processes: started in a session of their own, read while they run, and ended as a whole.

Each process has a thread that starts it, reads it and waits for it, so a process depends on no event loop. Where a
parent's death ends a child, the parent is that thread, which lives as long as the child. What a command means, and
what is told of it, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import IO, Final, Literal, cast
from uuid import uuid4

from fairlead._json import loads
from fairlead.tools.processes_census import living, marked
from fairlead.tools.processes_leash import LEASH
from fairlead.tools.processes_output import Printed, Tail
from fairlead.tools.session import CALLS

#: Seconds between asking a process to end and ending it.
GRACE: Final = 3.0
#: Seconds that output may still come after the process ended, from something that left its group.
_DRAIN: Final = 0.5
_PIECE: Final = 65_536
#: The environment variable that marks a command's processes, so that they are found wherever they went.
MARK: Final = "FAIRLEAD_COMMAND"

KilledBy = Literal["user", "idle_timeout", "cancelled"]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a process is started. A confined one is bubblewrap, which tells what it starts over a pipe."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    confined: bool = False


class Process:
    """One running command and all that it starts."""

    def __init__(
        self,
        launch: Launch,
        out: Printed,
        err: Printed | None,
        tail: Tail,
        *,
        call: str = "",
        closing: Callable[[], None] | None = None,
    ) -> None:
        self.launch = launch
        self.tail = tail
        #: The invocation that it belongs to.
        self.call = call
        #: The calls of models that it belongs to: the conversation's id, and the call's.
        self.calls = frozenset((session.id, id) for session, id in CALLS.get())
        self.pid = 0
        self.exit_code: int | None = None
        self.killed_by: KilledBy | None = None
        #: Processes that the command left in its group, and that were ended after it.
        self.left = 0
        #: When it last printed something.
        self.heard = time.monotonic()
        self.started = time.time()
        self._mark = uuid4().hex
        self._out, self._err = out, err
        self._closing = closing
        self._status = b""
        self._popen: subprocess.Popen[bytes] | None = None
        self._unwanted = False
        #: What it was sent before it was there.
        self._early: signal.Signals | None = None
        self._lock = threading.Lock()
        self._begun: Future[None] = _uncancellable()
        self._over: Future[None] = _uncancellable()

    # From the event loop.

    async def start(self) -> None:
        """Start the process; gives what the system said where it would not."""
        threading.Thread(target=self._live, name="fairlead-process", daemon=True).start()
        try:
            await asyncio.wrap_future(self._begun)
        except asyncio.CancelledError:
            self.kill()
            raise

    async def wait(self, seconds: float | None = None) -> bool:
        """Whether it is over, with everything that it started, within that time."""
        over = asyncio.wrap_future(self._over)
        try:
            await asyncio.wait({over}, timeout=seconds)
            return over.done()
        finally:
            over.cancel()

    async def end(self, by: KilledBy) -> None:
        """Ask the process and all it started to end; end what has not done so after the grace."""
        if self.over:
            return
        self.killed_by = self.killed_by or by
        try:
            self._signal(signal.SIGTERM)
            if not await self.wait(GRACE):
                self.kill()
                await self.wait(GRACE)
        finally:
            # Whoever has no patience for the grace gets none.
            self.kill()

    # From any thread.

    @property
    def over(self) -> bool:
        return self._over.done()

    def terminate(self, by: KilledBy = "user") -> None:
        """`end` for code that does not wait: what is left after the grace is ended then."""
        if not self.over:
            self.killed_by = self.killed_by or by
            self._signal(signal.SIGTERM)
            timer = threading.Timer(GRACE, self.kill)
            timer.daemon = True
            timer.start()
            self._over.add_done_callback(lambda _: timer.cancel())

    def kill(self) -> None:
        """End the process and all it started, now."""
        with self._lock:
            self._unwanted = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self.over:
                return
            if self._popen is None:
                self._early = number
                return
            if self.launch.confined:
                self._signal_inside(number)
            else:
                _to_group(self.pid, number)

    def _signal_inside(self, number: signal.Signals) -> None:
        """To what bubblewrap runs, not to bubblewrap, whose end is the end of all without any grace.

        Before bubblewrap has told what it runs, its end would leave that behind: then the signal waits.
        """
        inner = self._told("child-pid")
        if not isinstance(inner, int):
            self._early = number
        elif number == signal.SIGKILL or not _to_group(inner, number):
            # Without a group the command has not begun, and has nothing to clean up.
            for pid in (inner, self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _told(self, key: str) -> object:
        """What bubblewrap said of the inside: one JSON object a line."""
        for line in self._status.split(b"\n"):
            with contextlib.suppress(ValueError):
                if line.strip() and key in (told := loads(line)):
                    return cast("object", told[key])
        return None

    @property
    def never_ran(self) -> bool:
        """Whether bubblewrap gave up before it ran the command."""
        return self.launch.confined and self.exit_code == 1 and self._told("exit-code") is None

    # On the thread of this process.

    def _live(self) -> None:
        _RUNNING.add(self)
        try:
            with contextlib.ExitStack() as held:
                selector = held.enter_context(selectors.DefaultSelector())
                try:
                    self._spawn(selector, held)
                except BaseException as exc:
                    self._begun.set_exception(exc)
                    return
                self._begun.set_result(None)
                try:
                    self._follow(selector)
                except BaseException:
                    # Nobody would read it any more.
                    self.kill()
                    raise
        finally:
            for stream in (self._out, self._err):
                if stream is not None:
                    stream.close()
            if self._closing is not None:
                self._closing()
            _RUNNING.discard(self)
            LEASH.let_go(f"{MARK}={self._mark}", str(self.pid))
            self._over.set_result(None)

    def _spawn(self, selector: selectors.BaseSelector, held: contextlib.ExitStack) -> None:
        out, out_end = _pipe(held)
        err, err_end = (out, out_end) if self._err is None else _pipe(held)
        argv, ends = list(self.launch.argv), {out_end, err_end}
        told: list[int] = []
        if self.launch.confined:
            status, status_end = _pipe(held)
            selector.register(status, selectors.EVENT_READ, self._take_status)
            ends.add(status_end)
            told = [status_end.fileno()]
            argv[1:1] = ["--json-status-fd", str(told[0])]
        # Now: a process may do much before we hear that it was started.
        LEASH.hold(f"{MARK}={self._mark}")
        popen = subprocess.Popen(
            argv,
            cwd=self.launch.cwd,
            env={**self.launch.env, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=out_end,
            stderr=err_end,
            pass_fds=told,
            start_new_session=True,
        )
        for end in ends:
            end.close()
        selector.register(out, selectors.EVENT_READ, self._out.feed)
        if self._err is not None:
            selector.register(err, selectors.EVENT_READ, self._err.feed)
        self._taken(popen)

    def _taken(self, popen: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._popen, self.pid = popen, popen.pid
            self.heard = time.monotonic()
        if not self.launch.confined:
            LEASH.hold(str(self.pid))
        self._catch_up()

    def _take_status(self, data: bytes) -> None:
        with self._lock:
            self._status = (self._status + data)[-_PIECE:]
        self._catch_up()

    def _catch_up(self) -> None:
        """Pass on what was sent too early."""
        with self._lock:
            number, self._early = self._early, None
        if number is not None:
            self._signal(number)

    def _follow(self, selector: selectors.BaseSelector) -> None:
        """Read until the process has ended, end what it left, and read what that still said."""
        popen = self._popen
        assert popen is not None
        with _death(popen.pid) as death:
            if death is not None:
                selector.register(death, selectors.EVENT_READ)
            while (
                not self._step(selector, death, None if death is not None else 0.1) and popen.poll() is None
            ):
                pass
            if death is not None:
                selector.unregister(death)
        code = popen.wait()
        if not self.launch.confined:
            self._sweep()
        if self._unwanted or self.killed_by is not None:
            self._end_strays()
        until = time.monotonic() + _DRAIN
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            self._step(selector, None, left)
        self.exit_code = 128 - code if code < 0 else code

    def _step(self, selector: selectors.BaseSelector, death: int | None, timeout: float | None) -> bool:
        """Read what there is; gives whether the process is dead."""
        dead = False
        for key, _ in selector.select(timeout):
            if key.fd == death:
                dead = True
                continue
            data = os.read(key.fd, _PIECE)
            if not data:
                selector.unregister(key.fileobj)
                continue
            if key.data != self._take_status:
                self.heard = time.monotonic()
            key.data(data)
        return dead

    def _sweep(self) -> None:
        """End what the command left in its group: first politely."""
        if not (members := living(self.pid)):
            return
        self.left = len(members)
        _to_group(self.pid, signal.SIGTERM)
        until = time.monotonic() + GRACE
        while living(self.pid):
            if self._unwanted or time.monotonic() > until:
                _to_group(self.pid, signal.SIGKILL)
                return
            time.sleep(0.02)

    def _end_strays(self) -> None:
        """End what left the group, as a daemon does, or lost its bubblewrap.

        A process that is just becoming another program shows no mark, so one look is not enough.
        """
        until, quiet = time.monotonic() + GRACE, 0
        while quiet < 2 and time.monotonic() < until:
            found = marked(MARK, self._mark)
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            quiet = 0 if found else quiet + 1
            time.sleep(0.01)


def terminate(call: str, conversation: str | None = None) -> bool:
    """End the commands that a call runs, as a user's button does; gives whether it runs any.

    The call goes on with what they printed, and `killed_by` in its result is "user".

    Args:
        call: The id of a model's call, as `tool_progress` has it, or of an invocation.
        conversation: The conversation that the call is in, or the invocation of an agent that runs without one. Calls
            have the ids that models give them, which come again elsewhere.
    """
    found = [process for process in list(_RUNNING) if _belongs(process, call, conversation)]
    for process in found:
        process.terminate("user")
    return bool(found)


def _belongs(process: Process, call: str, conversation: str | None) -> bool:
    if conversation is not None:
        return (conversation, call) in process.calls
    return process.call == call or any(id == call for _, id in process.calls)


def _uncancellable() -> Future[None]:
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future


def _pipe(held: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    ours, theirs = os.pipe()
    return held.enter_context(open(ours, "rb", 0)), held.enter_context(open(theirs, "wb", 0))


@contextlib.contextmanager
def _death(pid: int) -> Iterator[int | None]:
    """A descriptor that can be read when the process is dead; None where the system has none."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _to_group(group: int, number: signal.Signals) -> bool:
    """Whether there is such a group, which then has the signal."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


#: What runs now.
_RUNNING: Final[set[Process]] = set()
if hasattr(os, "register_at_fork"):
    # A copy of this program is not the parent of what runs here.
    os.register_at_fork(after_in_child=_RUNNING.clear)


@atexit.register
def _end_all() -> None:
    """Commands end with the program that started them."""
    running = list(_RUNNING)
    for process in running:
        process._signal(signal.SIGTERM)
    until = time.monotonic() + 1.0
    for process in running:
        with contextlib.suppress(TimeoutError):
            process._over.result(max(0.0, until - time.monotonic()))
        process.kill()
