"""The docs tell the truth: what they show is in files, runs, and does what they say."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fairlead.actions import ActionOptions, Concurrency, Deprecation, RateLimit, Retry
from fairlead.failures import Kind
from fairlead.runtime.app import RuntimeOptions
from fairlead.surfaces.cli.builtin import BUILTINS
from fairlead.surfaces.cli.fields import CALL_FLAGS
from warm import Warm

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
EXAMPLES = sorted((DOCS / "examples").rglob("*.py"))
SOURCES = {
    path: path.read_text(encoding="utf-8") for path in [*EXAMPLES, *sorted((ROOT / "examples").rglob("*.py"))]
}


class Block(NamedTuple):
    language: str
    options: str
    text: str


class Command(NamedTuple):
    line: str
    shown: list[str]
    exit_code: int


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[Block]:
    found = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```", read(page), re.MULTILINE | re.DOTALL)
    return [block for block in (Block(*each) for each in found) if block.language == language]


def commands(page: Path) -> Iterator[Command]:
    """What a page's console blocks run, with the lines shown under each; only a block's last may fail."""
    for block in blocks(page, "console"):
        parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
        stated = re.search(r"exit=(\d+)", block.options)
        for number, part in enumerate(parts, start=1):
            line, *shown = part.strip().splitlines()
            last = number == len(parts)
            yield Command(line, shown, int(stated[1]) if stated and last else 0)


#: Plugins that the docs do not speak of, and that take a third of the time in which pytest starts.
UNUSED = "-p no:hypothesispytest"


def surroundings(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    plain = {"PATH": path, "NO_COLOR": "1", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}
    return os.environ | plain | {"PYTEST_ADDOPTS": UNUSED} | more


def run(arguments: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=folder,
        env=surroundings(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


def run_on_terminal(line: str, folder: Path, **environment: str) -> tuple[int, str]:
    """Run a shell's command as someone at a terminal sees it, except that nobody is there to answer."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (50, 120))
    started = subprocess.Popen(
        ["bash", "-c", line],
        cwd=folder,
        env=surroundings(**environment),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    with started, os.fdopen(ours, "rb", buffering=0) as terminal:
        # Linux says EIO, others say nothing more, when the last writer has gone.
        with contextlib.suppress(OSError):
            while part := terminal.read(65536):
                printed += part
        return started.wait(60), printed.decode()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=relative)
def test_python_on_a_page_is_part_of_a_file(page: Path) -> None:
    for block in blocks(page, "python"):
        assert any(block.text.strip() in source for source in SOURCES.values()), block.text


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=relative)
def test_python_that_imports_nothing_comes_with_the_file_that_does(page: Path) -> None:
    shown = re.sub(r"<!--.*?-->", "", read(page), flags=re.DOTALL)
    for block in blocks(page, "python"):
        if re.search(r"^\s*(from|import) ", block.text, re.MULTILINE):
            continue
        files = [path for path, source in SOURCES.items() if block.text.strip() in source]
        # A page may name the one folder that all its files are in.
        told = {place for each in files for place in (relative(each), f"{relative(each.parent)}/`")}
        assert any(place in shown for place in told), block.text


def test_examples_use_public_names_only() -> None:
    assert [relative(each) for each in EXAMPLES if re.search(r"\bfairlead\.(\w+\.)*_", read(each))] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=relative)
def test_an_example_runs(example: Path, tmp_path: Path, warm_python: Warm, warm_executable: str) -> None:
    tests = example.name.startswith("test_")
    how = ["-m", "pytest", "-p", "no:cacheprovider"] if tests else []
    places = {"DESK_FILE": str(tmp_path / "desk.json"), "FAIRLEAD_DATA": str(tmp_path / "data")}
    places |= {"WARM_EXECUTABLE": warm_executable} | ({} if tests else {"PYTHONWARNINGS": "error"})
    done = run(warm_python.command(*how, example.name), example.parent, **places)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=relative)
