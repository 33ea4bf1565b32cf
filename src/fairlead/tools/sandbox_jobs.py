"""The background commands of a sandbox: who started them, how they are, and where they are logged.

A job belongs to the conversation or caller that started it; nobody else sees it. Jobs end with the program.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fairlead.failures.tool import ExecutionError, NotFound, Rejected
from fairlead.tools.processes import Process
from fairlead.tools.processes_output import Kept

#: Background commands of one conversation that run at once, and ended ones that are remembered.
RUNNING: Final = 16
REMEMBERED: Final = 50
#: Where logs are, below the sandbox's folder.
FOLDER: Final = (".fairlead", "logs")


@dataclass(frozen=True, slots=True)
class Job:
    """One command in the background."""

    process: Process
    #: Masked, as its output is.
    command: str
    cwd: str
    log_file: str
    output: Kept

    def describe(self) -> dict[str, Any]:
        process = self.process
        told: dict[str, Any] = {
            "pid": process.pid,
            "command": self.command[:500],
            "cwd": self.cwd,
            "log_file": self.log_file,
            "running": not process.over,
            "exit_code": process.exit_code if process.over else None,
        }
        return told if process.killed_by is None else {**told, "killed_by": process.killed_by}


class Jobs:
    """The jobs of each conversation, the oldest first."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[int, Job]] = {}
        self._lock = threading.Lock()

    def all(self, scope: str) -> list[Job]:
        with self._lock:
            return list(self._jobs.get(scope, {}).values())

    def get(self, scope: str, pid: int) -> Job:
        with self._lock:
            job = self._jobs.get(scope, {}).get(pid)
        if job is not None:
            return job
        raise NotFound(
            f"No background command of this conversation has the process id {pid}. `list` shows those there are.",
            field="pid",
        )

    def make_room(self, scope: str) -> None:
        """Refuse one job too many."""
        running = sum(not job.process.over for job in self.all(scope))
        if running >= RUNNING:
            raise Rejected(
                f"{running} commands run in the background already, which is the limit. Kill one that is not needed."
            )

    def add(self, scope: str, job: Job) -> None:
        with self._lock:
            jobs = self._jobs.setdefault(scope, {})
            # A process id may come again; the newer job is meant then.
            jobs.pop(job.process.pid, None)
            jobs[job.process.pid] = job
            self._forget(scope)

    def end(self) -> None:
        """End all that still run."""
        with self._lock:
            running = [job for jobs in self._jobs.values() for job in jobs.values()]
        for job in running:
            job.process.terminate()

    def _forget(self, scope: str) -> None:
        """Drop the oldest ended jobs; of other conversations too, or a long-lived program would keep them all."""
        jobs = self._jobs[scope]
        ended = [pid for pid, job in jobs.items() if job.process.over]
        for pid in ended[: max(0, len(ended) - REMEMBERED)]:
            del jobs[pid]
        quiet = [
            name
            for name, others in self._jobs.items()
            if name != scope and all(job.process.over for job in others.values())
        ]
        for name in quiet[: max(0, len(quiet) - REMEMBERED)]:
            del self._jobs[name]


def new_log(root: Path) -> tuple[int, str]:
    """A new log file, open, and its path.

    The folder belongs to what runs in the sandbox, which may have put links there: no step follows one.
    """
    name = f"{uuid4().hex[:12]}.log"
    try:
        with _descend(root) as folder:
            descriptor = os.open(
                name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
            )
    except OSError as exc:
        where = str(root.joinpath(*FOLDER))
        raise ExecutionError(
            f"No log file can be made in {where!r}: {exc.strerror or exc}.", cause=exc
        ) from exc
    return descriptor, str(root.joinpath(*FOLDER, name))


@contextlib.contextmanager
def _descend(root: Path) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as held:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        held.callback(os.close, folder)
        for part in FOLDER:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=folder)
            folder = os.open(part, flags, dir_fd=folder)
            held.callback(os.close, folder)
        yield folder
