"""What a test of tasks has at hand: a place, processes, and ways to wait."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from fairlead import App
from fairlead.store import Store, open_store
from fairlead.tasks import Task, Tasks, Worker
from fairlead.tasks.bus import open_bus
from tasks.app_under_test import LOOK
from warm import Warm
from warm_child import Child

#: Seconds that something may take on a busy machine before it counts as failed.
PATIENCE = 45.0


class Where(NamedTuple):
    """Where a test's tasks are kept."""

    folder: Path
    url: str | None
    bus: str | None = None

    def open(self) -> Store:
        return open_store("under test", url=self.url, data=self.folder)

    def tasks(self, app: App, store: Store) -> Tasks:
        return Tasks(app, store, bus=open_bus(store, app.clock, self.bus))

    @property
    def environment(self) -> dict[str, str]:
        """What a process has to know of it besides what it is told."""
        return {**os.environ, **({} if self.bus is None else {"FAIRLEAD_BUS_URL": self.bus})}


class StartWorker(Protocol):
    def __call__(self, **options: Any) -> Worker: ...


class Process:
    """A process of the app, and what it says, line by line."""

    def __init__(self, warm: Warm, arguments: list[str], environment: Mapping[str, str]) -> None:
        self.lines: SimpleQueue[str | None] = SimpleQueue()
        self.popen = Child(
            warm,
            str(Path(__file__).with_name("app_under_test.py")),
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._listen, self._complain)
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if line.endswith("\n"):
                self.lines.put(line.strip())
        self.lines.put(None)

    def _complain(self) -> None:
        assert self.popen.stderr is not None
        self._errors.extend(self.popen.stderr)

    def line(self) -> str:
        """The next line it says."""
        try:
            line = self.lines.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError(f"The process says nothing. {self.errors}") from None
        assert line is not None, f"The process ended. {self.errors}"
        return line

    def rest(self) -> list[str]:
        """All it says until it ends."""
        said = []
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            said.append(line)
        return said

    @property
    def errors(self) -> str:
        return "".join(self._errors)

    def go(self, words: str = "") -> None:
        """Let it go on that waits for a line."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{words}\n")
        self.popen.stdin.flush()

    def signal(self, number: int) -> None:
        os.kill(self.popen.pid, number)
        if number == signal.SIGSTOP:  # else a thread in the midst of something may end that yet
            os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED)

    def kill(self) -> None:
        """kill -9."""
        self.popen.kill()
        self.ended()

    def ended(self) -> int:
        """Wait until it has; gives its exit code."""
        code = self.popen.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            assert pipe is not None
            pipe.close()
        return code


class StartProcess(Protocol):
    def __call__(self, role: str = "worker", *, wait: bool = True, **options: Any) -> Process: ...


async def until(true: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """Wait for something that nobody tells us."""
    async with asyncio.timeout(patience):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(LOOK)


async def ended(tasks: Tasks, *wanted: Task | str) -> list[Task]:
    """The tasks, once they have ended or paused."""
    ids = [each if isinstance(each, str) else each.id for each in wanted]
    return list(await asyncio.gather(*(tasks.wait(id, PATIENCE) for id in ids)))
