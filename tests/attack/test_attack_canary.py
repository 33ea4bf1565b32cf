"""One secret, put wherever secrets go in, and looked for wherever anything comes out: answers, logs, events, files."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from attack.canary import CANARY, aviary, files_in, leaks
from fairlead import App
from fairlead.gateway.keys import Keys
from fairlead.outgoing import Guard
from fairlead.store import Secrets
from fairlead.testing.asgi import request
from gateway.site_under_test import PATIENCE, serving, working
from servers import until

JSON = {
    "host": "localhost",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


async def by_every_surface(app: App) -> list[str]:
    """What callers are told, with the canary in inputs, metadata, keys and headers."""
    given = {"user": "ann", "password": CANARY, "pin": CANARY}
    wrong = {"user": 1, "password": [CANARY], "pin": CANARY, "api_key": CANARY}
    site = app.http(include_destructive=True)
    told: list[Any] = []
    for input in (given, wrong):
        body = {"input": input, "confirm": True, "metadata": {"token": CANARY}, "auth": {"token": CANARY}}
        call = {**body, "action": "login"}
        headers = {**JSON, "authorization": f"Bearer {CANARY}", "cookie": f"session={CANARY}"}
        rpc = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "login", "arguments": input},
        }
        for path, sent in (
            ("/fairlead/actions/login/invoke", body),
            ("/fairlead/actions/login/stream", body),
            ("/fairlead/batch", {"calls": [call]}),
            ("/mcp", rpc),
        ):
            answer = await request(site, "POST", path, json.dumps(sent).encode(), headers)
            told += [answer.headers, answer.body.decode()]
        runner = app.json_runner(auth={"token": CANARY})
        told.append(await runner.invoke(call))
        function = {
            "id": "1",
            "type": "function",
            "function": {"name": "login", "arguments": json.dumps(input)},
        }
        told.append(await app.tools("openai").execute(function, confirm=True, auth={"token": CANARY}))
        told += [event async for event in app.stream("login", input, confirm=True, auth={"token": CANARY})]
        told.append((await app.invoke("login", input, user={"id": "a", "password": CANARY})).to_dict())
    told.append((await request(site, "GET", "/metrics")).body.decode())
    return [repr(each) for each in told]


async def by_tasks(app: App) -> list[str]:
    told: list[Any] = []
    input = {"user": "ann", "api_key": CANARY, "pin": CANARY}
    tasks = [
        await app.tasks.submit("keep", input, auth={"token": CANARY}),
        await app.tasks.submit("note", {"password": CANARY}),
        await app.tasks.submit("login", {"user": "ann", "password": CANARY, "pin": CANARY}, confirm=True),
    ]
    for task in tasks:
        told += [event async for event in app.tasks.events(task.id)]
        told.append(await app.tasks.get(task.id))
    return [str(getattr(each, "data", each)) for each in told] + [
        str(getattr(each, "failure", "")) for each in told
    ]


def by_the_gateway(app: App) -> list[str]:
    key = Keys(app.store, app.wall).issue_now("ann", owner="local", permissions=["admin"])[0]
    options = {"guard": Guard(allow=["127.0.0.1"])}
    told = []
    with (
        receiving() as (receiver, delivered),
        serving(app.http(gateway=options)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE, headers={"authorization": f"Bearer {key}"}) as http,
    ):
        agent = "/api/v1/agents/helper"
        told.append(http.post(f"{agent}/invoke", json={"message": f"password={CANARY}"}))
        task = http.post(f"{agent}/tasks", json={"message": "go"}).json()["data"]
        hook = {"url": receiver, "token": CANARY, "secret": CANARY}
        told.append(http.post(f"{agent}/tasks/{task['task_id']}/webhooks", json=hook))
        told.append(http.get(f"{agent}/tasks/{task['task_id']}/events"))
        until(lambda: bool(delivered), "nothing is delivered")
        until(lambda: "500" in http.get("/api/v1/admin/deliveries").text, "no refusal is written down")
        for path in ("/api/v1/admin/audit", "/api/v1/admin/deliveries", "/api/v1/admin/tasks", "/metrics"):
            told.append(http.get(path))
        told.append(http.get("/api/v1/agents", headers={"authorization": f"Bearer oag_{CANARY}"}))
        told.append(http.get("/api/v1/agents", headers={"x-request-id": f"Bearer {CANARY}"}))
    return [*(str(each.headers) + each.text for each in told), *delivered, key]


@contextmanager
def receiving() -> Iterator[tuple[str, list[str]]]:
    """A receiver of webhooks that refuses them, and repeats what it was sent to prove who it is."""
    delivered: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            delivered.append(self.rfile.read(int(self.headers["content-length"])).decode())
            answer = f"Wrong: {self.headers}".encode()
            self.send_response(500)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", delivered
        server.shutdown()
        thread.join()


def test_a_secret_is_found_in_nothing_that_comes_out(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SOME_PASSWORD", CANARY)
    app = aviary(tmp_path)
    Secrets(app.store).set_now("stripe", CANARY)
    with working(app):
        told = asyncio.run(by_every_surface(app)) + asyncio.run(by_tasks(app))
        *heard, key = by_the_gateway(app)
    app.store.close()
    out, err = capfd.readouterr()
    places = {f"answer {number}": text for number, text in enumerate([*told, *heard])}
    places |= {"stdout": out, "stderr": err, "logs": caplog.text}
    places |= files_in(tmp_path)
    assert "store.db" in places
    assert leaks(places) == {}
    assert [place for place, text in places.items() if key[4:] in text] == []
