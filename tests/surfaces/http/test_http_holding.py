"""Clients that leave, do not read, or send many calls at once: what runs for them is stopped or held back."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from fairlead import App, Context, Failure, Kind
from fairlead.testing.asgi import request

Open = Callable[..., httpx.Client]
PATIENCE = 20.0
JSON = {"content-type": "application/json"}


@contextmanager
def posted(client: httpx.Client, path: str, body: Any, **headers: str) -> Iterator[socket.socket]:
    """A request that was sent, and whose answer nobody reads."""
    content = json.dumps(body).encode()
    lines = {"host": "x", **JSON, "content-length": str(len(content)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    url = client.base_url
    with socket.socket() as connection:
        # So little room that the server notices soon.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect((url.host, url.port or 80))
        connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
        yield connection


def until(said: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not said():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


def test_a_client_that_does_not_read_holds_the_action_back(open_site: Open, harbour: Any) -> None:
    app: App = harbour.app
    made: list[int] = []
    ended = threading.Event()

    @app.action
    async def pour() -> Any:
        """Pour without end."""
        try:
            while True:
                made.append(1)
                yield "x" * 10_000
        finally:
            ended.set()

    client = open_site()
    with posted(client, "/fairlead/actions/pour/stream", {}):
        until(lambda: len(made) > 10)
        # It stands still, with what fits into the buffers on the way.
        until(lambda: len(made) == (threading.Event().wait(0.3), len(made))[1] or len(made) > 20_000)
        assert len(made) < 3_000
        assert client.get("/healthz").status_code == 200
    assert ended.wait(PATIENCE)


def test_a_sync_function_learns_that_its_client_left(open_site: Open, harbour: Any) -> None:
    app: App = harbour.app
    started, told = threading.Event(), threading.Event()

    @app.action
    def grind(ctx: Context) -> None:
        """Grind until told to stop."""
        started.set()
        until(lambda: ctx.signal.cancelled)
        told.set()

    with posted(open_site(), "/fairlead/actions/grind/invoke", {}):
        assert started.wait(PATIENCE)
    assert told.wait(PATIENCE)


def test_a_client_that_leaves_cancels_its_batch_and_no_further_call_begins(
    open_site: Open, harbour: Any
) -> None:
    app: App = harbour.app
    begun: list[int] = []
    gone: list[int] = []

    @app.action
    async def hold(n: int) -> None:
        """Hold."""
        begun.append(n)
        try:
            await asyncio.Event().wait()
        finally:
            gone.append(n)

    client = open_site(batch_width=2)
    calls = [{"action": "hold", "input": {"n": n}} for n in range(5)]
    with posted(client, "/fairlead/batch", {"calls": calls}):
        until(lambda: len(begun) == 2)
    until(lambda: len(gone) == 2)
    assert client.get("/metrics").text.count('code="CANCELLED"} 2') == 1
    assert begun == [0, 1]


def test_a_batch_runs_no_more_calls_at_once_than_it_may(open_site: Open, harbour: Any) -> None:
    app: App = harbour.app
    now, most = 0, 0

    @app.action
    async def busy() -> None:
        """Be busy."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1

    answer = open_site(batch_width=3).post("/fairlead/batch", json={"calls": [{"action": "busy"}] * 20})
    assert [result["ok"] for result in answer.json()["results"]] == [True] * 20
    assert most == 3


def test_a_body_that_comes_slowly_holds_nobody_up(open_site: Open) -> None:
    client = open_site()
    url = client.base_url
    with socket.create_connection((url.host, url.port or 80), timeout=PATIENCE) as slow:
        slow.sendall(
            b"POST /fairlead/actions/add/invoke HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b'transfer-encoding: chunked\r\n\r\n9\r\n{"input":\r\n'
        )
        assert client.post("/fairlead/actions/add/invoke", json={"input": {"a": 1}}).status_code == 200
        slow.sendall(b'8\r\n{"a":41}\r\n1\r\n}\r\n0\r\n\r\n')
        answer = b""
        while b'"data"' not in answer:
            answer += slow.recv(65536)
    assert b'"sum":42' in answer


def test_a_stream_is_not_compressed(open_site: Open) -> None:
    answer = open_site(gzip=1).post(
        "/fairlead/actions/count/stream", json={"input": {"n": 500}}, headers={"accept-encoding": "gzip"}
    )
    assert answer.headers["content-type"] == "text/event-stream"
    assert "content-encoding" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


async def test_a_failure_past_the_limit_keeps_its_code_in_a_stream() -> None:
    app = App("x")

    @app.action
    async def grumble(ctx: Context) -> None:
        """Complain at length, and fail."""
        ctx.logger.info("x" * 5_000)
        raise Failure(Kind.conflict, "No.")

    site = app.http(max_response=1_000)
    answer = await request(
        site, "POST", "/fairlead/actions/grumble/stream", b"{}", {**JSON, "accept": "application/x-ndjson"}
    )
    last = json.loads(answer.body.splitlines()[-1])
    assert last["envelope"]["error"]["code"] == "CONFLICT"
    assert last["envelope"]["logs"] == []


async def test_a_stream_waits_for_a_word_that_is_being_said() -> None:
    """A host whose `send` takes its time gets the answer's start before its end, whenever the call ends."""
    app = App("x")

    @app.action
    async def nap() -> int:
        """Nap for about as long as it takes to open a quiet stream."""
        await asyncio.sleep(0.021)
        return 1

    site = app.http(keep_alive=0.001)
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        if not sent and not asked:
            asked.append(1)
            return {"type": "http.request", "body": b"{}"}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        await asyncio.sleep(0.004)
        sent.append(message["type"])

    for _ in range(20):
        asked: list[int] = []
        sent.clear()
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/fairlead/actions/nap/stream",
            "headers": [(b"content-type", b"application/json")],
        }
        await asyncio.wait_for(site(scope, receive, send), PATIENCE)
        assert sent[0] == "http.response.start"
        assert sent.count("http.response.start") == 1


async def test_a_server_that_stops_tells_whom_it_cuts_off() -> None:
    app = App("x")
    running = asyncio.Event()

    @app.action
    async def hold() -> None:
        """Hold."""
        running.set()
        await asyncio.Event().wait()

    site = app.http()
    calling = asyncio.ensure_future(request(site, "POST", "/fairlead/actions/hold/invoke", b"{}", JSON))
    await asyncio.wait_for(running.wait(), PATIENCE)
    assert site.in_flight == 1
    await site.drain(0)
    calling.cancel()
    answer = await calling
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "CANCELLED")
    assert site.in_flight == 0


async def test_a_host_that_cancels_a_request_is_obeyed() -> None:
    app = App("x")
    running = asyncio.Event()

    @app.action
    async def hold() -> None:
        """Hold."""
        running.set()
        await asyncio.Event().wait()

    calling = asyncio.ensure_future(request(app.http(), "POST", "/fairlead/actions/hold/invoke", b"{}", JSON))
    await asyncio.wait_for(running.wait(), PATIENCE)
    calling.cancel()
    assert (await asyncio.gather(calling, return_exceptions=True))[0].__class__ is asyncio.CancelledError
