"""Servers as processes: started on a free port, kept to a core of their own, asked what they cost.

It knows nothing of what they serve.
"""

import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from environments import BENCHMARKS, SERVE, Environment
from rounds import Failures

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Seconds a server may take to listen.
_PATIENCE = 30.0
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Site:
    """A server: a name to show, what `serve.py` loads, and where the job is done."""

    name: str
    target: str
    path: str
    environment: Environment = SERVE
    package: str = ""


class HostError(Exception):
    """A server could not be started, or gave a wrong answer."""


class Host:
    """A running server."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.port = _free_port()
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  # it lives as long as the process
        # A session of its own: some servers leave children behind.
        self.process = subprocess.Popen(
            [str(site.environment.python), "serve.py", site.target, str(self.port)],
            cwd=BENCHMARKS,
            stdin=subprocess.PIPE,
            stdout=self._words,
            stderr=self._words,
            start_new_session=True,
            preexec_fn=on_server_core,
        )
        self._await()

    @property
    def version(self) -> str:
        return self.site.environment.versions()[self.site.package]

    def ask(
        self, body: bytes, headers: Mapping[str, str] = JSON, path: str = ""
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request, to see that the server does what it should."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path or self.site.path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def cpu(self) -> float:
        """Seconds of processor time so far; nothing where the system does not tell."""
        return sum(_cpu(pid) for pid in family(self.process.pid))

    def resident(self) -> int:
        """Bytes in memory."""
        return sum(_resident(pid) for pid in family(self.process.pid))

    def close(self) -> None:
        with suppress(ProcessLookupError):  # one that could not start is gone already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self._words.close()

    def _await(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self._words.seek(0)
        words = self._words.read().strip().splitlines()
        self.close()
        raise HostError(words[-1] if words else "the server does not listen")


@contextmanager
def hosts(sites: Sequence[Site], failures: Failures) -> Iterator[list[Host]]:
    """The servers that can be started."""
    started: list[Host] = []
    try:
        for site in sites:
            try:
                site.environment.ensure()
                started.append(Host(site))
            except Exception as reason:
                failures.add(site.name, reason)
        yield started
    finally:
        for host in started:
            host.close()


def on_server_core() -> None:
    """Keep this process to the first core, where servers run."""
    _pin(slice(0, 1))


def on_other_cores() -> None:
    """Keep this process away from the core where servers run."""
    _pin(slice(1, None))


def _pin(part: slice) -> None:
    if hasattr(os, "sched_setaffinity") and (cores := sorted(os.sched_getaffinity(0))[part]):
        os.sched_setaffinity(0, cores)


def family(pid: int) -> list[int]:
    """A process and those it has started."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [pid, *(each for child in file.read().split() for each in family(int(child)))]
    except OSError:
        return [pid]


def _cpu(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK
    except OSError:
        return 0.0


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
