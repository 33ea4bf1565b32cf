"""Anthropic's messages, through the `anthropic` library. Bodies are plain data, as in `openai_chat.py`."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models.faults import (
    Desk,
    Unreadable,
    count,
    items,
    maybe_text,
    members,
    said_in,
    spoken,
    text,
)
from fairlead.agents.models.forms import anthropic_form, told
from fairlead.agents.models.keys import Key
from fairlead.agents.models.model import (
    Delta,
    Image,
    Message,
    Reply,
    Request,
    Stop,
    ToolCall,
    ToolSpec,
    Usage,
)
from fairlead.agents.models.openai_chat import library_fault
from fairlead.agents.models.remote import CONNECT, Reader, RemoteModel
from fairlead.agents.models.retrying import Fault

_STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
#: Tokens to think with.
_BUDGETS: Final = {"low": 2_048, "medium": 8_192, "high": 24_576}
#: The protocol wants a limit, and this is within what every model of today can write.
_LIMIT: Final = 8_192
#: Models that are told how many tokens to think with; later ones decide that themselves.
_MANUAL: Final = re.compile(r"claude-3|claude-(opus|sonnet|haiku)-4(-[0-5])?(-\d{8}|$|-latest)")
_THOUGHTS: Final = ("thinking", "redacted_thinking")


class AnthropicModel(RemoteModel):
    """A model of Anthropic, or behind an endpoint that speaks its protocol."""

    library = "anthropic"

    def _connect(self, key: Key, base_url: str | None) -> Any:
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key=key.reveal() or "none",
            base_url=base_url or "https://api.anthropic.com",
            max_retries=0,
            timeout=anthropic.Timeout(self.provider.timeout, connect=CONNECT),
            default_headers=self._unsaid("ANTHROPIC_CUSTOM_HEADERS", anthropic.Omit()),
        )

    async def _ask(self, client: Any, request: Request) -> Any:
        return await client.post("/v1/messages", cast_to=object, body=self._body(request))

    async def _events(self, client: Any, request: Request) -> AsyncGenerator[Any, None]:
        import anthropic

        events = await client.post(
            "/v1/messages",
            cast_to=object,
            body={**self._body(request), "stream": True},
            stream=True,
            stream_cls=anthropic.AsyncStream[object],
        )
        try:
            async for event in events:
                yield event
        finally:
            await events.close()

    def _body(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        form = None if request.output is None else anthropic_form(request.output)
        if form is None:
            request = told(request)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": settings.max_tokens or _LIMIT,
            "messages": spoken(self._messages(request.messages)),
        }
        if system := "\n\n".join(each.content for each in request.messages if each.role == "system"):
            body["system"] = system
        if tools := request.tools or _called(request.messages):
            body["tools"] = [
                {
                    "name": each.name,
                    "description": each.description,
                    "input_schema": {"type": "object", **each.parameters},
                }
                for each in tools
            ]
            body["tool_choice"] = _choice(request.tool_choice if request.tools else "none")
        if form is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": form}}
        if settings.stop:
            body["stop_sequences"] = list(settings.stop)
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        self._think(body, request)
        return body

    def _think(self, body: dict[str, Any], request: Request) -> None:
        """Room for thoughts comes on top of the limit. Who must call a tool may not think before."""
        wished = request.settings.reasoning
        if wished is None or wished == "off" or request.tool_choice not in ("auto", "none"):
            return
        body["max_tokens"] += _BUDGETS[wished]
        body.pop("temperature", None)
        if _MANUAL.search(self.model):
            body["thinking"] = {"type": "enabled", "budget_tokens": _BUDGETS[wished]}
            return
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        body["output_config"] = {**body.get("output_config", {}), "effort": wished}

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Turns of the same side are one: the protocol wants all results of a batch of calls together."""
        turns: list[dict[str, Any]] = []
        for message in messages:
            if message.role == "system":
                continue
            role = "assistant" if message.role == "assistant" else "user"
            blocks = self._blocks(message)
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks})
        return turns

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = (
            [{"type": "text", "text": message.content}] if message.content.strip() else []
        )
        images = [_image(image) for image in message.images]
        if message.role == "tool":
            content = [*said, *images] if images else message.content
            failed = message.content.startswith('{"ok":false')
            return [
                {
                    "type": "tool_result",
                    "tool_use_id": message.call_id or "call_0",
                    "content": content,
                    **({"is_error": True} if failed else {}),
                }
            ]
        if message.role == "user":
            return [*images, *said]
        kept = (message.kept or {}).get(self.provider.name) or {}
        calls = [
            {
                "type": "tool_use",
                "id": call.id or f"call_{at}",
                "name": call.name,
                "input": _input(call.arguments),
            }
            for at, call in enumerate(message.calls)
        ]
        return [*(kept.get("thoughts") or ()), *said, *calls]

    def _read(self, body: Any, request: Request) -> Reply:
        reader = MessagesReader(self.provider.name)
        reader.message(members(body, "the answer"))
        return reader.whole()

    def _reader(self, request: Request) -> Reader:
        return MessagesReader(self.provider.name)

    def _fault(self, desk: Desk, exc: Exception) -> Fault | None:
        import anthropic

        if isinstance(exc, anthropic.APIStatusError) and exc.status_code < 400:
            # An error that came as an event has the status of the stream.
            return desk.unreadable(f"an error in the stream: {said_in(exc.body)}")
        return library_fault(desk, exc, anthropic)

    async def _names(self, client: Any) -> list[str]:
        body = members(await client.get("/v1/models?limit=1000", cast_to=object), "the answer")
        return [
            text(members(row, "data[]").get("id"), "data[].id") for row in items(body.get("data"), "data")
        ]


