"""Agents that run elsewhere, asked as all others are: invokes, streams, tasks and conversations; on both databases."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import httpx
import pytest
from httpx_sse import connect_sse

from fairlead import App, Failure, Kind
from fairlead.gateway import AgentTurn, AgentWorker, Refused
from gateway.agent_under_test import worker
from gateway.site_under_test import OWNER, PATIENCE, STRANGER, Site, build, serving, store_away

Serve = Callable[..., None]


@contextmanager
def running(make: Callable[[], AgentWorker]) -> Iterator[AgentWorker]:
    """A worker on a thread of its own."""
    ready, stop = threading.Event(), threading.Event()
    made: list[AgentWorker] = []
    failed: list[BaseException] = []

    async def run() -> None:
        try:
            async with make() as each:
                made.append(each)
                ready.set()
                await asyncio.to_thread(stop.wait)
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    assert not failed, failed
    try:
        yield made[0]
    finally:
        stop.set()
        thread.join(PATIENCE)


@pytest.fixture
def agent(site: Site, tmp_path: Path) -> Iterator[AgentWorker]:
    with running(
        lambda: worker(site.url, OWNER, "far", tmp_path, description="Far away.", lease=5.0)
    ) as made:
        yield made


def invoke(site: Site, message: str, agent: str = "far", key: str = OWNER, **body: Any) -> Any:
    answer = site.agents(key).invoke_agent(agent, sdk.InvokeAgentRequest(message=message, **body))
    assert answer is not None
    return answer.data


def words(failure: sdk.exceptions.ApiException) -> str:
    assert failure.data is not None
    message: str = failure.data.error.message
    return message


def streamed(site: Site, message: str, agent: str = "far") -> Iterator[dict[str, Any]]:
    with (
        site.raw() as client,
        connect_sse(
            client,
            "POST",
            f"/agents/{agent}/invoke",
            json={"message": message},
            headers={"Accept": "text/event-stream"},
        ) as source,
    ):
        for event in source.iter_sse():
            yield event.json()


def test_an_agent_that_runs_elsewhere_is_listed_and_answers(site: Site, agent: AgentWorker) -> None:
    told = site.agents().get_agent("far")
    assert told is not None
    assert (told.data.name, told.data.description) == ("far", "Far away.")
    assert "far" in [each.id for each in site.agents().list_agents().data]
    answer = invoke(site, "hello")
    assert (answer.text, answer.is_error) == ("You said: hello", False)


async def test_an_agent_that_cannot_tell_its_gateway_that_it_stops_says_so(
    app: App, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(app.http(gateway={"heartbeat": 0.05})) as url:
        far = worker(url, OWNER, "far", tmp_path, lease=5.0)
        await far.start()
    await far.stop()
    told = [each.message for each in caplog.records if "stops" in each.message]
    assert len(told) == 1
    assert "'far'" in told[0]


def test_what_an_agent_is_told_of_its_caller(site: Site, agent: AgentWorker) -> None:
    answer = invoke(site, "about", metadata={"a": "b", "protocol": "x"}, idempotency_key="k1")
    told = json.loads(answer.text)
    assert told == {
        "context": answer.context_id,
        "message_id": "k1",
        "metadata": {"a": "b"},
        "caller": "local",
        "attempt": 1,
    }
    again = json.loads(invoke(site, "about", context_id=answer.context_id).text)
    assert again["context"] == answer.context_id


@pytest.mark.parametrize("wrong", [Failure(Kind.upstream, "password=hunter22"), Refused("password=hunter22")])
def test_what_an_agent_says_when_it_fails_is_shown_as_the_app_shows_it(site: Site, wrong: Failure) -> None:
    async def leaky(turn: AgentTurn) -> str:
        turn.think("password=hunter22")
        turn.activity("look", "password=hunter22", "password=hunter22", password="hunter22")
        raise wrong

    with running(lambda: AgentWorker(site.url, OWNER, "leaky", leaky)), site.raw() as client:
        asked = client.post("/agents/leaky/invoke", json={"message": "hi"})
        task = client.post("/agents/leaky/tasks", json={"message": "hi"}).json()["data"]["task_id"]
        events = client.get(f"/agents/leaky/tasks/{task}/events")
        seen = [asked.text, events.text, client.get(f"/agents/leaky/tasks/{task}").text]
    assert all("password=" in each for each in seen[:2]), seen
    assert "hunter22" not in "".join(seen)


def test_pieces_come_while_the_agent_is_still_at_work(site: Site, agent: AgentWorker) -> None:
    frames = streamed(site, "stream s1")
    assert next(frames) == {"type": "reasoning", "text": "Hmm."}
    assert next(frames) == {"type": "delta", "text": "one "}
    site.leave("go-s1")
    assert next(frames) == {"type": "delta", "text": "two"}
    done = next(frames)
    assert (done["type"], done["text"], done["is_error"]) == ("done", "one two", False)
    assert list(frames) == []


def test_a_stream_is_ended_in_order_when_the_store_goes_away(
    site: Site, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/runtime/registrations"
    with site.raw() as client, site.raw() as caller:
        lease = {"leaseId": client.post(path, json={"name": "far"}).json()["data"]["leaseId"]}
        body = {"message": "hello", "idempotency_key": "k"}
        headers = {"Accept": "text/event-stream"}
        with connect_sse(caller, "POST", "/agents/far/invoke", json=body, headers=headers) as source:
            taken: list[Any] = []
            while not taken:
                asked = {**lease, "blockMs": 1000}
                told = client.post(f"{path}/far/deliveries/read", json=asked).json()["data"]
                taken = told["deliveries"]
            say = f"{path}/far/deliveries/{taken[0]['deliveryId']}/say"
            piece = {"type": "delta", "text": "half "}
            assert client.post(say, json={**lease, "batch": "1", "events": [piece]}).status_code == 200
            frames = source.iter_sse()
            assert next(frames).json() == piece
            store_away(monkeypatch, app)
            client.post(say, json={**lease, "batch": "2", "events": [piece]})
            *_, error, done = [each.json() for each in frames]
            monkeypatch.undo()
        assert (error["type"], error["code"], error["status_code"]) == (
            "error",
            "agent_service_unavailable",
            503,
        )
        assert (done["type"], done["is_error"], "database" in str([error, done])) == ("done", True, False)


def test_many_pieces_come_whole_and_in_order(site: Site, agent: AgentWorker) -> None:
    wanted = "".join(f"{at} " for at in range(3000))
    frames = list(streamed(site, "many 3000"))
    assert "".join(each["text"] for each in frames if each["type"] == "delta") == wanted
    assert frames[-1]["text"] == wanted


def test_failures_of_the_agent_are_its_answer(site: Site, agent: AgentWorker) -> None:
    answer = invoke(site, "fail")
    assert (answer.is_error, answer.text) == (True, "The well is dry.")
    assert invoke(site, "crash").text == "oops"
    last = list(streamed(site, "fail"))[-1]
    assert (last["type"], last["is_error"], last["code"]) == ("done", True, "agent_reply_error")


def test_an_agent_that_refuses_is_a_conflict_and_one_that_wavers_an_error_of_its_own(
    site: Site, agent: AgentWorker
) -> None:
    for message in ("refuse", "later"):
        with pytest.raises(sdk.exceptions.ConflictException) as caught:
            invoke(site, message)
        assert words(caught.value) == "agent rejected the request"
    frames = streamed(site, "waver w1")
    assert next(frames) == {"type": "delta", "text": "Well, "}
    site.leave("go-w1")
    last = list(frames)[-1]
    assert (last["is_error"], last["code"], last["text"]) == (True, "agent_reply_error", "no, after all.")


def test_nothing_in_time_is_a_timeout_and_the_agent_is_stopped(site: Site, agent: AgentWorker) -> None:
    with pytest.raises(sdk.exceptions.ApiException) as caught:
        invoke(site, "slow t1", timeout_ms=500)
    assert caught.value.status == 504
    site.seen("stopped-t1")


def test_a_caller_who_hangs_up_stops_the_agent(site: Site, agent: AgentWorker) -> None:
    frames = streamed(site, "stream h1")
    assert next(frames)["type"] == "reasoning"
    site.seen("begun-h1")
    frames.close()  # type: ignore[attr-defined]
    site.seen("stopped-h1")


def test_tasks_run_and_end_elsewhere(site: Site, agent: AgentWorker) -> None:
    id = site.create("far", "about", metadata={"a": "b"})
    done = site.ended("far", id)
    assert (done.status, done.result["context"], done.result["metadata"]) == ("completed", id, {"a": "b"})
    failed = site.ended("far", site.create("far", "fail"))
    assert (failed.status, failed.error) == ("failed", "The well is dry.")
    refused = site.ended("far", site.create("far", "refuse"))
    assert refused.status == "rejected"


def test_characters_that_no_database_keeps_are_replaced(site: Site, agent: AgentWorker) -> None:
    done = site.ended("far", site.create("far", "nul"))
    assert (done.status, done.result) == ("completed", {"a\ufffdb": "c\ufffdd"})


def test_a_cancelled_task_stops_its_handler(site: Site, agent: AgentWorker) -> None:
    id = site.create("far", "slow c1")
    site.seen("begun-c1")
    site.tasks().cancel_task("far", id)
    site.seen("stopped-c1")
    assert site.tasks().get_task("far", id).data.status == "canceled"


def test_an_agent_asks_and_goes_on_with_the_answers(site: Site, agent: AgentWorker) -> None:
    id = site.create("far", "ask")
    asked = site.until("far", id, "agent.input_required")[-1]
    assert (asked["payload"]["text"], asked["payload"]["options"]) == ("Which?", ["red", "blue"])
    site.tasks().continue_task("far", id, sdk.ContinueTaskRequest(input="blue"))
    with site.raw() as client:
        sure = _paused(client, id, "Sure?")
    assert sure == "input_required"
    site.tasks().continue_task("far", id, sdk.ContinueTaskRequest(input="yes"))
    assert site.ended("far", id).result == "blue, yes"
    grant = site.create("far", "auth")
    site.until("far", grant, "agent.auth_required")
    site.tasks().continue_task("far", grant, sdk.ContinueTaskRequest(auth_grant=True))
    assert site.ended("far", grant).result == "granted: True"


def _paused(client: httpx.Client, id: str, question: str) -> str:
    """The task's status once it asks this."""
    with connect_sse(client, "GET", f"/agents/far/tasks/{id}/events") as source:
        for event in source.iter_sse():
            if event.json().get("payload", {}).get("text") == question:
                break
    status: str = client.get(f"/agents/far/tasks/{id}").json()["data"]["status"]
    return status


