"""Definitions and results in five providers' words; the providers' own types are the judges."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from pydantic import ConfigDict, Field, TypeAdapter, with_config

from fairlead import App, Runtime
from fairlead.actions import Action, action
from fairlead.surfaces.llm import Tools, function_calling_manifest
from fairlead.surfaces.llm.calls import Call
from fairlead.surfaces.llm.formats import FORMATS

# The providers' packages take seconds to import, and every test process collects this file: tests import them.
ATTRIBUTION = {"text": "Made by Acme", "url": "https://acme.example", "vendor": "Acme"}
app = App("shop", attribution=ATTRIBUTION)


@app.action(public_metadata={"team": "sales"}, metadata={"secret": "internal"}, permissions=["orders:read"])
def find_orders(
    customer: Annotated[str, Field(description="Who ordered.", min_length=1)],
    state: Literal["open", "closed"] = "open",
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    labels: dict[str, str] | None = None,
) -> list[str]:
    """Find a customer's orders."""
    return [f"{customer}-{n}" for n in range(limit)]


@app.action(side_effects="destructive")
def delete_order(id: int) -> int:
    """Delete an order."""
    return id


@app.action(visibility="local")
def rotate_logs() -> None:
    """Rotate the logs."""


@app.action(visibility="private")
def rebuild_index() -> None:
    """Rebuild the index."""


@app.action(supported_surfaces=["cli", "http"])
def print_page() -> None:
    """Print a page."""


def names(**options: Any) -> list[str]:
    found: list[str] = app.tools("openai", **options).names
    return found


def exact(param: Any) -> TypeAdapter[Any]:
    """A provider's own type for what is sent, refusing members that it does not have."""
    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(param))


def test_127_chat_tools_are_what_the_provider_takes() -> None:
    (tool,) = app.tools("openai").definitions
    assert tool["type"] == "function"
    assert list(tool["function"]) == ["name", "description", "parameters", "strict"]
    assert tool["function"]["name"] == "find_orders"
    assert tool["function"]["description"] == "Find a customer's orders."
    assert tool["function"]["strict"] is True
    from openai.types.chat import ChatCompletionFunctionToolParam

    exact(ChatCompletionFunctionToolParam).validate_python(tool)


def test_127_responses_tools_are_what_the_provider_takes() -> None:
    (tool,) = app.tools("openai-responses").definitions
    assert list(tool) == ["type", "name", "description", "parameters", "strict"]
    from openai.types.responses import FunctionToolParam

    exact(FunctionToolParam).validate_python(tool)


@pytest.mark.parametrize("format", ["openai", "openai-responses"])
def test_127_strictness_can_be_declined(format: str) -> None:
    (tool,) = app.tools(format, strict=False).definitions
    function = tool.get("function", tool)
    assert function["strict"] is False
    assert function["parameters"] == find_orders.input.json_schema


@pytest.mark.parametrize("format", ["openai", "anthropic"])
def test_the_root_of_a_tool_that_is_not_strict_is_a_plain_object(format: str) -> None:
    either = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "id": {"type": "integer"}},
        "anyOf": [{"required": ["name"]}, {"required": ["id"]}],
    }

    async def find(given: Any) -> Any:
        """Find."""

    runtime = Runtime([Action(find, input=either)])
    (definition,) = Tools(runtime, format, strict=False).definitions
    schema = definition.get("input_schema") or definition["function"]["parameters"]
    assert (schema["type"], set(schema["properties"])) == ("object", {"name", "id"})
    assert "anyOf" not in schema


def test_anthropic_tools_are_what_the_provider_takes() -> None:
    from anthropic.types import ToolParam

    tools = app.tools("anthropic", include_destructive=True).definitions
    for tool in tools:
        exact(ToolParam).validate_python(tool)
    assert "strict" not in tools[0]  # a record is beyond its strict mode
    assert tools[0]["input_schema"] == find_orders.input.json_schema
    assert tools[1]["strict"] is True


