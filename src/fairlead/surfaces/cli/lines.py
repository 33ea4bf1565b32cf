"""`json`: the JSON runner on stdin and stdout, for programs that would rather not speak flags.

One payload may spread over many lines; several stand one to a line. Each is answered with one line as soon
as it has run, so another program can hold a conversation.
"""

from __future__ import annotations

import asyncio
import os
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, Final, TextIO

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.runtime import App, Signal
from fairlead.surfaces.cli import interrupts
from fairlead.surfaces.cli.call import quiet_tracebacks, started, stopped
from fairlead.surfaces.cli.console import Console
from fairlead.surfaces.cli.identity import Identity
from fairlead.surfaces.json import JsonRunner
from fairlead.surfaces.refusal import writable

_CHUNK: Final = 1 << 16


def serve(app: App, identity: Identity, console: Console) -> int:
    """Answer payloads until stdin ends. The exit code is that of the first failure."""
    quiet_tracebacks(console)
    if console.interactive:
        console.say('Reading calls such as {"action": "name", "input": {}}, one a line. Ctrl-D ends.')
    with redirect_stdout(console.stderr):
        return interrupts.run(lambda signal: _serve(app, identity, console, signal))


async def _serve(app: App, identity: Identity, console: Console, signal: Signal) -> int:
    runner = JsonRunner(app, user=identity.user, auth=identity.auth)
    payloads = _Payloads(app, console, signal)
    code = 0
    try:
        await started(app, signal)
        while (payload := await payloads.next()) is not None:
            envelope = writable(await runner.invoke(payload, signal=signal))
            console.write_json(envelope)
            code = code or exit_code(envelope)
        signal.check()
    except Failure as failure:
        if failure.kind != Kind.cancelled:
            raise
        code = wire.exit_code(failure)
    finally:
        clean = await stopped(app, console)
    return code if clean else code or 1


def exit_code(envelope: dict[str, Any]) -> int:
    return 0 if envelope["ok"] else wire.exit_code(wire.parse(envelope["error"]))


class _Payloads:
    """The JSON texts on stdin, one by one."""

    def __init__(self, app: App, console: Console, signal: Signal) -> None:
        self._app = app
        self._readline = _lines_of(console.stdin)
        self._signal = signal
        self._first = True

    async def next(self) -> bytes | None:
        """The next text, whole or, at the end of stdin, as far as it goes; None when there is no more."""
        lines: list[bytes] = []
        while not self._signal.cancelled:
            line = await self._line()
            if self._first:
                self._first, line = False, line.removeprefix(BOM_UTF8)
            if not line:
                return b"".join(lines) or None
            if not lines and not line.strip():
                continue
            lines.append(line)
            # A text that goes on is tried again where it can end: costs stay linear.
            if (len(lines) == 1 or line[:1] in (b"}", b"]")) and not _goes_on(b"".join(lines)):
                return b"".join(lines)
        return None

    async def _line(self) -> bytes:
        reading = asyncio.wrap_future(self._app.workers.submit(self._readline))
        cancelled = asyncio.ensure_future(self._signal.wait())
        await asyncio.wait((reading, cancelled), return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        if not reading.done():
            reading.cancel()
            return b""
        return bytes(reading.result())


def _lines_of(stdin: TextIO) -> Callable[[], bytes]:
    """What gives the next line with each call, and nothing at the end."""
    try:
        return _Lines(stdin.fileno()).next
    except (OSError, ValueError):
        return lambda: stdin.readline().encode()


class _Lines:
    """The lines of a descriptor. Whoever waits for one may be left behind.

    A thread that waits in `sys.stdin` holds its lock, and Python aborts when it ends and cannot get that.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._read = bytearray()

    def next(self) -> bytes:
        searched = 0
        while (end := self._read.find(b"\n", searched) + 1) == 0:
            searched = len(self._read)
            chunk = os.read(self._descriptor, _CHUNK)
            self._read += chunk
            if not chunk:
                end = searched
                break
        line = bytes(self._read[:end])
        del self._read[:end]
        return line


def _goes_on(text: bytes) -> bool:
    """Whether the text is the beginning of JSON, rather than JSON or something else."""
    try:
        _json.loads(text)
    except ValueError as exc:
        return getattr(exc, "pos", 0) >= len(text.decode(errors="replace").rstrip())
    return False
