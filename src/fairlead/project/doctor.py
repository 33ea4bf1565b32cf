"""A look at a project from outside: is it set up so that its commands will work, and if not, what to do.

The app is imported in a process of its own, so that a broken one cannot break the look at it.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from fairlead.actions import DefinitionError
from fairlead.failures import Failure
from fairlead.failures.typed import command
from fairlead.project.bundle import shareable
from fairlead.project.config import (
    Config,
    explained,
    find_default_app_module,
    ignored_config,
    load_project_config,
)
from fairlead.project.probe import KEYS_FILE, probe

Level = Literal["info", "warning"]

_OLDEST_PYTHON = (3, 11)
_SLOW_IMPORT = 3.0
#: What a clock that is right cannot show: Fairlead is younger than this.
_EARLIEST = 1_760_000_000
#: Extra, a module of it, and what it is for.
EXTRAS: Final = (
    ("serve", "uvicorn", "`fairlead serve` and `fairlead dev`"),
    ("client", "httpx", "calling other servers"),
    ("jwt", "jwt", "tokens as identity"),
    ("jsonschema", "jsonschema_rs", "actions with a JSON Schema as their input"),
    ("models", "openai", "models of providers"),
    ("local", "xllamacpp", "a model that runs on this machine"),
    ("mcp", "mcp", "tools of other MCP servers"),
)


class Check(NamedTuple):
    """What was looked at and what was found; a warning has a way out."""

    level: Level
    code: str
    message: str
    way_out: str | None = None
    fix: Callable[[], None] | None = None

    def to_dict(self) -> dict[str, Any]:
        told = {"level": self.level, "code": self.code, "message": self.message}
        return told | ({"wayOut": self.way_out} if self.way_out else {})


def doctor_project(
    cwd: str | os.PathLike[str] = ".", *, target: str | None = None, fix: bool = False
) -> dict[str, Any]:
    """Look at the project in a folder; with `fix`, mend what can be mended safely.

    Gives `{ok, kind, cwd, configPath, defaultAppModule, checks, recommendations, fixed}`; it is ok when nothing
    warns.
    """
    project = _Project(Path(cwd).resolve(), target)
    checks = list(project.checks())
    fixed: list[str] = []
    unmended: dict[str, str] = {}
    if fix:
        for check in [each for each in checks if each.fix is not None]:
            assert check.fix is not None
            try:
                check.fix()
                fixed.append(check.code)
            except OSError as exc:
                unmended[check.code] = f" It could not be mended: {exc.strerror}."
        project = _Project(project.cwd, target)
        checks = [
            each._replace(message=each.message + unmended.get(each.code, "")) for each in project.checks()
        ]
    warnings = [check for check in checks if check.level == "warning"]
    return {
        "ok": not warnings,
        "kind": project.kind,
        "cwd": str(project.cwd),
        "configPath": None if project.config.path is None else str(project.config.path),
        "defaultAppModule": project.module,
        "checks": [check.to_dict() for check in checks],
        "recommendations": [check.way_out for check in checks if check.way_out],
        "fixed": fixed,
    }


class _Project:
    def __init__(self, cwd: Path, target: str | None) -> None:
        self.cwd = cwd
        self.broken: Failure | None = None
        self.config = Config({}, None)
        self.module = target
        try:
            self.config = load_project_config(cwd)
            self.module = target or find_default_app_module(cwd).module
        except Failure as failure:
            self.broken = failure
        self.kind = self._kind()
        #: The app's name, once it has been imported.
        self.name = ""

    def checks(self) -> Iterator[Check]:
        yield from self._versions()
        yield from self._project_file()
        yield Check("info", "PROJECT_KIND", f"This looks like a project of kind {self.kind}.")
        yield from self._settings()
        yield from self._app()
        yield from self._extras()
        yield from self._keys()
        yield from self._port()
        yield from self._clock()
        yield from self._store()
        yield from self._bus()
        yield from self._mcp_servers()
        yield from self._plugins()

    def _kind(self) -> str:
        project = _text(self.cwd / "pyproject.toml") + _text(self.cwd / "requirements.txt")
        for word in ("fastapi", "starlette", "django", "flask"):
            if word in project.lower():
                return word
        if (self.cwd / "package.json").is_file():
            return "node" if not project else "python+node"
        return "python"

    def _versions(self) -> Iterator[Check]:
        from importlib.metadata import version

        found = f"fairlead {version('fairlead')}, Python {platform.python_version()}, pydantic {version('pydantic')}"
        yield Check("info", "VERSIONS", f"{found}.")
        if sys.version_info < _OLDEST_PYTHON:
            wanted = ".".join(map(str, _OLDEST_PYTHON))
            yield Check(
                "warning", "OLD_PYTHON", "This Python is too old.", f"Install Python {wanted} or newer."
            )

    def _project_file(self) -> Iterator[Check]:
        if (self.cwd / "pyproject.toml").is_file():
            yield Check("info", "PYPROJECT", "pyproject.toml is there.")
            return
        yield Check(
            "warning",
            "MISSING_PYPROJECT",
            "There is no pyproject.toml, so nothing says what the app needs.",
            "Run `fairlead init` in a new folder to see one, or write `[project]` with name and dependencies.",
        )

    def _settings(self) -> Iterator[Check]:
        if self.broken is not None:
            way_out = "Mend the file; `fairlead doctor --schema` prints what can be in it."
            yield Check("warning", "CONFIG_INVALID", explained(self.broken), way_out)
        elif self.config.path is not None:
            yield Check("info", "CONFIG_FOUND", f"Settings are read from {self.config.path.name}.")
            yield from self._ignored_settings(self.config.path.name)
            yield from self._secrets()
        else:
            yield Check("info", "CONFIG_MISSING", "There are no settings; the defaults hold.")

    def _ignored_settings(self, counts: str) -> Iterator[Check]:
        ignored = ignored_config(self.cwd, self.config)
        if ignored is not None:
            message = f"{ignored.name} is not read: {counts} has settings, too."
            yield Check(
                "warning", "CONFIG_IGNORED", message, f"Keep all settings in {counts}, or in {ignored.name}."
            )

    def _secrets(self) -> Iterator[Check]:
        env = self.config.section("mcp").get("env", {})
        hidden = [name for name, value in shareable(env).items() if value != env[name]]
        if hidden:
            message = (
                f"mcp.env holds what looks like a secret: {', '.join(hidden)}. It is not built into anything."
            )
            way_out = "Write '${NAME}' there, and set the variable where the client runs."
            yield Check("warning", "SECRET_SETTING", message, way_out)

    def _app(self) -> Iterator[Check]:
        if self.module is None:
            if self.broken is None:
                way_out = "Write app.py with `app = App(...)`, or name the app: `app = 'MODULE:NAME'` in fairlead.toml."
                yield Check("warning", "MISSING_APP_MODULE", "No app was found.", way_out)
            return
        yield Check("info", "DEFAULT_APP_MODULE", f"The app is {self.module}.")
        found = probe(self.cwd, self.module)
        if "failure" in found:
            way_out = "FAIRLEAD_DEBUG=1 fairlead actions shows the traceback."
            yield Check("warning", "APP_BROKEN", found["failure"], way_out)
            return
        self.name = found["name"]
        yield Check("info", "APP_IMPORTABLE", f"It has {found['actions']} actions.")
        if not found["actions"]:
            yield Check(
                "warning", "NO_ACTIONS", "The app has no actions.", "Write a function under `@app.action`."
            )
        effects = _side_effects(found)
        if effects:
            way_out = "Move what runs at import into a service (`@app.service`) or under `if __name__ == '__main__':`."
            yield Check("warning", "IMPORT_SIDE_EFFECTS", f"Importing the app {effects}.", way_out)

    def _extras(self) -> Iterator[Check]:
        missing = [(extra, use) for extra, module, use in EXTRAS if find_spec(module) is None]
        for extra, use in missing:
            way_out = f"pip install 'fairlead[{extra}]'"
            yield Check("info", "MISSING_EXTRA", f"{use} would need the extra {extra!r}.", way_out)

    def _keys(self) -> Iterator[Check]:
        path = self.cwd / KEYS_FILE
        if os.name == "nt" or not path.is_file() or not path.stat().st_mode & 0o077:
            return
        yield Check(
            "warning",
            "KEYS_TOO_OPEN",
            f"{path.name} can be read by other users of this machine.",
            f"chmod 600 {path.name}, or `fairlead doctor --fix`.",
            lambda: path.chmod(0o600),
        )

    def _port(self) -> Iterator[Check]:
        import socket

        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", 8000)) == 0:
                message = "Port 8000 is taken, which `fairlead serve` takes by default."
                yield Check(
                    "info", "PORT_TAKEN", message, "Stop what listens there, or `fairlead serve --port 8001`."
                )

    def _store(self) -> Iterator[Check]:
        """The database of tasks and secrets. A file that is not there yet is made when it is first needed."""
        from fairlead.store.migrations import pending
        from fairlead.store.opening import open_at, place_of
        from fairlead.tasks.bus import UNHEARD, VARIABLE, is_carried

        unheard = False
        try:
            place = place_of(self.name)
            if isinstance(place, Path) and not place.exists():
                return
            with open_at(place, migrate=False) as store:
                missing = pending(store)
                if not missing and not os.environ.get(VARIABLE):
                    unheard = store.read_now(lambda tx: is_carried(tx, time.time()))
        except Failure as failure:
            again = command("store status")
            way_out = f"`{again}` looks again; FAIRLEAD_DATABASE_URL and FAIRLEAD_DATA choose the store."
            yield Check("warning", "STORE_UNUSABLE", failure.message, way_out)
            return
        if missing:
            message = (
                f"The store {store.name} has tables of an older version; they are changed at the next use."
            )
            yield Check("info", "STORE_OLD", message, f"`{command('store migrate')}` does it now.")
        else:
            yield Check("info", "STORE_FOUND", f"The store {store.name} can be reached and is up to date.")
        if unheard:
            yield Check("warning", "BUS_MISSING", UNHEARD, "Set FAIRLEAD_BUS_URL as the workers have it.")

    def _bus(self) -> Iterator[Check]:
        import socket
        from urllib.parse import urlsplit

        for address in filter(None, os.environ.get("FAIRLEAD_BUS_URL", "").split(",")):
            try:
                parts = urlsplit(address)
                socket.create_connection((parts.hostname or "", parts.port or 4222), timeout=2).close()
            except (OSError, ValueError) as exc:
                yield Check(
                    "warning",
                    "BUS_UNREACHABLE",
                    f"The bus that FAIRLEAD_BUS_URL names cannot be reached: {exc}.",
                    "Start the NATS server with JetStream on, or unset FAIRLEAD_BUS_URL: then the database carries.",
                )

    def _mcp_servers(self) -> Iterator[Check]:
        """The servers whose tools the project uses. Nothing is started here: `fairlead mcp test` does that."""
        from fairlead.tools.mcp.settings import SERVERS_FILE, read_entries, server_of

        if not (self.cwd / SERVERS_FILE).is_file():
            return
        way_out = f"Mend it in {SERVERS_FILE}, or `fairlead mcp remove NAME` and `fairlead mcp add` it anew."
        try:
            entries = read_entries(self.cwd)
        except Failure as failure:
            yield Check("warning", "MCP_SERVER_INVALID", failure.message, way_out)
            return
        for name, entry in entries.items():
            try:
                server_of(name, entry)
            except (Failure, DefinitionError) as problem:
                yield Check("warning", "MCP_SERVER_INVALID", str(problem), way_out)

    def _plugins(self) -> Iterator[Check]:
        """Native plugins, where some are installed. Nothing of them is run."""
        from fairlead.plugins.layout import Layout

        layout = Layout.of()
        if not layout.ids():
            return
        from fairlead.plugins.diagnosis import diagnose

        for found in diagnose(layout):
            yield Check(found.level, found.code, found.message, found.way_out)

    def _clock(self) -> Iterator[Check]:
        if time.time() < _EARLIEST:
            yield Check(
                "warning",
                "CLOCK_SKEW",
                "This machine's clock is years behind.",
                "Set it: tokens expire by it.",
            )


def _side_effects(found: dict[str, Any]) -> str:
    told = ["prints"] if found["printed"] else []
    told += [f"starts {found['threads']} threads"] if found["threads"] > 0 else []
    told += [f"takes {found['seconds']:.1f} seconds"] if found["seconds"] > _SLOW_IMPORT else []
    return ", ".join(told)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
