"""Invoking an agent, whole and as a stream: its answer, its failures, its context, its key, and what it leaves."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import httpx
import pytest
from beeos_sdk.exceptions import (
    BadRequestException,
    ConflictException,
    ForbiddenException,
    NotFoundException,
    ServiceException,
)

from fairlead import App, Kind
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel
from fairlead.failures import StoreFailure
from fairlead.gateway.entries import MARK, SQL
from fairlead.tasks.ids import task_id
from gateway.site_under_test import PATIENCE, STRANGER, Site, error, serving


def invoke(site: Site, agent: str, message: str = "hello", **body: Any) -> Any:
    return site.agents().invoke_agent(agent, sdk.InvokeAgentRequest(message=message, **body)).data


def stream(site: Site, agent: str, message: str = "hello", **body: Any) -> list[dict[str, Any]]:
    """The frames of an invoke, as the SDK gives them."""
    request = sdk.InvokeAgentRequest(message=message, **body)
    headers = {"Accept": "text/event-stream"}
    answer = site.agents().invoke_agent_without_preload_content(agent, request, _headers=headers)
    assert answer.status == 200, answer.read()
    pieces = answer.read().decode().replace(": ping\n", "").split("\n\n")
    assert pieces.pop() == ""
    assert all(piece.startswith("data: ") and "\n" not in piece for piece in pieces)
    return [json.loads(piece.removeprefix("data: ")) for piece in pieces]


def test_agents_are_listed_shown_and_changed(site: Site) -> None:
    agents = site.agents()
    listed = agents.list_agents(limit=100)
    assert (listed.total, "echo" in [each.id for each in listed.data]) == (11, True)
    assert agents.get_agent("echo").data.visibility == "private"
    changed = agents.update_agent("echo", sdk.UpdateAgentRequest(visibility="unlisted")).data
    assert changed.visibility == agents.get_agent("echo").data.visibility == "unlisted"
    with pytest.raises(ConflictException):
        agents.delete_agent("echo")


def test_an_agent_answers(site: Site) -> None:
    answer = invoke(site, "echo", "hi", metadata={"a": "b"}, timeout_ms=5000)
    assert (answer.text, answer.is_error) == ("You said: hi", False)
    assert answer.context_id.startswith("ch-")


def test_what_an_agent_fails_with_is_its_answer(site: Site) -> None:
    answer = invoke(site, "broken")
    assert (answer.text, answer.is_error) == ("The model is on strike.", True)


def test_where_the_store_is_is_no_caller_s_business(
    app: App, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def away(request: Any) -> Any:
        raise StoreFailure(Kind.unavailable, "The store postgresql://ann@inner.example/harbour is away.")

    app.add(Agent("lost", model=ScriptModel(away), instructions="You answer.").action)
    task = site.ended("lost", site.create("lost", "hello"))
    told = [invoke(site, "lost"), stream(site, "lost"), task, task.error]
    assert "The store" in task.error
    assert "inner.example" not in repr(told)
    assert "inner.example" in caplog.text


def test_an_agent_that_is_not_there_is_not_found_and_a_private_one_neither(site: Site) -> None:
    for agents, name in ((site.agents(), "nobody"), (site.agents(STRANGER), "echo")):
        with pytest.raises(NotFoundException) as refused:
            agents.invoke_agent(name, sdk.InvokeAgentRequest(message="x"))
        assert error(refused).code == "agent_not_found"


def test_a_busy_agent_is_a_conflict(site: Site) -> None:
    with pytest.raises(ConflictException) as refused:
        invoke(site, "busy")
    assert error(refused).message == "agent rejected the request"


def test_a_slow_agent_is_given_up_and_stopped(site: Site) -> None:
    with pytest.raises(ServiceException) as refused:
        invoke(site, "slow", "tardy", timeout_ms=200)
    assert refused.value.status == 504
    assert error(refused).code == "service_timeout"
    assert error(refused).message == "agent invocation timed out"
    site.seen("stopped-tardy")
    (row,) = site.tasks().list_agent_tasks("slow", state="all").data.tasks
    assert row.close_reason == "timeout"


def test_a_client_that_goes_away_stops_the_agent(site: Site) -> None:
    with site.raw() as client, pytest.raises(httpx.ReadTimeout):
        client.post(
            "/agents/slow/invoke", json={"message": "left"}, timeout=httpx.Timeout(PATIENCE, read=0.5)
        )
    site.seen("begun-left")
    site.seen("stopped-left")


def test_long_waits_are_cut_and_wrong_ones_refused(site: Site) -> None:
    with site.raw() as client:
        path = "/agents/echo/invoke"
        assert client.post(path, json={"message": "x", "timeout_ms": 10_000_000}).status_code == 200
        for wrong in (-1, "5", 1.5, True):
            answer = client.post(path, json={"message": "x", "timeout_ms": wrong})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_param"), wrong
        assert client.post(path, content=b"{").json()["error"]["code"] == "invalid_json"
        assert client.post(path, json={}).json()["error"]["code"] == "missing_param"
        assert client.post(path, json={"message": "y" * 1024 * 1024}).status_code == 413
        many = client.post(path, json={"message": "x", "attachments": [{"file_id": "f"}] * 17})
        assert many.status_code == 400
        assert client.get(path).status_code == 400


def test_a_stream_is_pieces_and_one_end(site: Site) -> None:
    *pieces, done = stream(site, "talker")
    assert {each["type"] for each in pieces} == {"delta"}
    assert len(pieces) == 5
    assert "".join(each["text"] for each in pieces) == done["text"] == "one two three four five"
    assert (done["type"], done["is_error"]) == ("done", False)
    assert done["context_id"].startswith("ch-")
    for each in pieces:
        sdk.InvokeAgentSSEDelta.from_dict(each)
    sdk.InvokeAgentSSEDone.from_dict(done)


def test_a_silent_stream_gives_signs_of_life(site: Site) -> None:
    headers = {"Accept": "text/event-stream"}
    request = sdk.InvokeAgentRequest(message="sdk")
    answer = site.agents().invoke_agent_without_preload_content("slow", request, _headers=headers)
    assert answer.read(14) == b": ping\n: ping\n"
    site.leave("go-sdk")
    *_, done, end = answer.read().decode().split("\n\n")
    assert (json.loads(done.partition("data: ")[2])["text"], end) == ("done sdk", "")
    with site.raw() as client:
        url = f"{site.url}/a2a/slow/v1/invoke"
        with client.stream("POST", url, json={"message": "plain"}, headers=headers) as plain:
            lines = plain.iter_lines()
            assert next(lines) == ": ping"
            site.leave("go-plain")
            said = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data")]
    assert (said[-1]["type"], said[-1]["text"]) == ("agent_reply", "done plain")


def test_thoughts_are_apart_from_the_answer(site: Site) -> None:
    frames = stream(site, "looker")
    thoughts = "".join(each["text"] for each in frames if each["type"] == "reasoning")
    words = "".join(each["text"] for each in frames if each["type"] == "delta")
    assert (thoughts, words, frames[-1]["text"]) == ("Let me see.", "Nothing there.", "Nothing there.")


def test_a_stream_that_breaks_says_so_and_ends(site: Site) -> None:
    *pieces, broken, done = stream(site, "stumbler")
    assert "".join(each["text"] for each in pieces) == "half of"
    assert (broken["type"], broken["code"], broken["status_code"]) == ("error", "service_timeout", 504)
    assert (done["type"], done["is_error"], done["code"], done["text"]) == (
        "done",
        True,
        "service_timeout",
        "",
    )


def test_an_agents_own_failure_is_no_error_frame(site: Site) -> None:
    (done,) = stream(site, "broken")
    assert (done["type"], done["is_error"], done["code"]) == ("done", True, "agent_reply_error")
    assert done["text"] == done["error"] == "The model is on strike."


def test_what_is_known_before_the_first_frame_is_ordinary_json(site: Site) -> None:
    with site.raw() as client:
        headers = {"Accept": "text/event-stream"}
        missing = client.post("/agents/nobody/invoke", json={"message": "x"}, headers=headers)
        assert (missing.status_code, missing.headers["content-type"]) == (404, "application/json")
        unknown = {"message": "x", "context_id": "ch-01a1e351-e2bf-7215-8b60-463f09c2ef98"}
        assert client.post("/agents/echo/invoke", json=unknown, headers=headers).status_code == 404


def test_a_context_goes_on_with_what_was_said(site: Site) -> None:
    first = invoke(site, "memory", "one")
    second = invoke(site, "memory", "two", context_id=first.context_id)
    assert (second.text, second.context_id) == ("one | two", first.context_id)
    frames = stream(site, "memory", "three", context_id=first.context_id)
    assert (frames[-1]["text"], frames[-1]["context_id"]) == ("one | two | three", first.context_id)
    begun = stream(site, "memory", "four")[-1]["context_id"]
    assert invoke(site, "memory", "five", context_id=begun).text == "four | five"
    assert invoke(site, "memory", "six", context_id="a name of mine").text == "six"
    assert invoke(site, "memory", "seven", context_id="a name of mine").text == "six | seven"


def test_a_question_is_answered_in_its_context(site: Site) -> None:
    asked = invoke(site, "asker")
    assert (asked.text, asked.is_error) == ("Which?", False)
    answer = invoke(site, "asker", "tea", context_id=asked.context_id)
    assert "tea" in answer.text
    assert answer.text.startswith("You chose")


def test_tools_that_were_used_are_remembered_in_a_context(site: Site) -> None:
    begun = invoke(site, "looker")
    again = invoke(site, "looker", "again", context_id=begun.context_id)
    assert again.text == "Nothing there."


def test_a_context_is_for_its_owner_and_its_agent(site: Site) -> None:
    begun = invoke(site, "memory", "mine")
    site.agents().update_agent("memory", sdk.UpdateAgentRequest(visibility="public"))
    theirs = sdk.InvokeAgentRequest(message="yours?", context_id=begun.context_id)
    with pytest.raises(ForbiddenException):
        site.agents(STRANGER).invoke_agent("memory", theirs)
    with pytest.raises(BadRequestException) as refused:
        invoke(site, "echo", "other", context_id=begun.context_id)
    assert error(refused).code == "invalid_param"
    invoke(site, "memory", "kept", context_id=begun.context_id)
    with pytest.raises(ForbiddenException):
        site.agents(STRANGER).invoke_agent("memory", theirs)


def test_a_name_for_a_context_is_its_callers_with_one_agent(site: Site) -> None:
    site.agents().update_agent("memory", sdk.UpdateAgentRequest(visibility="public"))
    stranger = site.agents(STRANGER)

    def theirs(message: str, context: str = "default") -> Any:
        request = sdk.InvokeAgentRequest(message=message, context_id=context)
        return stranger.invoke_agent("memory", request).data

    assert invoke(site, "memory", "mine", context_id="default").text == "mine"
    assert (theirs("hers").text, theirs("again").text) == ("hers", "hers | again")
    assert invoke(site, "memory", "more", context_id="default").text == "mine | more"
    assert invoke(site, "echo", "other", context_id="default").text == "You said: other"
    assert theirs("x").context_id == "default"
    task = site.create("memory", "later", context_id="default")
    assert site.ended("memory", task).result == "mine | more | later"
    with pytest.raises(ForbiddenException):
        theirs("x", task)


def test_every_invoke_leaves_a_task(site: Site) -> None:
    first = invoke(site, "echo", "hi", metadata={"trace": "t1", "protocol": "x"}, idempotency_key="m1")
    invoke(site, "broken")
    tasks = site.tasks()
    assert tasks.list_user_tasks().data.tasks == []
    rows = tasks.list_user_tasks(state="all").data.tasks
    assert [(row.agent_id, row.state, row.close_reason) for row in rows] == [
        ("broken", "closed", "failed"),
        ("echo", "closed", "completed"),
    ]
    assert (rows[1].task_id, rows[1].metadata) == (first.context_id, {"trace": "t1"})
    told = tasks.get_task("echo", first.context_id).data
    assert (told.status, told.result, told.caller_id) == ("completed", "You said: hi", "local")
    assert tasks.get_task("broken", rows[0].task_id).data.error == "The model is on strike."
    page = tasks.list_task_messages("echo", first.context_id).data
    assert [(each.type, each.offset, each.body) for each in page.messages] == [
        ("chat_message", 1, "hi"),
        ("agent_reply", 2, "You said: hi"),
    ]
    assert (page.latest_offset, page.has_more, page.messages[0].message_id) == (2, False, "m1")
    text = tasks.stream_task_events("echo", first.context_id, since=1)
    assert text.count("event: message") == text.count("event: end") == 1
    assert tasks.cancel_task("echo", first.context_id).data.status == "completed"
    with pytest.raises(ConflictException):
        tasks.continue_task("echo", first.context_id)


def test_what_invokes_left_is_written_before_the_server_ends(app: App, tmp_path: Path) -> None:
    with serving(app.http()) as url:
        left = {invoke(Site(url, tmp_path), "echo", f"m{number}").context_id for number in range(20)}
    with serving(app.http()) as url:
        rows = Site(url, tmp_path).tasks().list_user_tasks(state="all", limit=100).data.tasks
    assert {row.task_id for row in rows} == left


def test_what_invokes_left_long_ago_is_forgotten_though_nobody_creates_tasks(
    app: App, tmp_path: Path
) -> None:
    long_ago = app.wall() - 30 * 86400.0
    record = {"message": "old", "message_id": "m", "context_id": "c", "state": "completed", "text": "t"}
    row = ("echo", "local", long_ago, 0, json.dumps({**record, "ended": long_ago}))
    rows = [(f"{MARK}{task_id(long_ago)}", *row) for _ in range(1000)]
    app.store.write_now(lambda tx: tx.enter(SQL.record, rows))
    with serving(app.http()) as url:
        kept = invoke(Site(url, tmp_path), "echo").context_id
        waiting = threading.Event()
        for _ in range(int(PATIENCE / 0.05)):
            listed = Site(url, tmp_path).tasks().list_user_tasks(state="all", limit=100).data.tasks
            if [each.task_id for each in listed] == [kept]:
                return
            waiting.wait(0.05)
    raise AssertionError("old records are still there")


def test_secrets_are_not_kept_in_what_an_invoke_leaves(site: Site) -> None:
    begun = invoke(site, "echo", "my password=hunter2hunter2")
    with site.raw() as client:
        told = client.get(f"/agents/echo/tasks/{begun.context_id}/messages").text
    assert "You said" in told
    assert "hunter2" not in told


def test_the_same_key_gives_the_same_answer(site: Site) -> None:
    first = invoke(site, "echo", "hi", idempotency_key="k")
    assert invoke(site, "echo", "hi", idempotency_key="k") == first
    *pieces, done = stream(site, "echo", "hi", idempotency_key="k")
    assert "".join(each["text"] for each in pieces) == done["text"] == first.text
    assert done["context_id"] == first.context_id
    with pytest.raises(ConflictException) as refused:
        invoke(site, "echo", "bye", idempotency_key="k")
    assert error(refused).message == "duplicate idempotency key"
    assert len(site.tasks().list_user_tasks(state="all").data.tasks) == 1
    failed = invoke(site, "broken", idempotency_key="k")
    assert invoke(site, "broken", idempotency_key="k") == failed


def test_a_key_in_flight_is_waited_for(site: Site) -> None:
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(invoke, site, "slow", "twin", idempotency_key="k")
        site.seen("begun-twin")
        twin = threads.submit(invoke, site, "slow", "twin", idempotency_key="k")
        streamed = threads.submit(stream, site, "slow", "twin", idempotency_key="k")
        with pytest.raises(ServiceException):
            invoke(site, "slow", "twin", idempotency_key="k", timeout_ms=100)
        site.leave("go-twin")
        assert first.result(PATIENCE) == twin.result(PATIENCE)
        assert streamed.result(PATIENCE)[-1]["context_id"] == first.result().context_id
    assert len(site.tasks().list_agent_tasks("slow", state="all").data.tasks) == 1


def test_a_key_whose_turn_gave_no_answer_may_be_used_again(site: Site) -> None:
    with pytest.raises(ServiceException):
        invoke(site, "slow", "again", idempotency_key="k", timeout_ms=100)
    site.leave("go-again")
    assert invoke(site, "slow", "again", idempotency_key="k").text == "done again"
    with pytest.raises(ConflictException):
        invoke(site, "busy", idempotency_key="b")
    with pytest.raises(ConflictException) as refused:
        invoke(site, "busy", idempotency_key="b")
    assert error(refused).message == "agent rejected the request"


def test_what_no_store_can_keep_keeps_no_other_invoke_from_being_recorded(site: Site, app: App) -> None:
    from fairlead.gateway.recorder import Recorder

    gateway = app.http()._gateway
    recorder = Recorder(gateway)

    async def enter() -> None:
        about = {"message_id": "m", "context_id": "c", "message": "x", "state": "completed", "ended": 1.0}
        record = json.dumps({**about, "text": "fine"})
        good = [(f"ch-good{number}", "echo", "local", 1.0, 0, record) for number in range(3)]
        bad: Any = ("ch-bad", "echo", None, 1.0, 0, record)
        await recorder._enter([good[0], bad, *good[1:]])

    asyncio.run(enter())
    rows = site.tasks().list_user_tasks(state="all").data.tasks
    assert {row.task_id for row in rows} == {"ch-good0", "ch-good1", "ch-good2"}


def test_a_reply_with_a_character_that_no_store_keeps_is_recorded_without_it(site: Site) -> None:
    begun = invoke(site, "nul")
    assert begun.text == "a\0b"
    assert invoke(site, "echo", "after").text == "You said: after"
    assert site.tasks().get_task("nul", begun.context_id).data.result == "a\ufffdb"
    assert len(site.tasks().list_user_tasks(state="all").data.tasks) == 2


def test_calls_that_a_stopping_server_ends_are_told_so_in_order(app: App, tmp_path: Path) -> None:
    http = app.http()
    with ThreadPoolExecutor(4) as beside:
        with serving(http) as url:
            site = Site(url, tmp_path)

            def post(path: str, body: dict[str, Any], accept: str = "application/json") -> httpx.Response:
                with site.raw() as client:
                    client.headers["Accept"] = accept
                    return client.post(f"{url}{path}", json=body, timeout=PATIENCE)

            path = "/api/v1/agents/slow/invoke"
            blocking = beside.submit(post, path, {"message": "one", "idempotency_key": "k"})
            streamed = beside.submit(post, path, {"message": "two"}, "text/event-stream")
            said = [{"role": "user", "content": "three"}]
            chat = beside.submit(
                post, "/v1/chat/completions", {"model": "slow", "messages": said, "stream": True}
            )
            for word in ("one", "two", "three"):
                site.seen(f"begun-{word}")
            http.draining = True
        answer = blocking.result(PATIENCE)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "agent_service_unavailable"
        pieces = streamed.result(PATIENCE).text.replace(": ping\n", "").split("\n\n")
        told = [json.loads(each.removeprefix("data: ")) for each in pieces if each]
        assert [each["type"] for each in told] == ["error", "done"]
        assert {each["code"] for each in told} == {"agent_service_unavailable"}
        assert (told[0]["status_code"], told[1]["is_error"]) == (503, True)
        assert chat.result(PATIENCE).text.endswith("data: [DONE]\n\n")
