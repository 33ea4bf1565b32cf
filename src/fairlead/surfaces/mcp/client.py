"""What an action may ask of the MCP client that called it: the person, the model, and where it works.

    client = client_of(ctx)
    if client is not None:
        answer = await client.elicit("Which branch?", Branch)

Before 2026-07-28 a question goes out while the action waits. Since then a call ends with its questions, and the
client repeats it with the answers: the action runs again from its beginning, and finds them there. So ask first,
and act afterwards; questions that belong together go into one `ask`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.runtime import Context
from fairlead.schema import Invalid, Schema, schema_of
from fairlead.surfaces.mcp.content import Message, message
from fairlead.surfaces.mcp.exchange import Exchange, Metadata
from fairlead.surfaces.mcp.rpc import RpcError

_NO_FIELDS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_ACTIONS: Final = ("accept", "decline", "cancel")
#: The formats of text that a form knows.
_FORMATS: Final = frozenset(("email", "uri", "date", "date-time"))


class Elicited(NamedTuple):
    """How a person answered. `content` is there when they accepted a form: of the type that was asked for."""

    action: Literal["accept", "decline", "cancel"]
    content: Any = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Sampled(NamedTuple):
    """What the client's model said."""

    text: str
    content: Any
    model: str
    stop_reason: str | None


class Elicit:
    """A question to the person: a form of flat fields by a type or a JSON Schema, or a page to visit."""

    capability = "elicitation"
    method = "elicitation/create"

    def __init__(self, message: str, schema: Any = None, *, url: str | None = None) -> None:
        self._message = message
        self._schema = None if schema is None else _compiled(schema)
        self._url = url
        if url is not None:
            self.capability = "elicitation.url"

    def params(self, stateless: bool) -> dict[str, Any]:
        if self._url is not None:
            told = {"mode": "url", "message": self._message, "url": self._url}
            return told if stateless else {**told, "elicitationId": secrets.token_urlsafe(12)}
        fields = _NO_FIELDS if self._schema is None else _flat(self._schema.json_schema)
        return {"message": self._message, "requestedSchema": fields}

    def read(self, answer: Mapping[str, Any]) -> Elicited:
        action = answer.get("action")
        if action not in _ACTIONS:
            raise ValueError("The answer says neither accept, decline nor cancel.")
        if action != "accept" or self._url is not None:
            return Elicited(action)
        content = answer.get("content")
        return Elicited(action, content or {} if self._schema is None else self._schema.parse(content))


class Sample:
    """A request to the client's model."""

    capability = "sampling"
    method = "sampling/createMessage"

    def __init__(
        self,
        messages: str | Sequence[Message | str],
        *,
        max_tokens: int = 1024,
        system: str | None = None,
        **more: Any,
    ) -> None:
        listed = [messages] if isinstance(messages, str) else messages
        self._params: dict[str, Any] = {
            "messages": [message(each) if isinstance(each, str) else each for each in listed],
            "maxTokens": max_tokens,
            **({"systemPrompt": system} if system is not None else {}),
            **more,
        }

    def params(self, stateless: bool) -> dict[str, Any]:
        return self._params

    def read(self, answer: Mapping[str, Any]) -> Sampled:
        content = answer.get("content")
        blocks: list[Any] = content if isinstance(content, list) else [content]
        if not all(isinstance(block, dict) for block in blocks):
            raise ValueError("The answer has no content.")
        said = "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
        stop = answer.get("stopReason")
        return Sampled(said, content, str(answer.get("model", "")), stop if isinstance(stop, str) else None)


