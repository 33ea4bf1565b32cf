"""Attacks over HTTP: floods, bombs, forged headers, other people's pages, and callers who want each other's answers."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import App, Context, Failure, Kind
from fairlead.surfaces.auth import ApiKeys, Caller
from fairlead.surfaces.http import protocol
from fairlead.surfaces.http.protocol import LONGEST_HEAD, BoundedProtocol
from fairlead.testing.asgi import Response, request

PATIENCE = 20.0
JSON = {"content-type": "application/json"}
KEY = "a-key-that-nobody-guesses"
HELD = threading.Event()


def known(asked: Any) -> Caller | None:
    name = asked.headers.get("x-caller")
    return None if name is None else Caller({"id": name}, {"permissions": ["*"]}, {"edge": "yes"})


@pytest.fixture
def app() -> App:
    app = App("fort")
    done: list[Any] = []

    @app.action
    async def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @app.action
    async def who(ctx: Context) -> dict[str, Any]:
        """Say who calls."""
        return {"user": ctx.user, "metadata": dict(ctx.metadata)}

    @app.action(side_effects="write")
    async def keep(thing: dict[str, Any], ctx: Context) -> int:
        """Keep something."""
        done.append(thing)
        return len(done)

    @app.action(side_effects="destructive")
    async def burn(what: str, ctx: Context) -> str:
        """Burn something."""
        return f"{what} is ash"

    @app.action(visibility="private")
    async def vault() -> str:
        """Open the vault."""
        return "gold"

    @app.action
    async def odd(text: str) -> None:
        """Fail with a code of one's own, whatever it says."""
        failure = Failure(Kind.conflict, text, retry_after=2)
        failure.code = text
        raise failure

    return app


def call(
    app: App, path: str, body: Any = None, options: dict[str, Any] | None = None, **headers: str
) -> Response:
    raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    site = app.http(**{"resolve_context": known, **(options or {})})
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(request(site, "POST", path, raw, {**JSON, **sent}))


def code(answer: Response) -> str:
    told: str = json.loads(answer.body)["error"]["code"]
    return told


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The fort behind a real socket, read as `fairlead serve` reads it."""
    app = App("fort")

    @app.action
    async def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @app.action
    async def wait() -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    @app.action
    async def held() -> None:
        """Wait for the test."""
        await asyncio.to_thread(HELD.wait, PATIENCE)

    @app.action
    async def large() -> str:
        """Give much."""
        return "x" * _LARGE

    @app.action
    async def pour() -> AsyncIterator[str]:
        """Give more and more."""
        while True:
            yield "x" * 10_000

    @app.action
    async def who(ctx: Context) -> Any:
        """Say who calls."""
        return ctx.user

    at = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app.http(resolve_context=known), http=BoundedProtocol, log_level="critical", timeout_keep_alive=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
    thread.start()
    yield at.getsockname()[1]
    server.should_exit = True
    thread.join(PATIENCE)
    at.close()


def raw(port: int, *parts: bytes) -> bytes:
    """What the server says to these bytes until it hangs up, or says no more."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except OSError:
            pass
    return answer


_FLOOD = 50_000_000
#: More than the system keeps of an answer that nobody reads.
_LARGE = 20_000_000
HEAD = b"POST /fairlead/actions/add/invoke HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
BODY = b'{"input":{"a":1}}'


@pytest.mark.parametrize(
    "headers",
    [
        b"content-length: 17\r\ncontent-length: 18\r\n",
        b"content-length: 17, 18\r\n",
        b"content-length: +17\r\n",
        b"content-length: 0x11\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 17\r\n",
        b"transfer-encoding: xchunked\r\ncontent-length: 17\r\n",
        b"content-length : 17\r\n",
        b"content-length: 17\r\nx: a\rb\r\n",
    ],
)
def test_a_request_of_two_lengths_is_read_in_no_way(port: int, headers: bytes) -> None:
    answer = raw(port, HEAD + headers + b"\r\n" + BODY)
    assert b"HTTP/1.1 200" not in answer
    assert answer.count(b"HTTP/1.1") <= 1


