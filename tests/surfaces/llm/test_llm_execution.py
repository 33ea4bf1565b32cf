"""A model's calls, in every provider's shape, through the runtime and back."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from fairlead import App, Context, Failure, Kind
from fairlead.actions import Action
from fairlead.runtime import Signal
from fairlead.surfaces.llm.formats import FORMATS
from fairlead.tools.time_limits import SECONDS

# They take seconds to import, and every test process collects this file.
if TYPE_CHECKING:
    from anthropic.types import Message
    from google.genai import types as gemini
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

app = App("desk")
runs: list[str] = []


@app.action
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.action
def label(labels: dict[str, int], note: Any = None) -> dict[str, Any]:
    """Label something."""
    return {"labels": labels, "note": note}


@app.action(permissions=["desk:write"], side_effects="write")
def write(text: str, ctx: Context) -> str:
    """Write something down."""
    runs.append(text)
    return f"{ctx.user}: {text}"


@app.action(side_effects="destructive")
def burn(pages: int) -> str:
    """Burn some pages."""
    runs.append(f"burnt {pages}")
    return "burnt"


@app.action(requires_confirmation="token")
def sign(name: str) -> str:
    """Sign with a name."""
    return f"signed {name}"


@app.action
def fail(how: str) -> None:
    """Fail in some way."""
    if how == "crash":
        raise RuntimeError("password=hunter2 is wrong")
    raise Failure(Kind.not_found, "There is no such page.", field="page", details={"pages": [1, 2]})


@app.action
async def meet(ctx: Context) -> str:
    """Wait until two have come."""
    gate: asyncio.Barrier = ctx.services.gate
    async with asyncio.timeout(5):
        await gate.wait()
    return "met"


def chat(name: str, arguments: Any, id: str = "call_1") -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


async def told(name: str, arguments: Any, options: dict[str, Any] | None = None, **of: Any) -> dict[str, Any]:
    """The tool envelope that a model is told over OpenAI's chat format."""
    message = await app.tools("openai", **of).execute(chat(name, arguments), **(options or {}))
    assert message["role"] == "tool"
    assert message["tool_call_id"] == "call_1"
    envelope: dict[str, Any] = json.loads(message["content"])
    assert message["content"].startswith('{"ok":')
    return envelope


SHAPES: dict[str, Any] = {
    "openai": chat("add", {"a": 2, "b": None}),
    "openai-responses": {
        "type": "function_call",
        "call_id": "call_1",
        "id": "fc_1",
        "name": "add",
        "arguments": '{"a": 2, "b": null}',
    },
    "anthropic": {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 2}},
    "gemini": {"functionCall": {"id": "call_1", "name": "add", "args": {"a": 2}}},
    "ai-sdk": {"type": "tool-call", "toolCallId": "call_1", "toolName": "add", "input": {"a": 2}},
}
RESULTS: dict[str, Any] = {
    "openai": lambda item: (item["tool_call_id"], json.loads(item["content"])),
    "openai-responses": lambda item: (item["call_id"], json.loads(item["output"])),
    "anthropic": lambda item: (item["tool_use_id"], json.loads(item["content"])),
    "gemini": lambda item: (item["functionResponse"]["id"], item["functionResponse"]["response"]["output"]),
    "ai-sdk": lambda item: (item["toolCallId"], item["output"]["value"]),
}
WHOLE = {"ok": True, "result": 3, "tool": "add"}


@pytest.mark.parametrize("format", FORMATS)
async def test_a_call_comes_back_as_the_providers_result(format: str) -> None:
    item = await app.tools(format).execute(SHAPES[format])
    assert RESULTS[format](item) == ("call_1", WHOLE)


def provided(format: str) -> Any:
    """The call as an object of the provider's own."""
    from anthropic.types import ToolUseBlock
    from google.genai import types as gemini
    from openai.types.chat import ChatCompletionMessageFunctionToolCall
    from openai.types.responses import ResponseFunctionToolCall

    if format == "gemini":
        return gemini.FunctionCall(id="call_1", name="add", args={"a": 2})
    kinds: dict[str, Any] = {
        "openai": ChatCompletionMessageFunctionToolCall,
        "openai-responses": ResponseFunctionToolCall,
        "anthropic": ToolUseBlock,
    }
    return kinds[format].model_validate(SHAPES[format])


@pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "gemini"])
async def test_the_providers_own_objects_are_read(format: str) -> None:
    item = await app.tools(format).execute(provided(format))
    assert RESULTS[format](item) == ("call_1", WHOLE)


def completion(*calls: Any) -> ChatCompletion:
    from openai.types.chat import ChatCompletion

    message = {"role": "assistant", "content": "Let me see.", "tool_calls": list(calls) or None}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    made = {"id": "x", "created": 1, "model": "m", "object": "chat.completion", "choices": [choice]}
    return ChatCompletion.model_validate(made)


def response(*calls: Any) -> Response:
    from openai.types.responses import Response

    words = {"type": "output_text", "text": "Let me see.", "annotations": []}
    said = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [words]}
    made = {"id": "x", "created_at": 1, "model": "m", "object": "response", "output": [said, *calls]}
    return Response.model_validate({**made, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []})


def message(*blocks: Any) -> Message:
    from anthropic.types import Message

    made = {"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    words = {"type": "text", "text": "Let me see."}
    return Message.model_validate({**made, "usage": usage, "content": [words, *blocks]})


def content(*parts: Any) -> gemini.GenerateContentResponse:
    from google.genai import types as gemini

    said = {"role": "model", "parts": [{"text": "Let me see."}, *parts]}
    return gemini.GenerateContentResponse.model_validate({"candidates": [{"content": said}]})


def step(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, *calls]}


MESSAGES: dict[str, Any] = {
    "openai": completion,
    "openai-responses": response,
    "anthropic": message,
    "gemini": content,
    "ai-sdk": step,
}


@pytest.mark.parametrize("format", FORMATS)
async def test_a_whole_message_gives_results_in_the_order_of_its_calls(format: str) -> None:
    whole = MESSAGES[format](SHAPES[format], SHAPES[format])
    results = await app.tools(format).execute(whole)
    assert [RESULTS[format](item) for item in results] == [("call_1", WHOLE)] * 2


@pytest.mark.parametrize("format", FORMATS)
async def test_a_message_without_calls_needs_no_answer(format: str) -> None:
    assert await app.tools(format).execute(MESSAGES[format]()) == []
    assert await app.tools(format).answer(MESSAGES[format]()) == []


@pytest.mark.parametrize(
    ("format", "roles"),
    [
        ("openai", ["tool", "tool"]),
        ("openai-responses", [None, None]),
        ("anthropic", ["user"]),
        ("gemini", ["user"]),
        ("ai-sdk", ["tool"]),
    ],
)
async def test_an_answer_is_what_goes_into_the_conversation(format: str, roles: list[Any]) -> None:
    answer = await app.tools(format).answer(MESSAGES[format](SHAPES[format], SHAPES[format]))
    assert [item.get("role") for item in answer] == roles
    if format == "gemini":
        from google.genai import types as gemini

        gemini.Content.model_validate(answer[0])


async def test_the_message_of_a_completion_and_lists_of_calls_are_read_too() -> None:
    from openai.types.chat import ChatCompletionMessage

    tools = app.tools("openai")
    whole = completion(SHAPES["openai"])
    assert len(await tools.execute(whole.choices[0].message)) == 1
    assert len(await tools.execute(whole.choices[0].message.tool_calls)) == 1
    assert await tools.execute(ChatCompletionMessage(role="assistant", content="Hello.")) == []
    assert await tools.execute([]) == []
    ai_sdk = app.tools("ai-sdk")
    assert len(await ai_sdk.execute({"toolCalls": [SHAPES["ai-sdk"]]})) == 1
    older = {"toolCallId": "c", "toolName": "add", "args": {"a": 1}}
    assert (await ai_sdk.execute(older))["output"]["value"]["result"] == 2


@pytest.mark.parametrize("given", [5, "text", None, {"role": "user"}, SHAPES["anthropic"]])
async def test_what_is_nothing_of_the_providers_is_the_developers_mistake(given: Any) -> None:
    with pytest.raises(TypeError, match="holds no tool call as the format 'openai' has them"):
        await app.tools("openai").execute(given)


async def test_a_gemini_call_without_an_id_gets_a_result_without_one() -> None:
    item = await app.tools("gemini").execute({"name": "add", "args": {"a": 2}})
    assert item == {"functionResponse": {"name": "add", "response": {"output": WHOLE}}}