class Roots:
    """A request for the places the client works in."""

    capability = "roots"
    method = "roots/list"

    def params(self, stateless: bool) -> dict[str, Any]:
        return {}

    def read(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        roots = answer.get("roots")
        if not isinstance(roots, list) or not all(isinstance(root, dict) for root in roots):
            raise ValueError("The answer lists no roots.")
        return roots


Question = Elicit | Sample | Roots


class Client:
    """The client at the other end of a call."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @property
    def revision(self) -> str:
        """The revision of the protocol that it speaks."""
        return self._exchange.peer.revision.name

    @property
    def info(self) -> Mapping[str, Any]:
        """What it calls itself: of a session its name, title, version, description and site, 200 characters each.

        Nobody has verified it.
        """
        return self._exchange.peer.info

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it says that it can do: of a session the names of capabilities and of their modes."""
        return self._exchange.peer.capabilities

    def can(self, capability: str) -> bool:
        """Whether it can be asked: `elicitation`, `elicitation.url`, `sampling` or `roots`."""
        exchange = self._exchange
        return exchange.peer.can(capability) and (
            exchange.peer.revision.stateless or exchange.line is not None
        )

    async def elicit(
        self, message: str, schema: Any = None, *, url: str | None = None, key: str | None = None
    ) -> Elicited:
        """Ask the person; `schema` is a type with flat fields, or a JSON Schema of one."""
        answer: Elicited = await self._one(key, Elicit(message, schema, url=url))
        return answer

    async def sample(
        self,
        messages: str | Sequence[Message | str],
        *,
        max_tokens: int = 1024,
        system: str | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Sampled:
        """Ask the model; `more` is passed on in the protocol's words."""
        sample = Sample(messages, max_tokens=max_tokens, system=system, **more)
        answer: Sampled = await self._one(key, sample)
        return answer

    async def roots(self, *, key: str | None = None) -> list[dict[str, Any]]:
        """Ask for the client's roots."""
        answer: list[dict[str, Any]] = await self._one(key, Roots())
        return answer

    async def ask(self, **questions: Question) -> dict[str, Any]:
        """Ask several things at once; gives their answers by name.

        Raises:
            Failure: the client cannot be asked, or answers with what does not fit.
        """
        exchange = self._exchange
        for question in questions.values():
            if not self.can(question.capability):
                exchange.missing = question.capability
                raise Failure(
                    Kind.unsupported,
                    f"The MCP client has not declared the capability {question.capability!r}.",
                )
        if exchange.peer.revision.stateless:
            return self._answered(questions)
        answers = await asyncio.gather(*(self._sent(question) for question in questions.values()))
        return dict(zip(questions, answers, strict=True))

    async def _one(self, key: str | None, question: Question) -> Any:
        self._exchange.asked += 1
        name = key or f"{question.method.partition('/')[0]}_{self._exchange.asked}"
        return (await self.ask(**{name: question}))[name]

    async def _sent(self, question: Question) -> Any:
        exchange = self._exchange
        if exchange.line is None:
            raise Failure(Kind.unsupported, "The MCP client cannot be asked over this connection.")
        try:
            answer = await exchange.line.ask(question.method, question.params(False), exchange.sink)
        except RpcError as exc:
            raise Failure(Kind.upstream, "The MCP client refused to answer.", cause=exc) from exc
        try:
            return question.read(answer if isinstance(answer, dict) else {})
        except Invalid as exc:
            raise Failure(
                Kind.upstream, "The MCP client's answer does not fit what was asked.", issues=exc.issues
            ) from exc
        except ValueError as exc:
            raise Failure(Kind.upstream, f"The MCP client's answer cannot be used. {exc}") from exc

    def _answered(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """The answers that came with the request; where one is missing or does not fit, the call ends by asking."""
        exchange = self._exchange
        answers: dict[str, Any] = {}
        for key, question in questions.items():
            try:
                answers[key] = question.read(exchange.answers[key])
            except (KeyError, ValueError):
                exchange.want(key, question.method, question.params(True))
        if exchange.wanted:
            raise Failure(Kind.needs_confirmation, "The call waits for its MCP client to answer.")
        return answers


def client_of(ctx: Context) -> Client | None:
    """The MCP client that made this call; None where the call came another way."""
    metadata = ctx.metadata
    return Client(metadata.exchange) if isinstance(metadata, Metadata) else None


def _compiled(shape: Any) -> Schema:
    return _compiled_type(shape) if isinstance(shape, type) else schema_of(shape)


@lru_cache(256)
def _compiled_type(shape: type) -> Schema:
    """A type is asked for again and again, and is compiled once."""
    return schema_of(shape)


def _flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A type's JSON Schema in the few words that forms are made of."""
    told = {"properties": {name: _field(each) for name, each in schema.get("properties", {}).items()}}
    if schema.get("required"):
        told["required"] = schema["required"]
    return {"type": "object", **told}


def _field(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A field as clients take it: what may be null is left empty in a form, and text has one of a few formats."""
    told = dict(schema)
    for word in ("anyOf", "oneOf"):
        some = [each for each in told.get(word, ()) if each != {"type": "null"}]
        if len(some) == 1:
            del told[word]
            told = {**some[0], **told}
    kinds = told.get("type")
    if isinstance(kinds, list) and len(some := [each for each in kinds if each != "null"]) == 1:
        told["type"] = some[0]
    if told.get("default", ...) is None:
        del told["default"]
    if told.get("format") not in _FORMATS:
        told.pop("format", None)
    return told
