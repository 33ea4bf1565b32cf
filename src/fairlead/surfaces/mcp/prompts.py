"""Prompts: one for each action that says when and how it is used, and those a server adds as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from fairlead import _json
from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.surfaces.mcp.content import is_block, message
from fairlead.surfaces.mcp.exchange import Exchange
from fairlead.surfaces.mcp.functions import as_action, run
from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, RpcError
from fairlead.surfaces.mcp.tools import Tool


class Prompt(Protocol):
    """Something that can be listed and turned into messages."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""

    async def messages(self, exchange: Exchange, arguments: dict[str, Any]) -> list[dict[str, Any]]: ...


class FunctionPrompt:
    """A function that gives a text, a content block, a message, or a list of these."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, title: str | None, **options: Any
    ) -> None:
        self.name = name or function.__name__
        self.action = as_action(function, "prompt", self.name, _messages, options)
        self.title = title or _title(self.name)
        self.description = self.action.description

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.action.input.json_schema

    async def messages(self, exchange: Exchange, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = await run(exchange, self.action, arguments)
        return told


class ActionPrompt:
    """How to use one tool, in the words of its docs, with the arguments to use it with."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.name = tool.name
        self.title = tool.action.title
        self.description = f"How to use {tool.name}: {tool.action.description}"

    @property
    def fields(self) -> Mapping[str, Any]:
        schema = self._tool.input_schema
        # All arguments may be left out: then the model is to find them.
        return {"properties": schema.get("properties", {}), "required": []}

    async def messages(self, exchange: Exchange, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return [dict(message(guidance(self._tool.action, arguments)))]


def describe(prompt: Prompt, titled: bool) -> dict[str, Any]:
    """A prompt as `prompts/list` has it."""
    told: dict[str, Any] = {"name": prompt.name}
    if titled:
        told["title"] = prompt.title
    told["description"] = prompt.description
    fields = prompt.fields
    required = fields.get("required", ())
    told["arguments"] = [
        {
            "name": name,
            **({"description": schema["description"]} if schema.get("description") else {}),
            "required": name in required,
        }
        for name, schema in fields.get("properties", {}).items()
    ]
    return told


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """A request's arguments: texts by name. Raises RpcError."""
    arguments = params.get("arguments")
    if arguments is None:
        return {}
    if type(arguments) is not dict or not all(type(value) is str for value in arguments.values()):
        raise RpcError(INVALID_PARAMS, "Invalid params: a prompt's arguments are strings, by name.")
    return arguments


def guidance(action: Action[..., Any], arguments: Mapping[str, str]) -> str:
    """What a model is told about using an action."""
    docs = action.docs
    lines = [f"Use the tool `{action.name}`: {action.description}"]
    lines += _listed("Use it when", docs.get("when_to_use"))
    lines += _listed("Do not use it when", docs.get("when_not_to_use"))
    lines += _listed("Notes", docs.get("usage_notes"))
    for heading, key in (("Example input", "input_example"), ("Example output", "output_example")):
        if key in docs:
            lines += ["", f"{heading}:", "```json", _json.dumps(docs[key], indent=True), "```"]
    if arguments:
        lines += ["", "Call it with:", *(f"- {name}: {value}" for name, value in arguments.items())]
    return "\n".join(lines)


def _listed(heading: str, said: Any) -> list[str]:
    items = [said] if isinstance(said, str) else list(said or ())
    return ["", f"{heading}:", *(f"- {item}" for item in items)] if items else []


def _title(name: str) -> str:
    return " ".join(part.capitalize() for part in name.replace("-", "_").split("_") if part)


def _messages(value: Any) -> list[Any]:
    return [_message(each) for each in (value if isinstance(value, list | tuple) else [value])]


def _message(value: Any) -> Any:
    if isinstance(value, str) or is_block(value):
        return message(value)
    if (
        isinstance(value, dict)
        and value.get("role") in ("user", "assistant")
        and is_block(value.get("content"))
    ):
        return value
    raise Failure(Kind.invalid_output, "A prompt gives texts, content blocks or messages.")
