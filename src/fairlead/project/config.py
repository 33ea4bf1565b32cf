"""A project's settings: `[tool.fairlead]` in pyproject.toml, or fairlead.toml.

Everything in them is checked, with all problems told at once and the near miss of a misspelt key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict

from pydantic import Field

from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Issue, Kind
from fairlead.schema import Invalid, Schema, schema_of

Text = Annotated[str, Field(min_length=1)]
Target = Literal["manifest", "cli", "mcp", "docs", "openapi", "client", "container", "bundle"]


class Lint(TypedDict, total=False):
    """What `fairlead lint` looks for."""

    ignore: Annotated[list[Text], "Codes that are not told."]
    levels: Annotated[dict[str, Literal["error", "warning", "info"]], "Codes with a level of your own."]
    shortest_description: Annotated[int, Field(ge=0, description="Shorter ones are weak.")]
    longest_description: Annotated[int, Field(ge=1, description="Longer ones are too long.")]


class Build(TypedDict, total=False):
    """What `fairlead build` makes."""

    targets: Annotated[list[Target], "What to build when the command names nothing."]
    out_dir: Annotated[Text, "Where it goes; dist/fairlead by default."]
    include: Annotated[list[Text], "More files and folders for the package, besides the app's module."]


class Package(TypedDict, total=False):
    """What the distribution is called, and by whom."""

    name: Text
    version: Text
    description: Text
    license: Text
    author: Text
    homepage: Text
    bin_name: Annotated[Text, "The command that the package installs; its MCP server is NAME-mcp."]
    mcp_server_name: Text
    requires: Annotated[list[Text], "What the app itself needs, as pip writes it."]
    private: Annotated[bool, "Refuse to publish it."]


class Mcp(TypedDict, total=False):
    """How MCP clients start the app."""

    transport: Literal["stdio", "http"]
    env: Annotated[dict[str, str], "Environment variables that the client sets."]
    url: Annotated[Text, "Where the server is, for transport http."]
    server: Annotated[Text, "A server of your own, as MODULE:NAME; else one is made from the app."]


class Settings(TypedDict, total=False):
    """The whole of it."""

    app: Annotated[Text, "Where the app is, as MODULE:NAME, such as 'shop.main:app'."]
    lint: Lint
    build: Build
    package: Package
    mcp: Mcp


FILES: Final = ("pyproject.toml", "fairlead.toml")


class Config(NamedTuple):
    """Settings, and the file they come from; None when there is none."""

    settings: Settings
    path: Path | None

    def section(self, name: str) -> dict[str, Any]:
        """One table of the settings, empty when it is not there."""
        section: Any = self.settings.get(name, {})
        return dict(section)


def load_project_config(cwd: str | os.PathLike[str] = ".") -> Config:
    """The settings of the project in a folder; empty ones when it has none.

    Raises:
        Failure: a file cannot be read, is not TOML, or holds what is not a setting.
    """
    for name in FILES:
        path = Path(cwd, name)
        table = _table(path)
        if table is not None:
            return Config(_checked(table, path), path)
    return Config({}, None)


def ignored_config(cwd: str | os.PathLike[str], config: Config) -> Path | None:
    """A settings file that does not count, because there is another before it."""
    other = Path(cwd, FILES[-1])
    return other if config.path is not None and config.path != other and other.is_file() else None


def settings_schema() -> dict[str, Any]:
    """The JSON Schema of fairlead.toml, for editors."""
    return {"title": "Settings of a Fairlead project", **_schema().json_schema}


@cache
def _schema() -> Schema:
    return schema_of(Settings)


def _table(path: Path) -> Any:
    """What a file says about us; None when it is not there or says nothing."""
    import tomllib

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise Failure(Kind.misconfigured, f"{path.name} cannot be read: {exc}.") from exc
    except tomllib.TOMLDecodeError as exc:
        raise Failure(Kind.misconfigured, f"{path.name} is not TOML: {exc}.") from exc
    if path.name == "pyproject.toml":
        tool = document.get("tool")
        return tool.get("fairlead") if isinstance(tool, dict) else None
    return document


def _checked(table: Any, path: Path) -> Settings:
    try:
        settings: Settings = _schema().parse(table, repair=False)
    except Invalid as invalid:
        issues = tuple(_explained(invalid.issues))
        raise Failure(
            Kind.misconfigured, f"{path.name} has settings that cannot be used.", issues=issues
        ) from invalid
    return settings


def _explained(issues: list[Issue]) -> Iterator[Issue]:
    for issue in issues:
        allowed = _keys(issue.path[:-1])
        last = str(issue.path[-1]) if issue.path else ""
        if allowed and last not in allowed:
            known = f"There is no such setting.{near_miss(last, allowed)} Settings are {', '.join(allowed)}."
            yield issue._replace(message=known)
        else:
            yield issue


def _keys(path: tuple[str | int, ...]) -> list[str]:
    """The keys that the table at a path may have."""
    found: Any = _schema().json_schema
    for step in path:
        found = found.get("properties", {}).get(step) if isinstance(found, Mapping) else None
    return sorted(found.get("properties", {})) if isinstance(found, Mapping) else []


def explained(failure: Failure) -> str:
    """The failure of a settings file in one text, with all that is wrong in it."""
    places = [(".".join(map(str, issue.path)) or "the file", issue.message) for issue in failure.issues]
    return " ".join([failure.message, *(f"{place}: {message}" for place, message in places)])


class DefaultModule(NamedTuple):
    """Where an app would be looked for, and why there."""

    found: bool
    reason: Literal["configured", "default", "missing"]
    module: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"found": self.found, "reason": self.reason, "module": self.module}


#: Where an app is when nothing says so.
DEFAULT_MODULE: Final = "app.py"


def find_default_app_module(cwd: str | os.PathLike[str] = ".") -> DefaultModule:
    """The app that commands work with when none is named."""
    configured = load_project_config(cwd).settings.get("app")
    if configured:
        return DefaultModule(True, "configured", configured)
    if Path(cwd, DEFAULT_MODULE).is_file():
        return DefaultModule(True, "default", DEFAULT_MODULE)
    return DefaultModule(False, "missing")
