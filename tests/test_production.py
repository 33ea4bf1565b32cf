"""The production guide's files do what it says: systemd takes the units, and real proxies stand before real servers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from servers import Server, free_port, until
from warm import Warm
from warm_child import Child

ROOT = Path(__file__).parents[1]
FILES = ROOT / "examples" / "production"
BIN = Path(sys.executable).parent
UNITS = sorted(FILES.glob("*.service")) + sorted(FILES.glob("*.timer"))
HOST = "app.example.com"
APP = '''
import asyncio
from collections.abc import AsyncIterator
from fairlead import App

app = App("desk", description="Greet and count.")
going = asyncio.Event()

@app.action
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"

@app.action
async def count() -> AsyncIterator[str]:
    """Count, and wait for a word in between."""
    yield "one"
    await going.wait()
    yield "two"

@app.action
async def go_on() -> None:
    """Let the counting go on."""
    going.set()
'''


class Machine:
    """A folder that stands for the places that the files name, with an app and a key."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.database = database
        for part in ("srv/fairlead/app", "etc/fairlead", "var/lib/fairlead", "var/backups/fairlead"):
            (folder / part).mkdir(parents=True)
        (folder / "srv/fairlead/app/app.py").write_text(APP)
        made = self.run("keys", "new", "ci", "--file", str(folder / "etc/fairlead/keys.json"), "--json")
        self.key = str(re.search(r'"key": ?"([^"]+)"', made)[1])  # type: ignore[index]

    def placed(self, text: str) -> str:
        """What a file says, with the places of this machine."""
        text = text.replace("/srv/fairlead/venv/bin/", f"{BIN}/")
        return re.sub(r"/(srv|etc|var/lib|var/backups)/fairlead", rf"{self.folder}/\1/fairlead", text)

    @property
    def environment(self) -> dict[str, str]:
        text = self.placed((FILES / "fairlead.env").read_text())
        named = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return os.environ | named | {"FAIRLEAD_DATABASE_URL": self.database, "NO_COLOR": "1"}

    def commands(self, unit: str, instance: str = "") -> list[list[str]]:
        """What a unit starts."""
        lines = re.findall(r"^ExecStart=(.*)$", (FILES / unit).read_text(), re.MULTILINE)
        words = (self.placed(line).replace("%i", instance).replace("%%", "%") for line in lines)
        return [shlex.split(line) for line in words]

    def run(self, *arguments: str) -> str:
        return self.call([str(BIN / "fairlead"), *arguments])

    def admin(self, *arguments: str) -> str:
        """What `fairlead-admin` does, as the user that runs the tests."""
        for name in ("fairlead.env", "fairlead-admin"):
            text = self.placed((FILES / name).read_text()).replace("runuser -u fairlead -- ", "")
            text = re.sub(r"(?m)^FAIRLEAD_DATABASE_URL=.*$", f"FAIRLEAD_DATABASE_URL='{self.database}'", text)
            (self.folder / "etc/fairlead" / name).write_text(text)
        return self.call(["sh", str(self.folder / "etc/fairlead/fairlead-admin"), *arguments])

    def call(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder / "srv/fairlead/app",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Unit(Server):
    """What a unit runs, started as systemd would, or warm where a proxy is what is tested."""

    def __init__(
        self, machine: Machine, unit: str, instance: str, says: str, warm: Warm | None = None
    ) -> None:
        super().__init__("unit")
        self._machine = machine
        self._warm = warm
        [self._command] = machine.commands(unit, instance)
        self._says = says.encode()

    def begin(self) -> None:
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            how: dict[str, Any] = {
                "cwd": self._machine.folder / "srv/fairlead/app",
                "env": self._machine.environment,
                "stdin": subprocess.DEVNULL,
                "stdout": log,
                "stderr": log,
            }
            if self._warm is None:
                self.process = subprocess.Popen(self._command, **how, **self._who())
            else:
                self.process = Child(self._warm, *self._command, **how)

    def ready(self) -> bool:
        return self._says in self.log.read_bytes()

    def ended(self) -> int:
        """Stop it, and tell its exit code."""
        assert self.process is not None
        process = self.process
        self.stop()
        return int(process.returncode)


class Serving(Unit):
    def __init__(self, machine: Machine, warm: Warm | None = None) -> None:
        self.port = free_port()
        super().__init__(machine, "fairlead-serve@.service", str(self.port), "Serving desk.", warm)

    def ready(self) -> bool:
        try:
            return (
                httpx.get(f"http://127.0.0.1:{self.port}/readyz", headers={"Host": HOST}).status_code == 200
            )
        except httpx.TransportError:
            return False


class Proxy(Server):
    """The proxy of a file, before these ports."""

    def __init__(self, name: str, ports: list[int]) -> None:
        super().__init__(name)
        self.port = free_port()
        text = (FILES / self.file).read_text()
        for shipped, port in zip((8001, 8002), ports, strict=True):
            text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{port}")
        self._write(text)
        options = ["-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={HOST}"]
        places = ["-keyout", str(self.folder / "key.pem"), "-out", str(self.folder / "cert.pem")]
        names = ["-addext", f"subjectAltName=DNS:{HOST}"]
        made = subprocess.run(["openssl", "req", "-x509", *options, *places, *names], capture_output=True)
        assert made.returncode == 0, made.stderr

    file = ""

    def check(self) -> list[str]:
        raise NotImplementedError

    def _write(self, text: str) -> None:
        raise NotImplementedError

    def client(self, key: str) -> httpx.Client:
        trust = ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
        named = {"Host": f"{HOST}:{self.port}", "Authorization": f"Bearer {key}"}

        def to_this_name(request: httpx.Request) -> None:
            request.extensions["sni_hostname"] = HOST

        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            headers=named,
            verify=trust,
            timeout=30,
            event_hooks={"request": [to_this_name]},
        )

    def ready(self) -> bool:
        try:
            with self.client("none") as client:
                return client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False


