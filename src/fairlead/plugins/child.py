"""One process of a plugin, from its start to its end: its fence, its lanes, its death.

It does not come back: whoever wants another one makes it. All of it happens on one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fairlead.failures import Failure, Kind
from fairlead.failures.host import HostFailure, HostTimeout
from fairlead.failures.redaction import DEFAULT
from fairlead.plugins import confinement, fences, frames, scratch
from fairlead.plugins.lanes import BRIEF, Label, Lane, Said
from fairlead.plugins.runner import Frame, Services, Terminated

#: Calls that may be in the plugin at once; more of them wait.
MOST_LANES: Final = 64
#: Seconds between the request to end and the end by force.
GRACE: Final = 2.0
#: Seconds for a plugin to be loaded.
LOADING: Final = 30.0
#: Characters of what a plugin printed that are told, and bytes that are kept to find its secrets in.
_LAST_WORDS: Final = 4096
_HEARD: Final = 65536

logger = logging.getLogger("fairlead.plugins")

While = Literal["load", "call", "idle"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plugin's process may use at most: bytes of memory and of a file, open files, and its folder."""

    data: int = 2 * 1024**3
    fsize: int = 1024**3
    nofile: int = 512
    core: int = 0
    #: All files in its folder together, and how many; looked at from outside.
    folder: int = 1024**3
    files: int = 10_000

    def told(self) -> str:
        """As the helper reads them."""
        return " ".join(f"{name}={getattr(self, name)}" for name in ("data", "fsize", "nofile", "core"))


