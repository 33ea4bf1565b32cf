"""`mcp` at the command line: what it prints, and what it says to those who mistype."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App

app = App("shop", attribution={"text": "By the shop"})


@app.action
def find_order(id: int) -> dict[str, int]:
    """Find an order."""
    return {"id": id}


@app.action(side_effects="destructive")
def drop_order(id: int) -> None:
    """Drop an order."""


@app.action(visibility="local")
def open_drawer() -> None:
    """Open the drawer."""


@app.action(visibility="private")
def audit() -> None:
    """Look at the books."""


Cli = Callable[..., Any]


def test_90_the_command_prints_the_manifest_with_its_attribution(cli: Cli) -> None:
    ran = cli(app, "mcp")
    assert ran.code == 0
    assert ran.json["attribution"] == {"text": "By the shop"}
    assert [tool["name"] for tool in ran.json["tools"]] == ["find_order"]


@pytest.mark.parametrize(
    ("flag", "added"),
    [
        ("--include-destructive", "drop_order"),
        ("--include-local", "open_drawer"),
        ("--include-private", "audit"),
    ],
)
def test_more_is_shown_on_request(cli: Cli, flag: str, added: str) -> None:
    assert [tool["name"] for tool in cli(app, "mcp", flag).json["tools"]] == ["find_order", added]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["instal"], "argument 1"),
        (["install", "again"], "argument 2"),
        (["--studio"], "--studio"),
        (["--framing", "newline"], "--framing"),
        (["--stdio", "--framing", "lines"], "--framing"),
        (["--stdio", "--max-frame-bytes", "many"], "--max-frame-bytes"),
        (["--stdio", "--max-frame-bytes", "0"], "--max-frame-bytes"),
        (["--stdio", "--write"], "--write"),
        (["install", "--stdio"], "--stdio"),
        (["install", "--client", "vim"], "--client"),
        (["install", "--name", "no spaces"], "--name"),
        (["install", "--write"], "--write"),
        (["install", "--yes"], "--yes"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(cli: Cli, arguments: list[str], place: str) -> None:
    ran = cli(app, "mcp", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert place in ran.err


def test_near_misses_are_suggested(cli: Cli) -> None:
    assert "'--stdio'" in cli(app, "mcp", "--studio").err
    assert "'install'" in cli(app, "mcp", "instal").err
    assert "'cursor'" in cli(app, "mcp", "install", "--client", "curser").err


def test_help_tells_every_option_and_gives_examples(cli: Cli) -> None:
    page = cli(app, "mcp", "--help").out
    options = [
        "--stdio",
        "install",
        "--framing",
        "--max-frame-bytes",
        "--client",
        "--write",
        "--yes",
        "--name",
    ]
    assert [word for word in [*options, "--include-destructive", "Examples:"] if word not in page] == []


def test_streams_that_are_not_the_processs_own_cannot_be_served(cli: Cli) -> None:
    ran = cli(app, "mcp", "--stdio")
    assert ran.code == 1
    assert "app.mcp()" in ran.err


def test_an_app_that_is_not_there_is_told_on_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fairlead", "--app", "nowhere.py", "mcp", "--stdio"]
    done = subprocess.run(command, cwd=tmp_path, input=b"", capture_output=True)
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"nowhere.py" in done.stderr


def test_an_app_whose_import_fails_is_told_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("print('on the way')\nraise RuntimeError('no luck')\n")
    command = [sys.executable, "-m", "fairlead", "--app", "broken.py", "mcp", "--stdio"]
    done = subprocess.run(command, cwd=tmp_path, input=b"", capture_output=True)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"on the way" in done.stderr
    assert b"no luck" in done.stderr


def test_an_apps_own_program_serves_too(program: Callable[[str], Path]) -> None:
    path = program("@app.action\nasync def greet() -> str:\n    'Greet.'\n    return 'hello'\n")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet"}}
    done = subprocess.run(
        [sys.executable, str(path), "mcp", "--stdio"], input=json.dumps(asked).encode(), capture_output=True
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["structuredContent"] == {"result": "hello"}


DESTRUCTIVE = '''
app = App("shop")

@app.action(side_effects="destructive")
async def drop(id: int) -> int:
    """Drop."""
    return id
'''

PRIVATE = '''
app = App("shop")

@app.action(visibility="private")
async def audit() -> int:
    """Look."""
    return 1
'''

ROOT = '''
from fairlead import s

app = App("roots")

@app.action(input=s.literal(None))
async def nothing(value: object) -> bool:
    """Take nothing."""
    return value is None
'''


def test_83_a_destructive_tool_that_is_included_still_wants_a_yes(serve: Callable[..., Any]) -> None:
    peer = serve(DESTRUCTIVE, "--include-destructive")
    peer.initialize()
    (tool,) = peer.ask("tools/list")["tools"]
    assert tool["annotations"]["destructiveHint"] is True
    assert tool["_meta"]["fairlead/metadata"]["requiresConfirmation"] is True
    refused = peer.call("drop", id=1)
    assert refused["isError"] is True
    assert refused["_meta"]["fairlead/envelope"]["error"]["code"] == "CONFIRMATION_REQUIRED"
    done = peer.ask("tools/call", {"name": "drop", "arguments": {"id": 1}, "confirm": True})
    assert done["structuredContent"] == {"result": 1}


def test_82_a_hidden_tool_is_neither_listed_nor_called(serve: Callable[..., Any]) -> None:
    peer = serve(PRIVATE)
    peer.initialize()
    assert peer.ask("tools/list")["tools"] == []
    assert peer.call("audit")["code"] == -32602


def test_24_a_null_root_stays_null(serve: Callable[..., Any]) -> None:
    peer = serve(ROOT)
    told = peer.ask("tools/call", {"name": "nothing", "arguments": None})
    assert told["structuredContent"] == {"result": True}
    refused = peer.ask("tools/call", {"name": "nothing", "arguments": {}})
    assert refused["_meta"]["fairlead/envelope"]["error"]["code"] == "VALIDATION_ERROR"
