"""Running one program to its end: its streams bounded, its time bounded, and nothing of it left over.

It fences nothing in. That is why `exec` is off until somebody switches it on, and then asks.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.failures.runtime import ProcessError
from fairlead.failures.tool import CAPS, truncate

#: What a program is told of this one's surroundings; keys and tokens are not among it.
_PASSED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_PIECE: Final = 64 * 1024
_TAIL: Final = 2000


async def execute(command: Sequence[str], folder: str, stdin: bytes, timeout: float) -> dict[str, Any]:
    """Run a program in a folder; gives how it exited, and what it said.

    Raises:
        ProcessError: it could not be started, was stopped by a signal, or took longer than `timeout` seconds.
    """
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        why = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else "it holds a NUL character"
        raise ProcessError(f"The program could not be started: {why}.", field="cmd", cause=exc) from None
    out, err = _Kept(CAPS["exec_stdout"]), _Kept(CAPS["exec_stderr"])
    try:
        async with asyncio.timeout(timeout):
            await asyncio.gather(
                _feed(process, stdin), out.drain(process.stdout), err.drain(process.stderr), process.wait()
            )
    except TimeoutError:
        words = f"The program took longer than {timeout:g} seconds and was stopped."
        raise ProcessError(words, details={"stderr": err.text[-_TAIL:], "timeout": timeout}) from None
    finally:
        _end(process)
        await process.wait()
    return _outcome(process.returncode or 0, out.text, err.text)


def _outcome(code: int, out: str, err: str) -> dict[str, Any]:
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
        words = f"The program was stopped by the signal {name}."
        raise ProcessError(words, details={"signal": name, "stdout": out[-_TAIL:], "stderr": err[-_TAIL:]})
    return {"exit": code, "stdout": out, "stderr": err}


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it is given
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


def _end(process: asyncio.subprocess.Process) -> None:
    """Stop all that is left of it: what it started is in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class _Kept:
    """The beginning and the end of a stream, however long it is."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._first = bytearray()
        self._last = bytearray()
        self._left_out = 0

    async def drain(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while piece := await stream.read(_PIECE):
            room = 4 * self._cap - len(self._first)
            self._first += piece[:room]
            self._last += piece[room:] if room > 0 else piece
            extra = len(self._last) - 4 * self._cap
            if extra > 0:
                self._left_out += extra
                del self._last[:extra]

    @property
    def text(self) -> str:
        first, last = self._first.decode(errors="replace"), self._last.decode(errors="replace")
        if not self._left_out:
            return truncate((self._first + self._last).decode(errors="replace"), self._cap)
        return truncate(f"{first}\n... [{self._left_out} bytes omitted] ...\n{last}", self._cap)