class Nginx(Proxy):
    file = "nginx.conf"

    def _write(self, text: str) -> None:
        here = self.folder
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl")
        text = re.sub(r"/etc/letsencrypt/live/\S+/fullchain.pem", f"{here}/cert.pem", text)
        text = re.sub(r"/etc/letsencrypt/live/\S+/privkey.pem", f"{here}/key.pem", text)
        (here / "site.conf").write_text(text)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {here}/{kind};" for kind in kinds)
        around = f"access_log off; {temporary} include {here}/site.conf;"
        root = "user root;" if os.geteuid() == 0 else ""
        (here / "main.conf").write_text(f"{root} pid {here}/pid; events {{}} http {{ {around} }}")

    def check(self) -> list[str]:
        return [_program("nginx"), "-t", "-e", "stderr", "-c", str(self.folder / "main.conf")]

    def command(self) -> list[str]:
        return [
            _program("nginx"),
            *("-e", "stderr", "-c", str(self.folder / "main.conf"), "-g", "daemon off; master_process off;"),
        ]


class Caddy(Proxy):
    file = "Caddyfile"

    def _write(self, text: str) -> None:
        name = f"https://{HOST}:{self.port} {{\n\ttls {self.folder}/cert.pem {self.folder}/key.pem"
        around = "{\n\tadmin off\n\tauto_https off\n}\n"
        (self.folder / "Caddyfile").write_text(around + text.replace(f"{HOST} {{", name))

    def check(self) -> list[str]:
        return [_program("caddy"), "validate", *self._which]

    def command(self) -> list[str]:
        return [_program("caddy"), "run", *self._which]

    @property
    def _which(self) -> list[str]:
        return ["--adapter", "caddyfile", "--config", str(self.folder / "Caddyfile")]


def _program(name: str) -> str:
    """The system's, or the one that `tests/needs.sh` has unpacked."""
    beside = os.pathsep.join(str(BIN.parent / "proxies" / "usr" / folder) for folder in ("sbin", "bin"))
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", beside]))
    assert found is not None, f"{name} was not found: run tests/needs.sh"
    return found


@pytest.fixture
def machine(tmp_path: Path, postgres_url: str) -> Machine:
    return Machine(tmp_path, postgres_url)


@pytest.fixture
def started() -> Iterator[Callable[[Server], None]]:
    running: list[Server] = []

    def start(server: Server) -> None:
        running.append(server)
        server.start()

    yield start
    for each in reversed(running):
        each.remove()


