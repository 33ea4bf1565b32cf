"""What an action says while it runs, told to the client that called it: progress and logs.

Clients know no text that is being written: where they follow a call's progress, what an agent writes and does comes
as the messages of that.

It costs nothing until something is said. A client that reads slowly slows down an action that awaits what it
says, and loses what an action says without awaiting; either way no more than a bounded amount is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.runtime.events import READY, ROOM, Channel, Event, Ready
from fairlead.surfaces.mcp import rpc
from fairlead.surfaces.mcp.peer import LEVELS, SILENT
from fairlead.surfaces.mcp.tools import Tool

#: Takes one message; gives something to await where there is no room for more.
Sink = Callable[[bytes], Awaitable[None] | None]

_STEP = 1e-6
#: Characters of a text that go into one message; what is ready is told together.
_PIECE = 4096
#: What an agent does that is worth a line.
_TOLD = {"tool_call": "Using {}", "todo": "{}", "info": "{}", "warning": "{}"}


class Voice(Channel):
    """The channel of one call. It keeps the chunks of a stream for the result, and passes the rest on."""

    __slots__ = ("_last", "_logger", "_pump", "_sink", "_threshold", "_token", "items")

    def __init__(self, sink: Sink, tool: Tool, token: str | int | None, threshold: int) -> None:
        super().__init__()
        self.items: list[Any] | None = [] if tool.streams else None
        self._sink = sink
        self._logger = tool.name
        self._token = token
        self._threshold = threshold
        self._last = -1.0
        self._pump: asyncio.Task[None] | None = None

    def put(self, event: Event) -> Ready | Channel:
        if not self._wanted(event):
            return READY
        waiting = super().put(event)
        self._start()
        return waiting

    def put_blocking(self, event: Event) -> Ready:
        if self._wanted(event):
            super().put_blocking(event)
            if self._pump is None:
                self._loop.call_soon_threadsafe(self._start)
        return READY

    async def finish(self) -> None:
        """Wait until all that was said has been sent, so that the answer comes last."""
        if self.buffer:
            self._start()
        if self._pump is not None:
            self.closed = True
            self.nudge()
            await self._pump

    def stop(self) -> None:
        """Send nothing more."""
        self.buffer.clear()
        self.close()
        if self._pump is not None:
            self._pump.cancel()

    def _wanted(self, event: Event) -> bool:
        kind = event["type"]
        if kind == "log":
            return LEVELS.get(event["level"], SILENT) >= self._threshold
        if kind in ("progress", "delta"):
            return self._token is not None
        if kind == "activity":
            return self._token is not None and event["kind"] in _TOLD
        if kind == "chunk":
            assert self.items is not None
            self.items.append(event["data"])
        return False

    def _start(self) -> None:
        if self._pump is None:
            self._pump = self._loop.create_task(self._run())

    async def _run(self) -> None:
        buffer = self.buffer
        while True:
            while buffer:
                event = buffer.popleft()
                if event["type"] == "delta":
                    event = self._joined(event)
                pending = self._sink(self._message(event))
                if pending is not None:
                    await pending
                if len(buffer) == ROOM // 2:
                    self.drained()
            self.drained()
            if self.closed:
                return
            await self.filled()

    def _message(self, event: Event) -> bytes:
        if event["type"] == "log":
            return self._log(event)
        if event["type"] == "delta":
            return self._words(event["data"])
        if event["type"] == "activity":
            return self._words(_TOLD[event["kind"]].format(event["title"]))
        percent = event["percent"]
        progress: dict[str, Any] = {"progressToken": self._token, "progress": self._rising(percent)}
        if percent is not None:
            progress["total"] = 100
        if event["message"]:
            progress["message"] = event["message"]
        return rpc.notification("notifications/progress", progress)

    def _joined(self, event: Event) -> Event:
        """A piece of text with those behind it that are ready as well."""
        pieces, size, buffer = [event["data"]], len(event["data"]), self.buffer
        while buffer and buffer[0]["type"] == "delta" and size < _PIECE:
            pieces.append(buffer.popleft()["data"])
            size += len(pieces[-1])
        return {"type": "delta", "data": "".join(pieces)}

    def _words(self, text: str) -> bytes:
        told = {"progressToken": self._token, "progress": self._rising(None), "message": text}
        return rpc.notification("notifications/progress", told)

    def _rising(self, percent: float | None) -> float:
        """Progress must rise from one notification to the next, whatever an action reports."""
        value = self._last + 1 if percent is None else percent
        self._last = value if value > self._last else self._last + _STEP
        return int(self._last) if self._last.is_integer() else self._last

    def _log(self, event: Event) -> bytes:
        level = "warning" if event["level"] == "warn" else event["level"]
        data = event["message"]
        if event["fields"]:
            data = {"message": data, "fields": event["fields"]}
        return rpc.notification(
            "notifications/message", {"level": level, "logger": self._logger, "data": data}
        )
