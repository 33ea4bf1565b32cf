"""What plugins answer under `/plugins/<id>/`: which route it is, whether the request passes, and what is sent back."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.models import ScriptModel
from fairlead.failures import Failure, Kind
from fairlead.plugins import routes
from fairlead.plugins.identity import DEFAULT_AGENT, agent_uuid
from fairlead.plugins.manifest import Route
from fairlead.plugins.routes import Bucket, match, query_of
from fairlead.surfaces.auth import ApiKeys, Jwt
from fairlead.surfaces.auth.keyfile import KeyFile
from plugins.bridge_kit import ID, Bridge, bridge_manifest, bridged, fetch, macro
from plugins.conftest import Compiled
from warm import Warm

UNKNOWN = "99999999-9999-4999-8999-999999999999"


def route(id: str, path: str, auth: str = "none", *methods: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "path": path, "methods": list(methods or ("GET", "POST")), "auth": auth, **more}


ROUTES = [
    route("echo", "/echo"),
    route("item", "/items/:id"),
    route("files", "/files/*"),
    route("raw", "/raw"),
    route("null", "/null"),
    route("sleep", "/sleep"),
    route("hook", "/hook", "verify", "POST", tunnel_exposed=True),
    route("admin", "/admin", "owner"),
]


@pytest.fixture
def library(compiled: Compiled) -> Path:
    return compiled("bridge", macro("MANIFEST", bridge_manifest(routes=ROUTES)))


@asynccontextmanager
async def site(library: Path, folder: Path, **options: Any) -> AsyncIterator[tuple[Any, Bridge]]:
    async with bridged(library, folder, ScriptModel([])) as bridge:
        yield bridge.app.http(**options), bridge


def at(path: str) -> str:
    return f"/plugins/{ID}{path}"


# Matching.


def made(*specs: tuple[str, str, str]) -> list[Route]:
    return [Route(id, path, tuple(methods.split()), "none") for id, path, methods in specs]


VALUES = (
    st.none()
    | st.integers(0, 1200)
    | st.text(max_size=8)
    | st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers(), max_size=3)
)
TABLE = made(
    ("any", "/items/*", "GET"),
    ("one", "/items/:id", "GET"),
    ("new", "/items/new", "get"),
    ("other", "/items/:name", "GET POST"),
    ("deep", "/a/:x/b/:y", "GET"),
    ("bare", "plain", "GET"),
    ("all", "/*", "PATCH"),
)


@pytest.mark.parametrize(
    ("method", "path", "found", "params"),
    [
        ("GET", "/items/new", "new", {}),
        ("get", "/items/new", "new", {}),
        ("GET", "/items/7", "one", {"id": "7"}),
        ("POST", "/items/7", "other", {"name": "7"}),
        ("GET", "/items/a%20b%2Fc", "one", {"id": "a b/c"}),
        ("GET", "/items/7/parts", "any", {}),
        ("GET", "/items", "any", {}),
        ("GET", "/items/", "any", {}),
        ("GET", "/items/7?x=/items/new", "one", {"id": "7"}),
        ("GET", "/a/1/b/2", "deep", {"x": "1", "y": "2"}),
        ("GET", "/a/1/b", None, {}),
        ("GET", "/a//b/2", None, {}),
        ("GET", "/plain", "bare", {}),
        ("GET", "plain", "bare", {}),
        ("GET", "/PLAIN", None, {}),
        ("DELETE", "/items/7", None, {}),
        ("HEAD", "/items/new", "new", {}),
        ("PATCH", "/anything/at/all", "all", {}),
        ("PATCH", "/", "all", {}),
        ("GET", "/itemsx", None, {}),
    ],
)
def test_a_request_finds_its_route(method: str, path: str, found: str | None, params: dict[str, str]) -> None:
    matched = match(TABLE, method, path)
    assert (None if matched is None else matched.route.id) == found
    assert (matched.params if matched else {}) == params


def test_a_slash_at_the_end_is_no_parameter() -> None:
    assert match(made(("one", "/items/:id", "GET")), "GET", "/items/") is None


def test_of_routes_alike_the_first_is_taken() -> None:
    table = made(
        ("first", "/x/:a", "GET"), ("second", "/x/:b", "GET"), ("w1", "/w/*", "GET"), ("w2", "/w/*", "GET")
    )
    for path, id in (("/x/1", "first"), ("/w/1", "w1")):
        matched = match(table, "GET", path)
        assert matched is not None
        assert matched.route.id == id


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=1&a=2", {"a": "2"}),
        ("a=1+2", {"a": "1+2"}),
        ("a=%20%2B", {"a": " +"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("%C3%A9=%C3%A8&&", {"é": "è"}),
    ],
)
def test_a_query_is_read_by_name(text: str, found: dict[str, str]) -> None:
    assert query_of(text) == found


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_is_asked_for_is_an_address_or_refused(path: str, query: str) -> None:
    status = 0
    try:
        id, inner = routes.addressed(f"/plugins/{path}")
        match(TABLE, "GET", inner)
    except routes.Refused as refused:
        status = refused.status
    assert status in (400, 404) or (inner.startswith("/") and ".." not in id + inner)
    assert all(isinstance(value, str) for value in query_of(query).values())


ANSWERS = st.dictionaries(st.sampled_from(["status", "headers", "body", "body_encoding"]), VALUES).map(
    json.dumps
)


@given(st.text(max_size=60) | ANSWERS)
def test_whatever_a_plugin_says_is_an_answer_or_refused(said: str) -> None:
    try:
        answer = routes.read_response(said)
    except routes.Refused as refused:
        answer = routes.Answer(refused.status)
    assert 200 <= answer.status <= 599
    for name, value in answer.headers:
        assert f"{name}: {value}".encode("latin-1")
        assert not {"\r", "\n"} & set(name + value)


# The way of a request, step by step.


async def test_an_address_needs_a_plugin_and_a_path(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        for path, status in (
            (f"/plugins/{ID}", 404),
            ("/plugins/", 404),
            (at("/a/../b"), 400),
            (at("/%2e%2e/b"), 400),
        ):
            told = await fetch(served, "GET", path)
            assert told.status == status, path
            assert told.message
        for id in ("..", "a..b"):
            assert (await fetch(served, "GET", f"/plugins/{id}/x", agent=bridge.agent())).status == 400


@pytest.mark.parametrize("given", [None, "", "ann", "1234", UNKNOWN])
async def test_a_request_says_for_which_agent_it_is(library: Path, tmp_path: Path, given: str | None) -> None:
    async with site(library, tmp_path) as (served, _):
        told = await fetch(served, "GET", at("/echo"), agent=given)
        unknown = await fetch(served, "GET", "/plugins/no.such/echo", agent=given)
    assert told.status == 401
    assert unknown.status == 401, "before anything is said of which plugins there are"


async def test_an_agent_that_nobody_knows_is_told_apart_from_none(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, _):
        told = await fetch(served, "GET", at("/echo"), agent="11111111-1111-1111-1111-111111111111")
    assert told.status == 401
    assert b"No agent has this id." in told.body


async def test_the_agent_comes_by_header_or_query_and_is_bound(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        ann, bob = bridge.agent("ann"), bridge.agent("bob")
        by_header = await fetch(served, "GET", at("/echo"), agent=ann.lower())
        by_query = await fetch(served, "GET", at(f"/echo?osr_agent={bob.lower().replace('-', '%2D')}"))
        both = await fetch(served, "GET", at(f"/echo?osr_agent={bob}"), agent=ann)
        default = await fetch(served, "GET", at("/echo"), agent=DEFAULT_AGENT)
    assert by_header.headers["x-agent"] == ann
    assert by_query.headers["x-agent"] == bob
    assert both.headers["x-agent"] == ann
    assert default.headers["x-agent"] == DEFAULT_AGENT


async def test_a_plugin_or_route_that_is_not_there_is_not_found(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        for method, path in (
            ("GET", "/plugins/no.such/echo"),
            ("GET", at("/nothing")),
            ("DELETE", at("/echo")),
        ):
            told = await fetch(served, method, path, agent=bridge.agent())
            assert told.status == 404
            assert told.message
            assert told.headers["content-type"] == "application/json"


async def test_a_plugin_sees_the_request(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        told = await fetch(
            served,
            "POST",
            at("/items/a%20b?x=1&x=2&flag"),
            body="Grüße".encode(),
            headers={"X-Secret": "s3", "Authorization": "Bearer their-own"},
            repeated=[("X-Twice", "one"), ("X-Twice", "two")],
            agent=bridge.agent(),
        )
        seen = told.json()
    assert told.status == 200
    assert seen["route_id"] == "item"
    assert (seen["method"], seen["path"], seen["plugin_id"]) == ("POST", "/items/a%20b", ID)
    assert seen["query"] == {"x": "2", "flag": ""}
    assert seen["path_params"] == {"id": "a b"}
    assert (seen["headers"]["x-secret"], seen["headers"]["x-twice"]) == ("s3", "two")
    assert seen["headers"]["authorization"] == "Bearer their-own"
    assert (seen["body"], seen["body_encoding"], seen["remote_addr"]) == ("Grüße", "utf8", "")
    assert seen["osaurus"] == {
        "base_url": "http://127.0.0.1:8000",
        "plugin_url": f"http://127.0.0.1:8000/plugins/{ID}",
        "agent_address": bridge.agent(),
    }


async def test_a_body_that_is_no_text_comes_as_base64(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        told = (await fetch(served, "POST", at("/echo"), body=b"\xff\x00", agent=bridge.agent())).json()
    assert (base64.b64decode(told["body"]), told["body_encoding"]) == (b"\xff\x00", "base64")
    assert told["path_params"] == {}


async def test_where_the_app_is_reached_from_outside_is_what_plugins_are_told(
    library: Path, tmp_path: Path
) -> None:
    async with site(library, tmp_path) as (served, bridge):
        bridge.app.plugins.tunnel_url = "https://relay.example/x/"
        told = (await fetch(served, "GET", at("/echo"), agent=bridge.agent())).json()
    assert told["osaurus"]["base_url"] == "https://relay.example/x"
    assert told["osaurus"]["plugin_url"] == f"https://relay.example/x/plugins/{ID}"


# Who may pass.


@pytest.mark.parametrize(
    "outside",
    [
        {"client": ("203.0.113.5", 1)},
        {"client": None},
        {"host": "relay.example"},
        {"headers": {"X-Forwarded-For": "203.0.113.5"}},
        {"headers": {"Forwarded": "for=203.0.113.5"}},
    ],
)
async def test_from_outside_only_what_is_exposed_is_there(
    library: Path, tmp_path: Path, outside: dict[str, Any]
) -> None:
    async with site(library, tmp_path) as (served, bridge):
        hidden = await fetch(served, "GET", at("/echo"), agent=bridge.agent(), **outside)
        owners = await fetch(served, "GET", at("/admin"), agent=bridge.agent(), **outside)
        exposed = await fetch(served, "POST", at("/hook"), agent=bridge.agent(), **outside)
    assert (hidden.status, owners.status, exposed.status) == (404, 404, 200)


async def test_from_this_machine_everything_is_there(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        for host in ("127.0.0.1:8000", "localhost", "[::1]:8000"):
            for client in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
                told = await fetch(
                    served, "GET", at("/echo"), agent=bridge.agent(), host=host, client=(client, 1)
                )
                assert told.status == 200


async def test_an_owners_route_needs_a_key_which_the_plugin_does_not_see(
    library: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    token, _ = KeyFile(keys).issue("ann", now=0.0)
    async with site(library, tmp_path, resolve_context=ApiKeys(keys)) as (served, bridge):
        agent = bridge.agent()
        without = await fetch(served, "GET", at("/admin"), agent=agent)
        wrong = await fetch(
            served, "GET", at("/admin"), agent=agent, headers={"Authorization": "Bearer flk_no"}
        )
        right = await fetch(
            served, "GET", at("/admin"), agent=agent, headers={"Authorization": f"Bearer {token}"}
        )
        open_one = await fetch(
            served, "GET", at("/echo"), agent=agent, headers={"Authorization": f"Bearer {token}"}
        )
    assert (without.status, wrong.status, right.status) == (401, 401, 200)
    assert "authorization" not in right.json()["headers"]
    assert "authorization" not in open_one.json()["headers"]
    assert token.encode() not in right.body + open_one.body


KEY = "a-key-of-the-developer-s-own"
SIGNING = "a-secret-that-is-long-enough-to-sign-with"
SESSION = "session=9f86d081"


def by_session(request: Any) -> dict[str, Any] | None:
    """As programs of their own know callers: by a cookie, or by a header that nobody else has heard of."""
    named = {SESSION: "ann", "token-of-bob": "bob"}
    found = [named.get(request.headers.get(name, "")) for name in ("cookie", "x-harbour-token")]
    return next(({"user": {"id": each}} for each in found if each), None)


def signed(secret: str, **claims: Any) -> str:
    return jwt.encode({"sub": "ann", "exp": 4e9, **claims}, secret)


#: What shows a caller to the host: its own keys, whether they hold or not, and what its resolvers know somebody by.
SHOWN = [
    ("Authorization", f"Bearer flk_{'a' * 12}_{'b' * 43}"),
    ("Authorization", f"Bearer oag_{'a1' * 32}"),
    ("Authorization", f"bearer  bak_{'a1' * 32}"),
    ("Authorization", "Bearer osk-v1.abc"),
    ("X-API-Key", f"oag_{'a1' * 32}"),
    ("X-Agent-API-Key", f"bak_{'a1' * 32}"),
    ("X-Elsewhere", f"oag_{'a1' * 32}"),
    ("Authorization", f"Bearer {KEY}"),
    ("X-API-Key", KEY),
    ("Authorization", f"Bearer {signed(SIGNING)}"),
    ("Authorization", f"Bearer {signed(SIGNING[::-1])}"),
    ("Cookie", SESSION),
    ("X-Harbour-Token", "token-of-bob"),
    ("Proxy-Authorization", "Basic YTpi"),
]


@pytest.mark.parametrize("path", ["/echo", "/hook", "/admin"], ids=["none", "verify", "owner"])
async def test_what_a_caller_shows_to_the_host_no_plugin_sees(
    library: Path, tmp_path: Path, path: str
) -> None:
    known = {KEY: {"name": "ci", "permissions": []}}
    resolvers = [by_session, Jwt(key=SIGNING), ApiKeys(known, required=True)]
    gateway = {"resolve_context": [Jwt(key=SIGNING[::-1])]}
    reached = 0
    async with site(library, tmp_path, resolve_context=resolvers, gateway=gateway) as (served, bridge):
        for header, value in SHOWN:
            shown = {header: value, "X-Other": "stays"}
            told = await fetch(served, "POST", at(path), headers=shown, agent=bridge.agent())
            if path == "/admin" and told.status == 401:
                continue
            reached += 1
            assert told.json()["headers"]["x-other"] == "stays"
            assert header.lower() not in told.json()["headers"], header
            assert value.rpartition(" ")[2].encode() not in told.body
    assert reached == (5 if path == "/admin" else len(SHOWN))


@pytest.mark.parametrize("path", ["/echo", "/hook"], ids=["none", "verify"])
@pytest.mark.parametrize("resolver", ["keys", "tokens", "session", "anybody"])
async def test_what_others_sign_their_requests_with_reaches_the_plugin(
    library: Path, tmp_path: Path, path: str, resolver: str
) -> None:
    resolvers: dict[str, Any] = {
        "keys": ApiKeys({KEY: {"name": "ci", "permissions": []}}, required=True),
        "tokens": Jwt(key=SIGNING, required=True),
        "session": by_session,
        # Knows everybody, whatever they send.
        "anybody": lambda request: {"user": {"id": "dev"}},
    }
    shown = {
        "authorization": f"Bearer {signed('of-a-messenger-that-calls-a-webhook')}.oag_x",
        "x-telegram-bot-api-secret-token": "s3cret",
        "x-hub-signature-256": "sha256=abc",
        "cookie": "of=the-plugin",
    }
    async with site(library, tmp_path, resolve_context=resolvers[resolver]) as (served, bridge):
        told = await fetch(served, "POST", at(path), headers=shown, agent=bridge.agent())
        two = [("Authorization", f"Bearer {KEY}"), ("Authorization", "Bearer other")]
        doubled = await fetch(served, "POST", at(path), repeated=two, agent=bridge.agent())
        flood = {f"X-Token-{number}": "x" for number in range(200)}
        flooded = await fetch(served, "POST", at(path), headers={**flood, **shown}, agent=bridge.agent())
    assert told.json()["headers"].items() >= shown.items()
    assert ("authorization" in doubled.json()["headers"]) == (resolver != "keys")
    assert "cookie" not in flooded.json()["headers"]
    assert flooded.json()["headers"]["x-hub-signature-256"] == "sha256=abc"


async def test_what_a_resolver_cannot_find_out_no_plugin_sees(library: Path, tmp_path: Path) -> None:
    def away(request: Any) -> None:
        if "authorization" in request.headers:
            raise Failure(Kind.unavailable, "The directory is away.")

    async with site(library, tmp_path, resolve_context=away) as (served, bridge):
        shown = {"Authorization": "Bearer whose"}
        told = await fetch(served, "POST", at("/echo"), headers=shown, agent=bridge.agent())
    assert "authorization" not in told.json()["headers"]


async def test_without_any_keys_nobody_is_the_owner(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        told = await fetch(served, "GET", at("/admin"), agent=bridge.agent())
    assert told.status == 401
    assert "fairlead keys new" in told.message


async def test_a_hundred_requests_pass_at_once_and_the_next_does_not(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        agent = bridge.agent()
        statuses = [(await fetch(served, "GET", at("/echo"), agent=agent)).status for _ in range(101)]
        last = await fetch(served, "POST", at("/hook"), agent=agent)
        owners = await fetch(served, "GET", at("/admin"), agent=agent)
    assert statuses.count(200) >= 100
    assert last.status == 429
    assert int(last.headers["retry-after"]) >= 1
    assert owners.status == 401, "a key is asked for, and nothing counted"


def test_a_bucket_holds_a_hundred_and_is_filled_by_a_hundred_a_minute() -> None:
    now = [0.0]
    bucket = Bucket(lambda: now[0])
    assert [bucket.take() for _ in range(100)] == [0.0] * 100
    assert bucket.take() == pytest.approx(0.6)
    now[0] = 0.7
    assert bucket.take() == 0.0
    now[0] = 1000.0
    assert sum(bucket.take() == 0.0 for _ in range(150)) == 100


# What is sent back.


async def raw(served: Any, agent: str, answer: Any, method: str = "POST") -> Any:
    body = answer if isinstance(answer, str) else json.dumps(answer)
    return await fetch(served, method, at("/raw"), body=body.encode(), agent=agent)


async def test_a_plugins_answer_is_sent_with_what_the_host_adds(library: Path, tmp_path: Path) -> None:
    answer = {
        "status": 201,
        "headers": {"X-Mine": "yes", "Content-Length": "999", "Connection": "keep-alive"},
        "body": "ok",
    }
    async with site(library, tmp_path) as (served, bridge):
        told = await raw(served, bridge.agent(), answer)
        bare = await raw(served, bridge.agent(), {"status": 204})
    assert (told.status, told.body, told.headers["x-mine"]) == (201, b"ok", "yes")
    assert (told.headers["content-length"], told.headers["connection"]) == ("2", "close")
    assert told.headers["access-control-allow-origin"] == "*"
    assert (bare.status, bare.body) == (204, b"")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_says_no_length(library: Path, tmp_path: Path, status: int) -> None:
    """RFC 9110, 8.6."""
    async with site(library, tmp_path) as (served, bridge):
        told = await raw(served, bridge.agent(), {"status": status})
    assert told.status == status
    assert "content-length" not in told.headers


async def test_a_body_in_base64_is_sent_as_bytes(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        good = await raw(served, bridge.agent(), {"status": 200, "body": "/wA=", "body_encoding": "base64"})
        bad = await raw(served, bridge.agent(), {"status": 200, "body": "!!", "body_encoding": "base64"})
    assert good.body == b"\xff\x00"
    assert bad.status == 502


@pytest.mark.parametrize(
    "answer",
    [
        "nonsense",
        "[]",
        "{}",
        {"status": "200"},
        {"status": True},
        {"status": 7},
        {"status": 200, "body": 7},
        {"status": 100},
        {"status": 103},
        {"status": 600},
    ],
)
async def test_what_is_no_response_is_an_error_of_the_server(
    library: Path, tmp_path: Path, answer: Any
) -> None:
    async with site(library, tmp_path) as (served, bridge):
        told = await raw(served, bridge.agent(), answer)
    assert told.status == 500
    assert told.message


async def test_a_body_cannot_pass_for_an_answer_of_the_servers(library: Path, tmp_path: Path) -> None:
    """What comes after an answer that has no body, or that only announces one, is read as the next answer."""
    forged = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nhey"
    async with site(library, tmp_path) as (served, bridge):
        told = [
            await raw(served, bridge.agent(), {"status": each, "body": forged}) for each in (103, 204, 304)
        ]
    assert [each.status for each in told] == [500, 204, 304]
    assert not any(b"HTTP/1.1" in each.body for each in told)


async def test_headers_hold_for_the_answer_alone(library: Path, tmp_path: Path) -> None:
    """What a plugin says of the whole host is not passed on: that is the app's, and other plugins', too."""
    beyond = {
        "Set-Cookie": "session=theirs; Path=/",
        "set-cookie": "session=theirs; Path=/",
        "Clear-Site-Data": "*",
        "Service-Worker-Allowed": "/",
        "Strict-Transport-Security": "max-age=31536000",
        "Alt-Svc": 'h3=":1"',
        "X-Accel-Redirect": "/internal/file",
    }
    async with site(library, tmp_path) as (served, bridge):
        told = await raw(served, bridge.agent(), {"status": 200, "headers": {**beyond, "ETag": "1"}})
    assert told.headers["etag"] == "1"
    assert not {name.lower() for name in beyond} & set(told.headers)


async def test_headers_cannot_break_out_of_their_lines(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        answer = {
            "status": 200,
            "headers": {"X-Bad": "a\r\nSet-Cookie: b", "X Bad": "c", "X-Num": 7},
            "body": "ok",
        }
        told = await raw(served, bridge.agent(), answer)
    assert told.status == 200
    assert not {"x-bad", "x bad", "x-num", "set-cookie"} & set(told.headers)


async def test_no_answer_is_an_error_of_the_server(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        assert (await fetch(served, "GET", at("/null"), agent=bridge.agent())).status == 500


async def test_a_plugin_that_does_not_answer_lets_its_caller_go(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "LONGEST", 0.5)
    async with site(library, tmp_path) as (served, bridge):
        async with asyncio.timeout(5):
            slow = await fetch(served, "GET", at("/sleep"), agent=bridge.agent())
        after = await fetch(served, "GET", at("/echo"), agent=bridge.agent())
    assert slow.status == 500
    assert "in time" in slow.message
    assert after.status == 200


async def test_head_goes_the_same_way_without_a_body(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path) as (served, bridge):
        whole = await fetch(served, "GET", at("/items/7"), agent=bridge.agent())
        head = await fetch(served, "HEAD", at("/items/7"), agent=bridge.agent())
        refused = await fetch(served, "HEAD", at("/items/7"))
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) >= len(whole.body)
    assert (refused.status, refused.body) == (401, b"")


async def test_a_plugin_without_a_handler_answers_no_requests(compiled: Compiled, tmp_path: Path) -> None:
    for option in ("-DBARE", "-DV1"):
        library = compiled("bridge", macro("MANIFEST", bridge_manifest(routes=ROUTES)), option)
        async with site(library, tmp_path) as (served, bridge):
            told = await fetch(served, "GET", at("/echo"), agent=bridge.agent())
        assert told.status == 501


async def test_a_page_of_another_origin_is_told_what_it_may_send(library: Path, tmp_path: Path) -> None:
    asks = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    async with site(library, tmp_path) as (served, _):
        told = await fetch(served, "OPTIONS", at("/echo"), headers=asks)
    assert told.status == 204
    assert "x-osaurus-agent-id" in told.headers["access-control-allow-headers"]


async def test_the_apps_own_word_about_origins_counts_where_it_has_one(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path, cors="https://app.example") as (served, bridge):
        told = await fetch(
            served, "GET", at("/echo"), agent=bridge.agent(), headers={"Origin": "https://page.example"}
        )
    assert "access-control-allow-origin" not in told.headers


async def test_a_body_beyond_the_limit_is_refused(library: Path, tmp_path: Path) -> None:
    async with site(library, tmp_path, max_body=100) as (served, bridge):
        told = await fetch(served, "POST", at("/echo"), body=b"x" * 101, agent=bridge.agent())
    assert told.status == 413


async def test_an_app_without_plugins_has_nothing_there() -> None:
    from fairlead import App

    told = await fetch(App("bare").http(), "GET", "/plugins/x/y")
    assert told.status == 404


SERVED = """
from fairlead import App
from fairlead.agents import Agent

