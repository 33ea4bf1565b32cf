"""Agents behind A2A, asked with the protocol's own client (1.0) and with plain requests of version 0.3."""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import beeos_sdk as sdk
import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, create_client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from fairlead import App, Failure, Kind
from fairlead.agents import Agent
from fairlead.agents.models import Reply, ScriptModel
from fairlead.gateway.deliveries import Deliverer
from fairlead.outgoing import Guard
from fairlead.testing.asgi import request
from gateway.site_under_test import OWNER, PATIENCE, STRANGER, Site, add_keys, build, serving, working


@asynccontextmanager
async def client(
    site: Site, agent: str, key: str = OWNER, *, streaming: bool = True
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        yield await create_client(f"{site.url}/a2a/{agent}", config)


def message(text: str, **more: Any) -> SendMessageRequest:
    configuration = more.pop("configuration", None)
    said = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **more)
    return SendMessageRequest(message=said, configuration=configuration)


async def sent(agent: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [each async for each in agent.send_message(request)]


def state(event: StreamResponse) -> str:
    status = event.task.status if event.HasField("task") else event.status_update.status
    return TaskState.Name(status.state).removeprefix("TASK_STATE_").lower()


def states(events: list[StreamResponse]) -> list[str]:
    return [state(each) for each in events if not each.HasField("artifact_update")]


def reply(task: Task) -> str:
    return task.artifacts[0].parts[0].text


def rpc(site: Site, agent: str, method: str, params: Any, key: str | None = OWNER, **headers: str) -> Any:
    """A plain request, without a word of which version it is."""
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return httpx.post(f"{site.url}/a2a/{agent}", json=body, headers=headers, timeout=PATIENCE)


def old(text: str, **more: Any) -> dict[str, Any]:
    """A message as version 0.3 writes it."""
    parts = [{"kind": "text", "text": text}]
    return {"message": {"kind": "message", "messageId": str(uuid4()), "role": "user", "parts": parts, **more}}


async def test_a_message_is_a_task_and_its_answer_an_artifact(site: Site) -> None:
    async with client(site, "echo", streaming=False) as agent:
        (answer,) = await sent(agent, message("hello"))
        task = answer.task
        assert (state(answer), reply(task)) == ("completed", "You said: hello")
        assert task.history[0].parts[0].text == "hello"
        again = await agent.get_task(GetTaskRequest(id=task.id))
        assert (again.id, reply(again), again.context_id) == (task.id, "You said: hello", task.context_id)
        assert not (await agent.get_task(GetTaskRequest(id=task.id, history_length=0))).history


async def test_a_stream_tells_the_task_then_its_pieces_then_its_end(site: Site) -> None:
    async with client(site, "talker") as agent:
        events = await sent(agent, message("go"))
    assert events[0].HasField("task")
    assert states(events)[0] in ("submitted", "working")
    assert states(events)[-1] == "completed"
    pieces = [each.artifact_update for each in events if each.HasField("artifact_update")]
    said = [each.artifact.parts[0].text for each in pieces[:-1]]
    assert "".join(said) == "one two three four five"
    assert [each.append for each in pieces] == [False, *(True for _ in said[1:]), False]
    assert pieces[-1].artifact.parts[0].text == "one two three four five"
    assert pieces[-1].last_chunk


async def test_a_context_goes_on_with_what_was_said(site: Site) -> None:
    async with client(site, "memory", streaming=False) as agent:
        (first,) = await sent(agent, message("one"))
        (second,) = await sent(agent, message("two", context_id=first.task.context_id))
        assert reply(second.task) == "one | two"
        assert second.task.context_id == first.task.context_id
        found = await agent.list_tasks(
            ListTasksRequest(context_id=first.task.context_id, include_artifacts=True)
        )
        assert {each.id for each in found.tasks} == {first.task.id, second.task.id}


async def test_a_message_that_is_sent_twice_is_one_task(site: Site) -> None:
    async with client(site, "echo", streaming=False) as agent:
        request = message("once")
        (first,) = await sent(agent, request)
        (again,) = await sent(agent, request)
        assert first.task.id == again.task.id


async def test_a_question_pauses_the_task_and_the_next_message_answers_it(site: Site) -> None:
    async with client(site, "asker") as agent:
        events = await sent(agent, message("go"))
        assert states(events)[-1] == "input_required"
        status = events[-1].status_update.status
        assert status.message.parts[0].text == "Which?"
        task = events[0].task
        more = await sent(agent, message("The red one.", task_id=task.id, context_id=task.context_id))
        assert states(more)[-1] == "completed"
        assert "The red one." in reply(await agent.get_task(GetTaskRequest(id=task.id)))
        with pytest.raises(UnsupportedOperationError):
            await sent(agent, message("Once more.", task_id=task.id))


async def test_an_answer_that_is_sent_again_answers_no_later_question(site: Site) -> None:
    async with client(site, "asker") as agent:
        task = (await sent(agent, message("twice")))[0].task
        answer = message("The red one.", task_id=task.id)
        for events in (await sent(agent, answer), await sent(agent, answer)):
            assert states(events)[-1] == "input_required"
            assert events[-1].status_update.status.message.parts[0].text == "And then?"
        answer.message.parts[0].text = "The blue one."
        with pytest.raises(UnsupportedOperationError):
            await sent(agent, answer)
        last = message("The green one.", task_id=task.id)
        for events in (await sent(agent, last), await sent(agent, last)):
            assert state(events[-1]) == "completed"
        told = reply(await agent.get_task(GetTaskRequest(id=task.id)))
        assert "The red one." in told
        assert "The green one." in told


async def test_a_permission_is_asked_for_and_given(site: Site) -> None:
    async with client(site, "burner") as agent:
        events = await sent(agent, message("go"))
        assert states(events)[-1] == "auth_required"
        status = events[-1].status_update.status
        assert MessageToDict(status.message.metadata) == {"options": ["approve", "deny"]}
        task = events[0].task
        with pytest.raises(InvalidParamsError):
            await sent(agent, message("perhaps", task_id=task.id))
        more = await sent(agent, message("approve", task_id=task.id))
        assert states(more)[-1] == "completed"
        assert "ash 3" in reply(await agent.get_task(GetTaskRequest(id=task.id)))


async def test_cancelling_a_task_stops_the_agent(site: Site) -> None:
    async with client(site, "slow") as agent:
        following = aiter(agent.send_message(message("stop")))
        task = (await anext(following)).task
        await asyncio.to_thread(site.seen, "begun-stop")
        cancelled = await agent.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        await asyncio.to_thread(site.seen, "stopped-stop")
        rest = [each async for each in following]
        assert states(rest)[-1] == "canceled"
        with pytest.raises(TaskNotCancelableError):
            await agent.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_task_outlives_its_reader_who_may_come_back(site: Site) -> None:
    async with client(site, "slow") as agent:
        following = aiter(agent.send_message(message("back")))
        task = (await anext(following)).task
        await following.aclose()  # type: ignore[attr-defined]
        await asyncio.to_thread(site.seen, "begun-back")
        again = aiter(agent.subscribe(SubscribeToTaskRequest(id=task.id)))
        assert (await anext(again)).task.id == task.id
        site.leave("go-back")
        assert states([each async for each in again])[-1] == "completed"
        with pytest.raises(UnsupportedOperationError):
            await anext(aiter(agent.subscribe(SubscribeToTaskRequest(id=task.id))))


async def test_who_does_not_wait_gets_the_task_at_once(site: Site) -> None:
    async with client(site, "slow", streaming=False) as agent:
        configuration = SendMessageConfiguration(return_immediately=True)
        (answer,) = await sent(agent, message("later", configuration=configuration))
        assert state(answer) in ("submitted", "working")
        site.leave("go-later")


async def test_a_failed_agent_is_a_failed_task_with_the_reason(site: Site) -> None:
    async with client(site, "broken") as agent:
        events = await sent(agent, message("x"))
    assert states(events)[-1] == "failed"
    assert "on strike" in events[-1].status_update.status.message.parts[0].text


async def test_the_card_tells_owners_all_and_strangers_what_they_may_know(site: Site) -> None:
    def card(key: str | None, path: str = "/.well-known/agent-card.json") -> httpx.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.get(f"{site.url}/a2a/echo{path}", headers=headers, timeout=PATIENCE)

    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {OWNER}"}) as http:
        own = await A2ACardResolver(http, f"{site.url}/a2a/echo").get_agent_card()
    assert {each.protocol_version for each in own.supported_interfaces} == {"1.0", "0.3"}
    assert own.capabilities.streaming
    assert own.capabilities.push_notifications
    assert [each.id for each in own.skills] == ["echo"]
    assert card(OWNER).json()["url"] == f"{site.url}/a2a/echo"
    assert card(None).status_code == card(STRANGER).status_code == 404
    site.agents().update_agent("echo", sdk.UpdateAgentRequest(visibility="unlisted"))
    reduced = card(None).json()
    assert not reduced.get("skills")
    assert reduced["supportedInterfaces"]
    site.agents().update_agent("echo", sdk.UpdateAgentRequest(visibility="public"))
    assert card(None).json()["skills"]


async def test_the_extended_card_is_for_those_with_a_key(site: Site) -> None:
    async with client(site, "echo") as agent:
        card = await agent.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert [each.id for each in card.skills] == ["echo"]
    assert rpc(site, "echo", "GetExtendedAgentCard", {}, key=None).status_code == 401


async def test_a_task_is_its_callers_alone(site: Site) -> None:
    site.agents().update_agent("echo", sdk.UpdateAgentRequest(visibility="public"))
    async with client(site, "echo", streaming=False) as agent:
        (mine,) = await sent(agent, message("mine"))
    async with client(site, "echo", STRANGER, streaming=False) as stranger:
        for asking in (
            stranger.get_task(GetTaskRequest(id=mine.task.id)),
            stranger.cancel_task(CancelTaskRequest(id=mine.task.id)),
            sent(stranger, message("x", task_id=mine.task.id)),
        ):
            with pytest.raises(TaskNotFoundError):
                await asking
        assert not (await stranger.list_tasks(ListTasksRequest())).tasks
        with pytest.raises(InvalidParamsError):
            await sent(stranger, message("x", context_id=mine.task.context_id))


async def test_tasks_are_listed_in_pages(site: Site) -> None:
    async with client(site, "echo", streaming=False) as agent:
        for word in ("a", "b", "c"):
            await sent(agent, message(word))
        page = await agent.list_tasks(ListTasksRequest(page_size=2))
        rest = await agent.list_tasks(ListTasksRequest(page_size=2, page_token=page.next_page_token))
        assert [each.history[0].parts[0].text for each in (*page.tasks, *rest.tasks)] == ["c", "b", "a"]
        assert not page.tasks[0].artifacts
        failed = await agent.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))
        assert not failed.tasks


