"""The HTTP transport against servers that misbehave: every way a call can go wrong has its code."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from fairlead import Failure, Kind
from fairlead.failures import action as wire
from fairlead.surfaces.client import Client, SyncClient, Unreachable
from fairlead.surfaces.client.sse import Reader

OK = json.dumps({"ok": True, "data": 1, "artifacts": [], "logs": [], "meta": {}}).encode()
SSE = "text/event-stream; charset=utf-8"
RESULT = b'data: {"type":"result","envelope":{"ok":true,"data":1}}\n\n'


def answer(status: int, body: bytes, kind: str = "application/json", headers: str = "") -> Any:
    async def send(exchange: Any) -> None:
        await exchange.respond(status, body, kind, headers)

    return send


def error(code: str, status: int = 500, headers: str = "", **more: Any) -> Any:
    told = {"code": code, "message": "m", "issues": [], "retryable": False, **more}
    return answer(status, json.dumps({"ok": False, "error": told}).encode(), headers=headers)


async def hang_up(exchange: Any) -> None:
    exchange.hang_up()


async def raised_by(work: Awaitable[Any]) -> Failure:
    with pytest.raises(Failure) as raised:
        await work
    return raised.value


async def events_of(events: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(events):
        return [event async for event in events]


async def never(exchange: Any) -> None:
    await exchange.script.gone.wait()


async def test_a_request_says_what_the_call_says(scripted: Any) -> None:
    async with scripted(answer(200, OK), answer(200, OK)) as script:
        client = Client(url=script.url, api_key="k3y", headers={"X-Trace": "t"})
        await client.greet(
            {"name": "ü"}, confirm="token", metadata={"a": 1}, idempotency_key="once", timeout=1.5
        )
        await client.with_options(retry=False).greet()
        await client.aclose()
    first, second = script.requests
    assert first.head.startswith("POST /fairlead/actions/greet/invoke HTTP/1.1\r\n")
    assert "\r\nauthorization: Bearer k3y\r\n" in first.head
    assert "\r\nx-trace: t\r\n" in first.head
    assert "\r\nidempotency-key: once\r\n" in first.head
    assert json.loads(first.body) == {
        "input": {"name": "ü"},
        "confirm": "token",
        "metadata": {"a": 1},
        "idempotencyKey": "once",
        "timeoutMs": 1500,
    }
    assert second.body == b"{}"


async def test_connections_are_kept_and_used_again(scripted: Any) -> None:
    stream = answer(200, RESULT, SSE)
    async with scripted(answer(200, OK), stream, answer(200, OK)) as script:
        async with Client(url=script.url) as client:
            await client.one()
            await events_of(client.stream("two"))
            await client.three()
        assert script.connections == 1


async def test_the_place_of_the_routes_can_be_chosen(scripted: Any) -> None:
    async with scripted(*[answer(200, OK)] * 3) as script:
        for url, base in ((script.url + "/", "/ageniti/"), (script.url + "/below", "/f"), (script.url, "")):
            async with Client(url=url, base_path=base) as client:
                await client.invoke("a@1.0.0")
    paths = [each.head.split()[1] for each in script.requests]
    assert paths == [
        "/ageniti/actions/a@1.0.0/invoke",
        "/below/f/actions/a@1.0.0/invoke",
        "/actions/a@1.0.0/invoke",
    ]


@pytest.mark.parametrize("identity", [{"user": "ada"}, {"auth": {"permissions": ["*"]}}])
async def test_29_identity_is_refused_before_anything_is_sent(
    scripted: Any, identity: dict[str, Any]
) -> None:
    async with scripted() as script, Client(url=script.url) as client:
        failure = await raised_by(client.greet({"name": "Ada"}, **identity))
        assert failure.code == "UNTRUSTED_REMOTE_IDENTITY"
        assert (await raised_by(events_of(client.stream("greet", {}, **identity)))).code == failure.code
        assert script.connections == 0


async def test_what_json_cannot_hold_is_refused_before_anything_is_sent(scripted: Any) -> None:
    async with scripted() as script, Client(url=script.url) as client:
        failure = await raised_by(client.greet({"boat": {"sails": [object()]}}))
        assert failure.code == "VALIDATION_ERROR"
        assert failure.issues[0].path == ("boat", "sails", 0)
        assert (await raised_by(client.greet(float("nan")))).code == "VALIDATION_ERROR"
        assert script.connections == 0


async def test_30_a_server_that_is_not_there_is_a_transport_error(scripted: Any) -> None:
    async with scripted() as script:
        pass
    async with Client(url=script.url, retry=False) as client:
        failure = await raised_by(client.greet(name="Ada"))
        assert failure.code == "TRANSPORT_ERROR"
        assert isinstance(failure, Unreachable)
        assert isinstance(failure.__cause__, httpx.ConnectError)
        assert wire.retryable(failure)
        assert (await raised_by(events_of(client.stream("greet")))).code == "TRANSPORT_ERROR"
    with SyncClient(url=script.url, retry=False) as sync, pytest.raises(Unreachable):
        sync.greet(name="Ada")


async def test_30_a_connection_that_breaks_is_a_transport_error_and_is_not_tried_again(scripted: Any) -> None:
    async def half(exchange: Any) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        exchange.hang_up()

    async with scripted(hang_up, half) as script, Client(url=script.url) as client:
        for _ in range(2):
            failure = await raised_by(client.greet(name="Ada"))
            assert failure.code == "TRANSPORT_ERROR"
            assert not isinstance(failure, Unreachable)
        assert len(script.requests) == 2


@pytest.mark.parametrize(
    "reply",
    [
        answer(200, b"<html>hello</html>", "text/html"),
        answer(502, b"Bad gateway", "text/plain"),
        answer(200, b""),
        answer(200, b"[1]"),
        answer(200, b'"ok"'),
        answer(200, b'{"ok":"yes"}'),
        answer(200, b'{"data":1}'),
        answer(307, b"", headers="location: /elsewhere\r\n"),
        answer(200, b"not gzip", headers="content-encoding: gzip\r\n"),
    ],
)
async def test_30_what_is_not_an_envelope_is_an_invalid_response(scripted: Any, reply: Any) -> None:
    async with scripted(reply, reply) as script, Client(url=script.url) as client:
        assert (await raised_by(client.greet(name="Ada"))).code == "INVALID_RESPONSE"
        assert (await raised_by(events_of(client.stream("greet")))).code == "INVALID_RESPONSE"
        assert len(script.requests) == 2


async def test_a_failure_comes_back_as_it_was(scripted: Any) -> None:
    issue = {"path": ["a", 0], "code": "too_short", "message": "m", "expected": "2", "received": "1"}
    told = error(
        "CONFLICT",
        409,
        issues=[issue],
        details={"a": 1},
        field="a",
        expected="b",
        retryAfter=2.5,
        origin={"family": "host", "code": "plugin_busy"},
    )
    async with scripted(told) as script, Client(url=script.url) as client:
        reply = await client.greet({}, raw=True)
    failure = reply.failure
    assert failure is not None
    assert failure.kind is Kind.busy
    assert failure.origin == ("host", "plugin_busy")
    assert failure.issues[0].to_dict() == issue
    assert (failure.details, failure.field, failure.expected) == ({"a": 1}, "a", "b")
    assert failure.retry_after == 2.5
    assert reply.to_dict()["error"]["code"] == "CONFLICT"


async def test_a_code_nobody_knows_is_kept(scripted: Any) -> None:
    async with scripted(error("QUITE_NEW")) as script, Client(url=script.url) as client:
        assert (await raised_by(client.greet())).code == "QUITE_NEW"


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3.0), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("-1", None)]
)
async def test_retry_after_is_read_from_the_header(scripted: Any, header: str, seconds: float | None) -> None:
    told = error("RATE_LIMITED", 429, headers=f"retry-after: {header}\r\n")
    async with scripted(told) as script, Client(url=script.url) as client:
        assert (await raised_by(client.greet())).retry_after == seconds


async def test_a_compressed_answer_is_read(scripted: Any) -> None:
    packed = answer(200, gzip.compress(OK), headers="content-encoding: gzip\r\n")
    async with scripted(packed) as script, Client(url=script.url) as client:
        assert await client.greet() == 1


async def test_a_time_out_guards_the_wait(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.surfaces.client.http.GRACE", 0.02)
    async with scripted(never, never, never) as script, Client(url=script.url) as client:
        assert (await raised_by(client.greet({}, timeout=0.25))).code == "TIMEOUT"
        late = await raised_by(client.greet({}, deadline=0.25))
        assert (late.code, late.message) == ("TIMEOUT", "No answer came within 0.25 seconds.")
        assert (await raised_by(events_of(client.stream("greet", timeout=0.25)))).code == "TIMEOUT"
        assert [json.loads(each.body).get("timeoutMs") for each in script.requests] == [250, 250, 250]


async def test_a_slow_listener_does_not_use_up_the_time_of_its_stream(
    scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.surfaces.client.http.GRACE", 0.02)
    listening = asyncio.Event()

    async def in_turns(exchange: Any) -> None:
        await stream(exchange, b'data: {"type":"log"}\n\n', close=False)
        await listening.wait()
        await asyncio.sleep(0)  # it waits for more by now
        await exchange.send(b"%x\r\n%b\r\n" % (len(RESULT), RESULT))
        exchange.hang_up()

    async with scripted(in_turns) as script, Client(url=script.url) as client:
        seen = []
        # On a busy machine even a stream that is ready takes a while.
        async for event in client.stream("greet", timeout=1):
            seen.append(event["type"])
            if len(seen) == 1:
                await asyncio.sleep(1.1)  # the listener's own time
                listening.set()
        assert seen == ["log", "result"]


async def test_cancelling_the_awaiting_task_closes_the_request(scripted: Any) -> None:
    async with scripted(never) as script, Client(url=script.url) as client:
        task = asyncio.ensure_future(client.greet(name="Ada"))
        await asyncio.wait_for(script.begun.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(script.gone.wait(), 5)


async def stream(exchange: Any, *pieces: bytes, close: bool = True) -> None:
    await exchange.send(
        f"HTTP/1.1 200 OK\r\ncontent-type: {SSE}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    )
    for piece in pieces:
        await exchange.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    if close:
        exchange.hang_up()


async def test_leaving_a_stream_early_closes_it(scripted: Any) -> None:
    async def endless(exchange: Any) -> None:
        await stream(exchange, b'data: {"type":"log"}\n\n', close=False)
        await exchange.script.gone.wait()

    async with scripted(endless, endless) as script:
        async with Client(url=script.url) as client:
            async for event in client.stream("greet"):
                assert event == {"type": "log"}
                break
            await asyncio.wait_for(script.gone.wait(), 5)
        script.gone.clear()

        def leave() -> None:
            with SyncClient(url=script.url) as sync:
                for event in sync.stream("greet"):
                    assert event == {"type": "log"}
                    return

        await asyncio.to_thread(leave)
        await asyncio.wait_for(script.gone.wait(), 5)


async def test_events_may_come_in_any_pieces(scripted: Any) -> None:
    whole = b': hello\n\nevent: log\nid: 1\ndata: {"type":"log",\ndata: "message":"\xc3\xbc"}\n\n' + RESULT
    bytewise = [whole[n : n + 1] for n in range(len(whole))]
    async with scripted(streamed(bytewise)) as script, Client(url=script.url) as client:
        events = await events_of(client.stream("greet"))
    assert events[0] == {"type": "log", "message": "ü"}
    assert [event["type"] for event in events] == ["log", "result"]


def streamed(pieces: list[bytes]) -> Callable[[Any], Awaitable[None]]:
    return lambda exchange: stream(exchange, *pieces)


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([], "TRANSPORT_ERROR"),
        ([b'data: {"type":"log"}\n\n'], "TRANSPORT_ERROR"),
        ([b"data: {\n\n"], "INVALID_RESPONSE"),
        ([b"data: 1\n\n"], "INVALID_RESPONSE"),
        ([b'data: {"type":1}\n\n'], "INVALID_RESPONSE"),
        ([b'data: {"type":"result"}\n\n'], "INVALID_RESPONSE"),
        ([b'data: {"type":"result","envelope":{"ok":1}}\n\n'], "INVALID_RESPONSE"),
    ],
)
async def test_a_stream_that_is_broken_says_how(scripted: Any, pieces: list[bytes], code: str) -> None:
    async with scripted(streamed(pieces)) as script, Client(url=script.url) as client:
        assert (await raised_by(events_of(client.stream("greet")))).code == code


async def test_an_event_that_is_too_long_is_an_invalid_response(
    scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader.__init__, "__defaults__", (100,))
    async with scripted(streamed([b"data: " + b"x" * 200])) as script, Client(url=script.url) as client:
        assert (await raised_by(events_of(client.stream("greet")))).code == "INVALID_RESPONSE"


async def test_a_refused_stream_gives_the_refusal_as_its_result(scripted: Any) -> None:
    async with scripted(error("ACTION_NOT_FOUND", 404)) as script, Client(url=script.url) as client:
        [event] = await events_of(client.stream("greet"))
    assert event["type"] == "result"
    assert event["envelope"]["error"]["code"] == "ACTION_NOT_FOUND"


async def test_kinds_of_events_that_are_new_are_passed_on(scripted: Any) -> None:
    body = b'data: {"type":"weather","wind":7}\n\n' + RESULT + b"data: after the end\n\n"
    async with scripted(answer(200, body, SSE)) as script, Client(url=script.url) as client:
        events = await events_of(client.stream("greet"))
    assert [event["type"] for event in events] == ["weather", "result"]


async def test_an_http_client_of_ones_own_is_used_and_left_open(scripted: Any) -> None:
    async with scripted(answer(200, OK)) as script, httpx.AsyncClient(headers={"x-mine": "1"}) as http:
        async with Client(url=script.url, http=http) as client:
            assert await client.greet() == 1
        assert not http.is_closed
    assert "x-mine: 1" in script.requests[0].head


def test_a_client_lives_on_whichever_loop_runs(harbour_url: str) -> None:
    client = Client(url=harbour_url)

    async def greet() -> str:
        async with client:
            name: str = await client.greet(name="Ada")
        return name

    assert [asyncio.run(greet()) for _ in range(2)] == ["Hello Ada"] * 2