def test_headers_without_end_are_not_kept(port: int) -> None:
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection, suppress(OSError):
        connection.sendall(HEAD)
        while sent < _FLOOD:
            sent += connection.send(b"x-%d: %b\r\n" % (sent, b"y" * 1000))
    assert sent < _FLOOD
    answer = raw(port, HEAD, b"x: " + b"y" * (2 * LONGEST_HEAD), b"y" * (2 * LONGEST_HEAD))
    assert b"431" in answer or answer == b""
    assert b"200 OK" in raw(port, HEAD + b"connection: close\r\ncontent-length: 17\r\n\r\n" + BODY)


def test_headers_that_end_in_time_are_read(port: int) -> None:
    head = HEAD + b"x: " + b"y" * 20_000 + b"\r\nconnection: close\r\ncontent-length: 17\r\n"
    assert b"200 OK" in raw(port, head[:5_000], head[5_000:], b"\r\n" + BODY)
    # A long body after them is no part of them.
    long = b'{"input":{"a":1}%b}' % (b" " * 500_000)
    head = HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(long)
    assert b"200 OK" in raw(port, head, long[:300_000], long[300_000:])


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
#: Nobody waits for the body of a request to nowhere.
ANSWERED = b"POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def flood(connection: socket.socket, piece: bytes) -> int:
    """How many bytes are taken, up to a flood."""
    sent = 0
    with suppress(OSError):
        while sent < _FLOOD:
            sent += connection.send(piece)
    return sent


@pytest.mark.parametrize("line", [b"x: %b\r\n" % (b"y" * 1_000), b"y" * 1_000], ids=["lines", "one line"])
def test_trailers_without_end_are_not_kept(port: int, line: bytes) -> None:
    # Of a request that waits for them, of one that has its answer, and before the first chunk as well.
    beginnings = (CHUNKED + b"11\r\n" + BODY + b"\r\n0\r\nx: ", CHUNKED + b"0\r\nx: ", CHUNKED + b"11;x=")
    for beginning in beginnings:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(beginning)
            assert flood(connection, line) < _FLOOD
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(ANSWERED + b"0\r\nx: ")
        assert b"404" in connection.recv(65536)
        assert flood(connection, line) < _FLOOD
    assert b"200 OK" in raw(port, HEAD + b"connection: close\r\ncontent-length: 17\r\n\r\n" + BODY)


def test_trailers_that_end_in_time_are_read_over(port: int) -> None:
    trailers = b"x: %b\r\n" % (b"y" * 20_000)
    long = b'{"input":{"a":1}%b}' % (b" " * 500_000)
    head = CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    for cut in range(1, 8):
        sent = b"%x\r\n%b\r\n0\r\n" % (len(long), long)
        assert b"200 OK" in raw(
            port, head, sent[:-cut], sent[-cut:], trailers[:9_000], trailers[9_000:], b"\r\n"
        )