def test_conversations_go_on_elsewhere(site: Site, agent: AgentWorker) -> None:
    with site.raw() as client:
        made = client.post("/agents/far/conversations", json={}).json()["data"]
        id = made.get("conversation_id") or made["id"]
        sent = client.post(f"/agents/far/conversations/{id}/messages", json={"message": "hi"})
        assert sent.status_code in (200, 201, 202), sent.text
        with connect_sse(client, "GET", f"/agents/far/conversations/{id}/events") as source:
            replies = (event.json() for event in source.iter_sse() if event.event == "message")
            last = next(each for each in replies if each.get("state") == "completed")
    assert last["payload"]["text"] == "You said: hi"


def test_no_model_is_set_for_an_agent_that_runs_elsewhere(site: Site, agent: AgentWorker) -> None:
    with site.raw() as client:
        talks = f"/agents/{agent.id}/conversations"
        id = client.post(talks).json()["data"]["conversation_id"]

        def choose(model: str | None) -> httpx.Response:
            headers = {"Idempotency-Key": f"k-{model}"}
            return client.put(f"{talks}/{id}/model", json={"modelOverrideId": model}, headers=headers)

        refused = choose("openai/gpt-5")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_param")
        assert refused.json()["error"]["param"] == "modelOverrideId"
        assert choose(None).status_code == 202
        assert not {"modelOverrideId", "effectiveModelId"} & client.get(f"{talks}/{id}").json()["data"].keys()
        able = {
            each: client.get(f"/agents/{each}").json()["data"]["capabilities"] for each in (agent.id, "echo")
        }
        assert {each: told["modelsSet"] for each, told in able.items()} == {agent.id: False, "echo": True}


