"""The wheel of an app: its code, a small package that starts it, two commands, and a mark by which it is found.

The app's files keep their names and stand inside that package, so that an `app.py` cannot collide with anybody
else's where it is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairlead.failures import Failure, Kind
from fairlead.project.bundle import indented, plainly, registry_name, run_cli, run_mcp
from fairlead.project.identity import Product, requirement_extras, requirement_name, slug_of
from fairlead.project.manifests import APPS

_SOURCES = "sources"
#: Archives know no earlier day; with a fixed one, two builds are equal.
_EPOCH = "315532800"


def build_wheel(product: Product, staging: Path) -> Path:
    """Make the wheel in a folder. Raises Failure when it cannot be built."""
    project = staging / "project"
    for name, content in _files(product).items():
        place = project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    done = subprocess.run(
        [sys.executable, "-c", _BACKEND, str(staging)],
        cwd=project,
        env=os.environ | {"SOURCE_DATE_EPOCH": _EPOCH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named 'hatchling'" in done.stderr:
        raise Failure(Kind.misconfigured, "Packaging needs hatchling: pip install 'fairlead[package]'.")
    wheels = sorted(staging.glob("*.whl"))
    if done.returncode or not wheels:
        said = done.stderr.strip().splitlines()
        raise Failure(
            Kind.invalid_input, f"The wheel could not be built: {said[-1] if said else 'no reason given'}"
        )
    return wheels[0]


_BACKEND = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


def _files(product: Product) -> dict[str, str | bytes]:
    name = product.import_name
    files: dict[str, str | bytes] = {
        "pyproject.toml": _project_file(product),
        "README.md": f"{product.app.create_guide_doc()}\n<!-- mcp-name: {registry_name(product)} -->\n",
        f"{name}/__init__.py": _package(product),
        f"{name}/__main__.py": "from . import cli\n\ncli()\n",
    }
    for file in product.source.files:
        files[f"{name}/{_SOURCES}/{file}"] = (product.source.root / file).read_bytes()
    return files


def _package(product: Product) -> str:
    source, target = product.source, f"{product.import_name}:app"
    return f'''"""{plainly(product.app.name)}, packaged with its commands."""

import sys
from pathlib import Path

_SOURCES = str(Path(__file__).parent / "{_SOURCES}")


def __getattr__(name):
    if name != "app":
        raise AttributeError(name)
    if sys.path[:1] != [_SOURCES]:
        sys.path.insert(0, _SOURCES)
    from importlib import import_module

    module = import_module({json.dumps(source.module)})
    if _SOURCES not in (getattr(module, "__file__", None) or ""):
        raise ImportError(f"{{module.__name__!r}} is another module here already: run this app in a process of its own")
    return getattr(module, {json.dumps(source.attribute)})


def cli():
    """Run the command line."""
{indented(run_cli(target))}


def mcp():
    """Serve MCP over stdio."""
    sys.path.insert(0, _SOURCES)
{indented(run_mcp(product, target))}
'''


def _quoted(value: Any) -> str:
    # TOML knows no escapes for halves of a character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _requires(given: Iterable[str]) -> list[str]:
    """What the wheel needs: this Fairlead or a later one, with the extras that the project asks for."""
    ours = {each: requirement_extras(each) for each in given if slug_of(requirement_name(each)) == "fairlead"}
    extras = sorted(set().union(*ours.values()))
    asked = f"[{','.join(extras)}]" if extras else ""
    return [f"fairlead{asked}>={version('fairlead')}", *(each for each in given if each not in ours)]


def _project_file(product: Product) -> str:
    package = product.package
    q = _quoted
    requires = _requires(package.get("requires", ()))
    lines = [
        "[build-system]",
        'requires = ["hatchling"]',
        'build-backend = "hatchling.build"',
        "",
        "[project]",
    ]
    lines += [
        f"{key} = {q(package[key])}"
        for key in ("name", "version", "description", "license")
        if key in package
    ]
    lines += ['readme = "README.md"', 'requires-python = ">=3.11"', f"dependencies = {q(requires)}"]
    if package.get("author"):
        lines.append(f"authors = [{{ name = {q(package['author'])} }}]")
    if package.get("private"):
        lines.append('classifiers = ["Private :: Do Not Upload"]')
    if package.get("homepage"):
        lines += ["", "[project.urls]", f"Homepage = {q(package['homepage'])}"]
    name, command = product.import_name, product.bin_name
    lines += [
        "",
        "[project.scripts]",
        f"{q(command)} = {q(name + ':cli')}",
        f"{q(command + '-mcp')} = {q(name + ':mcp')}",
    ]
    if package["name"] not in (command, f"{command}-mcp"):
        # What runs a package by its name alone, as MCP clients do, finds a command of that name.
        lines.append(f"{q(package['name'])} = {q(name + ':cli')}")
    lines += ["", f"[project.entry-points.{q(APPS)}]", f"{q(product.slug)} = {q(name + ':app')}"]
    lines += [
        "",
        "[tool.hatch.build.targets.wheel]",
        f"packages = [{q(name)}]",
        f"artifacts = [{q(name + '/**')}]",
    ]
    return "\n".join(lines) + "\n"
