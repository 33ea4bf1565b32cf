"""The fleet that faults happen to: two gateways, two workers, PostgreSQL and, as one likes, NATS, each on a machine.

Whoever ends is started again at once, as systemd does. Time-outs of the network are short, so that tests are.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.fleet_in_chaos import MOVED
from chaos.network import Network, Place
from servers import Nats, Postgres, Server
from warm import Warm
from warm_child import Child

WORKERS = ("worker0", "worker1")
GATEWAYS = ("gateway0", "gateway1")
#: Seconds until a worker that is not heard of is given up.
LEASE = 1.0
#: Room on the database's disk.
DISK = "192m"
_PORT = 8000
_IMPATIENT = (
    "connect_timeout=2&tcp_user_timeout=1500&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"
)


def fill(disk: Path) -> None:
    """Leave no room on a disk."""
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        size = 1 << 20
        while size >= 512:
            try:
                ballast.write(b"\0" * size)
            except OSError:
                size //= 2


class DistantPostgres(Postgres):
    """PostgreSQL for other machines, on a disk of its own, which is small."""

    def command(self) -> list[str]:
        return [*super().command(), "-c", "listen_addresses=*", "-c", "max_wal_size=64MB"]

    def _initdb(self) -> None:
        assert self.user is not None
        self.data.mkdir()
        who = f"uid={self.user.pw_uid},gid={self.user.pw_gid},mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},{who}", "none", self.data], check=True)
        empty = self.data.with_name("empty")
        data, self.data = self.data, empty
        super()._initdb()
        self.data = data
        self._run("sh", "-c", f"cp -R {empty}/. {data} && rm -r {empty}")
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")

    #: When there was room on the disk again.
    _drained = float("-inf")

    def fill(self) -> None:
        """Leave no room on the disk."""
        self._drained = float("inf")
        fill(self.data)

    def drain(self) -> None:
        (self.data / "ballast").unlink(missing_ok=True)
        self._drained = time.monotonic()

    def was_full_since(self, moment: float) -> bool:
        """Whether the disk was full at any time since then, by the monotonic clock."""
        return self._drained >= moment


class DistantNats(Nats):
    """NATS for other machines."""

    def _config(self) -> str:
        return super()._config().replace("host: 127.0.0.1", "host: 0.0.0.0")


class Member(Server):
    """A gateway or a worker."""

    def __init__(
        self, warm: Warm, role: str, place: Place, folder: Path, environment: dict[str, str]
    ) -> None:
        self.folder = folder
        self._warm = warm
        self.role = role
        self.process = None
        self._place = place
        self._environment = {**environment, "CHAOS_ROLE": role}

    @property
    def log(self) -> Path:
        return self.folder / f"{self.role}.txt"

    @property
    def url(self) -> str:
        return f"http://{self._place.address}:{_PORT}"

    def command(self) -> list[str]:
        fairlead = ["-m", "fairlead"]
        if self.role in WORKERS:
            return [*fairlead, "worker", "--lease", str(LEASE), "--drain", "1"]
        here = ["--host", self._place.address, "--port", str(_PORT)]
        return [*fairlead, "serve", *here, "--worker=0", "--drain", "1"]

    def begin(self) -> None:
        self._place.do(self._begin)

    def revive(self) -> None:
        """Start it again if it has ended. One place does one thing at a time, so that it is started once."""
        self._place.do(self._revive)

    def _revive(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            self._begin()

    def _begin(self) -> None:
        with self.log.open("ab") as log:
            self.process = Child(
                self._warm,
                *self.command(),
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


class Fleet:
    """All of them, and the network between them."""

    def __init__(self, warm: Warm, folder: Path, with_nats: bool) -> None:
        self.folder = folder
        self.network = Network()
        self._moved = 0.0
        place = self.network.add("database")
        self.postgres = place.do(DistantPostgres)
        place.do(self.postgres.start)
        self.postgres.run("CREATE DATABASE chaos")
        self.url = f"postgresql://postgres@{place.address}:{self.postgres.port}/chaos?{_IMPATIENT}"
        self.nats: DistantNats | None = None
        self.bus: str | None = None
        if with_nats:
            there = self.network.add("nats")
            nats = self.nats = there.do(DistantNats)
            there.do(nats.start)
            self.bus = f"nats://{there.address}:{nats.port}"
        environment = {**os.environ, **self._environment()}
        self.members = {
            role: Member(warm, role, self.network.add(role), folder, environment)
            for role in (*WORKERS, *GATEWAYS)
        }
        for role in (*self.members, "test"):
            (folder / f"clock-{role}").write_bytes(MOVED.pack(0.0))

    def _environment(self) -> dict[str, str]:
        told = {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "FAIRLEAD_APP": "chaos.member_in_chaos:app",
            "FAIRLEAD_DATA": str(self.folder),
            "CHAOS_STORE": self.url,
            "CHAOS_FOLDER": str(self.folder),
        }
        return told if self.bus is None else {**told, "FAIRLEAD_BUS_URL": self.bus}

    @property
    def gateways(self) -> list[str]:
        return [self.members[role].url for role in GATEWAYS]

    def start(self) -> None:
        for member in self.members.values():
            member.begin()

    def revive(self) -> None:
        """Start again whoever has ended."""
        for member in self.members.values():
            member.revive()

    def move_clocks(self, seconds: float, roles: Sequence[str] = (*WORKERS, *GATEWAYS, "test")) -> None:
        """Set the clocks of some so much later than it is."""
        for role in roles:
            with (self.folder / f"clock-{role}").open("r+b") as file:
                file.write(MOVED.pack(self._moved + seconds))

    def let_pass(self, seconds: float) -> None:
        """Let it be so much later for everybody."""
        self._moved += seconds
        self.move_clocks(0.0)

    def backends(self) -> list[int]:
        """The processes of PostgreSQL that serve a connection of the fleet's."""
        assert self.postgres.process is not None
        main = self.postgres.process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return [int(pid) for pid in children if b" 10.9." in _title(pid)]

    def database_processes(self) -> list[int]:
        assert self.postgres.process is not None
        main = self.postgres.process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return [main, *map(int, children)]

    def remove(self) -> None:
        for member in self.members.values():
            member.kill()
        if self.nats is not None:
            self.nats.remove()
        self.postgres.kill()
        subprocess.run(["umount", "-l", self.postgres.data], check=False)
        self.postgres.remove()
        self.network.close()


def _title(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
