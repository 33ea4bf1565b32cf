"""What no SDK would send: every wrong request has an error in the gateway's envelope, and hurts nobody else."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from fairlead import App
from fairlead.failures import gateway as wire
from fairlead.gateway.gateway import routes
from fairlead.store.statements import Statement
from gateway.site_under_test import OWNER, PATIENCE, STRANGER, Site, add_key, serving

CODES = {str(each.code) for each in wire.GatewayFailure.__subclasses__()} - {"agent_reply_error"}
KEY = f"Bearer {OWNER}"
JSON = ("Content-Type", "application/json")
SMALL, LARGE = 64 * 1024, 1024 * 1024
Headers = Iterable[tuple[str, str]]


class Told:
    """An answer as it came."""

    def __init__(self, answer: http.client.HTTPResponse, body: bytes) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def connected(site: Site) -> Iterator[socket.socket]:
    at = urlsplit(site.url)
    with socket.create_connection((at.hostname, at.port), PATIENCE) as connection:
        yield connection


def head(method: str, path: str, headers: Headers) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: gateway.test",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def heard(connection: socket.socket, method: str = "GET") -> Told:
    answer = http.client.HTTPResponse(connection, method=method)
    answer.begin()
    return Told(answer, answer.read())


def ask(
    site: Site, method: str, path: str, body: bytes = b"", headers: Headers = (), *, key: str | None = KEY
) -> Told:
    """One request, sent as it is spelled."""
    given = [*headers] if key is None else [("Authorization", key), *headers]
    if body or method in ("POST", "PUT", "PATCH"):
        given += [("Content-Length", str(len(body)))]
    with connected(site) as connection:
        connection.sendall(head(method, path, given) + body)
        return heard(connection, method)


def refused(told: Told, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that is one, whole and in the catalogue's words."""
    assert told.headers["content-type"] == "application/json", told.body
    whole = told.json()
    assert set(whole) == {"success", "error"}, whole
    assert whole["success"] is False
    error: dict[str, Any] = whole["error"]
    assert (told.status, error["code"]) == (status, code), error
    assert error["code"] in CODES
    assert error["type"] in wire.TYPES
    assert error["message"]
    assert isinstance(error["details"], dict)
    assert error["request_id"] == told.headers["x-request-id"]
    assert ("retry-after" in told.headers) <= (status in (429, 503))
    assert OWNER not in told.body.decode()
    return error


def works(site: Site) -> None:
    """The gateway still serves."""
    told = ask(site, "POST", "/api/v1/agents/echo/invoke", b'{"message":"hello"}', [JSON])
    assert (told.status, told.json()["data"]["text"]) == (200, "You said: hello")


@pytest.fixture
def task(site: Site) -> str:
    id = site.create("echo")
    site.ended("echo", id)
    return id


@pytest.fixture
def talk(site: Site) -> str:
    told = ask(site, "POST", "/api/v1/agents/echo/conversations", b"{}", [JSON])
    assert told.status == 201
    return str(told.json()["data"]["conversation_id"])


def bodies(task: str, talk: str) -> list[tuple[str, str, int]]:
    """Every address that takes a JSON body, and the bytes of it."""
    agent = "/api/v1/agents/echo"
    return [
        ("PATCH", agent, SMALL),
        ("POST", f"{agent}/invoke", LARGE),
        ("POST", f"{agent}/tasks", LARGE),
        ("POST", f"{agent}/tasks/{task}/cancel", LARGE),
        ("POST", f"{agent}/tasks/{task}/continue", LARGE),
        ("POST", f"{agent}/tasks/{task}/webhooks", SMALL),
        ("POST", f"{agent}/conversations", LARGE),
        ("PATCH", f"{agent}/conversations/{talk}", LARGE),
        ("POST", f"{agent}/conversations/{talk}/messages", LARGE),
        ("POST", f"{agent}/conversations/{talk}/cancel", LARGE),
        ("PUT", f"{agent}/conversations/{talk}/model", LARGE),
        ("POST", "/api/v1/files/presign-upload", SMALL),
        ("POST", "/api/v1/runtime/registrations", SMALL),
    ]


_SLOWER = Statement.of("UPDATE api_keys SET per_minute = 140 WHERE id = 'k-hurried'")
KEYED = [JSON, ("Idempotency-Key", "k-1")]


