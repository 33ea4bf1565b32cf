"""`fairlead client`: what it writes, where, and what it will not write over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairlead import App


@pytest.fixture
def client(cli: Callable[..., Any], harbour: ModuleType) -> Callable[..., Any]:
    return lambda *argv, app=None: cli(app or harbour.app, "client", *argv)


def test_the_client_is_printed_unless_a_file_is_named(client: Any, tmp_path: Path) -> None:
    printed = client("ts")
    assert printed.code == 0
    assert printed.out.startswith("// Written by `fairlead client ts` for the app 'harbour'.")
    assert "export interface HarbourClient {" in printed.out
    written = client("ts", "--out", str(tmp_path / "harbour.ts"))
    assert (written.code, written.out) == (0, "")
    assert "harbour.ts" in written.err
    assert (tmp_path / "harbour.ts").read_text() == printed.out
    assert [path.name for path in tmp_path.iterdir()] == ["harbour.ts"]


def test_python_and_react_are_written_too(client: Any) -> None:
    assert "class HarbourClient(Client):" in client("py").out
    assert "export function useAction<" in client("ts", "--react").out
    assert "useAction" not in client("ts").out


def test_actions_can_be_chosen_and_the_client_named(client: Any) -> None:
    out = client("ts", "add-boat", "greet", "greet", "--name", "Boats").out
    assert "export interface Boats {" in out
    assert out.count("\n  greet(") == 2
    assert '"add_boat"' in out
    assert "sail(" not in out


def test_all_that_the_http_surface_shows_is_in_it_and_nothing_else(client: Any) -> None:
    out = client("py").out
    assert "def greet(" in out
    assert "scuttle" not in out
    assert "treasure" not in out
    # A server can be told to show it; then its client must know of it.
    assert "def scuttle(" in client("py", "scuttle").out
    assert client("py", "treasure").code == 4


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ((), "ts or py"),
        (("js",), "ts or py"),
        (("tss",), "'ts'"),
        (("py", "--react"), "TypeScript only"),
        (("ts", "--nam", "X"), "--name"),
        (("ts", "--name", "not a name"), "TasksClient"),
        (("ts", "--name", "ClientError"), "TasksClient"),
    ],
)
def test_what_makes_no_sense_is_refused(client: Any, argv: tuple[str, ...], hint: str) -> None:
    ran = client(*argv)
    assert ran.code == 2
    assert hint in ran.err + ran.out


def test_an_action_that_does_not_exist_is_refused_with_the_near_miss(client: Any) -> None:
    ran = client("ts", "great")
    assert ran.code == 4
    assert "'greet'" in ran.err + ran.out


def test_only_files_that_the_command_wrote_are_written_again(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "client.ts"
    path.write_text("// mine\n")
    ran = client("ts", "--out", str(path))
    assert ran.code == 1
    assert "CONFLICT" in ran.err + ran.out
    assert path.read_text() == "// mine\n"
    assert client("ts", "--out", str(path), "--force").code == 0
    assert client("ts", "--react", "--out", str(path)).code == 0
    assert "useAction" in path.read_text()


def test_a_place_that_cannot_be_written_is_told(client: Any, tmp_path: Path) -> None:
    assert client("ts", "--out", str(tmp_path / "none" / "client.ts")).code == 4
    assert client("ts", "--out", str(tmp_path)).code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "expected"), [("my tasks", "MyTasksClient"), ("9 lives", "AppClient")])
def test_the_client_is_named_after_the_app(client: Any, name: str, expected: str) -> None:
    assert f"export interface {expected} {{" in client("ts", app=App(name)).out


def test_the_command_explains_itself(client: Any) -> None:
    ran = client("--help")
    assert ran.code == 0
    assert all(word in ran.out for word in ("--out", "--name", "--react", "--force", "client ts --react"))
