"""JSON Lines in and out: a run between two streams of bytes, at the speed of the slower one, in constant memory."""

from __future__ import annotations

import asyncio
import os
import select
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure
from fairlead.failures.runtime import ParseError, ValidationError
from fairlead.pipelines.host import Host
from fairlead.pipelines.network import Batch
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import Run

_CHUNK: Final = 1 << 16
#: Messages that are sent together where all of them are there.
_BATCH: Final = 512
#: A single message may have so many bytes.
_LONGEST: Final = 64 * 1024 * 1024


async def between(
    process: Process,
    read: Callable[[], AsyncIterator[bytes]],
    write: Callable[[bytes], Awaitable[None] | None],
    host: Host | None = None,
) -> None:
    """Run a process from lines to lines. Raises Failure."""

    def told(batch: Batch) -> Awaitable[None] | None:
        return write(written(batch))

    async with Run(process, host, write=told) as run:
        await _fed(run, _feed(run, read) if process.inputs else None)


def written(values: Batch) -> bytes:
    """Results as lines. Raises ValidationError for one that no line can hold."""
    try:
        return b"".join([_json.encode(value) + b"\n" for value in values])
    except TypeError as error:
        message = "A result of 'main' is nested too deeply to be written."
        raise ValidationError(message, details={"source": "main"}, cause=error) from error


async def sent(
    run: Run, values: list[Any], broken: Failure | None = None, numbers: list[int] | None = None
) -> None:
    """Send messages and wait for the end, as a run between lines does: what comes before a failure is out.

    `broken` is what is wrong with the input after them, `numbers` the lines that they came in. Raises Failure.
    """

    async def feed() -> None:
        for start in range(0, len(values), _BATCH):
            lines = None if numbers is None else numbers[start : start + _BATCH]
            await _passed(run, values[start : start + _BATCH], lines)
        if broken is not None:
            raise broken
        run.close_input()

    await _fed(run, feed())


async def _fed(run: Run, feed: Coroutine[Any, Any, None] | None) -> None:
    feeding = None if feed is None else asyncio.get_running_loop().create_task(feed)
    try:
        await _either(run, feeding)
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _either(run: Run, feeding: asyncio.Task[None] | None) -> None:
    ending = asyncio.get_running_loop().create_task(run.wait())
    waiting: set[asyncio.Task[Any]] = {ending} | ({feeding} if feeding is not None else set())
    try:
        while ending in waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _feed(run: Run, read: Callable[[], AsyncIterator[bytes]]) -> None:
    # A line that is not whole yet is kept in parts: to join them with each read would take quadratic time.
    rest: list[bytes] = []
    length = number = 0
    async for chunk in read():
        lines = chunk.split(b"\n")
        if length + len(lines[0]) > _LONGEST:
            raise _too_long(number + 1)
        if len(lines) == 1:
            rest.append(chunk)
            length += len(chunk)
            continue
        if rest:
            lines[0] = b"".join([*rest, lines[0]])
        last = lines.pop()
        rest, length = [last], len(last)
        number = await _send(run, lines, number)
    await _send(run, [b"".join(rest)], number)
    run.close_input()


def _too_long(number: int) -> ParseError:
    message = f"Line {number} of the input is longer than {_LONGEST} bytes."
    return ParseError(message, details={"source": "main", "line": number})


async def _send(run: Run, lines: list[bytes], number: int) -> int:
    values: list[Any] = []
    numbers: list[int] = []
    loads = _json.loads
    for line in lines:
        number += 1
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if not line or line.isspace():
            continue
        try:
            values.append(loads(line))
        except ValueError as error:
            await _passed(run, values, numbers)
            message = unreadable(f"Line {number} of the input", error)
            raise ParseError(message, details={"source": "main", "line": number}, cause=error) from error
        numbers.append(number)
    await _passed(run, values, numbers)
    return number


async def _passed(run: Run, values: list[Any], numbers: list[int] | None) -> None:
    """Send messages; a failure says in which line the one was that is not of the type."""
    if not values:
        return
    try:
        await run.send_batch(values)
    except ValidationError as failure:
        index = None if numbers is None else run.refused(values)
        if numbers is not None and index is not None:
            failure.details.setdefault("line", numbers[index])
        raise


def unreadable(what: str, error: ValueError) -> str:
    """Why a text was not read: it is no JSON, or has more levels than anything can walk."""
    deep = any(word in str(error) for word in ("depth", "deep"))
    return f"{what} is {'nested too deeply' if deep else 'not JSON'}."


async def chunks_of(descriptor: int) -> AsyncIterator[bytes]:
    """What comes from a file, a pipe or a terminal, as it comes."""
    loop = asyncio.get_running_loop()
    try:
        os.set_blocking(descriptor, os.get_blocking(descriptor))
        ready = asyncio.Event()
        loop.add_reader(descriptor, ready.set)
    except (OSError, NotImplementedError, PermissionError, ValueError):
        # A plain file is always ready.
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
            await asyncio.sleep(0)
        return
    try:
        while True:
            await ready.wait()
            ready.clear()
            if not select.select([descriptor], [], [], 0)[0]:
                continue  # told twice of the same bytes: to read now would hold the loop until the next ones
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                return
            yield chunk
    finally:
        loop.remove_reader(descriptor)


async def write_to(descriptor: int, data: bytes) -> None:
    """Write to a file, a pipe or a terminal; where that has no room, everything else goes on meanwhile."""
    rest = memoryview(data)
    while rest:
        await _room_in(descriptor)
        # So much goes into a pipe that has room, and never holds the loop.
        rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]


async def _room_in(descriptor: int) -> None:
    if select.select([], [descriptor], [], 0)[1]:
        return
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(descriptor)
