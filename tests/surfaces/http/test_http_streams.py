"""Streams over HTTP: events as they happen, in order, to those who listen; and what happens when they leave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse

Open = Callable[..., httpx.Client]
PATIENCE = 20.0


def stream(client: httpx.Client, name: str, input: Any = None) -> list[Any]:
    with connect_sse(
        client, "POST", f"/fairlead/actions/{name}/stream", json={"input": input or {}}
    ) as source:
        return list(source.iter_sse())


def test_events_come_numbered_and_the_result_is_last(open_site: Open) -> None:
    events = stream(open_site(), "work")
    assert [event.event for event in events] == ["log", "progress", "log", "progress", "artifact", "result"]
    assert [event.id for event in events] == ["1", "2", "3", "4", "5", "6"]
    last = events[-1].json()
    assert last["type"] == "result"
    assert last["envelope"]["data"] == 2


def test_a_generators_items_are_chunks(open_site: Open) -> None:
    events = stream(open_site(), "count", {"n": 3})
    assert [event.event for event in events] == ["chunk", "chunk", "chunk", "result"]


def test_many_events_arrive_whole_and_in_order(open_site: Open) -> None:
    events = stream(open_site(), "count", {"n": 20_000})
    assert [event.json()["data"] for event in events[:-1]] == list(range(20_000))


def test_lines_of_json_are_given_to_those_who_ask(open_site: Open) -> None:
    headers = {"accept": "application/x-ndjson"}
    answer = open_site().post("/fairlead/actions/work/stream", json={}, headers=headers)
    assert answer.headers["content-type"] == "application/x-ndjson"
    events = [json.loads(line) for line in answer.text.splitlines()]
    assert events[-1]["envelope"]["ok"] is True


def test_a_call_that_is_refused_before_it_begins_is_an_ordinary_failure(open_site: Open) -> None:
    answer = open_site().post(
        "/fairlead/actions/add/stream", content=b"{", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400


@pytest.mark.parametrize(("input", "status"), [({}, 400), ({"code": "conflict"}, 409)])
def test_a_call_that_fails_before_it_says_anything_is_one_too(
    open_site: Open, input: dict[str, Any], status: int
) -> None:
    answer = open_site().post("/fairlead/actions/fail/stream", json={"input": input})
    assert (answer.status_code, answer.json()["ok"]) == (status, False)


def test_a_failure_within_a_stream_is_its_last_event(open_site: Open) -> None:
    events = stream(open_site(), "work", {"steps": -1})
    assert events[-1].json()["envelope"]["error"]["code"] == "CONFLICT"


def test_a_stream_that_is_quiet_at_first_is_opened_all_the_same(open_site: Open) -> None:
    with open_site().stream("POST", "/fairlead/actions/wait/stream", json={}) as answer:
        assert answer.status_code == 200


@pytest.mark.parametrize("verb", ["invoke", "stream"])
def test_a_client_that_goes_away_cancels_its_call(open_site: Open, harbour: Any, verb: str) -> None:
    client = open_site()

    def leave() -> None:
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"/fairlead/actions/wait/{verb}", json={}, timeout=httpx.Timeout(PATIENCE, read=0.3))

    caller = threading.Thread(target=leave)
    caller.start()
    assert harbour.waiting.wait(PATIENCE)
    assert harbour.cancelled.wait(PATIENCE)
    caller.join(PATIENCE)


def test_a_quiet_stream_says_that_it_lives(open_site: Open) -> None:
    client = open_site(keep_alive=0.05)
    with client.stream("POST", "/fairlead/actions/wait/stream", json={}) as answer:
        text = ""
        for part in answer.iter_text():
            text += part
            if ": keep-alive" in text:
                return
    raise AssertionError(text)