def test_whoever_has_an_answer_and_sends_a_little_more_does_not_stay(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(ANSWERED)
        assert b"404" in connection.recv(65536)
        connection.sendall(b"0\r\nx: y")
        assert connection.recv(65536) == b""


def test_headers_that_are_too_long_are_no_answer_to_the_request_before(port: int) -> None:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection, suppress(OSError):
        connection.sendall(HEAD.replace(b"/add/", b"/wait/") + b"content-length: 2\r\n\r\n{}" + HEAD)
        assert flood(connection, b"x: %b\r\n" % (b"y" * 1_000)) < _FLOOD
        answer = connection.recv(65536)
    assert answer == b""


def dripped(port: int, first: bytes, drop: bytes) -> bytes:
    """What the server says until it hangs up on who sends this a little at a time."""
    answer, deadline = b"", time.monotonic() + PATIENCE
    with socket.create_connection(("127.0.0.1", port), timeout=0.02) as connection, suppress(ConnectionError):
        connection.sendall(first)
        while time.monotonic() < deadline:
            connection.sendall(drop)
            with suppress(TimeoutError):
                if not (piece := connection.recv(65536)):
                    return answer
                answer += piece
        pytest.fail("It is still connected.")
    return answer


@pytest.mark.parametrize(
    ("first", "drop", "told"),
    [
        (b"", b"", b""),
        (HEAD, b"x: y\r\n", b"408"),
        (HEAD + b"content-length: 5000\r\n\r\n", b" ", b"408"),
        (CHUNKED, b"1\r\n \r\n", b"408"),
        (ANSWERED, b"1\r\n \r\n", b"404"),
        (b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n", b"\r\n", b"404"),
    ],
    ids=["nothing", "headers", "body", "chunks", "rest", "between"],
)
def test_whoever_sends_a_little_at_a_time_does_not_stay(
    port: int, monkeypatch: pytest.MonkeyPatch, first: bytes, drop: bytes, told: bytes
) -> None:
    monkeypatch.setattr(protocol, "PATIENCE", 0.1)
    answer = dripped(port, first, drop)
    assert told in answer
    assert answer.count(b"HTTP/1.1") == bool(told)


def test_a_call_that_takes_long_is_not_hung_up_on(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "PATIENCE", 0.1)
    head = HEAD.replace(b"/add/", b"/held/") + b"connection: close\r\ncontent-length: 2\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as call:
        call.sendall(head + b"{}")
        try:
            for _ in range(2):
                assert b"408" in dripped(port, HEAD, b"")
        finally:
            HELD.set()
        assert b"200 OK" in call.recv(65536)


def asking(port: int, path: str, buffer: int = 4_096) -> socket.socket:
    """A connection that has asked, and that the system reads little on by itself."""
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect(("127.0.0.1", port))
    head = HEAD.replace(b"/add/invoke", b"/" + path.encode())
    connection.sendall(head + b"connection: close\r\ncontent-length: 2\r\n\r\n{}")
    return connection


@pytest.mark.parametrize("path", ["large/invoke", "pour/stream"])
def test_whoever_does_not_read_an_answer_does_not_stay(
    port: int, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(protocol, "PATIENCE", 0.1)
    with asking(port, path) as connection:
        watch = select.poll()
        watch.register(connection, 0)
        assert watch.poll(PATIENCE * 1_000)


def test_whoever_reads_on_gets_all_of_an_answer_however_slowly(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "PATIENCE", 0.7)
    read, begun = 0, time.monotonic()
    with asking(port, "large/invoke", 65_536) as connection:
        while piece := connection.recv(16_384):
            read += len(piece)
            if time.monotonic() - begun < 3:
                # The system takes more of the answer by the megabyte, each of which takes longer than the server waits.
                time.sleep(0.03)
    assert read > _LARGE


@pytest.mark.parametrize("at_once", [True, False])
def test_what_comes_in_a_trailer_is_no_header(port: int, at_once: bool) -> None:
    """RFC 9110, 6.5.1: nobody before this server has looked at it."""
    head = b"POST /fairlead/actions/who/invoke HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    head += b"content-type: application/json\r\ntransfer-encoding: chunked\r\n"
    parts = [
        b"1\r\n{\r\n",
        b"1;x=y\r\n}\r\n",
        b"0\r\n",
        b"X-Caller: root\r\nexpect: 100-continue\r\n",
        b"\r\n",
    ]

    def asked(headers: bytes) -> dict[str, Any]:
        sent = [head + headers + b"\r\n", *parts]
        answer = raw(port, *([b"".join(sent)] if at_once else sent))
        told: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
        return told

    assert asked(b"")["data"] is None
    assert asked(b"X-Caller: ann\r\n")["data"] == {"id": "ann"}


@pytest.mark.parametrize("depth", [130, 400, 1_000, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_deep_body_is_refused_before_anything_walks_it(
    app: App, capsys: pytest.CaptureFixture[str], depth: int, opening: bytes
) -> None:
    deep = opening * depth + b"1" + (b"]" if opening == b"[" else b"}") * depth
    for path, body in (
        ("/fairlead/actions/keep/invoke", b'{"input":{"thing":{"a":%b}},"idempotencyKey":"k"}' % deep),
        ("/fairlead/actions/keep/invoke", b'{"input":{"thing":{}},"metadata":{"a":%b}}' % deep),
        ("/fairlead/batch", b'{"calls":[{"action":"keep","input":{"thing":{"a":%b}}}]}' % deep),
        ("/fairlead/actions/keep/stream", b'{"input":{"thing":{"a":%b}}}' % deep),
    ):
        answer = call(app, path, body)
        assert (answer.status, code(answer)) == (400, "INVALID_JSON_BODY")
    assert "Traceback" not in capsys.readouterr().err


def test_brackets_in_a_text_are_no_levels(app: App) -> None:
    body = {"input": {"thing": {"text": "[" * 5_000, "many": [[{}]] * 500}}}
    assert call(app, "/fairlead/actions/keep/invoke", body).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":{"a":%b}}' % (b"9" * 5_000),
        b'{"input":{"a":1e999}}',
        b'{"input":{"a":-1e400}}',
        b'{"input":{"a":1},"timeoutMs":%b}' % (b"9" * 400),
        b'{"input":{"a":1},"timeoutMs":-0.0}',
        json.dumps({"input": {f"k{number}": 1 for number in range(50_000)}}).encode(),
        json.dumps({f"k{number}": 1 for number in range(50_000)}).encode(),
        json.dumps({"input": {"a": ["x"] * 50_000}}).encode(),
        rb'{"input":{"a":"\ud800"}}',
        rb'{"\ud800":123456789012345678901234567890}',
        b'\xef\xbb\xbf{"input":{"a":1}}',
        b'{"input":{"a":1}}\x00',
    ],
)
def test_bombs_get_a_short_refusal(app: App, body: bytes) -> None:
    answer = call(app, "/fairlead/actions/add/invoke", body)
    assert answer.status == 400
    assert len(answer.body) < 50_000


def test_a_key_as_long_as_a_book_is_refused(app: App) -> None:
    body: dict[str, Any] = {"input": {"thing": {}}}
    path = "/fairlead/actions/keep/invoke"
    assert call(app, path, {**body, "idempotencyKey": "k" * 255}).status == 200
    assert code(call(app, path, {**body, "idempotencyKey": "k" * 256})) == "VALIDATION_ERROR"
    assert code(call(app, path, body, Idempotency_Key="k" * 256)) == "VALIDATION_ERROR"
    assert code(call(app, path, body, Idempotency_Key=" ")) == "VALIDATION_ERROR"
    one = {"calls": [{"action": "keep", **body, "idempotencyKey": "k" * 256}]}
    refused = json.loads(call(app, "/fairlead/batch", one).body)["results"][0]
    assert refused["error"]["code"] == "VALIDATION_ERROR"


def test_nobody_gets_anothers_answer_by_their_key(app: App) -> None:
    body = {"input": {"thing": {}}, "idempotencyKey": "shared"}
    path = "/fairlead/actions/keep/invoke"
    first = [json.loads(call(app, path, body, X_Caller=name).body)["data"] for name in ("ann", "bob")]
    again = [json.loads(call(app, path, body, X_Caller=name).body)["data"] for name in ("ann", "bob")]
    stranger = json.loads(call(app, path, body).body)["data"]
    assert first == again == [1, 2]
    assert stranger == 3
    # A key cannot be written so that it looks like another caller's.
    forged = {**body, "idempotencyKey": 'user:{"id":"ann"}\nshared'}
    assert json.loads(call(app, path, forged).body)["data"] == 4


def test_a_confirmation_is_good_for_one_caller_and_one_input(app: App) -> None:
    path = "/fairlead/actions/burn/invoke"
    options = {"include_destructive": True}

    def burn(what: str, caller: str, confirm: Any = None) -> dict[str, Any]:
        body = {"input": {"what": what}, "confirm": confirm}
        told: dict[str, Any] = json.loads(call(app, path, body, options, X_Caller=caller).body)
        return told

    token = burn("ships", "ann")["error"]["details"]["confirmation"]["code"]
    assert burn("ships", "bob", token)["ok"] is False
    assert burn("town", "ann", token)["ok"] is False
    assert burn("ships", "ann", token[:-1])["ok"] is False
    assert burn("ships", "ann", token)["ok"] is True


def test_the_edge_has_the_last_word_and_names_mean_nothing(app: App) -> None:
    body = {
        "metadata": {"edge": "no", "__proto__": {"admin": True}, "__class__": "Admin", "constructor": 1},
        "user": {"id": "root"},
        "auth": {"permissions": ["*"]},
    }
    told = json.loads(call(app, "/fairlead/actions/who/invoke", body, X_Caller="ann").body)
    assert told["data"]["user"] == {"id": "ann"}
    assert told["data"]["metadata"]["edge"] == "yes"
    assert told["data"]["metadata"]["__class__"] == "Admin"
    assert len(told["meta"]["warnings"]) == 2


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40), name=st.sampled_from(["x-request-id", "traceparent", "tracestate"]))
def test_no_header_can_be_made_to_say_more(text: str, name: str) -> None:
    app = App("x")

    @app.action
    async def odd(text: str) -> None:
        """Fail in words of the caller's own."""
        raise Failure(Kind.unauthenticated, text or "x", retry_after=1, details={"permissions": [text]})

    sent = {**JSON, name: text.encode().decode("latin-1")}
    body = json.dumps({"input": {"text": text}}).encode()

    async def go() -> Response:
        return await request(app.http(), "POST", "/fairlead/actions/odd/invoke", body, sent)

    answer = asyncio.run(go())
    assert answer.status == 401
    for value in answer.headers.values():
        assert value.isascii()
        assert value.isprintable()


def test_labels_of_metrics_cannot_be_broken_or_made_without_end(app: App) -> None:
    site = app.http()

    async def go() -> bytes:
        for number in range(300):
            body = json.dumps({"input": {"text": f'x"}} 1\nforged{{a="{number}\\'}}).encode()
            await request(site, "POST", "/fairlead/actions/odd/invoke", body, JSON)
            await request(site, "POST", f"/fairlead/actions/none{number}/invoke", b"{}", JSON)
        return (await request(site, "GET", "/metrics")).body

    text = asyncio.run(go()).decode()
    assert not [line for line in text.splitlines() if line.startswith("forged")]
    assert text.count('fairlead_invocations_total{action="odd"') <= 110
    assert "none1" not in text


@pytest.mark.parametrize("verb", ["invoke", "stream"])
def test_what_is_hidden_looks_like_what_is_not_there(app: App, verb: str) -> None:
    answers = []
    for name in ("vault", "vaulx"):
        told = call(app, f"/fairlead/actions/{name}/{verb}", {"confirm": True})
        answers.append((told.status, told.body.replace(name.encode(), b"?"), sorted(told.headers)))
    assert answers[0] == answers[1]
    batch = {"calls": [{"action": "vault"}, {"action": "vaulx"}]}
    told = json.loads(call(app, "/fairlead/batch", batch).body.replace(b"vaulx", b"vault"))["results"]
    assert told[0] == told[1]


def test_strangers_learn_nothing_where_none_are_taken(app: App) -> None:
    keys = ApiKeys({KEY: {"name": "ann"}}, required=True)
    site = app.http(resolve_context=keys)

    def get(path: str, **headers: str) -> int:
        return asyncio.run(request(site, "GET", path, b"", headers)).status

    for path in (
        "/fairlead/actions",
        "/fairlead/actions/add",
        "/openapi.json",
        "/metrics",
        "/ageniti/actions",
    ):
        assert get(path) == 401, path
        assert get(path, authorization=f"Bearer {KEY}") == 200, path
        assert get(path, authorization=f"Bearer {KEY}x") == 401, path
    # The page has nothing of the app in it, and whoever watches a server needs no key.
    for path in ("/docs", "/healthz", "/readyz"):
        assert get(path) == 200, path
    # Nor does the order of mistakes tell whether there is such an action.
    for name in ("add", "none"):
        answer = asyncio.run(request(site, "POST", f"/fairlead/actions/{name}/invoke", b"{", JSON))
        assert answer.status == 401


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", ""],
)
@pytest.mark.parametrize(
    "path", ["/fairlead/actions/add/invoke", "/fairlead/actions/add/stream", "/ageniti/batch"]
)
def test_what_any_page_may_send_is_refused(app: App, kind: str, path: str) -> None:
    answer = call(app, path, b'{"input":{"a":1}}', content_type=kind, Origin="https://evil.example")
    assert (answer.status, code(answer)) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "origin", ["null", "https://app.example.evil", "https://app.example:444", "http://app.example"]
)
def test_an_origin_that_is_nearly_right_is_not(app: App, origin: str) -> None:
    options = {"cors": {"origins": ["https://app.example"], "credentials": True}}
    answer = call(app, "/fairlead/actions/add/invoke", {"input": {"a": 1}}, options, Origin=origin)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "origin" in answer.headers["vary"]


