"""`fairlead keys`: a key is printed once, and what is kept or listed afterwards gives none away."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.surfaces.auth import ApiKeys
from fairlead.surfaces.auth.keyfile import SHAPE, KeyFile
from fairlead.surfaces.auth.resolve import resolve
from fairlead.surfaces.http.asgi import Request


@pytest.fixture
def keys(cli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """`fairlead keys ...` on a file of its own."""

    def call(*argv: str, **options: Any) -> Any:
        return cli(None, "keys", *argv, env={"FAIRLEAD_KEYS": str(tmp_path / "keys.json")}, **options)

    return call


def user_of(path: Path, token: str) -> Any:
    asked = Request({"headers": [(b"x-api-key", token.encode())]})
    return asyncio.run(resolve(ApiKeys(path), asked))


def test_a_new_key_is_alone_on_stdout_and_works(keys: Callable[..., Any], tmp_path: Path) -> None:
    ran = keys("new", "ci", "--permissions", "tasks:read, tasks:write", "--user", "u1", "--expires", "90d")
    token = ran.out.strip()
    assert ran.code == 0
    assert SHAPE.fullmatch(token)
    assert token not in ran.err
    caller = user_of(tmp_path / "keys.json", token)
    assert caller.user == {"id": "u1"}
    assert caller.auth["permissions"] == ["tasks:read", "tasks:write"]


def test_the_key_never_appears_again(keys: Callable[..., Any], tmp_path: Path) -> None:
    made = keys("new", "ci", "--json").json
    secret = made["key"].rpartition("_")[2]
    later = [keys("list"), keys("list", "--json"), keys("list", tty=True), keys("revoke", made["id"])]
    later += [keys("revoke", made["key"], "--json"), keys("revoke", made["key"][:-1]), keys("new", "other")]
    assert not any(secret[:-1] in ran.out + ran.err for ran in later)
    assert secret not in (tmp_path / "keys.json").read_text()


def test_listed_keys_tell_what_they_are_for(keys: Callable[..., Any], tmp_path: Path) -> None:
    keys("new", "a", "--permissions", "x")
    keys("new", "b", "--expires", "2999-01-01")
    keys("new", "c")
    assert keys("revoke", "c").code == 0
    KeyFile(tmp_path / "keys.json").issue("d", now=time.time() - 60, expires=time.time() - 30)
    listed = keys("list").json
    assert [(key["name"], key["status"]) for key in listed] == [
        ("a", "active"),
        ("b", "active"),
        ("c", "revoked"),
        ("d", "expired"),
    ]
    assert listed[0]["permissions"] == ["x"]
    assert listed[1]["expires"] == "2999-01-01T00:00:00Z"
    assert all("hash" not in key for key in listed)
    assert "revoked" in keys("list", tty=True).out


def test_a_file_that_does_not_exist_yet_holds_no_keys(keys: Callable[..., Any]) -> None:
    assert keys("list").json == []


def test_the_file_may_be_named(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "folder" / "k.json"
    assert cli(None, "keys", "new", "ci", "--file", str(path)).code == 0
    assert len(json.loads(path.read_text())["keys"]) == 1


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (["mke"], "argument 1"),
        (["new"], "argument 2"),
        (["new", " "], "argument 2"),
        (["new", "a", "b"], "argument 2"),
        (["revoke"], "argument 2"),
        (["list", "--permissions", "x"], "--permissions"),
        (["new", "a", "--permission", "x"], "--permission"),
        (["new", "a", "--expires", "1999-01-01"], "--expires"),
        (["new", "a", "--expires", "0d"], "--expires"),
        (["new", "a", "--expires", "90 days"], "--expires"),
        (["new", "a", "--expires", "999999999y"], "--expires"),
    ],
)
def test_a_wrong_command_line_makes_nothing(
    keys: Callable[..., Any], tmp_path: Path, argv: list[str], option: str
) -> None:
    ran = keys(*argv)
    assert ran.code == 2
    assert option in ran.err
    assert not (tmp_path / "keys.json").exists()


def test_revoking_twice_is_no_error_and_a_stranger_is_not_found(keys: Callable[..., Any]) -> None:
    made = keys("new", "ci", "--json").json
    first, second = keys("revoke", "ci", "--json").json, keys("revoke", made["id"], "--json").json
    assert first["revoked"] == second["revoked"] is not None
    assert keys("revoke", "ic").code == 4


def test_a_broken_file_is_told_and_left_alone(keys: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": {"a": 1}}')
    assert keys("new", "ci").code == 1
    assert (tmp_path / "keys.json").read_text() == '{"keys": {"a": 1}}'


def test_the_page_shows_commands_that_work(keys: Callable[..., Any]) -> None:
    page = keys("--help").out
    examples = [line.split()[1:] for line in page.partition("Examples:")[2].splitlines() if line.strip()]
    assert len(examples) == 3
    assert all(keys(*words[1:]).code == 0 for words in examples)
    assert keys().out == page
