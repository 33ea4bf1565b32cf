"""The order of the house: who may import whom, what is public, what importing costs, and what checklists name."""

import ast
import gc
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fairlead
from locking import LOCKS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "fairlead"

#: Lowest first. A module imports from its own room and from those before it.
ROOMS = [
    "fairlead._lazy",
    "fairlead._json",
    "fairlead.failures",
    "fairlead.outgoing",
    "fairlead.schema",
    "fairlead.actions",
    "fairlead.runtime",
    "fairlead.store",
    "fairlead.tasks",
    "fairlead.tools",
    "fairlead.agents",
    "fairlead.pipelines",
    "fairlead.plugins",
    "fairlead.surfaces",
    "fairlead.gateway",
    "fairlead.project",
    "fairlead.testing",
]
#: The doors of the house, which stand above all rooms.
DOORS = {"fairlead", "fairlead.__main__"}

#: The templates of `fairlead init` are projects of their own.
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "templates" not in path.parts)


def name_of(path: Path) -> str:
    parts = ["fairlead", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(name: str) -> str | None:
    return next((room for room in ROOMS if name == room or name.startswith(f"{room}.")), None)


def imports_in(statements: Iterable[ast.AST]) -> Iterator[str]:
    """Every module that is imported there, inside functions too; not what only a type checker reads."""
    for each in statements:
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            assert each.level == 0, "imports are absolute here, so that this test can read them"
            for alias in each.names:
                inner = f"{each.module}.{alias.name}"
                yield inner if is_module(inner) else each.module or ""
        else:
            typing = isinstance(each, ast.If) and ast.unparse(each.test).endswith("TYPE_CHECKING")
            # No import is in an expression.
            for part in ("orelse",) if typing else ("body", "orelse", "handlers", "finalbody", "cases"):
                inside = getattr(each, part, ())
                yield from imports_in(inside if isinstance(inside, list) else ())


@cache
def is_module(name: str) -> bool:
    path = ROOT / "src" / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


class Read(NamedTuple):
    """What is looked at of a module: what it says it is for, and what it imports of ours."""

    doc: str | None
    imports: list[str]


@cache
def read(path: Path) -> Read:
    gc.disable()  # else the collector looks through the tree again and again, for four times as long as parsing takes
    try:
        tree = ast.parse(path.read_text())
        names = {name for name in imports_in(tree.body) if name.partition(".")[0] == "fairlead"}
        return Read(ast.get_docstring(tree), sorted(names))
    finally:
        gc.enable()


def imports_of(path: Path) -> list[str]:
    return read(path).imports


def test_every_module_stands_in_a_room() -> None:
    names = {name_of(path) for path in MODULES} - DOORS
    assert {name for name in names if room_of(name) is None} == set()


def test_a_module_imports_only_from_its_own_room_and_those_below() -> None:
    wrong = {}
    for path in MODULES:
        name = name_of(path)
        if name not in DOORS:
            allowed = ROOMS[: ROOMS.index(room_of(name) or "") + 1]
            wrong[name] = [each for each in imports_of(path) if room_of(each) not in allowed]
    assert {name: imports for name, imports in wrong.items() if imports} == {}


def test_a_private_module_is_imported_by_its_neighbours_only() -> None:
    shared = ("fairlead._json", "fairlead._lazy")
    strangers = [
        (name_of(path), imported)
        for path in MODULES
        for imported in imports_of(path)
        if any(part.startswith("_") for part in imported.split("."))
        and imported not in shared
        and imported.rpartition(".")[0] != name_of(path.parent / "__init__.py")
    ]
    assert strangers == []


def test_a_module_says_what_it_is_for() -> None:
    assert [name_of(path) for path in MODULES if path.read_text() and not read(path).doc] == []


def test_a_module_is_no_longer_than_600_lines() -> None:
    assert [name_of(path) for path in MODULES if len(path.read_text().splitlines()) > 600] == []


def test_the_public_names_are_these() -> None:
    public = "Action App Client Context Failure Kind Runtime SyncClient action s"
    assert fairlead.__all__ == public.split()
    assert all(getattr(fairlead, name) is not None for name in fairlead.__all__)


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert fairlead.__version__ == project["version"]


def test_the_core_depends_on_three_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~ \[]", each, maxsplit=1)[0] for each in project["dependencies"]}
    assert names == {"pydantic", "orjson", "click"}


@cache
def loaded_by_importing() -> frozenset[str]:
    program = "import sys, json; import fairlead; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return frozenset(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "pydantic",
        "click",
        "rich",
        "opentelemetry",
        "jsonschema_rs",
        "msgspec",
        "attrs",
        "pytest",
        "importlib.metadata",
        "fairlead.surfaces.cli",
        "fairlead.surfaces.json",
        "fairlead.testing",
    ],
)
def test_importing_fairlead_does_not_import(module: str) -> None:
    assert module not in loaded_by_importing()


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_can_be_entered_first(room: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {room}"], check=True, capture_output=True)


CHECKLISTS = sorted((ROOT / "tests" / "checklists").glob("*.md"))
_TEST_ID = re.compile(r"tests/[\w/]+\.py(?:::\w+)?")


@cache
def functions_in(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))


