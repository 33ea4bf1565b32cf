"""What a build is about: the app, the files it consists of, and what it is called when it is given to others."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.project.config import Config, find_default_app_module, load_project_config
from fairlead.project.probe import is_given_away, probe

if TYPE_CHECKING:
    from fairlead.runtime import App


_OURS: Final = "fairlead"


class Source(NamedTuple):
    """Where the app's code is."""

    module: str
    attribute: str
    root: Path
    #: Relative to the root.
    files: tuple[str, ...]

    @property
    def target(self) -> str:
        return f"{self.module}:{self.attribute}"


class Product(NamedTuple):
    """An app on its way to others."""

    app: App
    slug: str
    source: Source
    config: Config
    #: The package's facts: name, version, description and so on.
    package: Mapping[str, Any]
    #: What the guide's file is called.
    guide: str = "GUIDE.md"

    def without(self, folder: Path) -> Product:
        """The same with nothing in it that lies in a folder: what was built before is no part of the app."""
        root, place = self.source.root, folder.resolve()
        kept = tuple(file for file in self.source.files if not (root / file).resolve().is_relative_to(place))
        return self if root == place else self._replace(source=self.source._replace(files=kept))

    @property
    def import_name(self) -> str:
        """The Python package that the wheel installs; it must not hide anything that the app imports."""
        name = self.distribution
        own = {file.split("/")[0].removesuffix(".py") for file in self.source.files}
        taken = name in own or name in sys.stdlib_module_names or name == "fairlead"
        if name[0].isdigit():
            return f"app_{name}"
        return f"{name}_package" if taken or iskeyword(name) else name

    @property
    def distribution(self) -> str:
        """The package's name as its wheel spells it."""
        return re.sub(r"[-_.]+", "_", self.package["name"]).lower()

    @property
    def server(self) -> tuple[str, str] | None:
        """The module and the name of an MCP server of the app's own."""
        module, colon, name = self.config.section("mcp").get("server", "").partition(":")
        return (module, name) if colon else None

    @property
    def bin_name(self) -> str:
        name: str = self.package.get("bin_name", self.slug)
        return name


def product_of(
    app: App, *, cwd: Path, app_module: str | None = None, package: Mapping[str, Any] | None = None
) -> Product:
    """Look at the project in a folder.

    Raises:
        Failure: nothing says where the app is, or it cannot be imported from there.
    """
    config = load_project_config(cwd)
    target = app_module or find_default_app_module(cwd).module
    if target is None:
        raise Failure(
            Kind.invalid_input,
            "No app module was found, so launchers would not know what to import. Name it: --app-module MODULE:NAME, "
            "or app = 'MODULE:NAME' in fairlead.toml.",
        )
    found = probe(cwd.resolve(), target, config.section("mcp").get("server"))
    if "failure" in found:
        raise Failure(Kind.invalid_input, found["failure"])
    if found["name"] != app.name:
        raise Failure(
            Kind.invalid_input,
            f"The app at {target} is {found['name']!r}, not {app.name!r}, whose files are wanted. "
            "Name its own place: --app-module MODULE:NAME.",
        )
    root = Path(found["root"])
    included = dict.fromkeys([*found["files"], *_included(cwd.resolve(), root, config)])
    _check_links(root, included)
    source = Source(found["module"], found["attribute"], root, tuple(included))
    slug = slug_of(app.name)
    return Product(app, slug, source, config, _facts(app, slug, cwd, config, package or {}))


def requirement_name(requirement: str) -> str:
    """The package that a requirement, as pip writes it, is about."""
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]


def requirement_extras(requirement: str) -> set[str]:
    """The extras that a requirement asks for."""
    found = re.match(r"\s*[\w.-]+\s*\[([^\]]*)\]", requirement)
    return {each.strip().lower() for each in found[1].split(",") if each.strip()} if found else set()


def slug_of(name: str) -> str:
    """The name as files, commands and packages can have it."""
    return re.sub(r"[^a-z0-9]+", "-", name.strip().lower()).strip("-") or "fairlead-app"


def _included(cwd: Path, root: Path, config: Config) -> list[str]:
    found: list[str] = []
    for pattern in config.section("build").get("include", ()):
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise Failure(
                Kind.misconfigured, f"build.include names {pattern!r}, which is not inside the project."
            )
        places = [path for path in sorted(cwd.glob(pattern)) if path.is_relative_to(root)]
        places = [
            path for path in places if path.is_file() and is_given_away(path.relative_to(cwd).parts, pattern)
        ]
        if not places:
            where = (
                "" if root == cwd else f" under {root.relative_to(cwd) if root.is_relative_to(cwd) else root}"
            )
            raise Failure(
                Kind.misconfigured, f"build.include names {pattern!r}, and there is no such file{where}."
            )
        found += [path.relative_to(root).as_posix() for path in places]
    return found


def _check_links(root: Path, files: Iterable[str]) -> None:
    """A link can be made to bring any file of this machine along."""
    real = root.resolve()
    astray = [file for file in files if not (root / file).resolve().is_relative_to(real)]
    if astray:
        raise Failure(
            Kind.invalid_input,
            f"Links lead out of the project: {', '.join(astray)}. What they lead to would be packed. "
            "Put copies there instead, or remove the links.",
        )


def _facts(app: App, slug: str, cwd: Path, config: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, else the settings, else the project file, else what the app says of itself."""
    project = _project_table(cwd)
    chosen: dict[str, Any] = {
        "name": f"{slug}-fairlead",
        "version": project.get("version") or app.version,
        "description": app.description or project.get("description") or f"{app.name}, offered by Fairlead.",
        "requires": list(project.get("dependencies") or ()),
        "bin_name": slug,
    }
    attribution = app.attribution
    homepage = attribution.get("docs_url") or attribution.get("url")
    chosen |= {"homepage": homepage} if homepage else {}
    chosen |= {"author": attribution["vendor"]} if attribution.get("vendor") else {}
    chosen |= config.section("package")
    chosen |= {key: value for key, value in given.items() if value is not None}
    _check_names(chosen["name"], chosen["bin_name"])
    return chosen | {"description": " ".join(chosen["description"].split())}


def _check_names(package: str, command: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", package):
        raise Failure(
            Kind.invalid_input, f"{package!r} is not a package name: use letters, digits and dashes."
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", command):
        raise Failure(
            Kind.invalid_input, f"{command!r} is not a command's name: use letters, digits and dashes."
        )
    if slug_of(package) == _OURS:
        raise Failure(
            Kind.conflict,
            f"A package cannot be called {package!r}: it would replace Fairlead, which it needs. "
            "Choose another: package.name in the settings, or --package-name.",
        )
    if command.lower() == _OURS:
        raise Failure(
            Kind.conflict,
            f"A command cannot be called {command!r}: it would replace Fairlead's own where it is installed. "
            "Choose another: package.bin_name in the settings, or --bin-name.",
        )


def _project_table(cwd: Path) -> dict[str, Any]:
    try:
        table: Any = tomllib.loads((cwd / "pyproject.toml").read_text("utf-8")).get("project", {})
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
