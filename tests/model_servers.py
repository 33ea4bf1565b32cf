"""Small HTTP servers that speak the protocols of model providers, and break them as providers do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """What is sent: a status and a body. A body that is no bytes is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Streamed:
    """Server-sent events, each as it is written; an asyncio.Event among them is waited for."""

    pieces: Sequence[Any]
    #: Whether the connection breaks where the end should be.
    cut: bool = False


class HangUp:
    """The connection breaks before anything is sent."""


class Silence:
    """Nothing is sent at all."""


class ModelServer:
    """Sends one answer for each request; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        #: Set when the first request has come.
        self.came = asyncio.Event()
        #: Set when a client has left before the end.
        self.left = asyncio.Event()
        self.url = ""

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[ModelServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append(Asked(head[0].split()[1], headers, json.loads(content) if content else None))
        self.came.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, HangUp):
            return
        if isinstance(answer, Silence):
            await self._leaving(reader)
        elif isinstance(answer, Streamed):
            await self._stream(answer, reader, writer)
        else:
            await self._whole(answer, writer)

    async def _whole(self, answer: Answer, writer: asyncio.StreamWriter) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        told = {"content-type": "application/json", "connection": "close", **answer.headers}
        told["content-length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"HTTP/1.1 {answer.status} Said\r\n{lines}\r\n".encode() + body)
        await writer.drain()

    async def _stream(
        self, answer: Streamed, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        leaving = asyncio.create_task(self._leaving(reader))
        try:
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            for piece in answer.pieces:
                if isinstance(piece, asyncio.Event):
                    waiting = asyncio.create_task(piece.wait())
                    await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
                    if leaving.done():
                        return
                    continue
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            if not answer.cut:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        finally:
            leaving.cancel()

    async def _leaving(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        self.left.set()


def event(data: Any, name: str | None = None) -> bytes:
    """A server-sent event."""
    written = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {written}\n\n".encode()


@dataclass(frozen=True)
class Said:
    """An answer, before it is put into a provider's words."""

    text: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    reasoning: str = ""
    stop: str = "stop"
    signature: str = ""


class OpenAISpeech:
    """How OpenAI and its likes say things."""

    kind = "openai"
    stops: ClassVar = {
        "stop": "stop",
        "tool_calls": "tool_calls",
        "length": "length",
        "filtered": "content_filter",
    }
    usage: ClassVar[dict[str, Any]] = {
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    counted = (20, 5, 8, 0)

    def whole(self, said: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.reasoning:
            message["reasoning_content"] = said.reasoning
        if said.signature:
            message["reasoning_details"] = [{"type": "x", "signature": said.signature}]
        if said.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                for id, name, given in said.calls
            ]
        finish = self.stops.get(said.stop, said.stop)
        return {
            "id": "1",
            "model": "m-1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": self.usage,
        }

    def pieces(self, said: Said) -> list[bytes]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if said.reasoning:
            deltas.append({"reasoning_content": said.reasoning})
        if said.signature:
            deltas.append({"reasoning_details": [{"type": "x", "signature": said.signature}]})
        deltas += [{"content": part} for part in _halves(said.text)]
        for at, (id, name, given) in enumerate(said.calls):
            deltas.append(
                {"tool_calls": [{"index": at, "id": id, "function": {"name": name, "arguments": ""}}]}
            )
            deltas += [
                {"tool_calls": [{"index": at, "function": {"arguments": part}}]}
                for part in _halves(json.dumps(given))
            ]
        told: list[dict[str, Any]] = [
            {"model": "m-1", "choices": [{"index": 0, "delta": delta}]} for delta in deltas
        ]
        finish = self.stops.get(said.stop, said.stop)
        told.append({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        told.append({"model": "m-1", "choices": [], "usage": self.usage})
        return [*(event(each) for each in told), event("[DONE]")]

    def error(self, words: str) -> Any:
        return {"error": {"message": words, "type": "an_error", "code": None}}

    broken: tuple[Any, ...] = (
        {},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"message": {}}]},
        {"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": "x"}, "finish_reason": "tool_calls"}]},
        {"choices": [{"message": {"tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"}]},
        {"choices": "x"},
        [],
        "text",
        None,
    )


