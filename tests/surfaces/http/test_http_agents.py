"""Agents over HTTP: a call as any other, its events as they happen, and questions that the next call answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from httpx_sse import connect_sse

from fairlead import App, Context
from fairlead.agents import Agent
from fairlead.agents.models.model import Usage
from fairlead.agents.models.script import ScriptModel, Turn, call

Start = Callable[..., tuple["Quay", httpx.Client]]
PATIENCE = 20.0


class Quay:
    """An app with an agent that follows a script, on a real server."""

    def __init__(self, folder: Path) -> None:
        #: What the model says, turn by turn.
        self.script: list[Any] = []
        self.model = ScriptModel(lambda _: self.script.pop(0))
        self.app = App("quay", store=f"sqlite:///{folder}/quay.db")
        self.done: list[int] = []
        self.waiting, self.stopped = threading.Event(), threading.Event()

        @self.app.action
        async def look(where: str, ctx: Context) -> str:
            """Look around."""
            ctx.progress.report("Looking", percent=50)
            return f"nothing in the {where}"

        @self.app.action(requires_confirmation=True, side_effects="write")
        async def burn(pier: int) -> str:
            """Burn a pier down."""
            self.done.append(pier)
            return "ash"

        @self.app.action
        async def wait_for(ship: str, ctx: Context) -> None:
            """Wait for a ship that does not come."""
            self.waiting.set()
            try:
                await ctx.signal.wait()
            finally:
                self.stopped.set()

        agent = Agent("mate", model=self.model, instructions="Help.", tools=["look", "burn", "wait_for"])
        self.app.add(agent.action)

    def told(self, number: int) -> str:
        """What the model was last told before it answered for the nth time."""
        return self.model.requests[number - 1].messages[-1].content


@pytest.fixture
def harbour(tmp_path: Path) -> Quay:
    """What the sites of this folder serve: here, an app with an agent."""
    return Quay(tmp_path)


@pytest.fixture
def quay(harbour: Quay, open_site: Callable[..., httpx.Client]) -> Start:
    """Serve the agent with a script; gives it, and a client."""

    def start(*script: Any) -> tuple[Quay, httpx.Client]:
        harbour.script[:] = script
        return harbour, open_site()

    return start


def ask(client: httpx.Client, prompt: str, **more: Any) -> httpx.Response:
    return client.post("/fairlead/actions/mate/invoke", json={"input": {"prompt": prompt, **more}})


def events_of(client: httpx.Client, prompt: str, **more: Any) -> list[Any]:
    body = {"input": {"prompt": prompt, **more}}
    with connect_sse(client, "POST", "/fairlead/actions/mate/stream", json=body) as source:
        return list(source.iter_sse())


def test_an_agent_is_called_as_any_action(quay: Start) -> None:
    _, client = quay(call("look", where="north"), Turn("All is quiet.", usage=Usage(12, 4)))
    answer = ask(client, "Look around.")
    assert answer.status_code == 200
    told = answer.json()
    assert told["data"] == "All is quiet."
    assert told["meta"]["agent"]["toolCalls"] == [{"name": "look", "tool_call_id": "call_1"}]
    assert told["meta"]["agent"]["usage"]["input"] == 12


def test_what_it_writes_and_does_is_told_as_it_happens_and_the_result_is_last(quay: Start) -> None:
    _, client = quay(call("look", where="north"), Turn("All is quiet.", usage=Usage(12, 4)))
    events = events_of(client, "Look around.")
    kinds = [each.json().get("kind") or each.event for each in events]
    assert kinds == [
        "tool_call",
        "tool_progress",
        "tool_result",
        "delta",
        "delta",
        "delta",
        "usage",
        "result",
    ]
    assert "".join(each.json()["data"] for each in events if each.event == "delta") == "All is quiet."
    called, ended = events[0].json(), events[2].json()
    assert (called["title"], called["data"]["arguments"]) == ("look", {"where": "north"})
    assert json.loads(ended["data"]["envelope"])["result"] == "nothing in the north"
    assert ended["data"]["ok"] is True
    assert events[-1].json()["envelope"]["data"] == "All is quiet."


def test_the_document_declares_the_events_that_are_sent(quay: Start) -> None:
    _, client = quay(call("look", where="north"), "All is quiet.")
    document = client.get("/openapi.json").json()
    schema = {
        "$ref": "#/components/schemas/StreamEvent",
        "components": document["components"],
    }
    validator = jsonschema_rs.validator_for(schema)
    events = [each.json() for each in events_of(client, "Look around.")]
    for event in events:
        validator.validate(event)
    assert {"delta", "activity"} <= {event["type"] for event in events}


def test_without_anybody_to_ask_an_approval_is_declined_and_the_model_is_told(quay: Start) -> None:
    made, client = quay(call("burn", pier=2), "I was not allowed to.")
    told = ask(client, "Burn pier two.").json()
    assert told["data"] == "I was not allowed to."
    assert made.done == []
    heard = json.loads(made.told(2))
    assert (heard["ok"], heard["kind"], heard["tool"]) == (False, "rejected", "burn")
    assert "nobody can be asked" in heard["message"]


def test_a_question_ends_the_call_and_the_next_one_answers_it(quay: Start) -> None:
    made, client = quay(call("clarify", question="Which pier?", options=["one", "two"]), "Pier two, then.")
    answer = ask(client, "Mend the pier.")
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["code"] == "CONFIRMATION_REQUIRED"
    assert error["origin"] == {"family": "host", "code": "clarify_requested"}
    details = error["details"]
    assert (details["question"], details["options"], details["allow_multiple"]) == (
        "Which pier?",
        ["one", "two"],
        False,
    )
    told = ask(client, "two", conversation=details["conversation"]).json()
    assert told["data"] == "Pier two, then."
    assert json.loads(made.told(2))["result"]["text"] == "two"


def test_a_question_is_heard_by_those_who_stream(quay: Start) -> None:
    _, client = quay(call("clarify", question="Which pier?", options=["one", "two"]))
    events = [each.json() for each in events_of(client, "Mend the pier.", conversation="c1")]
    [asked] = [each for each in events if each.get("kind") == "clarification"]
    assert (asked["title"], asked["data"]["options"]) == ("Which pier?", ["one", "two"])
    assert events[-1]["envelope"]["error"]["details"]["conversation"] == "c1"


def test_a_conversation_goes_on_by_its_id(quay: Start) -> None:
    made, client = quay("Hello.", "You said hi.")
    ask(client, "hi", conversation="c1")
    assert ask(client, "What did I say?", conversation="c1").json()["data"] == "You said hi."
    assert [each.content for each in made.model.requests[1].messages if each.role == "user"] == [
        "hi",
        "What did I say?",
    ]


def test_who_leaves_ends_the_run_and_what_it_does(quay: Start) -> None:
    made, client = quay(call("wait_for", ship="Anna"), "never")
    body = {"input": {"prompt": "Wait."}}
    with connect_sse(client, "POST", "/fairlead/actions/mate/stream", json=body) as source:
        assert next(source.iter_sse()).json()["kind"] == "tool_call"
        assert made.waiting.wait(PATIENCE)
    assert made.stopped.wait(PATIENCE)


def test_a_client_in_python_hears_the_same(quay: Start) -> None:
    from fairlead.surfaces.client import SyncClient

    _, client = quay(call("look", where="north"), "All is quiet.")
    with SyncClient(url=str(client.base_url)) as mate:
        events = list(mate.stream("mate", {"prompt": "Look around."}))
    assert "".join(each["data"] for each in events if each["type"] == "delta") == "All is quiet."
    assert next(each["kind"] for each in events if each["type"] == "activity") == "tool_call"
    assert events[-1]["envelope"]["data"] == "All is quiet."