def test_a_body_that_is_no_json_is_refused_everywhere(site: Site, task: str, talk: str) -> None:
    wrong = [b"{", b"\xff\xfe", b'{"a":1}{', b"'", b"{" * 2000, b"[" * 200_000, b'{"message":"\\ud800', b"\0"]
    for method, path, largest in bodies(task, talk):
        for body in (each for each in wrong if len(each) < largest):
            error = refused(ask(site, method, path, body, KEYED), 400, "invalid_json")
            assert len(error["message"]) < 500
    works(site)


def test_a_body_that_is_no_object_is_refused_everywhere(site: Site, task: str, talk: str) -> None:
    for method, path, _ in bodies(task, talk):
        for body in (b"[]", b"1", b'"text"', b"null", b"true"):
            refused(ask(site, method, path, body, KEYED), 400, "invalid_body")


def test_a_body_that_is_too_long_is_refused_everywhere(site: Site, task: str, talk: str) -> None:
    for method, path, largest in bodies(task, talk):
        body = b'{"message":"' + b"x" * (largest - 13) + b'"}'
        assert len(body) == largest + 1
        error = refused(ask(site, method, path, body, KEYED), 413, "payload_too_large")
        assert str(largest) in error["message"]
    works(site)


def test_a_body_of_the_limit_itself_is_taken(site: Site) -> None:
    body = b'{"message":"' + b"x" * (LARGE - 14) + b'"}'
    assert len(body) == LARGE
    assert ask(site, "POST", "/api/v1/agents/echo/tasks", body, [JSON]).status == 202


def test_a_body_that_is_too_long_by_its_own_word_is_refused_unread(site: Site) -> None:
    for length in (str(LARGE + 1), "9" * 18):
        with connected(site) as connection:
            given = [("Authorization", KEY), JSON, ("Content-Length", length)]
            connection.sendall(head("POST", "/api/v1/agents/echo/invoke", given))
            refused(heard(connection), 413, "payload_too_large")
    with connected(site) as connection:
        given = [("Authorization", KEY), JSON, ("Transfer-Encoding", "chunked")]
        connection.sendall(head("POST", "/api/v1/agents/echo/tasks", given))
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(17):
            connection.sendall(piece)
        refused(heard(connection), 413, "payload_too_large")
    works(site)


def test_values_of_a_wrong_type_are_refused(site: Site, task: str, talk: str) -> None:
    agent = "/api/v1/agents/echo"
    one = f"{agent}/tasks/{task}"
    chat = f"{agent}/conversations/{talk}"
    wrong: list[tuple[str, str, dict[str, Any], str]] = [
        ("POST", f"{agent}/invoke", {}, "missing_param"),
        ("POST", f"{agent}/invoke", {"message": 7}, "invalid_body"),
        ("POST", f"{agent}/invoke", {"message": ["a"]}, "invalid_body"),
        ("POST", f"{agent}/invoke", {"message": "a", "timeout_ms": "soon"}, "invalid_param"),
        ("POST", f"{agent}/invoke", {"message": "a", "timeout_ms": -5}, "invalid_param"),
        ("POST", f"{agent}/invoke", {"message": "a", "metadata": "x"}, "invalid_body"),
        ("POST", f"{agent}/invoke", {"message": "a", "metadata": {"a": {"b": 1}}}, "invalid_body"),
        ("POST", f"{agent}/invoke", {"message": "a", "attachments": {}}, "invalid_body"),
        ("POST", f"{agent}/invoke", {"message": "a", "attachments": [7]}, "invalid_body"),
        ("POST", f"{agent}/invoke", {"message": "a", "idempotency_key": 7}, "invalid_body"),
        ("POST", f"{agent}/tasks", {"message": "a", "deadline_ms": "1"}, "invalid_param"),
        ("POST", f"{agent}/tasks", {"message": "a", "deadline_ms": 10**30}, "invalid_param"),
        ("POST", f"{one}/cancel", {"reason": 7}, "invalid_body"),
        ("POST", f"{one}/cancel", {"reason": "x" * 1025}, "invalid_body"),
        ("POST", f"{one}/continue", {"auth_grant": "yes"}, "invalid_body"),
        ("POST", f"{one}/webhooks", {}, "missing_param"),
        ("POST", f"{one}/webhooks", {"url": 7}, "invalid_body"),
        ("POST", f"{one}/webhooks", {"url": "ftp://example.com"}, "invalid_param"),
        ("POST", f"{one}/webhooks", {"url": "http://127.0.0.1/"}, "invalid_param"),
        ("POST", f"{one}/webhooks", {"url": "https://93.184.215.14/", "secret": "short"}, "invalid_body"),
        ("POST", f"{one}/webhooks", {"url": "https://93.184.215.14/", "token": "a\r\nb: c"}, "invalid_body"),
        ("POST", f"{agent}/conversations", {"title": 7}, "invalid_body"),
        ("POST", f"{agent}/conversations", {"title": "x" * 257}, "invalid_body"),
        ("PATCH", chat, {"title": ""}, "invalid_body"),
        ("PATCH", chat, {"title": "x", "agent": "y"}, "invalid_body"),
        ("POST", f"{chat}/messages", {"message": None}, "missing_param"),
        ("POST", f"{chat}/cancel", {"target_message_id": "x" * 129}, "invalid_body"),
        ("PUT", f"{chat}/model", {}, "invalid_body"),
        ("PUT", f"{chat}/model", {"modelOverrideId": 7}, "invalid_body"),
        ("PATCH", agent, {"visibility": "secret"}, "invalid_param"),
        ("PATCH", agent, {"mcpEnabled": "yes"}, "invalid_param"),
    ]
    for method, path, body, code in wrong:
        told = ask(site, method, path, json.dumps(body).encode(), KEYED)
        error = refused(told, 400, code)
        assert "param" not in error or isinstance(error["param"], str), (path, body)
    works(site)