class AnthropicSpeech:
    """How Anthropic says things."""

    kind = "anthropic"
    stops: ClassVar = {
        "stop": "end_turn",
        "tool_calls": "tool_use",
        "length": "max_tokens",
        "filtered": "refusal",
    }
    usage: ClassVar[dict[str, Any]] = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 8,
        "cache_creation_input_tokens": 2,
    }
    counted = (20, 5, 8, 2)

    def whole(self, said: Said) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if said.reasoning:
            content.append({"type": "thinking", "thinking": said.reasoning, "signature": said.signature})
        if said.text:
            content.append({"type": "text", "text": said.text})
        content += [
            {"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in said.calls
        ]
        return {
            "type": "message",
            "model": "m-1",
            "content": content,
            "stop_reason": self.stops.get(said.stop, said.stop),
            "usage": self.usage,
        }

    def pieces(self, said: Said) -> list[bytes]:
        whole = self.whole(said)
        told: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
            {"type": "ping"},
        ]
        for at, block in enumerate(whole["content"]):
            told += self._block(at, block)
        told.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": whole["stop_reason"]},
                "usage": {"output_tokens": 5},
            }
        )
        told.append({"type": "message_stop"})
        return [event(each, each["type"]) for each in told]

    def _block(self, at: int, block: dict[str, Any]) -> list[dict[str, Any]]:
        empty: dict[str, dict[str, Any]] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        deltas: list[dict[str, Any]]
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": part} for part in _halves(block["text"])]
        elif block["type"] == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            parts = _halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        begin = {
            "type": "content_block_start",
            "index": at,
            "content_block": {**block, **empty[block["type"]]},
        }
        between = [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        return [begin, *between, {"type": "content_block_stop", "index": at}]

    def error(self, words: str) -> Any:
        return {"type": "error", "error": {"type": "an_error", "message": words}}

    broken: tuple[Any, ...] = (
        {},
        {"content": None, "stop_reason": "end_turn"},
        {"content": [{"type": "text", "text": "x"}]},
        {"content": [{"type": "text", "text": 5}], "stop_reason": "end_turn"},
        {"content": [{"type": "tool_use", "name": "x"}], "stop_reason": "tool_use"},
        {"content": [], "stop_reason": "tool_use"},
        {"content": "x", "stop_reason": "end_turn"},
        [],
        "text",
        None,
    )


class GoogleSpeech:
    """How Google says things."""

    kind = "google"
    stops: ClassVar = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "filtered": "SAFETY"}
    usage: ClassVar[dict[str, Any]] = {
        "promptTokenCount": 20,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "cachedContentTokenCount": 8,
    }
    counted = (20, 5, 8, 0)

    def whole(self, said: Said) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        if said.reasoning:
            parts.append({"text": said.reasoning, "thought": True})
        if said.text:
            parts.append({"text": said.text})
        for id, name, given in said.calls:
            parts.append({"functionCall": {"id": id, "name": name, "args": given}})
        if said.signature and parts:
            parts[-1]["thoughtSignature"] = said.signature
        return self._body(parts, self.stops.get(said.stop, said.stop))

    def pieces(self, said: Said) -> list[bytes]:
        whole = self.whole(said)["candidates"][0]
        told = []
        for part in whole["content"]["parts"]:
            if "text" in part and not part.get("thought"):
                told += [self._body([{**part, "text": half}]) for half in _halves(part["text"])]
            else:
                told.append(self._body([part]))
        told.append(self._body([], whole["finishReason"]))
        return [event(each) for each in told]

    def _body(self, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
        if finish is not None:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "usageMetadata": self.usage, "modelVersion": "m-1"}

    def error(self, words: str) -> Any:
        return {"error": {"code": 400, "message": words, "status": "AN_ERROR"}}

    broken: tuple[Any, ...] = (
        {},
        {"candidates": []},
        {"candidates": [{}]},
        {"candidates": [{"content": {"parts": [{"text": 5}]}, "finishReason": "STOP"}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {}}]}, "finishReason": "STOP"}]},
        {"candidates": "x"},
        [],
        "text",
        None,
    )


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


SPEECHES: tuple[Any, ...] = (OpenAISpeech(), AnthropicSpeech(), GoogleSpeech())
