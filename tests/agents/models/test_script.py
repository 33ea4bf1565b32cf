"""The scripted model: what is written is what it says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.agents.models import Delta, Message, Models, Reply, Request, ScriptModel, ToolCall, Turn, call
from fairlead.failures import Failure
from fairlead.failures.runtime import ApiError

HELLO = Request([Message("user", "Hello")])


async def test_turns_are_played_in_order() -> None:
    model = ScriptModel([call("add", a=1), [call("add", a=2), call("add", a=3)], "Done."])
    first, second, third = [await model.reply(HELLO) for _ in range(3)]
    assert first.calls == (ToolCall("add", '{"a":1}', "call_1"),)
    assert [each.id for each in second.calls] == ["call_2", "call_3"]
    assert (first.stop, third.text, third.stop) == ("tool_calls", "Done.", "stop")


async def test_a_text_is_streamed_by_words_and_as_written() -> None:
    model = ScriptModel(["One two  three.", Turn(pieces=("a", "bc"), reasoning="Hm.")])
    events = [each async for each in model.stream(HELLO)]
    assert events[:-1] == [Delta("One "), Delta("two  "), Delta("three.")]
    events = [each async for each in model.stream(HELLO)]
    assert events[:-1] == [Delta(reasoning="Hm."), Delta("a"), Delta("bc")]
    last = events[-1]
    assert isinstance(last, Reply)
    assert (last.text, last.reasoning) == ("abc", "Hm.")


async def test_a_failure_comes_after_the_text_that_was_streamed() -> None:
    model = ScriptModel([Turn("Half an", failure=ApiError("Cut off."))])
    seen = []
    with pytest.raises(ApiError):  # noqa: PT012 - what was seen before counts
        async for each in model.stream(HELLO):
            seen.append(each)
    assert seen == [Delta("Half "), Delta("an")]


async def test_a_failure_alone_is_raised_anew_each_time() -> None:
    model = ScriptModel([ApiError("No.")], repeat=True)
    caught = []
    for _ in range(2):
        with pytest.raises(ApiError) as one:
            await model.reply(HELLO)
        caught.append(one.value)
    assert caught[0] is not caught[1]


async def test_a_function_answers_by_the_request() -> None:
    model = ScriptModel(lambda request: Reply("You said " + request.messages[-1].content))
    assert (await model.reply(HELLO)).text == "You said Hello"

    async def later(request: Request) -> str:
        return "Later."

    assert (await ScriptModel(later).reply(HELLO)).text == "Later."
    assert (await ScriptModel([lambda request: "In a turn."]).reply(HELLO)).text == "In a turn."


async def test_requests_are_remembered_as_they_were() -> None:
    model = ScriptModel(["One", "Two"])
    messages = [Message("user", "Hello")]
    await model.reply(Request(messages))
    messages.append(Message("user", "Again"))
    await model.reply(Request(messages))
    assert [len(each.messages) for each in model.requests] == [1, 2]


async def test_an_answer_waits_for_an_event() -> None:
    ready = asyncio.Event()
    model = ScriptModel([Turn("Now.", after=ready)])
    asking = asyncio.create_task(model.reply(HELLO))
    await asyncio.wait_for(model.asked(), 10)
    assert not asking.done()
    ready.set()
    assert (await asking).text == "Now."


async def test_a_script_that_is_over_says_so() -> None:
    model = ScriptModel(["One"])
    await model.reply(HELLO)
    with pytest.raises(Failure) as caught:
        await model.reply(HELLO)
    assert caught.value.code == "config_error"


async def test_what_is_no_turn_is_refused() -> None:
    with pytest.raises(Failure):
        await ScriptModel([5]).reply(HELLO)  # type: ignore[list-item]


async def test_each_conversation_is_at_its_own_place() -> None:
    model = ScriptModel(["One", "Two"], follow="conversation", record=False)
    begun = Request([Message("user", "Hello"), Message("assistant", "One"), Message("user", "And?")])
    told = [(await model.reply(each)).text for each in (HELLO, begun, HELLO, begun)]
    assert told == ["One", "Two", "One", "Two"]


async def test_a_thousand_conversations_at_once_get_their_answers() -> None:
    model = ScriptModel([call("add", a=1), "Done."], follow="conversation", record=False)

    async def talk() -> str:
        first = await model.reply(HELLO)
        return (await model.reply(Request([*HELLO.messages, first.message()]))).text

    assert set(await asyncio.gather(*(talk() for _ in range(1000)))) == {"Done."}


TOML = """
repeat = true

[[turn]]
reasoning = "I need the tool."
calls = [{ name = "add", arguments = { a = 1 } }, { name = "raw", arguments = "{not json", id = "mine" }]
usage = { input = 3, cost = 0.5 }

[[turn]]
text = "Cut"
stop = "length"

[[turn]]
failure = { code = "api_error", message = "Gone." }
"""


async def test_a_file_with_a_script_is_played(tmp_path: Path) -> None:
    (tmp_path / "talk.toml").write_text(TOML)
    model = Models().resolve(f"script/{tmp_path}/talk.toml")
    first = await model.reply(HELLO)
    assert [(each.id, each.name, each.arguments) for each in first.calls] == [
        ("call_1", "add", '{"a":1}'),
        ("mine", "raw", "{not json"),
    ]
    assert (first.reasoning, first.usage.input, first.usage.cost) == ("I need the tool.", 3, 0.5)
    turns = [*HELLO.messages, first.message()]
    assert (await model.reply(Request(turns))).stop == "length"
    with pytest.raises(ApiError) as caught:
        await model.reply(Request([*turns, Message("assistant", "Cut")]))
    assert caught.value.message == "Gone."
    assert (await model.reply(Request([*turns, *[Message("assistant", "x")] * 2]))).calls


async def test_a_script_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text('{"turn": [{"text": "Hi."}]}')
    assert (await Models().resolve(f"script/{tmp_path}/talk.json").reply(HELLO)).text == "Hi."


@pytest.mark.parametrize(
    "written",
    [
        "",
        "turn = 5",
        "[[turn]]\ntxt = 'Hi'",
        "[[turn]]\ntext = 5",
        "[[turn]]\nstop = 'never'",
        "[[turn]]\ncalls = [{ arguments = {} }]",
        "[[turn]]\npieces = [1]",
        "[[turn]]\ntext = 'Hi'\n[other]",
        "follow = 'me'\n[[turn]]\ntext = 'Hi'",
        "not toml",
        "repeat = 1\n[[turn]]\ntext = 'Hi'",
    ],
)
def test_a_file_that_is_no_script_is_refused(tmp_path: Path, written: str) -> None:
    (tmp_path / "talk.toml").write_text(written)
    with pytest.raises(Failure) as caught:
        Models().resolve(f"script/{tmp_path}/talk.toml")
    assert caught.value.code == "config_error"


def test_a_script_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        Models().resolve(f"script/{tmp_path}/talk.toml")
    assert "talk.toml" in caught.value.message
