"""Tasks over HTTP, with the published SDK as it is, and with bare HTTP where the SDK would refuse by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import beeos_sdk as sdk
import pytest
from beeos_sdk.exceptions import ApiException, ConflictException, ForbiddenException, NotFoundException

from fairlead import App
from gateway.site_under_test import OWNER, SCOPED, STRANGER, Site, error


def test_a_task_is_created_and_ends_with_its_result(site: Site) -> None:
    request = sdk.CreateTaskRequest(
        message="hello", deadline_ms=60_000, metadata={"trace": "t1", "protocol": "mine"}
    )
    made = site.tasks().create_task_with_http_info("echo", request)
    assert made.status_code == 202
    assert (made.data.data.agent_id, made.data.data.status) == ("echo", "queued")
    done = site.ended("echo", made.data.data.task_id)
    assert (done.status, done.result, done.error) == ("completed", "You said: hello", None)
    assert (done.caller_id, done.metadata) == ("local", {"trace": "t1"})
    assert done.created_at <= done.started_at <= done.completed_at < done.deadline_at


def test_an_agent_that_fails_leaves_a_failed_task(site: Site) -> None:
    done = site.ended("broken", site.create("broken"))
    assert (done.status, done.result, done.error) == ("failed", None, "The model is on strike.")


def test_the_same_key_gives_the_same_task_and_another_payload_is_refused(site: Site) -> None:
    first = site.create("echo", "hello", idempotency_key="k", metadata={"a": "b"})
    assert site.create("echo", "hello", idempotency_key="k", metadata={"a": "b"}) == first
    others: list[dict[str, Any]] = [
        {"message": "bye", "metadata": {"a": "b"}},
        {"message": "hello"},
        {"message": "hello", "metadata": {"a": "b"}, "deadline_ms": 1000},
    ]
    for body in others:
        with pytest.raises(ConflictException) as refused:
            site.tasks().create_task("echo", sdk.CreateTaskRequest(idempotency_key="k", **body))
        assert error(refused).code == "conflict"
        assert error(refused).message == "duplicate idempotency key"
    assert site.create("memory", "hello", idempotency_key="k") != first


def test_of_many_creates_with_one_key_at_once_there_is_one_task(site: Site) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: site.create("echo", idempotency_key="race"), range(16)))
    assert len(set(made)) == 1
    assert len(site.tasks().list_user_tasks(state="all").data.tasks) == 1


def test_limits_that_the_sdk_would_hold_by_itself(site: Site) -> None:
    path = "/agents/echo/tasks"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"message": "x", "deadline_ms": 604_800_001}, "invalid_param"),
        ({"message": "x", "deadline_ms": -1}, "invalid_param"),
        ({"message": "x", "deadline_ms": True}, "invalid_param"),
        ({"message": "x", "deadline_ms": 1.5}, "invalid_param"),
        ({"message": "x", "attachments": [{"file_id": "f"}] * 17}, "invalid_body"),
        ({"message": "x", "attachments": [{"file_id": "nobody's"}]}, "invalid_param"),
        ({"message": "x", "metadata": {"a": 1}}, "invalid_body"),
        ({"message": "x", "idempotency_key": "k" * 129}, "invalid_body"),
        ({"message": 7}, "invalid_body"),
        ({}, "missing_param"),
    ]
    with site.raw() as client:
        for body, code in wrong:
            answer = client.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), body
        assert client.post(path, content=b"{").json()["error"]["code"] == "invalid_json"
        assert client.post(path, content=b"[]").json()["error"]["code"] == "invalid_body"
        large = client.post(path, json={"message": "x" * (1024 * 1024)})
        assert (large.status_code, large.json()["error"]["code"]) == (413, "payload_too_large")
        assert "retry-after" not in large.headers
        for query in ("state=running", "limit=0", "limit=101", "limit=x", "since=nonsense", "since=bmFuIHg"):
            answer = client.get(f"/tasks?{query}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_param"), query
        assert client.get("/tasks?agent_id=" + "a" * 129).status_code == 400
        assert client.post(path, json={"message": "x", "deadline_ms": 0}).status_code == 202


def test_tasks_are_listed_newest_first_page_by_page(site: Site) -> None:
    ids = [site.create("echo", f"m{number}") for number in range(5)]
    ids += [site.create("memory", "m5")]
    for id in ids[:5]:
        site.ended("echo", id)
    site.ended("memory", ids[5])
    tasks = site.tasks()
    listed, since = [], None
    while True:
        page = tasks.list_user_tasks(state="all", limit=2, since=since).data
        listed += [row.task_id for row in page.tasks]
        since = page.next_since
        if not since:
            break
    assert listed == ids[::-1]
    rows = tasks.list_agent_tasks("memory", state="closed").data.tasks
    assert [(row.task_id, row.state, row.close_reason) for row in rows] == [(ids[5], "closed", "completed")]
    assert [row.task_id for row in tasks.list_user_tasks(state="all", agent_id="memory").data.tasks] == ids[
        5:
    ]
    assert len(tasks.list_user_tasks(state="all", instance_id="local").data.tasks) == 6
    assert tasks.list_user_tasks(state="all", instance_id="elsewhere").data.tasks == []
    assert tasks.list_user_tasks().data.tasks == []


def test_open_tasks_are_those_that_have_not_ended(site: Site) -> None:
    site.ended("echo", site.create("echo"))
    id = site.create("slow", "s1", deadline_ms=600_000)
    site.seen("begun-s1")
    for state in ("active", "open", None):
        (row,) = site.tasks().list_user_tasks(state=state).data.tasks
        assert (row.task_id, row.state, row.close_reason) == (id, "active", None)
        assert row.deadline_at is not None
    site.leave("go-s1")
    site.ended("slow", id)
    assert site.tasks().list_agent_tasks("slow").data.tasks == []


def test_a_foreign_task_is_forbidden_and_one_of_an_unknown_agent_is_not_found(site: Site) -> None:
    id = site.create("echo")
    with pytest.raises(NotFoundException) as missing:
        site.tasks(STRANGER).get_task("echo", id)
    assert error(missing).code == "agent_not_found"
    site.agents().update_agent("echo", sdk.UpdateAgentRequest(visibility="public"))
    calls: list[Callable[[Any], Any]] = [
        lambda api: api.get_task("echo", id),
        lambda api: api.list_task_messages("echo", id),
        lambda api: api.stream_task_events("echo", id),
        lambda api: api.cancel_task("echo", id),
        lambda api: api.continue_task("echo", id),
    ]
    for each in calls:
        with pytest.raises(ForbiddenException) as refused:
            each(site.tasks(STRANGER))
        assert error(refused).code == "forbidden"
    assert site.tasks(STRANGER).list_agent_tasks("echo", state="all").data.tasks == []
    for agent, task in (("echo", "nothing"), ("memory", id), ("nobody", id)):
        with pytest.raises(NotFoundException):
            site.tasks().get_task(agent, task)


def test_a_task_stays_its_callers_when_its_agent_becomes_private(site: Site) -> None:
    site.agents().update_agent("slow", sdk.UpdateAgentRequest(visibility="public"))
    theirs = site.tasks(STRANGER).create_task("slow", sdk.CreateTaskRequest(message="hers")).data.task_id
    other = site.create("slow", "his")
    site.seen("begun-hers")
    site.agents().update_agent("slow", sdk.UpdateAgentRequest(visibility="private"))
    api = site.tasks(STRANGER)
    assert [row.task_id for row in api.list_user_tasks().data.tasks] == [theirs]
    assert api.get_task("slow", theirs).data.status == "running"
    assert api.cancel_task("slow", theirs).data.status == "canceled"
    assert api.list_task_messages("slow", theirs).data.messages
    refusals = []
    for task in (other, "nothing"):
        with pytest.raises(NotFoundException) as missing:
            api.get_task("slow", task)
        refusals.append((error(missing).code, error(missing).message))
    assert refusals[0] == refusals[1]


def test_a_task_stays_its_callers_when_its_agent_is_gone(site: Site) -> None:
    with site.raw() as client:
        lease = client.post("/runtime/registrations", json={"name": "far"}).json()["data"]["leaseId"]
        id = client.post("/agents/far/tasks", json={"message": "hello"}).json()["data"]["task_id"]
        gone = client.post("/runtime/registrations/far/unregister", json={"leaseId": lease, "remove": True})
        assert gone.status_code == 200
        assert client.get(f"/agents/far/tasks/{id}").json()["data"]["task_id"] == id
    with site.raw(SCOPED) as client:
        assert client.get(f"/agents/far/tasks/{id}").status_code == 404


def test_a_key_for_one_agent_sees_only_its_tasks(site: Site) -> None:
    mine, other = site.create("echo"), site.create("memory")
    site.ended("echo", mine)
    site.ended("memory", other)
    rows = site.tasks(SCOPED).list_user_tasks(state="all").data.tasks
    assert [row.task_id for row in rows] == [mine]
    with pytest.raises(NotFoundException):
        site.tasks(SCOPED).get_task("memory", other)


def test_a_task_asks_and_goes_on_with_the_answer(site: Site) -> None:
    id = site.create("asker")
    asked = site.until("asker", id, "agent.input_required")[-1]
    assert (asked["body"], asked["publisher_id"]) == ("Which?", "agent:asker")
    assert site.tasks().get_task("asker", id).data.status == "input_required"
    with pytest.raises(ConflictException):
        site.tasks().continue_task("asker", id, sdk.ContinueTaskRequest(auth_grant=True))
    told = site.tasks().continue_task("asker", id, sdk.ContinueTaskRequest(input="tea"))
    assert told.data.status in ("running", "completed")
    done = site.ended("asker", id)
    assert done.status == "completed"
    assert "tea" in done.result
    types = [each.type for each in site.tasks().list_task_messages("asker", id).data.messages]
    assert types.index("agent.input_required") < types.index("user.continue") < types.index("agent_reply", -1)
    with pytest.raises(ConflictException) as refused:
        site.tasks().continue_task("asker", id)
    assert error(refused).message == "task is already closed"


def test_a_task_waits_for_a_grant(site: Site) -> None:
    id = site.create("burner")
    asked = site.until("burner", id, "agent.auth_required")[-1]
    assert asked["payload"]["options"] == ["approve", "deny"]
    assert site.tasks().get_task("burner", id).data.status == "auth_required"
    with site.raw() as client:
        wrong = client.post(f"/agents/burner/tasks/{id}/continue", json={"input": "perhaps"})
        assert wrong.status_code == 400
        assert client.post(f"/agents/burner/tasks/{id}/continue", json={"auth_grant": 1}).status_code == 400
    site.tasks().continue_task("burner", id, sdk.ContinueTaskRequest(auth_grant=True))
    done = site.ended("burner", id)
    assert (done.status, "ash 3" in done.result) == ("completed", True)
    types = [each.type for each in site.tasks().list_task_messages("burner", id).data.messages]
    assert "user.auth_grant" in types


@pytest.mark.parametrize(("agent", "answer"), [("asker", {"input": "tea"}), ("burner", {"auth_grant": True})])
def test_what_was_told_before_a_task_asked_is_not_told_again(
    site: Site, agent: str, answer: dict[str, Any]
) -> None:
    id = site.create(agent)
    site.until(agent, id, "agent.auth_required" if "auth_grant" in answer else "agent.input_required")
    site.tasks().continue_task(agent, id, sdk.ContinueTaskRequest(**answer))
    assert site.ended(agent, id).status == "completed"
    with site.raw() as client:
        told = client.get(f"/agents/{agent}/tasks/{id}/messages").json()["data"]["messages"]
    parts = [
        (part["type"], part.get("id") or part["tool_use_id"])
        for each in told
        for part in each.get("parts", ())
    ]
    assert [type for type, _ in parts] == ["tool_use", "tool_result"]
    assert len({call for _, call in parts}) == 1
    waiting = [each["offset"] for each in told if "Awaiting user response." in str(each)]
    answered = next(each["offset"] for each in told if each["type"].startswith("user."))
    assert all(offset < answered for offset in waiting)


def test_a_running_task_takes_no_answer(site: Site) -> None:
    id = site.create("slow", "run")
    site.seen("begun-run")
    with pytest.raises(ConflictException):
        site.tasks().continue_task("slow", id, sdk.ContinueTaskRequest(input="now"))
    site.leave("go-run")
    assert site.ended("slow", id).result == "done run"


def test_a_cancel_stops_the_agent_and_is_final(site: Site) -> None:
    id = site.create("slow", "cut")
    site.seen("begun-cut")
    told = site.tasks().cancel_task("slow", id, sdk.CancelTaskRequest(reason="enough")).data
    assert told.status == "canceled"
    site.seen("stopped-cut")
    site.leave("go-cut")
    again = site.tasks().cancel_task("slow", id).data
    assert (again.status, again.result, again.completed_at) == ("canceled", None, told.completed_at)
    last = site.tasks().list_task_messages("slow", id).data.messages[-1]
    assert (last.type, last.state, last.stop_reason) == ("chat_cancel", "cancelled", "user_stop")
    assert (last.payload, last.publisher_id) == ({"reason": "enough"}, "user:local")
    (row,) = site.tasks().list_agent_tasks("slow", state="closed").data.tasks
    assert row.close_reason == "canceled"


def test_a_cancel_of_a_completed_task_changes_nothing(site: Site) -> None:
    id = site.create("echo")
    before = site.ended("echo", id)
    assert site.tasks().cancel_task("echo", id).data == before


def test_cancels_and_ends_that_race_agree_for_ever(site: Site) -> None:
    def race(number: int) -> tuple[str, str]:
        id = site.create("slow", f"race{number}")
        site.seen(f"begun-race{number}")
        going = threading.Thread(target=site.leave, args=(f"go-race{number}",))
        going.start()
        told = site.tasks().cancel_task("slow", id).data.status
        going.join()
        return told, site.ended("slow", id).status

    with ThreadPoolExecutor(4) as threads:
        for told, later in threads.map(race, range(8)):
            assert told == later
            assert told in ("canceled", "completed")


def test_a_deadline_ends_a_task(site: Site) -> None:
    id = site.create("slow", "late", deadline_ms=300)
    done = site.ended("slow", id)
    assert (done.status, done.result) == ("timeout", None)
    last = site.tasks().list_task_messages("slow", id).data.messages[-1]
    assert (last.type, last.state, last.stop_reason) == ("agent_reply_error", "cancelled", "timeout")
    (row,) = site.tasks().list_agent_tasks("slow", state="closed").data.tasks
    assert row.close_reason == "timeout"


def test_a_task_goes_on_in_a_context(site: Site) -> None:
    first = site.create("memory", "one")
    assert site.ended("memory", first).result == "one"
    second = site.create("memory", "two", context_id=first)
    assert second != first
    assert site.ended("memory", second).result == "one | two"
    third = site.agents().invoke_agent("memory", sdk.InvokeAgentRequest(message="three", context_id=first))
    assert (third.data.text, third.data.context_id) == ("one | two | three", first)
    fourth = site.create("memory", "four", context_id=third.data.context_id)
    assert site.ended("memory", fourth).result == "one | two | three | four"


def test_what_an_agent_does_is_told_in_parts(site: Site) -> None:
    id = site.create("looker")
    site.ended("looker", id)
    shown = site.tasks().list_task_messages("looker", id).data.messages
    parts = [part.actual_instance for each in shown for part in each.parts or ()]
    used = next(part for part in parts if part.type == "tool_use")
    result = next(part for part in parts if part.type == "tool_result")
    assert (used.name, used.arguments, result.tool_use_id, result.is_error) == (
        "look",
        {"where": "bay"},
        used.id,
        False,
    )
    assert shown[0].type == "chat_message"
    assert (shown[-1].type, shown[-1].body, shown[-1].state) == ("agent_reply", "Nothing there.", "completed")
    assert all(each.state == "streaming" for each in shown[1:-1])
    everything = site.tasks().list_task_messages("looker", id, include_deltas=True).data.messages
    assert {"agent_reply_delta", "agent_thought_chunk"} <= {each.type for each in everything}


def test_messages_are_read_page_by_page(site: Site) -> None:
    id = site.create("talker", "hi", idempotency_key="m1")
    site.ended("talker", id)
    tasks = site.tasks()
    whole = tasks.list_task_messages("talker", id).data
    assert [each.type for each in whole.messages] == ["chat_message", "agent_reply"]
    question, reply = whole.messages
    assert (question.message_id, question.offset, question.publisher_id) == ("m1", 1, "user:local")
    assert (reply.in_reply_to, reply.offset, reply.stop_reason) == ("m1", whole.latest_offset, "end_turn")
    assert (whole.has_more, whole.next_since) == (False, str(whole.latest_offset))
    offsets, since = [], 0
    while True:
        page = tasks.list_task_messages("talker", id, since=since, limit=1, include_deltas=True).data
        offsets += [each.offset for each in page.messages]
        assert page.latest_offset == whole.latest_offset
        since = int(page.next_since)
        if not page.has_more:
            break
    assert offsets == sorted(set(offsets))
    assert len(offsets) >= 3
    beyond = tasks.list_task_messages("talker", id, since=1000).data
    assert (beyond.messages, beyond.latest_offset, beyond.next_since) == ([], whole.latest_offset, "1000")
    with site.raw() as client:
        for query in ("limit=0", "limit=501", "since=-1", "since=x"):
            assert client.get(f"/agents/talker/tasks/{id}/messages?{query}").status_code == 400, query


def test_empty_bodies_are_taken(site: Site) -> None:
    id = site.create("echo")
    site.ended("echo", id)
    with site.raw() as client:
        headers = {"Content-Type": "application/json", "Content-Length": "0"}
        path = f"/agents/echo/tasks/{id}"
        assert client.post(f"{path}/cancel", headers=headers).status_code == 200
        assert client.post(f"{path}/continue", headers=headers).status_code == 409
        assert client.post(f"{path}/cancel", json={"reason": 7}).status_code == 400
        assert client.post(f"{path}/cancel", content=b"nonsense").json()["error"]["code"] == "invalid_json"


def test_ids_that_are_too_long_are_refused_and_strangers_turned_away(site: Site) -> None:
    with site.raw() as client:
        answer = client.get(f"/agents/echo/tasks/{'x' * 129}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_param")
        assert answer.headers["x-request-id"] == answer.json()["error"]["request_id"]
        assert client.get("/agents/echo/tasks/a%2Fb").status_code == 404
        assert client.get("/nothing/here").status_code == 404
    with site.raw(key=None) as client:
        assert client.get("/tasks").json()["error"]["code"] == "unauthorized"
    with pytest.raises(ApiException) as refused:
        site.tasks("oag_" + "00" * 32).list_user_tasks()
    assert (refused.value.status, error(refused).code) == (401, "invalid_token")


def test_ended_tasks_leave_the_list_of_the_open_ones_by_themselves(site: Site, app: App) -> None:
    from fairlead.gateway.entries import sweep

    id = site.create("echo")
    site.ended("echo", id)
    assert app.store.write_now(lambda tx: sweep(tx, app.wall() + 60))[0][1] == id
    marked = app.store.read_now(lambda tx: tx.one(_OPEN, task=id))
    assert marked == (0,)
    assert site.tasks(OWNER).get_task("echo", id).data.status == "completed"


def _statement() -> Any:
    from fairlead.store.statements import Statement

    return Statement.of("SELECT open FROM gateway_tasks WHERE task = :task")


_OPEN = _statement()
