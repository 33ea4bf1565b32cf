"""Tokens at the gateway: whose agents their bearers reach, and what is said when nobody can tell who calls."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import jwt
import pytest
from beeos_sdk.exceptions import ApiException
from cryptography.hazmat.primitives.asymmetric import rsa

from fairlead import App, Failure, Kind
from fairlead.failures import gateway as wire
from fairlead.surfaces.auth import Jwt
from gateway.site_under_test import OWNER, Site, error, serving


@cache
def signing(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def published(folder: Path, number: int) -> Path:
    """A file of public keys, as an issuer publishes them."""
    key = {
        **jwt.algorithms.RSAAlgorithm.to_jwk(signing(number).public_key(), as_dict=True),
        "kid": str(number),
    }
    made = folder / "jwks.json.new"
    made.write_text(json.dumps({"keys": [key]}))
    return made.replace(folder / "jwks.json")


def token(subject: str, number: int = 0, **claims: Any) -> str:
    told = {"sub": subject, "exp": int(time.time()) + 600, **claims}
    return jwt.encode(told, signing(number), "RS256", {"kid": str(number)})


def refusal(site: Site, key: str) -> tuple[int, str]:
    with pytest.raises(ApiException) as refused:
        site.agents(key).list_agents()
    # Of a status that the contract does not name for a call, the SDK keeps the text alone.
    return refused.value.status, json.loads(refused.value.body or "")["error"]["code"]


def test_a_token_reaches_what_its_subject_owns_and_nothing_else(app: App, tmp_path: Path) -> None:
    known = Jwt(jwks=published(tmp_path, 0))
    with serving(app.http(resolve_context=known, gateway={"owner": "ann"})) as url:
        site = Site(url, tmp_path)
        said = site.agents(token("ann")).invoke_agent("echo", sdk.InvokeAgentRequest(message="hi"))
        assert said.data.text == "You said: hi"
        with pytest.raises(ApiException) as refused:
            site.agents(token("bob")).invoke_agent("echo", sdk.InvokeAgentRequest(message="hi"))
        assert error(refused).code == "agent_not_found"
        assert site.agents(token("bob")).list_agents().total == 0


def test_with_a_prefix_no_token_owns_what_is_a_key_s(app: App, tmp_path: Path) -> None:
    known = Jwt(jwks=published(tmp_path, 0))
    with serving(app.http(resolve_context=known, gateway={"token_prefix": "token:"})) as url:
        site = Site(url, tmp_path)
        hello = sdk.InvokeAgentRequest(message="hi")
        with pytest.raises(ApiException) as refused:
            site.agents(token("local")).invoke_agent("echo", hello)
        assert error(refused).code == "agent_not_found"
        site.agents().update_agent("echo", sdk.UpdateAgentRequest(visibility="public"))
        assert site.agents(token("local")).invoke_agent("echo", hello).data.text == "You said: hi"
        with site.raw(token("local")) as theirs, site.raw() as ours:
            assert len(theirs.get("/tasks?state=all").json()["data"]["tasks"]) == 1
            assert ours.get("/tasks?state=all").json()["data"]["tasks"] == []


def test_tokens_that_are_old_forged_or_of_a_key_that_was_taken_back_open_nothing(
    app: App, tmp_path: Path
) -> None:
    known = Jwt(jwks=published(tmp_path, 0))
    with serving(app.http(resolve_context=known)) as url:
        site = Site(url, tmp_path)
        good = token("local")
        head, body, signature = good.split(".")
        unsigned = jwt.encode({"sub": "local"}, "", "none")
        wrong = [
            token("local", exp=1),
            token("local", 1),
            f"{head}.{body}.{signature[::-1]}",
            unsigned,
            "a.b.c",
        ]
        assert {refusal(site, each) for each in wrong} == {(401, "invalid_token")}
        assert site.agents(good).list_agents().total > 0
        published(tmp_path, 1)
        assert refusal(site, good) == (401, "invalid_token")
        assert site.agents(token("local", 1)).list_agents().total > 0


def failing(failure: Failure | Exception) -> Callable[[Any], None]:
    def resolver(request: Any) -> None:
        raise failure

    return resolver


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Failure(Kind.unavailable, "db-7 is down"), (503, "auth_unavailable")),
        (Failure(Kind.timeout, "db-7 is slow"), (503, "auth_transient")),
        (RuntimeError("a bug at db-7"), (503, "auth_unavailable")),
        (Failure(Kind.unauthenticated, "Nobody."), (401, "invalid_token")),
        (Failure(Kind.forbidden, "Not from there."), (403, "forbidden")),
        (wire.LoginRejected(), (422, "login_rejected")),
        (wire.RefreshTransient(), (503, "refresh_transient")),
        (wire.SessionUnavailable(), (503, "session_unavailable")),
    ],
    ids=lambda each: each[1] if isinstance(each, tuple) else type(each).__name__,
)
def test_a_way_to_know_callers_that_is_away_logs_nobody_out(
    app: App, tmp_path: Path, failure: Exception, told: tuple[int, str]
) -> None:
    with serving(app.http(resolve_context=failing(failure))) as url:
        site = Site(url, tmp_path)
        assert refusal(site, "some-token") == told
        with site.raw("some-token") as client:
            answer = client.get("/agents")
        assert "db-7" not in answer.text
        assert ("retry-after" in answer.headers) == told[1].startswith("auth_")


def test_a_store_that_is_away_says_nothing_against_a_key(app: App, tmp_path: Path) -> None:
    with serving(app.http()) as url:
        app.store.close()
        assert refusal(Site(url, tmp_path), OWNER) == (503, "auth_unavailable")
