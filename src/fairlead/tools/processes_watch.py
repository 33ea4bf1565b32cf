"""Waiting for a command within a call: live words on the way, a limit on silence, and a cancel that leaves nothing.

The words are progress events with the end of the output; how often they come falls with the age of the command, so
that a long one does not fill the call's record.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from fairlead.runtime.context import Context
from fairlead.tools.processes import Process

#: Seconds between two reports: at first, and at most.
_OFTEN: Final = 0.2
_SELDOM: Final = 2.0
#: The limits of an idle time-out, in seconds.
SHORTEST: Final = 1.0
LONGEST: Final = 3600.0


def idle_limit(asked: float | None, default: float | None) -> float | None:
    """The idle time-out that applies: what was asked for beats the default; zero and below mean none."""
    chosen = default if asked is None else asked
    if chosen is None or chosen <= 0:
        return None
    return min(max(chosen, SHORTEST), LONGEST)


async def watch(process: Process, ctx: Context, idle: float | None) -> None:
    """Wait until the started process is over; after `idle` seconds without output, end it.

    However this is left, the process and all it started are ended.
    """
    try:
        await _until_over(process, ctx, idle)
    except asyncio.CancelledError:
        await process.end("cancelled")
        raise
    finally:
        if not process.over:
            process.kill()


async def observe(process: Process, ctx: Context, seconds: float) -> bool:
    """Look on for that long at most; gives whether the process is over. It is not ended."""
    until, words = time.monotonic() + seconds, Words(process, ctx, ends=False)
    while (left := until - time.monotonic()) > 0:
        if await process.wait(min(words.pause, left)):
            return True
        words.tell()
    return process.over


async def _until_over(process: Process, ctx: Context, idle: float | None) -> None:
    words = Words(process, ctx)
    while True:
        silence = time.monotonic() - process.heard
        if idle is not None and silence >= idle:
            await process.end("idle_timeout")
            return
        if await process.wait(words.pause if idle is None else min(words.pause, idle - silence)):
            return
        words.tell()


class Words:
    """What whoever listens is told of a process: that it runs, and the end of its output when that is new."""

    def __init__(self, process: Process, ctx: Context, *, ends: bool = True) -> None:
        self._process = process
        self._ctx = ctx
        #: Who is told of a process by its id may end it with the call: not one that is only looked at.
        self._id = {"pid": process.pid} if ends else {}
        #: How much of its output is told; of one that can be ended there is word once even if it prints nothing.
        self._told = None if ends else 0

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return min(_SELDOM, max(_OFTEN, (time.time() - self._process.started) / 50))

    def tell(self) -> None:
        tail = self._process.tail
        if tail.pieces != self._told:
            self._told = tail.pieces
            self._ctx.progress.report(tail.line or None, fields={**self._id, "tail": tail.text})
