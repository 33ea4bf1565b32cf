"""Holding a small model to the form of an answer: tools told in words, and a grammar that leaves no other way.

The grammar is llguidance's, which llama.cpp follows token by token: what comes out is a call of a tool that there is,
with arguments that fit its schema, or JSON that fits the output's. Small models were not trained on tools, so calls are
plain JSON in the text, and results come back as turns of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models.faults import Unreadable
from fairlead.agents.models.model import Delta, Message, Reply, Request, ToolCall, ToolSpec
from fairlead.agents.models.remote import Reader

#: How the model spells JSON: on one line, as most text that it has seen.
#: What a grammar cannot say is left out of it: who calls the tool checks all of it again.
_SPELLING: Final = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
}
_NOTHING: Final = object()
#: Words rather than a call: whatever does not begin as a call does.
_WORDS: Final = r"/[^{\s](.|\n)*/"


#: What regular expressions of a grammar lack: looking around, looking back, and edges of words.
_BEYOND: Final = re.compile(r"\(\?(?!:)|\\[1-9bBAZkpP]")


class Unbound(Unreadable):
    """The reply is not what the grammar allows: llama.cpp did not understand the grammar, and said nothing."""


def offered(request: Request) -> Sequence[ToolSpec]:
    """The tools that the model may call now."""
    if request.tool_choice == "none":
        return ()
    if request.tool_choice in ("auto", "required"):
        return request.tools
    return [tool for tool in request.tools if tool.name == request.tool_choice]


def grammar(request: Request, *, loose: bool = False) -> str | None:
    """What the reply may look like; None for anything. A loose one leaves arguments open to any object."""
    tools = offered(request)
    rules = []
    if tools:
        rules.append(f"call: %json {_json.dumps(_calls(tools, loose))}")
    if request.output is not None:
        schema = {} if loose else _moved(request.output, "#", request.output)
        rules.append(f"output: %json {_json.dumps({**schema, 'x-guidance': _SPELLING})}")
    elif tools and request.tool_choice == "auto":
        rules.append(f"words: {_WORDS}")
    if not rules:
        return None
    if request.tool_choice != "auto" and tools:
        rules = rules[:1]
    start = " | ".join(rule.partition(":")[0] for rule in rules)
    return "\n".join(["%llguidance {}", f"start: {start}", *rules, ""])


def _calls(tools: Sequence[ToolSpec], loose: bool) -> dict[str, Any]:
    schemas = {
        f"t{at}": {"type": "object"} if loose else _moved(tool.parameters, f"#/$defs/t{at}", tool.parameters)
        for at, tool in enumerate(tools)
    }
    calls = [
        {
            "type": "object",
            "properties": {"tool": {"const": tool.name}, "arguments": {"$ref": f"#/$defs/t{at}"}},
            "required": ["tool", "arguments"],
            "additionalProperties": False,
        }
        for at, tool in enumerate(tools)
    ]
    return {"anyOf": calls, "$defs": schemas, "x-guidance": _SPELLING}


def _moved(schema: Any, place: str, root: Mapping[str, Any]) -> Any:
    """The schema, as far as a grammar can say it, with references that point to its own parts where it is now."""
    if isinstance(schema, list):
        return [_moved(value, place, root) for value in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            if not _leads(value, root):
                continue
            moved[key] = place + value[1:]
        elif key == "pattern" and isinstance(value, str) and not _plain(value):
            continue
        else:
            moved[key] = _moved(value, place, root)
    return moved


def _leads(reference: str, root: Mapping[str, Any]) -> bool:
    """Whether a reference leads somewhere within the schema."""
    found: Any = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return reference.startswith("#")


def _plain(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return _BEYOND.search(pattern) is None


def told(request: Request) -> list[Message]:
    """The conversation in turns of words, as any template takes them."""
    system = [each.content for each in request.messages if each.role == "system" and each.content]
    if tools := offered(request):
        system.append(_instructions(tools, must=request.tool_choice != "auto"))
    if request.output is not None:
        system.append(f"Answer with JSON only. It fits this JSON Schema: {_json.dumps(dict(request.output))}")
    turns = [Message("system", "\n\n".join(system))] if system else []
    for message in request.messages:
        if message.role == "system":
            continue
        turn = _turn(message)
        if turns[-1:] and turns[-1].role == turn.role:
            # Many templates want the sides to take turns.
            turn = replace(turn, content=f"{turns.pop().content}\n\n{turn.content}")
        turns.append(turn)
    return turns


def _instructions(tools: Sequence[ToolSpec], *, must: bool) -> str:
    way = '{"tool": NAME, "arguments": {...}}'
    begin = f"Call one of these tools. Answer with JSON only: {way}"
    if not must:
        begin = f"You have tools. To call one, answer with JSON only: {way} Else answer in words."
    return "\n".join([begin, *(_tool(tool) for tool in tools)])


def _tool(tool: ToolSpec) -> str:
    return f"- {tool.name}: {tool.description} Arguments: {_json.dumps(dict(tool.parameters))}"


def _turn(message: Message) -> Message:
    if message.role == "tool":
        return Message("user", f"Result of {message.name or 'the tool'}: {message.content}")
    if message.role == "assistant":
        return Message("assistant", "\n".join(_said(message)))
    return Message(message.role, message.content)


def _said(message: Message) -> Iterator[str]:
    if message.content:
        yield message.content
    for call in message.calls:
        yield f'{{"tool": {_json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}'


def called(reply: Reply, request: Request) -> Reply:
    """The reply with the call that its text is, if it is one.

    Raises:
        Unbound: it is nothing that the grammar allows.
    """
    tools = offered(request)
    must = bool(tools) and request.tool_choice != "auto"
    if reply.stop == "length":
        # What was cut off cannot be read, but seen to be something else.
        if must and reply.text[:1] not in ("", "{"):
            raise Unbound("it is no call of a tool")
        return reply
    value = _parsed(reply.text)
    if isinstance(value, dict) and set(value) == {"tool", "arguments"}:
        for tool in tools:
            if tool.name == value["tool"]:
                call = ToolCall(tool.name, _json.dumps(value["arguments"]))
                return replace(reply, text="", calls=(call,), stop="tool_calls")
    if must or (tools and request.output is None and reply.text.startswith("{")):
        raise Unbound("it is no call of a tool")
    if request.output is not None and value is _NOTHING:
        raise Unbound("it is not JSON")
    return reply


def _parsed(text: str) -> Any:
    try:
        return _json.loads(text)
    except ValueError:
        return _NOTHING


class CallReader:
    """Holds back a streamed text that may be a call, until it is known."""

    def __init__(self, inner: Reader, request: Request) -> None:
        self._inner = inner
        self._request = request
        #: None until the first letter has come.
        self._held: bool | None = None

    def feed(self, event: Any) -> Delta | None:
        delta = self._inner.feed(event)
        if delta is None or not delta.text:
            return delta
        if self._held is None:
            self._held = self._begins(delta.text)
        if not self._held:
            return delta
        return Delta(reasoning=delta.reasoning) if delta.reasoning else None

    def _begins(self, text: str) -> bool:
        """Whether what begins so is held back."""
        request = self._request
        if offered(request):
            return request.tool_choice != "auto" or text.startswith("{")
        if request.output is not None and request.output.get("type") == "object" and text[:1] != "{":
            raise Unbound("it is no JSON object")
        return False

    def whole(self) -> Reply:
        return called(self._inner.whole(), self._request)
