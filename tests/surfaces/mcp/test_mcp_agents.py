"""Agents over MCP: what they write and do as progress, and the person at the client as their operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult, TextContent

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, Turn, call

NEWEST = "2026-07-28"
Connect = Callable[..., Any]
CAN_ASK: dict[str, Any] = {"elicitation": {}}


class Quay(App):
    """Remembers what was done, and what the model was told."""

    done: list[int]
    model: ScriptModel

    def told(self, number: int) -> Any:
        """What the model was last told before it answered for the nth time."""
        return json.loads(self.model.requests[number - 1].messages[-1].content)


def quay(folder: Path, *script: Any) -> Quay:
    app = Quay("quay", store=f"sqlite:///{folder}/quay.db")
    app.done, app.model = [], ScriptModel(script)

    @app.action
    async def look(where: str) -> str:
        """Look around."""
        return f"nothing in the {where}"

    @app.action(requires_confirmation=True, side_effects="write", visibility="private")
    async def burn(pier: int) -> str:
        """Burn a pier down."""
        app.done.append(pier)
        return "ash"

    app.add(Agent("mate", model=app.model, instructions="Help.", tools=["look", "burn"]).action)
    return app


def accepts(content: dict[str, Any] | None = None) -> Callable[[Any], Any]:
    return lambda _: {"result": {"action": "accept", "content": content or {}}}


def text_of(result: Any) -> Any:
    return result["content"][0]["text"]


async def test_an_agent_is_a_tool(talk: Connect, tmp_path: Path) -> None:
    client = await talk(quay(tmp_path, call("look", where="north"), "All is quiet."))
    [tool] = [each for each in (await client.ask("tools/list"))["tools"] if each["name"] == "mate"]
    assert set(tool["inputSchema"]["properties"]) == {"prompt", "conversation"}
    result = await client.call("mate", {"prompt": "Look around."})
    assert (text_of(result), result["isError"]) == ("All is quiet.", False)
    about = result["_meta"]["fairlead/envelope"]["meta"]["agent"]
    assert about["toolCalls"] == [{"name": "look", "tool_call_id": "call_1"}]


async def test_what_it_writes_and_does_is_told_as_progress(talk: Connect, tmp_path: Path) -> None:
    client = await talk(quay(tmp_path, call("look", where="north"), "All is quiet."))
    await client.call("mate", {"prompt": "Look around."}, _meta={"progressToken": "p"})
    told = client.of("notifications/progress")
    assert told[0]["message"] == "Using look"
    assert "".join(each["message"] for each in told[1:]) == "All is quiet."
    steps = [each["progress"] for each in told]
    assert steps == sorted(set(steps))


async def test_who_does_not_follow_its_progress_hears_only_the_result(talk: Connect, tmp_path: Path) -> None:
    client = await talk(quay(tmp_path, "All is quiet."))
    await client.call("mate", {"prompt": "Look around."})
    assert client.of("notifications/progress") == []


async def test_pieces_of_a_text_that_are_ready_are_told_together(talk: Connect, tmp_path: Path) -> None:
    words = Turn(pieces=tuple(f"{number} " for number in range(20_000)))
    client = await talk(quay(tmp_path, words))
    await client.call("mate", {"prompt": "Count."}, _meta={"progressToken": 1})
    told = client.of("notifications/progress")
    assert "".join(each["message"] for each in told) == "".join(words.pieces)
    assert len(told) < 2_000


async def test_a_person_is_asked_before_a_tool_is_used(talk: Connect, tmp_path: Path) -> None:
    app = quay(tmp_path, call("burn", pier=2), "It is done.")
    client = await talk(app, capabilities=CAN_ASK)
    client.says["elicitation/create"] = accepts()
    result = await client.call("mate", {"prompt": "Burn pier two."})
    assert (text_of(result), app.done) == ("It is done.", [2])
    [asked] = client.asked
    assert "mate wants to use burn." in asked["params"]["message"]
    assert "pier: 2" in asked["params"]["message"]


async def test_a_yes_can_be_for_the_whole_conversation(talk: Connect, tmp_path: Path) -> None:
    app = quay(tmp_path, call("burn", pier=1), call("burn", pier=2), "Done.", call("burn", pier=3), "Done.")
    client = await talk(app, capabilities=CAN_ASK)
    client.says["elicitation/create"] = accepts({"always": True})
    for _ in range(2):
        await client.call("mate", {"prompt": "Burn.", "conversation": "c1"})
    assert (app.done, len(client.asked)) == ([1, 2, 3], 1)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"result": {"action": "decline"}}, "user_denied"),
        ({"error": {"code": -1, "message": "no"}}, "rejected"),
    ],
)
async def test_a_no_is_told_to_the_model(answer: Any, kind: str, talk: Connect, tmp_path: Path) -> None:
    app = quay(tmp_path, call("burn", pier=2), "As you wish.")
    client = await talk(app, capabilities=CAN_ASK)
    client.says["elicitation/create"] = lambda _: answer
    assert text_of(await client.call("mate", {"prompt": "Burn pier two."})) == "As you wish."
    assert (app.done, app.told(2)["kind"]) == ([], kind)


@pytest.mark.parametrize("revision", ["2025-11-25", NEWEST])
async def test_a_client_that_cannot_be_asked_has_not_agreed(
    revision: str, talk: Connect, tmp_path: Path
) -> None:
    app = quay(tmp_path, call("burn", pier=2), "I may not.")
    client = await talk(app, revision)
    assert text_of(await client.call("mate", {"prompt": "Burn pier two."})) == "I may not."
    assert app.done == []
    assert "cannot be asked" in app.told(2)["message"]
    assert app.told(2)["kind"] == "rejected"


async def test_an_agents_question_is_put_to_the_person(talk: Connect, tmp_path: Path) -> None:
    app = quay(tmp_path, call("clarify", question="Which pier?", options=["one", "two"]), "Two it is.")
    client = await talk(app, capabilities=CAN_ASK)
    client.says["elicitation/create"] = accepts({"answer": "two"})
    assert text_of(await client.call("mate", {"prompt": "Mend the pier."})) == "Two it is."
    [asked] = client.asked
    assert asked["params"]["message"] == "Which pier?"
    assert asked["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["one", "two"]
    assert app.told(2)["result"]["text"] == "two"


@pytest.mark.parametrize(
    ("revision", "given", "heard"), [("2025-11-25", ["a", "b"], "a\nb"), ("2025-06-18", "b", "b")]
)
async def test_several_may_be_chosen_where_the_protocol_has_a_form_for_it(
    revision: str, given: Any, heard: str, talk: Connect, tmp_path: Path
) -> None:
    ask = call("clarify", question="Which?", options=["a", "b", "c"], allow_multiple=True)
    app = quay(tmp_path, ask, "Good.")
    client = await talk(app, revision, capabilities=CAN_ASK)
    client.says["elicitation/create"] = accepts({"answer": given})
    assert text_of(await client.call("mate", {"prompt": "Choose."})) == "Good."
    assert app.told(2)["result"]["text"] == heard


async def test_a_question_that_is_not_answered_leaves_the_run_paused(talk: Connect, tmp_path: Path) -> None:
    app = quay(tmp_path, call("clarify", question="Which pier?"), "Two it is.")
    client = await talk(app, capabilities=CAN_ASK)
    client.says["elicitation/create"] = lambda _: {"result": {"action": "cancel"}}
    result = await client.call("mate", {"prompt": "Mend the pier."})
    assert result["isError"] is True
    error = result["_meta"]["fairlead/envelope"]["error"]
    assert (error["origin"]["code"], error["message"]) == ("clarify_requested", "Which pier?")
    later = {"prompt": "two", "conversation": error["details"]["conversation"]}
    assert text_of(await client.call("mate", later)) == "Two it is."


async def test_without_a_connection_to_ask_over_the_answer_comes_in_another_round(
    talk: Connect, tmp_path: Path
) -> None:
    ask = call("clarify", question="Which pier?", options=["one", "two"])
    app = quay(tmp_path, call("look", where="north"), ask, call("clarify", question="Sure?"), "Two it is.")
    client = await talk(app, NEWEST, capabilities=CAN_ASK)
    asked = await client.call("mate", {"prompt": "Mend the pier."})
    for given in ("two", "yes"):
        assert asked["resultType"] == "input_required"
        [key] = asked["inputRequests"]
        back = {key: {"action": "accept", "content": {"answer": given}}}
        asked = await client.call(
            "mate", {"prompt": "Mend the pier."}, inputResponses=back, requestState=asked["requestState"]
        )
    assert (asked["resultType"], text_of(asked)) == ("complete", "Two it is.")
    # It went on where it was: nothing was looked at twice, and the model was asked once a turn.
    assert len(app.model.requests) == 4
    assert [app.told(number)["tool"] for number in (2, 3, 4)] == ["look", "clarify", "clarify"]


async def test_a_round_without_an_answer_asks_again_and_a_no_leaves_it_paused(
    talk: Connect, tmp_path: Path
) -> None:
    app = quay(tmp_path, call("clarify", question="Which pier?"), "Two it is.")
    client = await talk(app, NEWEST, capabilities=CAN_ASK)
    first = await client.call("mate", {"prompt": "Mend it."})
    again = await client.call("mate", {"prompt": "Mend it."}, requestState=first["requestState"])
    assert again["inputRequests"] == first["inputRequests"]
    [key] = again["inputRequests"]
    back = {key: {"action": "decline"}}
    refused = await client.call(
        "mate", {"prompt": "Mend it."}, inputResponses=back, requestState=again["requestState"]
    )
    assert refused["isError"] is True
    details = refused["_meta"]["fairlead/envelope"]["error"]["details"]
    later = {"prompt": "two", "conversation": details["conversation"]}
    assert text_of(await client.call("mate", later)) == "Two it is."


async def test_a_round_works_once(talk: Connect, tmp_path: Path) -> None:
    app = quay(tmp_path, call("clarify", question="Which pier?"), "Two it is.")
    client = await talk(app, NEWEST, capabilities=CAN_ASK)
    first = await client.call("mate", {"prompt": "Mend it."})
    [key] = first["inputRequests"]
    round = {
        "inputResponses": {key: {"action": "accept", "content": {"answer": "two"}}},
        "requestState": first["requestState"],
    }
    assert text_of(await client.call("mate", {"prompt": "Mend it."}, **round)) == "Two it is."
    with pytest.raises(Exception, match="used before"):
        await client.call("mate", {"prompt": "Mend it."}, **round)


@pytest.mark.parametrize("mode", ["legacy", NEWEST])
async def test_the_official_client_talks_with_an_agent(mode: str, site: Any, tmp_path: Path) -> None:
    ask = call("clarify", question="Which pier?", options=["one", "two"])
    app = quay(tmp_path, ask, call("burn", pier=2), "All is *quiet*.")
    served = await site(app.mcp().http())
    asked: list[str] = []
    heard: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        fields = params.requested_schema.get("properties", {})
        return ElicitResult(action="accept", content={"answer": "two"} if "answer" in fields else {})

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with Client(served.url, mode=mode, elicitation_callback=answer) as client:
        result = await client.call_tool("mate", {"prompt": "Mend it."}, progress_callback=hear)
    [said] = result.content
    assert isinstance(said, TextContent)
    assert said.text == "All is *quiet*."
    assert asked[0] == "Which pier?"
    assert "All is *quiet*." in "".join(heard)
    # While a call runs, only a connection that goes both ways can ask.
    assert (app.done, len(asked)) == (([2], 2) if mode == "legacy" else ([], 1))
