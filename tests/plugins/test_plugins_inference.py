"""`complete` of a plugin: our models and loop, in the words of the host API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from fairlead import App
from fairlead.agents import Limits, Policy, Settings
from fairlead.agents.models import Message, ScriptModel, Turn, Usage, call
from fairlead.failures.host import InvalidRequest
from fairlead.failures.runtime import ApiError
from fairlead.plugins import slots
from fairlead.plugins.asked import read_completion
from fairlead.plugins.completion import composed
from fairlead.plugins.identity import DEFAULT_AGENT
from fairlead.plugins.preferences import Preferences
from fairlead.store.statements import Statement
from plugins.bridge_kit import ASK, ID, bridge_manifest, bridged, macro, tool
from plugins.conftest import Compiled

UNKNOWN = "99999999-9999-4999-8999-999999999999"


@pytest.fixture
def library(compiled: Compiled) -> Path:
    """A plugin that has something to tell models, and two tools."""
    return compiled(
        "bridge", macro("MANIFEST", bridge_manifest(instructions="Be brief.", tools=[ASK, tool("echo")]))
    )


def hello(**more: Any) -> dict[str, Any]:
    return {"model": "", "messages": [{"role": "user", "content": "Hello"}], **more}


def add_tools(app: App) -> None:
    @app.action
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @app.action(requires_confirmation=True, side_effects="write")
    def launch() -> str:
        """Launch it."""
        return "launched"


async def test_a_completion_is_an_openai_response_with_the_texts_usage(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("Good day.", usage=Usage(11, 3))], name="script/day")
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.host(slots.COMPLETE, hello())
    assert told["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "Good day."}, "finish_reason": "stop"}
    ]
    assert told["usage"] == {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    assert told["model"] == "script/day"
    assert told["id"].startswith("cmpl-")
    assert len(told["id"]) == len("cmpl-") + 12
    assert "tool_calls_executed" not in told
    assert "shared_artifacts" not in told


async def test_the_agents_words_the_requests_and_the_plugins_are_told_in_this_order(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel(["Yes."])
    messages = [{"role": "system", "content": "Speak French."}, {"role": "user", "content": "Hello"}]
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.host(slots.COMPLETE, hello(messages=messages))
    (asked,) = model.requests
    assert asked.messages[0] == Message("system", "You are ann.\n\nSpeak French.\n\nBe brief.")
    assert [each.role for each in asked.messages] == ["system", "user"]
    assert asked.tools == ()


async def test_without_an_agent_the_request_is_sent_as_it_is_with_the_plugins_words(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel(["Yes.", "Yes.", "Yes."])
    async with bridged(library, tmp_path, model, build=add_tools, agents={"ann": {"tools": "*"}}) as bridge:
        for agent in (None, DEFAULT_AGENT, UNKNOWN):
            await bridge.host(slots.COMPLETE, hello(tools=True), agent=agent)
    assert [each.messages[0].content for each in model.requests] == ["Be brief."] * 3
    assert [each.tools for each in model.requests] == [()] * 3


def test_prompts_are_joined_by_one_blank_line_and_blank_ones_leave_nothing() -> None:
    assert composed("You are ann.", "", "Be brief.") == "You are ann.\n\nBe brief."
    assert composed("", "  \n", "Be brief.") == "Be brief."


async def test_what_a_person_set_for_an_agent_wins_over_the_plugins_words(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel(["1", "2", "3"])
    async with bridged(library, tmp_path, model) as bridge:
        settings = Preferences(bridge.plugin.layout.home(ID))
        settings.set_instructions("ann", "Be kind.")
        settings.set_instructions("bob", "  \n ")
        await bridge.host(slots.COMPLETE, hello(), agent="ann")
        await bridge.host(slots.COMPLETE, hello(), agent="bob")
        settings.set_instructions("ann", None)
        await bridge.host(slots.COMPLETE, hello(), agent="ann")
    said = [each.messages[0].content for each in model.requests]
    assert said == ["You are ann.\n\nBe kind.", "You are bob.\n\nBe brief.", "You are ann.\n\nBe brief."]


async def test_an_agent_in_the_request_is_ignored_and_warned_of_once(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["1", "2", "3"])
    async with bridged(library, tmp_path, model) as bridge:
        for claim in (
            {"agent_id": bridge.agent("bob")},
            {"agent_address": "bob"},
            {"agent_id": "x", "agent_address": "y"},
        ):
            await bridge.host(slots.COMPLETE, hello(**claim), agent="ann")
        warned = bridge.warnings()
    assert all(each.messages[0].content.startswith("You are ann.") for each in model.requests)
    assert warned == [f"{ID}|complete|agent_override"]


async def test_the_agents_model_and_settings_are_used_where_the_request_names_none(
    library: Path, tmp_path: Path
) -> None:
    own, other = ScriptModel(["own"] * 5, name="script/own"), ScriptModel(["other"], name="script/other")
    agents: dict[str, dict[str, Any]] = {
        "ann": {"model": own, "settings": Settings(temperature=0.1, max_tokens=99)},
        "bob": {},
    }
    async with bridged(library, tmp_path, other, agents=agents) as bridge:
        for model in (None, "", "default", " "):
            assert (await bridge.host(slots.COMPLETE, hello(model=model)))["model"] == "script/own"
        body = hello(temperature=0.7)
        del body["model"]
        assert (await bridge.host(slots.COMPLETE, body))["model"] == "script/own"
        assert (await bridge.host(slots.COMPLETE, hello(), agent="bob"))["model"] == "script/other"
    assert own.requests[0].settings == Settings(temperature=0.1, max_tokens=99)
    assert own.requests[-1].settings == Settings(temperature=0.7, max_tokens=99)


async def test_foundation_is_the_model_of_that_alias(library: Path, tmp_path: Path) -> None:
    from fairlead.agents.models import Models

    script = tmp_path / "small.toml"
    script.write_text('[[turn]]\ntext = "Small."\n')
    models = Models(aliases={"foundation": f"script/{script}", "local": f"script/{script}"}, environ={})
    async with bridged(library, tmp_path, models) as bridge:  # type: ignore[arg-type]
        for name in ("foundation", "local"):
            told = await bridge.host(slots.COMPLETE, hello(model=name))
            assert told["choices"][0]["message"]["content"] == "Small."


async def test_a_model_that_is_not_there_is_an_inference_error(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(model="nowhere/none"))
    assert told["error"] == "inference_error"
    assert "nowhere" in told["message"]


async def test_a_model_that_a_plugin_names_opens_no_file_of_the_host(library: Path, tmp_path: Path) -> None:
    script = tmp_path / "small.toml"
    script.write_text('[[turn]]\ntext = "Small."\n')
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = [
            await bridge.host(slot, body)
            for name in (f"script/{script}", f" script/{script}", f"script/{tmp_path}/nowhere")
            for slot, body in (
                (slots.COMPLETE, hello(model=name)),
                (slots.EMBED, {"model": name, "input": "x"}),
            )
        ]
    assert {each["error"] for each in told} == {"inference_error", "embedding_error"}
    assert {each["message"] for each in told} == {"There is no such model."}


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "[1]",
        '{"model":"x"}',
        '{"model":"x","messages":[]}',
        '{"model":7,"messages":[{"role":"user","content":"x"}]}',
        '{"model":"","messages":["x"]}',
        '{"model":"","messages":[{"role":"wizard","content":"x"}]}',
        '{"model":"","messages":[{"role":"user","content":7}]}',
        '{"model":"","messages":[{"role":"user","content":"x"}],"tools":[7]}',
    ],
)
async def test_what_is_no_chat_is_refused(library: Path, tmp_path: Path, body: str) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await bridge.host(slots.COMPLETE, body)
    assert told["error"] == "invalid_request"
    assert told["message"]


async def test_with_tools_true_the_agents_tools_are_run_until_there_is_an_answer(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel([call("add", a=1, b=2), Turn("3", usage=Usage(5, 1))])
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["add"]}}
    ) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=True))
    assert told["choices"][0]["message"]["content"] == "3"
    assert told["tool_calls_executed"] == [{"name": "add", "tool_call_id": "call_1"}]
    offered = {spec.name for spec in model.requests[0].tools}
    assert offered == {"add", "todo", "complete", "clarify"}


async def test_of_tools_by_name_those_the_agent_or_the_plugin_has_are_run(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel([[call("add", a=1, b=2), call("echo", word="x")], "done"])
    spec = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["add"]}}
    ) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=[spec, "echo", "launch"]))
    assert [each["name"] for each in told["tool_calls_executed"]] == ["add", "echo"]
    assert {each.name for each in model.requests[0].tools} == {"add", "echo"}
    assert '"word":"x"' in model.requests[1].messages[-1].content


async def test_calls_of_tools_that_only_the_plugin_knows_are_handed_to_it(
    library: Path, tmp_path: Path
) -> None:
    spec = {
        "type": "function",
        "function": {"name": "weather", "description": "The weather.", "parameters": {"type": "object"}},
    }
    for agent in ("ann", None):
        model = ScriptModel([Turn(calls=(call("weather", city="Oslo"),), usage=Usage(5, 6))])
        async with bridged(library, tmp_path, model) as bridge:
            told = await bridge.host(slots.COMPLETE, hello(tools=[spec]), agent=agent)
        (choice,) = told["choices"]
        assert told["usage"] == {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
        assert choice["finish_reason"] == "tool_calls"
        (asked,) = choice["message"]["tool_calls"]
        assert asked["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
        assert asked["id"]
        assert asked["type"] == "function"


async def test_what_needs_a_yes_is_declined_and_the_loop_goes_on(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("launch"), "I could not."])
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["launch"]}}
    ) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=True))
    assert told["choices"][0]["message"]["content"] == "I could not."
    assert "tool_calls_executed" not in told
    assert '"ok":false' in model.requests[1].messages[-1].content


@pytest.mark.parametrize(
    ("wanted", "steps"), [(None, 30), (0, 1), (-5, 1), (2, 2), (500, 120), ("7", 30), (True, 30), (3.9, 3)]
)
def test_steps_are_thirty_unless_said_and_within_bounds(wanted: Any, steps: int) -> None:
    body = hello() if wanted is None else hello(max_iterations=wanted)
    assert read_completion(json.dumps(body)).iterations == steps


async def test_steps_that_run_out_are_told_with_what_was_said_so_far(library: Path, tmp_path: Path) -> None:
    turn = Turn("I look.", (call("add", a=1, b=2),))
    model = ScriptModel([turn, turn])
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["add"]}}
    ) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=True, max_iterations=2))
    assert told["error"] == "max_iterations_reached"
    assert told["partial_content"] == "I look."
    assert len(told["tool_calls_executed"]) == 2


async def test_a_question_of_the_model_is_handed_to_the_plugin(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("clarify", question="Which one?", options=["red", "blue"])])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=True))
    assert told["error"] == "clarify_requested"
    assert told["question"] == "Which one?"
    assert told["options"] == ["red", "blue"]


async def test_a_run_that_the_model_completes_answers_with_its_summary(library: Path, tmp_path: Path) -> None:
    summary = "The numbers were added and the sum is three."
    model = ScriptModel([Turn(calls=(call("complete", summary=summary),), usage=Usage(9, 9))])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=True))
    assert told["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": summary},
        "finish_reason": "stop",
    }
    assert told["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


async def test_a_chat_that_does_not_fit_is_a_context_overflow(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["never"], window=200)
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.host(
            slots.COMPLETE, hello(messages=[{"role": "user", "content": "word " * 4000}])
        )
    assert told["error"] == "context_overflow"
    assert model.requests == []


async def test_a_reply_that_was_cut_off_says_so(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("Once upon", stop="length", usage=Usage(11, 2))])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(max_tokens=2))
    assert told["choices"][0]["finish_reason"] == "length"
    assert told["choices"][0]["message"]["content"] == "Once upon"
    assert model.requests[0].settings.max_tokens == 2


async def test_what_was_used_is_told_however_a_completion_ends(library: Path, tmp_path: Path) -> None:
    turns = [
        Turn(calls=(call("add", a=1, b=2),), usage=Usage(3, 1)),
        Turn("Cut", stop="length", usage=Usage(4, 2)),
    ]
    used = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    async with bridged(
        library, tmp_path, ScriptModel(turns * 2), build=add_tools, agents={"ann": {"tools": ["add"]}}
    ) as bridge:
        assert (await bridge.host(slots.COMPLETE, hello(tools=True)))["usage"] == used
        chunks, answer = await bridge.stream(hello(tools=True))
    assert answer["usage"] == used
    assert chunks[-2]["choices"][0]["delta"]["usage"]["completion_tokens"] == 3


async def test_a_model_that_fails_is_an_inference_error(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([ApiError("The model is away.")])) as bridge:
        told = await bridge.host(slots.COMPLETE, hello())
    assert told == {"error": "inference_error", "message": "The model is away."}


async def test_a_third_call_at_once_is_refused_and_a_later_one_is_not(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("1", after=gate), Turn("2", after=gate), "3"])
    async with bridged(library, tmp_path, model) as bridge:
        running = [asyncio.ensure_future(bridge.host(slots.COMPLETE, hello())) for _ in range(2)]
        await model.asked(2)
        busy = await bridge.host(slots.COMPLETE, hello())
        embedding = await bridge.host(slots.EMBED, {"input": "x"})
        _, streamed = await bridge.stream(hello())
        gate.set()
        await asyncio.gather(*running)
        later = await bridge.host(slots.COMPLETE, hello())
    for told in (busy, embedding, streamed):
        assert told["error"] == "plugin_busy"
        assert told["max_inflight"] == 2
    assert later["choices"][0]["message"]["content"] == "3"


async def test_a_call_that_fails_gives_its_place_back(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([ApiError("Away.")] * 4)
    async with bridged(library, tmp_path, model) as bridge:
        told = [await bridge.host(slots.COMPLETE, hello()) for _ in range(4)]
    assert [each["error"] for each in told] == ["inference_error"] * 4


async def test_a_session_is_gone_on_with(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["I am well.", "Since noon.", "Someone else's."])
    first = hello(messages=[{"role": "user", "content": "How are you?"}], session_id="chat-7")
    then = hello(messages=[{"role": "user", "content": "Since when?"}], session_id="chat-7")
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.host(slots.COMPLETE, first)
        await bridge.host(slots.COMPLETE, then)
        await bridge.host(slots.COMPLETE, then, agent="bob")
        kept = await bridge.app.conversations.find(
            "well", 'auth:{"agent":"ann","plugin":"test.bridge","type":"plugin"}'
        )
    assert [each.content for each in model.requests[1].messages[1:]] == [
        "How are you?",
        "I am well.",
        "Since when?",
    ]
    assert [each.content for each in model.requests[2].messages[1:]] == ["Since when?"]
    assert [each.text for each in kept] == ["I am well."]


async def test_a_session_that_is_sent_whole_again_is_not_doubled(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["I am well.", "Since noon."])
    said = [{"role": "user", "content": "How are you?"}]
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.host(slots.COMPLETE, hello(messages=said, session_id="chat-8"))
        said += [{"role": "assistant", "content": "I am well."}, {"role": "user", "content": "Since when?"}]
        await bridge.host(slots.COMPLETE, hello(messages=said, session_id="chat-8"))
    assert [each.content for each in model.requests[1].messages[1:]] == [
        "How are you?",
        "I am well.",
        "Since when?",
    ]


def add_lock(app: App) -> None:
    @app.action
    def unlock(door: str, code: SecretStr) -> str:
        """Unlock a door."""
        return f"{door} {len(code.get_secret_value())}"


async def test_what_a_tool_declares_secret_is_not_kept_in_a_session(library: Path, tmp_path: Path) -> None:
    spec = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    unlock = call("unlock", door="d", code="horse4711")
    model = ScriptModel([unlock, "done", unlock, "done", [unlock, call("weather")]])
    async with bridged(
        library, tmp_path, model, build=add_lock, agents={"ann": {"tools": ["unlock"]}}
    ) as bridge:
        await bridge.host(slots.COMPLETE, hello(tools=True, session_id="s"))
        chunks, _ = await bridge.stream(hello(tools=True, session_id="s"))
        await bridge.host(slots.COMPLETE, hello(tools=["unlock", spec], session_id="s"))
        bodies = await bridge.app.store.read(lambda tx: tx.all(Statement.of("SELECT body FROM messages")))
    assert model.requests[1].messages[-1].content.count("d 9") == 1
    kept = "".join(str(row[0]) for row in bodies)
    assert kept.count('\\"code\\":\\"[REDACTED]\\"') == 3
    assert "horse4711" not in kept
    assert "horse4711" not in json.dumps(chunks)


async def test_what_an_inline_tool_declares_secret_is_told_to_the_plugin_and_not_kept(
    library: Path, tmp_path: Path
) -> None:
    code = {"type": "string", "writeOnly": True}
    shape = {"type": "object", "properties": {"door": {"type": "string"}, "code": code}}
    spec = {"type": "function", "function": {"name": "unseal", "parameters": shape}}
    model = ScriptModel([call("unseal", door="d", code="horse4711")])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.host(slots.COMPLETE, hello(tools=[spec], session_id="s"))
        bodies = await bridge.app.store.read(lambda tx: tx.all(Statement.of("SELECT body FROM messages")))
    asked = told["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(asked) == {"door": "d", "code": "horse4711"}
    kept = "".join(str(row[0]) for row in bodies)
    assert "unseal" in kept
    assert "horse4711" not in kept


async def test_secrets_of_calls_that_a_request_repeats_are_not_kept(library: Path, tmp_path: Path) -> None:
    function = {"name": "unlock", "arguments": '{"door":"d","code":"horse4711"}'}
    messages = [
        {"role": "user", "content": "Open."},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "open"},
    ]
    model = ScriptModel(["done"])
    async with bridged(library, tmp_path, model, build=add_lock) as bridge:
        await bridge.host(slots.COMPLETE, hello(messages=messages, session_id="s"))
        bodies = await bridge.app.store.read(lambda tx: tx.all(Statement.of("SELECT body FROM messages")))
    kept = "".join(str(row[0]) for row in bodies)
    assert "unlock" in kept
    assert "horse4711" not in kept


async def test_a_limit_of_cost_is_refused_where_the_price_is_not_known(library: Path, tmp_path: Path) -> None:
    class Unpriced(ScriptModel):
        priced = False

    limited = {"ann": {"policy": Policy(limits=Limits(cost=0.01))}}
    async with bridged(library, tmp_path, Unpriced(["Hello"]), agents=limited) as bridge:
        told = await bridge.host(slots.COMPLETE, hello())
    assert told["error"] == "inference_error"
    assert "price" in told["message"]


async def test_a_plugin_asks_a_model_in_the_middle_of_an_agents_run(library: Path, tmp_path: Path) -> None:
    """The inner completion is the plugin's own: it sees nothing of the run around it, and knows its agent."""
    lines = f"{slots.COMPLETE}\n{json.dumps(hello())}"
    model = ScriptModel([call("ask", lines=lines), "Inner.", "Outer."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["ask"]}}) as bridge:
        result = await bridge.app.invoke("ann", {"prompt": "Go."})
    assert result.data == "Outer."
    inner = model.requests[1]
    assert inner.messages[0].content == "You are ann.\n\nBe brief."
    assert [each.content for each in inner.messages[1:]] == ["Hello"]
    assert "Inner." in model.requests[2].messages[-1].content


