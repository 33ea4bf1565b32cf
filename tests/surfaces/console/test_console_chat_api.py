"""What the console's page asks about agents: conversations, runs that are followed, and a person's answers."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fairlead import App, Failure, Kind
from fairlead.agents.models.script import call
from fairlead.agents.operator import Approval, Clarification
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.console import Console
from fairlead.surfaces.console.chat_desk import Desk
from fairlead.surfaces.console.chat_runs import Runs
from quay import PATIENCE, Quay, quay

LISTED = "/api/agents/mate/conversations"
ANN = quote(json.dumps({"user": {"id": "ann"}, "auth": None}))


@pytest.fixture(scope="module")
def console(serve: Callable[[Any], Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The console of the quay, with its session."""
    app = quay(tmp_path_factory.mktemp("quay"))
    made = Console(app, program="quay")
    served = serve(made)
    served.app = app
    served.open(made.link(served.address))
    return served


def post(console: Any, question: str, **body: Any) -> Any:
    answer = console.send("POST", f"/api/agents/mate/{question}", body)
    assert answer.status == 200, answer.body
    return answer


def said(answer: Any) -> list[Any]:
    return [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]


def say(console: Any, id: str, text: str, *script: Any) -> list[Any]:
    console.app.script[:] = script
    return said(post(console, "say", id=id, input={"prompt": text}))


def ending_when_read(
    console: Any, monkeypatch: pytest.MonkeyPatch, id: str, *script: Any
) -> threading.Thread:
    """Begin a run that calls `load` and ends as soon as somebody reads its conversation, before that is answered."""
    app = console.app
    app.go.clear()
    kept, ended = app.conversations.get, threading.Event()

    async def slowly(id: str, owner: str) -> Any:
        found = await kept(id, owner)
        app.go.set()
        await asyncio.to_thread(ended.wait, PATIENCE)
        return found

    def saying() -> None:
        say(console, id, "Load.", call("load"), *script)
        ended.set()

    run = threading.Thread(target=saying)
    run.start()
    while not any(each["running"] for each in console.send("GET", LISTED).json["conversations"]):
        pass
    monkeypatch.setattr(app.conversations, "get", slowly)
    return run


def test_the_page_is_told_which_actions_are_agents_and_where_a_message_goes(console: Any) -> None:
    told = {each["name"]: each for each in console.send("GET", "/api/actions").json["actions"]}
    assert told["mate"]["agent"] == {"prompt": "prompt", "model": "script/quay", "keeps": True}
    assert told["judge"]["agent"]["prompt"] is None
    assert "agent" not in told["look"]


