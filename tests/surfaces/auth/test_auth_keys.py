"""API keys: who is let in, who is not, and that nothing kept or said gives a key away."""

import asyncio
import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.surfaces.auth import ANONYMOUS, ApiKeys, Caller
from fairlead.surfaces.auth.keyfile import SHAPE, KeyFile
from fairlead.surfaces.auth.resolve import resolve
from fairlead.surfaces.http.asgi import Request

NOW = 1_900_000_000.0
BROUGHT = "a-key-brought-by-the-developer"


def request(*headers: tuple[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw})


def bearer(token: str) -> Request:
    return request(("Authorization", f"Bearer {token}"))


def who(resolvers: Any, asked: Request) -> Caller:
    return asyncio.run(resolve(resolvers, asked))


def code_of(resolvers: Any, asked: Request) -> str:
    with pytest.raises(Failure) as caught:
        who(resolvers, asked)
    return caught.value.code


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def issued(
    path: Path, name: str = "ci", permissions: Sequence[str] = (), expires: float | None = None
) -> str:
    token, _ = KeyFile(path).issue(name, now=NOW, permissions=tuple(permissions), expires=expires)
    return token


def test_a_key_names_its_user_and_permissions(path: Path) -> None:
    token = issued(path, "ci", ["tasks:read", "tasks:write"])
    keys = ApiKeys(path, now=lambda: NOW)
    for asked in (
        bearer(token),
        request(("X-API-Key", token)),
        request(("authorization", f"bEARER   {token}")),
    ):
        caller = who(keys, asked)
        assert caller.user == {"id": "ci"}
        assert caller.auth["permissions"] == ["tasks:read", "tasks:write"]
        assert token not in repr(caller)


def test_a_caller_cannot_change_what_the_next_one_may_do(path: Path) -> None:
    token = issued(path)
    keys = ApiKeys(path, now=lambda: NOW)
    first = who(keys, bearer(token))
    first.auth["permissions"].append("*")
    first.user["id"] = "root"
    assert who(keys, bearer(token)) == Caller(
        {"id": "ci"}, {"type": "api_key", "id": token[4:16], "name": "ci", "permissions": []}
    )


def test_a_call_without_credentials_is_anonymous_unless_they_are_required(path: Path) -> None:
    issued(path)
    assert who(ApiKeys(path), request()) is ANONYMOUS
    assert who(ApiKeys(path), request(("Authorization", "Basic dTpw"))) is ANONYMOUS
    assert code_of(ApiKeys(path, required=True), request()) == "AUTHENTICATION_ERROR"


def test_the_file_holds_no_secret_and_is_its_owners_only(path: Path) -> None:
    token = issued(path)
    assert token.rpartition("_")[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_keys_are_random_and_of_one_shape(path: Path) -> None:
    tokens = {issued(path, f"n{number}") for number in range(50)}
    assert len(tokens) == 50
    assert all(SHAPE.fullmatch(token) for token in tokens)
    assert len({token[4:16] for token in tokens}) == 50


def test_an_expired_or_revoked_key_is_refused(path: Path) -> None:
    lasting, ending = issued(path, "lasting"), issued(path, "ending", expires=NOW + 60)
    now = [NOW]
    keys = ApiKeys(path, now=lambda: now[0])
    assert (who(keys, bearer(ending))).user == {"id": "ending"}
    now[0] = NOW + 60
    assert code_of(keys, bearer(ending)) == "AUTHENTICATION_ERROR"
    assert (who(keys, bearer(lasting))).user == {"id": "lasting"}
    KeyFile(path).revoke("lasting", NOW)
    assert code_of(keys, bearer(lasting)) == "AUTHENTICATION_ERROR"


def test_a_changed_file_counts_from_the_next_call_on(path: Path) -> None:
    issued(path)
    keys = ApiKeys(path)
    later = issued(path, "later")
    assert (who(keys, bearer(later))).user == {"id": "later"}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"keys": []}', '{"keys": {"a": {}}}', '{"keys": {}, "x": 1}']
)
def test_a_file_that_breaks_lets_nobody_in_and_is_not_taken_for_empty(path: Path, content: str) -> None:
    token = issued(path)
    keys = ApiKeys(path)
    path.write_text(content)
    with pytest.raises(Failure) as caught:
        who(keys, bearer(token))
    assert caught.value.kind is Kind.misconfigured
    assert str(path) not in caught.value.message
    path.unlink()
    with pytest.raises(Failure) as caught:
        who(keys, bearer(token))
    assert caught.value.kind is Kind.misconfigured


def test_a_server_does_not_start_with_a_file_that_is_missing_or_broken(path: Path) -> None:
    with pytest.raises(DefinitionError):
        ApiKeys(path)
    path.write_text("{}")
    with pytest.raises(DefinitionError):
        ApiKeys(path)


@pytest.mark.parametrize(
    "record",
    [
        {"expire": "2030-01-01T00:00:00Z"},
        {"expires": "2030-01-01"},
        {"expires": 1900000000},
        {"revoked": True},
        {"permissions": "tasks:read"},
        {"permissions": [1]},
        {"name": ""},
        {"user": None},
        {"hash": "sha256:1"},
        {"hash": None},
    ],
)
def test_a_record_that_makes_no_sense_is_refused_not_guessed(path: Path, record: dict[str, Any]) -> None:
    issued(path)
    content = json.loads(path.read_text())
    for kept in content["keys"].values():
        kept.update(record)
    path.write_text(json.dumps(content))
    with pytest.raises(DefinitionError):
        ApiKeys(path)


