"""A task's stream: everything once, from any offset and any process, with signs of life, and one end."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import beeos_sdk as sdk
import httpx
import pytest
from httpx_sse import connect_sse

from fairlead import App
from fairlead.tasks import ledger
from gateway.site_under_test import (
    OWNER,
    PATIENCE,
    Site,
    add_keys,
    await_server,
    build,
    process,
    serving,
    store_away,
)
from servers import free_port
from warm import Warm


class Frame(NamedTuple):
    event: str
    id: str
    data: Any


def read(site: Site, agent: str, id: str, query: str = "", **headers: str) -> list[Frame]:
    """A whole stream, until the server closes it."""
    path = f"/agents/{agent}/tasks/{id}/events{query}"
    with site.raw() as client, connect_sse(client, "GET", path, headers=headers) as source:
        assert source.response.status_code == 200
        return [Frame(each.event, each.id, each.json()) for each in source.iter_sse()]


def offsets(frames: list[Frame]) -> list[int]:
    return [frame.data["offset"] for frame in frames if frame.event == "message"]


def test_the_sdk_reads_a_stream_to_its_end(site: Site) -> None:
    id = site.create("talker", "hi")
    text = site.tasks().stream_task_events("talker", id)
    pieces = [each for each in text.replace(": ping\n", "").split("\n\n") if each]
    assert pieces[-1] == 'event: end\ndata: {"reason":"task_terminal"}'
    assert sum(each.startswith("event: end") for each in pieces) == 1
    for each in pieces[:-1]:
        name, number, data = each.split("\n")
        message: Any = sdk.TaskSSEMessage.from_json(data.removeprefix("data: "))
        assert name == "event: message"
        assert number == f"id: {message.offset}"
    last: Any = sdk.TaskSSEEnd.from_json(pieces[-1].split("data: ")[1])
    assert last.reason == "task_terminal"


def test_what_is_streamed_is_what_was_said(site: Site) -> None:
    frames = read(site, "talker", site.create("talker", "hi"))
    said = [frame.data for frame in frames if frame.event == "message"]
    assert (said[0]["type"], said[0]["offset"], said[0]["body"]) == ("chat_message", 1, "hi")
    pieces = [each["payload"]["text"] for each in said if each["type"] == "agent_reply_delta"]
    assert "".join(pieces) == said[-1]["body"] == "one two three four five"
    assert (said[-1]["type"], said[-1]["state"], said[-1]["stop_reason"]) == (
        "agent_reply",
        "completed",
        "end_turn",
    )
    assert all("" not in each.values() for each in said)


def test_a_reader_resumes_from_any_offset_and_sees_each_one_once(site: Site) -> None:
    id = site.create("looker")
    whole = read(site, "looker", id)
    every = offsets(whole)
    assert every == sorted(set(every))
    for since in range(every[-1] + 2):
        rest = [offset for offset in every if offset > since]
        for frames in (
            read(site, "looker", id, f"?since={since}"),
            read(site, "looker", id, "", **{"Last-Event-ID": str(since)}),
            read(site, "looker", id, f"?since={since}", **{"Last-Event-ID": "1"}),
        ):
            assert offsets(frames) == rest
            assert [frame.event for frame in frames].count("end") == 1
            assert (frames[-1].event, frames[-1].data) == (whole[-1].event, whole[-1].data)


def test_a_stream_is_served_whatever_is_asked_for(site: Site) -> None:
    id = site.create("echo")
    site.ended("echo", id)
    with site.raw() as client:
        for accept in ("application/json", "*/*", "text/event-stream"):
            answer = client.get(f"/agents/echo/tasks/{id}/events", headers={"Accept": accept})
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["cache-control"] == "no-store"
        assert client.get(f"/agents/echo/tasks/{id}/events?since=x").status_code == 400
        odd = client.get(f"/agents/echo/tasks/{id}/events", headers={"Last-Event-ID": "odd"})
        assert odd.text.startswith("event: message\nid: 1\n")


def test_a_silent_task_gives_signs_of_life(site: Site) -> None:
    id = site.create("slow", "quiet")
    lines: list[str] = []
    with site.raw() as client, client.stream("GET", f"/agents/slow/tasks/{id}/events") as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if lines.count(": ping") == 3:
                site.leave("go-quiet")
    assert lines.count("event: end") == 1
    assert lines.count("event: message") >= 2


@pytest.mark.parametrize(
    ("agent", "type", "state", "stop"),
    [
        ("echo", "agent_reply", "completed", "end_turn"),
        ("broken", "agent_reply_error", "failed", "error"),
    ],
)
def test_every_end_is_a_message_and_an_end(site: Site, agent: str, type: str, state: str, stop: str) -> None:
    frames = read(site, agent, site.create(agent))
    last, end = frames[-2:]
    assert (last.data["type"], last.data["state"], last.data["stop_reason"]) == (type, state, stop)
    assert (end.event, end.data) == ("end", {"reason": "task_terminal"})


def test_a_stream_hears_of_a_cancel(site: Site) -> None:
    id = site.create("slow", "watched")
    site.seen("begun-watched")
    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(read, site, "slow", id)
        site.tasks().cancel_task("slow", id)
        frames = watching.result(PATIENCE)
    assert [frame.data.get("type") for frame in frames[-2:]] == ["chat_cancel", None]
    assert frames[-1].data == {"reason": "task_terminal"}


def test_a_rejected_task_ends_as_refused(site: Site, app: App) -> None:
    from fairlead.tasks.states import State

    def reject(task: str, reason: str) -> None:
        app.store.write_now(lambda tx: ledger.cut(tx, task, State.rejected, reason, app.wall()))

    for reason, type in (("agent_busy", "agent_busy"), ("No.", "agent.refuse")):
        id = site.create("slow", f"no-{type}")
        site.seen(f"begun-no-{type}")
        reject(id, reason)
        last = read(site, "slow", id)[-2].data
        assert (last["type"], last["state"], last["stop_reason"]) == (type, "refused", "refused")
        assert site.tasks().get_task("slow", id).data.status == "rejected"


def test_a_stream_says_that_it_ends_when_the_store_goes_away_and_is_read_on_later(
    site: Site, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = site.create("slow", "cut")
    site.seen("begun-cut")
    path = f"/agents/slow/tasks/{id}/events"
    with site.raw() as client, connect_sse(client, "GET", path) as source:
        frames = source.iter_sse()
        first = next(frames)
        with monkeypatch.context() as patch:
            store_away(patch, app)
            site.leave("go-cut")
            assert [(each.event, each.json()) for each in frames][-1] == ("end", {"reason": "stream_closed"})
    assert read(site, "slow", id, f"?since={first.json()['offset']}")[-1].data == {"reason": "task_terminal"}


def test_forgotten_pieces_are_told_of_once(site: Site, app: App) -> None:
    id = site.create("talker")
    every = offsets(read(site, "talker", id))
    app.store.write_now(lambda tx: ledger.thin(tx, id, 0))
    frames = read(site, "talker", id)
    assert frames[0].event == "backfill_truncated"
    told: Any = sdk.TaskSSEBackfillTruncated.from_json(json.dumps(frames[0].data))
    assert told.since == 0
    assert offsets(frames) == [every[0], every[-1]]
    assert [frame.event for frame in frames].count("backfill_truncated") == 1
    later = read(site, "talker", id, f"?since={told.oldest_redis_offset}")
    assert [frame.event for frame in later] == ["message", "end"]


def test_a_server_that_stops_tells_its_readers_to_go_on_elsewhere(app: App, tmp_path: Path) -> None:
    web = app.http()
    with serving(web) as url:
        site = Site(url, tmp_path)
        id = site.create("slow", "long")
        lines: list[str] = []
        began = threading.Event()

        def watch() -> None:
            with site.raw() as client, client.stream("GET", f"/agents/slow/tasks/{id}/events") as answer:
                for line in answer.iter_lines():
                    lines.append(line)
                    began.set()

        watching = threading.Thread(target=watch)
        watching.start()
        assert began.wait(PATIENCE)
        web.draining = True
        watching.join(PATIENCE)
        assert not watching.is_alive()
        assert 'data: {"reason":"stream_closed"}' in lines
        assert lines.count("event: end") == 1


@contextmanager
def two_gateways_and_a_worker(
    warm: Warm, url: str, folder: Path
) -> Iterator[tuple[Site, Site, list[subprocess.Popen[bytes]]]]:
    app = build(url, folder)
    add_keys(app)
    app.store.close()
    ports = [free_port(), free_port()]
    running = [process(warm, "serve", url, folder, port) for port in ports]
    running.append(process(warm, "work", url, folder))
    try:
        sites = [Site(f"http://127.0.0.1:{port}", folder) for port in ports]
        for site in sites:
            await_server(site.url)
        yield sites[0], sites[1], running
    finally:
        for each in running:
            each.kill()
            each.wait()


def test_two_gateways_serve_one_task(store_url: str, tmp_path: Path, warm_python: Warm) -> None:
    with two_gateways_and_a_worker(warm_python, store_url, tmp_path) as (one, other, _):
        id = one.create("slow", "far", idempotency_key="far")
        assert other.create("slow", "far", idempotency_key="far") == id
        one.seen("begun-far")
        with ThreadPoolExecutor(2) as threads:
            watching = [threads.submit(read, site, "slow", id) for site in (one, other)]
            one.leave("go-far")
            first, second = (each.result(PATIENCE) for each in watching)
        assert first == second
        assert other.tasks().get_task("slow", id).data.result == "done far"

        id = one.create("slow", "stop")
        one.seen("begun-stop")
        assert other.tasks().cancel_task("slow", id).data.status == "canceled"
        one.seen("stopped-stop")
        assert read(one, "slow", id)[-2].data["type"] == "chat_cancel"

        said = one.agents().invoke_agent("memory", sdk.InvokeAgentRequest(message="one")).data
        again = sdk.InvokeAgentRequest(message="two", context_id=said.context_id)
        assert other.agents().invoke_agent("memory", again).data.text == "one | two"


def test_a_reader_goes_on_at_another_gateway_when_its_own_is_killed(
    store_url: str, tmp_path: Path, warm_python: Warm
) -> None:
    with two_gateways_and_a_worker(warm_python, store_url, tmp_path) as (one, other, running):
        id = one.create("slow", "kill")
        seen: list[int] = []
        path = f"/agents/slow/tasks/{id}/events"
        with (
            one.raw() as client,
            suppress(httpx.TransportError),
            connect_sse(client, "GET", path) as source,
        ):
            for event in source.iter_sse():
                seen.append(event.json()["offset"])
                running[0].kill()
        one.leave("go-kill")
        rest = read(other, "slow", id, f"?since={seen[-1]}")
        assert seen + offsets(rest) == offsets(read(other, "slow", id))
        assert other.tasks(OWNER).get_task("slow", id).data.status == "completed"