async def test_a_thread_of_the_plugins_own_has_no_agent(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["Yes."])
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.host(slots.COMPLETE, hello(), agent="ann", elsewhere=True)
        refused = await bridge.host(slots.DISPATCH, {"prompt": "Go."}, agent="ann", elsewhere=True)
        warned = bridge.warnings()
    assert refused["error"] == "built_in_agent_not_exposable"
    assert warned == [f"{ID}|complete|no_agent_context", f"{ID}|dispatch|no_agent_context"]
    assert model.requests[0].messages[0].content == "Be brief."


async def test_pictures_and_calls_in_a_request_are_read(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["Yes."])
    messages = [
        {"role": "developer", "content": "Look."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "see", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A cat."},
        {"role": "user", "content": "So?"},
    ]
    async with bridged(library, tmp_path, model) as bridge:
        await bridge.host(
            slots.COMPLETE, hello(messages=messages, reasoning_effort="high", stop="END", seed=7)
        )
    asked = model.requests[0]
    assert asked.messages[1].images[0].data == b"hello"
    assert asked.messages[2].calls[0].name == "see"
    assert asked.messages[3].call_id == "c1"
    assert (asked.settings.reasoning, asked.settings.stop, asked.settings.seed) == ("high", ("END",), 7)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    [
        "model",
        "messages",
        "tools",
        "session_id",
        "stream_id",
        "max_iterations",
        "temperature",
        "max_tokens",
        "stop",
        "seed",
        "reasoning_effort",
        "enable_thinking",
        "agent_id",
        "agent_address",
        "role",
        "content",
        "tool_calls",
    ]
)


@given(
    st.dictionaries(MEMBERS, ANYTHING | st.lists(st.dictionaries(MEMBERS, ANYTHING, max_size=4), max_size=3))
)
def test_whatever_is_asked_is_understood_or_refused(body: dict[str, Any]) -> None:
    try:
        asked = read_completion(json.dumps(body))
    except InvalidRequest:
        return
    assert 1 <= asked.iterations <= 120
    assert asked.messages
