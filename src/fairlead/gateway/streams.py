"""Streams that stay open: a sign of life when nothing is said, and an end when the server is about to stop.

It knows nothing of what is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

#: What tells proxies and clients that the stream is alive. Readers skip it. No empty line ends it: some readers
#: take that for the end of an event that has nothing in it.
BEAT: Final = b": ping\n"


class Streams:
    """The streams of one gateway that are open."""

    def __init__(self, every: float) -> None:
        #: Seconds of silence after which there is a sign of life.
        self.every = every
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

    async def kept(self, frames: AsyncIterator[bytes], last: bytes) -> AsyncIterator[bytes]:
        """Frames as they come. `last` is said when the server stops before they end."""
        following: asyncio.Task[bytes] | None = None
        try:
            while True:
                following = asyncio.ensure_future(_next(frames))
                self._waiting.add(following)
                if self._closing:
                    # What is there already comes at once; nobody waits for more.
                    await asyncio.wait((following,), timeout=0.05)
                    following.cancel()
                while not (await asyncio.wait((following,), timeout=self.every))[0]:
                    yield BEAT
                self._waiting.discard(following)
                if following.cancelled():
                    yield last
                    return
                frame = following.result()
                if not frame:
                    return
                yield frame
        finally:
            if following is not None:
                self._waiting.discard(following)
                if not following.done():
                    following.cancel()
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait((following,))
            close = getattr(frames, "aclose", None)
            if close is not None:
                await close()


async def _next(frames: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(frames)
    except StopAsyncIteration:
        # A task cannot end with it: an empty frame stands for it.
        return b""