def test_what_is_said_is_answered_in_events_and_kept(console: Any) -> None:
    events = say(console, "kept", "Look north.", call("look", where="north"), "All is quiet.")
    assert [each.get("kind") or each["type"] for each in events][:2] == ["tool_call", "tool_result"]
    assert events[-1]["envelope"]["data"] == "All is quiet."
    told = post(console, "open", id="kept").json
    assert [each["role"] for each in told["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert told["messages"][1]["calls"][0]["name"] == "look"
    assert told["conversation"]["running"] is False


def test_a_run_that_ends_while_its_conversation_is_read_is_told_to_its_end(
    console: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ending_when_read(console, monkeypatch, "read", "Loaded.")
    told = post(console, "open", id="read").json
    run.join()
    assert told["conversation"]["running"] is False
    assert told["messages"][-1]["content"] == "Loaded."


def test_a_run_that_has_yet_to_begin_its_conversation_is_there_for_who_comes_back(
    serve: Callable[[Any], Any], tmp_path: Path
) -> None:
    app, ready, go = quay(tmp_path), threading.Event(), threading.Event()

    @app.service
    async def crane() -> Any:
        ready.set()
        await asyncio.to_thread(go.wait, PATIENCE)
        yield "crane"

    made = Console(app)
    console = serve(made)
    console.app = app
    console.open(made.link(console.address))
    run = threading.Thread(target=say, args=(console, "new", "Hello.", "Aye."))
    run.start()
    ready.wait(PATIENCE)
    told = post(console, "open", id="new").json
    go.set()
    run.join()
    assert (told["conversation"]["running"], told["said"], told["messages"]) == (True, "Hello.", [])
    assert [each["content"] for each in post(console, "open", id="new").json["messages"]] == [
        "Hello.",
        "Aye.",
    ]


def test_what_is_said_before_a_run_has_ended_is_refused_also_where_it_ends_meanwhile(
    console: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ending_when_read(console, monkeypatch, "early", "Loaded.", call("load"), "Again.")
    early = console.send("POST", "/api/agents/mate/say", {"id": "early", "input": {"prompt": "More."}})
    monkeypatch.undo()
    console.app.go.set()
    run.join()
    assert early.code == "CONCURRENCY_LIMIT"


def test_a_run_ends_with_its_server_before_the_services_that_it_uses(
    serve: Callable[[Any], Any], tmp_path: Path
) -> None:
    app, log = quay(tmp_path), list[str]()

    @app.service
    def crane() -> Any:
        yield "crane"
        log.append("the run is over" if app.stopped.is_set() else "the run goes on")

    made = Console(app)
    console = type(serve(App("other").console()))(made)
    console.app = app
    console.open(made.link(console.address))
    app.script[:] = [call("wait_here")]

    def saying() -> None:
        with suppress(http.client.IncompleteRead):
            post(console, "say", id="cut", input={"prompt": "Wait."})

    run = threading.Thread(target=saying)
    run.start()
    app.waiting.wait(PATIENCE)
    console.stop()
    run.join()
    assert log == ["the run is over"]


def test_a_failed_run_is_told_with_what_was_said_until_another_says_more(console: Any) -> None:
    say(console, "fails", "Hello.", "Aye.")
    assert "failed" not in post(console, "open", id="fails").json
    wrong = {"prompt": "Take password=hunter2hunter2.", "nothing": 1}
    [ended] = said(post(console, "say", id="fails", input=wrong))
    told = post(console, "open", id="fails").json
    assert told["failed"]["error"] == ended["envelope"]["error"]
    assert told["failed"]["said"].startswith("Take password=")
    assert "hunter2" not in told["failed"]["said"]
    say(console, "fails", "Look up.", Failure(Kind.unavailable, "The model is away."))
    told = post(console, "open", id="fails").json
    assert (told["failed"]["error"]["message"], told["failed"]["said"]) == ("The model is away.", "")
    assert told["messages"][-1]["content"] == "Look up."
    say(console, "fails", "Look again.", "All is quiet.")
    assert "failed" not in post(console, "open", id="fails").json


def test_conversations_are_listed_renamed_and_deleted(console: Any) -> None:
    say(console, "listed", "Remember me", "I do.")
    [entry] = [each for each in console.send("GET", LISTED).json["conversations"] if each["id"] == "listed"]
    assert (entry["title"], entry["messages"]) == ("Remember me", 2)
    post(console, "rename", id="listed", title=" Another ")
    assert post(console, "open", id="listed").json["conversation"]["title"] == "Another"
    post(console, "delete", id="listed")
    answer = console.send("POST", "/api/agents/mate/open", {"id": "listed"})
    assert (answer.status, answer.code) == (404, "NOT_FOUND")


def test_other_agents_conversations_are_not_this_ones(console: Any) -> None:
    say(console, "mates", "Hi", "Hello.")
    assert console.send("GET", "/api/agents/judge/conversations").json["conversations"] == []
    assert console.send("POST", "/api/agents/judge/open", {"id": "mates"}).status == 404


def test_one_sees_only_the_conversations_of_whom_one_acts_as(console: Any) -> None:
    say(console, "own", "Hi", "Hello.")
    assert console.send("GET", LISTED, fairlead_act_as=ANN).json["conversations"] == []
    for question in ("open", "stop", "terminate", "answer", "follow", "rename", "delete"):
        body = {"id": "own", "title": "x", "question": "q", "approve": True}
        answer = console.send("POST", f"/api/agents/mate/{question}", body, fairlead_act_as=ANN)
        assert (answer.status, answer.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("question", "body", "status"),
    [
        ("open", {}, 400),
        ("say", {"id": "x"}, 400),
        ("say", {"id": "x", "input": []}, 400),
        ("rename", {"id": "x", "title": " "}, 400),
        ("follow", {"id": "nothing"}, 404),
        ("terminate", {"id": "nothing"}, 404),
        ("stop", {"id": "nothing", "call": "call-1"}, 404),
        ("answer", {"id": "nothing", "question": "q", "approve": True}, 404),
        ("whatever", {"id": "x"}, 404),
    ],
)
def test_what_cannot_be_done_is_refused(console: Any, question: str, body: Any, status: int) -> None:
    assert console.send("POST", f"/api/agents/mate/{question}", body).status == status


def test_an_action_that_is_no_agent_cannot_be_talked_with(console: Any) -> None:
    answer = console.send("POST", "/api/agents/look/say", {"id": "x", "input": {}})
    assert (answer.status, answer.code) == (404, "ACTION_NOT_FOUND")


def test_nobody_but_the_page_answers(console: Any) -> None:
    body = {"id": "x", "question": "q", "approve": True}
    path = "/api/agents/mate/answer"
    assert console.send("POST", path, body, session=False).status == 401
    assert console.send("POST", path, body, fairlead_session="guess").status == 401
    assert console.send("POST", path, body, origin="http://evil.example").status == 403
    assert console.send("POST", path, body, host="evil.example").status == 403
    assert console.send("POST", path, b"{}", content_type="text/plain").status == 415


# Runs, without the server.

LOCAL = Caller({"id": "me"}, None)


@pytest.fixture
def app(tmp_path: Path) -> Quay:
    return quay(tmp_path)


class Follower:
    """Reads a run's events one by one."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events
        self._ready: list[Any] = []

    async def until(self, kind: str) -> Any:
        async with asyncio.timeout(20):
            while True:
                while self._ready:
                    event = self._ready.pop(0)
                    if kind in (event["type"], event.get("kind")):
                        return event
                piece = await anext(self._events)
                self._ready += [json.loads(each[6:]) for each in piece.decode().split("\n\n") if each]

    async def leave(self) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]


def begin(runs: Runs, app: Quay, *script: Any) -> Any:
    app.script[:] = script
    return runs.begin("me", "c1", app.get("mate"), {"prompt": "Go.", "conversation": "c1"}, LOCAL)  # type: ignore[arg-type]


async def test_a_page_that_comes_back_hears_it_all_and_answers(app: Quay) -> None:
    run = begin(Runs(app), app, call("burn", pier=2), "Done.")
    first = Follower(run.follow())
    asked = await first.until("approval")
    await first.leave()
    second = Follower(run.follow())
    assert await second.until("approval") == asked
    run.desk.answer(asked["data"]["id"], {"approve": True})
    assert (await second.until("result"))["envelope"]["data"] == "Done."
    assert app.done == [2]


async def test_a_run_that_nobody_follows_is_cancelled(app: Quay) -> None:
    run = begin(Runs(app, grace=0), app, call("wait_here"), "never")
    page = Follower(run.follow())
    await page.until("tool_call")
    await asyncio.to_thread(app.waiting.wait, 20)
    await page.leave()
    assert await asyncio.to_thread(app.stopped.wait, 20)
    assert app.done == []


async def test_two_things_are_not_said_at_once(app: Quay) -> None:
    runs = Runs(app)
    run = begin(runs, app, call("wait_here"))
    page = Follower(run.follow())
    await page.until("tool_call")
    with pytest.raises(Failure, match="still at work"):
        begin(runs, app)
    run.terminate("Enough.")
    ended = await page.until("result")
    assert (ended["envelope"]["error"]["code"], ended["envelope"]["error"]["message"]) == (
        "CANCELLED",
        "Enough.",
    )


async def test_a_denied_tool_is_not_run_and_the_run_ends(app: Quay) -> None:
    run = begin(Runs(app), app, call("burn", pier=2), "never")
    page = Follower(run.follow())
    asked = await page.until("approval")
    run.desk.answer(asked["data"]["id"], {"approve": False, "reason": "It is needed."})
    ended = await page.until("result")
    assert ended["envelope"]["error"]["origin"]["code"] == "tool_denied"
    assert app.done == []
    _, kept = await app.conversations.get("c1", "user:" + json.dumps({"id": "me"}, separators=(",", ":")))
    assert "It is needed." in kept[-1].content


async def test_an_answer_counts_once_and_only_while_it_is_asked_for(app: Quay) -> None:
    run = begin(Runs(app), app, call("burn", pier=2), "Done.")
    page = Follower(run.follow())
    id = (await page.until("approval"))["data"]["id"]
    for wrong in ({}, {"approve": "yes"}, {"approve": True, "reason": 3}):
        with pytest.raises(Failure):
            run.desk.answer(id, wrong)
    run.desk.answer(id, {"approve": True})
    with pytest.raises(Failure, match="not open any more"):
        run.desk.answer(id, {"approve": True})
    await page.until("result")


async def test_nobody_who_answers_is_a_no_and_a_question_stays_open() -> None:
    told: list[Any] = []
    desk = Desk(lambda *each: told.append(each), patience=0)
    verdict = await desk.approve(Approval("1", "burn", {}, "mate"))
    assert (verdict.approve, "in time" in verdict.reason) == (False, True)
    assert await desk.clarify(Clarification("2", "Which?")) is None
    assert told == [("answered", "Answered", {"id": "1", "approve": False, "late": True})]


async def test_a_long_run_keeps_its_newest_words_for_who_comes_back(
    app: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.surfaces.console.chat_runs._KEPT", 2_000)
    run = begin(Runs(app), app, "word " * 500)
    page = Follower(run.follow())
    assert (await page.until("result"))["envelope"]["ok"] is True
    assert run._dropped > 0
