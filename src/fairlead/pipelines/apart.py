"""Agents in processes of their own: a model that is asked there, and what is told of a process that dies.

What an agent remembers, its tools and its budget stay here: so a process that died is replaced by another, which is
asked the same. Processes are kept for later runs of the same agent.
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
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from fairlead.agents.models.model import Delta, Model, Reply, Request
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import ProcessError
from fairlead.pipelines.apart_process import PID, read, spelled_request, write
from fairlead.pipelines.journals import read_reply
from fairlead.pipelines.models import SCRIPT, model_for

if TYPE_CHECKING:
    from fairlead.pipelines.host import Host

#: Whether this system can do it.
POSSIBLE: Final = hasattr(os, "fork") and hasattr(socket, "send_fds")
#: Processes that are kept when their run is over.
_KEPT: Final = 8
#: Seconds for the processes to end when we do.
_GRACE: Final = 2.0
_KINDS: Final = {"anthropic": 1, "google": 2, "gemini": 2}
_HERE: Final = ("eliza", "script", "local")

Told = Callable[[int], Awaitable[None]]


def agent_model(settings: dict[str, Any], host: Host, agent: str, told: Told) -> Model:
    """The model of an agent, to be asked in a process of the agent's own.

    A model that the app made itself, an object or a configuration, is asked in the app's process; one that is a
    program already has its own. `told` hears the pid of each process. Raises Failure when there is no such model.
    """
    provider, name = settings.get("provider"), settings.get("model")
    endpoint = settings.get("endpoint") or host.environ.get("PLUMB_ENDPOINT")
    if not POSSIBLE or provider == "claude_code":
        return model_for(settings, host, agent)
    named = {"provider": provider, "model": name, "endpoint": endpoint}
    if host.app is not None and provider != "eliza" and not (endpoint and provider):
        full = host.app.models.portable(f"{provider}/{name}" if provider and name else name)
        if full is None:
            return model_for(settings, host, agent)
        named = {"model": full}
    return ModelApart({key: value for key, value in named.items() if value}, host, agent, told)


class ModelApart(Model):
    """A model that is asked in a process of its own. One that died is started again for the next question."""

    def __init__(self, settings: dict[str, str], host: Host, agent: str, told: Told) -> None:
        self.name = "/".join(settings[key] for key in ("provider", "model") if key in settings)
        self._agent = agent
        self._told = told
        #: What the process has to be.
        self._be = {
            "settings": settings,
            # A script is chosen by the agent's name, and begins anew; all else is the same for all agents.
            "agent": agent if self.name.startswith((SCRIPT, "default")) else "",
            "environ": dict(host.environ),
            "cwd": os.getcwd(),
        }
        self._process: _Process | None = None

    async def reply(self, request: Request) -> Reply:
        if self._process is None:
            self._process = await self._started()
        process, self._process = self._process, None
        try:
            answer = await process.ask(spelled_request(request))
        except BaseException:
            # It is still busy with this question, and nobody waits for the answer.
            process.end()
            raise
        if answer is None or "exit" in answer:
            process.end()
            raise self._died(answer)
        self._process = process
        if "failure" in answer:
            raise wire.parse(answer["failure"])
        return read_reply(answer["reply"])

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """The whole reply at once."""
        yield await self.reply(request)

    async def close(self) -> None:
        """Let the process go: scripts begin anew, others are kept for whoever needs the same."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._be["agent"]:
            process.end()
        else:
            _idle.put(process)

    async def _started(self) -> _Process:
        process = _idle.take(self._be)
        if process is None:
            try:
                process = await asyncio.to_thread(_Process, self._be, self._library())
            except OSError as error:
                message = f"The process of the agent {self._agent!r} cannot be started: {error.strerror}."
                raise ProcessError(message, details={"source": self._agent}, cause=error) from error
            begun = await process.hear()
            if begun is None or "pid" not in begun:
                process.end()
                raise self._died(begun)
            process.pid = begun["pid"]
        await self._told(process.pid)
        return process

    def _library(self) -> int | None:
        """What the process will import, by its number."""
        provider = self.name.partition("/")[0]
        return None if provider in _HERE else _KINDS.get(provider, 0)

    def _died(self, answer: dict[str, Any] | None) -> ProcessError:
        code = None if answer is None else answer.get("exit")
        if code is None:
            how, extras = "has died", {}
        elif code < 0:
            how, extras = f"was ended by signal {-code}", {"signal": -code}
        else:
            how, extras = f"ended with exit code {code}", {"exit_code": code}
        message = f"The process of the agent {self._agent!r} {how}."
        return ProcessError(message, details={"source": self._agent, **extras})


class _Process:
    """One agent's process, from here."""

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

    async def hear(self) -> Any:
        """What it is told to be, and what it says to that."""
        return await self.ask(self.be)

    async def ask(self, value: Any) -> Any:
        """Send a value, and wait for another; None or its exit code when it has died."""
        # To one that has died nothing can be sent, but what it said last is there.
        with contextlib.suppress(OSError):
            await write(self._own, value)
        try:
            return await read(self._own)
        except OSError:
            return None

    @property
    def alive(self) -> bool:
        """Whether it waits for a question: one that has died has said so."""
        try:
            self._own.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def end(self) -> None:
        """End it now."""
        self._own.close()
        if self.pid:
            self._nursery.kill(self.pid)


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
        for process in list(self._waiting):
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