def test_the_guide_shows_every_file_as_it_is() -> None:
    guide = (ROOT / "docs" / "guides" / "production.md").read_text()
    shown = [text for _, text in re.findall(r"^```(\w+)\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)]
    assert [file.name for file in sorted(FILES.iterdir()) if file.read_text() not in shown] == []


def test_systemd_takes_the_units(machine: Machine) -> None:
    copies = []
    for unit in UNITS:
        copies.append(machine.folder / unit.name)
        copies[-1].write_text(machine.placed(unit.read_text()))
    done = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    for copy in copies[1:3]:
        # Of 100; above 50 systemd calls a service more than fairly exposed.
        fenced = ["systemd-analyze", "security", "--offline=yes", "--threshold=50", str(copy)]
        done = subprocess.run(fenced, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stdout


def test_what_the_units_start_serves_works_and_backs_up(
    machine: Machine, started: Callable[[Server], None], tmp_path: Path
) -> None:
    serving = Serving(machine)
    worker = Unit(machine, "fairlead-worker@.service", "1", '"type":"ready"')
    started(serving)
    started(worker)

    machine.admin("secrets", "rotate")
    assert (machine.folder / "etc/fairlead/secret.key").stat().st_mode & 0o777 == 0o600

    task = machine.run("run", "greet", "--name", "Ada", "--detach").strip()
    assert "Hello, Ada!" in machine.run("tasks", "watch", task)

    for command in machine.commands("fairlead-backup.service"):
        machine.call(command)
    [backup] = (machine.folder / "var/backups/fairlead").iterdir()
    fresh = machine.database
    machine.database = f"sqlite:///{tmp_path}/restored.db"
    machine.run("store", "restore", str(backup))
    assert task in machine.run("tasks", "list", "--json")
    machine.database = fresh

    assert worker.ended() == 0
    assert serving.ended() == 0


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_a_proxy_streams_events_as_they_come(
    machine: Machine, started: Callable[[Server], None], kind: type[Nginx] | type[Caddy], warm_python: Warm
) -> None:
    serving = Serving(machine, warm_python)
    started(serving)
    proxy = kind("px", [serving.port, serving.port])
    checked = subprocess.run(proxy.check(), capture_output=True, text=True, timeout=50)
    assert checked.returncode == 0, checked.stderr
    started(proxy)
    with proxy.client(machine.key) as client:
        call: dict[str, dict[str, str]] = {"input": {}}
        with client.stream("POST", "/fairlead/actions/count/stream", json=call) as stream:
            lines = stream.iter_lines()
            # Only what has reached us lets the action go on: a proxy that held it back would wait for ever.
            while "one" not in next(lines):
                pass
            assert client.post("/fairlead/actions/go_on/invoke", json=call).status_code == 200
            rest = "\n".join(lines)
        assert "two" in rest
        assert "event: result" in rest

        assert client.get("/metrics").status_code == 404
        stranger = client.get("/fairlead/actions", headers={"Authorization": "Bearer oag_nobody"})
        assert stranger.status_code == 401
        other = client.get("/fairlead/actions", headers={"Host": "elsewhere.example.com"})
        assert "greet" not in other.text


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_servers_are_restarted_one_by_one_and_no_caller_notices(
    machine: Machine, started: Callable[[Server], None], kind: type[Nginx] | type[Caddy], warm_python: Warm
) -> None:
    both = [Serving(machine, warm_python), Serving(machine, warm_python)]
    for each in both:
        started(each)
    proxy = kind("px", [each.port for each in both])
    started(proxy)
    answers: list[int] = []
    enough = threading.Event()

    def ask() -> None:
        with proxy.client(machine.key) as client:
            while not enough.is_set():
                answers.append(client.get("/fairlead/actions").status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for each in both:
            seen = len(answers)
            until(lambda seen=seen: len(answers) > seen + 10, "nobody is answered")  # type: ignore[misc]
            each.signal(signal.SIGTERM)
            each.wait_gone()
            seen = len(answers)
            until(lambda seen=seen: len(answers) > seen + 10, "nobody is answered")  # type: ignore[misc]
            each.start()
    finally:
        enough.set()
        asking.join()
    assert set(answers) == {200}
