"""Five providers' words: how a tool is defined, how its result is told, and the message that carries results back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fairlead.failures import tool as wire
from fairlead.surfaces.llm.calls import Call
from fairlead.surfaces.llm.tool import Tool

Envelope = dict[str, Any]
Item = dict[str, Any]


class Format(NamedTuple):
    """A provider's shapes."""

    #: One tool's definition.
    define: Callable[[Tool], Item]
    #: One call's result, around a tool envelope.
    tell: Callable[[Call, Envelope], Item]
    #: What goes into the conversation, for some results.
    answer: Callable[[list[Item]], list[Item]]
    #: What is given to the provider as its tools.
    offer: Callable[[list[Item]], Any] = lambda definitions: definitions


def _openai(tool: Tool) -> Item:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, "strict": tool.strict}}


def _responses(tool: Tool) -> Item:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }


def _anthropic(tool: Tool) -> Item:
    defined = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
    return {**defined, "strict": True} if tool.strict else defined


def _gemini(tool: Tool) -> Item:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def _ai_sdk(tool: Tool) -> Item:
    return {"description": tool.description, "inputSchema": tool.parameters}


def _openai_result(call: Call, envelope: Envelope) -> Item:
    return {"role": "tool", "tool_call_id": call.id or "", "content": wire.dumps(envelope)}


def _responses_result(call: Call, envelope: Envelope) -> Item:
    return {"type": "function_call_output", "call_id": call.id or "", "output": wire.dumps(envelope)}


def _anthropic_result(call: Call, envelope: Envelope) -> Item:
    told = {"type": "tool_result", "tool_use_id": call.id or "", "content": wire.dumps(envelope)}
    return {**told, "is_error": not envelope["ok"]}


def _gemini_result(call: Call, envelope: Envelope) -> Item:
    response = {"name": call.name, "response": {"output" if envelope["ok"] else "error": envelope}}
    return {"functionResponse": response if call.id is None else {"id": call.id, **response}}


def _ai_sdk_result(call: Call, envelope: Envelope) -> Item:
    output = {"type": "json" if envelope["ok"] else "error-json", "value": envelope}
    return {"type": "tool-result", "toolCallId": call.id or "", "toolName": call.name, "output": output}


def _as_they_are(results: list[Item]) -> list[Item]:
    return results


FORMATS: Final[dict[str, Format]] = {
    "openai": Format(_openai, _openai_result, _as_they_are),
    "openai-responses": Format(_responses, _responses_result, _as_they_are),
    "anthropic": Format(
        _anthropic,
        _anthropic_result,
        lambda results: [{"role": "user", "content": results}] if results else [],
    ),
    "gemini": Format(
        _gemini,
        _gemini_result,
        lambda results: [{"role": "user", "parts": results}] if results else [],
        lambda definitions: [{"functionDeclarations": definitions}] if definitions else [],
    ),
    "ai-sdk": Format(
        _ai_sdk, _ai_sdk_result, lambda results: [{"role": "tool", "content": results}] if results else []
    ),
}
