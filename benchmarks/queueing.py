"""Queues as processes, and the real servers they stand on. It knows nothing of what is measured."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import BENCHMARKS, ROOT, TASKS, Environment
from rounds import Failures


@dataclass(frozen=True)
class Queue:
    """Who takes part: a name to show, the class that `toil.py` opens, and what it is opened with."""

    name: str
    target: str
    addresses: tuple[str, ...]
    environment: Environment = TASKS
    package: str = ""

    @property
    def version(self) -> str:
        return self.environment.versions()[self.package] if self.package else ""


class QueueError(Exception):
    """A queue could not be opened, or did not do what it was told."""


class Toiler:
    """A running process of a queue."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        queue.environment.ensure()
        # A file and not a pipe: a library that logs much would fill a pipe and wait for ever.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it lives as long as the process
        self._process = subprocess.Popen(
            [str(queue.environment.python), "toil.py", queue.target, *queue.addresses],
            cwd=BENCHMARKS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            text=True,
        )
        self._answer()

    def ask(self, order: str, *arguments: Any) -> Any:
        """Have it do something, and wait until it is done."""
        self.tell(order, *arguments)
        return self._answer()

    def tell(self, order: str, *arguments: Any) -> None:
        """Have it begin something; `hear` waits for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": order, "with": arguments}) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        return self._answer()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._words.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._words.seek(0)
        words = self._words.read().strip().splitlines()
        raise QueueError(words[-1] if words else "the process ended")


@contextmanager
def toilers(queues: Sequence[Queue], failures: Failures | None = None) -> Iterator[list[Toiler]]:
    """The queues that can be opened, each in its process; all of them, if nobody is to hear of failures."""
    with ExitStack() as stack:
        opened = []
        for queue in queues:
            try:
                toiler = Toiler(queue)
            except Exception as reason:
                if failures is None:
                    raise
                failures.add(queue.name, reason)
                continue
            stack.callback(toiler.close)
            opened.append(toiler)
        yield opened


class Servers:
    """PostgreSQL and NATS, started when first needed, and a folder for files."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-bench-")))
        self._module = _servers()
        self._postgres: Any = None
        self._nats: Any = None

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.db")

    def database(self, name: str) -> str:
        """The URL of a database, made when it is first asked for."""
        if self._postgres is None:
            self._postgres = self._started(self._module.Postgres(disk=True))
            self._made: set[str] = set()
        if name not in self._made:
            self._postgres.run(f'CREATE DATABASE "{name}"')
            self._made.add(name)
        # By TCP, which all clients know how to spell.
        url: str = self._postgres.url(name, tcp=True)
        return url

    def nats(self) -> str:
        if self._nats is None:
            self._nats = self._started(self._module.Nats(disk=True))
        url: str = self._nats.url
        return url

    def _started(self, server: Any) -> Any:
        self._stack.callback(server.remove)
        server.start()
        return server


def _servers() -> Any:
    """The module that has the real servers of the tests."""
    spec = importlib.util.spec_from_file_location("real_servers", ROOT / "tests" / "servers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