def missing(test_id: str) -> bool:
    file, _, name = test_id.partition("::")
    path = ROOT / file
    return not path.is_file() or (bool(name) and name not in functions_in(path))


@pytest.mark.parametrize("path", CHECKLISTS, ids=lambda path: path.stem)
def test_every_test_a_checklist_names_exists(path: Path) -> None:
    named = _TEST_ID.findall(path.read_text())
    assert named
    assert [each for each in named if missing(each)] == []


SECURITY = ROOT / "docs" / "security.md"


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = _TEST_ID.findall(SECURITY.read_text())
    assert len(named) > 60
    assert [each for each in named if missing(each)] == []


def test_every_threat_has_a_mechanism_that_exists_and_a_test() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", SECURITY.read_text(), re.MULTILINE)
    threats = [row for row in rows if "tests/" in row[2]]
    assert len(threats) > 40
    files = [each for _, mechanism, _ in threats for each in re.findall(r"`([\w/]+\.py)`", mechanism)]
    assert [each for each in files if not (PACKAGE / each).is_file()] == []


def test_every_security_rule_that_is_set_aside_has_its_reason_in_the_docs() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    everywhere = {rule for rule in settings["ignore"] if rule.startswith("S")}
    waived = re.compile(r"noqa: ([A-Z0-9, ]+)")
    lines = {
        rule for path in MODULES for found in waived.findall(path.read_text()) for rule in found.split(", ")
    }
    here = {rule.strip() for rule in lines if re.fullmatch(r"S\d+", rule.strip())}
    listed = set(re.findall(r"^\| (S\d+) \|", SECURITY.read_text(), re.MULTILINE))
    assert listed == everywhere | here


def test_the_checklist_of_section_f_has_every_line() -> None:
    text = (ROOT / "tests" / "checklists" / "ageniti_f.md").read_text()
    lines = {int(number): rest for number, rest in re.findall(r"^- F (\d+)\b(.*)$", text, re.MULTILINE)}
    assert sorted(lines) == list(range(1, 142))
    unproved = [
        number for number, rest in lines.items() if "tests/" not in rest and not re.search(r"step \d", rest)
    ]
    assert unproved == []


def test_the_checklist_of_section_d_has_every_part() -> None:
    text = (ROOT / "tests" / "checklists" / "ageniti_d.md").read_text()
    assert re.findall(r"^## D\.(\d)", text, re.MULTILINE) == list("123456789")
    lines = re.findall(r"^- (.*)$", text, re.MULTILINE)
    assert [line for line in lines if "tests/" not in line and not re.search(r"step \d", line)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_what_is_needed_is_pinned_with_hashes(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    pinned = {
        name: version for entry in entries for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", entry)
    }
    wanted = [Requirement(text) for text in needed(*LOCKS[lock])]
    assert len(wanted) >= 3
    assert [
        str(each)
        for each in wanted
        if not each.specifier.contains(pinned.get(canonicalize_name(each.name), "0.dev0"))
    ] == []


def needed(*extras: str) -> Iterator[str]:
    """What pyproject.toml asks for, with these extras and those that they name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from project["dependencies"]
    waiting, seen = list(extras), set[str]()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for text in project["optional-dependencies"][extra]:
            wanted = Requirement(text)
            if wanted.name == "fairlead":
                waiting.extend(wanted.extras)
            else:
                yield text
