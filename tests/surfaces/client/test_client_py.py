"""The Python client that is written for an app: checked strictly, formatted, and run against a server."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fairlead import App, Kind, action, s
from fairlead.surfaces.client.py_client import method_name, python
from fairlead.surfaces.client.ts_client import typescript

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HEADER = "Written for the tests."


def loaded(text: str) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "written"}
    exec(compile(text, "written.py", "exec"), module)
    return module


@pytest.fixture(scope="module")
def workshop(harbour: ModuleType, schemas: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    text = python(harbour.app.list_actions("http"), name="HarbourClient", header=HEADER)
    (folder / "harbour_client.py").write_text(text, encoding="utf-8")
    actions = [exotic(number, schema) for number, schema in enumerate(schemas)]
    (folder / "exotic.py").write_text(python(actions, name="Exotic", header=HEADER), encoding="utf-8")
    for file in ("harbour.py", "typed_calls.py", "typed_methods.py"):
        source = (HERE / file).read_text(encoding="utf-8")
        (folder / file).write_text(source.removeprefix("# mypy: ignore-errors\n"), encoding="utf-8")
    return folder


def exotic(number: int, schema: Any) -> Any:
    """Something with these shapes, whether or not a runtime could check them."""
    shape = SimpleNamespace(json_schema=schema, output_json_schema=schema)
    words = {"name": f"shape_{number}", "description": "Take and give it.", "deprecation": None}
    return SimpleNamespace(input=shape, output=shape, **words)


def run(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=55, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_say_what_they_should(workshop: Path) -> None:
    cache = ROOT / ".mypy_cache" / "clients"
    run(workshop, "-m", "mypy", "--strict", f"--cache-dir={cache}", "--no-error-summary",
        "harbour_client.py", "exotic.py", "typed_calls.py", "typed_methods.py")  # fmt: skip


def test_the_module_is_formatted_and_clean(workshop: Path) -> None:
    run(workshop, "-m", "ruff", "format", "--isolated", "--check", "harbour_client.py")
    run(workshop, "-m", "ruff", "check", "--isolated", "--select", "E,F,W,I,UP,B,RUF", "--ignore", "E501",
        "--target-version", "py311", "harbour_client.py")  # fmt: skip


def test_the_module_calls_a_server(workshop: Path, harbour_url: str) -> None:
    run(workshop, "-W", "error", "typed_methods.py", harbour_url)
    run(workshop, "-W", "error", "exotic.py")


@pytest.mark.parametrize("write", [python, typescript])
def test_the_same_actions_give_the_same_text(harbour: ModuleType, write: Any) -> None:
    first, second = (write(harbour.app.actions, name="C", header=HEADER) for _ in range(2))
    assert first == second
    assert first.splitlines()[0].endswith(HEADER)


def test_a_deprecated_action_says_so(harbour: ModuleType) -> None:
    text = python([harbour.hail], name="C", header=HEADER)
    client = loaded(text)["SyncC"](runtime=harbour.app)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert client.hail(name="Ada") == "Ada"
    assert [str(each.message) for each in told] == ["It is too quiet. Use `greet` instead."]
    assert "@deprecated It is too quiet. Use `greet` instead." in typescript(
        [harbour.hail], name="C", header=""
    )


def test_no_words_of_an_app_can_become_code() -> None:
    @action(description='Evil """ + boom() + """ \\', deprecation='"); boom("')
    async def trap(value: str = 'x"') -> None: ...

    client = loaded(python([trap], name="C", header=HEADER))["C"]
    assert client.trap.__doc__ == 'Evil """ + boom() + """ \\'


@pytest.mark.parametrize(
    ("action", "method"),
    [
        *(("greet", "greet"), ("stream", "stream_"), ("close", "close_"), ("import", "import_")),
        ("transport", "transport_"),
    ],
)
def test_a_method_gives_way_to_names_that_mean_something_else(action: str, method: str) -> None:
    assert method_name(action) == method


async def test_a_method_that_gave_way_calls_its_action() -> None:
    app = App("names")

    @app.action(name="import")
    async def bring(invoke: int) -> int:
        """Bring something in."""
        return invoke

    @app.action(input=s.object({"not-a-name": s.number()}))
    async def odd(value: Any) -> Any:
        """Take an odd key."""
        return value

    client = loaded(python(app.actions, name="C", header=HEADER))["C"](runtime=app)
    assert await client.import_(invoke=3) == 3
    assert await client.import_({"invoke": 3}, timeout=5) == 3
    assert await client.odd({"not-a-name": 1}) == {"not-a-name": 1}


async def test_a_method_gives_way_to_no_other_action() -> None:
    app = App("names")

    @app.action(name="import")
    async def bring() -> str:
        """Bring something in."""
        return "import"

    @app.action
    async def import_() -> str:
        """Bring more in."""
        return "import_"

    @app.action
    async def transport() -> str:
        """Bring something elsewhere."""
        return "transport"

    client = loaded(python(app.actions, name="C", header=HEADER))["C"](runtime=app)
    said = [await client.import_(), await client.import__(), await client.transport_()]
    assert said == ["import_", "import", "transport"]


def test_26_31_a_typed_client_has_an_overload_for_data_and_one_for_the_envelope(harbour: ModuleType) -> None:
    text = typescript(harbour.app.list_actions("http"), name="HarbourClient", header=HEADER)
    assert "export interface HarbourClient {" in text
    assert "  greet(input: GreetInput, options: RawInvokeOptions): Promise<Envelope<GreetOutput>>;" in text
    assert "  greet(input: GreetInput, options?: InvokeOptions): Promise<GreetOutput>;" in text
    assert "export type RawInvokeOptions =" in text
    assert text.count("  $invoke<Name extends ActionName>(") == 2
    assert (
        "export type GreetInput = {\n  /** Whom to greet. */\n  name: string;\n  loud?: boolean;\n};" in text
    )
    assert "export type BerthsOutput = Array<number>;" in text
    assert "/** Say hello *\\/ quietly." not in text
    assert "Say hello *\\/ quietly." in text


def test_a_typescript_client_depends_on_nothing_but_react(harbour: ModuleType) -> None:
    actions = harbour.app.list_actions("http")
    assert "import" not in {
        line.split(" ")[0] for line in typescript(actions, name="C", header="").splitlines()
    }
    with_hook = typescript(actions, name="C", header="", react=True)
    imports = [line for line in with_hook.splitlines() if line.startswith("import")]
    assert imports == ['import { useCallback, useEffect, useRef, useState } from "react";']


def test_the_codes_of_failures_are_known_to_the_client(harbour: ModuleType) -> None:
    text = typescript([], name="C", header="")
    for code in (
        "HARBOUR_FULL",
        "UNTRUSTED_REMOTE_IDENTITY",
        "TRANSPORT_ERROR",
        "INVALID_RESPONSE",
        "TIMEOUT",
    ):
        assert f'  | "{code}"' in text
    assert Kind.timeout.value not in text.split("export interface Actions")[0]