def test_the_commands_on_a_page_do_what_it_shows(page: Path, tmp_path: Path, warm_path: str) -> None:
    at = re.search(r"<!-- commands run in (\S+) -->", read(page))
    folder = ROOT / at[1] if at else ROOT
    places = {"TASKBOARD_DB": str(tmp_path / "board.sqlite"), "DESK_FILE": str(tmp_path / "desk.json")}
    places |= {"FAIRLEAD_DATA": str(tmp_path / "data"), "PATH": warm_path}
    for command in commands(page):
        # Others may run the same page at the same time.
        exit_code, printed = run_on_terminal(command.line.replace("/tmp/", f"{tmp_path}/"), folder, **places)
        printed = printed.replace(f"{tmp_path}/", "/tmp/")
        assert exit_code == command.exit_code, f"$ {command.line}\n{printed}"
        for piece in (piece for line in command.shown for piece in line.split("...")):
            assert squeezed(piece) in squeezed(printed), f"{piece!r} is not in\n$ {command.line}\n{printed}"


def squeezed(text: str) -> str:
    """Without runs of white space: columns may shift."""
    return " ".join(text.split())


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors(file), f"{target}: {file.name} has no such heading"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_leads_to_every_page() -> None:
    named = set(re.findall(r"\]\(([\w/.-]+\.md)\)", read(ROOT / "README.md")))
    assert [relative(page) for page in PAGES if relative(page) not in {"README.md", *named}] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_prose_has_one_sentence_per_line(page: Path) -> None:
    if page.parent.name == "reference" or page.name == "benchmarks.md":
        return
    prose = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
    for line in prose.splitlines():
        if line.startswith(("|", "- ", "    ", "#")) or re.match(r"\d+\. ", line):
            continue
        assert not re.search(r"[a-z`)][.!?] [A-Z]", line), line


def test_generated_pages_are_fresh() -> None:
    done = run([sys.executable, "docs/generate.py", "--check"], ROOT)
    assert done.returncode == 0, done.stdout


def test_every_option_of_an_action_is_in_its_guide() -> None:
    guide = read(DOCS / "guides" / "actions.md")
    policies = (Retry, Concurrency, RateLimit, Deprecation)
    options = [*ActionOptions.__annotations__, *(name for each in policies for name in each.__annotations__)]
    assert [name for name in options if f"`{name}" not in guide] == []


def test_every_option_of_an_app_is_in_a_guide() -> None:
    guide = read(DOCS / "guides" / "runtime.md")
    assert [name for name in RuntimeOptions.__annotations__ if f"`{name}" not in guide] == []


def test_every_flag_command_and_variable_is_in_the_guide_to_the_command_line() -> None:
    guide = read(DOCS / "guides" / "command-line.md")
    variables = ("FAIRLEAD_APP", "FAIRLEAD_DEBUG", "NO_COLOR", "FORCE_COLOR")
    words = [*(f"--{flag}" for flag in CALL_FLAGS), "--completion", *variables]
    words += [f"`{name}" for name in BUILTINS]
    assert [word for word in words if word not in guide] == []


def test_every_kind_is_in_the_guide_to_failures() -> None:
    guide = read(DOCS / "guides" / "failures.md")
    assert [kind for kind in Kind if f"`{kind}`" not in guide] == []


def test_the_files_that_the_design_names_exist() -> None:
    named = re.findall(r"`([a-z]+/[a-z/_]+\.py)`", read(DOCS / "design.md"))
    places = (ROOT / "src" / "fairlead", ROOT)
    assert len(named) > 20
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []


def test_headings_of_the_troubleshooting_page_are_texts_that_are_provoked(warm_python: Warm) -> None:
    # The part on first contact is provoked by tests/test_first_contact.py.
    page = read(DOCS / "troubleshooting.md").partition("# On first contact")[0]
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    done = run(warm_python.command("troubleshooting.py"), DOCS / "examples")
    assert done.returncode == 0, done.stdout
    assert sorted(headings) == sorted(done.stdout.splitlines())
