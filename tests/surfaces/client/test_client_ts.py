"""The TypeScript client: compiled strictly, run by node as it is, and tested by vitest with a real React render."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairlead.actions import action
from fairlead.surfaces.client.shapes import Names, read
from fairlead.surfaces.client.ts_client import typescript
from fairlead.surfaces.client.ts_types import declaration

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NODE = ROOT / "tests" / "node"
BIN = Path(sys.executable).parent
PATIENCE = 55

pytestmark = pytest.mark.skipif(
    not (NODE / "node_modules").is_dir(), reason="run `npm ci` in tests/node for these"
)

STRICT = """
    --noEmit --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --noPropertyAccessFromIndexSignature
    --noImplicitOverride --noImplicitReturns --noFallthroughCasesInSwitch --noUnusedLocals --isolatedModules
    --erasableSyntaxOnly --module esnext --moduleResolution bundler --target es2022 --lib es2022,dom --jsx react-jsx
""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The harbour in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "harbour.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


@pytest.fixture(scope="module")
def workshop(harbour: ModuleType, schemas: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the written clients, the tests of them, and what these need."""
    folder = tmp_path_factory.mktemp("workshop")
    actions = harbour.app.list_actions("http")
    header = "Written for the tests."
    for file, chosen, react in (
        ("harbour.ts", actions, True),
        ("tasks.ts", actions, False),
        ("empty.ts", [], True),
    ):
        text = typescript(chosen, name="HarbourClient", header=header, react=react)
        (folder / file).write_text(text, encoding="utf-8")
    names = Names()
    found = [read(schema, names.take(f"Shape{number}_"), names) for number, schema in enumerate(schemas)]
    (folder / "exotic.ts").write_text(
        "\n".join(declaration(each) for one in found for each in one), encoding="utf-8"
    )
    for source in (*HERE.glob("*.ts"), *HERE.glob("*.tsx"), NODE / "vitest.config.ts"):
        shutil.copy(source, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    return folder


def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", **more},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def compiled(folder: Path, *arguments: str) -> None:
    done = run(folder, str(NODE / "node_modules" / ".bin" / "tsc"), *STRICT, *arguments)
    assert done.returncode == 0, done.stdout


def test_the_client_compiles_strictly_and_its_types_say_what_they_should(workshop: Path) -> None:
    compiled(workshop, "tasks.ts", "harbour.ts", "types.ts", "exotic.ts", "empty.ts")


def test_words_of_the_language_are_names_of_methods(workshop: Path) -> None:
    def named(name: str) -> Any:
        return action(name=name, description="Count on.")(lambda value=1: value)

    words = ["new", "constructor", "delete", "class", "get", "static", "readonly", "async"]
    text = typescript([named(word) for word in words], name="WordsClient", header="Written for the tests.")
    (workshop / "words.ts").write_text(text, encoding="utf-8")
    calls = "".join(f"export const {word}_ = () => client.{word}({{ value: 1 }});\n" for word in words)
    (workshop / "use_words.ts").write_text(
        f'import {{ createClient }} from "./words";\nconst client = createClient({{ url: "http://x" }});\n{calls}'
    )
    compiled(workshop, "use_words.ts")


def test_the_tests_of_it_compile_strictly(workshop: Path) -> None:
    # The testing library asks for declarations that it does not bring along.
    tests = [path.name for path in workshop.glob("*.test.*")]
    compiled(workshop, "--types", "node", "--skipLibCheck", *tests)


def test_what_the_guide_shows_is_in_a_file_that_compiles(workshop: Path) -> None:
    example = (ROOT / "docs" / "examples" / "clients.tsx").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "guides" / "clients.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```tsx?\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert shown
    assert [block for block in shown if block.strip() not in example] == []
    folder = workshop / "guide"
    folder.mkdir()
    (folder / "clients.tsx").write_text(example, encoding="utf-8")
    app = str(ROOT / "examples" / "taskboard" / "app.py")
    done = run(folder, sys.executable, app, "client", "ts", "--react", "--out", "tasks.ts")
    assert done.returncode == 0, done.stderr
    compiled(folder, "clients.tsx")


def test_node_runs_it_as_it_is(workshop: Path, server: str) -> None:
    done = run(workshop, "node", "stripped.ts", HARBOUR_URL=server)
    assert done.stdout.split("\n")[:-1] == [
        "Hello node", "INTERNAL_ERROR", "log", "progress", "artifact", "log", "result",
    ], done.stderr  # fmt: skip


@pytest.fixture(scope="module")
def results(workshop: Path, server: str) -> dict[str, str]:
    """What vitest says of each test: empty where it passed."""
    return vitest(workshop, server)


def vitest(workshop: Path, server: str) -> dict[str, str]:
    command = ("node", str(NODE / "node_modules" / "vitest" / "vitest.mjs"), "run")
    done = run(workshop, *command, HARBOUR_URL=server)
    path = workshop / "results.json"
    assert path.exists(), done.stdout + done.stderr
    return {
        each["title"]: ""
        if each["status"] == "passed"
        else "\n".join(each["failureMessages"]) or each["status"]
        for file in json.loads(path.read_text())["testResults"]
        for each in file["assertionResults"]
    }


NAMES = [
    name
    for source in sorted((*HERE.glob("*.test.ts"), *HERE.glob("*.test.tsx")))
    for name in re.findall(r'^test\("(.+)",', source.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("name", NAMES)
def test_in_typescript(results: dict[str, str], name: str) -> None:
    assert results[name] == ""


def test_every_test_in_typescript_was_run(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(NAMES)
