"""The process of an agent: its conversation, and the model that it asks. It knows nothing else of the pipeline.

`python -m fairlead.pipelines.apart_process FD` is the parent of all of them: it has imported what they need, so that a
new one is a fork, in milliseconds and with little memory of its own. It tells on an agent's own socket how its process
died, and ends them all when the program that started it is gone.

On its own socket, commands are `f` with a socket (a new agent), `k` with a pid (end it), `w` with a number (import a
library). On an agent's, each frame is JSON behind its length:

    the run tells                                       the agent tells
    `{environ, cwd, settings, agent}`: what to be       `{pid}`
    `{begin, memory, temperature}`: an agent, or none
    `{turn}`: a message                                 `{done, added}` or `{failure}`
    `{leave, tools}`, or `{reply}` that is known        `{ask}`, and then `{reply}` or `{failed}`
    `{content}`                                         `{tool}`
    `{command}`, also in the middle of a turn           `{heeded}`
                                                        `{tell, facts}`
                                                        `{exit}`: how it died, told by the parent of all

Nothing that was said goes over again: a turn takes what is new in it, however long the conversation is.
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
from dataclasses import asdict
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models import script_file  # noqa: F401  # so that no agent has to import it again
from fairlead.agents.models.model import Model, Reply, ToolCall, ToolSpec
from fairlead.failures import Failure, from_exception
from fairlead.failures import runtime as wire
from fairlead.pipelines.conversations import Ask, Conversation, Leave, State, read_brief
from fairlead.pipelines.host import Host
from fairlead.pipelines.models import model_for
from fairlead.pipelines.spelling import read_reply, spelled_reply

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
    """Do what is asked for until the socket is closed, also in the middle of something."""
    own.setblocking(False)
    hello = await read(own)
    if hello is None:
        return
    os.environ.clear()
    os.environ.update(hello["environ"])
    os.chdir(hello["cwd"])
    line = _Line(own)
    await line.send({"pid": os.getpid()})
    made: list[Model] = []

    def model() -> Model:
        if not made:
            made.append(model_for(hello["settings"], Host(environ=os.environ), hello["agent"]))
        return made[0]

    agent: Conversation | None = None
    turn: asyncio.Task[None] | None = None
    while (told := await read(own)) is not None:
        if "begin" in told:
            # Nothing is left of the agent that was here before.
            agent = turn = None
            if told["begin"] is not None:
                line.tools = ()
                state = State(told["memory"], told["temperature"])
                agent = Conversation(read_brief(told["begin"]), model, line, state)
        elif "turn" in told and agent is not None:
            turn = asyncio.create_task(_turn(agent, told["turn"], line))
        elif "command" in told and agent is not None:
            await line.send({"heeded": await agent.heed(told["command"])})
        else:
            line.answers.put_nowait(told)
    del turn
    os._exit(0)


async def _turn(agent: Conversation, value: Any, line: _Line) -> None:
    try:
        told = {"done": await agent.turn(value), **agent.news()}
    except Exception as error:
        told = {"failure": wire.render(_failure(error))}
    await line.send(told)


def _failure(error: Exception) -> Failure:
    return error if isinstance(error, Failure) else from_exception(error)


class _Line:
    """The run, at the other end of the socket."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._writing = asyncio.Lock()
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.tools: tuple[ToolSpec, ...] = ()

    async def send(self, value: Any) -> None:
        """Send a value."""
        async with self._writing:
            await write(self._own, value)

    async def reply(self, asked: str, ask: Ask) -> Reply:
        """A model's reply: one that the run knows, or by asking, with the run's leave. Raises Failure."""
        told = await self._asked({"ask": asked})
        if "reply" in told:
            return read_reply(told["reply"])
        if "tools" in told:
            self.tools = tuple(ToolSpec(**each) for each in told["tools"])
        try:
            reply = await ask(Leave(told["leave"], self.tools))
        except Exception as error:
            failure = _failure(error)
            await self.send({"failed": wire.render(failure)})
            raise failure from error
        await self.send({"reply": spelled_reply(reply)})
        return reply

    async def tool(self, call: ToolCall) -> str:
        """What a tool gives, as text for the model."""
        content: str = (await self._asked({"tool": asdict(call)}))["content"]
        return content

    async def tell(self, kind: str, **facts: Any) -> None:
        """Tell whoever listens."""
        await self.send({"tell": kind, "facts": facts})

    async def _asked(self, question: dict[str, Any]) -> dict[str, Any]:
        await self.send(question)
        told = await self.answers.get()
        if "failure" in told:
            raise wire.parse(told["failure"])
        return told


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


if __name__ == "__main__":
    _Nursery(socket.socket(fileno=int(sys.argv[1]))).run()
