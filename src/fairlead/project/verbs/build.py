"""`fairlead build`, `fairlead package` and `fairlead publish`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind
from fairlead.project.build import OUT_DIR, build_artifacts, package_artifacts, publish_artifacts
from fairlead.project.bundle import TARGETS
from fairlead.surfaces.cli.command import Command, Options
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
    options = Options(arguments, (), (*_VALUED, "--filename"), words=len(TARGETS))
    built = build_artifacts(
        program.the_app(),
        targets=options.words or None,
        filename=options.values.get("--filename"),
        **_common(program, options),
    )
    return _tell(program, built, built["files"])


def _package(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--dry-run",), _VALUED)
    dry_run = "--dry-run" in options.on
    packaged = package_artifacts(program.the_app(), dry_run=dry_run, **_common(program, options))
    return _tell(program, packaged, packaged["build"]["files"])


def _publish(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--live",), (*_VALUED, "--repository"))
    published = publish_artifacts(
        program.the_app(),
        dry_run="--live" not in options.on,
        repository=options.values.get("--repository"),
        **_common(program, options),
    )
    return _tell(program, published, published["build"]["files"])


def _tell(program: Program, made: dict[str, Any], files: list[dict[str, Any]]) -> int:
    if not program.console.out_tty:
        return program.write_json(made)
    lines = [f"Wrote {len(files)} files to {os.path.relpath(made['outDir'])}:"]
    lines += [f"  {os.path.relpath(each['path'], made['outDir']):24} {each['kind']}" for each in files]
    if made.get("packageFile"):
        lines.append(f"Made {os.path.relpath(made['packageFile'])}: pip install it anywhere.")
    if made.get("published") == "dry-run":
        lines.append("Checked, and not uploaded: `fairlead publish --live` does that.")
    elif "published" in made:
        lines.append("Uploaded.")
    program.console.write("\n".join(lines) + "\n")
    return 0


def _common(program: Program, options: Options) -> dict[str, Any]:
    values = options.values
    cwd = Path(values.get("--cwd", "."))
    if not cwd.is_dir():
        raise wrong_option("--cwd", "there is no such folder")
    module = values.get("--app-module") or program.target
    export = values.get("--app-export")
    if export is not None:
        if module is None:
            raise Failure(Kind.invalid_input, "--app-export needs --app-module: it names an app in a module.")
        module = f"{module.rpartition(':')[0] or module}:{export}"
    package = {key: values[flag] for flag, key in _PACKAGE.items() if flag in values}
    return {"out_dir": values.get("--out-dir"), "cwd": cwd, "app_module": module, "package": package}


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
)

BUILD = Command(
    f"build [{'|'.join(TARGETS)}]",
    (*_ROWS, ("--filename NAME", "What the guide is called. [default: GUIDE.md]")),
    _build,
    ("build", "build docs openapi --out-dir out"),
)
PACKAGE = Command(
    "package [--dry-run]",
    (("--dry-run", "Build the wheel and throw it away."), *_ROWS),
    _package,
    ("package", "package --package-name acme-taskboard"),
)
PUBLISH = Command(
    "publish [--live]",
    (
        ("--live", "Upload. Without it the package is only checked."),
        ("--repository NAME", "Where to, as twine's settings call it."),
        *_ROWS,
    ),
    _publish,
    ("publish", "publish --live"),
)