def test_queries_that_say_nothing_sensible_are_refused(site: Site, task: str, talk: str) -> None:
    agent = "/api/v1/agents/echo"
    for path in (
        "/api/v1/tasks?state=running",
        "/api/v1/tasks?limit=0",
        "/api/v1/tasks?limit=" + "9" * 5000,
        "/api/v1/tasks?since=%00",
        f"{agent}/tasks?limit=-1",
        f"{agent}/tasks?limit=%D9%A3",
        f"{agent}/tasks/{task}/messages?since=x",
        f"{agent}/tasks/{task}/messages?limit=501",
        f"{agent}/tasks/{task}/events?since=-3",
        f"{agent}/tasks/{task}/events?since=x&since=",
        "/api/v1/tasks?limit=1&limit=2",
        f"{agent}/conversations?state=%F0%9F%8E%A3",
        f"{agent}/conversations?since=!!!!",
        f"{agent}/conversations/{talk}/messages?limit=1e9",
        f"{agent}/conversations/{talk}/events?since=1.5",
    ):
        refused(ask(site, "GET", path), 400, "invalid_param")


def test_ids_are_bounded_and_those_that_nobody_has_are_not_found(site: Site, task: str, talk: str) -> None:
    agents = "/api/v1/agents"
    long = "x" * 129
    for path in (
        f"{agents}/{long}",
        f"{agents}/{long}/tasks",
        f"{agents}/echo/tasks/{long}",
        f"{agents}/echo/tasks/{long}/events",
        f"{agents}/echo/conversations/{long}",
        f"{agents}/echo/conversations/{long}/events",
        f"{agents}/echo/tasks/{task}/webhooks/{long}/deliveries",
    ):
        refused(ask(site, "GET", path), 400, "invalid_param")
    for path in (
        f"{agents}/nobody",
        f"{agents}/%F0%9F%8E%A3",
        f"{agents}/%ff%fe",
        f"{agents}/{'x' * 128}",
        f"{agents}/echo/tasks/..%2Fx",
        f"{agents}/echo/tasks/%27%20OR%201%3D1--",
        f"{agents}/memory/tasks/{task}",
        f"{agents}/echo/tasks/{task}/webhooks/none/deliveries",
        "/api/v1/files/none",
    ):
        refused(ask(site, "GET", path), 404, "agent_not_found")
    refused(ask(site, "GET", f"{agents}/memory/conversations/{talk}"), 400, "invalid_param")
    works(site)