async def test_a_page_of_tasks_tells_how_many_there_are_of_those_that_are_asked_for(site: Site) -> None:
    async with client(site, "echo", streaming=False) as agent:
        started = Timestamp()
        started.GetCurrentTime()
        (first,) = await sent(agent, message("a"))
        for word in ("b", "c"):
            await sent(agent, message(word))
        later = Timestamp(seconds=started.seconds + 3600)

        async def total(**asked: Any) -> int:
            return (await agent.list_tasks(ListTasksRequest(page_size=1, **asked))).total_size

        assert await total() == 3
        assert await total(context_id=first.task.context_id) == 1
        assert await total(context_id="none") == 0
        assert await total(status=TaskState.TASK_STATE_COMPLETED) == 3
        assert await total(status=TaskState.TASK_STATE_FAILED) == 0
        assert await total(status_timestamp_after=started) == 3
        assert await total(status_timestamp_after=later) == 0


def test_requests_of_the_version_before_are_answered_in_its_words(site: Site) -> None:
    answer = rpc(site, "echo", "message/send", old("hello")).json()
    task = answer["result"]
    assert (answer["id"], task["kind"], task["status"]["state"]) == (7, "task", "completed")
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "You said: hello"}]
    found = rpc(site, "echo", "tasks/get", {"id": task["id"]}).json()["result"]
    assert found["id"] == task["id"]
    listed = rpc(site, "echo", "tasks/list", {"limit": 5}).json()["result"]
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    assert rpc(site, "echo", "tasks/cancel", {"id": task["id"]}).json()["error"]["code"] == -32002
    assert rpc(site, "echo", "tasks/get", {"id": "none"}).json()["error"]["code"] == -32001
    card = rpc(site, "echo", "agent/getAuthenticatedExtendedCard", {}).json()["result"]
    assert card["url"] == f"{site.url}/a2a/echo"
    # Some documents swap the versions: the method's name counts.
    swapped = rpc(site, "echo", "message/send", old("x"), **{"A2A-Version": "1.0"}).json()
    assert swapped["result"]["status"]["state"] == "completed"