@pytest.mark.parametrize("origin", ["null", "*"])
def test_a_page_without_an_origin_cannot_be_let_in_with_credentials(app: App, origin: str) -> None:
    from fairlead.actions import DefinitionError

    with pytest.raises(DefinitionError):
        app.http(cors={"origins": [origin], "credentials": True})


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "TRACE", "PATCH"])
def test_only_a_post_calls(app: App, method: str) -> None:
    site = app.http()
    override = {
        **JSON,
        "x-http-method-override": "POST",
        "x-method-override": "POST",
        "x-http-method": "POST",
    }
    for verb in ("invoke", "stream"):
        path = f"/fairlead/actions/add/{verb}?_method=POST"
        answer = asyncio.run(request(site, method, path.partition("?")[0], b'{"input":{"a":1}}', override))
        assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize(
    "path",
    [
        "/fairlead/actions/../actions/add/invoke",
        "/fairlead/./actions/add/invoke",
        "/fairlead/actions//add/invoke",
        "/fairlead//actions/add/invoke",
        "/FAIRLEAD/actions/add/invoke",
        "/fairlead/actions/add;x=1/invoke",
        "/fairlead/actions/add/invoke;x",
        "/fairlead/actions/add\x00/invoke",
        "/fairlead/actions/\uff41dd/invoke",
        "/fairlead/actions/add\u200b/invoke",
        "/fairlead/actions/ADD/invoke",
        "fairlead/actions/add/invoke",
        "/fairlead\\actions\\add\\invoke",
    ],
)
def test_an_address_has_one_spelling(app: App, path: str) -> None:
    answer = call(app, path, {"input": {"a": 1}})
    assert answer.status == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "a.harbour.example.evil", "", "[::1]evil"]
)
def test_a_name_that_is_not_ours_is_turned_away_everywhere(app: App, host: str) -> None:
    site = app.http(allowed_hosts=["harbour.example", "*.harbour.example", "[::1]"])
    for path in ("/docs", "/openapi.json", "/fairlead/actions", "/mcp", "/healthz"):
        assert asyncio.run(request(site, "GET", path, b"", {"host": host})).status == 403
    for name in ("harbour.example:8000", "HARBOUR.example", "a.harbour.example", "[::1]:8000", "[::1]"):
        assert asyncio.run(request(site, "GET", "/healthz", b"", {"host": name})).status == 200