def test_a_nul_anywhere_is_the_callers_mistake_and_tells_nothing_of_the_store(
    site: Site, task: str, talk: str
) -> None:
    agent = "/api/v1/agents/echo"
    one, chat = f"{agent}/tasks/{task}", f"{agent}/conversations/{talk}"
    nul = "a\0b"
    asked: list[tuple[str, str, dict[str, Any] | None]] = [
        ("GET", "/api/v1/agents/%00", None),
        ("GET", f"{agent}/tasks/%00", None),
        ("GET", f"{agent}/tasks/%00/events", None),
        ("GET", f"{agent}/tasks?since=a%00", None),
        ("GET", "/api/v1/tasks?agent_id=%00", None),
        ("GET", "/api/v1/tasks?instance_id=%00", None),
        ("GET", f"{agent}/conversations/%00", None),
        ("GET", f"{one}/webhooks/%00/deliveries", None),
        ("DELETE", f"{one}/webhooks/%00", None),
        ("POST", f"{one}/webhooks/%00/deliveries/%00/redeliver", {}),
        ("GET", "/api/v1/files/%00", None),
        ("DELETE", "/api/v1/api-keys/%00", None),
        ("POST", f"{agent}/invoke", {"message": "a", "context_id": nul}),
        ("POST", f"{agent}/invoke", {"message": nul, "metadata": {nul: nul}}),
        ("POST", f"{agent}/invoke", {"message": "a", "idempotency_key": nul}),
        ("POST", f"{agent}/invoke", {"message": "a", "attachments": [{"file_id": nul}]}),
        ("POST", f"{agent}/tasks", {"message": nul, "metadata": {nul: nul}}),
        ("POST", f"{agent}/tasks", {"message": "a", "idempotency_key": nul}),
        ("POST", f"{one}/cancel", {"reason": nul}),
        ("POST", f"{one}/webhooks", {"url": f"https://93.184.215.14/{nul}"}),
        ("POST", f"{one}/webhooks", {"url": "https://93.184.215.14/", "secret": nul * 8}),
        ("POST", f"{agent}/conversations", {"title": nul, "metadata": {nul: nul}}),
        ("PATCH", chat, {"title": nul}),
        ("POST", f"{chat}/messages", {"message": nul, "idempotency_key": nul}),
        ("POST", f"{chat}/cancel", {"target_message_id": nul, "reason": nul}),
        ("PUT", f"{chat}/model", {"modelOverrideId": nul}),
        ("POST", "/api/v1/files/presign-upload", {"filename": nul, "content_type": "text/plain", "size": 1}),
        ("POST", "/api/v1/runtime/registrations", {"agent_id": nul, "name": nul}),
    ]
    leaks = []
    for method, path, body in asked:
        sent = b"" if body is None else json.dumps(body).encode()
        told = ask(site, method, path, sent, [JSON, ("Idempotency-Key", f"k{len(path)}")])
        assert told.status < 500, (method, path, body, told.body)
        if told.status >= 400:
            error = refused(told, told.status, told.json()["error"]["code"])
            if "store" in error["message"].lower():
                leaks.append((method, path, body, error["message"]))
    assert leaks == []
    works(site)


def test_an_encoded_slash_is_part_of_an_id_and_no_step_of_the_path(site: Site, task: str) -> None:
    for path in (
        f"/api/v1/agents/echo%2Ftasks%2F{task}",
        f"/api/v1/agents/echo/tasks%2F{task}",
        "/api/v1/agents/..%2F..%2Fagents%2Fecho",
        "/api/v1/agents%2Fecho",
        "/api/v1/agents/%2e%2e/agents/echo",
    ):
        refused(ask(site, "GET", path), 404, "agent_not_found")


def test_an_id_may_look_like_anything_that_routes_are_written_with(site: Site) -> None:
    for id in ("*", "%2A", "**", "{agentId}", "{}", "%", "%2F", "+"):
        for path in (f"/api/v1/agents/{id}", f"/api/v1/agents/{id}/tasks", f"/api/v1/agents/echo/tasks/{id}"):
            refused(ask(site, "GET", path), 404, "agent_not_found")
        assert ask(site, "GET", f"/v1/models/{id}").status == 404
        refused(ask(site, "GET", f"/a2a/{id}", key=None), 404, "agent_not_found")


def test_addresses_that_are_not_there_and_methods_that_they_do_not_take(site: Site, task: str) -> None:
    for path in (
        "/api/v1",
        "/api/v1/",
        "/v1",
        "/a2a",
        "/api/v1/nothing",
        "/api/v1/agents/echo/nothing",
        "/api/v1/agents//tasks",
        f"/api/v1/agents/echo/tasks/{task}/events/more",
    ):
        refused(ask(site, "GET", path), 404, "agent_not_found")
        refused(ask(site, "GET", path, key=None), 404, "agent_not_found")
    for method, path, taken in (
        ("PUT", "/api/v1/agents", "GET"),
        ("GET", "/api/v1/agents/echo/invoke", "POST"),
        ("DELETE", f"/api/v1/agents/echo/tasks/{task}", "GET"),
        ("TRACE", "/api/v1/tasks", "GET"),
    ):
        told = ask(site, method, path)
        refused(told, 400, "invalid_param")
        assert taken in re.split(", ", told.headers["allow"])