async def test_strict_forms_are_undone_before_the_action_sees_them() -> None:
    sent = {"labels": [{"key": "x", "value": 1}], "note": '{"deep": [1]}'}
    assert (await told("label", sent))["result"] == {"labels": {"x": 1}, "note": {"deep": [1]}}
    assert (await told("label", {**sent, "note": None}))["result"]["note"] is None


async def test_arguments_with_slips_are_mended_and_the_model_is_told() -> None:
    envelope = await told("add", "{'a': 1, 'b': '2',}")
    assert envelope["result"] == 3
    assert any("single quotes" in note for note in envelope["warnings"])
    assert any(note.startswith("b: ") for note in envelope["warnings"])


async def test_broken_arguments_are_told_in_band_without_their_words() -> None:
    envelope = await told("add", '{"a": hunter2')
    assert envelope["ok"] is False
    assert envelope["kind"] == "invalid_args"
    assert envelope["retryable"] is True
    assert envelope["tool"] == "add"
    assert envelope["expected"] == "a JSON object"
    assert "hunter2" not in json.dumps(envelope)


async def test_invalid_arguments_name_the_field_and_not_the_value() -> None:
    envelope = await told("add", {"a": "hunter2", "b": 1})
    assert envelope["kind"] == "invalid_args"
    assert envelope["field"] == "a"
    assert envelope["issues"][0]["path"] == ["a"]
    assert "hunter2" not in json.dumps(envelope)


async def test_what_is_wrong_with_arguments_is_the_message() -> None:
    missing = await told("add", {"b": 1})
    assert missing["message"] == "Missing required argument `a` (integer)."
    assert (missing["field"], missing["expected"]) == ("a", "integer")
    unread = {"_error": "invalid_tool_arguments", "_message": "The call was cut off.", "_field": "a"}
    assert (await told("add", unread))["message"] == "The call was cut off."


async def test_arguments_that_are_no_object_are_refused_in_band() -> None:
    for arguments in ("[1, 2]", "5", '"words"', "{" * 150):
        assert (await told("add", arguments))["kind"] == "invalid_args"


async def test_arguments_nested_beyond_reason_are_refused_in_band() -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    for arguments in ({"a": deep}, {"labels": deep}):
        tool = "add" if "a" in arguments else "label"
        assert (await told(tool, json.dumps(arguments)))["kind"] == "invalid_args"


async def test_no_arguments_are_an_empty_object() -> None:
    for arguments in ("", "null", " "):
        assert (await told("add", arguments))["field"] == "a"


async def test_an_unknown_tool_is_told_in_band_without_suggestions() -> None:
    envelope = await told("ad", {})
    assert envelope["kind"] == "tool_not_found"
    assert envelope["retryable"] is False
    assert "add" not in json.dumps(envelope)


@pytest.mark.parametrize("name", ["", "burn", "__class__"])
async def test_a_tool_that_is_not_offered_is_unknown(name: str) -> None:
    assert (await told(name, {"pages": 1}))["kind"] == "tool_not_found"
    assert runs == []


async def test_failures_are_told_in_the_tools_words_with_secrets_removed() -> None:
    envelope = await told("fail", {"how": "missing"})
    assert envelope["kind"] == "not_found"
    assert envelope["field"] == "page"
    assert envelope["pages"] == [1, 2]
    envelope = await told("fail", {"how": "crash"})
    assert envelope["kind"] == "execution_error"
    assert "hunter2" not in json.dumps(envelope)


async def test_identity_is_the_hosts_word() -> None:
    runs.clear()
    assert (await told("write", {"text": "a"}))["kind"] == "rejected"
    assert (await told("write", {"text": "a", "auth": {"permissions": ["*"]}}))["ok"] is False
    auth = {"permissions": ["desk:*"]}
    assert (await told("write", {"text": "b"}, user="u1", auth=auth))["result"] == "u1: b"
    assert (await told("write", {"text": "c"}, {"user": "u2", "auth": auth}, user="u1"))["result"] == "u2: c"
    assert runs == ["b", "c"]
    runs.clear()


async def test_an_option_that_there_is_not_is_the_developers_mistake() -> None:
    with pytest.raises(TypeError, match="Did you mean 'user'"):
        await app.tools("openai").execute(chat("add", {"a": 1}), usr="x")  # type: ignore[call-arg]


