"""`complete_stream` and `complete_cancel` of a plugin: the pieces, what ends them, and how they are stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents.models import Request, ScriptModel, Turn, Usage, call
from fairlead.failures.runtime import ApiError
from fairlead.plugins import slots
from fairlead.plugins.inference import Inference
from fairlead.plugins.runner import Frame
from fairlead.testing import FixedClock
from fairlead.tools.artifacts import Artifacts
from fairlead.tools.artifacts_sharing import sharing
from plugins.bridge_kit import ID, bridge_manifest, bridged, content, macro, tool
from plugins.conftest import Compiled


@pytest.fixture
def library(compiled: Compiled) -> Path:
    return compiled("bridge", macro("MANIFEST", bridge_manifest(tools=[tool("echo")])))


def hello(**more: Any) -> dict[str, Any]:
    return {"model": "", "messages": [{"role": "user", "content": "Hello"}], **more}


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["choices"][0]["delta"] for each in chunks]


def finishes(chunks: list[dict[str, Any]]) -> list[str | None]:
    return [each["choices"][0].get("finish_reason") for each in chunks]


async def test_a_stream_gives_each_piece_and_the_whole_at_its_end(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("Good day.", pieces=("Good ", "day."), usage=Usage(4, 2))])
    async with bridged(library, tmp_path, model) as bridge:
        chunks, answer = await bridge.stream(hello())
    words, usage, last = chunks[:-2], chunks[-2], chunks[-1]
    assert deltas(words) == [{"content": "Good "}, {"content": "day."}]
    counted = usage["choices"][0]["delta"]["usage"]
    assert counted["completion_tokens"] == 2
    assert counted["unclosed_reasoning"] is False
    assert counted["tokens_per_second"] > 0
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert {each["id"] for each in chunks} == {answer["id"]}
    assert answer["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "Good day."},
        "finish_reason": "stop",
    }
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


async def test_thoughts_come_apart_from_words(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("Yes.", reasoning="Let me see.")])
    async with bridged(library, tmp_path, model) as bridge:
        chunks, answer = await bridge.stream(hello())
    assert deltas(chunks)[:2] == [{"reasoning_content": "Let me see."}, {"content": "Yes."}]
    assert answer["choices"][0]["message"]["content"] == "Yes."
    assert "usage" not in answer


async def test_speed_is_told_by_the_time_that_the_model_took(library: Path, tmp_path: Path) -> None:
    def build(app: App) -> None:
        @app.action
        def wait() -> str:
            """Wait for a minute."""
            clock.now += 60
            return "waited"

    def slowly(request: Request) -> Turn:
        clock.now += 2
        calls = () if request.messages[-1].role == "tool" else (call("wait"),)
        return Turn("Well.", calls, usage=Usage(1, 5))

    clock = FixedClock()
    model, agents = ScriptModel([slowly, slowly]), {"ann": {"tools": ["wait"]}}
    async with bridged(library, tmp_path, model, build=build, agents=agents, clock=clock) as bridge:
        chunks, _ = await bridge.stream(hello(tools=True))
    counted = chunks[-2]["choices"][0]["delta"]["usage"]
    assert (counted["completion_tokens"], counted["tokens_per_second"]) == (10, 2.5)


async def test_a_stream_that_ends_in_a_thought_says_so(library: Path, tmp_path: Path) -> None:
    cut = Turn("", reasoning="Let me see.", stop="length", usage=Usage(3, 4))
    spoken = Turn("Yes.", reasoning="Let me see.", usage=Usage(3, 4))
    calls = Turn(calls=(call("weather"),), reasoning="Let me see.", usage=Usage(3, 4))
    weather = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    async with bridged(library, tmp_path, ScriptModel([cut, spoken, calls])) as bridge:
        streams = [await bridge.stream(hello(tools=weather)) for _ in range(3)]
    counted = [chunks[-2]["choices"][0]["delta"]["usage"] for chunks, _ in streams]
    assert [each["unclosed_reasoning"] for each in counted] == [True, False, False]


def add_tools(app: App) -> None:
    @app.action
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b


async def test_calls_of_tools_are_told_before_and_after(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("I add.", (call("add", a=1, b=2), call("add", a=3, b=4))), "3 and 7."])
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["add"]}}
    ) as bridge:
        chunks, answer = await bridge.stream(hello(tools=True))
    told = [each for each in chunks if "tool_calls" in each["choices"][0]["delta"]]
    assert [each["choices"][0]["finish_reason"] for each in told] == ["tool_calls", "tool_calls"]
    assert told[0]["choices"][0]["delta"]["tool_calls"] == [
        {"id": "call_1", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}
    ]
    results = [each for each in deltas(chunks) if each.get("role") == "tool"]
    assert {each["tool_call_id"] for each in results} == {"call_1", "call_2"}
    assert all('"ok":true' in each["content"] for each in results)
    kinds = [next(iter(sorted(each)), "end") for each in deltas(chunks)]
    assert kinds.index("tool_calls") < kinds.index("content", 2)
    assert answer["choices"][0]["message"]["content"] == "3 and 7."
    assert answer["tool_calls_executed"] == [
        {"name": "add", "tool_call_id": "call_1"},
        {"name": "add", "tool_call_id": "call_2"},
    ]
    assert finishes(chunks)[-1] == "stop"


async def test_artifacts_that_tools_share_are_in_the_answer(library: Path, tmp_path: Path) -> None:
    def build(app: App) -> None:
        app.add(sharing(Artifacts(app.store, tmp_path / "artifacts")))

    model = ScriptModel(
        [call("share_artifact", content="Hi", filename="hi.txt", description="A word."), "Done."] * 2
    )
    agents = {"ann": {"tools": ["share_artifact"]}}
    async with bridged(library, tmp_path, model, build=build, agents=agents) as bridge:
        _, streamed = await bridge.stream(hello(tools=True))
        whole = await bridge.host(slots.COMPLETE, hello(tools=True))
    for answer in (streamed, whole):
        (artifact,) = answer["shared_artifacts"]
        path = artifact.pop("host_path")
        assert content(path) == "Hi"
        assert artifact == {
            "filename": "hi.txt",
            "mime_type": "text/plain",
            "size": 2,
            "is_directory": False,
            "description": "A word.",
        }


async def test_a_stream_without_on_chunk_is_warned_of_once_and_answers_whole(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel(["One.", "Two."])
    async with bridged(library, tmp_path, model) as bridge:
        first = await bridge.host(slots.COMPLETE_STREAM, hello())
        await bridge.host(slots.COMPLETE_STREAM, hello())
        warned = bridge.warnings()
    assert first["choices"][0]["message"]["content"] == "One."
    assert warned == [f"{ID}|complete_stream|null_chunk"]


@pytest.mark.parametrize("in_process", [False, True])
async def test_a_stream_is_cancelled_from_inside_a_chunk(
    library: Path, tmp_path: Path, in_process: bool
) -> None:
    pieces = tuple(f"word{at} " for at in range(50))
    model = ScriptModel([Turn(pieces=pieces), "Later."])
    async with bridged(library, tmp_path, model, in_process=in_process) as bridge:
        chunks, answer = await bridge.stream(hello(stream_id=" s-1 "), cancel="s-1", at="word2")
        _, later = await bridge.stream(hello(stream_id="s-1"))
    assert deltas(chunks)[:-1] == [{"content": each} for each in pieces[:3]]
    assert finishes(chunks)[-1] == "cancelled"
    assert answer["error"] == "cancelled"
    assert answer["stream_id"] == "s-1"
    assert answer["partial_content"] == "word0 word1 word2 "
    assert answer["tool_calls_executed"] == []
    assert answer["shared_artifacts"] == []
    assert answer["usage"] == {}
    assert answer["id"] == chunks[0]["id"]
    assert answer["model"] == "script/inline"
    assert later["choices"][0]["message"]["content"] == "Later."


async def test_a_stream_is_cancelled_while_the_model_says_nothing(library: Path, tmp_path: Path) -> None:
    never = asyncio.Event()
    model = ScriptModel([Turn("x", after=never)])
    async with bridged(library, tmp_path, model) as bridge:
        running = asyncio.ensure_future(bridge.stream(hello(stream_id="quiet")))
        await model.asked()
        await bridge.host(slots.COMPLETE_CANCEL, "quiet")
        chunks, answer = await running
    assert finishes(chunks) == ["cancelled"]
    assert answer["error"] == "cancelled"
    assert answer["partial_content"] == ""


async def test_a_stream_that_is_cancelled_in_a_tool_tells_which_were_run(
    library: Path, tmp_path: Path
) -> None:
    def build(app: App) -> None:
        add_tools(app)

        @app.action
        async def wait() -> str:
            """Wait for ever."""
            await asyncio.Event().wait()
            return ""

    model = ScriptModel([call("add", a=1, b=2), call("wait")])
    agents = {"ann": {"tools": ["add", "wait"]}}
    async with bridged(library, tmp_path, model, build=build, agents=agents) as bridge:
        chunks, answer = await bridge.stream(hello(tools=True, stream_id="t"), cancel="t", at='"wait"')
    assert finishes(chunks)[-1] == "cancelled"
    assert answer["tool_calls_executed"] == [{"name": "add", "tool_call_id": "call_1"}]


@pytest.mark.parametrize("id", ["other", "", "   "])
async def test_a_cancel_of_another_stream_changes_nothing(library: Path, tmp_path: Path, id: str) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("Whole.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        running = asyncio.ensure_future(bridge.stream(hello(stream_id="mine")))
        await model.asked()
        await bridge.host(slots.COMPLETE_CANCEL, id or " ")
        gate.set()
        _, answer = await running
    assert answer["choices"][0]["message"]["content"] == "Whole."


async def test_a_cancel_that_comes_before_its_stream_is_lost(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["Whole."])
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.host(slots.COMPLETE_CANCEL, "early")
        _, answer = await bridge.stream(hello(stream_id="early"))
    assert answer["choices"][0]["message"]["content"] == "Whole."


async def test_another_plugin_cannot_cancel_a_stream(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("Whole.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        other = Inference(bridge.app, "test.other", warn=lambda *about: None)
        running = asyncio.ensure_future(bridge.stream(hello(stream_id="mine")))
        await model.asked()
        other.call(slots.COMPLETE_CANCEL, ("mine",), Frame("test.other"))
        gate.set()
        _, answer = await running
    assert answer["choices"][0]["message"]["content"] == "Whole."


async def test_a_question_ends_a_stream_as_one(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("clarify", question="Which one?")])
    async with bridged(library, tmp_path, model) as bridge:
        chunks, answer = await bridge.stream(hello(tools=True))
    assert finishes(chunks)[-1] == "clarify"
    assert answer["choices"][0]["finish_reason"] == "clarify"
    assert answer["question"] == "Which one?"
    assert "options" not in answer


async def test_steps_that_run_out_end_a_stream_as_such(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("I look.", (call("add", a=1, b=2),))])
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["add"]}}
    ) as bridge:
        chunks, answer = await bridge.stream(hello(tools=True, max_iterations=1))
    assert finishes(chunks)[-1] == "max_iterations"
    assert answer["error"] == "max_iterations_reached"
    assert answer["partial_content"] == "I look."
    assert answer["model"] == "script/inline"
    assert answer["id"] == chunks[0]["id"]


async def test_a_chat_that_does_not_fit_ends_a_stream_as_such(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["never"], window=200)
    async with bridged(library, tmp_path, model) as bridge:
        chunks, answer = await bridge.stream(hello(messages=[{"role": "user", "content": "word " * 4000}]))
    assert finishes(chunks) == ["context_overflow"]
    assert answer["error"] == "context_overflow"


async def test_a_model_that_fails_in_the_middle_is_an_inference_error(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("Once upon", failure=ApiError("The model went away."))])
    async with bridged(library, tmp_path, model) as bridge:
        chunks, answer = await bridge.stream(hello())
    assert deltas(chunks) == [{"content": "Once "}, {"content": "upon"}]
    assert answer["error"] == "inference_error"


async def test_a_stream_that_was_cut_off_ends_with_length(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("Once", stop="length")])
    async with bridged(library, tmp_path, model) as bridge:
        chunks, answer = await bridge.stream(hello())
    assert finishes(chunks)[-1] == "length"
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_what_was_said_before_a_cancel_is_kept_in_the_session(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn(pieces=tuple(f"w{at} " for at in range(20))), "Then."])
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.stream(hello(stream_id="c", session_id="k"), cancel="c", at="w1 ")
        await bridge.stream(hello(messages=[{"role": "user", "content": "Go on."}], session_id="k"))
    said = [each.content for each in model.requests[1].messages if each.role != "system"]
    assert said == ["Hello", "w0 w1 ", "Go on."]


async def test_an_agent_in_a_streams_request_is_ignored_and_warned_of(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["Yes."])
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.stream(hello(agent_id=bridge.agent("bob")))
        assert bridge.warnings() == [f"{ID}|complete_stream|agent_override"]
    assert model.requests[0].messages[0].content == "You are ann."
