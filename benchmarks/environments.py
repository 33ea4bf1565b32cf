"""The virtual environments of a run, under `.venv-bench/`: made once, and anew when their content changes.

`core` is what a user gets from installing Fairlead and nothing more, `serve` has a server too, `tasks` the clients
of PostgreSQL and NATS, `gateway` a server and PostgreSQL, `plugins` SQLCipher; `peers`, `web`, `mcp` and `queues`
hold the others.
"""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv-bench"
BENCHMARKS = ROOT / "benchmarks"


class SetupError(Exception):
    """An environment could not be made; the message is the installer's last words."""


class Environment:
    """A virtual environment, the files it is made from, and what the installer is told."""

    def __init__(self, name: str, sources: list[Path], install: list[str]) -> None:
        self.name = name
        self.sources = sources
        self.install = install
        self.path = HOME / name
        self.python = self.path / "bin" / "python"
        self.stamp = self.path / "stamp"
        self._ensured = False

    def ensure(self) -> None:
        """Make it if need be, once in a run: what is edited meanwhile counts in the next."""
        if not self._ensured:
            self._make()
            self._ensured = True

    def _make(self) -> None:
        digest = self._digest()
        if self.stamp.exists() and self.stamp.read_text() == digest:
            return
        print(f"setting up {self.path.relative_to(ROOT)} ...", file=sys.stderr)
        shutil.rmtree(self.path, ignore_errors=True)
        _run([sys.executable, "-m", "venv", "--without-pip", str(self.path)])
        _run([sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", *self.install])
        self.stamp.write_text(digest)

    def versions(self) -> dict[str, str]:
        """Installed packages by name."""
        code = (
            "import importlib.metadata as m, json;"
            "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
        )
        found: dict[str, str] = json.loads(_run([str(self.python), "-c", code]))
        return found

    @property
    def site_packages(self) -> Path:
        return next(self.path.glob("lib/python*/site-packages"))

    def _digest(self) -> str:
        digest = hashlib.sha256(platform.python_version().encode())
        for file in sorted(self.sources):
            digest.update(str(file).encode() + file.read_bytes())
        return digest.hexdigest()


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        lines = [
            line for line in done.stderr.splitlines() if line.startswith("ERROR")
        ] or done.stderr.splitlines()
        raise SetupError(lines[-1] if lines else f"{command[0]} ended with {done.returncode}")
    return done.stdout


def _project_files() -> list[Path]:
    return [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sql")]


def _from_requirements(name: str, file: str) -> Environment:
    path = BENCHMARKS / file
    return Environment(name, [path], ["--requirement", str(path)])


CORE = Environment("core", _project_files(), [str(ROOT)])
#: All servers run on the same event loop: Robyn holds it below 0.23, which takes a third more time for a request.
SERVE = Environment("serve", _project_files(), [f"{ROOT}[serve]", "uvloop<0.23"])
TASKS = Environment("tasks", _project_files(), [f"{ROOT}[nats,postgres]"])
PLUGINS = Environment("plugins", _project_files(), [f"{ROOT}[plugins]"])
GATEWAY = Environment("gateway", _project_files(), [f"{ROOT}[postgres,serve]", "uvloop<0.23"])
PEERS = _from_requirements("peers", "requirements.txt")
WEB = _from_requirements("web", "requirements-web.txt")
MCP = _from_requirements("mcp", "requirements-mcp.txt")
QUEUES = _from_requirements("queues", "requirements-tasks.txt")