def test_a_key_that_was_tampered_with_is_refused(path: Path) -> None:
    token, other = issued(path, "a", ["*"]), issued(path, "b")
    keys = ApiKeys(path, now=lambda: NOW)
    id, secret = token[4:16], token[17:]
    wrong = [
        f"flk_{id}_{secret[:-1]}{'0' if secret[-1] != '0' else '1'}",
        f"flk_{id}_{other[17:]}",
        f"flk_{'0' * 12}_{secret}",
        f"flk_{id}_{secret}x",
        f"flk_{id}_{secret[:-1]}",
        f"flk_{id}_",
        token.swapcase(),
        f"flk_{id}_{json.loads(path.read_text())['keys'][id]['hash'][7:50]}",
        json.loads(path.read_text())["keys"][id]["hash"],
    ]
    for each in wrong:
        assert code_of(keys, request(("X-API-Key", each))) == "AUTHENTICATION_ERROR"


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Bearer {}"), ("Authorization", "Bearer {}")],
        [("Authorization", "Bearer {}"), ("X-API-Key", "{}")],
        [("X-API-Key", "{}"), ("X-API-Key", "{}")],
        [("Authorization", "Basic eDp5"), ("Authorization", "Bearer {}")],
        [("Authorization", "Bearer {}, Bearer {}")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Bearer {} x")],
        [("Authorization", "Bearer,{}")],
        [("Authorization", "Bearer\t{}")],
        [("Authorization", " Bearer {}")],
        [("Authorization", "")],
        [("Authorization", "Bearer {}\u00e9")],
        [("X-API-Key", "")],
        [("X-API-Key", " {}")],
        [("X-API-Key", "{}\x00")],
        [("Authorization", "Bearer " + "a" * 100_000)],
        [("X-API-Key", "flk_" + "a" * 100_000)],
    ],
)
def test_several_or_unreadable_credentials_are_refused_though_one_is_good(
    path: Path, headers: list[tuple[str, str]]
) -> None:
    token = issued(path)
    keys = ApiKeys(path, now=lambda: NOW)
    asked = request(*((name, value.replace("{}", token)) for name, value in headers))
    assert code_of(keys, asked) == "AUTHENTICATION_ERROR"


def test_keys_that_a_developer_brings_are_kept_as_hashes() -> None:
    keys = ApiKeys({BROUGHT: {"name": "dev", "user": "u1", "permissions": ["*"]}})
    caller = who(keys, bearer(BROUGHT))
    assert caller.user == {"id": "u1"}
    assert caller.auth["permissions"] == ["*"]
    assert BROUGHT not in repr(vars(keys))
    assert code_of(keys, bearer(BROUGHT + "x")) == "AUTHENTICATION_ERROR"


@pytest.mark.parametrize(
    "source",
    [
        {"short": {"name": "x"}},
        {"": {"name": "x"}},
        {BROUGHT: {}},
        {BROUGHT: {"nmae": "x"}},
        {BROUGHT + " ": {"name": "x"}},
    ],
)
def test_a_brought_key_that_can_be_guessed_or_is_described_wrongly_is_refused_unseen(source: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        ApiKeys(source)
    assert BROUGHT not in str(caught.value)


def test_what_is_not_an_api_key_is_left_to_the_next_resolver(path: Path) -> None:
    issued(path)

    def session(asked: Request) -> dict[str, Any] | None:
        return {"user": "s"} if asked.headers.get("authorization") == "Bearer session-1" else None

    for resolvers in ([ApiKeys(path), session], [session, ApiKeys(path)]):
        assert who(resolvers, bearer("session-1")) == Caller("s")
        assert code_of(resolvers, bearer("session-2")) == "AUTHENTICATION_ERROR"


@given(st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=80))
def test_no_header_gets_in_and_none_is_echoed(value: str) -> None:
    keys = ApiKeys({BROUGHT: {"name": "dev"}})
    for header in ("Authorization", "X-API-Key"):
        outcome: Any
        try:
            outcome = who(keys, request((header, value)))
        except Failure as failure:
            outcome = failure
        assert outcome is ANONYMOUS or outcome.code == "AUTHENTICATION_ERROR"
        assert outcome is ANONYMOUS or len(value) < 20 or value not in outcome.message


def test_writers_at_the_same_time_lose_no_key(path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda number: issued(path, f"n{number}"), range(24)))
    assert {token[4:16] for token in tokens} == set(KeyFile(path).keys())
    assert [each for each in os.listdir(path.parent) if each != path.name] == []


def test_a_name_that_two_keys_have_revokes_neither(path: Path) -> None:
    first, _ = issued(path, "ci"), issued(path, "ci")
    with pytest.raises(Failure) as caught:
        KeyFile(path).revoke("ci", NOW)
    assert caught.value.kind is Kind.conflict
    KeyFile(path).revoke(first, NOW)  # the key itself, as one finds it where it leaked
    assert [key.status(NOW) for key in KeyFile(path).keys().values()] == ["revoked", "active"]
    assert not re.search(first, path.read_text())