def typeless(schema: Any) -> Any:
    """Their transformer leaves out the type beside an enum; both say the same."""
    if isinstance(schema, list):
        return [typeless(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: typeless(value) for key, value in schema.items() if not (key == "type" and "enum" in schema)}


def test_a_strict_anthropic_schema_needs_no_more_of_their_transforming() -> None:
    shop = App("strict")

    @shop.action
    def order(
        dish: Annotated[str, Field(max_length=20, description="What.")],
        size: Literal["s", "m"] = "m",
        notes: list[str] | None = None,
        table: Annotated[int, Field(ge=1)] = 1,
        day: Annotated[str, Field(json_schema_extra={"format": "date"})] = "",
    ) -> None:
        """Order a dish."""

    from anthropic.lib._parse._transform import transform_schema

    (tool,) = shop.tools("anthropic").definitions
    assert tool["strict"] is True
    schema = tool["input_schema"]
    assert schema["required"] == ["dish"]
    assert schema["properties"]["dish"]["description"] == "What. (maxLength: 20)"
    assert typeless(transform_schema(deepcopy(schema))) == typeless(schema)


def act(a: str = "", b: str = "") -> None:
    """Act."""


def test_anthropics_strict_tools_stay_within_what_a_request_takes() -> None:
    many = App("many")
    for number in range(30):
        many.add({f"act_{number}": act})
    tools = many.tools("anthropic")
    strict = [tool for tool in tools.definitions if tool.get("strict")]
    assert len(strict) == 12  # 24 optional parameters
    assert "optional" in tools.report()["tools"][12]["reason"]
    few = App("few")
    for number in range(30):
        few.add({f"act_{number}": lambda: None}, description="Act.")
    assert len([tool for tool in few.tools("anthropic").definitions if tool.get("strict")]) == 20


def test_gemini_tools_are_what_the_provider_takes() -> None:
    from google.genai import types as gemini

    definitions = app.tools("gemini").definitions
    config = gemini.GenerateContentConfig.model_validate({"tools": definitions})
    assert config.tools is not None
    tool = gemini.Tool.model_validate(definitions[0])
    assert tool.function_declarations is not None
    (declared,) = tool.function_declarations
    assert declared.name == "find_orders"
    schema = declared.parameters_json_schema
    assert isinstance(schema, dict)
    assert schema["properties"]["customer"] == {
        "type": "string",
        "description": "Who ordered. (minLength: 1)",
    }
    assert schema["properties"]["labels"]["anyOf"][0]["additionalProperties"] == {"type": "string"}
    assert App("none").tools("gemini").definitions == []


def test_gemini_is_told_in_words_what_its_schemas_cannot_say() -> None:
    shop = App("words")

    @shop.action
    def order(
        pattern: Annotated[str, Field(pattern="^a$")],
        sure: Literal[True],
        mixed: Literal["a", 1] | None,
        pair: tuple[int, str],
    ) -> None:
        """Order a dish."""

    (tool,) = shop.tools("gemini").definitions
    told = tool["functionDeclarations"][0]["parametersJsonSchema"]["properties"]
    assert told["pattern"] == {"type": "string", "description": '(pattern: "^a$")'}
    assert told["sure"] == {"type": "boolean"}
    assert {"type": "null"} in told["mixed"]["anyOf"]
    assert told["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]


def test_ai_sdk_tools_carry_their_metadata_and_run() -> None:
    tools = app.tools("ai-sdk").definitions
    assert list(tools) == ["find_orders"]
    members = ["description", "inputSchema", "metadata", "parameters", "execute"]
    assert list(tools["find_orders"]) == members
    assert tools["find_orders"]["parameters"] is find_orders.input
    assert tools["find_orders"]["inputSchema"] == find_orders.input.json_schema


METADATA = {
    "team": "sales",
    "attribution": ATTRIBUTION,
    "visibility": "public",
    "sideEffects": "read",
    "requiresConfirmation": False,
    "idempotency": "unspecified",
    "permissions": ["orders:read"],
}


@pytest.mark.parametrize("format", FORMATS)
def test_85_86_public_metadata_and_attribution_are_beside_every_formats_tools(format: str) -> None:
    tools = app.tools(format)
    assert tools.metadata == {"find_orders": METADATA}
    assert tools.attribution == ATTRIBUTION


def test_85_86_the_combined_manifest_has_metadata_attribution_and_names() -> None:
    manifest = function_calling_manifest(app)
    assert list(manifest) == ["attribution", "openaiChatTools", "openaiResponsesTools", "aiSdkTools"]
    assert manifest["attribution"] == ATTRIBUTION
    assert manifest["openaiChatTools"][0]["metadata"] == METADATA
    assert manifest["openaiResponsesTools"][0]["metadata"] == METADATA
    assert manifest["openaiChatTools"][0]["function"] == app.tools("openai").definitions[0]["function"]
    assert manifest["aiSdkTools"] == ["find_orders"]
    assert "internal" not in json.dumps(manifest)
    assert "attribution" not in function_calling_manifest(App("plain"))


def test_an_extra_member_that_the_provider_would_refuse_is_not_sent() -> None:
    for format in ("openai", "openai-responses", "anthropic"):
        assert "metadata" not in json.dumps(app.tools(format).definitions)


def test_123_129_local_private_and_destructive_actions_are_hidden_unless_asked_for() -> None:
    assert names() == ["find_orders"]
    assert names(include_destructive=True) == ["find_orders", "delete_order"]
    assert names(include_local=True) == ["find_orders", "rotate_logs"]
    assert names(include_private=True) == ["find_orders", "rebuild_index"]
    assert names(filter=lambda each: False) == []


def test_128_actions_that_do_not_support_the_surface_are_left_out() -> None:
    assert "print_page" not in names(include_private=True, include_local=True, include_destructive=True)
    assert names(surface="http", filter=lambda each: each.name == "print_page") == ["print_page"]


def test_only_some_tools_in_the_order_asked_for() -> None:
    assert names(only=["delete_order", "find_orders"], include_destructive=True) == [
        "delete_order",
        "find_orders",
    ]
    with pytest.raises(TypeError, match=r"'find_order'.*Did you mean 'find_orders'"):
        names(only=["find_order"])
    with pytest.raises(TypeError, match="'delete_order'"):
        names(only=["delete_order"])


async def test_an_older_version_can_be_offered_under_its_name() -> None:
    versions = App("versions")
    versions.add(lambda: 2, name="act", description="New.", version="2.0.0")
    versions.add(lambda: 1, name="act", description="Old.", version="1.0.0")
    versions.add(lambda: 0, name="act", description="Hidden.", version="0.1.0", visibility="private")
    tools = versions.tools("ai-sdk", only=["act@1.0.0"])
    assert tools.names == ["act"]
    assert await tools.definitions["act"]["execute"]() == 1
    for only in (["act@0.1.0"], ["act@3.0.0"], ["act", "act@1.0.0"]):
        with pytest.raises(TypeError, match="Tools: "):
            versions.tools("ai-sdk", only=only)


def test_132_an_app_offers_every_format() -> None:
    for format in ("openai", "openai-responses", "anthropic", "gemini", "ai-sdk"):
        assert isinstance(app.tools(format), Tools)
    with pytest.raises(TypeError, match="Did you mean 'openai'"):
        app.tools("openia")


def test_a_bare_runtime_has_tools_too() -> None:
    @action
    def ping() -> str:
        """Answer."""
        return "pong"

    tools = Tools(Runtime([ping]), "openai")
    assert tools.names == ["ping"]
    assert tools.attribution is None
    call = {"id": "c", "function": {"name": "ping", "arguments": ""}}
    assert json.loads(tools.execute_sync(call)["content"])["result"] == "pong"


def test_a_name_too_long_for_providers_is_shortened_and_still_found() -> None:
    long = App("long")
    for end in ("a", "b"):
        long.add({"do_" + "x" * 70 + end: lambda: "done"}, description="Do it.")
    tools = long.tools("openai")
    assert len(set(tools.names)) == 2
    for name in tools.names:
        assert len(name) == 64
        call = {"id": "c", "function": {"name": name, "arguments": "{}"}}
        assert json.loads(tools.execute_sync(call)["content"])["result"] == "done"


ODD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "$top": {"type": "integer"},
        "größe": {"type": "string"},
        "_top": {"type": "integer"},
        "x" * 70: {"type": "integer"},
        "a.b": {"type": "integer"},
    },
    "required": ["$top"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("format", "allowed"),
    [("anthropic", r"[a-zA-Z0-9_.-]{1,64}"), ("gemini", r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")],
)
async def test_keys_that_a_provider_refuses_have_other_names_there(format: str, allowed: str) -> None:
    odd = App("odd")
    odd.add({"act": {"run": lambda given: given, "input": ODD, "description": "Act."}})
    tools = odd.tools(format)
    (definition,) = tools.definitions
    declared = definition["functionDeclarations"][0] if format == "gemini" else definition
    schema = declared["parametersJsonSchema" if format == "gemini" else "input_schema"]
    assert len(schema["properties"]) == len(ODD["properties"])
    assert all(re.fullmatch(allowed, key) for key in schema["properties"])
    input = {"$top": 1, "größe": "m", "_top": 2, "x" * 70: 3, "a.b": 4}
    sent = tools.arguments("act", input)
    jsonschema_rs.validate(schema, sent)
    call = {"type": "tool_use", "id": "c", "name": "act", "input": sent, "args": sent}
    result = await tools.execute(call)
    told = result.get("content") or json.dumps(result["functionResponse"]["response"]["output"])
    assert json.loads(told)["result"] == input


def test_changing_a_definition_changes_nothing_else() -> None:
    app.tools("openai", strict=False).definitions[0]["function"]["parameters"]["properties"].clear()
    assert "customer" in find_orders.input.json_schema["properties"]


OK = {"ok": True, "result": [1]}
BAD = {"ok": False, "kind": "rejected", "message": "No.", "retryable": False}


@pytest.mark.parametrize("envelope", [OK, BAD])
def test_results_are_what_the_providers_take(envelope: dict[str, Any]) -> None:
    from anthropic.types import ToolResultBlockParam
    from google.genai import types as gemini
    from openai.types.chat import ChatCompletionToolMessageParam
    from openai.types.responses.response_input_param import FunctionCallOutput

    call = Call("call_1", "find_orders", "{}")
    told = FORMATS["openai"].tell(call, envelope)
    exact(ChatCompletionToolMessageParam).validate_python(told)
    told = FORMATS["openai-responses"].tell(call, envelope)
    exact(FunctionCallOutput).validate_python(told)
    told = FORMATS["anthropic"].tell(call, envelope)
    exact(ToolResultBlockParam).validate_python(told)
    assert told["is_error"] is not envelope["ok"]
    told = FORMATS["gemini"].tell(call, envelope)
    part = gemini.Part.model_validate(told)
    assert part.function_response is not None
    assert part.function_response.response == {"output" if envelope["ok"] else "error": envelope}
    told = FORMATS["ai-sdk"].tell(call, envelope)
    assert told["output"] == {"type": "json" if envelope["ok"] else "error-json", "value": envelope}


def test_a_strict_definition_is_a_valid_schema_and_examples_in_it_can_be_made() -> None:
    tools = app.tools("openai")
    schema = tools.definitions[0]["function"]["parameters"]
    sent = tools.arguments("find_orders", {"customer": "Ada", "labels": {"a": "b"}})
    jsonschema_rs.validate(schema, sent)
    with pytest.raises(TypeError, match="Did you mean"):
        tools.arguments("find_order", {})