def test_a_host_that_is_not_ours_is_turned_away_in_the_words_of_the_address(app: App, tmp_path: Path) -> None:
    with serving(app.http(allowed_hosts=["harbour.example"])) as url:
        site = Site(url, tmp_path)  # whose requests are for gateway.test
        for path in ("/api/v1", "/api/v1/agents", "/api/v1/nothing", "/version"):
            error = refused(ask(site, "GET", path), 403, "forbidden")
            assert "Host" in error["message"]
        told = ask(site, "POST", "/v1/chat/completions", b"{}", [JSON])
        assert (told.status, told.json()["error"]["code"]) == (403, "forbidden")
        told = ask(site, "POST", "/a2a/echo", b"{}", [JSON])
        assert (told.status, told.json()["jsonrpc"]) == (403, "2.0")
        told = ask(site, "GET", "/fairlead/actions")
        assert (told.status, told.json()["error"]["code"]) == (403, "AUTHORIZATION_ERROR")


def test_credentials_that_are_odd_are_refused(site: Site) -> None:
    path = "/api/v1/agents"
    cases: list[tuple[str | None, str]] = [
        (None, "unauthorized"),
        ("", "missing_token"),
        ("Bearer", "missing_token"),
        ("Bearer ", "missing_token"),
        ("Basic dTpw", "unauthorized"),
        (OWNER, "unauthorized"),
        ("Bearer nonsense", "invalid_token"),
        ("Bearer oag_", "invalid_token"),
        (f"Bearer {OWNER.upper()}", "invalid_token"),
        (f"Bearer {OWNER[:-1]}", "invalid_token"),
        (f"Bearer {OWNER}0", "invalid_token"),
        (f"Bearer {OWNER} {OWNER}", "invalid_token"),
        ("Bearer oag_" + "\xe9" * 64, "invalid_token"),
        ("Bearer " + "x" * 8000, "invalid_token"),
        ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJsb2NhbCJ9.", "invalid_token"),
    ]
    for key, code in cases:
        told = ask(site, "GET", path, key=key)
        refused(told, 401, code)
        assert told.headers["www-authenticate"] == "Bearer"
    # Whichever of two is meant, nobody can tell.
    for two in ((KEY, KEY), (KEY, f"Bearer {STRANGER}"), (f"Bearer {STRANGER}", KEY), (KEY, "")):
        given = [("Authorization", each) for each in two]
        refused(ask(site, "GET", path, headers=given, key=None), 401, "invalid_token")
    assert ask(site, "GET", path, key=f"bEaReR   {OWNER}").status == 200


def test_who_may_not_call_is_told_before_the_body_is_read(site: Site) -> None:
    with connected(site) as connection:
        given = [JSON, ("Content-Length", str(LARGE))]
        connection.sendall(head("POST", "/api/v1/agents/echo/invoke", given))
        refused(heard(connection), 401, "unauthorized")


def test_what_a_client_accepts_is_read_leniently(site: Site) -> None:
    path, body = "/api/v1/agents/echo/invoke", b'{"message":"hello"}'
    for accept in ("", "*/*", "nonsense", "text/html;q=x,,;", "image/png", "x" * 4000):
        told = ask(site, "POST", path, body, [JSON, ("Accept", accept)])
        assert (told.status, told.headers["content-type"]) == (200, "application/json"), accept
    for accept in ("text/event-stream", "TEXT/EVENT-STREAM; q=0.1", "application/json, text/event-stream"):
        told = ask(site, "POST", path, body, [JSON, ("Accept", accept)])
        assert told.headers["content-type"] == "text/event-stream"
        assert told.body.count(b'"type":"done"') == 1
    # What is known before the first frame is no stream.
    for sent, code in ((b"{", "invalid_json"), (b"{}", "missing_param")):
        refused(ask(site, "POST", path, sent, [JSON, ("Accept", "text/event-stream")]), 400, code)
    events = "/api/v1/agents/echo/tasks/none/events"
    refused(ask(site, "GET", events, headers=[("Accept", "text/event-stream")]), 404, "agent_not_found")


