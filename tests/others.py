"""Other Python processes, which tests talk to by lines."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from servers import PATIENCE
from warm import Warm
from warm_child import Child

_BEGINNING = """
import os, sys, time
from fairlead.store import Statement, open_store
from fairlead.failures import Failure

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()

url = sys.argv[1]
"""


class Other:
    """A Python process that runs a program, started warm if it may; it and the test talk by lines."""

    def __init__(self, warm: Warm | None, program: str, *arguments: str) -> None:
        command = ("-c", _BEGINNING + program, *arguments)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self.process: subprocess.Popen[bytes]
        if warm is None:
            self.process = subprocess.Popen([sys.executable, *command], **pipes)
        else:
            self.process = Child(warm, *command, **pipes)
        self._read = b""

    def say(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words.encode() + b"\n")

    def hear(self, patience: float = PATIENCE) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        end = time.monotonic() + patience
        while b"\n" not in self._read:
            ready, _, _ = select.select([self.process.stdout], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"the other process said nothing for {patience:g} seconds")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise EOFError(f"the other process ended with {self.process.wait()}")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def remove(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
