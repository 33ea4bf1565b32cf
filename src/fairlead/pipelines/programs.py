"""`exec`: a program of any kind as a process, with JSON Lines on its stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from typing import Any, Final

from fairlead import _json
from fairlead.failures.runtime import ParseError, ProcessError
from fairlead.pipelines.cells import Place
from fairlead.pipelines.lines import unreadable
from fairlead.pipelines.network import Inlet

#: A line may be so long.
LONGEST: Final = 64 * 1024 * 1024
#: Lines of stderr that a failure tells, and how much of each.
_TAIL: Final = 20
_WIDEST: Final = 10_000
#: Seconds of silence after which a program in a loop, which may answer fewer times than it is asked, counts as idle.
_SETTLE: Final = 30.0
#: Seconds for a program to end after it is told to.
_GRACE: Final = 2.0


class Program:
    """One program while it runs."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._settings = place.process.settings
        self._owed = 0
        self._busy = False
        self._settling: asyncio.TimerHandle | None = None
        #: Of a program with a time limit: messages that it has not answered, and when that is too late.
        self._unanswered = 0
        self._late: asyncio.TimerHandle | None = None
        self._stderr: deque[str] = deque(maxlen=_TAIL)
        self._source = {"source": place.name}

    def start(self) -> None:
        """Start the task that feeds and hears the program."""
        self._place.network.start(self._run(), self._place.name)

    async def _run(self) -> None:
        place = self._place
        try:
            child = await self._begun()
            hearing = asyncio.get_running_loop().create_task(self._hear(child))
            noting = asyncio.get_running_loop().create_task(self._note(child))
            try:
                await self._feed(child, place.inlets["input"], hearing)
                await self._last_words(child, hearing, noting)
            finally:
                await place.network.leave(_end(child, hearing, noting))
        finally:
            self._await_answers(0, begin=False)
            self._idle()
            place.close()

    async def _begun(self) -> asyncio.subprocess.Process:
        starting = asyncio.get_running_loop().create_task(self._spawn())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # It may be at work already: it is told to end as any other.
            self._place.network.leave(_end_of(starting))
            raise

    async def _spawn(self) -> asyncio.subprocess.Process:
        command = str(self._settings.get("cmd", ""))
        folder = self._folder()
        try:
            return await asyncio.create_subprocess_exec(
                command,
                *self._settings.get("args", ()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LONGEST,
                cwd=folder,
                env=dict(self._place.host.environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            message = f"The program {command!r} cannot be started: {_why_not(error, folder)}."
            raise ProcessError(message, details=self._source, cause=error) from error

    def _folder(self) -> str | None:
        """The folder it runs in, which is named from where the program is written."""
        beside = os.path.dirname(os.path.abspath(self._place.process.source.file))
        return os.path.join(beside, self._settings["cwd"]) if "cwd" in self._settings else None

    async def _feed(
        self, child: asyncio.subprocess.Process, inlet: Inlet, hearing: asyncio.Task[None]
    ) -> None:
        assert child.stdin is not None
        network = self._place.network
        while not hearing.done():
            getting = asyncio.ensure_future(inlet.get())
            try:
                await asyncio.wait((getting, hearing), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                getting.cancel()
                raise
            if not getting.done():
                # The program has ended by itself: this task is no longer waiting for a message.
                getting.cancel()
                network.running += 1
                return
            batch = getting.result()
            if batch is None:
                return
            self._place.host.counted(self._place.name, len(batch))
            if self._place.budget is not None:
                self._place.budget.ask(len(batch))
            self._owe(len(batch))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                child.stdin.write(b"".join(_json.encode(value) + b"\n" for value in batch))
                await child.stdin.drain()

    async def _last_words(
        self, child: asyncio.subprocess.Process, hearing: asyncio.Task[None], noting: asyncio.Task[None]
    ) -> None:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            child.stdin.close()
        await hearing
        await noting
        code = await child.wait()
        if code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            extras: dict[str, Any] = {"signal": -code} if code < 0 else {"exit_code": code}
            details = {**self._source, **extras, "stderr": "\n".join(self._stderr)}
            raise ProcessError(f"The program of {self._place.name!r} {how}.", details=details)

    async def _hear(self, child: asyncio.subprocess.Process) -> None:
        """Send on what the program says. What it raises ends the run."""
        assert child.stdout is not None
        network = self._place.network
        try:
            while True:
                line = await self._line(child.stdout)
                if not line:
                    return
                if not line.strip():
                    continue
                try:
                    value = _json.loads(line)
                except ValueError as error:
                    message = unreadable(f"A line that the program of {self._place.name!r} wrote", error)
                    raise ParseError(message, details=self._source, cause=error) from error
                network.running += 1
                try:
                    await self._place.send("output", self._place.validated(value))
                finally:
                    network.rest()
                self._paid()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            network.fail(error)

    async def _line(self, stream: asyncio.StreamReader) -> bytes:
        try:
            return await stream.readline()
        except ValueError as error:
            message = f"The program of {self._place.name!r} wrote a line of more than {LONGEST} bytes."
            raise ParseError(message, details=self._source, cause=error) from error

    async def _note(self, child: asyncio.subprocess.Process) -> None:
        assert child.stderr is not None
        while True:
            try:
                line = await child.stderr.readline()
            except ValueError:
                # What it says there is for people, and ends nothing.
                line = f"... (a line of more than {LONGEST} bytes)\n".encode()
            if not line:
                return
            text = line[:_WIDEST].decode(errors="replace").rstrip("\n")
            self._stderr.append(text)
            self._place.host.tell("stderr", self._place.name, line=text)

    # When it is idle: answers are owed for what it was sent, until it is silent for long enough.

    def _owe(self, count: int) -> None:
        self._owed += count
        self._await_answers(self._unanswered + count, begin=self._unanswered == 0)
        if not self._busy:
            if self._place.budget is not None:
                self._place.budget.begin()
            self._busy = True
            self._place.network.running += 1
        self._wait_for_silence()

    def _paid(self) -> None:
        self._owed = max(0, self._owed - 1)
        self._await_answers(max(0, self._unanswered - 1), begin=True)
        if self._owed == 0:
            self._idle()
        else:
            self._wait_for_silence()

    def _await_answers(self, count: int, *, begin: bool) -> None:
        """With a time limit, each message has to be answered: see to it that the next answer comes in time."""
        seconds, self._unanswered = self._settings.get("timeout"), count
        if self._late is not None and (begin or count == 0):
            self._late.cancel()
            self._late = None
        if seconds and count and self._late is None:
            self._late = asyncio.get_running_loop().call_later(seconds, self._too_late, seconds)

    def _too_late(self, seconds: float) -> None:
        message = f"The program of {self._place.name!r} did not answer within {seconds:g} seconds."
        self._place.network.fail(ProcessError(message, details={**self._source, "timeout": seconds}))

    def _wait_for_silence(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        seconds = self._settings.get("settle", _SETTLE)
        self._settling = asyncio.get_running_loop().call_later(seconds, self._idle)

    def _idle(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        if self._busy:
            self._busy = False
            self._owed = 0
            if self._place.budget is not None:
                self._place.budget.end()
            self._place.network.rest()


def _why_not(error: OSError | ValueError, folder: str | None) -> str:
    if folder is not None and not os.path.isdir(folder):
        return f"its `cwd` {folder!r} is no folder"
    # A name or an argument with a character that no program can be given is a ValueError.
    return str(error.strerror if isinstance(error, OSError) else error)


async def _end_of(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    with contextlib.suppress(ProcessError):
        await _end(await starting)


async def _end(child: asyncio.subprocess.Process, *listening: asyncio.Task[None]) -> None:
    """End a program and all that it started."""
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    if child.returncode is not None:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _tell(child, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await child.wait()
                    return
    except asyncio.CancelledError:
        # Whoever waits for this does so no longer.
        _tell(child, signal.SIGKILL)
        raise


def _tell(child: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
