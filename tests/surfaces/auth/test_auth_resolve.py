"""Resolvers: asked in order, and whatever they do wrong ends as a failure that says nothing of the inside."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from starlette.testclient import TestClient

from fairlead import App
from fairlead.failures import Failure, Kind
from fairlead.surfaces.auth import ANONYMOUS, Caller
from fairlead.surfaces.auth.challenge import challenge
from fairlead.surfaces.auth.credentials import InvalidCredentials, UnclearCredentials
from fairlead.surfaces.auth.resolve import resolve
from fairlead.surfaces.http.asgi import Request

REQUEST = Request({"type": "http", "method": "GET", "path": "/", "headers": [(b"x-user", b"u1")]})


async def test_the_first_resolver_that_knows_the_caller_wins() -> None:
    asked: list[str] = []

    def unsure(request: Request) -> None:
        asked.append("unsure")

    async def sure(request: Request) -> Mapping[str, Any]:
        asked.append("sure")
        return {"user": {"id": request.headers["x-user"]}, "auth": {"permissions": ["a"]}, "other": 1}

    def never(request: Request) -> Caller:
        raise AssertionError

    caller = await resolve([unsure, sure, never], REQUEST)
    assert caller == Caller({"id": "u1"}, {"permissions": ["a"]})
    assert asked == ["unsure", "sure"]


@pytest.mark.parametrize(
    "answer", [None, {}, "root", 1, True, ["user"], ("root", {"permissions": ["*"]}, {}), object()]
)
async def test_an_answer_that_names_nobody_is_no_answer(answer: Any) -> None:
    assert await resolve(lambda request: answer, REQUEST) is ANONYMOUS


async def test_metadata_that_is_no_object_is_left_out() -> None:
    assert await resolve(lambda request: {"user": "u", "metadata": "x"}, REQUEST) == Caller("u")
    assert await resolve(lambda request: Caller("u", None, None), REQUEST) == Caller("u")  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["actions", "mcp", "gateway"])
def test_what_a_broken_resolver_says_is_logged_as_the_app_would_show_it(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: Request) -> None:
        raise RuntimeError("no such account, iban=DE123456")

    app = App("bank", redact={"keys": ["iban"]})
    app.add({"add": lambda: 1})

    @app.agent
    async def teller(question: str) -> str:
        """Answer."""
        return question

    site = app.http(resolve_context=broken, mcp=True, gateway=True)
    at = {"actions": "/fairlead/actions/add/invoke", "mcp": "/mcp", "gateway": "/api/v1/agents"}[way]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with TestClient(site, base_url="http://127.0.0.1") as client:
        headers = {"accept": "application/json, text/event-stream", "authorization": "Bearer x"}
        answer = client.request("GET" if way == "gateway" else "POST", at, json=ping, headers=headers)
    assert answer.status_code >= 400
    assert "iban=[REDACTED]" in caplog.text
    assert "DE123456" not in caplog.text


def test_what_a_service_says_that_cannot_start_is_logged_as_the_app_would_show_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("bank", redact={"keys": ["iban"]})

    @app.service
    def ledger() -> Iterator[None]:
        raise RuntimeError("no such account, iban=DE123456")
        yield

    with pytest.raises(Failure) as failed, TestClient(app.http()):
        pass
    assert "iban=[REDACTED]" in caplog.text
    assert "iban=DE123456" not in repr(failed.value)
    assert "iban=DE123456" not in caplog.text


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (RuntimeError("password=hunter2 at db.internal"), Kind.internal),
        (KeyError("hunter2"), Kind.internal),
        (TimeoutError("db.internal hunter2"), Kind.timeout),
    ],
)
async def test_a_broken_resolver_tells_nothing_of_the_inside(raised: Exception, kind: Kind) -> None:
    def broken(request: Request) -> None:
        raise raised

    async def broken_later(request: Request) -> None:
        raise raised

    for resolver in (broken, broken_later):
        with pytest.raises(Failure) as caught:
            await resolve(resolver, REQUEST)
        assert caught.value.kind is kind
        assert "hunter2" not in caught.value.message
        assert "internal" not in caught.value.message
        assert caught.value.__cause__ is raised


async def test_a_resolvers_own_refusal_stays_as_it_is() -> None:
    refusal = Failure(Kind.rate_limited, "Slow down.", retry_after=3)

    def refusing(request: Request) -> None:
        raise refusal

    with pytest.raises(Failure) as caught:
        await resolve([refusing], REQUEST)
    assert caught.value is refusal


async def test_cancelling_a_resolver_is_no_failure_of_it() -> None:
    started = asyncio.Event()

    async def waits(request: Request) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(resolve(waits, REQUEST))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_challenge_says_how_to_come_back() -> None:
    url = "https://h.example/.well-known/oauth-protected-resource"
    anonymous = Failure(Kind.unauthenticated, details={"permissions": ["tasks:read", "a b", 'c"d']})
    assert challenge(Failure(Kind.unauthenticated)) == "Bearer"
    assert challenge(anonymous) == 'Bearer scope="tasks:read"'
    assert challenge(anonymous, url) == f'Bearer scope="tasks:read", resource_metadata="{url}"'
    assert (
        challenge(InvalidCredentials('The "token" has\r\nexpired.'))
        == 'Bearer error="invalid_token", error_description="The ?token? has??expired."'
    )
    assert challenge(UnclearCredentials()).startswith('Bearer error="invalid_request"')
    assert challenge(Failure(Kind.forbidden)) == 'Bearer error="insufficient_scope"'
    assert challenge(Failure(Kind.refused_by_user)) == ""
    assert challenge(Failure(Kind.internal)) == ""
