"""OpenAI's chat completions, which many services and all local servers speak, through the `openai` library.

Bodies are sent and read as plain data: the library's classes for them take ten times as long for each piece of a
stream, and take whatever comes for an answer.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models.faults import Desk, Unreadable, count, items, maybe_text, members, said_in, text
from fairlead.agents.models.forms import is_object, is_strict, told
from fairlead.agents.models.keys import Key
from fairlead.agents.models.model import (
    Delta,
    Embedded,
    Image,
    Message,
    Reply,
    Request,
    Stop,
    ToolCall,
    Usage,
)
from fairlead.agents.models.remote import CONNECT, Reader, RemoteModel
from fairlead.agents.models.retrying import Fault

_STOPS: Final[Mapping[str, Stop]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}
#: Who takes the newer name of the limit of tokens, and refuses the older one; and outputs that are no objects.
_NEWER: Final = ("openai", "azure")


class OpenAIModel(RemoteModel):
    """A model behind an endpoint that speaks OpenAI's protocol."""

    library = "openai"

    def _connect(self, key: Key, base_url: str | None) -> Any:
        import openai

        limits = openai.Timeout(self.provider.timeout, connect=CONNECT)
        options: dict[str, Any] = {
            "max_retries": 0,
            "timeout": limits,
            "default_headers": self._unsaid("OPENAI_CUSTOM_HEADERS", openai.Omit()),
        }
        client: Any
        if self.provider.api_version is not None and base_url is not None:
            client = openai.AsyncAzureOpenAI(
                api_key=key.reveal(),
                azure_endpoint=base_url.removesuffix(self.provider.suffix),
                api_version=self.provider.api_version,
                **options,
            )
        else:
            # Without a key of its own the library would look for one in the environment, which is another provider's.
            client = openai.AsyncOpenAI(
                api_key=key.reveal() or "none", base_url=base_url or "https://api.openai.com/v1", **options
            )
        if not self._at_home:
            client.organization = client.project = None
        return client

    async def _ask(self, client: Any, request: Request) -> Any:
        return await client.post("/chat/completions", cast_to=object, body=self._body(request))

    async def _events(self, client: Any, request: Request) -> AsyncGenerator[Any, None]:
        import openai

        body = {**self._body(request), "stream": True, "stream_options": {"include_usage": True}}
        events = await client.post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
        )
        try:
            async for event in events:
                yield event
        finally:
            await events.close()

    def _body(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        if request.output is not None and self.provider.name in _NEWER and not is_object(request.output):
            request = told(request)
        body: dict[str, Any] = {"model": self.model, "messages": list(self._messages(request))}
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": each.name,
                        "description": each.description,
                        "parameters": dict(each.parameters),
                    },
                }
                for each in request.tools
            ]
            body["tool_choice"] = _choice(request.tool_choice)
        if request.output is not None:
            shape = {"name": "output", "schema": dict(request.output), "strict": is_strict(request.output)}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        if settings.max_tokens is not None:
            limit = "max_completion_tokens" if self.provider.name in _NEWER else "max_tokens"
            body[limit] = settings.max_tokens
        if settings.reasoning is not None:
            body["reasoning_effort"] = "none" if settings.reasoning == "off" else settings.reasoning
        if settings.stop:
            body["stop"] = list(settings.stop)
        for name in ("temperature", "seed"):
            if (value := getattr(settings, name)) is not None:
                body[name] = value
        return body

    def _messages(self, request: Request) -> Iterator[dict[str, Any]]:
        # A tool's turn holds text only, and nothing may stand between the results of one turn.
        pictures: tuple[Image, ...] = ()
        for message in (*request.messages, None):
            if pictures and (message is None or message.role != "tool"):
                yield {"role": "user", "content": _parts(Message("user", images=pictures))}
                pictures = ()
            if message is None:
                return
            if message.role == "assistant":
                yield self._assistant(message)
            elif message.role == "tool":
                yield {
                    "role": "tool",
                    "tool_call_id": message.call_id or "call_0",
                    "content": message.content,
                }
                pictures += message.images
            else:
                content = _parts(message) if message.images else message.content
                yield {"role": message.role, "content": content}

    def _assistant(self, message: Message) -> dict[str, Any]:
        kept = (message.kept or {}).get(self.provider.name) or {}
        # By place: ids that a server leaves out, or gives twice, are given anew.
        extras = kept.get("extra_content") or ()
        if isinstance(extras, dict):  # as conversations of earlier versions have it
            extras = [extras.get(call.id) for call in message.calls]
        turn: dict[str, Any] = {"role": "assistant", "content": message.content or None}
        if not message.calls:
            turn["content"] = message.content
        else:
            turn["tool_calls"] = [
                {
                    "id": call.id or f"call_{at}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments or "{}"},
                    **({"extra_content": extras[at]} if at < len(extras) and extras[at] else {}),
                }
                for at, call in enumerate(message.calls)
            ]
        if "reasoning_details" in kept:
            turn["reasoning_details"] = kept["reasoning_details"]
        return turn

    def _read(self, body: Any, request: Request) -> Reply:
        reader = ChatReader(self.provider.name)
        reader.message(members(body, "the answer"))
        return reader.whole()

    def _reader(self, request: Request) -> Reader:
        return ChatReader(self.provider.name)

    def _fault(self, desk: Desk, exc: Exception) -> Fault | None:
        import openai

        return library_fault(desk, exc, openai)

    async def _embed(self, client: Any, texts: list[str]) -> Embedded:
        asked = {"model": self.model, "input": texts, "encoding_format": "float"}
        body = members(await client.post("/embeddings", cast_to=object, body=asked), "the answer")
        rows = [members(row, "data[]") for row in items(body.get("data"), "data")]
        vectors = [vector(row.get("embedding"), "data[].embedding") for row in sorted(rows, key=_place)]
        usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
        return Embedded(vectors, self.model, Usage(input=count((usage or {}).get("prompt_tokens"))))

    async def _names(self, client: Any) -> list[str]:
        body = members(await client.get("/models", cast_to=object), "the answer")
        return [
            text(members(row, "data[]").get("id"), "data[].id") for row in items(body.get("data"), "data")
        ]


