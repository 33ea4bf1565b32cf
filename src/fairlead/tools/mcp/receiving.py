"""What a server sends, made readable before the SDK reads it, so that one odd thing does not cost all others.

Half a character, which servers send that cut texts by UTF-16, gives way to the character that stands for such. A tool
that is none is taken out of its list. An answer that is none ends its request, for which nobody would come otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from fairlead._json import loads, whole_characters

#: Bytes of a line of HTTP that are held until its end; a longer one, and what follows it, is passed on as it is.
_LONGEST: Final = 16 * 2**20
#: Gives a list of tools without those that are none.
Sift = Callable[[dict[str, Any]], dict[str, Any]]


def mended(stream: Any) -> Any:
    """A body of HTTP without half characters, as it comes. No JSON that comes as an event has a line break in it."""
    import httpx2

    class Mended(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            waiting, size = [b""], 0
            async for piece in stream:
                lines, end, rest = piece.rpartition(b"\n")
                if end and size <= _LONGEST:
                    yield whole_characters(b"".join((*waiting, lines, end)))
                    waiting, size = [], 0
                elif size > _LONGEST:
                    # Nobody holds back what has no end: whoever reads it has a limit.
                    yield b"".join((*waiting, lines, end))
                    waiting = []
                waiting.append(rest)
                size += len(rest)
            last = b"".join(waiting)
            yield last if size > _LONGEST else whole_characters(last)

        async def aclose(self) -> None:
            await stream.aclose()

    return Mended()


class _Decoded:
    """The bytes that a response stands for, as they come."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: AsyncIterator[bytes] = self._response.aiter_bytes()
        return pieces

    async def aclose(self) -> None:
        await self._response.aclose()


def mend(response: Any) -> None:
    """Have a response of HTTP read without half characters. In an encoding they cannot be seen: it is taken off."""
    import httpx2

    stream = response.stream
    if "content-encoding" in response.headers:
        same = {"headers": response.headers, "request": response.request}
        stream = _Decoded(httpx2.Response(response.status_code, stream=stream, **same))
        for name in ("content-encoding", "content-length"):
            response.headers.pop(name, None)
    response.stream = mended(stream)


@asynccontextmanager
async def received(
    transport: AbstractAsyncContextManager[Any], sift: Sift
) -> AsyncIterator[tuple[Received, Any]]:
    """A transport of the SDK, whose messages can be read."""
    async with transport as (reading, writing):
        yield Received(reading, sift), writing


class Received:
    """The messages of a server, as the SDK reads them."""

    def __init__(self, inner: Any, sift: Sift) -> None:
        self._inner = inner
        self._sift = sift

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        return self._message(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Received:
        return self

    async def __anext__(self) -> Any:
        return self._message(await anext(self._inner))

    async def __aenter__(self) -> Received:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)

    def _message(self, item: Any) -> Any:
        if isinstance(item, Exception):
            item = _read_again(item)
        result = getattr(getattr(item, "message", None), "result", None)
        # Nothing else that a server answers has such a list.
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            item.message.result = self._sift(result)
        return item


def sifted(result: dict[str, Any], version: str, left_out: Callable[[str, str], None]) -> dict[str, Any]:
    """A list of tools without those that are none of the protocol's, which are told with where they are not."""
    if _unfit(result, version) is None or _unfit({**result, "tools": []}, version) is not None:
        return result
    kept = []
    for tool in result["tools"]:
        where = _unfit({**result, "tools": [tool]}, version)
        if where is None:
            kept.append(tool)
        else:
            name = tool.get("name") if isinstance(tool, dict) else None
            left_out(name if isinstance(name, str) else "?", where)
    return {**result, "tools": kept}


def _unfit(result: Mapping[str, Any], version: str) -> str | None:
    """Where a list of tools is not what the SDK takes, if it is not: the path within the first tool."""
    from mcp.types import ListToolsResult, methods
    from pydantic import ValidationError

    try:
        if ("tools/list", version) in methods.SERVER_RESULTS:
            methods.validate_server_result("tools/list", version, result)
        ListToolsResult.model_validate(result, by_name=False)
    except ValidationError as error:
        return ".".join(map(str, error.errors()[0]["loc"][2:]))
    return None


def _read_again(error: Exception) -> Any:
    """A message that the SDK could not read, as far as it can be read; the error where it is none."""
    from mcp.shared.message import SessionMessage
    from mcp.types import ErrorData, JSONRPCError, jsonrpc_message_adapter
    from mcp.types.jsonrpc import PARSE_ERROR
    from pydantic import ValidationError

    given = error.errors(include_url=False)[0]["input"] if isinstance(error, ValidationError) else None
    if isinstance(given, str):
        try:
            line = whole_characters(given.encode(errors="replace"))
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError:
            given = _loaded(line)
    if not isinstance(given, dict) or "method" in given or type(given.get("id")) not in (int, str):
        return error
    words = "what it answered is no answer of the protocol"
    failed = JSONRPCError(jsonrpc="2.0", id=given["id"], error=ErrorData(code=PARSE_ERROR, message=words))
    return SessionMessage(failed)


def _loaded(line: bytes) -> Any:
    try:
        return loads(line)
    except ValueError:
        return None