async def test_parallel_calls_run_at_the_same_time_and_keep_their_order() -> None:
    services = {"gate": asyncio.Barrier(2)}
    calls = [chat("meet", {}, "first"), chat("add", {"a": 1, "b": 1}, "second"), chat("meet", {}, "third")]
    results = await app.tools("openai").execute(calls, services=services)
    assert [item["tool_call_id"] for item in results] == ["first", "second", "third"]
    assert [json.loads(item["content"])["result"] for item in results] == ["met", 2, "met"]


async def test_one_failing_call_leaves_its_neighbours_alone() -> None:
    calls = [chat("nothing", {}, "1"), chat("add", "{broken", "2"), chat("add", {"a": 1, "b": 1}, "3")]
    results = await app.tools("openai").execute(calls)
    assert [json.loads(item["content"])["ok"] for item in results] == [False, False, True]


async def test_a_signal_stops_the_calls() -> None:
    signal = Signal()
    signal.cancel()
    envelope = await told("add", {"a": 1, "b": 1}, {"signal": signal})
    assert envelope["kind"] == "execution_error"
    assert envelope["origin"]["code"] == "CANCELLED"


async def test_a_tool_without_a_time_limit_has_the_one_of_all_tools() -> None:
    office = App("office")

    @office.action
    async def wait(ctx: Context) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    @office.action(metadata={"unlimited": True})
    async def watch(ctx: Context) -> str:
        """Take as long as it takes."""
        await asyncio.sleep(0.05)
        return "seen"

    tools = office.tools("openai", tool_seconds=0.01)
    late, seen = [
        json.loads(each["content"]) for each in await tools.execute([chat("wait", {}), chat("watch", {})])
    ]
    assert (late["kind"], late["retryable"]) == ("timeout", True)
    assert seen["result"] == "seen"
    patient = await office.tools("openai").execute(chat("wait", {}), timeout=0.01)
    assert json.loads(patient["content"])["kind"] == "timeout"
    assert SECONDS == 120


