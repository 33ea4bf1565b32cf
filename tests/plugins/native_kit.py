"""What tests of native plugins share: a compiler, and services that write down what they were asked."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import fairlead.plugins
from fairlead.plugins import slots
from fairlead.plugins.runner import Answer, Frame

INCLUDE = Path(fairlead.plugins.__file__).parent / "include"
SOURCES = Path(__file__).parent / "c"
ANN = "A1111111-1111-4111-8111-111111111111"
BOB = "B2222222-2222-4222-8222-222222222222"


def compiler() -> list[str]:
    """The system's C compiler, or the one in ziglang where there is none."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is not None:
        return [found]
    assert importlib.util.find_spec("ziglang"), "the tests need a C compiler: apt-get install gcc"
    return [sys.executable, "-m", "ziglang", "cc"]


def compile_c(source: Path, target: Path, *options: str, shared: bool = True) -> Path:
    """Compile one of our C files, against our own header; what was compiled before on this machine is copied."""
    kind = ["-shared", "-fPIC"] if shared else []
    command = [*compiler(), *kind, "-g", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", *options]
    made = _compiled_before() / _digest(command, source)
    if not made.exists():
        unfinished = made.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [*command, "-o", unfinished, source, "-lpthread"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        unfinished.rename(made)
    # A file of its own: some tests change it, and a library that is the same file has the same variables.
    shutil.copy(made, target)
    return target


def _digest(command: list[str], source: Path) -> str:
    """What decides what comes out: the compiler, what it is told, and the files that it reads."""
    about = os.stat(command[0])
    digest = hashlib.sha256(repr((command, source.name, about.st_size, about.st_mtime)).encode())
    for each in (source, *sorted(source.parent.glob("*.h")), *sorted(INCLUDE.glob("**/*.h"))):
        digest.update(each.read_bytes())
    return digest.hexdigest()


@cache
def _compiled_before() -> Path:
    folder = Path(tempfile.gettempdir(), f"fl-compiled-{os.geteuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    assert folder.stat().st_uid == os.geteuid(), f"{folder} is somebody else's"
    return folder


class Answering:
    """Services that write down what they are asked and answer what the test says, else with what they were given."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[str, tuple[str | None, ...], str | None]] = []
        self.answers = answers
        self.pieces: list[str] = ["one", "two", "three"]
        self.cancelled: set[str | None] = set()
        self.told = asyncio.Event()

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> Answer:
        entry = slots.SLOTS[slot]
        assert entry is not None
        self.asked.append((entry.name, args, frame.agent))
        self.told.set()
        if entry.name == "complete_cancel":
            self.cancelled.add(args[0])
        answer = self.answers.get(entry.name, args[0] if args and entry.gives != slots.NOTE else None)
        return answer(*args) if callable(answer) else answer

    async def stream(
        self, request: str | None, frame: Frame, chunk: Callable[[str], Awaitable[None]] | None
    ) -> str | None:
        self.asked.append(("complete_stream", (request,), frame.agent))
        for piece in self.pieces if chunk else ():
            if request in self.cancelled:
                return "cancelled"
            assert chunk is not None
            await chunk(piece)
        return "done"

    def names(self) -> list[str]:
        return [name for name, _args, _agent in self.asked]

    async def until(self, name: str, times: int = 1) -> None:
        """Wait until something was asked so often."""
        while self.names().count(name) < times:
            self.told.clear()
            await self.told.wait()


def status(pid: int) -> dict[str, str]:
    """What the system says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def folder_of(pid: int) -> Path:
    """The folder that a process works in."""
    return Path(f"/proc/{pid}/cwd").resolve()


def processes() -> set[int]:
    """The numbers of all processes that are no zombies."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z":
                found.add(int(entry))
    return found


def helpers() -> set[int]:
    """The processes of plugins, of whichever host."""
    found = set()
    for pid in processes():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"import helper; helper.main()" in command and b"bwrap" not in command:
            found.add(pid)
    return found


def below(pid: int) -> set[int]:
    """The processes that a process started, and those that they did."""
    found: set[int] = set()
    for each in processes():
        try:
            parent = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found |= {each} | below(each)
    return found


async def gone(pid: int) -> None:
    """Wait until the process has ended."""
    try:
        at = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(at, over.set)
    try:
        await over.wait()
    finally:
        asyncio.get_running_loop().remove_reader(at)
        os.close(at)


def children() -> set[int]:
    """The processes that this one has started and that have not been waited for, by whichever thread."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for each in lists for pid in each.read_text().split()}