app = App("harbour", store="sqlite:///{folder}/store.db")
app.add(Agent("ann", instructions="You are ann."))
app.add_plugin({library!r})
"""


def test_a_server_has_the_routes_of_its_plugins(library: Path, tmp_path: Path, warm_python: Warm) -> None:
    (tmp_path / "app.py").write_text(SERVED.format(folder=tmp_path, library=str(library)))
    command = warm_python.command(str(Path(sys.executable).with_name("fairlead")), "serve", "--port", "0")
    agent = {"X-Osaurus-Agent-Id": agent_uuid("harbour", "ann")}
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = next(each for each in server.stderr if each.strip().startswith("actions"))
            url = line.split()[-1].removesuffix("/fairlead/actions")
            with httpx.Client(base_url=url, timeout=30, transport=httpx.HTTPTransport(retries=10)) as client:
                told = client.post(at("/items/7"), content=b"hello", headers=agent)
                head = client.head(at("/items/7"), headers=agent)
                nobody = client.get(at("/items/7"))
        finally:
            server.send_signal(signal.SIGTERM)
    assert told.json()["path_params"] == {"id": "7"}
    assert told.json()["osaurus"]["base_url"] == url
    assert told.headers["connection"] == "close"
    assert (head.status_code, head.content) == (200, b"")
    assert nobody.status_code == 401