def test_attachments_come_with_addresses_that_work(site: Site, agent: AgentWorker) -> None:
    with site.raw() as client:
        asked = {"filename": "a.txt", "content_type": "text/plain"}
        file = client.post("/files/presign-upload", json=asked).json()["data"]
        httpx.put(
            file["upload_url"], content=b"cargo", headers={"content-type": "text/plain"}
        ).raise_for_status()
    asked_of = {"message": "fetch", "attachments": [{"file_id": file["file_id"]}]}
    request = sdk.InvokeAgentRequest.from_dict(asked_of)
    assert request is not None
    answer = site.agents().invoke_agent("far", request)
    assert answer is not None
    assert answer.data.text == "a.txt: cargo"


def test_a_push_agent_without_a_worker_is_offline(site: Site, tmp_path: Path) -> None:
    with running(lambda: worker(site.url, OWNER, "far", tmp_path)):
        assert invoke(site, "hello").text == "You said: hello"
    with pytest.raises(sdk.exceptions.ServiceException) as caught:
        invoke(site, "hello")
    assert caught.value.status == 503
    assert words(caught.value) == "agent is offline"
    with site.raw() as client:
        refused = client.post("/agents/far/tasks", json={"message": "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "agent_service_unavailable")


def test_a_repetition_is_answered_as_the_first_request_was_when_the_agent_has_gone(
    site: Site, tmp_path: Path
) -> None:
    with site.raw() as client:
        with running(lambda: worker(site.url, OWNER, "far", tmp_path)):
            began = client.post("/agents/far/conversations", json={}).json()["data"]
            talk = f"/agents/far/conversations/{began['conversation_id']}/messages"
            paths = ("/agents/far/invoke", "/agents/far/tasks", talk)
            body = {"message": "hello", "idempotency_key": "k"}
            first = [client.post(path, json=body) for path in paths]
            assert [each.status_code for each in first] == [200, 202, 202]
            site.ended("far", first[1].json()["data"]["task_id"])
        again = [client.post(path, json=body) for path in paths]
        assert [each.status_code for each in again] == [200, 202, 202]
        for one, other in zip(first, again, strict=True):
            one, other = one.json()["data"], other.json()["data"]
            assert {**one, "status": ""} == {**other, "status": ""}
        for path in paths:
            new = client.post(path, json={**body, "idempotency_key": "new"})
            assert (new.status_code, new.json()["error"]["message"]) == (503, "agent is offline")
            assert client.post(path, json={"message": "hello"}).status_code == 503
        with running(lambda: worker(site.url, OWNER, "far", tmp_path)):
            # What was refused has used up no key.
            taken = [client.post(path, json={**body, "idempotency_key": "new"}) for path in paths]
            assert [each.status_code for each in taken] == [200, 202, 202]


def test_a_queue_agent_takes_one_at_a_time_and_work_waits_for_its_worker(site: Site, tmp_path: Path) -> None:
    def make() -> AgentWorker:
        return worker(site.url, OWNER, "line", tmp_path, mode="queue")

    with running(make):
        pass
    ids = [site.create("line", f"slow q{at}") for at in (1, 2)]
    assert [site.tasks().get_task("line", id).data.status for id in ids] == ["queued", "queued"]
    with running(make) as made:
        site.seen("begun-q1")
        assert made.busy == 1
        site.leave("go-q1")
        site.seen("begun-q2")
        assert site.ended("line", ids[0]).result == "done q1"
        site.leave("go-q2")
        assert site.ended("line", ids[1]).result == "done q2"


def test_a_busy_reject_agent_turns_the_second_caller_away(site: Site, tmp_path: Path) -> None:
    with running(lambda: worker(site.url, OWNER, "one", tmp_path, mode="busy_reject")):
        first = site.create("one", "slow b1")
        site.seen("begun-b1")
        with pytest.raises(sdk.exceptions.ConflictException) as caught:
            invoke(site, "hello", "one")
        assert words(caught.value) == "agent rejected the request"
        second = site.ended("one", site.create("one", "hello"))
        assert second.status == "rejected"
        site.leave("go-b1")
        assert site.ended("one", first).result == "done b1"
        assert invoke(site, "hello", "one").text == "You said: hello"


def test_the_ids_of_actions_and_of_others_agents_cannot_be_registered(site: Site, agent: AgentWorker) -> None:
    with site.raw() as mine, site.raw(STRANGER) as stranger:
        taken = [
            mine.post("/runtime/registrations", json={"name": "echo"}),
            mine.post("/runtime/registrations", json={"name": "look"}),
            stranger.post("/runtime/registrations", json={"name": "far"}),
        ]
        assert [each.status_code for each in taken] == [409, 409, 409]
        with pytest.raises(sdk.exceptions.NotFoundException):
            invoke(site, "hello", key=STRANGER)
        bad: list[dict[str, Any]] = [
            {}, {"name": "a b"}, {"name": "x", "mode": "pull"}, {"name": "x", "leaseSeconds": 0}, {"name": 1},
        ]  # fmt: skip
        assert [mine.post("/runtime/registrations", json=each).status_code for each in bad] == [400] * 5
        agents = site.agents()
        agents.update_agent("far", sdk.UpdateAgentRequest(visibility="public"))
        assert invoke(site, "hello", key=STRANGER).text == "You said: hello"


def test_an_agent_of_another_app_is_served_with_its_questions(site: Site, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    app: App = build(f"sqlite:///{elsewhere}/store.db", elsewhere)
    try:
        with (
            running(lambda: AgentWorker.serving(app, "memory", site.url, OWNER, id="far-memory", name="far")),
            running(lambda: AgentWorker.serving(app, "talker", site.url, OWNER, id="far-talker")),
            running(lambda: AgentWorker.serving(app, "asker", site.url, OWNER, id="far-asker")),
        ):
            first = invoke(site, "one", "far-memory")
            assert invoke(site, "two", "far-memory", context_id=first.context_id).text == "one | two"
            frames = list(streamed(site, "talk", "far-talker"))
            assert [each["type"] for each in frames][-2:] == ["delta", "done"]
            assert frames[-1]["text"] == "one two three four five"
            id = site.create("far-asker", "hello")
            site.until("far-asker", id, "agent.input_required")
            site.tasks().continue_task("far-asker", id, sdk.ContinueTaskRequest(input="that"))
            assert "that" in site.ended("far-asker", id).result
    finally:
        app.store.close()


def test_a_worker_that_another_one_replaced_ends_with_a_failure(site: Site, tmp_path: Path) -> None:
    with running(lambda: worker(site.url, OWNER, "far", tmp_path, lease=2.0)) as old:
        id = site.create("far", "slow f1")
        site.seen("begun-f1")
        with running(lambda: worker(site.url, OWNER, "far", tmp_path, lease=2.0)):
            site.seen("stopped-f1")
            assert old._loop is not None
            with pytest.raises(Failure, match="is over"):
                asyncio.run_coroutine_threadsafe(old.wait(), old._loop.get_loop()).result(PATIENCE)
            ended = site.ended("far", id)
            assert (ended.status, ended.error[:10]) == ("failed", "agent_lost")
            assert invoke(site, "hello").text == "You said: hello"


def test_a_turn_that_has_begun_is_given_to_nobody_else(site: Site) -> None:
    def replaced(turn: AgentTurn) -> str:
        # It holds the worker's loop: nothing is said of the turn between its begin and the other's registration.
        with site.raw() as client:
            assert client.post("/runtime/registrations", json={"name": "far"}).status_code == 201
        return "too late"

    with running(lambda: AgentWorker(site.url, OWNER, "far", replaced)):
        ended = site.ended("far", site.create("far"))
    assert (ended.status, ended.error[:10]) == ("failed", "agent_lost")
