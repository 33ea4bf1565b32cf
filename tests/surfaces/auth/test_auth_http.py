"""Keys and tokens at the HTTP surface: who is let in, and how the others are told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from fairlead import App, Context
from fairlead.failures import Redactor
from fairlead.surfaces.auth import ApiKeys, Jwt
from fairlead.surfaces.auth.keyfile import KeyFile

SECRET = "a secret of more than thirty-two bytes"


def board() -> App:
    app = App("board")

    @app.action(permissions=["tasks:write"])
    def add_task(ctx: Context) -> Any:
        """Say who is calling."""
        return ctx.user

    @app.action
    def look(ctx: Context) -> Any:
        """Say who is calling."""
        return ctx.user

    return app


async def call(
    resolvers: Sequence[Any], action: str, *headers: tuple[str, str], **body: Any
) -> httpx.Response:
    transport = httpx.ASGITransport(board().http(resolve_context=resolvers))
    async with httpx.AsyncClient(transport=transport, base_url="http://here.example") as client:
        return await client.post(f"/fairlead/actions/{action}/invoke", json=body, headers=list(headers))


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


async def test_a_key_or_a_token_with_the_permission_is_let_in(file: KeyFile) -> None:
    key, _ = file.issue("ci", now=0, permissions=("tasks:*",))
    token = jwt.encode({"sub": "ann", "exp": 4e9, "scope": "tasks:write"}, SECRET)
    resolvers = [ApiKeys(file.path), Jwt(key=SECRET)]
    for header, user in (
        (("X-API-Key", key), "ci"),
        (("Authorization", f"Bearer {key}"), "ci"),
        (("Authorization", f"Bearer {token}"), "ann"),
    ):
        answer = await call(resolvers, "add_task", header)
        assert answer.status_code == 200
        assert answer.json()["data"] == {"id": user}


async def test_a_key_that_is_revoked_is_refused_by_a_running_server(file: KeyFile) -> None:
    key, _ = file.issue("ci", now=0)
    resolvers = [ApiKeys(file.path)]
    assert (await call(resolvers, "look", ("X-API-Key", key))).status_code == 200
    file.revoke("ci", 0)
    answer = await call(resolvers, "look", ("X-API-Key", key))
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "AUTHENTICATION_ERROR"
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert key not in answer.text + str(answer.headers)


async def test_who_lacks_credentials_or_permissions_is_told_what_is_missing(file: KeyFile) -> None:
    key, _ = file.issue("ci", now=0)
    nobody = await call([ApiKeys(file.path)], "add_task")
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"] == 'Bearer scope="tasks:write"'
    somebody = await call([ApiKeys(file.path)], "add_task", ("X-API-Key", key))
    assert somebody.status_code == 403
    assert somebody.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="tasks:write"'


async def test_bad_credentials_are_refused_even_where_none_are_needed(file: KeyFile) -> None:
    file.issue("ci", now=0)
    resolvers = [ApiKeys(file.path), Jwt(key=SECRET)]
    assert (await call(resolvers, "look")).status_code == 200
    for header in (
        "Bearer x",
        "Bearer",
        "Bearer a b",
        "Bearer eyJ9.e30.x",
        f"Bearer flk_{'a' * 12}_{'b' * 43}",
    ):
        assert (await call(resolvers, "look", ("Authorization", header))).status_code == 401
    doubled = (("Authorization", "Bearer x"), ("Authorization", "Bearer y"))
    assert (await call(resolvers, "look", *doubled)).status_code == 401


async def test_an_identity_in_the_body_is_nobodys(file: KeyFile) -> None:
    file.issue("ci", now=0)
    claimed: dict[str, Any] = {"user": {"id": "root"}, "auth": {"permissions": ["*"]}}
    answer = await call([ApiKeys(file.path)], "add_task", **claimed)
    assert answer.status_code == 401
    assert (await call([ApiKeys(file.path)], "look", **claimed)).json()["data"] is None


def test_a_key_in_a_text_is_hidden(file: KeyFile) -> None:
    key, _ = file.issue("ci", now=0)
    assert key.rpartition("_")[2] not in Redactor().text(f"could not use {key} there")
