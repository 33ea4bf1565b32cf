"""What a model cannot do, however careless or led astray it is: pass its limits, lose results, or have things unsaid.

Agents are called through an app, with a scripted model and actions that note what is done to them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, _json
from fairlead.agents import OPERATOR, Agent, Approval, Clarification, Limits, Policy, Verdict
from fairlead.agents.models import Models
from fairlead.agents.models.model import Message, ToolCall, Usage
from fairlead.agents.models.script import ScriptModel, Turn, call
from fairlead.agents.running import CHAT

SUMMARY = "Both shelves were looked at, and both of them are in order."


class Shop:
    """An app whose actions note what is done."""

    def __init__(self, folder: Path) -> None:
        self.app = App("shop", store=f"sqlite:///{folder}/shop.db")
        self.done: list[str] = []
        self.at_once = self.most_at_once = 0
        app = self.app

        @app.action
        async def look(at: str) -> str:
            """Look at something."""
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(0)
            self.at_once -= 1
            self.done.append(at)
            return f"seen {at}"

        @app.action
        async def file_read(path: str) -> dict[str, Any]:
            """Read a file."""
            self.done.append(f"read {path}")
            return {"kind": "file", "path": path, "text": "words"}

        @app.action
        async def wait(name: str) -> str:
            """Wait for ever."""
            try:
                await asyncio.Event().wait()
            finally:
                self.done.append(f"gave {name} up")
            return name

    def agent(self, *turns: Any, name: str = "clerk", tools: Any = "*", **options: Any) -> ScriptModel:
        model = ScriptModel(turns)
        made = Agent(name, model=model, instructions="You are a clerk.", tools=tools, **options)
        self.app.add(made.action)
        return model

    async def ask(self, agent: str = "clerk", conversation: str | None = None, *, chat: bool = False) -> Any:
        input = {"prompt": "Go.", **({} if conversation is None else {"conversation": conversation})}
        return await self.app.invoke(agent, input, metadata={CHAT: True} if chat else {})

    async def kept(self) -> list[Message]:
        return list((await self.app.conversations.get("c1", ""))[1])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def results(messages: Any) -> list[str]:
    return [each.content for each in messages if each.role == "tool"]


def limited(**limits: Any) -> Policy:
    return Policy(limits=Limits(**limits))


async def test_calls_that_share_an_id_are_each_made_and_answered(shop: Shop) -> None:
    twice = (ToolCall("look", '{"at":"a"}', "call_0"), ToolCall("look", '{"at":"b"}', "call_0"))
    model = shop.agent(Turn(calls=twice), "Done.")
    assert (await shop.ask()).data == "Done."
    assert sorted(shop.done) == ["a", "b"]
    told = model.requests[-1].messages
    assert ["seen a" in told[-2].content, "seen b" in told[-1].content] == [True, True]
    ids = [each.id for each in told[-3].calls]
    assert ids == [told[-2].call_id, told[-1].call_id]
    assert len(set(ids)) == 2


async def test_a_turn_of_many_calls_does_not_pass_the_limit_of_calls(shop: Shop) -> None:
    shop.agent([call("look", at=str(n)) for n in range(10)], "Done.", policy=limited(tool_calls=3))
    result = await shop.ask(conversation="c1")
    assert result.failure.code == "max_tool_calls"
    assert len(shop.done) == 3
    refused = [_json.loads(each) for each in results(await shop.kept())[3:]]
    assert {each["kind"] for each in refused} == {"rejected"}


async def test_a_run_that_made_all_its_calls_may_still_answer(shop: Shop) -> None:
    shop.agent([call("look", at="a")], call("complete", summary=SUMMARY), policy=limited(tool_calls=1))
    assert (await shop.ask()).data == SUMMARY


async def test_reads_that_are_given_again_do_not_hide_that_tokens_are_used_up(shop: Shop) -> None:
    usage = Usage(input=90, output=10)
    turns = [Turn(calls=(call("file_read", path="a"),), usage=usage) for _ in range(6)]
    model = shop.agent(*turns, "Done.", policy=limited(tool_calls=1, tokens=300))
    result = await shop.ask()
    assert result.failure.code == "budget_exceeded"
    assert len(model.requests) == 3


async def test_a_turn_of_very_many_calls_is_made_a_part_at_a_time(shop: Shop) -> None:
    shop.agent([call("look", at=str(n)) for n in range(200)], "Done.")
    assert (await shop.ask()).data == "Done."
    assert sorted(shop.done) == sorted(str(n) for n in range(200))
    assert 1 < shop.most_at_once <= 32


async def test_time_that_is_used_up_ends_a_tool_that_is_being_run(shop: Shop) -> None:
    shop.agent([call("wait", name="a"), call("look", at="b")], "Done.", policy=limited(seconds=1.0))
    result = await shop.ask(conversation="c1")
    assert result.failure.code == "budget_exceeded"
    assert result.failure.details["limit"] == "seconds"
    assert sorted(shop.done) == ["b", "gave a up"]
    assert [_json.loads(each)["ok"] for each in results(await shop.kept())] == [False, True]


async def test_time_that_is_used_up_ends_a_model_that_does_not_answer(shop: Shop) -> None:
    shop.agent(Turn("Never.", after=asyncio.Event()), policy=limited(seconds=1.0))
    result = await shop.ask(conversation="c1")
    assert result.failure.code == "budget_exceeded"
    assert [each.role for each in await shop.kept()] == ["user"]


async def test_calls_after_complete_are_not_told_as_done(shop: Shop) -> None:
    shop.agent([call("complete", summary=SUMMARY), call("look", at="late")])
    assert (await shop.ask(conversation="c1")).data == SUMMARY
    assert shop.done == []
    done, late = (_json.loads(each) for each in results(await shop.kept()))
    assert (done["ok"], late["ok"], late["retryable"]) == (True, False, False)


async def test_results_of_reads_that_were_asked_for_twice_are_in_the_models_order(shop: Shop) -> None:
    reads = [call("file_read", path="a"), call("file_read", path="a"), call("look", at="b")]
    model = shop.agent(reads, "Done.")
    await shop.ask()
    names = [each.name for each in model.requests[-1].messages if each.role == "tool"]
    assert names == ["file_read", "file_read", "look"]
    assert shop.done.count("read a") == 1


class Nobody:
    """Declines everything, and counts."""

    asked = 0

    async def approve(self, ask: Approval) -> Verdict:
        self.asked += 1
        return Verdict(False)

    async def clarify(self, ask: Clarification) -> None:
        return None


async def test_a_read_that_was_declined_is_not_asked_for_again_in_the_same_turn(shop: Shop) -> None:
    reads = [call("file_read", path="a"), call("file_read", path="a")]
    shop.agent(reads, "All right.", gates={"file_read": "ask"})
    token = OPERATOR.set(person := Nobody())
    try:
        assert (await shop.ask()).data == "All right."
    finally:
        OPERATOR.reset(token)
    assert (person.asked, shop.done) == (1, [])


async def test_a_summary_that_is_not_of_the_declared_type_is_asked_for_again(shop: Shop) -> None:
    good = '{"shelves": 2, "names": ["north shelf", "south shelf"]}'
    model = shop.agent(
        call("complete", summary=SUMMARY), call("complete", summary=good), output=dict[str, Any]
    )
    assert (await shop.ask()).data == {"shelves": 2, "names": ["north shelf", "south shelf"]}
    told = _json.loads(model.requests[-1].messages[-1].content)
    assert (told["kind"], told["field"]) == ("invalid_args", "summary")


async def test_summaries_that_are_never_of_the_declared_type_end_the_run(shop: Shop) -> None:
    model = shop.agent(*[call("complete", summary=SUMMARY)] * 9, output=dict[str, Any])
    assert (await shop.ask()).failure.code == "output_extraction_failed"
    assert len(model.requests) == 4


async def test_a_chat_that_has_nothing_to_say_at_its_end_keeps_no_empty_message(shop: Shop) -> None:
    shop.agent(call("look", at="a"), "  ", policy=limited(iterations=1))
    result = await shop.ask(conversation="c1", chat=True)
    assert result.failure.code == "max_iterations_reached"
    assert (await shop.kept())[-1].role == "tool"


async def test_what_an_agent_uses_as_a_tool_counts_for_the_one_that_called_it(shop: Shop) -> None:
    spend = Usage(input=90, output=10)
    shop.agent(
        *[Turn(calls=(call("look", at="x"),), usage=spend)] * 9, "Done.", name="helper", tools=["look"]
    )
    model = shop.agent(call("helper", prompt="Go."), "Done.", tools=["helper"], policy=limited(tokens=300))
    result = await shop.ask()
    assert result.failure.code == "budget_exceeded"
    assert len(shop.done) == 3
    assert len(model.requests) == 1
    assert result.meta["agent"]["usage"]["input"] == 270


async def test_agents_that_call_each_other_without_end_are_ended(shop: Shop) -> None:
    def caller(other: str) -> Callable[[Any], Any]:
        def turn(request: Any) -> Any:
            answered = results(request.messages)
            return answered[-1] if answered else call(other, prompt="You do it.")

        return turn

    for name, other in (("ping", "pong"), ("pong", "ping")):
        shop.agent(*[caller(other)] * 99, name=name, tools=[other])
    result = await shop.ask("ping")
    assert "deep" in result.data


async def test_a_limit_of_cost_that_could_not_hold_is_refused_before_anything_is_spent(shop: Shop) -> None:
    acme = {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "ACME_KEY"}
    unknown = Models(providers={"acme": acme}, environ={"ACME_KEY": "key-of-acme"}).resolve("acme/large")
    careful = Agent("careful", model=unknown, instructions="You are careful.", policy=limited(cost=0.10))
    shop.app.add(careful.action)
    failure = (await shop.ask("careful")).failure
    assert failure.code == "config_error"
    assert "acme/large" in failure.message


def test_a_price_is_known_by_configuration_or_where_no_key_is_asked_for() -> None:
    acme = {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "ACME_KEY"}
    models = Models(providers={"acme": acme}, prices={"acme/*": {"input": 1.0}}, environ={"ACME_KEY": "k"})
    assert models.resolve("acme/large").priced
    assert models.resolve("ollama/anything").priced


async def test_a_provider_that_counts_more_tokens_than_expected_is_sent_less(shop: Shop) -> None:
    @shop.app.action
    async def recite(part: int) -> str:
        """Recite a part."""
        return f"{part} " * 700

    sent: list[int] = []
    for name, usage in (("plain", Usage()), ("more", Usage(input=10_000))):
        turns = [Turn(calls=(call("recite", part=n),), usage=usage) for n in range(10, 16)]
        model = ScriptModel([*turns, "Done."], window=8_000)
        made = Agent(name, model=model, instructions="You recite.", tools=["recite"], loop_tools=False)
        shop.app.add(made.action)
        assert (await shop.ask(name)).data == "Done."
        sent.append(sum(len(each.content) for each in model.requests[-1].messages))
    assert sent[1] < sent[0]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"at":' * 100_000,
        "[" * 100_000,
        '{"at": "' + "x" * 2_000_000,
        '{"at": "a"' + " " * 600_000 + "}",
        f'{{"at": {"9" * 10_000}}}',
        '{"at": 1e999}',
        '{"at": "a"}{"at": "b"}',
        "null",
    ],
    ids=lambda given: f"{given[:8]} {len(given)}",
)
async def test_arguments_that_make_no_sense_are_told_and_the_conversation_goes_on(
    shop: Shop, arguments: str
) -> None:
    model = shop.agent(ToolCall("look", arguments, "c"), "I see.")
    assert (await shop.ask(conversation="c1")).data == "I see."
    assert _json.loads(model.requests[-1].messages[-1].content)["kind"] == "invalid_args"
    assert shop.done == []


@pytest.mark.parametrize("name", ["functions.look", "look\x1b[31m\n" * 1000, "", "möwe"])
async def test_a_name_that_no_tool_could_have_is_told_in_a_form_that_providers_take_back(
    shop: Shop, name: str
) -> None:
    model = shop.agent(ToolCall(name, "{}", "c"), "I see.")
    assert (await shop.ask(conversation="c1")).data == "I see."
    *_, asked, told = model.requests[-1].messages
    assert _json.loads(told.content)["kind"] == "tool_not_found"
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", asked.calls[0].name)
    assert told.name == asked.calls[0].name
