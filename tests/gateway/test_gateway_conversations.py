"""Conversations through the gateway: with the published SDK as it is, and over plain HTTP for the rest."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import pytest

from fairlead import App
from fairlead.gateway.channels import Channels
from fairlead.gateway.channels_said import Turn
from fairlead.tasks.records import Event, Task
from gateway.conversations_under_test import KEY, OTHER_KEY, Talk, build, served


@pytest.fixture
def app(store_url: str, tmp_path: Path) -> Iterator[App]:
    made = build(store_url, str(tmp_path))
    yield made
    made.store.close()


@pytest.fixture
def address(app: App) -> Iterator[str]:
    with served(app) as at:
        yield at


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[str]:
    """The address of an app on SQLite, for what does not depend on the database."""
    app = build(f"sqlite:///{tmp_path}/lone.db", str(tmp_path))
    with served(app, heartbeat=0.05) as at:
        yield at
    app.store.close()


@pytest.fixture
def api(address: str) -> Iterator[sdk.ConversationsApi]:
    with sdk.ApiClient(sdk.Configuration(host=address, access_token=KEY, retries=False)) as client:
        yield sdk.ConversationsApi(client)
        client.rest_client.pool_manager.clear()


def _key() -> str:
    return str(uuid.uuid4())


def test_the_sdk_begins_talks_in_renames_and_ends_a_conversation(
    api: sdk.ConversationsApi, address: str
) -> None:
    begun = api.create_conversation(
        "echo", create_conversation_request=sdk.CreateConversationRequest(title="T", metadata={"a": "b"})
    ).data
    id = begun.conversation_id
    assert (begun.agent_id, begun.state, begun.title, begun.metadata) == ("echo", "active", "T", {"a": "b"})
    assert begun.created_at is not None
    assert [each.conversation_id for each in api.list_conversations("echo").data.conversations] == [id]

    sent = api.send_conversation_message("echo", id, sdk.SendMessageRequest(message="hello")).data
    assert Talk(address).reply(id, sent.message_id)["body"] == "You said 1: hello"
    listed = api.list_conversation_messages("echo", id).data
    assert [each.type for each in listed.messages] == ["chat_message", "agent_reply"]
    said, reply = listed.messages
    assert (said.message_id, said.body, said.publisher_id) == (sent.message_id, "hello", "user:local")
    assert (reply.in_reply_to, reply.publisher_id) == (sent.message_id, "agent:echo")
    assert (reply.state, reply.stop_reason) == ("completed", "end_turn")
    assert listed.has_more is False
    assert listed.latest_offset == reply.offset
    with_pieces = api.list_conversation_messages("echo", id, include_deltas=True).data.messages
    assert "agent_reply_delta" in {each.type for each in with_pieces}

    renamed = api.rename_conversation(
        idempotency_key=_key(),
        agent_id="echo",
        conv_id=id,
        rename_conversation_request=sdk.RenameConversationRequest(title="New"),
    ).data
    assert renamed.title == "New"
    canceled = api.cancel_conversation_with_http_info(
        agent_id="echo",
        conversation_id=id,
        cancel_conversation_request=sdk.CancelConversationRequest(target_message_id=sent.message_id),
    )
    assert canceled.status_code == 202
    assert canceled.headers is not None
    assert canceled.headers["x-beeos-operation-id"] == str(canceled.data.data.operation_id)

    assert api.delete_conversation_with_http_info("echo", id).status_code == 204
    with pytest.raises(sdk.exceptions.ConflictException) as refused:
        api.send_conversation_message("echo", id, sdk.SendMessageRequest(message="more"))
    assert refused.value.data is not None
    assert (refused.value.data.error.code, refused.value.data.error.message) == ("conflict", "channel closed")
    ended = api.get_conversation("echo", id).data
    assert (ended.state, ended.closed_at is not None) == ("closed", True)
    assert api.delete_conversation_with_http_info("echo", id).status_code == 204
    assert api.list_conversations("echo").data.conversations == []
    assert len(api.list_conversations("echo", state="closed").data.conversations) == 1
    # What was said stays to be read; the stream says why it ends.
    assert len(api.list_conversation_messages("echo", id).data.messages) == 2
    *_, last = Talk(address).frames(id)
    assert last == ("end", {"reason": "channel_closed"})


def test_the_sdk_clears_a_conversation_and_sets_its_model(api: sdk.ConversationsApi, address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    talk.reply(id, talk.send(id, "one"))
    assert talk.reply(id, talk.send(id, "two"))["body"] == "You said 2: two"
    key, operation = _key(), _key()
    cleared = api.clear_conversation_with_http_info(
        idempotency_key=key, agent_id="echo", conversation_id=id, x_bee_os_operation_id=operation
    )
    assert cleared.status_code == 202
    assert cleared.headers is not None
    assert cleared.headers["x-beeos-operation-id"] == operation
    assert (cleared.data.status, cleared.data.conversation_id) == ("accepted", id)
    assert (str(cleared.data.operation_id), cleared.data.current_generation) == (operation, "2")
    again = api.clear_conversation(idempotency_key=key, agent_id="echo", conversation_id=id)
    assert (again.current_generation, str(again.operation_id)) == ("2", operation)
    assert talk.messages(id) == []
    # The agent has forgotten, too.
    assert talk.reply(id, talk.send(id, "three"))["body"] == "You said 1: three"

    before = api.get_conversation("echo", id).data
    assert before.model_override_id is None
    done = api.set_conversation_model_with_http_info(
        idempotency_key=_key(),
        agent_id="echo",
        conversation_id=id,
        set_conversation_model_request=sdk.SetConversationModelRequest(modelOverrideId="openai/gpt-other"),
    )
    assert (done.status_code, done.raw_data) == (202, b"")
    now = api.get_conversation("echo", id).data
    assert (now.model_override_id, now.effective_model_id) == ("openai/gpt-other", "openai/gpt-other")


def test_a_chosen_model_is_used_for_later_turns_and_null_is_the_agents_own_again(lone: str) -> None:
    talk = Talk(lone)
    id = talk.create()

    def choose(model: str | None) -> Any:
        headers = {"Idempotency-Key": _key()}
        return talk.http.put(f"{talk.base}/{id}/model", json={"modelOverrideId": model}, headers=headers)

    assert choose("openai/gpt-test-2").status_code == 202
    # There is no such server: the turn fails, which the agent's own model would not.
    failed = talk.reply(id, talk.send(id, "hi"))
    assert (failed["type"], failed["state"], failed["stop_reason"]) == (
        "agent_reply_error",
        "failed",
        "error",
    )
    assert choose(None).status_code == 202
    assert talk.reply(id, talk.send(id, "again"))["state"] == "completed"
    for wrong in ("", "x" * 129, "script/somewhere", "nobody-has-this/model"):
        refused = choose(wrong)
        assert refused.status_code == 400, wrong


def test_a_chosen_model_opens_no_file_of_the_server_however_it_is_spelled(lone: str, tmp_path: Path) -> None:
    talk = Talk(lone)
    id = talk.create()
    script = tmp_path / "small.toml"
    script.write_text('[[turn]]\ntext = "Small."\n')
    said = set()
    for path in (script, tmp_path / "nowhere", "/etc/passwd"):
        for name in (f"script/{path}", f" script/{path}", f"script/{path} ", f"  script/{path}  "):
            headers = {"Idempotency-Key": _key()}
            refused = talk.http.put(
                f"{talk.base}/{id}/model", json={"modelOverrideId": name}, headers=headers
            )
            assert refused.status_code == 400, name
            said.add(refused.json()["error"]["message"])
    # What is there and what is not looks the same.
    assert len(said) == 1


def test_a_message_with_a_key_is_taken_once(address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    first = talk.send(id, "hello", idempotency_key="k")
    assert talk.send(id, "hello", idempotency_key="k") == first
    refused = talk.http.post(f"{talk.base}/{id}/messages", json={"message": "bye", "idempotency_key": "k"})
    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == "duplicate idempotency key"
    talk.reply(id, first)
    assert [each["type"] for each in talk.messages(id)] == ["chat_message", "agent_reply"]
    other = talk.create()
    assert talk.send(other, "hello", idempotency_key="k") != first


def test_a_conversation_with_a_key_is_begun_once(lone: str) -> None:
    talk = Talk(lone)
    headers = {"Idempotency-Key": "once"}
    first = talk.http.post(talk.base, headers=headers)
    assert first.status_code == 201
    assert talk.http.post(talk.base, headers=headers).json()["data"] == first.json()["data"]
    assert talk.http.post(talk.base, json={"title": "x"}, headers=headers).status_code == 409


def test_a_stream_goes_on_from_any_offset_and_shows_each_once(address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    for words in ("one two three", "four five six"):
        talk.reply(id, talk.send(id, words))
    talk.http.delete(f"{talk.base}/{id}")
    whole = [told for name, told in talk.frames(id) if name == "message"]
    offsets = [told["offset"] for told in whole]
    assert offsets == sorted(set(offsets))
    for since in offsets:
        rest = [told for name, told in talk.frames(id, since) if name == "message"]
        assert rest == [told for told in whole if told["offset"] > since]
    header = talk.http.get(f"{talk.base}/{id}/events", headers={"Last-Event-ID": str(offsets[-2])})
    assert header.text.count("event: message") == 1
    assert f"id: {offsets[-1]}\n" in header.text


def test_pages_of_messages_follow_each_other_without_a_gap(lone: str) -> None:
    talk = Talk(lone)
    id = talk.create()
    for number in range(3):
        talk.reply(id, talk.send(id, str(number)))
    seen, since, more = [], "0", True
    while more:
        page = talk.http.get(f"{talk.base}/{id}/messages", params={"since": since, "limit": 2}).json()["data"]
        seen += [each["body"] for each in page["messages"]]
        since, more = page["next_since"], page["has_more"]
        assert isinstance(since, str)
    assert seen == ["0", "You said 1: 0", "1", "You said 2: 1", "2", "You said 3: 2"]


def test_pages_of_conversations_are_newest_first_and_each_state_has_its_own(lone: str) -> None:
    talk = Talk(lone)
    ids = [talk.create(title=str(number)) for number in range(5)]
    talk.http.delete(f"{talk.base}/{ids[2]}")
    seen: list[str] = []
    since: str | None = ""
    while since is not None:
        data = talk.http.get(talk.base, params={"limit": 2, "state": "all", "since": since}).json()["data"]
        seen += [each["conversation_id"] for each in data["conversations"]]
        since = data.get("next_since")
    assert seen == ids[::-1]
    by_state = {
        state: len(talk.http.get(talk.base, params={"state": state}).json()["data"]["conversations"])
        for state in ("active", "open", "closed", "all")
    }
    assert by_state == {"active": 4, "open": 4, "closed": 1, "all": 5}
    assert Talk(lone, "slow").http.get("/api/v1/agents/slow/conversations").json()["data"] == {
        "conversations": []
    }


def test_tools_are_parts_of_the_reply_and_pieces_come_before_it(address: str, tmp_path: Path) -> None:
    talk = Talk(address, "slow")
    id = talk.create()
    message = talk.send(id, "gate")
    seen = []
    for name, told in talk.frames(id):
        assert name == "message"
        seen.append(told)
        if told.get("parts"):
            (tmp_path / "gate").touch()
        if told.get("in_reply_to") == message and told.get("state") == "completed":
            break
    pieces = [told["payload"]["text"] for told in seen if told["type"] == "agent_reply_delta"]
    assert "".join(pieces) == "Let me look. It is done now."
    replies = [told for told in seen if told["type"] == "agent_reply"]
    assert {told["message_id"] for told in replies} == {f"{message}-reply"}
    used, result = replies[-1]["parts"]
    assert (used["type"], used["name"], used["arguments"]) == ("tool_use", "hold", {"name": "gate"})
    assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", used["id"], False)
    assert [each["type"] for each in talk.messages(id)] == ["chat_message", "agent_reply"]


def test_turns_of_a_conversation_run_in_the_order_of_their_messages(address: str, tmp_path: Path) -> None:
    talk = Talk(address, "slow")
    id = talk.create()
    sent = [talk.send(id, name) for name in ("a", "b", "c")]
    assert [each["type"] for each in talk.messages(id)][:3].count("chat_message") >= 2
    for name in ("c", "b", "a"):
        (tmp_path / name).touch()
    ended = []
    for _, told in talk.frames(id):
        if told.get("in_reply_to") in sent and told.get("state") == "completed":
            ended.append(told["in_reply_to"])
        if len(ended) == 3:
            break
    assert ended == sent


def test_replies_are_told_in_the_order_of_their_turns_though_the_later_one_is_heard_first(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(address, "slow")
    id = talk.create()
    first, second = talk.send(id, "a"), talk.send(id, "b")
    plain = Channels.tail

    async def silent() -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield Event(0, "", 0.0, {})

    def tail(self: Channels, turn: Turn, task: Task, follow: bool) -> AsyncIterator[Event]:
        return silent() if follow and turn.message == first else plain(self, turn, task, follow)

    monkeypatch.setattr(Channels, "tail", tail)
    told = []
    for _, message in talk.frames(id):
        for name in ("a", "b"):
            (tmp_path / name).touch()
        if message["type"] == "agent_reply":
            told.append((message["in_reply_to"], message["state"]))
        if told and told[-1] == (second, "completed"):
            break
    assert told.index((first, "completed")) < min(at for at, each in enumerate(told) if each[0] == second)


def test_one_turn_is_cancelled_and_the_next_goes_on(address: str, tmp_path: Path) -> None:
    talk = Talk(address, "slow")
    id = talk.create()
    first, second = talk.send(id, "never"), talk.send(id, "soon")
    next(told for _, told in talk.frames(id) if told.get("parts"))
    answer = talk.http.post(
        f"{talk.base}/{id}/cancel",
        json={"target_message_id": first, "reason": "enough"},
        headers={"Idempotency-Key": "stop"},
    )
    assert answer.status_code == 202
    assert answer.json()["data"]["status"] == "accepted"
    operation = answer.json()["data"]["operation_id"]
    assert str(uuid.UUID(operation)) == operation
    assert answer.headers["X-BeeOS-Operation-Id"] == answer.json()["data"]["operation_id"]
    ended = talk.reply(id, first)
    assert (ended["type"], ended["state"], ended["stop_reason"]) == ("agent_reply", "cancelled", "user_stop")
    assert ended["body"] == "Let me look. "
    (tmp_path / "soon").touch()
    assert talk.reply(id, second)["state"] == "completed"
    repeated = talk.http.post(
        f"{talk.base}/{id}/cancel",
        json={"target_message_id": first, "reason": "enough"},
        headers={"Idempotency-Key": "stop"},
    )
    assert repeated.json() == answer.json()
    types = [each["type"] for each in talk.messages(id)]
    assert types.count("chat_cancel") == 1
    unknown = talk.http.post(f"{talk.base}/{id}/cancel", json={"target_message_id": "nobody"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "agent_not_found")


def test_a_question_is_answered_by_the_next_message(address: str) -> None:
    talk = Talk(address, "asker")
    id = talk.create()
    first = talk.send(id, "paint it")
    asked = talk.reply(id, first)
    assert (asked["state"], asked["body"]) == ("completed", "Which colour?")
    question = talk.messages(id)[1]
    assert (question["type"], question["payload"]["options"]) == ("agent.input_required", ["red", "blue"])
    second = talk.send(id, "green, please")
    answered = talk.reply(id, second, asked["offset"])
    assert answered["state"] == "completed"
    assert "green, please" in answered["body"]
    assert talk.send(id, "paint it again") != second


def test_leave_is_given_or_refused_by_the_next_message(address: str) -> None:
    talk = Talk(address, "careful")
    for answer, end in (("approve", "Burned it."), ("better not", "Left it.")):
        id = talk.create()
        asked = talk.reply(id, talk.send(id, "do it"))
        assert "agent.auth_required" in {each["type"] for each in talk.messages(id)}
        assert talk.reply(id, talk.send(id, answer), asked["offset"])["body"] == end


def test_a_turn_that_fails_ends_its_reply_and_not_the_conversation(address: str) -> None:
    talk = Talk(address, "broken")
    id = talk.create()
    for words in ("one", "two"):
        ended = talk.reply(id, talk.send(id, words))
        assert (ended["type"], ended["state"], ended["stop_reason"]) == (
            "agent_reply_error",
            "failed",
            "error",
        )


def test_ending_a_conversation_ends_what_goes_on_in_it(address: str, tmp_path: Path) -> None:
    talk = Talk(address, "slow")
    id = talk.create()
    message = talk.send(id, "never")
    stream = talk.frames(id)
    next(told for _, told in stream if told.get("parts"))
    assert Talk(address, "slow").http.delete(f"{talk.base}/{id}").status_code == 204
    *said, last = stream
    assert last == ("end", {"reason": "channel_closed"})
    assert said[-1][1]["in_reply_to"] == message
    assert (said[-1][1]["state"], said[-1][1]["stop_reason"]) == ("cancelled", "user_stop")


def test_a_conversation_that_was_ended_is_gone_on_with_by_no_way(address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    talk.reply(id, talk.send(id, "one"))
    agent = talk.base.removesuffix("/conversations")

    def codes(context: str) -> set[tuple[int, str, str]]:
        given = {"message": "two", "context_id": context}
        sent = [talk.http.post(f"{agent}/{way}", json=given) for way in ("invoke", "tasks")]
        sent.append(talk.http.post(f"{talk.base}/{id}/messages", json={"message": "two"}))
        told = [(each.status_code, each.json()["error"]) for each in sent]
        return {(status, error["code"], error["message"]) for status, error in told}

    assert talk.http.delete(f"{talk.base}/{id}").status_code == 204
    assert codes(id) == {(409, "conflict", "channel closed")}
    # Nor by the name that its agent remembered it under after it was cleared.
    id = talk.create()
    assert talk.http.post(f"{talk.base}/{id}/clear", headers={"Idempotency-Key": "c"}).is_success
    talk.reply(id, talk.send(id, "one"))
    assert talk.http.delete(f"{talk.base}/{id}").status_code == 204
    assert codes(id) == codes(f"{id}~2") == {(409, "conflict", "channel closed")}


def test_a_context_goes_on_with_what_was_said_since_a_conversation_was_cleared(address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    talk.reply(id, talk.send(id, "one"))
    assert talk.http.post(f"{talk.base}/{id}/clear", headers={"Idempotency-Key": "c"}).is_success
    talk.reply(id, talk.send(id, "two"))
    given = {"message": "three", "context_id": id}
    answer = talk.http.post("/api/v1/agents/echo/invoke", json=given).json()["data"]
    assert (answer["text"], answer["context_id"]) == ("You said 2: three", id)
    assert talk.reply(id, talk.send(id, "four"))["body"] == "You said 3: four"


def test_clearing_a_conversation_ends_what_goes_on_in_it(address: str, tmp_path: Path) -> None:
    talk = Talk(address, "slow")
    id = talk.create()
    message = talk.send(id, "never")
    next(told for _, told in talk.frames(id) if told.get("parts"))
    answer = talk.http.post(f"{talk.base}/{id}/clear", headers={"Idempotency-Key": "c"})
    assert answer.status_code == 202
    ended = talk.messages(id)
    assert [(each["in_reply_to"], each["state"]) for each in ended] == [(message, "cancelled")]
    (tmp_path / "soon").touch()
    assert talk.reply(id, talk.send(id, "soon"))["state"] == "completed"


def test_files_that_come_with_a_message_reach_the_agent(lone: str) -> None:
    talk = Talk(lone)
    about = {"filename": "a.txt", "content_type": "text/plain"}
    file = talk.http.post("/api/v1/files/presign-upload", json=about).json()["data"]
    assert talk.http.put(
        file["upload_url"], content=b"words", headers={"Content-Type": "text/plain"}
    ).is_success
    id = talk.create()
    given = [{"file_id": file["file_id"]}]
    message = talk.send(id, "read this", attachments=given, idempotency_key="k")
    assert talk.send(id, "read this", attachments=given, idempotency_key="k") == message
    assert "a.txt" in talk.reply(id, message)["body"]
    assert talk.messages(id)[0]["payload"] == {"text": "read this", "attachments": given}
    wrong = {"message": "x", "attachments": [{"file_id": "nobody"}]}
    assert talk.http.post(f"{talk.base}/{id}/messages", json=wrong).status_code == 400


def test_a_silent_stream_gives_signs_of_life(lone: str) -> None:
    talk = Talk(lone)
    id = talk.create()
    with talk.http.stream("GET", f"{talk.base}/{id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(answer.iter_raw()).startswith(b":")


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [
        ("POST", "/{id}/messages", {"message": ""}, {}, 400, "invalid_body"),
        ("POST", "/{id}/messages", {}, {}, 400, "missing_param"),
        ("POST", "/{id}/messages", {"message": "x", "idempotency_key": ""}, {}, 400, "invalid_body"),
        ("PATCH", "/{id}", {"title": "x"}, {}, 400, "missing_param"),
        ("PATCH", "/{id}", {"title": "x" * 257}, {"Idempotency-Key": "k"}, 400, "invalid_body"),
        ("PATCH", "/{id}", {"title": "x", "state": "closed"}, {"Idempotency-Key": "k"}, 400, "invalid_body"),
        ("PATCH", "/{id}", {"title": "x"}, {"Idempotency-Key": "k" * 129}, 400, "invalid_param"),
        ("POST", "/{id}/clear", None, {}, 400, "missing_param"),
        ("PUT", "/{id}/model", {"modelOverrideId": "a/b"}, {}, 400, "missing_param"),
        ("POST", "/{id}/cancel", {"target_message_id": "x" * 129}, {}, 400, "invalid_body"),
        ("POST", "/{id}/cancel", {"reason": "x"}, {}, 400, "missing_param"),
        ("GET", "?state=running", None, {}, 400, "invalid_param"),
        ("GET", "?limit=101", None, {}, 400, "invalid_param"),
        ("GET", "?since=what", None, {}, 400, "invalid_param"),
        ("GET", "/{id}/messages?limit=201", None, {}, 400, "invalid_param"),
        ("GET", "/{id}/messages?since=-1", None, {}, 400, "invalid_param"),
        ("GET", "/ch-unknown", None, {}, 404, "agent_not_found"),
        ("POST", "", {"metadata": {"a": 1}}, {}, 400, "invalid_body"),
        ("POST", "", {"title": "x" * 257}, {}, 400, "invalid_body"),
    ],
)
def test_what_does_not_fit_is_refused(
    lone: str, method: str, path: str, body: Any, headers: dict[str, str], status: int, code: str
) -> None:
    talk = Talk(lone)
    answer = talk.http.request(
        method, talk.base + path.replace("{id}", talk.create()), json=body, headers=headers
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_whose_a_conversation_is_and_with_whom_decides_who_may_read_it(address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    assert talk.http.patch("/api/v1/agents/echo", json={"visibility": "public"}).status_code == 200
    stranger = Talk(address, key=OTHER_KEY)
    for path in ("", "/messages", "/events"):
        answer = stranger.http.get(f"{stranger.base}/{id}{path}")
        assert answer.status_code == 403
        assert answer.json()["error"]["message"] == "conversation is not owned by caller"
    assert stranger.http.delete(f"{stranger.base}/{id}").status_code == 403
    # Their own they may have, with an agent that is open to all.
    mine = stranger.create()
    assert stranger.reply(mine, stranger.send(mine, "hi"))["body"] == "You said 1: hi"
    elsewhere = Talk(address, "slow")
    answer = elsewhere.http.get(f"{elsewhere.base}/{id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_param")
    task = talk.http.post("/api/v1/agents/echo/tasks", json={"message": "x"}).json()["data"]["task_id"]
    answer = talk.http.get(f"{talk.base}/{task}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_param")
    assert answer.json()["error"]["message"] == "conv_id refers to a non-conversation channel"
    answer = talk.http.get(f"{talk.base}/ch-nobody")
    assert answer.json()["error"]["message"] == "conversation not found"
    # Turns are no tasks of the caller's.
    listed = talk.http.get("/api/v1/tasks", params={"state": "all"}).json()["data"]["tasks"]
    assert [each["task_id"] for each in listed] == [task]


def test_a_callers_own_conversation_stays_theirs_when_its_agent_turns_private(address: str) -> None:
    owner, caller = Talk(address), Talk(address, key=OTHER_KEY)
    owner.http.patch("/api/v1/agents/echo", json={"visibility": "public"})
    id, foreign = caller.create(), owner.create()
    caller.reply(id, caller.send(id, "hi"))
    owner.http.patch("/api/v1/agents/echo", json={"visibility": "private"})

    def code(method: str, path: str, body: Any = None) -> tuple[int, str | None]:
        headers = {"Idempotency-Key": _key()}
        answer = caller.http.request(method, f"{caller.base}/{path}", json=body, headers=headers)
        error = answer.json()["error"] if answer.status_code >= 400 else {}
        return answer.status_code, error.get("message")

    hidden = 404, "Agent not found."
    assert code("GET", id)[0] == 200
    assert [each["body"] for each in caller.messages(id)] == ["hi", "You said 1: hi"]
    assert next(caller.frames(id))[1]["body"] == "hi"
    # Nothing new is said, and others' are no more to be found than names that were never there.
    assert code("POST", f"{id}/messages", {"message": "more"}) == hidden
    assert code("POST", f"{id}/clear") == hidden
    assert code("GET", foreign) == code("GET", "ch-nobody") == code("DELETE", foreign) == hidden
    stop = {"target_message_id": caller.messages(id)[0]["message_id"]}
    assert code("POST", f"{id}/cancel", stop)[0] == 202
    assert code("DELETE", id)[0] == 204
    assert caller.http.get(f"{caller.base}/{id}").json()["data"]["state"] == "closed"


def test_characters_that_a_database_cannot_keep_are_refused(address: str) -> None:
    talk = Talk(address)
    id = talk.create()
    for path, body in (
        ("", {"title": "a\0b"}),
        ("", {"metadata": {"c\0d": "e"}}),
        (f"/{id}/messages", {"message": "g\0h"}),
        (f"/{id}/messages", {"message": "x", "attachments": [{"file_id": "s\0t"}]}),
        (f"/{id}/cancel", {"target_message_id": "k\0l"}),
    ):
        answer = talk.http.post(f"{talk.base}{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_body")
    assert talk.http.get(f"{talk.base}/o%00p").status_code == 400
    cursor = base64.urlsafe_b64encode(b"1.0 q\0r").decode()
    assert talk.http.get(talk.base, params={"since": cursor}).status_code in (200, 400)


def test_a_body_that_is_no_json_is_told_as_such(lone: str) -> None:
    talk = Talk(lone)
    id = talk.create()
    answer = talk.http.post(f"{talk.base}/{id}/messages", content=b"{")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    large = json.dumps({"message": "x" * 2**20})
    answer = talk.http.post(f"{talk.base}/{id}/messages", content=large)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
