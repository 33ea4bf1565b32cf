"""OpenAI's words, for those who speak them: what a client may ask of an agent, what was said, and what failed.

It knows no route and runs nothing. An agent has its own model, tools and form of answer: what would change them is
refused, and what only tunes a model is left to the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairlead.agents.models.model import Message
from fairlead.failures import Failure
from fairlead.failures import gateway as wire
from fairlead.failures.gateway import (
    AgentNotFound,
    AgentReplyError,
    InvalidBody,
    InvalidParam,
    MissingParam,
    sentinel,
)
from fairlead.gateway.agents import GatewayAgent
from fairlead.gateway.call import LONGEST_ID, Answer, Call
from fairlead.gateway.invoke import text_of

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway
    from fairlead.surfaces.http.asgi import Request

#: Who owns our models, which are agents. Those who look for models on this machine pass them by.
OWNER: Final = "fairlead"
#: Seconds that a client waits at most; its own library waits as long.
LONGEST_WAIT: Final = 600.0
#: The last frame of a stream, however it ended.
DONE: Final = b"data: [DONE]\n\n"
#: What asks for more or other things than an agent's words, and why it is not done.
_REFUSED: Final[Mapping[str, str]] = {
    "tools": "An agent uses its own tools. Leave tools out, or let the agent's owner add them.",
    "functions": "An agent uses its own tools. Leave functions out, or let the agent's owner add them.",
    "logprobs": "Agents give no logprobs.",
    "audio": "Agents answer with text.",
    "background": "For work that goes on without you, create a task: POST /api/v1/agents/AGENT/tasks.",
    "prompt": "There are no stored prompts here. Send the text itself.",
}
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_ROLES: Final = ("system", "developer", "user", "assistant")


def refused(gateway: Gateway, request: Request, failure: Failure) -> Answer:
    """A failure as OpenAI's clients read it."""
    told = {"error": error_of(failure, gateway)}
    retry = b"true" if wire.retryable(failure) else b"false"
    return Answer(told, wire.http_status(failure), ((b"x-should-retry", retry),), flat=True)


def error_of(failure: Failure, gateway: Gateway) -> dict[str, Any]:
    """The error itself, with the gateway's code."""
    told = wire.render(failure, None, gateway.app.redactor)["error"]
    code = AgentReplyError.code if isinstance(failure, AgentReplyError) else told["code"]
    return {"message": told["message"], "type": told["type"], "param": told.get("param"), "code": code}


async def agent_of(call: Call, body: Mapping[str, Any]) -> GatewayAgent:
    """The agent that a body names as its model, which has to be there."""
    id = text_of(dict(body), "model")
    if len(id) > LONGEST_ID or not id.isprintable():
        raise AgentNotFound
    agent = await call.gateway.agents.usable(id, call.caller)
    if not agent.online(call.gateway.app.wall()):
        raise sentinel("AgentOffline")
    return agent


def check(body: Mapping[str, Any]) -> None:
    """Refuse what an agent does not do. Raises InvalidParam."""
    for name, words in _REFUSED.items():
        if body.get(name):
            raise InvalidParam(f"{name} is not taken here. {words}", field=name)
    if body.get("n") not in (None, 1):
        raise InvalidParam("n must be 1: an agent gives one answer.", field="n")
    if body.get("modalities") not in (None, ["text"]):
        raise InvalidParam("modalities must be ['text'].", field="modalities")
    form = body.get("response_format")
    if form is None and isinstance(body.get("text"), dict):
        form = body["text"].get("format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        name = "text.format" if "text" in body else "response_format"
        words = "An agent's owner decides the form of its answers."
        raise InvalidParam(f"{name} must be of the type text. {words}", field=name)


def said(items: Any, field: str) -> tuple[tuple[Message, ...], str]:
    """What a client says was said before, and what it says now. Raises the gateway's failures."""
    if items is None:
        raise MissingParam(f"{field} is missing.", field=field)
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise InvalidBody(f"{field} must be a list of messages that is not empty.", field=field)
    messages = [_message(item, f"{field}[{number}]") for number, item in enumerate(items)]
    if messages[-1].role != "user" or items[-1]["role"] != "user" or not messages[-1].content.strip():
        words = "must be the user's, and not empty: the agent answers it."
        raise InvalidBody(f"The last of {field} {words}", field=field)
    return tuple(messages[:-1]), messages[-1].content


def _message(item: Any, field: str) -> Message:
    if not isinstance(item, dict):
        raise InvalidBody(f"{field} must be an object.", field=field)
    role = item.get("role")
    if item.get("type") not in (None, "message") or role in ("tool", "function") or item.get("tool_calls"):
        words = "An agent calls its own tools: send only messages of users and assistants."
        raise InvalidParam(f"{field} is not taken here. {words}", field=field)
    if role not in _ROLES:
        raise InvalidBody(f"{field}.role must be one of {', '.join(_ROLES)}.", field=f"{field}.role")
    text = _text(item.get("content"), f"{field}.content")
    if role == "assistant":
        return Message("assistant", text)
    # An agent has its owner's instructions. Those of a caller weigh as much as what the caller says.
    return Message("user", text if role == "user" else instructed(text))


def instructed(text: str) -> str:
    """A caller's instructions, as an agent is told them."""
    return f"Instructions for this conversation:\n{text}"


def _text(content: Any, field: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidBody(f"{field} must be a text, or a list of parts.", field=field)
    return "".join(_part(part, f"{field}[{number}]") for number, part in enumerate(content))


def _part(part: Any, field: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
    if kind not in (*_TEXTS, "refusal"):
        words = "Send text; files go through /api/v1/files."
        raise InvalidParam(f"{field} is of a type that is not taken here. {words}", field=field)
    if not isinstance(text, str):
        raise InvalidBody(f"{field}.text must be a text.", field=field)
    return text


def folded(history: Sequence[Message], prompt: str) -> str:
    """What was said before as part of what is said now, for agents that keep no words of others."""
    if not history:
        return prompt
    names = {"user": "User", "assistant": "You"}
    lines = [f"{names[each.role]}: {each.content}" for each in history if each.role in names]
    return "\n\n".join(("What was said before:", *lines, "What is said now:", prompt))


def usage_of(usage: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """Tokens read and written, where that is known."""
    return None if usage is None else (int(usage.get("input", 0)), int(usage.get("output", 0)))
