"""Servers that speak JSON-RPC over their standard input and output, and calls to them.

It knows the handshake of MCP, and that an answer is a line.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from environments import BENCHMARKS, CORE, Environment
from hosting import HostError, on_other_cores, on_server_core
from rounds import Failures

REVISION = "2025-11-25"
CLIENT = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call_of(number: int | str, arguments: dict[str, object]) -> dict[str, object]:
    """The message that calls the shared task."""
    params = {"name": "create_task", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def line_of(message: dict[str, object]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True)
class Piped:
    """A server: a name to show, the program in an environment's `bin`, and its arguments."""

    name: str
    program: str
    arguments: tuple[str, ...]
    environment: Environment = CORE
    package: str = ""
    #: Whether it knows the handshake.
    shakes: bool = True

    @property
    def command(self) -> list[str]:
        return [str(self.environment.path / "bin" / self.program), *self.arguments]


class Pipe:
    """A running server."""

    def __init__(self, piped: Piped) -> None:
        self.piped = piped
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it lives as long as the process
        self.process = subprocess.Popen(
            piped.command,
            cwd=BENCHMARKS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            preexec_fn=on_server_core,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        if piped.shakes:
            self.ask(line_of(INITIALIZE))
            os.write(self._in, line_of(INITIALIZED))

    def ask(self, lines: bytes, answers: int = 1) -> bytes:
        """Send lines, and wait until so many lines have come back."""
        os.write(self._in, lines)
        got = b""
        while got.count(b"\n") < answers:
            part = os.read(self._out, 1 << 20)
            if not part:
                raise HostError(self._last_words())
            got += part
        return got

    def time(self, lines: bytes, answers: int, count: int) -> float:
        """Seconds for each answer, asking so many times."""
        start = time.perf_counter()
        for _ in range(count):
            self.ask(lines, answers)
        return (time.perf_counter() - start) / count / answers

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._words.close()

    def _last_words(self) -> str:
        self._words.seek(0)
        words = self._words.read().strip().splitlines()
        return words[-1] if words else "the server ended"


@contextmanager
def pipes(servers: Sequence[Piped], failures: Failures) -> Iterator[list[Pipe]]:
    """The servers that can be started. Whoever asks them is kept away from their core."""
    started: list[Pipe] = []
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        for piped in servers:
            try:
                piped.environment.ensure()
                started.append(Pipe(piped))
            except Exception as reason:
                failures.add(piped.name, reason)
        on_other_cores()
        yield started
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)
        for pipe in started:
            pipe.close()


def first_answer(piped: Piped) -> float:
    """Seconds from the start of the process to its answer to the handshake."""
    start = time.perf_counter()
    with subprocess.Popen(
        piped.command,
        cwd=BENCHMARKS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line_of(INITIALIZE))
        process.stdin.flush()
        answer = process.stdout.readline()
        taken = time.perf_counter() - start
        process.kill()
    if b'"result"' not in answer:
        raise HostError(f"{piped.name} did not answer the handshake")
    return taken