def test_a_stream_of_the_version_before_ends_with_its_last_word(site: Site) -> None:
    answer = rpc(site, "talker", "message/stream", old("go"))
    assert answer.headers["content-type"] == "text/event-stream"
    events = [
        json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")
    ]
    assert events[0]["kind"] == "task"
    assert (events[-1]["kind"], events[-1]["status"]["state"], events[-1]["final"]) == (
        "status-update",
        "completed",
        True,
    )


def test_requests_that_say_no_version_are_known_by_their_method(site: Site) -> None:
    body = {"message": {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    task = rpc(site, "echo", "SendMessage", body).json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert rpc(site, "echo", "GetTask", {"id": task["id"]}).json()["result"]["id"] == task["id"]


def test_an_agent_may_be_asked_without_the_protocol(site: Site) -> None:
    def asked(agent: str, **headers: str) -> httpx.Response:
        headers["Authorization"] = f"Bearer {OWNER}"
        url = f"{site.url}/a2a/{agent}/v1/invoke"
        return httpx.post(url, json={"message": "x"}, headers=headers, timeout=PATIENCE)

    def streamed(agent: str) -> list[Any]:
        text = asked(agent, Accept="text/event-stream").text
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]

    told = asked("echo").json()
    assert (told["message"], told["text"], told["is_error"]) == ("ok", "You said: x", False)
    assert asked("nobody").json()["error"]["code"] == "agent_not_found"
    *pieces, last = streamed("talker")
    assert "".join(each["text"] for each in pieces) == last["text"] == "one two three four five"
    assert ({each["type"] for each in pieces}, last["type"]) == ({"agent_reply_delta"}, "agent_reply")
    assert [(each["type"], each["code"]) for each in streamed("broken")] == [("error", "agent_reply_error")]


def test_a_stream_that_was_lost_is_taken_up_where_it_was(site: Site) -> None:
    def streamed(agent: str, task: str, since: int = 0) -> list[tuple[int, dict[str, Any]]]:
        url = f"{site.url}/a2a/{agent}/stream?task_id={task}&since={since}"
        text = httpx.get(url, headers={"Authorization": f"Bearer {OWNER}"}, timeout=PATIENCE).text.replace(
            ": ping\n", ""
        )
        found = [each.split("\n") for each in text.split("\n\n") if each.startswith("id: ")]
        return [(int(id[4:]), json.loads(data[6:])) for id, data in found]

    def created(agent: str) -> str:
        with site.raw(OWNER) as http:
            return str(http.post(f"/agents/{agent}/tasks", json={"message": "x"}).json()["data"]["task_id"])

    task = created("talker")
    whole = streamed("talker", task)
    assert {each["task_id"] for _, each in whole} == {task}
    said = [each for _, each in whole if each["type"] == "artifact"]
    assert [each["artifact"]["parts"] for each in said] == [
        [{"kind": "text", "text": "one two three four five"}]
    ]
    assert whole[-1][1]["status"]["state"] == "completed"
    offset = whole[len(whole) // 2][0]
    assert streamed("talker", task, offset) == [each for each in whole if each[0] > offset]
    last = [each for _, each in streamed("broken", created("broken"))][-2:]
    assert ([each["type"] for each in last], last[1]["status"]["state"]) == (["error", "status"], "failed")
    for path in ("stream", f"stream?task_id={uuid4()}"):
        answer = httpx.get(f"{site.url}/a2a/echo/{path}", headers={"Authorization": f"Bearer {OWNER}"})
        assert answer.status_code in (400, 404)


def test_without_the_library_only_this_protocol_is_missing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fairlead.gateway.a2a_bridge", None)
    answer = rpc(site, "echo", "tasks/get", {"id": "x"})
    assert (answer.status_code, "fairlead[a2a]" in answer.json()["error"]["message"]) == (503, True)
    assert site.agents().get_agent("echo") is not None


def test_what_is_wrong_is_told_in_the_protocols_words(site: Site) -> None:
    def error(answer: Any) -> Any:
        return answer.json()["error"]

    assert error(rpc(site, "echo", "Sing", {}))["code"] == -32601
    assert error(rpc(site, "echo", "SendMessage", {"message": 7}))["code"] == -32602
    refused = rpc(site, "echo", "GetTask", {"id": "x"}, key=None)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert error(refused)["data"] == {"code": "unauthorized"}
    missing = rpc(site, "nobody", "GetTask", {"id": "x"})
    assert (missing.status_code, error(missing)["data"]["code"]) == (404, "agent_not_found")
    raw = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "aGk="}]}
    assert error(rpc(site, "echo", "SendMessage", {"message": raw}))["code"] == -32005
    headers = {"Authorization": f"Bearer {OWNER}"}
    for spoiled in (b"{", b"[" * 100_000, rb'{"jsonrpc": "2.0", "id": 1, "method": "\ud800"}'):
        bad = httpx.post(f"{site.url}/a2a/echo", content=spoiled, headers=headers, timeout=PATIENCE)
        assert error(bad)["code"] == -32700
    batch = httpx.post(f"{site.url}/a2a/echo", json=[], headers=headers, timeout=PATIENCE)
    assert error(batch)["code"] == -32600