class MessagesReader:
    """Reads an answer, whole or in pieces."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._model = ""
        #: Blocks by their place; those of a stream grow.
        self._blocks: dict[int, dict[str, Any]] = {}
        self._stop: str | None = None
        self._ended = False
        self._usage: dict[str, Any] = {}

    def message(self, body: Mapping[str, Any]) -> None:
        """Take a whole answer."""
        if body.get("content") is None:
            raise Unreadable("content is nothing, expected a list")
        for at, block in enumerate(items(body.get("content"), "content")):
            self._begin(at, members(block, "content[]"))
        self._about(body)
        self._finish(body.get("stop_reason"))
        self._ended = True

    def feed(self, event: Any) -> Delta | None:
        body = members(event, "an event")
        kind = text(body.get("type"), "an event's type")
        if kind == "content_block_delta":
            return self._piece(body)
        if kind == "content_block_start":
            block = members(body.get("content_block"), "content_block")
            return self._begin(_index(body), block)
        if kind == "message_start":
            self._about(members(body.get("message"), "message"))
        elif kind == "message_delta":
            self._finish(members(body.get("delta"), "delta").get("stop_reason"))
            self._about(body)
        elif kind == "message_stop":
            self._ended = True
        elif kind == "error":
            raise Unreadable(f"an error in the stream: {said_in(body)}")
        # Others, such as ping, hold nothing for us; new ones may come.
        return None

    def whole(self) -> Reply:
        if self._stop is None or not self._ended:
            raise Unreadable("it ended before its end, without a reason for stopping")
        stop = _STOPS.get(self._stop)
        if stop is None:
            raise Unreadable(f"it stopped for an unknown reason, {self._stop!r}")
        blocks = [self._blocks[at] for at in sorted(self._blocks)]
        calls = tuple(_call(block) for block in blocks if block["type"] == "tool_use")
        if stop == "tool_calls" and not calls:
            raise Unreadable("it stopped for tool calls, and there are none")
        said = "".join(block["text"] for block in blocks if block["type"] == "text")
        thought = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
        thoughts = [_thought(block) for block in blocks if block["type"] in _THOUGHTS]
        kept = {self._provider: {"thoughts": thoughts}} if thoughts else None
        return Reply(said, calls, stop, self._counted(), thought or None, self._model, kept)

    def _begin(self, at: int, block: Mapping[str, Any]) -> Delta | None:
        kind = text(block.get("type"), "content[].type")
        new: dict[str, Any] = {"type": kind}
        self._blocks[at] = new
        if kind == "text":
            new["text"] = maybe_text(block.get("text"), "content[].text")
            return Delta(new["text"]) if new["text"] else None
        if kind == "thinking":
            new["thinking"] = maybe_text(block.get("thinking"), "content[].thinking")
            new["signature"] = maybe_text(block.get("signature"), "content[].signature")
        elif kind == "redacted_thinking":
            new["data"] = text(block.get("data"), "content[].data")
        elif kind == "tool_use":
            new["id"] = text(block.get("id"), "content[].id")
            new["name"] = text(block.get("name"), "content[].name")
            new["input"] = members(block.get("input") or {}, "content[].input")
            new["json"] = []
        return None

    def _piece(self, body: Mapping[str, Any]) -> Delta | None:
        block = self._blocks.get(_index(body))
        delta = members(body.get("delta"), "delta")
        if block is None:
            raise Unreadable("a piece came for a block that was not begun")
        kind = text(delta.get("type"), "delta.type")
        if kind == "text_delta" and block["type"] == "text":
            piece = text(delta.get("text"), "delta.text")
            block["text"] += piece
            return Delta(piece)
        if kind == "thinking_delta" and block["type"] == "thinking":
            piece = text(delta.get("thinking"), "delta.thinking")
            block["thinking"] += piece
            return Delta(reasoning=piece)
        if kind == "signature_delta" and block["type"] == "thinking":
            block["signature"] += text(delta.get("signature"), "delta.signature")
        if kind == "input_json_delta" and block["type"] == "tool_use":
            block["json"].append(text(delta.get("partial_json"), "delta.partial_json"))
        return None

    def _about(self, body: Mapping[str, Any]) -> None:
        if isinstance(body.get("model"), str):
            self._model = body["model"]
        usage = body.get("usage")
        if isinstance(usage, dict):
            # Later events repeat some of the numbers, and count on.
            self._usage.update({name: value for name, value in usage.items() if value is not None})

    def _finish(self, reason: Any) -> None:
        if reason is not None:
            self._stop = text(reason, "stop_reason")

    def _counted(self) -> Usage:
        read = count(self._usage.get("cache_read_input_tokens"))
        written = count(self._usage.get("cache_creation_input_tokens"))
        # Here what was read from the cache is not among the input.
        fresh = count(self._usage.get("input_tokens"))
        return Usage(fresh + read + written, count(self._usage.get("output_tokens")), read, written)


def _index(body: Mapping[str, Any]) -> int:
    index = body.get("index")
    if not isinstance(index, int):
        raise Unreadable("an event's index is no number")
    return index


def _call(block: Mapping[str, Any]) -> ToolCall:
    if not block["name"]:
        raise Unreadable("a tool_use has no name")
    streamed = "".join(block["json"])
    return ToolCall(block["name"], streamed or _json.dumps(block["input"]), block["id"])


def _thought(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: block[name] for name in ("type", "thinking", "signature", "data") if name in block}


def _called(messages: Sequence[Message]) -> list[ToolSpec]:
    """The tools that were called before: a conversation with calls is refused where it is sent without any tools."""
    names = dict.fromkeys(call.name for message in messages for call in message.calls)
    return [ToolSpec(name, "It can no longer be called.", {}) for name in names]


def _choice(choice: str) -> dict[str, Any]:
    return {"type": _CHOICES[choice]} if choice in _CHOICES else {"type": "tool", "name": choice}


def _image(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.mime_type, "data": data}}


def _input(arguments: str) -> dict[str, Any]:
    """What the model wrote, as the object that the protocol wants back; what was no object goes in as a text."""
    try:
        value = _json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}