@dataclass(frozen=True, slots=True)
class Exit:
    """How a plugin's process ended. `status` is the exit code, or a signal's number below zero."""

    reason: Literal["crash", "killed", "stopped"]
    status: int
    while_: While
    text: str
    last_words: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start, and within which fence."""

    plugin: str
    library: Path
    folder: Path
    scratch: Path
    allow: frozenset[str]
    limits: Limits
    fence: fences.Kind
    #: What it prints, as it may be shown.
    discreet: Callable[[str], str] = DEFAULT.text


class Child:
    """A plugin's process that runs, or has ended."""

    def __init__(self, plan: Plan, services: Services, ended: Callable[[Child, Exit], None]) -> None:
        self.plan = plan
        self.services = services
        self.loop = asyncio.get_running_loop()
        self.loops_thread = threading.get_ident()
        self.tasks: set[asyncio.Future[str | None]] = set()
        self.held = 0
        self.idle: list[Lane] = []
        #: Calls that are in the plugin now.
        self.busy = 0
        #: Above zero while answers are expected to come at once.
        self.quick = 1
        self.loading = True
        #: Set once it takes no more calls, with what callers are told.
        self.over: Failure | None = None
        self.exited: asyncio.Future[Exit] = self.loop.create_future()
        self._ended = ended
        self._nobody = Frame(plan.plugin)
        self._lanes: list[Lane] = []
        self._borrowed: list[Lane] = []
        self._queue: deque[asyncio.Future[Lane]] = deque()
        self._reason: Literal["crash", "killed", "stopped"] = "crash"
        self._because = ""
        self._force: asyncio.TimerHandle | None = None
        self._left = asyncio.Event()
        self._words = self._line = b""
        #: Whether its folder held more than it may.
        self.overfull = False
        self._start()
        self._look = self.loop.call_later(scratch.EVERY, self._look_at_folder)

    def _start(self) -> None:
        plan = self.plan
        ours, theirs = socket.socketpair()
        self._control = ours
        self._said, words = os.pipe()
        try:
            self._process = subprocess.Popen(
                fences.command(theirs.fileno(), plan.fence, plan.folder, plan.scratch, plan.allow),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                pass_fds=(theirs.fileno(),),
                env=fences.environment(plan.scratch),
                cwd=plan.scratch,
                # No session of its own: the kernel may share cores out by sessions, and two that talk need one share.
                process_group=0,
            )
        except OSError:
            ours.close()
            os.close(self._said)
            raise
        finally:
            theirs.close()
            os.close(words)
        self.pid = self._process.pid
        ours.setblocking(False)
        os.set_blocking(self._said, False)
        self.loop.add_reader(self._said, self._printed)
        self._watch()

    def _watch(self) -> None:
        """Hear of its end."""
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            # An old kernel, or a sandbox around us that does not know the call.
            threading.Thread(target=self._wait, name=f"waits for {self.plan.plugin}", daemon=True).start()
        else:
            self.loop.add_reader(self._pidfd, self._died)

    def _wait(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._died)

    def _look_at_folder(self) -> None:
        """On a thread: there may be much to look at."""
        self.loop.run_in_executor(None, self._too_much).add_done_callback(self._looked)

    def _too_much(self) -> str | None:
        plan, limits = self.plan, self.plan.limits
        pids = {self.pid}
        if plan.fence == "bubblewrap":
            # The plugin is one of those that this process started; which itself may be the system's to look at.
            pids = {each for each in scratch.belonging(self.pid) if os.access(f"/proc/{each}/fd", os.R_OK)}
        elif confinement.PROCESSES in plan.allow:
            pids = scratch.belonging(self.pid)
        return scratch.too_much(plan.scratch, pids, limits.folder, limits.files)

    def _looked(self, looking: asyncio.Future[str | None]) -> None:
        if self.over is not None or looking.cancelled():
            return
        what = None if looking.exception() else looking.result()
        if what is None:
            self._look = self.loop.call_later(scratch.EVERY, self._look_at_folder)
        else:
            self.overfull = True
            self.misbehaved(what)

    async def load(self) -> list[bytes | None]:
        """Have the fence put up and the plugin loaded; gives its version of the interface, its offers and manifest."""
        plan = self.plan
        shown = fences.readable(plan.folder, plan.allow), fences.writable(plan.scratch)
        setup = (
            *(str(plan.library), plan.fence, " ".join(plan.allow), plan.limits.told()),
            *("\0".join(paths) for paths in shown),
        )
        kind, strings = await self._fenced(frames.pack_order(frames.CALL, 0, tuple(map(os.fsencode, setup))))
        if kind == frames.FAILED:
            self.end(f"it cannot be fenced: {_first(strings)}")
            raise HostFailure(
                Kind.misconfigured, f"The plugin {plan.plugin!r} cannot be fenced here: {_first(strings)}"
            )
        self.loop.add_reader(self._control, self._controlled)
        kind, strings = await self.call(frames.LOAD, (None,), self._nobody, LOADING, "its start")
        if kind == frames.FAILED:
            self.end("it could not be loaded", reason="stopped")
            raise HostFailure(
                Kind.misconfigured, f"The plugin {plan.plugin!r} cannot be loaded: {_first(strings)}."
            )
        self.loading = False
        return strings

    async def _fenced(self, setup: bytes) -> Said:
        """Tell the helper which fence to put up; what it says then."""
        telling = asyncio.ensure_future(self._exchanged(setup))
        either: set[asyncio.Future[Any]] = {telling, self.exited}
        await asyncio.wait(either, timeout=LOADING, return_when=asyncio.FIRST_COMPLETED)
        try:
            if telling.done():
                kind, _number, strings = frames.unpack(telling.result())
                return kind, strings
        except (OSError, frames.Malformed):
            self.end("it did not start as a helper does", reason="crash", at_once=True)
        finally:
            telling.cancel()
        if not self.exited.done() and self.over is None:
            self.end("it did not start")
            raise HostTimeout(f"The process of the plugin {self.plan.plugin!r} did not start.")
        exit = await asyncio.shield(self.exited)
        raise self.over or self._terminated(exit.text)

    async def _exchanged(self, setup: bytes) -> bytes:
        await self.loop.sock_sendall(self._control, setup)
        data = b""
        while not data or frames.size(data) > len(data):
            more = await self.loop.sock_recv(self._control, 65536)
            if not more:
                raise ConnectionResetError
            data += more
        return data

    # --- calls ---

    async def call(
        self, number: int, strings: tuple[bytes | None, ...], frame: Frame, timeout: float, label: Label
    ) -> Said:
        """Have the helper do something; what it says when it is done. Raises when it ends or takes too long."""
        lane = self.idle.pop() if self.idle else await self._lane(timeout, label)
        return self.begun(lane, number, strings, frame, label) or await self.answer(lane, timeout)

    def begun(
        self, lane: Lane, number: int, strings: tuple[bytes | None, ...], frame: Frame, label: Label
    ) -> Said | None:
        """Send a call; what it gives, if that comes at once."""
        if self.over is not None:
            raise self.over
        self.busy += 1
        lane.frame, lane.label = frame, label
        lane.send(frames.CALL, number, strings)
        if self.busy > 1 or self.quick <= 0:
            return None
        said = lane.briefly()
        if said is not None:
            self.quick = 8
            return said
        self.quick -= 1
        if self.over is not None:
            raise self.over
        return None

    async def answer(self, lane: Lane, timeout: float) -> Said:
        """What the call on the lane gives, when it comes."""
        waiter: asyncio.Future[Said] = self.loop.create_future()
        lane.waiter = waiter
        # Not the caller's: when the caller gives up, the plugin is still held to its time.
        lane.timer = self.loop.call_later(timeout, self._overdue, lane, timeout)
        since = self.loop.time()
        said = await waiter
        if self.loop.time() - since < 2 * BRIEF:
            self.quick = 8
        return said

    def finished(self, lane: Lane) -> None:
        """The lane is free again."""
        self.busy -= 1
        if not self.busy:
            self._left.set()
        lane.frame = lane.nobody
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        self._free(lane)

    def _free(self, lane: Lane) -> None:
        while self._queue:
            waiting = self._queue.popleft()
            if not waiting.done():
                waiting.set_result(lane)
                return
        self.idle.append(lane)

    async def empty(self) -> None:
        """Wait until no call is in the plugin, also none whose caller gave up."""
        while self.busy and self.over is None:
            self._left.clear()
            await self._left.wait()

    async def _lane(self, timeout: float, label: Label) -> Lane:
        if len(self._lanes) < MOST_LANES:
            return self._new_lane()
        waiting: asyncio.Future[Lane] = self.loop.create_future()
        self._queue.append(waiting)
        taken: Lane | None = None
        try:
            async with asyncio.timeout(timeout):
                taken = await waiting
            return taken
        except TimeoutError:
            raise HostTimeout(
                f"The plugin {self.plan.plugin!r} was not free for {told(label)} within {timeout:g} s:"
                f" {MOST_LANES} calls are in it."
            ) from None
        finally:
            # Given a lane in the same moment: it is for the next.
            if taken is None and waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._free(waiting.result())

    def _new_lane(self) -> Lane:
        if self.over is not None:
            raise self.over
        lane = self._passed(frames.LANE)
        self._lanes.append(lane)
        return lane

    def _passed(self, word: bytes) -> Lane:
        """Make a lane and give the helper its ends.

        Never the other way round: who made a pipe can make the other side wait on it.
        """
        ours, theirs = os.pipe(), os.pipe()
        try:
            socket.send_fds(self._control, [word], [theirs[0], ours[1]])
        except OSError as exc:
            os.close(ours[0])
            os.close(theirs[1])
            raise self._terminated("its process does not take calls") from exc
        finally:
            os.close(theirs[0])
            os.close(ours[1])
        return Lane(self, ours[0], theirs[1], self._nobody)

    def _controlled(self) -> None:
        """A thread that the plugin made needs a lane."""
        try:
            word = self._control.recv(1)
        except BlockingIOError:
            return
        except OSError:
            word = b""
        if not word:
            self.loop.remove_reader(self._control)
            self.broke_off()
        elif word != frames.BORROW or len(self._borrowed) >= frames.MOST_BORROWED:
            self.misbehaved("it asked for something else than a lane")
        else:
            with contextlib.suppress(Failure):
                self._borrowed.append(self._passed(frames.LOAN))

    # --- the end ---

    def _overdue(self, lane: Lane, timeout: float) -> None:
        lane.timer = None
        waiter, lane.waiter = lane.waiter, None
        late = HostTimeout(
            f"The plugin {self.plan.plugin!r} did not finish {told(lane.label)} within {timeout:g} s"
            " and was terminated; the next call starts it again."
        )
        self.end(f"{told(lane.label)} took longer than {timeout:g} s")
        if waiter is not None and not waiter.done():
            waiter.set_exception(late)

    def misbehaved(self, what: str) -> None:
        """End it by force: what it does is against the rules."""
        if self.over is None:
            self.end(what, reason="crash", at_once=True)

    def broke_off(self) -> None:
        """A pipe was closed: the process is about to end, or will be made to."""
        if self.over is None and self._force is None:
            self._force = self.loop.call_later(
                GRACE / 4, self.misbehaved, "it closed its connection to the host"
            )

    def end(
        self, because: str, *, reason: Literal["crash", "killed", "stopped"] = "killed", at_once: bool = False
    ) -> None:
        """End the process and everything in its group. Who waits for an answer hears so now."""
        if self.over is not None:
            return
        self._reason, self._because = reason, because
        self._give_up(self._terminated(because))
        self._signal(signal.SIGKILL if at_once else signal.SIGTERM)
        self._end_by_force_later()

    def _end_by_force_later(self) -> None:
        if self._force is not None:
            self._force.cancel()
        self._force = self.loop.call_later(GRACE, self._signal, signal.SIGKILL)

    async def quit(self) -> Exit:
        """Let it end by itself, and by force if it does not."""
        if self.over is None:
            self._reason, self._because = "stopped", "it was stopped"
            with contextlib.suppress(OSError):
                self._control.send(frames.QUIT)
            self._give_up(self._terminated("it was stopped"))
            self._end_by_force_later()
        return await asyncio.shield(self.exited)

    def _signal(self, number: int) -> None:
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _terminated(self, because: str) -> Failure:
        failure = Terminated(
            Kind.unavailable,
            f"The plugin {self.plan.plugin!r} was terminated: {because}. The next call starts it again.",
        )
        failure.because = because
        return failure

    def _give_up(self, why: Failure) -> None:
        self.over = why
        self._look.cancel()
        self._left.set()
        self.while_: While = "load" if self.loading else "call" if self.busy else "idle"
        for task in tuple(self.tasks):
            task.cancel()
        for lane in (*self._lanes, *self._borrowed):
            waiter, lane.waiter = lane.waiter, None
            lane.close()
            if waiter is not None and not waiter.done():
                waiter.set_exception(why)
        for waiting in self._queue:
            if not waiting.done():
                waiting.set_exception(why)
        self._queue.clear()

    def _died(self) -> None:
        if self.exited.done():
            return
        # What it started must not outlive it; its number is ours until it is waited for.
        self._signal(signal.SIGKILL)
        status = self._process.wait()
        self._printed()
        words = self._last_words()
        if self.over is None:
            self._because = f"its process ended by {_cause(status)}"
            self._give_up(self._terminated(self._because))
        if self._force is not None:
            self._force.cancel()
        for fd in (self._pidfd, self._said):
            if fd is not None:
                self.loop.remove_reader(fd)
                os.close(fd)
        self.loop.remove_reader(self._control)
        self._control.close()
        if words and self._reason == "crash":
            logger.warning("The plugin %r said before it ended: %s", self.plan.plugin, words)
        done = Exit(self._reason, status, self.while_, self._because, words)
        self.exited.set_result(done)
        self._ended(self, done)

    def _printed(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._said, _HEARD)
            if not data:
                self.loop.remove_reader(self._said)
                return
            self._words = (self._words + data)[-_HEARD:]
            if logger.isEnabledFor(logging.DEBUG):
                # Line by line: of a secret that came in two parts, neither would be known.
                lines, ended, self._line = (self._line + data).rpartition(b"\n")
                if len(self._line) > _HEARD:
                    lines, self._line = lines + ended + self._line, b""
                if lines:
                    logger.debug("The plugin %r printed: %r", self.plan.plugin, self._discreet(lines))

    def _last_words(self) -> str:
        """The end of what it printed, cut when its secrets are hidden: half of one would not be known for one."""
        words = self._words
        if len(words) == _HEARD and b"\n" in words:
            words = words.partition(b"\n")[2]
        return self._discreet(words)[-_LAST_WORDS:]

    def _discreet(self, words: bytes) -> str:
        return self.plan.discreet(words.decode("utf-8", "replace").strip())


def told(label: Label) -> str:
    """What a call is, for a person."""
    return label if isinstance(label, str) else f"{label[0]} {label[1]!r}"


def _cause(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _first(strings: list[bytes | None]) -> str:
    return (strings[0] or b"").decode("utf-8", "replace") if strings else ""