@pytest.mark.parametrize("method", ["ListTasks", "tasks/list"])
def test_a_page_that_there_is_not_is_told_by_the_names_that_clients_have_for_it(
    site: Site, method: str
) -> None:
    wrong = rpc(site, "echo", method, {"pageToken": "zzz"}).json()["error"]
    assert wrong["code"] == -32602
    assert {"pageToken", "nextPageToken"} <= {*wrong["message"].split()}
    assert "since" not in wrong["message"]


@pytest.mark.parametrize(
    "params",
    [[1], [], "x", "", 0, False, {"limit": 2**40}, {"limit": 0}, {"limit": True}, {"pageToken": [1]}],
)
def test_an_odd_question_for_a_list_is_refused_in_the_words_of_the_version_before(
    site: Site, params: Any
) -> None:
    told = rpc(site, "echo", "tasks/list", params).json()
    assert (told["id"], told["error"]["code"]) == (7, -32602)


@pytest.mark.parametrize(
    "skill", [{"tags": 5}, {"tags": "x"}, {"tags": [{"a": 1}]}, {"id": 7}, {"description": {"q": 1}}]
)
def test_skills_that_no_card_can_tell_are_refused_at_registration(site: Site, skill: dict[str, Any]) -> None:
    with site.raw() as client:
        refused = client.post(
            "/runtime/registrations", json={"name": "far", "skills": [{"name": "x", **skill}]}
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_body")
        empty = {"name": "x", "id": None, "description": None, "tags": None}
        assert (
            client.post("/runtime/registrations", json={"name": "far", "skills": [empty]}).status_code == 201
        )
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {OWNER}"}) as client:
        card = client.get("/a2a/far/.well-known/agent-card.json").json()
    assert [each["name"] for each in card["skills"]] == ["x"]


@contextmanager
def ear() -> Iterator[tuple[str, queue.Queue[tuple[dict[str, str], Any]]]]:
    """An address that hears notifications."""
    heard: queue.Queue[tuple[dict[str, str], Any]] = queue.Queue()

    async def hear(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        if body:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            heard.put((headers, json.loads(body)))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    with serving(hear) as url:
        yield url, heard


@pytest.fixture
def pushing(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site that may call addresses of this machine, and keep secrets."""
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(bytes(range(32))).decode())
    near = Guard(allow_private=True)
    with working(app), serving(app.http(gateway={"guard": near})) as url:
        yield Site(url, tmp_path)


async def test_notifications_are_pushed_with_their_token(app: App, pushing: Site) -> None:
    with ear() as (url, heard):
        async with Deliverer(app, Guard(allow_private=True)), client(pushing, "slow") as agent:
            following = aiter(agent.send_message(message("push")))
            task = (await anext(following)).task
            wanted: Any = {"scheme": "Bearer", "credentials": "secret"}
            made = await agent.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task.id, url=url, token="known", authentication=wanted)
            )
            assert (made.url, made.task_id, made.token) == (url, task.id, "")
            listed = await agent.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            assert [each.id for each in listed.configs] == [made.id]
            got = await agent.get_task_push_notification_config(
                GetTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
            )
            assert got.id == made.id
            pushing.leave("go-push")
            [each async for each in following]
            last = None
            while last != TaskState.TASK_STATE_COMPLETED:
                headers, body = await asyncio.to_thread(heard.get, True, PATIENCE)
                told = ParseDict(body, StreamResponse()).task
                last = told.status.state
            assert (told.id, reply(told)) == (task.id, "done push")
            assert headers["x-a2a-notification-token"] == "known"
            assert headers["authorization"] == "Bearer secret"
            await agent.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=made.id)
            )
            rest = ListTaskPushNotificationConfigsRequest(task_id=task.id)
            assert not (await agent.list_task_push_notification_configs(rest)).configs


async def test_clients_of_the_version_before_are_pushed_its_tasks(app: App, pushing: Site) -> None:
    with ear() as (url, heard):
        async with Deliverer(app, Guard(allow_private=True)):
            config = {"blocking": True, "pushNotificationConfig": {"url": url}}
            body = {**old("hello"), "configuration": config}
            answer = await asyncio.to_thread(rpc, pushing, "echo", "message/send", body)
            id = answer.json()["result"]["id"]
            told: Any = {"status": {"state": ""}}
            while told["status"]["state"] != "completed":
                _, told = await asyncio.to_thread(heard.get, True, PATIENCE)
            assert (told["kind"], told["id"]) == ("task", id)
            assert told["artifacts"][0]["parts"][0] == {"kind": "text", "text": "You said: hello"}


@pytest.mark.parametrize(
    "asked", [{"url": "http://127.0.0.1:1/x"}, {"url": "http://hooks.test/", "token": "a\tb"}]
)
def test_a_message_whose_notifications_are_refused_begins_nothing(site: Site, asked: dict[str, str]) -> None:
    config = {"taskPushNotificationConfig": asked, "returnImmediately": True}
    said = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "x"}]}
    answer = rpc(site, "echo", "SendMessage", {"message": said, "configuration": config}).json()
    assert answer["error"]["code"] == -32602
    assert rpc(site, "echo", "ListTasks", {}).json()["result"]["tasks"] == []


def test_a_token_that_no_header_can_have_is_refused_and_not_kept_for_deliveries_that_fail(site: Site) -> None:
    task = rpc(site, "echo", "message/send", old("hello")).json()["result"]["id"]
    for asked in (
        {"token": "known "},
        {"token": " known"},
        {"authentication": {"scheme": "Bearer", "credentials": "secret "}},
    ):
        params = {"taskId": task, "url": "http://hooks.test/", **asked}
        answer = rpc(site, "echo", "CreateTaskPushNotificationConfig", params).json()
        assert answer["error"]["code"] == -32602, asked
        assert "header" in answer["error"]["message"]


def test_an_address_of_this_machine_is_not_called(site: Site) -> None:
    config = {"taskPushNotificationConfig": {"url": "http://127.0.0.1:1/x"}, "returnImmediately": True}
    said = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "x"}]}
    answer = rpc(site, "echo", "SendMessage", {"message": said, "configuration": config}).json()
    assert answer["error"]["code"] == -32602


def test_ids_that_no_database_knows_are_not_found(site: Site) -> None:
    for id in ("\0", "x" * 5000):
        assert rpc(site, "echo", "tasks/get", {"id": id}).json()["error"]["code"] == -32001
    assert "error" in rpc(site, "echo", "message/send", old("x", contextId="a\0b")).json()
    said = rpc(site, "echo", "message/send", old("a\0b")).json()
    assert "error" in said or said["result"]["status"]["state"] == "completed"
    assert "internal" not in str(said.get("error")).lower()
    answer = httpx.post(
        f"{site.url}/a2a/%00", json={}, headers={"Authorization": f"Bearer {OWNER}"}, timeout=PATIENCE
    )
    assert answer.status_code == 400


def test_two_servers_of_one_app_know_each_others_tasks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/two.db"
    first, second = build(url, tmp_path), build(url, tmp_path)
    add_keys(first)
    with working(first), serving(first.http()) as one, serving(second.http()) as two:
        task = rpc(Site(one, tmp_path), "echo", "message/send", old("hello")).json()["result"]
        found = rpc(Site(two, tmp_path), "echo", "tasks/get", {"id": task["id"]}).json()["result"]
        assert found["status"]["state"] == "completed"
    first.store.close()
    second.store.close()


async def test_failures_are_shown_and_logged_as_the_app_would(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = iter([Kind.upstream, Kind.misconfigured])

    def may(*about: Any) -> bool:
        raise Failure(next(kinds), "not with customer_code=zebra123")

    app = App(
        "site", store=f"sqlite:///{tmp_path}/s.db", redact={"keys": ["customer_code"]}, permission_checker=may
    )
    app.add(Agent("echo", model=ScriptModel([Reply("hi")]), instructions="Help."))
    add_keys(app)
    said = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": said}}
    headers = {"content-type": "application/json", "authorization": f"Bearer {OWNER}"}
    site, body = app.http(), json.dumps(asked).encode()
    told = [await request(site, "POST", "/a2a/echo", body=body, headers=headers) for _ in range(2)]
    app.store.close()
    assert b"customer_code=" in told[0].body
    assert "customer_code=" in caplog.text
    assert "zebra123" not in caplog.text + str([each.body for each in told])


async def test_a_refusal_that_is_a_conflict_is_told_in_its_own_words(tmp_path: Path) -> None:
    def may(*about: Any) -> bool:
        raise Failure(Kind.conflict, "The books are closed for the month.")

    app = App("site", store=f"sqlite:///{tmp_path}/s.db", permission_checker=may)
    app.add(Agent("echo", model=ScriptModel([Reply("hi")]), instructions="Help."))
    add_keys(app)
    said = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": said}}
    headers = {"content-type": "application/json", "authorization": f"Bearer {OWNER}"}
    site, keyed = app.http(), {"message": "hi", "idempotency_key": "k1"}
    bodies = [
        (await request(site, "POST", path, body=json.dumps(body).encode(), headers=headers)).body.decode()
        for path, body in (("/a2a/echo", asked), ("/api/v1/agents/echo/tasks", keyed))
    ]
    app.store.close()
    assert all("The books are closed for the month." in each for each in bodies), bodies
    assert not any("duplicate" in each for each in bodies)
