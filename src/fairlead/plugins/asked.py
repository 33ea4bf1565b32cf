"""What a plugin asks of a model: an OpenAI-style chat body, read into our own words.

Who is asking stands nowhere in it: members that name an agent are noted, and otherwise ignored.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from fairlead import _json
from fairlead.agents.models.model import Image, Message, Settings, ToolCall, ToolSpec
from fairlead.failures.host import InvalidRequest

#: Steps of the model, where the plugin does not say how many, and within which bounds it may.
ITERATIONS: Final = 30
MOST_ITERATIONS: Final = 120
#: Members that claim an agent. The one that counts is bound to the call.
AGENT_KEYS: Final = ("agent_address", "agent_id")
_MOST_TOKENS: Final = 10_000_000
_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_EFFORTS: Final = {"none": "off", "minimal": "low", "low": "low", "medium": "medium", "high": "high"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a completion."""

    model: str
    messages: tuple[Message, ...]
    #: What the request says of settings; the rest is the agent's.
    settings: Mapping[str, Any]
    #: Whether the agent's own tools are wanted.
    agent_tools: bool = False
    #: Tools by name, and those that only the plugin knows, with their definitions.
    tools: tuple[str | ToolSpec, ...] = ()
    session: str | None = None
    stream: str | None = None
    iterations: int = ITERATIONS
    #: Members that tried to choose the agent.
    claims: tuple[str, ...] = ()

    def system(self) -> list[str]:
        """What the request itself says before the conversation."""
        return [each.content for each in self.messages if each.role == "system"]

    def said(self) -> list[Message]:
        """The conversation, without what comes before it."""
        return [each for each in self.messages if each.role != "system"]

    def settled(self, base: Settings) -> Settings:
        """An agent's settings, with what the request says."""
        return replace(base, **self.settings)


def loaded(request: str | None) -> dict[str, Any]:
    """A request as an object. Raises InvalidRequest for what is none."""
    try:
        body = _json.loads(request or "")
    except (ValueError, RecursionError):
        raise InvalidRequest("The request is not JSON. Send an object.") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The request is not an object. Send one.")
    return body


def claims_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The members of a request that name an agent."""
    return tuple(key for key in AGENT_KEYS if key in body)


def read_completion(request: str | None) -> Asked:
    """A chat body.

    Raises:
        InvalidRequest: it is not one; the message names the member.
    """
    body = loaded(request)
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise InvalidRequest("model must be a string, or null for the default.", field="model")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("Missing required field: messages. Send at least one message.", field="messages")
    tools = body.get("tools")
    return Asked(
        (model or "").strip(),
        tuple(_message(each, f"messages[{at}]") for at, each in enumerate(messages)),
        _settings(body),
        tools is True,
        tuple(_tool(each, f"tools[{at}]") for at, each in enumerate(tools))
        if isinstance(tools, list)
        else (),
        _text(body.get("session_id")),
        _text(body.get("stream_id")),
        _iterations(body.get("max_iterations")),
        claims_of(body),
    )


def _text(given: object) -> str | None:
    return given.strip() or None if isinstance(given, str) else None


def _iterations(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        return ITERATIONS
    return int(max(1, min(given, MOST_ITERATIONS)))


def _settings(body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, key in (
        ("temperature", "temperature"),
        ("max_tokens", "max_tokens"),
        ("max_completion_tokens", "max_tokens"),
    ):
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidRequest(f"{name} must be a number.", field=name)
        found[key] = value if key == "temperature" else int(max(1, min(value, _MOST_TOKENS)))
    seed = body.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool):
        found["seed"] = seed
    stop = body.get("stop")
    if isinstance(stop, str) or (isinstance(stop, list) and all(isinstance(each, str) for each in stop)):
        found["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    effort = body.get("reasoning_effort")
    if body.get("enable_thinking") is False:
        found["reasoning"] = "off"
    elif isinstance(effort, str) and effort in _EFFORTS:
        found["reasoning"] = _EFFORTS[effort]
    return found


def _message(given: Any, where: str) -> Message:
    if not isinstance(given, dict) or not isinstance(given.get("role"), str) or given["role"] not in _ROLES:
        known = ", ".join(_ROLES)
        raise InvalidRequest(f"{where} must be an object with a role: {known}.", field=where)
    content, images = _content(given.get("content"), where)
    calls = given.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise InvalidRequest(f"{where}.tool_calls must be an array.", field=where)
    call_id = given.get("tool_call_id")
    return Message(
        cast("Any", _ROLES[given["role"]]),
        content,
        tuple(_call(each, where) for each in calls),
        call_id if isinstance(call_id, str) else None,
        given.get("name") if given["role"] == "tool" and isinstance(given.get("name"), str) else None,
        images=images,
    )


def _content(given: Any, where: str) -> tuple[str, tuple[Image, ...]]:
    if given is None or isinstance(given, str):
        return given or "", ()
    if not isinstance(given, list):
        raise InvalidRequest(f"{where}.content must be a string, an array of parts, or null.", field=where)
    words: list[str] = []
    images: list[Image] = []
    for part in given:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            words.append(part["text"])
        elif kind == "image_url":
            images.append(_image(part.get("image_url"), where))
        else:
            raise InvalidRequest(
                f"{where}.content has a part that is neither text nor image_url.", field=where
            )
    return "\n".join(words), tuple(images)


def _image(given: Any, where: str) -> Image:
    url = given.get("url") if isinstance(given, dict) else given
    head, _, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise InvalidRequest(f"{where}: a picture has to come as a data: address in base64.", field=where)
    try:
        return Image(base64.b64decode(data, validate=True), head[5:-7] or "image/png")
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{where}: the picture's base64 cannot be read.", field=where) from None


def _call(given: Any, where: str) -> ToolCall:
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidRequest(f"{where}.tool_calls: each needs a function with a name.", field=where)
    arguments = function.get("arguments", "{}")
    spelled = arguments if isinstance(arguments, str) else _json.dumps(arguments)
    id = given.get("id")
    return ToolCall(function["name"], spelled, id if isinstance(id, str) else "")


def _tool(given: Any, where: str) -> str | ToolSpec:
    if isinstance(given, str) and given.strip():
        return given.strip()
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidRequest(f"{where} must be a function with a name, or the name of a tool.", field=where)
    described, parameters = function.get("description"), function.get("parameters")
    return ToolSpec(
        function["name"],
        described if isinstance(described, str) else "",
        parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}},
    )
