"""The actions as tools of LangChain and of pydantic-ai, run by those libraries themselves."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from fairlead import App, Context, s

# It takes long to import, and every test process collects this file.
if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models.function import AgentInfo

app = App("desk")
runs: list[str] = []


@app.action
def add(a: int, b: int = 1, config: str = "", run_manager: int = 0) -> int:
    """Add two numbers."""
    return a + b + run_manager


@app.action(input=s.union([s.string(), s.number()]))
def echo(value: Any) -> Any:
    """Say it again."""
    return value


@app.action(side_effects="write", permissions=["desk:write"])
def write(text: str, ctx: Context) -> str:
    """Write something down."""
    runs.append(text)
    return f"{ctx.user}: {text}"


@app.action(side_effects="destructive")
def burn() -> None:
    """Burn it all."""
    runs.append("burnt")


def langchain(**options: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in app.tools(**options).langchain()}


async def test_langchain_invokes_an_action() -> None:
    tools = langchain()
    assert list(tools) == ["add", "echo", "write"]
    assert tools["add"].description == "Add two numbers."
    assert json.loads(await tools["add"].ainvoke({"a": 2, "b": 3})) == {
        "ok": True,
        "result": 5,
        "tool": "add",
    }


async def test_langchain_passes_every_argument_whatever_its_name() -> None:
    text = await langchain()["add"].ainvoke({"a": 2, "config": "x", "run_manager": 5})
    assert json.loads(text)["result"] == 8


async def test_langchain_gets_a_tool_message_for_a_call() -> None:
    call = {"name": "add", "args": {"a": "2"}, "id": "c1", "type": "tool_call"}
    message = await langchain()["add"].ainvoke(call)
    assert isinstance(message, ToolMessage)
    assert message.tool_call_id == "c1"
    assert message.status == "success"
    assert json.loads(str(message.content))["warnings"]


async def test_langchain_is_told_of_a_failure_as_an_error() -> None:
    call = {"name": "add", "args": {"a": "many"}, "id": "c1", "type": "tool_call"}
    message = await langchain()["add"].ainvoke(call)
    assert message.status == "error"
    envelope = json.loads(message.content)
    assert envelope["kind"] == "invalid_args"
    assert envelope["field"] == "a"
    assert "many" not in message.content


async def test_langchain_tools_have_an_object_at_their_root() -> None:
    tool = langchain()["echo"]
    assert json.loads(await tool.ainvoke({"input": 5}))["result"] == 5
    parameters = convert_to_openai_tool(tool)["function"]["parameters"]
    assert list(parameters["properties"]) == ["input"]


def test_langchain_invokes_without_a_loop() -> None:
    assert json.loads(langchain()["add"].invoke({"a": 2}))["result"] == 3


async def test_langchain_inside_a_loop_is_told_to_await() -> None:
    with pytest.raises(TypeError, match=r"await tool\.ainvoke"):
        langchain()["add"].invoke({"a": 2})


async def test_identity_exposure_and_trimming_hold_in_both_libraries() -> None:
    runs.clear()
    who: dict[str, Any] = {"user": "u", "auth": {"permissions": ["desk:*"]}}
    refused = await langchain()["write"].ainvoke({"text": "a"})
    assert json.loads(refused)["kind"] == "rejected"
    assert json.loads(await langchain(**who)["write"].ainvoke({"text": "b"}))["result"] == "u: b"
    assert "burn" in langchain(include_destructive=True)
    assert [tool.name for tool in app.tools(only=["add"], trim=5).pydantic_ai()] == ["add"]
    assert app.tools(only=["add"], trim=5).pydantic_ai()[0].description == "Add…"
    assert runs == ["b"]


async def test_pydantic_ai_calls_every_tool_with_arguments_of_its_schema() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ToolReturnPart
    from pydantic_ai.models.test import TestModel

    model = TestModel(seed=1)
    agent = Agent(model, tools=app.tools(only=["add", "echo"]).pydantic_ai())
    result = await agent.run("Go.")
    returned: dict[str, Any] = {
        part.tool_name: part.content
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    assert set(returned) == {"add", "echo"}
    assert all(envelope["ok"] for envelope in returned.values())
    assert model.last_model_request_parameters is not None
    (first, _) = model.last_model_request_parameters.function_tools
    assert first.parameters_json_schema == add.input.json_schema
    assert first.description == "Add two numbers."


async def test_pydantic_ai_hears_of_failures_and_goes_on() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    heard: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                heard.append(part.content)
        tries: list[dict[str, Any]] = [{"a": "many"}, {}, {"a": 1, "b": "2"}]
        if len(heard) < len(tries):
            return ModelResponse([ToolCallPart("add", tries[len(heard)])])
        return ModelResponse([TextPart("Done.")])

    result = await Agent(FunctionModel(model), tools=app.tools().pydantic_ai()).run("Go.")
    assert result.output == "Done."
    assert [envelope["ok"] for envelope in heard] == [False, False, True]
    assert [envelope.get("kind") for envelope in heard[:2]] == ["invalid_args"] * 2
    assert heard[2]["result"] == 3


@pytest.mark.parametrize(
    ("adapter", "package"), [("langchain", "langchain_core.tools"), ("pydantic_ai", "pydantic_ai")]
)
def test_a_missing_library_says_what_to_install(
    adapter: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"fairlead.surfaces.llm.{adapter}", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        getattr(app.tools(), adapter)()


async def test_many_langchain_calls_run_at_the_same_time() -> None:
    hall = App("hall")
    gate = asyncio.Barrier(3)

    @hall.action
    async def meet() -> int:
        """Wait until three have come."""
        async with asyncio.timeout(5):
            return await gate.wait()

    (tool,) = hall.tools().langchain()
    results = await asyncio.gather(*(tool.ainvoke({}) for _ in range(3)))
    assert sorted(json.loads(text)["result"] for text in results) == [0, 1, 2]
