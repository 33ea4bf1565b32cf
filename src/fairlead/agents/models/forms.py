"""The form of an output, as a provider's model can be held to it. One that cannot be held to it is told of it in words.

A form that a provider refuses costs the whole request. What a model says is checked in any case, elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models.model import Message, Request
from fairlead.schema.dialects.dialect import ANTHROPIC, OPENAI, Rewriter
from fairlead.schema.dialects.limits import beyond_anthropic, complexity
from fairlead.schema.dialects.nodes import Nodes

_WORDS: Final = "Answer with JSON that fits this JSON Schema, and with nothing else:"
#: What OpenAI takes of a schema that its models are held to, to the letter.
_TAKEN: Final = OPENAI.keywords | {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs",
}  # fmt: skip


def told(request: Request) -> Request:
    """The request for a model that cannot be held to the output's form."""
    if request.output is None:
        return request
    at = next((at for at, each in enumerate(request.messages) if each.role != "system"), 0)
    words = Message("system", f"{_WORDS} {_json.dumps(dict(request.output))}")
    return replace(request, messages=[*request.messages[:at], words, *request.messages[at:]], output=None)


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether nothing but an object fits, and its document says so at once."""
    return schema.get("type") == "object"


def is_strict(schema: Any) -> bool:
    """Whether OpenAI's models can be held to it to the letter: every object is closed, and all of it is required."""
    if not isinstance(schema, Mapping) or not set(schema) <= _TAKEN or not schema:
        return False
    if schema.get("format", "date") not in OPENAI.formats:
        return False
    properties = schema.get("properties") or {}
    if schema.get("type") == "object" or properties:
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required") or ()) != set(properties):
            return False
    below = [*properties.values(), *schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    return all(map(is_strict, [*below, schema["items"]] if "items" in schema else below))


def anthropic_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same in the words that Anthropic takes; None where it has none for it."""
    nodes = Nodes(dict(schema))
    if beyond_anthropic(nodes) is not None or complexity(nodes).excess is not None:
        return None
    return Rewriter(nodes, ANTHROPIC).document()
