"""The wire itself: content types, sizes, methods, headers, and requests that no client would send."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.actions import DefinitionError
from fairlead.testing.asgi import request

Open = Callable[..., httpx.Client]
INVOKE = "/fairlead/actions/add/invoke"
JSON = {"content-type": "application/json"}


def code(answer: httpx.Response) -> str:
    told: str = answer.json()["error"]["code"]
    return told


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_63_64_what_is_not_json_is_refused(open_site: Open, headers: dict[str, str]) -> None:
    answer = open_site().post(INVOKE, content=b'{"input": {"a": 1}}', headers=headers)
    assert (answer.status_code, code(answer)) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"']
)
def test_json_may_be_spelled_in_many_ways(open_site: Open, kind: str) -> None:
    answer = open_site().post(INVOKE, content=b'{"input": {"a": 1}}', headers={"content-type": kind})
    assert answer.json()["data"] == {"sum": 2}


def test_62_a_body_that_is_too_large_is_refused_declared_or_not(open_site: Open) -> None:
    client = open_site(max_body=100)
    long = b'{"input": {"a": %s}}' % (b"1" * 200)
    declared = client.post(INVOKE, content=long, headers=JSON)
    streamed = client.post(INVOKE, content=iter([long[:50], long[50:]]), headers=JSON)
    for answer in (declared, streamed):
        assert (answer.status_code, code(answer)) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    "body", [b"{", b"nope", b"\xff", b'{"input": NaN}', b"[" * 100_000, b'{"input": {"a": 1}} x']
)
def test_what_cannot_be_read_is_refused(open_site: Open, body: bytes) -> None:
    answer = open_site().post(INVOKE, content=body, headers=JSON)
    assert (answer.status_code, code(answer)) == (400, "INVALID_JSON_BODY")


def test_a_number_that_is_too_long_is_told_in_the_callers_words(open_site: Open) -> None:
    answer = open_site().post(INVOKE, content=b'{"input": {"a": -%s}}' % (b"1" * 5000), headers=JSON)
    assert (answer.status_code, code(answer)) == (400, "INVALID_JSON_BODY")
    words = answer.json()["error"]["message"]
    assert "a number in it has 5000 digits, 4300 at most are read" in words
    assert "sys." not in words


@pytest.mark.parametrize(
    "body", ["[]", "1", '"x"', "null", '{"imput": {}}', '{"timeoutMs": "5"}', '{"idempotencyKey": 1}']
)
def test_what_is_no_call_is_refused_with_the_member_named(open_site: Open, body: str) -> None:
    answer = open_site().post(INVOKE, content=body, headers=JSON)
    assert (answer.status_code, code(answer)) == (400, "VALIDATION_ERROR")


def test_an_empty_body_is_an_empty_call(open_site: Open) -> None:
    answer = open_site().post(INVOKE, content=b"", headers=JSON)
    assert answer.json()["error"]["issues"][0]["path"] == ["a"]


@pytest.mark.parametrize(
    "path", ["/fairlead/actions", "/fairlead/actions/add", "/openapi.json", "/healthz", "/docs"]
)
def test_what_can_be_looked_at_has_a_head(open_site: Open, path: str) -> None:
    client = open_site()
    whole, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]


def test_another_method_is_told_which_are_taken(open_site: Open) -> None:
    client = open_site()
    for method, path, allowed in (
        ("GET", INVOKE, "POST, OPTIONS"),
        ("DELETE", "/fairlead/actions", "GET, HEAD, OPTIONS"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, code(answer), answer.headers["allow"]) == (
            405,
            "METHOD_NOT_ALLOWED",
            allowed,
        )
        assert client.options(path).headers["allow"] == allowed


def test_discovery_is_sent_once_to_those_who_have_it(open_site: Open) -> None:
    client = open_site()
    for path in ("/fairlead/actions", "/openapi.json"):
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"if-none-match": tag}).status_code == 304
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_a_request_goes_by_its_own_id_or_gets_one(open_site: Open) -> None:
    client = open_site()
    named = client.post(INVOKE, json={"input": {"a": 1}}, headers={"x-request-id": "abc-1"})
    assert named.headers["x-request-id"] == "abc-1"
    odd = client.post(INVOKE, json={"input": {"a": 1}}, headers={"x-request-id": "a b\t<>"})
    assert odd.headers["x-request-id"] not in ("a b\t<>", "")


def test_a_trace_is_passed_on(open_site: Open) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = open_site().post("/fairlead/actions/who/invoke", json={}, headers={"traceparent": trace})
    assert answer.json()["data"]["metadata"]["traceparent"] == trace


def test_long_answers_are_compressed_for_those_who_take_it(open_site: Open) -> None:
    client = open_site()
    body = {"input": {"size": 5000}}
    answer = client.post("/fairlead/actions/large/invoke", json=body, headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    plain = client.post("/fairlead/actions/large/invoke", json=body, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert answer.json()["data"] == plain.json()["data"]
    assert gzip.compress(plain.content)[:2] == b"\x1f\x8b"


def test_an_answer_past_its_limit_is_a_failure_that_says_so(open_site: Open) -> None:
    answer = open_site(max_response=1000).post(
        "/fairlead/actions/large/invoke", json={"input": {"size": 5000}}
    )
    assert (answer.status_code, code(answer)) == (502, "RESPONSE_TOO_LARGE")


def test_pages_of_other_origins_may_call_only_where_they_are_named(open_site: Open) -> None:
    closed, opened = open_site(), open_site(cors="https://app.example.com")
    asked = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in closed.options(INVOKE, headers=asked).headers
    assert opened.options(INVOKE, headers=asked).headers["access-control-allow-origin"] == asked["origin"]
    answer = opened.post(INVOKE, json={"input": {"a": 1}}, headers={"origin": asked["origin"]})
    assert answer.headers["access-control-allow-origin"] == asked["origin"]
    other = opened.post(INVOKE, json={"input": {"a": 1}}, headers={"origin": "https://evil.example"})
    assert other.headers.get("access-control-allow-origin") != "https://evil.example"


@pytest.mark.parametrize(
    "origin", ["https://app.example.com", "https://evil.example", "http://localhost", None]
)
def test_pages_that_may_call_may_do_so_by_mcp(open_site: Open, origin: str | None) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    told = {"host": "localhost", "accept": "application/json, text/event-stream"}
    told |= {} if origin is None else {"origin": origin}
    answer = open_site(cors="https://app.example.com").post("/mcp", json=begin, headers=told)
    assert answer.status_code == (403 if origin == "https://evil.example" else 200)


def test_a_preflight_is_answered_with_what_a_page_may_send_and_read(open_site: Open) -> None:
    origin = "https://app.example.com"
    client = open_site(cors={"origins": [origin], "credentials": True, "headers": ["x-tenant"]})
    asked = {"origin": origin, "access-control-request-method": "POST"}
    told = client.options(INVOKE, headers=asked)
    assert (told.status_code, told.headers["access-control-allow-credentials"]) == (204, "true")
    allowed = told.headers["access-control-allow-headers"].split(", ")
    assert {"content-type", "idempotency-key", "traceparent", "x-tenant"} <= set(allowed)
    answer = client.post(INVOKE, json={}, headers={"origin": origin})
    assert answer.status_code == 400
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    assert answer.headers["vary"] == "origin"


def test_other_hosts_are_turned_away_where_hosts_are_named(open_site: Open) -> None:
    client = open_site(allowed_hosts=["harbour.example"])
    assert client.get("/fairlead/actions").status_code in (400, 403, 421)
    assert client.get("/fairlead/actions", headers={"host": "harbour.example"}).status_code == 200


@pytest.mark.parametrize(
    "options",
    [
        {"max_bodi": 1},
        {"max_body": 0},
        {"bases": ["x"]},
        {"resolve_context": 3},
        {"cors": {"origins": ["*"], "credentials": True}},
        {"keep_alive": -1},
        {"cors": "nonsense"},
        {"cors": "https://*.example.com"},
    ],
)
def test_a_wrong_option_is_refused_when_the_app_is_made(harbour: Any, options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        harbour.app.http(**options)


@pytest.mark.parametrize(
    "path",
    [
        "/%zz",
        "//",
        "//fairlead//actions",
        "/fairlead/actions/%00/invoke",
        "/" + "a" * 5000,
        "/fairlead/actions/%2e%2e/invoke",
        "/é",
    ],
)
def test_odd_paths_are_not_found(open_site: Open, path: str) -> None:
    url = open_site().base_url
    with socket.create_connection((url.host, url.port or 80), timeout=20) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        answer = b""
        while part := connection.recv(65536):
            answer += part
    status = int(answer.split()[1])
    assert status in (400, 404, 415)


def places(answer: httpx.Response) -> list[str]:
    assert (answer.status_code, code(answer)) == (404, "NOT_FOUND")
    return re.findall(r"/[a-z/]+", answer.json()["error"]["message"])


def test_whoever_asks_where_nothing_is_is_told_where_things_are(open_site: Open) -> None:
    client = open_site()
    assert places(client.get("/")) == ["/fairlead/actions", "/docs"]
    assert [client.get(place).status_code for place in places(client.get("/"))] == [200, 200]
    assert places(open_site(docs=False, bases=["/tools"]).get("/actions")) == ["/tools/actions"]


def test_health_and_metrics_tell_how_it_is(open_site: Open) -> None:
    client = open_site()
    assert client.get("/healthz").json()["ok"] is True
    assert client.get("/readyz").json()["status"] == "ready"
    client.post(INVOKE, json={"input": {"a": 1}})
    client.post(INVOKE, json={})
    client.post("/fairlead/actions/nobody/invoke", json={})
    text = client.get("/metrics").text
    assert 'fairlead_invocations_total{action="add",code="OK"} 1' in text
    assert 'fairlead_invocations_total{action="add",code="VALIDATION_ERROR"} 1' in text
    assert 'fairlead_invocation_duration_seconds_count{action="add"} 2' in text
    assert "nobody" not in text


names = st.sampled_from(
    [
        "/fairlead/actions/add/invoke",
        "/fairlead/actions/work/stream",
        "/fairlead/batch",
        "/fairlead/actions",
        "/x",
        "",
    ]
)
headers = st.dictionaries(
    st.sampled_from(
        [
            "content-type",
            "accept",
            "content-length",
            "idempotency-key",
            "x-request-id",
            "if-none-match",
            "traceparent",
            "accept-encoding",
            "authorization",
        ]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30)
    | st.sampled_from(["application/json", "*/*;q=0", "gzip"]),
    max_size=5,
)
bodies = st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["input", "a", "calls", "action", "confirm", "metadata", "timeoutMs", "idempotencyKey"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS", "X"]),
    path=names,
    sent=headers,
    body=bodies,
)
def test_whatever_is_sent_the_answer_is_an_envelope_and_no_server_error(
    harbour: Any, method: str, path: str, sent: dict[str, str], body: bytes
) -> None:
    site = harbour.app.http()
    answer = asyncio.run(request(site, method, path, body, sent))
    assert answer.status < 500
    if (
        answer.body
        and "json" in answer.headers.get("content-type", "")
        and "gzip" not in answer.headers.get("content-encoding", "")
    ):
        told = json.loads(answer.body)
        assert isinstance(told.get("ok", told.get("status")), bool | int)
