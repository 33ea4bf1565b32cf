"""Agents in processes of their own: what they ask of the run, and what is told of a process that dies.

The conversation is in the process. Here is what it takes to go on without it: what the agent knew after its last turn,
and what was answered within this one. So one that died is replaced by another, which is told both: what a model or a
tool has answered is not asked again. Processes are kept for later runs, and forget the one that they were in.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from fairlead.agents.models.model import Reply, ToolCall
from fairlead.failures import Failure
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import ProcessError
from fairlead.pipelines.apart_process import PID, frame, read, write
from fairlead.pipelines.conversations import Brief, Leave, State
from fairlead.pipelines.models import SCRIPT
from fairlead.pipelines.policies import MODEL_RETRIES
from fairlead.pipelines.spelling import read_reply, spelled_reply

if TYPE_CHECKING:
    from fairlead.pipelines.desks import AgentDesk
    from fairlead.pipelines.host import Host

#: Whether this system can do it.
POSSIBLE: Final = hasattr(os, "fork") and hasattr(socket, "send_fds")
#: Processes that are kept when their run is over.
_KEPT: Final = 8
#: Seconds for the processes to end when we do.
_GRACE: Final = 2.0
_KINDS: Final = {"anthropic": 1, "google": 2, "gemini": 2}
_HERE: Final = ("eliza", "script", "local")

#: What came of a question or a call of a tool.
_Outcome = Reply | str | Failure


def portable(settings: Mapping[str, Any], host: Host) -> dict[str, str] | None:
    """What an agent's process has to know of its model; None where the agent has to be in the app's process.

    So are those whose model the app made itself, as an object or by its configuration, and those whose model is a
    program already. Raises Failure when there is no such model.
    """
    provider, name = settings.get("provider"), settings.get("model")
    endpoint = settings.get("endpoint") or host.environ.get("PLUMB_ENDPOINT")
    if not POSSIBLE or provider == "claude_code":
        return None
    named = {"provider": provider, "model": name, "endpoint": endpoint}
    if host.app is not None and provider != "eliza" and not (endpoint and provider):
        full = host.app.models.portable(f"{provider}/{name}" if provider and name else name)
        if full is None:
            return None
        named = {"model": full}
    return {key: value for key, value in named.items() if value}


class Apart:
    """An agent in a process of its own. One that died is started again, and told what was known."""

    def __init__(
        self, named: Mapping[str, str], host: Host, brief: Brief, desk: AgentDesk, state: State
    ) -> None:
        name = "/".join(named[key] for key in ("provider", "model") if key in named)
        self._brief = brief
        self._desk = desk
        self._state = state
        self._most = brief.settings.get("retry", MODEL_RETRIES)
        #: What the process has to be.
        self._be = {
            "settings": dict(named),
            # A script is chosen by the agent's name, and begins anew; all else is the same for all agents.
            "agent": brief.name if name.startswith((SCRIPT, "default")) else "",
            "environ": dict(host.environ),
            "cwd": os.getcwd(),
        }
        provider = name.partition("/")[0]
        #: What the process will import, by its number.
        self._library = None if provider in _HERE else _KINDS.get(provider, 0)
        self._process: _Process | None = None
        self._starting = asyncio.Lock()

    # Messages

    async def turn(self, value: Any) -> Any:
        """Answer a message with a value of the type. Raises Failure."""
        known: list[_Outcome] = []
        while True:
            try:
                process = await self._started()
                told = await self._talk(process, value, known)
                break
            except ProcessError as death:
                # The next process hears of it where it asks next, and decides as after any failure.
                known.append(death)
                tried = sum(1 for _ in takewhile(lambda each: isinstance(each, Failure), reversed(known)))
                if tried > self._most:
                    if self._most:
                        death.details["attempts"] = tried
                    raise
        if "failure" in told:
            raise wire.parse(told["failure"])
        return told["done"]

    async def _talk(self, process: _Process, value: Any, known: list[_Outcome]) -> dict[str, Any]:
        """Have a message answered: what is known by now is told, and the rest is asked of the run."""
        passed = 0
        try:
            await process.send({"turn": value})
            while True:
                told = await self._heard(process)
                if "done" in told or "failure" in told:
                    return told
                if "tell" in told:
                    if all(isinstance(each, ProcessError) for each in known[passed:]):
                        await self._desk.tell(told["tell"], **told["facts"])
                    continue
                while "tool" in told and passed < len(known) and isinstance(known[passed], ProcessError):
                    passed += 1
                if passed < len(known):
                    await process.send(_spelled(known[passed]))
                elif "tool" in told:
                    content = await self._desk.tool(ToolCall(**told["tool"]))
                    known.append(content)
                    await process.send(_spelled(content))
                else:
                    known.append(await self._reply(process, told["ask"]))
                passed += 1
        except BaseException:
            # It is in the middle of something, and nobody waits for it any more.
            self._leave(process)
            raise

    async def _reply(self, process: _Process, asked: str) -> Reply | Failure:
        """What the agent hears from its model, with the run's leave; it is told what the journal knows."""
        asking, theirs = False, None

        async def ask(leave: Leave) -> Reply:
            nonlocal asking, theirs
            asking = True
            await process.send(process.leave(leave))
            told = await self._heard(process)
            if "failed" in told:
                theirs = wire.parse(told["failed"])
                raise theirs
            return read_reply(told["reply"])

        try:
            reply = await self._desk.reply(asked, ask)
        except Failure as failure:
            if failure is not theirs:
                raise
            return failure
        if not asking:
            await process.send(_spelled(reply))
        return reply

    async def _heard(self, process: _Process) -> dict[str, Any]:
        told = await process.turns.get()
        if "exit" in told:
            raise self._died(told["exit"])
        return told

    # Commands

    async def heed(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Follow a command, also in the middle of a turn. Raises Failure."""
        for tried in range(self._most + 1):
            process = await self._started()
            try:
                await process.send({"command": command})
                told = await process.commands.get()
            except BaseException:
                self._leave(process)
                raise
            if "exit" not in told:
                heeded: dict[str, Any] = told["heeded"]
                return heeded
            self._leave(process)
            if tried == self._most:
                raise self._died(told["exit"])
        raise AssertionError

    # Processes

    async def close(self) -> None:
        """Let the process go: scripts begin anew, others are kept for whoever needs the same."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._be["agent"]:
            process.end()
        else:
            await process.rest()

    def _leave(self, process: _Process) -> None:
        if self._process is process:
            self._process = None
        process.end()

    async def _started(self) -> _Process:
        async with self._starting:
            if self._process is None:
                self._process = await self._new()
            return self._process

    async def _new(self) -> _Process:
        process = _idle.take(self._be)
        if process is None:
            try:
                process = await asyncio.to_thread(_Process, self._be, self._library)
            except OSError as error:
                message = (
                    f"The process of the agent {self._brief.name!r} cannot be started: {error.strerror}."
                )
                raise ProcessError(message, details={"source": self._brief.name}, cause=error) from error
        process.begin(self._state.note)
        try:
            if not process.pid:
                await process.send(self._be)
                process.pid = (await self._heard(process))["pid"]
            state = {"memory": self._state.memory, "temperature": self._state.temperature}
            await process.send({"begin": self._brief.spelled(), **state})
            await self._desk.tell("process", pid=process.pid)
        except BaseException:
            process.end()
            raise
        return process

    def _died(self, code: int | None) -> ProcessError:
        if code is None:
            how, extras = "has died", {}
        elif code < 0:
            how, extras = f"was ended by signal {-code}", {"signal": -code}
        else:
            how, extras = f"ended with exit code {code}", {"exit_code": code}
        message = f"The process of the agent {self._brief.name!r} {how}."
        return ProcessError(message, details={"source": self._brief.name, **extras})


def _spelled(outcome: _Outcome) -> dict[str, Any]:
    match outcome:
        case Reply():
            return {"reply": spelled_reply(outcome)}
        case Failure():
            return {"failure": wire.render(outcome)}
    return {"content": outcome}


class _Process:
    """One agent's process, from here. All it says is heard as it comes: on turns, and on commands."""

    def __init__(self, be: dict[str, Any], library: int | None) -> None:
        self.be = be
        self.pid = 0
        self._nursery = nursery = _nursery_here()
        self._own, theirs = socket.socketpair()
        self._own.setblocking(False)
        with theirs:
            try:
                nursery.fork(theirs, library)
            except OSError:
                self._own.close()
                raise

    def begin(self, note: Callable[[Mapping[str, Any]], None]) -> None:
        """It gets something to do. Whatever it tells of the agent's state is noted in that order."""
        self.turns: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._writing = asyncio.Lock()
        self._tools: list[dict[str, Any]] | None = None
        self._listening = asyncio.get_running_loop().create_task(self._listen(note))

    async def _listen(self, note: Callable[[Mapping[str, Any]], None]) -> None:
        told: dict[str, Any] = {}
        while "exit" not in told:
            try:
                told = await read(self._own) or {"exit": None}
            except OSError:
                told = {"exit": None}
            note(told.get("heeded", told))
            if "heeded" not in told:
                self.turns.put_nowait(told)
            if "heeded" in told or "exit" in told:
                self.commands.put_nowait(told)

    async def send(self, value: Any) -> None:
        """Send a value. To one that has died nothing can be sent, but what it said last is heard."""
        async with self._writing:
            with contextlib.suppress(OSError):
                await write(self._own, value)

    def leave(self, leave: Leave) -> dict[str, Any]:
        """The run's leave as it is sent: tools are told once, and when they have changed."""
        tools = [asdict(each) for each in leave.tools]
        if tools == self._tools:
            return {"leave": leave.tokens}
        self._tools = tools
        return {"leave": leave.tokens, "tools": tools}

    async def rest(self) -> None:
        """It has nothing to do any more, and waits for somebody else. It is so also when this is cancelled."""
        try:
            self._own.send(frame({"begin": None}))
        except OSError:
            self.end()
            return
        self._listening.add_done_callback(self._rested)
        self._listening.cancel()
        await asyncio.wait([self._listening])

    def _rested(self, listening: asyncio.Task[None]) -> None:
        if listening.cancelled() and self.alive:
            _idle.put(self)
        else:
            self.end()

    @property
    def alive(self) -> bool:
        """Whether it waits: one that has died has said so."""
        try:
            self._own.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def end(self) -> None:
        """End it now."""
        if self.pid:
            self._nursery.kill(self.pid)
        listening: asyncio.Task[None] | None = getattr(self, "_listening", None)
        if listening is None or listening.done():
            self._own.close()
        else:
            for lane in (self.turns, self.commands):
                lane.put_nowait({"exit": None})
            # The loop has to forget the socket before it is closed.
            listening.add_done_callback(lambda _: self._own.close())
            listening.cancel()


class _Nursery:
    """The process that agents' processes are forked from."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._warm: set[int] = set()
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "fairlead.pipelines.apart_process", str(theirs.fileno())]
            # A session of its own: Ctrl-C is for us, who end it in order.
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def usable(self) -> bool:
        return self.owner == os.getpid() and self._process.poll() is None

    def fork(self, own: socket.socket, library: int | None) -> None:
        with self._lock:
            if library is not None and library not in self._warm:
                self._warm.add(library)
                self._control.sendall(b"w" + bytes([library]))
            socket.send_fds(self._control, [b"f"], [own.fileno()])

    def kill(self, pid: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._control.sendall(b"k" + PID.pack(pid))

    def close(self) -> None:
        self._control.close()
        if self.owner != os.getpid():
            return
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Idle:
    """Processes that nobody needs just now."""

    def __init__(self) -> None:
        self._waiting: deque[_Process] = deque()

    def take(self, be: dict[str, Any]) -> _Process | None:
        """The one of its kind that was at work last."""
        for process in reversed(list(self._waiting)):
            if process.be == be:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(process)
                    if process._nursery.usable and process.alive:
                        return process
                    process.end()
        return None

    def put(self, process: _Process) -> None:
        self._waiting.append(process)
        while len(self._waiting) > _KEPT:
            self._waiting.popleft().end()

    def close(self) -> None:
        while self._waiting:
            self._waiting.popleft().end()


_idle: Final = _Idle()
_only: Final = threading.Lock()
_nursery: _Nursery | None = None


def _nursery_here() -> _Nursery:
    global _nursery
    with _only:
        if _nursery is None or not _nursery.usable:
            if _nursery is not None:
                _nursery.close()
            _nursery = _Nursery()
        return _nursery


@atexit.register
def _leave() -> None:
    _idle.close()
    if _nursery is not None:
        _nursery.close()
