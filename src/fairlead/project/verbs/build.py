"""`fairlead build`, `fairlead package` and `fairlead publish`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind
from fairlead.project.build import OUT_DIR, build_artifacts, package_artifacts, publish_artifacts
from fairlead.project.bundle import TARGETS
from fairlead.project.config import load_project_config
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import harmless
from fairlead.surfaces.cli.hints import wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program

_PACKAGE = {
    "--package-name": "name",
    "--package-version": "version",
    "--package-description": "description",
    "--package-license": "license",
    "--bin-name": "bin_name",
    "--mcp-server-name": "mcp_server_name",
}
_VALUED = ("--out-dir", "--app-module", "--app-export", "--cwd", *_PACKAGE)


def _build(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--json",), (*_VALUED, "--filename"), words=len(TARGETS))
    common = _common(program, options)
    built = build_artifacts(
        program.the_app(),
        targets=options.words or None,
        filename=options.values.get("--filename"),
        **common,
    )
    return _tell(program, options, built, _listed(built))


def _package(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--dry-run", "--json"), _VALUED)
    dry_run = "--dry-run" in options.on
    common = _common(program, options)
    packaged = package_artifacts(program.the_app(), dry_run=dry_run, **common)
    return _tell(program, options, packaged, _packed(packaged))


def _publish(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--live", "--json"), (*_VALUED, "--repository"))
    common = _common(program, options)
    published = publish_artifacts(
        program.the_app(),
        dry_run="--live" not in options.on,
        repository=options.values.get("--repository"),
        **common,
    )
    checked = "Checked, and not uploaded: `fairlead publish --live` uploads it."
    told = checked if published["published"] == "dry-run" else "Uploaded."
    return _tell(program, options, published, [*_packed(published), told])


def _tell(program: Program, options: Options, made: dict[str, Any], lines: list[str]) -> int:
    if "--json" in options.on or not program.console.out_tty:
        return program.write_json(made)
    program.console.write(harmless("\n".join(lines)) + "\n")
    return 0


def _listed(built: dict[str, Any]) -> list[str]:
    folder = built["outDir"]
    names = {os.path.relpath(each["path"], folder): each["kind"] for each in built["files"]}
    width = max(map(len, names))
    rows = [f"  {name:{width}}  {kind}" for name, kind in names.items()]
    return [f"Wrote {len(names)} files to {os.path.relpath(folder)}:", *rows]


def _packed(packaged: dict[str, Any]) -> list[str]:
    folder = os.path.relpath(packaged["outDir"])
    lines = [f"Wrote {len(packaged['build']['files'])} files to {folder}."]
    if packaged["packageFile"] is None:
        return [*lines, "The wheel can be built; it was thrown away: `fairlead package` keeps it."]
    wheel = os.path.relpath(packaged["packageFile"])
    return [*lines, f"Made {wheel}.", "Next:", f"  pip install {shlex.quote(wheel)}"]


def _common(program: Program, options: Options) -> dict[str, Any]:
    values = options.values
    cwd = Path(values.get("--cwd", "."))
    if not cwd.is_dir():
        raise wrong_option("--cwd", "there is no such folder")
    load_project_config(cwd)  # what is wrong with any of them is told before an app is missed
    module = values.get("--app-module") or program.target or _own_place(program)
    export = values.get("--app-export")
    if export is not None:
        if module is None:
            raise Failure(Kind.invalid_input, "--app-export needs --app-module: it names an app in a module.")
        module = f"{module.rpartition(':')[0] or module}:{export}"
    program.work_in(cwd)
    if module is not None and not program.owned:
        program.use(module)
    package = {key: values[flag] for flag, key in _PACKAGE.items() if flag in values}
    return {"out_dir": values.get("--out-dir"), "cwd": cwd, "app_module": module, "package": package}


def _own_place(program: Program) -> str | None:
    """Where the app of a program of its own is: another may be what is found in the folder."""
    from fairlead.surfaces.cli.whereabouts import whereabouts

    return whereabouts(program.the_app()) if program.owned else None


_TARGETS = (
    ("manifest", "The actions and surfaces as data."),
    ("cli", "A launcher of the command line, and the app in one file."),
    ("mcp", "A launcher of the MCP server, settings for clients, a registry's entry."),
    ("docs", "The guide and llms.txt."),
    ("openapi", "The HTTP surface as an OpenAPI document."),
    ("client", "Typed clients in TypeScript and Python."),
    ("container", "A Containerfile that serves the app."),
    ("bundle", "All of these, a bill of materials and a README. [default]"),
)
_ROWS = (
    ("--out-dir DIR", f"Where it goes. [default: build.out_dir in the settings, or {OUT_DIR}]"),
    ("--app-module MODULE", "The module with the app. [default: the app this command works with]"),
    ("--app-export NAME", "What the app is called in it."),
    ("--cwd DIR", "The project's folder. [default: this one]"),
    ("--package-name NAME", "What the distribution is called. [default: APP-fairlead]"),
    ("--package-version V", "Its version. [default: the project's]"),
    ("--package-description TEXT", "What it says about itself."),
    ("--package-license ID", "Its licence, as SPDX writes it."),
    ("--bin-name NAME", "The command that it installs. [default: the app's name]"),
    ("--mcp-server-name NAME", "What MCP clients call the server."),
    ("--json", "Print what was made as JSON; so it is where the output is not a terminal."),
)

BUILD = Command(
    "build [TARGET ...] [--out-dir DIR]",
    (*_TARGETS, *_ROWS, ("--filename NAME", "What the guide is called. [default: GUIDE.md]")),
    _build,
    ("build", "build docs openapi --out-dir out"),
)
PACKAGE = Command(
    "package [--dry-run] [--out-dir DIR]",
    (("--dry-run", "Build the wheel and throw it away."), *_ROWS),
    _package,
    ("package", "package --package-name acme-taskboard"),
)
PUBLISH = Command(
    "publish [--live] [--repository NAME]",
    (
        ("--live", "Upload. Without it the package is only checked."),
        ("--repository NAME", "Where to, as twine's settings call it."),
        *_ROWS,
    ),
    _publish,
    ("publish", "publish --live"),
)
