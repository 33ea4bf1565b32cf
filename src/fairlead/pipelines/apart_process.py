"""The process of an agent: it asks the agent's model, and knows nothing else of the pipeline.

`python -m fairlead.pipelines.apart_process FD` is the parent of all of them: it has imported what they need, so that a
new one is a fork, in milliseconds and with little memory of its own. It tells on an agent's own socket how its process
died, and ends them all when the program that started it is gone.

On its own socket, commands are `f` with a socket (a new agent), `k` with a pid (end it), `w` with a number (import a
library). On an agent's, each frame is JSON behind its length: what to be first, then requests and replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import struct
import sys
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models import script_file  # noqa: F401  # so that no agent has to import it again
from fairlead.agents.models.model import Message, Model, Request, Settings, ToolCall, ToolSpec
from fairlead.failures import Failure, from_exception
from fairlead.failures import runtime as wire
from fairlead.pipelines.host import Host
from fairlead.pipelines.journals import spelled_reply
from fairlead.pipelines.models import model_for

SIZE: Final = struct.Struct("!I")
PID: Final = struct.Struct("!i")
#: Libraries that are worth importing once for all agents.
LIBRARIES: Final = ("openai", "anthropic", "google.genai")


# The parent of all


class _Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        #: Living agents: their pids, and their sockets.
        self._alive: dict[int, socket.socket] = {}
        self._woken, self._wake = socket.socketpair()
        for each in (self._woken, self._wake):
            each.setblocking(False)

    def run(self) -> None:
        """Do what is asked for, until nobody can ask any more."""
        import select

        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([self._control, self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._reap()
            if self._control in ready and not self._obey():
                break
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)

    def _obey(self) -> bool:
        command, taken, _, _ = socket.recv_fds(self._control, 1, 1)
        if command == b"f" and taken:
            self._fork(socket.socket(fileno=taken[0]))
        elif command == b"k":
            pid = PID.unpack(self._control.recv(PID.size, socket.MSG_WAITALL))[0]
            if pid in self._alive:
                os.kill(pid, signal.SIGKILL)
        elif command == b"w":
            name = LIBRARIES[self._control.recv(1)[0]]
            # The agent says what is missing, in its own words.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        return bool(command)

    def _fork(self, own: socket.socket) -> None:
        pid = os.fork()
        if pid:
            self._alive[pid] = own
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for other in (self._control, self._woken, self._wake, *self._alive.values()):
                other.close()
            asyncio.run(_serve(own))
            code = 0
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while self._alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            own = self._alive.pop(pid, None)
            if own is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                own.setblocking(False)
                own.send(frame({"exit": code}))
            own.close()


# One agent


async def _serve(own: socket.socket) -> None:
    """Answer requests until the socket is closed, also in the middle of one."""
    own.setblocking(False)
    hello = await read(own)
    if hello is None:
        return
    os.environ.clear()
    os.environ.update(hello["environ"])
    os.chdir(hello["cwd"])
    await write(own, {"pid": os.getpid()})
    model: Model | None = None
    while (asked := await read(own)) is not None:
        try:
            if model is None:
                model = model_for(hello["settings"], Host(environ=os.environ), hello["agent"])
            told = {"reply": spelled_reply(await _unless_left(own, model.reply(request_of(asked))))}
        except Failure as failure:
            told = {"failure": wire.render(failure)}
        except Exception as error:
            told = {"failure": wire.render(from_exception(error))}
        await write(own, told)


async def _unless_left(own: socket.socket, work: Any) -> Any:
    """What the work gives. Nobody sends anything meanwhile: what can be read is that the other side has left."""
    loop = asyncio.get_running_loop()
    loop.add_reader(own, os._exit, 0)
    try:
        return await work
    finally:
        loop.remove_reader(own)


# Frames


def frame(value: Any) -> bytes:
    """A value as it is sent."""
    body = _json.encode(value)
    return SIZE.pack(len(body)) + body


async def write(own: socket.socket, value: Any) -> None:
    """Send a value."""
    await asyncio.get_running_loop().sock_sendall(own, frame(value))


async def read(own: socket.socket) -> Any:
    """The next value; None when there is none, or it was cut off."""
    size = await _exactly(own, SIZE.size)
    body = None if size is None else await _exactly(own, SIZE.unpack(size)[0])
    try:
        return None if body is None else _json.loads(body)
    except ValueError:
        return None


async def _exactly(own: socket.socket, size: int) -> bytes | None:
    loop, got = asyncio.get_running_loop(), bytearray()
    while len(got) < size:
        part = await loop.sock_recv(own, min(size - len(got), 1 << 20))
        if not part:
            return None
        got += part
    return bytes(got)


def spelled_request(request: Request) -> dict[str, Any]:
    """A request as JSON. Agents of pipelines see no pictures."""
    from dataclasses import asdict

    return {
        "messages": [
            {key: value for key, value in asdict(each).items() if value not in (None, "", ())}
            for each in request.messages
        ],
        "tools": [asdict(each) for each in request.tools],
        "tool_choice": request.tool_choice,
        "output": request.output,
        "settings": asdict(request.settings),
    }


def request_of(told: dict[str, Any]) -> Request:
    """The request that was spelled so."""
    messages = [
        Message(**{**each, "calls": tuple(ToolCall(**call) for call in each.get("calls", ()))})
        for each in told["messages"]
    ]
    settings = Settings(**{**told["settings"], "stop": tuple(told["settings"]["stop"])})
    tools = [ToolSpec(**each) for each in told["tools"]]
    return Request(messages, tools, told["tool_choice"], told["output"], settings)


if __name__ == "__main__":
    _Nursery(socket.socket(fileno=int(sys.argv[1]))).run()
