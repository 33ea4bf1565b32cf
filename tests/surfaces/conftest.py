"""Ways to run a command line: in process with given streams, as a process, and as a process on a terminal."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairlead import App
from fairlead.surfaces.cli import Console, main, run
from warm import Warm

PATIENCE = 20.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def issues(self) -> dict[str, str]:
        """The codes of the envelope's issues, by path."""
        return {".".join(map(str, each["path"])): each["code"] for each in self.json["error"]["issues"]}


@pytest.fixture
def cli() -> Callable[..., Ran]:
    """Run an app's command line in process; `tty=True` puts it on a terminal."""

    def call(
        app: App | None,
        *argv: str,
        stdin: str = "",
        tty: bool = False,
        env: dict[str, str] | None = None,
        **who: Any,
    ) -> Ran:
        stream = Terminal if tty else io.StringIO
        console = Console(stream(stdin), stream(), stream(), env or {})
        start = (
            partial(main, argv, console=console)
            if app is None
            else partial(run, app, argv, console=console, **who)
        )
        with pytest.raises(SystemExit) as exit:
            start()
        assert isinstance(exit.value.code, int)
        assert isinstance(console.stdout, io.StringIO)
        assert isinstance(console.stderr, io.StringIO)
        return Ran(exit.value.code, console.stdout.getvalue(), console.stderr.getvalue())

    return call


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """A file with an app in it, for real processes."""

    def write(source: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(
            "from __future__ import annotations\nimport asyncio, sys, time\n" + HEAD + source + TAIL
        )
        return path

    return write


HEAD = "from fairlead import App, Context, Failure, Kind\napp = App('program')\n"
TAIL = "\nif __name__ == '__main__':\n    app.cli()\n"


@pytest.fixture
def spawn(warm_python: Warm) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `python FILE ARGS`, warm unless Python itself is under test; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path, *argv: str, cold: bool = False, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        settings: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True, **options}
        arguments = (str(path), *argv)
        command = [sys.executable, *arguments] if cold else warm_python.command(*arguments)
        process = subprocess.Popen(command, **settings)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class OnTerminal:
    """A warm program on a pseudo terminal, which it makes its own."""

    def __init__(self, argv: Sequence[str], env: dict[str, str]) -> None:
        self._terminal, inner = os.openpty()
        plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
        self._process = subprocess.Popen(
            argv,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**plain, "TERM": "xterm", **env},
        )
        os.close(inner)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} did not appear in {self.seen!r}"
            self._read()

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def finish(self) -> tuple[int, str]:
        while self._read():
            pass
        code = self._process.wait(PATIENCE)
        self.close()
        return code, self.seen.replace("\r\n", "\n")

    def close(self) -> None:
        """End what still runs."""
        if self._terminal < 0:
            return
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
        self._terminal = -1

    def _read(self) -> bool:
        waiting = select.poll()  # as many files may be open as there are
        waiting.register(self._terminal, select.POLLIN)
        ready = waiting.poll(PATIENCE * 1000)
        assert ready, f"nothing more came after {self.seen!r}"
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the process closed the terminal
            return False
        self.seen += data.decode()
        return bool(data)


@pytest.fixture
def on_terminal(warm_python: Warm) -> Iterator[Callable[..., OnTerminal]]:
    """Start `python FILE ARGS` on a terminal; whatever still runs at the end is killed."""
    started: list[OnTerminal] = []

    def start(path: Path, *argv: str, **env: str) -> OnTerminal:
        process = OnTerminal(warm_python.command(str(path), *argv), env)
        started.append(process)
        return process

    yield start
    for process in started:
        process.close()