class ChatReader:
    """Reads an answer, whole or in pieces."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._model = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        #: Calls by their places; servers that give several the same place have each whole, and by its id.
        self._calls: dict[int, list[dict[str, Any]]] = {}
        self._details: list[Any] = []
        self._finish: str | None = None
        self._refused = False
        self._usage = Usage()

    def message(self, body: Mapping[str, Any]) -> None:
        """Take a whole answer."""
        choices = items(body.get("choices"), "choices")
        if not choices:
            raise Unreadable("choices is empty")
        choice = members(choices[0], "choices[0]")
        self._take(members(choice.get("message"), "choices[0].message"), choice, body)

    def feed(self, event: Any) -> Delta | None:
        body = members(event, "an event")
        choices = items(body.get("choices"), "choices")
        if not choices:
            self._about(body)
            return None
        choice = members(choices[0], "choices[0]")
        before = len(self._text), len(self._reasoning)
        self._take(members(choice.get("delta") or {}, "choices[0].delta"), choice, body)
        said, thought = "".join(self._text[before[0] :]), "".join(self._reasoning[before[1] :])
        return Delta(said, thought) if said or thought else None

    def whole(self) -> Reply:
        if self._finish is None:
            raise Unreadable("it ended before its end, without a reason for stopping")
        stop = _STOPS.get(self._finish)
        if stop is None:
            raise Unreadable(f"it stopped for an unknown reason, {self._finish!r}")
        calls = tuple(_call(at, call) for at, call in enumerate(self._called()))
        if calls and stop == "stop":
            # Some servers say so although there are calls.
            stop = "tool_calls"
        if stop == "tool_calls" and not calls:
            raise Unreadable("it stopped for tool calls, and there are none")
        if self._refused:
            stop = "filtered"
        reasoning = "".join(self._reasoning) or None
        return Reply("".join(self._text), calls, stop, self._usage, reasoning, self._model, self._kept())

    def _take(self, part: Mapping[str, Any], choice: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        self._text.append(_content(part.get("content")))
        if refusal := maybe_text(part.get("refusal"), "refusal"):
            self._refused = True
            self._text.append(refusal)
        thought = part.get("reasoning_content") or part.get("reasoning")
        if isinstance(thought, str):
            self._reasoning.append(thought)
        self._details += items(part.get("reasoning_details"), "reasoning_details")
        for at, piece in enumerate(items(part.get("tool_calls"), "tool_calls")):
            self._piece(at, members(piece, "tool_calls[]"))
        finish = choice.get("finish_reason")
        if finish is not None:
            self._finish = text(finish, "finish_reason")
        self._about(body)

    def _about(self, body: Mapping[str, Any]) -> None:
        if isinstance(body.get("model"), str):
            self._model = body["model"]
        usage = body.get("usage")
        if isinstance(usage, dict):
            self._usage = _usage(usage)

    def _piece(self, at: int, piece: Mapping[str, Any]) -> None:
        place = piece.get("index")
        place = at if place is None else place
        if not isinstance(place, int):
            raise Unreadable("tool_calls[].index is no number")
        function = members(piece.get("function") or {}, "tool_calls[].function")
        id = maybe_text(piece.get("id"), "tool_calls[].id")
        name = maybe_text(function.get("name"), "tool_calls[].function.name")
        here = self._calls.setdefault(place, [])
        if not here or (name and id and here[-1]["id"] not in ("", id)):
            here.append({"id": "", "name": "", "arguments": [], "extra": None})
        call = here[-1]
        call["id"] = id or call["id"]
        call["extra"] = piece.get("extra_content") or call["extra"]
        # Some servers say the name with every piece.
        call["name"] += "" if name == call["name"] else name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = _json.dumps(arguments)
        call["arguments"].append(maybe_text(arguments, "tool_calls[].function.arguments"))

    def _called(self) -> list[dict[str, Any]]:
        return [call for at in sorted(self._calls) for call in self._calls[at]]

    def _kept(self) -> Mapping[str, Any] | None:
        extras = [call["extra"] for call in self._called()]
        kept: dict[str, Any] = {}
        if self._details:
            kept["reasoning_details"] = self._details
        if any(extras):
            kept["extra_content"] = extras
        return {self._provider: kept} if kept else None


def _call(at: int, call: Mapping[str, Any]) -> ToolCall:
    if not call["name"]:
        raise Unreadable(f"tool_calls[{at}] has no name")
    return ToolCall(call["name"], "".join(call["arguments"]), call["id"])


def library_fault(desk: Desk, exc: Exception, library: Any) -> Fault | None:
    """What the exceptions mean that the libraries of OpenAI and Anthropic share."""
    if isinstance(exc, library.APIStatusError):
        if exc.status_code < 400:
            # The library follows redirects; one that it cannot follow is no answer.
            return desk.unreadable(f"status {exc.status_code}")
        return desk.status(exc.status_code, said_in(exc.body), exc.response.headers)
    if isinstance(exc, library.APITimeoutError):
        return desk.late()
    if isinstance(exc, library.APIConnectionError):
        return desk.lost(exc)
    if isinstance(exc, library.APIError):
        # An error in the middle of a stream, told as an event.
        said = said_in(getattr(exc, "body", None)) or str(exc)
        return desk.unreadable(f"an error in the stream: {said}")
    return None


def vector(value: Any, where: str) -> list[float]:
    """Numbers of a text."""
    numbers = items(value, where)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        raise Unreadable(f"{where} holds what is no number")
    return [float(each) for each in numbers]


def _place(row: Mapping[str, Any]) -> int:
    index = row.get("index", 0)
    return index if isinstance(index, int) else 0


def _content(content: Any) -> str:
    """A text, or the texts of a list of parts."""
    if not isinstance(content, list):
        return maybe_text(content, "content")
    parts = [members(part, "content[]") for part in content]
    return "".join(maybe_text(part.get("text"), "content[].text") for part in parts)


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    return Usage(
        input=count(usage.get("prompt_tokens")),
        output=count(usage.get("completion_tokens")),
        cache_read=count(details.get("cached_tokens")),
        cache_write=count(details.get("cache_write_tokens")),
    )


def _parts(message: Message) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    for image in message.images:
        data = base64.b64encode(image.data).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{data}"}})
    return parts


def _choice(choice: str) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}