def test_every_name_may_be_let_in_by_a_star(app: App) -> None:
    site = app.http(allowed_hosts=["*"])
    for path in ("/openapi.json", "/fairlead/actions"):
        assert asyncio.run(request(site, "GET", path, b"", {"host": "any.example"})).status == 200


def test_a_document_tells_nothing_of_the_host_it_was_asked_by(app: App) -> None:
    forged = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-prefix": "/evil"}
    for path in ("/openapi.json", "/docs", "/fairlead/actions"):
        assert b"evil" not in asyncio.run(request(app.http(), "GET", path, b"", forged)).body


def test_many_headers_cost_little_and_change_nothing(app: App) -> None:
    many = {f"x-{number}": "y" for number in range(5_000)}
    many |= {
        "accept": "*/*;q=0," * 5_000,
        "accept-encoding": "gzip;q=," * 5_000,
        "if-none-match": '"a",' * 5_000,
    }
    assert call(app, "/fairlead/actions/add/invoke", {"input": {"a": 1}}, None, **many).status == 200


TRACED = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)

from fairlead import App
from fairlead.testing.asgi import request

app = App("x")

@app.action
async def look() -> int:
    "Look."
    await asyncio.sleep(0)
    return 1

site = app.http()
JSON = {"content-type": "application/json"}
GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

def seen(path, parent, body=b"{}"):
    spans.clear()
    asyncio.run(request(site, "POST", path, body, {**JSON, "traceparent": parent}))
    return [
        [format(span.context.trace_id, "032x"), span.parent and format(span.parent.span_id, "016x")]
        for span in spans.get_finished_spans()
    ]

batch = b'{"calls":[{"action":"look"},{"action":"look"}]}'
print(json.dumps([
    seen("/fairlead/actions/look/invoke", GOOD),
    seen("/fairlead/actions/look/stream", GOOD),
    seen("/fairlead/batch", GOOD, batch),
    seen("/fairlead/actions/look/invoke", GOOD.replace("0af7", "XXXX")),
    seen("/fairlead/actions/look/invoke", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"),
]))
"""


def test_a_trace_goes_on_where_it_is_well_formed_and_nowhere_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=PATIENCE * 2, check=False
    )
    assert done.returncode == 0, done.stderr
    invoked, streamed, batched, *malformed = json.loads(done.stdout)
    child = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
    assert (invoked, streamed, batched) == ([child], [child], [child, child])
    for told in malformed:
        assert told[0][0] != child[0]
        assert told[0][1] is None
