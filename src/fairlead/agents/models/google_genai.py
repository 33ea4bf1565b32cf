"""Google's Gemini, through the `google-genai` library."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.agents.models.faults import Desk, Unreadable, count, said_in, spoken
from fairlead.agents.models.keys import Key
from fairlead.agents.models.model import Delta, Embedded, Message, Reply, Request, Stop, ToolCall, Usage
from fairlead.agents.models.remote import Reader, RemoteModel
from fairlead.agents.models.retrying import Fault

_STOPS: Final[Mapping[str, Stop]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"),
        "filtered",
    ),
}
_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_BUDGETS: Final = {"off": 0, "low": 2_048, "medium": 8_192, "high": 24_576}


#: The responses that a stream has opened, in the order of the requests.
_OPENED: Final[ContextVar[list[Any] | None]] = ContextVar("fairlead_google_responses", default=None)


class _Link(NamedTuple):
    """The library's client, and the connections under it."""

    client: Any
    transport: Any

    @property
    def models(self) -> Any:
        return self.client.models

    async def close(self) -> None:
        await self.client.aclose()
        await self.transport.aclose()


class GoogleModel(RemoteModel):
    """A model of Google."""

    library = "google.genai"

    def _connect(self, key: Key, base_url: str | None) -> Any:
        from google import genai
        from google.genai import types

        transport = _transport(self.provider.timeout)
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        options = types.HttpOptions(
            base_url=base_url,
            timeout=int(self.provider.timeout * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=transport,
            # The library makes ready for sync calls and web sockets, too. Nobody uses them, so they trust nobody: it
            # would read the certificates of the world for each, which takes longer than all else here.
            client_args={"verify": nobody},
            async_client_args={"ssl": nobody},
        )
        # Not what the environment says: that is another program's wish.
        client = genai.Client(api_key=key.reveal() or "none", vertexai=False, http_options=options)
        return _Link(client.aio, transport)

    async def _close(self, client: Any) -> None:
        await client.close()

    async def _ask(self, client: Any, request: Request) -> Any:
        return await client.models.generate_content(**self._call(request))

    async def _events(self, client: Any, request: Request) -> AsyncGenerator[Any, None]:
        opened: list[Any] = []
        _OPENED.set(opened)
        events = await client.models.generate_content_stream(**self._call(request))
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
            # The library leaves a response open that is not read to its end.
            for response in opened:
                await response.aclose()

    def _call(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
        if system := "\n\n".join(each.content for each in request.messages if each.role == "system"):
            config["system_instruction"] = system
        if request.tools:
            declared = [
                {
                    "name": each.name,
                    "description": each.description,
                    "parameters_json_schema": dict(each.parameters),
                }
                for each in request.tools
            ]
            config["tools"] = [{"function_declarations": declared}]
            config["tool_config"] = {"function_calling_config": _choice(request.tool_choice)}
        if request.output is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = dict(request.output)
        if settings.reasoning is not None:
            config["thinking_config"] = self._thinking(settings.reasoning)
        if settings.stop:
            config["stop_sequences"] = list(settings.stop)
        named = {"temperature": "temperature", "max_tokens": "max_output_tokens", "seed": "seed"}
        for ours, theirs in named.items():
            if (value := getattr(settings, ours)) is not None:
                config[theirs] = value
        from google.genai import types

        return {
            "model": self.model,
            "contents": spoken(self._contents(request.messages)),
            "config": types.GenerateContentConfig(**config),
        }

    def _thinking(self, wished: str) -> dict[str, Any]:
        if self.model.startswith("gemini-2"):
            return {"thinking_budget": _BUDGETS[wished], "include_thoughts": wished != "off"}
        # Newer models think by levels, and cannot be kept from it altogether.
        level = "LOW" if wished == "off" else wished.upper()
        return {"thinking_level": level, "include_thoughts": wished != "off"}

    def _contents(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for message in messages:
            if message.role == "system":
                continue
            role = "model" if message.role == "assistant" else "user"
            parts = self._parts(message)
            if told and told[-1]["role"] == role:
                told[-1]["parts"] += parts
            elif parts:
                told.append({"role": role, "parts": parts})
        return told

    def _parts(self, message: Message) -> list[dict[str, Any]]:
        images = [
            {"inline_data": {"data": image.data, "mime_type": image.mime_type}} for image in message.images
        ]
        if message.role == "tool":
            answered = {
                "id": message.call_id,
                "name": message.name or "tool",
                "response": {"result": message.content},
            }
            return [{"function_response": answered}, *images]
        kept = (message.kept or {}).get(self.provider.name) or {}
        parts: list[dict[str, Any]] = [{"text": message.content}] if message.content else []
        if parts and (signature := _bytes(kept.get("text"))):
            parts[0]["thought_signature"] = signature
        signatures = kept.get("calls") or []
        for at, call in enumerate(message.calls):
            part: dict[str, Any] = {"function_call": {"name": call.name, "args": _arguments(call.arguments)}}
            if call.id:
                part["function_call"]["id"] = call.id
            if at < len(signatures) and (signature := _bytes(signatures[at])):
                part["thought_signature"] = signature
            parts.append(part)
        return [*parts, *images]

    def _read(self, body: Any, request: Request) -> Reply:
        reader = GenerateReader(self.provider.name)
        reader.feed(body)
        return reader.whole()

    def _reader(self, request: Request) -> Reader:
        return GenerateReader(self.provider.name)

    def _fault(self, desk: Desk, exc: Exception) -> Fault | None:
        from google.genai import errors
        from pydantic import ValidationError

        if isinstance(exc, errors.APIError):
            headers = getattr(exc.response, "headers", None)
            code: Any = exc.code
            if not isinstance(code, int) or code < 400:
                return desk.unreadable("an error without a status")
            said = said_in(exc.details) or str(exc.message or "")
            if code == 400 and "api key" in said.lower():
                code = 401
            return desk.status(code, said, headers if isinstance(headers, Mapping) else None)
        if isinstance(exc, ValidationError):
            return desk.unreadable(f"{exc.error_count()} of its fields are missing or of the wrong kind")
        if isinstance(exc, errors.UnknownApiResponseError | ValueError):
            return desk.unreadable(f"reading it failed with {type(exc).__name__}")
        return None

    async def _embed(self, client: Any, texts: list[str]) -> Embedded:
        made = await client.models.embed_content(model=self.model, contents=texts)
        rows = [list(each.values or ()) for each in made.embeddings or ()]
        return Embedded([[float(number) for number in row] for row in rows], self.model)

    async def _names(self, client: Any) -> list[str]:
        pager = await client.models.list()
        return [str(each.name).removeprefix("models/") async for each in pager if each.name]


class GenerateReader:
    """Reads an answer, whole or in pieces: the pieces have the shape of the whole."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._model = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._signatures: list[str] = []
        self._text_signature = ""
        self._finish: str | None = None
        self._blocked = False
        self._usage = Usage()

    def feed(self, event: Any) -> Delta | None:
        self._about(event)
        feedback = getattr(event.prompt_feedback, "block_reason", None)
        if feedback is not None:
            self._blocked = True
        if not event.candidates:
            return None
        candidate = event.candidates[0]
        before = len(self._text), len(self._reasoning)
        for part in (candidate.content.parts if candidate.content else None) or ():
            self._part(part)
        if candidate.finish_reason is not None:
            self._finish = str(getattr(candidate.finish_reason, "value", candidate.finish_reason))
        said, thought = "".join(self._text[before[0] :]), "".join(self._reasoning[before[1] :])
        return Delta(said, thought) if said or thought else None

    def whole(self) -> Reply:
        if self._blocked and self._finish is None:
            return Reply("", (), "filtered", self._usage, None, self._model)
        if self._finish is None:
            raise Unreadable("it ended before its end, without a reason for stopping")
        stop = _STOPS.get(self._finish)
        if stop is None:
            raise Unreadable(f"it stopped for an unknown reason, {self._finish[:60]!r}")
        if self._calls and stop == "stop":
            stop = "tool_calls"
        reasoning = "".join(self._reasoning) or None
        return Reply(
            "".join(self._text), tuple(self._calls), stop, self._usage, reasoning, self._model, self._kept()
        )

    def _part(self, part: Any) -> None:
        signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else ""
        if part.function_call is not None:
            called = part.function_call
            if not called.name:
                raise Unreadable("a function_call has no name")
            self._calls.append(ToolCall(called.name, _json.dumps(called.args or {}), called.id or ""))
            self._signatures.append(signature)
        elif part.text and part.thought:
            self._reasoning.append(part.text)
        else:
            if part.text:
                self._text.append(part.text)
            # The last piece of a text may hold nothing but its signature.
            self._text_signature = signature or self._text_signature

    def _about(self, event: Any) -> None:
        if event.model_version:
            self._model = event.model_version
        usage = event.usage_metadata
        if usage is None:
            return
        self._usage = Usage(
            input=count(usage.prompt_token_count) + count(usage.tool_use_prompt_token_count),
            output=count(usage.candidates_token_count) + count(usage.thoughts_token_count),
            cache_read=count(usage.cached_content_token_count),
        )

    def _kept(self) -> Mapping[str, Any] | None:
        kept: dict[str, Any] = {}
        if any(self._signatures):
            kept["calls"] = self._signatures
        if self._text_signature:
            kept["text"] = self._text_signature
        return {self._provider: kept} if kept else None


def _transport(timeout: float) -> Any:
    """Connections that tell which responses they opened. The library uses httpx2, and httpx before."""
    name = next(name for name in ("httpx2", "httpx") if find_spec(name) is not None)

    async def note(response: Any) -> None:
        opened = _OPENED.get()
        if opened is not None:
            opened.append(response)

    return import_module(name).AsyncClient(
        timeout=timeout, follow_redirects=False, event_hooks={"response": [note]}
    )


def _choice(choice: str) -> dict[str, Any]:
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowed_function_names": [choice]}


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = _json.loads(text) if text.strip() else {}
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"arguments": value}


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text) if isinstance(text, str) else b""
    except binascii.Error:
        return b""