async def test_cancelling_the_host_cancels_the_calls() -> None:
    hall = App("hall")
    started, stopped = asyncio.Event(), asyncio.Event()

    @hall.action
    async def stay() -> None:
        """Stay for good."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(hall.tools("openai").execute(chat("stay", {})))
    async with asyncio.timeout(5):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stopped.is_set()


async def test_unconfirmed_a_model_is_told_to_ask_and_learns_no_token() -> None:
    envelope = await told("burn", {"pages": 1}, include_destructive=True)
    assert envelope["kind"] == "rejected"
    assert envelope["origin"]["code"] == "CONFIRMATION_REQUIRED"
    assert "confirmation" not in envelope
    assert runs == []


async def test_a_person_is_asked_and_decides() -> None:
    asked: list[Any] = []

    async def confirm(action: Action[..., Any], input: Any) -> bool:
        asked.append((action.name, input))
        return bool(input["pages"] < 5)

    options: dict[str, Any] = {"include_destructive": True, "confirm": confirm}
    assert (await told("burn", {"pages": 9}, **options))["kind"] == "user_denied"
    assert runs == []
    assert (await told("burn", {"pages": 2}, **options))["result"] == "burnt"
    assert asked == [("burn", {"pages": 9}), ("burn", {"pages": 2})]
    assert runs.pop() == "burnt 2"
    assert (await told("burn", {"pages": "many"}, **options))["kind"] == "invalid_args"
    assert len(asked) == 2


@pytest.mark.parametrize("answer", [False, None, 1, 0])
async def test_only_a_plain_yes_counts(answer: Any) -> None:
    envelope = await told(
        "burn", {"pages": 1}, include_destructive=True, confirm=lambda action, given: answer
    )
    assert envelope["kind"] == "user_denied"
    assert runs == []


async def test_a_yes_to_an_action_that_wants_a_token_is_bound_to_this_call() -> None:
    assert (await told("sign", {"name": "Ada"}))["kind"] == "rejected"
    assert (await told("sign", {"name": "Ada"}, {"confirm": True}))["kind"] == "rejected"
    agreed = await told("sign", {"name": "Ada"}, confirm=lambda action, given: True)
    assert agreed["result"] == "signed Ada"


async def test_a_token_that_a_person_was_given_confirms() -> None:
    refused = await app.invoke("sign", {"name": "Ada"}, surface="ai-sdk")
    assert refused.failure is not None
    token = refused.failure.details["confirmation"]["code"]
    assert (await told("sign", {"name": "Eve"}, confirm=lambda action, given: token))["kind"] == "rejected"
    assert (await told("sign", {"name": "Ada"}, {"confirm": token}))["result"] == "signed Ada"


async def test_a_question_that_fails_is_a_no() -> None:
    def confirm(action: Action[..., Any], input: Any) -> bool:
        raise RuntimeError("password=hunter2: nobody home")

    envelope = await told("burn", {"pages": 1}, include_destructive=True, confirm=confirm)
    assert envelope["kind"] == "execution_error"
    assert "hunter2" not in json.dumps(envelope)
    assert runs == []


async def test_a_call_that_comes_twice_runs_once_where_its_id_is_the_key() -> None:
    runs.clear()
    options = {"user": "u", "auth": {"permissions": ["desk:*"]}}
    tools = app.tools("openai", key_by_call=True, **options)
    for _ in range(2):
        await tools.execute(chat("write", {"text": "once"}, "call_7"))
    await tools.execute(chat("write", {"text": "once"}, "call_8"))
    assert runs == ["once", "once"]
    await app.tools("openai", **options).execute(chat("write", {"text": "again"}, "call_7"))
    assert runs.pop() == "again"
    runs.clear()


def test_code_without_a_loop_can_call_too() -> None:
    tools = app.tools("openai")
    assert json.loads(tools.execute_sync(chat("add", {"a": 1, "b": 2}))["content"])["result"] == 3
    assert len(tools.answer_sync(completion(SHAPES["openai"], SHAPES["openai"]))) == 2


async def test_code_inside_a_loop_is_told_to_await() -> None:
    with pytest.raises(TypeError, match=r"await tools\.execute"):
        app.tools("openai").execute_sync(chat("add", {"a": 1}))


async def test_130_execute_gives_data_or_the_envelope() -> None:
    tools = app.tools("ai-sdk").definitions
    assert await tools["add"]["execute"]({"a": 2, "b": 3}) == 5
    enveloped = app.tools("ai-sdk", return_envelope=True).definitions
    envelope = await enveloped["add"]["execute"]({"a": 2, "b": 3})
    assert envelope["ok"] is True
    assert envelope["data"] == 5
    assert envelope["meta"]["surface"] == "ai-sdk"


async def test_131_execute_validates_and_gives_failures_as_envelopes() -> None:
    execute = app.tools("ai-sdk").definitions["add"]["execute"]
    envelope = await execute({"a": "many"})
    assert envelope["ok"] is False
    assert envelope["error"]["code"] == "VALIDATION_ERROR"
    assert envelope["error"]["issues"][0]["path"] == ["a"]
    assert (await execute())["error"]["code"] == "VALIDATION_ERROR"


async def test_execute_takes_the_hosts_options() -> None:
    tools = app.tools("ai-sdk", include_destructive=True).definitions
    envelope = await tools["burn"]["execute"]({"pages": 3})
    assert envelope["error"]["code"] == "CONFIRMATION_REQUIRED"
    assert await tools["burn"]["execute"]({"pages": 3}, confirm=True) == "burnt"
    assert runs.pop() == "burnt 3"
    written = tools["write"]["execute"]
    assert await written({"text": "t"}, user="u", auth={"permissions": ["desk:write"]}) == "u: t"
    runs.clear()
    declined = app.tools("ai-sdk", include_destructive=True, confirm=lambda action, given: False).definitions
    envelope = await declined["burn"]["execute"]({"pages": 3})
    assert envelope["error"]["code"] == "AUTHORIZATION_ERROR"
    assert runs == []


async def test_a_result_that_cannot_be_written_is_told_and_not_raised() -> None:
    desk = App("x")

    @desk.action
    def power(digits: int) -> int:
        """Raise ten to a power."""
        return int(10**digits)

    message = await desk.tools("openai").execute(chat("power", {"digits": 5000}))
    envelope = json.loads(message["content"])
    assert (envelope["ok"], envelope["kind"]) == (False, "execution_error")
    assert "JSON" in envelope["message"]