def _without_pings(body: bytes) -> bytes:
    """A reader that waits for long is told that the line is alive; how often, is a matter of time."""
    return body.replace(b": ping\n", b"")


def test_a_last_event_id_that_is_none_of_ours_begins_at_the_beginning(site: Site, task: str) -> None:
    path = f"/api/v1/agents/echo/tasks/{task}/events"
    whole = _without_pings(ask(site, "GET", path).body)
    assert whole.startswith(b"event: message\nid: 1\n")
    for last in ("", "x", "-1", "1.5", "9" * 400, "\xb2", "0", "1, 1"):
        told = ask(site, "GET", path, headers=[("Last-Event-ID", last)])
        assert (told.status, _without_pings(told.body)) == (200, whole), last
    # What is asked for in the address counts.
    told = ask(site, "GET", f"{path}?since=0", headers=[("Last-Event-ID", "1")])
    assert _without_pings(told.body) == whole
    # Beyond the end there is the end.
    told = ask(site, "GET", f"{path}?since={2**53}")
    assert told.body == b'event: end\ndata: {"reason":"task_terminal"}\n\n'


def test_request_ids_are_kept_where_they_are_harmless(site: Site) -> None:
    path = "/api/v1/agents/nobody"
    given = "trace-1:a/b+c=.d_"
    told = ask(site, "GET", path, headers=[("X-Request-ID", given)])
    assert refused(told, 404, "agent_not_found")["request_id"] == given
    for odd in ("", " ", "x" * 129, "a b", '"<script>"', "\xe9\xe9", "a, b"):
        told = ask(site, "GET", path, headers=[("X-Request-ID", odd)])
        assert refused(told, 404, "agent_not_found")["request_id"] != odd


def test_idempotency_keys_are_bounded(site: Site, talk: str) -> None:
    path, body = f"/api/v1/agents/echo/conversations/{talk}", b'{"title":"x"}'
    refused(ask(site, "PATCH", path, body, [JSON]), 400, "missing_param")
    refused(ask(site, "PATCH", path, body, [JSON, ("Idempotency-Key", "")]), 400, "missing_param")
    refused(ask(site, "PATCH", path, body, [JSON, ("Idempotency-Key", "k" * 129)]), 400, "invalid_param")
    assert ask(site, "PATCH", path, body, [JSON, ("Idempotency-Key", "k" * 128)]).status == 200


def test_a_body_needs_no_content_type_and_texts_may_hold_anything(site: Site) -> None:
    path = "/api/v1/agents/echo/invoke"
    for headers in ([], [("Content-Type", "text/plain")], [("Content-Type", "\xff/;;")]):
        assert ask(site, "POST", path, b'{"message":"hello"}', headers).status == 200
    # Of two members with one name the last counts, and those that nobody knows are left out.
    told = ask(site, "POST", path, b'{"message":"a","message":"b","other":[1]}', [JSON])
    assert told.json()["data"]["text"] == "You said: b"
    for message in ('"\\u0000"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\u202e"'):
        for where in ("invoke", "tasks"):
            body = b'{"message":%b}' % message.encode()
            told = ask(site, "POST", f"/api/v1/agents/echo/{where}", body, [JSON])
            assert told.status < 500, (where, message, told.body)
            if told.status >= 400:
                refused(told, 400, told.json()["error"]["code"])
    works(site)


def test_clients_that_are_slow_or_go_away_hurt_nobody(site: Site) -> None:
    path, body = "/api/v1/agents/echo/invoke", b'{"message":"hello"}'
    given = [("Authorization", KEY), JSON, ("Content-Length", str(len(body)))]
    whole = head("POST", path, given) + body
    with connected(site) as slow:
        slow.sendall(whole[:10])
        works(site)
        slow.sendall(whole[10 : len(whole) - 5])
        works(site)
        slow.sendall(whole[-5:])
        assert heard(slow).json()["data"]["text"] == "You said: hello"
    for cut in (1, 20, len(whole) - len(body), len(whole) - 1, len(whole)):
        with connected(site) as gone:
            gone.sendall(whole[:cut])
            # A reset, not an end in order.
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    works(site)


