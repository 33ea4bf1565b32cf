"""Streams that stay open: a sign of life when nothing is said, and an end when the server is about to stop,
or when the key that one was opened with is good no longer.

It knows nothing of what is said.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from fairlead.gateway.call import Caller
from fairlead.gateway.key_watch import KeyWatch
from fairlead.surfaces.http.asgi import Message, Send

#: What tells proxies and clients that the stream is alive. Readers skip it. No empty line ends it: some readers
#: take that for the end of an event that has nothing in it.
BEAT: Final = b": ping\n"
#: Seconds in which the answer of an agent may be over: a key is not looked at for one that is.
_SHORT: Final = 0.5


class Streams:
    """The streams of one gateway that are open."""

    def __init__(self, every: float, watch: KeyWatch | None = None) -> None:
        #: Seconds of silence after which there is a sign of life.
        self.every = every
        self._watch = watch
        self._waiting: set[asyncio.Task[Any]] = set()
        self._closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def closing(self) -> bool:
        return self._closing

    @closing.setter
    def closing(self, closing: bool) -> None:
        """End all that are open, each with its last frame; those that come later end after what there is to tell."""
        self._closing = closing
        if closing:
            for task in tuple(self._waiting):
                task.get_loop().call_soon_threadsafe(task.cancel)

    def watched(self, caller: Caller, end: Callable[[], None]) -> AbstractContextManager[None]:
        """For a stream that is kept in another way: `end` is called when its caller's key is good no longer."""
        return nullcontext() if self._watch is None else self._watch.over(caller, end, _SHORT)

    async def kept(
        self, frames: AsyncIterator[bytes], last: bytes, caller: Caller | None = None
    ) -> AsyncIterator[bytes]:
        """Frames as they come. `last` is said when they are ended early: the server stops, or the caller's key does."""
        stream = _Stream()
        watched = (
            nullcontext()
            if self._watch is None or caller is None
            else self._watch.over(caller, stream.refuse)
        )
        try:
            with watched:
                while not stream.refused:
                    following = stream.following = asyncio.ensure_future(_next(frames))
                    self._waiting.add(following)
                    if self._closing:
                        # What is there already comes at once; nobody waits for more.
                        await asyncio.wait((following,), timeout=0.05)
                        following.cancel()
                    while not (await asyncio.wait((following,), timeout=self.every))[0]:
                        yield BEAT
                    self._waiting.discard(following)
                    if following.cancelled() or stream.refused:
                        break
                    frame = following.result()
                    if not frame:
                        return
                    yield frame
            yield last
        finally:
            if stream.following is not None:
                self._waiting.discard(stream.following)
                if not stream.following.done():
                    stream.following.cancel()
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait((stream.following,))
            close = getattr(frames, "aclose", None)
            if close is not None:
                await close()


class _Stream:
    """One stream: what it waits for, and whether its caller may hear no more."""

    __slots__ = ("following", "refused")

    def __init__(self) -> None:
        self.following: asyncio.Task[bytes] | None = None
        self.refused = False

    def refuse(self) -> None:
        self.refused = True
        if self.following is not None:
            self.following.cancel()


class Beats:
    """Sends frames, and signs of life while there are none. To a stream that is never silent it costs a timer."""

    __slots__ = ("_beat", "_every", "_last", "_loop", "_send", "_timer")

    def __init__(self, send: Send, every: float) -> None:
        self._send = send
        self._every = every
        self._loop = asyncio.get_running_loop()
        #: When something was last sent; never silent while something is being sent.
        self._last = self._loop.time()
        self._beat: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(every, self._look)

    async def send(self, message: Message) -> None:
        beat, self._beat = self._beat, None
        if beat is not None:
            await beat  # one after the other
        self._last = math.inf
        await self._send(message)
        self._last = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()
        beat, self._beat = self._beat, None
        if beat is not None and not beat.cancel() and not beat.cancelled():
            beat.exception()  # whoever reads is gone: nobody else has to hear of it

    def _look(self) -> None:
        left = self._every - (self._loop.time() - self._last)
        if left <= 0:
            self._last = math.inf
            self._beat = asyncio.ensure_future(self._say())
        self._timer = self._loop.call_later(left if 0 < left < self._every else self._every, self._look)

    async def _say(self) -> None:
        await self._send({"type": "http.response.body", "body": BEAT, "more_body": True})
        self._last = self._loop.time()


async def _next(frames: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(frames)
    except StopAsyncIteration:
        # A task cannot end with it: an empty frame stands for it.
        return b""
