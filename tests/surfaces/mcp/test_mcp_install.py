"""Setting up clients: the right settings, in the right file, and nothing else in it touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import App
from fairlead.surfaces.mcp.install import CLIENTS, slug
from fairlead.surfaces.mcp.settings import Uneditable, put_json, put_toml

app = App("My Shop!")

Cli = Callable[..., Any]
ENTRY = {
    "command": "/usr/bin/python",
    "args": ["-m", "fairlead", "--app", "/srv/shop.py:app", "mcp", "--stdio"],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def install(cli: Cli, home: Path) -> Cli:
    def run(*arguments: str, **options: Any) -> Any:
        return cli(app, "mcp", "install", *arguments, env={"HOME": str(home)}, **options)

    return run


# Where, and what.


@pytest.mark.parametrize(
    ("client", "platform", "file"),
    [
        ("claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"),
        ("claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", ".mcp.json"),
        ("cursor", "linux", ".cursor/mcp.json"),
        ("cursor", "win32", ".cursor/mcp.json"),
        ("vscode", "linux", ".config/Code/User/mcp.json"),
        ("vscode", "darwin", "Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", "AppData/Roaming/Code/User/mcp.json"),
        ("codex", "linux", ".codex/config.toml"),
    ],
)
def test_each_client_has_its_file_on_each_platform(home: Path, client: str, platform: str, file: str) -> None:
    assert CLIENTS[client].file({"HOME": str(home)}, platform) == str(home / file)


def test_folders_that_were_moved_are_found() -> None:
    assert CLIENTS["codex"].file({"CODEX_HOME": "/moved"}) == "/moved/config.toml"
    assert CLIENTS["vscode"].file({"XDG_CONFIG_HOME": "/moved"}, "linux") == "/moved/Code/User/mcp.json"
    assert CLIENTS["vscode"].file({"APPDATA": "/moved"}, "win32") == "/moved/Code/User/mcp.json"


@pytest.mark.parametrize(("client", "section"), [("claude-desktop", "mcpServers"), ("cursor", "mcpServers")])
def test_json_settings_name_the_command(install: Cli, client: str, section: str) -> None:
    told = install("--client", client).json
    entry = told[section]["my-shop"]
    assert set(entry) == {"command", "args"}
    assert os.path.isabs(entry["command"])
    assert entry["args"][-2:] == ["mcp", "--stdio"]


@pytest.mark.parametrize(("client", "section"), [("claude-code", "mcpServers"), ("vscode", "servers")])
def test_some_clients_are_told_the_transport(install: Cli, client: str, section: str) -> None:
    assert install("--client", client).json[section]["my-shop"]["type"] == "stdio"


def test_codex_has_toml(install: Cli) -> None:
    entry = tomllib.loads(install("--client", "codex").out)["mcp_servers"]["my-shop"]
    assert entry["args"][-2:] == ["mcp", "--stdio"]


def test_without_a_client_the_settings_of_all_are_printed(install: Cli) -> None:
    ran = install()
    assert ran.code == 0
    assert ran.out.count("\n# ") + 1 == len(CLIENTS)
    assert all(client.title in ran.out for client in CLIENTS.values())


def test_the_name_and_what_is_shown_can_be_chosen(install: Cli) -> None:
    told = install("--client", "cursor", "--name", "till", "--include-local", "--include-destructive").json
    args = told["mcpServers"]["till"]["args"]
    assert args[-4:] == ["mcp", "--stdio", "--include-destructive", "--include-local"]


@given(st.text())
def test_every_app_has_a_name_that_clients_take(name: str) -> None:
    assert slug(name)
    assert set(slug(name)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


SHOP = '''
from fairlead import App
app = App("shop")

@app.action
async def greet() -> str:
    """Greet."""
    return "hello"
'''


@pytest.mark.parametrize("given", ["shop", "till/desk.py:app", "till.desk:app"])
def test_the_command_starts_the_server_from_any_folder(tmp_path: Path, given: str) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / "till").mkdir(parents=True)
    (project / "till" / "__init__.py").touch()
    for path in (project / "shop.py", project / "till" / "desk.py"):
        path.write_text(SHOP)
    command = [sys.executable, "-m", "fairlead", "--app", given, "mcp", "install", "--client", "cursor"]
    told = subprocess.run(command, cwd=project, capture_output=True, check=True).stdout
    entry = json.loads(told)["mcpServers"]["shop"]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet"}}
    served = [entry["command"], *entry["args"]]
    done = subprocess.run(served, cwd=elsewhere, input=json.dumps(asked).encode(), capture_output=True)
    assert json.loads(done.stdout)["result"]["structuredContent"] == {"result": "hello"}


def test_an_apps_own_program_is_started_again_as_itself(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    path = program("")
    command = [sys.executable, path.name, "mcp", "install", "--client", "cursor"]
    told = json.loads(subprocess.run(command, cwd=path.parent, capture_output=True, check=True).stdout)
    entry = told["mcpServers"]["program"]
    assert entry == {"command": sys.executable, "args": [str(path), "mcp", "--stdio"]}


# Writing.


def test_a_file_is_made_where_there_is_none(install: Cli, home: Path) -> None:
    ran = install("--client", "vscode", "--write", "--yes")
    assert ran.code == 0
    path = home / ".config/Code/User/mcp.json"
    assert json.loads(path.read_text())["servers"]["my-shop"]["type"] == "stdio"
    assert [each.name for each in path.parent.iterdir()] == ["mcp.json"]


def test_without_a_terminal_and_without_yes_nothing_is_written(install: Cli, home: Path) -> None:
    ran = install("--client", "cursor", "--write")
    assert ran.code == 3
    assert "--yes" in ran.err
    assert "--confirm" not in ran.err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("YES\n", True), ("n\n", False), ("", False)])
def test_someone_at_a_terminal_sees_the_change_and_is_asked(
    install: Cli, home: Path, answer: str, written: bool
) -> None:
    ran = install("--client", "cursor", "--write", stdin=answer, tty=True)
    assert "+" in ran.err
    assert "my-shop" in ran.err
    assert (ran.code == 0) is written
    assert (home / ".cursor/mcp.json").exists() is written


def test_the_rest_of_the_file_its_mode_and_a_copy_are_kept(install: Cli, home: Path) -> None:
    path = home / ".mcp.json"
    before = '{\n\t"mcpServers": {\n\t\t"other": {"command": "x"} // mine\n\t},\n\t"odd" : [1,2],\n}\n'
    path.write_text(before)
    path.chmod(0o640)
    assert install("--client", "claude-code", "--write", "--yes").code == 0
    after = path.read_text()
    head, tail = before.split(" // mine\n")
    assert after.startswith(head + ", // mine\n")
    assert after.endswith(tail)
    assert path.stat().st_mode & 0o777 == 0o640
    assert (home / ".mcp.json.bak").read_text() == before


def test_what_else_is_in_the_file_is_not_shown(install: Cli, home: Path) -> None:
    path = home / ".mcp.json"
    path.write_text('{\n  "mcpServers": {\n    "other": {\n      "env": {"KEY": "hunter2"}\n    }\n  }\n}\n')
    ran = install("--client", "claude-code", "--write", "--yes")
    assert "my-shop" in ran.err
    assert "hunter2" not in ran.err
    assert "hunter2" in path.read_text()


def test_writing_twice_changes_nothing(install: Cli, home: Path) -> None:
    for client in CLIENTS:
        assert install("--client", client, "--write", "--yes").code == 0
    files = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.rglob("*") if path.is_file()}
    for client in CLIENTS:
        ran = install("--client", client, "--write")  # nothing to ask about
        assert ran.code == 0
        assert "Nothing was changed" in ran.err
    assert files == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.rglob("*") if path.is_file()
    }


def test_a_link_to_the_settings_stays_a_link(install: Cli, home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    (home / ".mcp.json").symlink_to(real)
    assert install("--client", "claude-code", "--write", "--yes").code == 0
    assert (home / ".mcp.json").is_symlink()
    assert "my-shop" in real.read_text()


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("claude-code", ".mcp.json", "{ nope"),
        ("claude-code", ".mcp.json", '{"mcpServers": []}'),
        ("claude-code", ".mcp.json", '{"a": 1, "a": 2}'),
        ("claude-code", ".mcp.json", '{"mcpServers": {"my-shop": {"command": "x" /* mine */}}}'),
        ("codex", ".codex/config.toml", "nope"),
        ("codex", ".codex/config.toml", "mcp_servers = {}"),
        ("codex", ".codex/config.toml", '[mcp_servers.my-shop]\ncommand = "x" # mine\n'),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(
    install: Cli, home: Path, client: str, file: str, text: str
) -> None:
    path = home / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    ran = install("--client", client, "--write", "--yes")
    assert ran.code != 0
    assert str(path) in ran.err
    assert path.read_text() == text


def test_a_file_that_is_not_text_is_left_alone(install: Cli, home: Path) -> None:
    (home / ".mcp.json").write_bytes(b"\xff\xfe{}")
    assert install("--client", "claude-code", "--write", "--yes").code != 0
    assert (home / ".mcp.json").read_bytes() == b"\xff\xfe{}"


def test_a_file_that_changes_while_someone_is_asked_is_left_alone(home: Path) -> None:
    from fairlead.failures import Failure
    from fairlead.surfaces.mcp.install import Change

    path = home / ".mcp.json"
    path.write_text("{}")
    change = Change.of(CLIENTS["claude-code"], str(path), "shop", ENTRY)
    path.write_text('{"new": 1}')
    with pytest.raises(Failure) as told:
        change.write()
    assert told.value.code == "CONFLICT"
    assert path.read_text() == '{"new": 1}'


def test_an_entry_keeps_what_it_had_besides(install: Cli, home: Path) -> None:
    (home / ".mcp.json").write_text('{"mcpServers": {"my-shop": {"command": "old", "env": {"KEY": "v"}}}}')
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        '# mine\n[mcp_servers.my-shop]\ncommand = "old"\nargs = [\n  "a",\n]\nenv = { KEY = "v" }\n\n[next]\na = 1\n'
    )
    for client in ("claude-code", "codex"):
        assert install("--client", client, "--write", "--yes").code == 0
    entry = json.loads((home / ".mcp.json").read_text())["mcpServers"]["my-shop"]
    assert (entry["command"], entry["env"]) == (sys.executable, {"KEY": "v"})
    text = (home / ".codex/config.toml").read_text()
    entry = tomllib.loads(text)["mcp_servers"]["my-shop"]
    assert (entry["command"], entry["env"]) == (sys.executable, {"KEY": "v"})
    assert text.startswith("# mine\n")
    assert text.endswith("\n[next]\na = 1\n")


# Whatever is in the file.

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=8).filter(lambda key: key != "servers"), values, max_size=4)
servers = st.dictionaries(
    st.sampled_from(["me", "other", "é"]),
    st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_size=3,
)


@given(objects, servers, st.sampled_from([None, 2, 4, "\t"]), st.booleans(), st.booleans())
def test_any_json_settings_keep_all_they_had(
    rest: dict[str, Any], known: dict[str, Any], indent: Any, there: bool, windows: bool
) -> None:
    data = {**rest, **({"servers": known} if there else {})}
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    text = text.replace("\n", "\r\n") if windows else text
    after = put_json(text, "servers", "me", ENTRY)
    before = known.get("me", {}) if there else {}
    assert json.loads(after) == {
        **data,
        "servers": {**data.get("servers", {}), "me": {**before, **ENTRY}},
    }
    assert put_json(after, "servers", "me", ENTRY) == after


@given(st.text(alphabet='{}[]",:/*\\ \n1aé', max_size=30))
def test_any_text_is_edited_rightly_or_not_at_all(text: str) -> None:
    try:
        after = put_json(text, "servers", "me", ENTRY)
    except Uneditable:
        return
    assert put_json(after, "servers", "me", ENTRY) == after


@given(st.text(alphabet="[]=\".#'\n amecp_srv1", max_size=40))
def test_any_toml_is_edited_rightly_or_not_at_all(text: str) -> None:
    try:
        after = put_toml(text, "mcp_servers", "me", ENTRY)
    except Uneditable:
        return
    assert tomllib.loads(after)["mcp_servers"]["me"] == ENTRY
    assert after.startswith(text.rstrip())