def test_a_body_that_never_comes_is_not_waited_for(app: App) -> None:
    served = app.http()
    gateway = served._gateway
    gateway.patience = 0.05
    with serving(served) as url, connected(Site(url, Path())) as slow:
        given = [("Authorization", KEY), JSON, ("Content-Length", "20")]
        slow.sendall(head("POST", "/api/v1/agents/echo/invoke", given) + b'{"message":')
        told = heard(slow)
        assert (told.status, told.json()["error"]["code"]) == (400, "invalid_body")
        assert slow.recv(1) == b""


def test_who_leaves_while_an_agent_works_ends_its_turn(site: Site) -> None:
    for number, accept in enumerate(("application/json", "text/event-stream")):
        body = b'{"message":"gone%d"}' % number
        given = [("Authorization", KEY), JSON, ("Accept", accept), ("Content-Length", str(len(body)))]
        with connected(site) as leaving:
            leaving.sendall(head("POST", "/api/v1/agents/slow/invoke", given) + body)
            site.seen(f"begun-gone{number}")
        site.seen(f"stopped-gone{number}")
    works(site)


def test_who_stops_reading_a_stream_holds_up_nobody(site: Site) -> None:
    id = site.create("slow", "held")
    site.seen("begun-held")
    path = f"/api/v1/agents/slow/tasks/{id}/events"
    with connected(site) as silent, connected(site) as leaving:
        for connection in (silent, leaving):
            connection.sendall(head("GET", path, [("Authorization", KEY)]))
        leaving.close()
        works(site)
        site.leave("go-held")
        assert site.ended("slow", id).status == "completed"
        told = heard(silent)
        assert told.body.count(b"event: end") == 1


def test_calls_that_come_at_once_count_once_each(app: App, site: Site) -> None:
    key = "oag_" + "12" * 32
    add_key(app, key, "k-hurried", "local")
    app.store.write_now(lambda tx: tx.run(_SLOWER))

    def one(_: int) -> int:
        return ask(site, "GET", "/api/v1/agents", key=f"Bearer {key}").status

    with ThreadPoolExecutor(32) as threads:
        for _ in range(2):
            assert set(threads.map(one, range(60))) == {200}
        # No more than there are in a minute; some wait in other processes' purses.
        statuses = list(threads.map(one, range(60)))
    assert set(statuses) == {200, 429}


def test_requests_on_one_connection_are_answered_in_turn(site: Site) -> None:
    wrong = head("GET", "/api/v1/agents/nobody", [("Authorization", KEY)])
    right = head("GET", "/api/v1/agents/echo", [("Authorization", KEY)])
    with connected(site) as connection, connection.makefile("rb") as stream:
        connection.sendall(wrong + right + wrong)
        statuses = []
        for _ in range(3):
            statuses.append(int(stream.readline().split()[1]))
            headers = http.client.parse_headers(stream)
            stream.read(int(headers["content-length"]))
        assert statuses == [404, 200, 404]


def test_a_page_of_another_origin_can_make_every_call_where_it_may(app: App) -> None:
    origin = "https://app.example.com"
    with serving(app.http(cors=origin)) as url, httpx.Client(base_url=url, timeout=PATIENCE) as page:

        def preflight(method: str, *headers: str) -> bool:
            """Whether a browser would let the request out."""
            asked = {
                "Access-Control-Request-Method": method,
                "Access-Control-Request-Headers": ",".join(headers),
            }
            told = page.options("/api/v1/agents", headers={"Origin": origin, **asked}).headers
            methods = told["access-control-allow-methods"].split(", ")
            allowed = told["access-control-allow-headers"].split(", ")
            return method in methods and set(headers) <= set(allowed)

        assert all(preflight(route.method, "authorization", "content-type") for route in routes())
        assert preflight("PUT", "idempotency-key", "x-beeos-operation-id")
        assert preflight("GET", "last-event-id")
        assert preflight("POST", "a2a-version", "x-agent-api-key")
        key = {"Authorization": f"Bearer {OWNER}", "Origin": origin, "Idempotency-Key": "k"}
        made = page.post("/api/v1/agents/echo/conversations", headers=key).json()["data"]["conversation_id"]
        cleared = page.post(f"/api/v1/agents/echo/conversations/{made}/clear", headers=key)
        assert "x-beeos-operation-id" in cleared.headers
        assert "x-beeos-operation-id" in cleared.headers["access-control-expose-headers"].split(", ")
