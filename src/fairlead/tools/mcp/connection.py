"""One live connection to an MCP server, with the official SDK's client: opened, used, lost, closed.

The SDK wants a connection to be entered and left by one task, so a connection is a task of its own that calls
talk to. It belongs to the event loop that it was opened on. What the tools are good for is known elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ConfigError, McpCallError, McpTransportError
from fairlead.runtime import Context
from fairlead.tools.mcp.content import data_of, text_of
from fairlead.tools.mcp.elicitation import ELICIT, Elicit, Elicitation, answered
from fairlead.tools.mcp.receiving import mend, received, sifted
from fairlead.tools.remote import masked, quoted

if TYPE_CHECKING:
    from mcp import Client

#: The JSON-RPC code of a closed connection. Servers use it for their own errors, too.
_CLOSED: Final = -32000
#: Seconds in which a server that answered with that code must show that it is there.
_SIGN_OF_LIFE: Final = 5.0
_MOST_PAGES: Final = 1_000
#: Lines of a server's stderr that are kept, to be shown when it fails.
_LAST_LINES: Final = 20
#: Seconds until these are read at the latest, once it is gone.
_LAST_WORDS: Final = 1.0
THEIRS: Final = "That is for whoever wrote the server to mend."


class Target(NamedTuple):
    """Where a server is: a command to start, or a URL. All references are resolved."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012  # never changed
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}  # noqa: RUF012  # never changed
    #: Secret values among the above.
    hidden: tuple[str, ...] = ()
    connect_timeout: float = 30.0
    #: Seconds for one call.
    timeout: float | None = None
    mode: str = "auto"


class _Call(NamedTuple):
    """A call that is under way, and the variables of whoever made it."""

    ctx: Context
    variables: Variables


_CALL: Final[ContextVar[_Call | None]] = ContextVar("fairlead_mcp_call", default=None)


class Connection:
    """A server that was reached. `lost` says why it is no more, once it is not."""

    def __init__(self, target: Target, elicit: Elicit | None, changed: Callable[[], Awaitable[None]]) -> None:
        self.target = target
        self.lost: Failure | None = None
        self._elicit = elicit
        self._changed = changed
        self._client: Client | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._refreshing: set[asyncio.Task[Any]] = set()
        #: Whether the tools have changed since they were last asked for, and whether they are being read.
        self._stale = self._reading = False
        #: What it lists as tools that is none, and where it does not fit the protocol.
        self.unfit: dict[str, str] = {}
        self._calls: list[_Call] = []
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        #: Of its last answer over HTTP.
        self._status = 0
        #: Who reads what the server writes to stderr, and our own end of that.
        self._reader: tuple[threading.Thread, TextIO] | None = None

    async def open(self) -> None:
        """Start or reach the server, and shake hands.

        Raises:
            ConfigError: the SDK is not installed.
            McpTransportError: it cannot be started or reached, or does not answer in time.
        """
        _require_sdk()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Without the variables of whoever happens to be the first to need the connection.
        self._task = asyncio.create_task(self._live(ready), context=Variables())
        try:
            async with asyncio.timeout(self.target.connect_timeout):
                await asyncio.shield(ready)
        except TimeoutError as error:
            await self._end()
            limit = f"{self.target.connect_timeout:g} seconds"
            raise self._broken(f"it did not answer within {limit}", error) from error
        except asyncio.CancelledError:
            await self._end()
            raise
        except Exception as error:
            await self._end()
            await self._hear_out()
            raise self._broken(self._refused or _words(_first(error)), error) from error

    async def close(self) -> None:
        """End the connection, and the server if it was started for it."""
        self._stopping.set()
        await self._end(kill=False)

    @property
    def about(self) -> dict[str, Any]:
        """What the server says of itself."""
        client = self._known
        info = client.server_info
        told: dict[str, Any] = {"protocol": client.protocol_version}
        if info is not None:
            told |= {"server": info.name, "version": info.version}
        return told

    @property
    def instructions(self) -> str | None:
        """How the server wants its tools to be used."""
        said = self._known.instructions
        return quoted(said) if said else None

    async def list(self) -> list[Any]:
        """All tools that the server has now; `unfit` has those that are none."""
        tools: list[Any] = []
        self.unfit = {}
        cursor: str | None = None
        try:
            async with asyncio.timeout(self.target.connect_timeout):
                for _ in range(_MOST_PAGES):
                    page = await self._known.list_tools(cursor=cursor, cache_mode="refresh")
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        except Exception as error:
            raise await self._failed(error, "list its tools") from error
        if self.unfit and not tools:
            raise self._senseless("list its tools", {"server": self.target.name})
        return tools

    def _sifted(self, result: dict[str, Any]) -> dict[str, Any]:
        if self._client is None:
            return result
        return sifted(result, self._client.protocol_version, self.unfit.__setitem__)

    async def call(self, tool: str, arguments: dict[str, Any], ctx: Context, *, structured: bool) -> Any:
        """Call a tool, with its progress and its words told to the context. A cancel is passed on to the server."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            await ctx.progress.report(message, percent=100 * progress / total if total else None)

        call = _Call(ctx, copy_context())
        token = _CALL.set(call)
        self._calls.append(call)
        try:
            result = await self._known.call_tool(tool, arguments, progress_callback=report)
        except Exception as error:
            raise await self._failed(error, f"call {tool!r}", tool=tool) from error
        finally:
            self._calls.remove(call)
            _CALL.reset(token)
        if result.is_error:
            said = self._shown(text_of(result)) or "It gave no reason."
            raise McpCallError(
                f"The tool {tool!r} of the MCP server {self.target.name!r} failed: {said}",
                details={"server": self.target.name, "tool": tool},
            )
        return data_of(result, ctx, structured=structured)

    @property
    def _known(self) -> Client:
        if self._client is None:
            raise self.lost or McpTransportError(f"The MCP server {self.target.name!r} is not connected.")
        return self._client

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = await self._entered(stack)
                self._client = client
                if not ready.done():
                    ready.set_result(None)
                self._listen(client)
                await self._stopping.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error if isinstance(error, Exception) else ConnectionError("it ended"))
            elif not self._stopping.is_set():
                self._mark(_words(_first(error)), error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._client = None
            for task in self._refreshing:
                task.cancel()

    async def _entered(self, stack: contextlib.AsyncExitStack) -> Client:
        from mcp import Client

        client = await stack.enter_async_context(
            Client(
                await self._transport(stack),
                mode=self.target.mode,
                elicitation_callback=self._ask,
                logging_callback=self._log,
                log_level="info",
                message_handler=self._hear,
            )
        )
        # The runtime checks outputs, in our words; the SDK's check would load its validator during a call.
        client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
        return client

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        target = self.target
        if target.url is None:
            from mcp import StdioServerParameters
            from mcp.client.stdio import stdio_client

            logging.getLogger("mcp.client.stdio").addFilter(_plainly)
            params = StdioServerParameters(
                command=target.command[0],
                args=list(target.command[1:]),
                env=target.env,
                cwd=target.cwd,
                # One byte that is no UTF-8 would be the last that is read.
                encoding_error_handler="replace",
            )
            stderr = stack.enter_context(contextlib.closing(self._stderr()))
            return received(stdio_client(params, errlog=stderr), self._sifted)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        logging.getLogger("mcp.client.streamable_http").addFilter(_plainly)

        async def note(response: Any) -> None:
            self._status = response.status_code
            mend(response)

        limits = httpx2.Timeout(target.connect_timeout, read=target.timeout)
        client = httpx2.AsyncClient(headers=target.headers, timeout=limits, event_hooks={"response": [note]})
        http = await stack.enter_async_context(client)
        return received(streamable_http_client(target.url, http_client=http), self._sifted)

    def _stderr(self) -> TextIO:
        """Where the server's stderr goes: the last lines are kept. A thread reads it, on every platform."""
        reading, writing = os.pipe()
        logger = logging.getLogger(f"fairlead.mcp.{self.target.name}")

        def read() -> None:
            with open(reading, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    said = masked(line.rstrip(), self.target.hidden)[:500]
                    self._said.append(said)
                    logger.debug("%s", said)

        reader = threading.Thread(target=read, name=f"fairlead-mcp-{self.target.name}", daemon=True)
        reader.start()
        ours = open(writing, "w", encoding="utf-8")  # noqa: SIM115  # whoever connects closes it
        self._reader = reader, ours
        return ours

    async def _hear_out(self) -> None:
        """Give the reader of stderr a moment to come to the end of what a server wrote that is gone."""
        if self._reader is not None:
            reader, ours = self._reader
            ours.close()
            await asyncio.to_thread(reader.join, _LAST_WORDS)

    def _listen(self, client: Client) -> None:
        """Hear of changed tools, where the server has to be asked for that."""
        tools = client.server_capabilities.tools
        if tools is not None and tools.list_changed and client.protocol_version >= "2026":
            self._start(self._changes(client))

    async def _changes(self, client: Client) -> None:
        # A server that does not offer it, or loses the stream, is no worse a server for that.
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._told_of_change()

    async def _hear(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            # Not here: the list cannot be read while the connection waits for this to end.
            self._told_of_change()

    def _told_of_change(self) -> None:
        """Have the tools read: once for all that is told meanwhile, and never twice at a time, or the older list
        might come last."""
        self._stale = True
        if not self._reading:
            self._reading = True
            self._start(self._read_again())

    async def _read_again(self) -> None:
        try:
            while self._stale:
                self._stale = False
                await self._changed()
        finally:
            self._reading = False

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)

    async def _log(self, params: Any) -> None:
        text = params.data if isinstance(params.data, str) else None
        fields = params.data if isinstance(params.data, dict) else {}
        message = self._shown(text or str(fields.get("message") or params.data))
        call = self._meant()
        if call is None:
            logging.getLogger(f"fairlead.mcp.{self.target.name}").info("%s", message)
            return
        logger = call.ctx.logger
        tell = {
            "debug": logger.debug,
            "info": logger.info,
            "notice": logger.info,
            "warning": logger.warn,
        }.get(params.level, logger.error)
        await tell(message, server=self.target.name)

    async def _ask(self, context: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        call = self._meant()
        elicit = self._elicit or (call.variables.get(ELICIT) if call else None)
        asked = Elicitation(
            self.target.name,
            self._shown(params.message),
            getattr(params, "requested_schema", None),
            getattr(params, "url", None),
        )
        if call is None:
            # Several calls are under way, and the question is not one that everybody may see.
            return ElicitResult(action="decline")
        # Where whoever made the call can be seen: what asks them finds them in its variables.
        task = asyncio.create_task(answered(asked, elicit), context=call.variables.copy())
        try:
            return ElicitResult(**await task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        except Exception:
            logging.getLogger(f"fairlead.mcp.{self.target.name}").exception("A question was not answered.")
            return ElicitResult(action="cancel")

    def _meant(self) -> _Call | None:
        """The call that a message of the server belongs to, where that is known."""
        call = _CALL.get()
        if call is not None:
            return call
        return self._calls[0] if len(self._calls) == 1 else None

    async def _failed(self, error: Exception, did: str, *, tool: str | None = None) -> Failure:
        """What an exception of the SDK means."""
        from mcp import MCPError

        if isinstance(error, Failure):
            return error
        name, first = self.target.name, _first(error)
        details = {"server": name, **({"tool": tool} if tool else {})}
        if isinstance(first, MCPError) and not (first.code == _CLOSED and await self._gone()):
            said = self._shown(first.message) or "It gave no reason."
            return McpCallError(
                f"The MCP server {name!r} refused to {did}: {said}", details={**details, "code": first.code}
            )
        if isinstance(first, TimeoutError):
            return Failure(
                Kind.timeout, f"The MCP server {name!r} did not {did} in time.", details=details, cause=error
            )
        if isinstance(first, ValueError | RuntimeError) and not await self._gone():
            return self._senseless(did, details, error)
        await self._hear_out()
        return self._mark(_words(first), error)

    def _senseless(self, did: str, details: dict[str, Any], cause: Exception | None = None) -> Failure:
        """The failure of an answer that is none. The SDK's words would quote the value that does not fit."""
        words = (
            f"The MCP server {self.target.name!r} was asked to {did}, and what it answered does not fit the "
        )
        words += f"protocol. {THEIRS}"
        return Failure(Kind.invalid_output, words, details=details, cause=cause)

    async def _gone(self) -> bool:
        """Whether the server gives no sign of life."""
        client = self._client
        if client is None or self.lost is not None:
            return True
        try:
            async with asyncio.timeout(_SIGN_OF_LIFE):
                await client.list_tools(cache_mode="bypass")
        except Exception as error:
            first = _first(error)
            # An answer that cannot be read is an answer.
            return not isinstance(first, ValueError) and getattr(first, "code", _CLOSED) == _CLOSED
        return False

    def _mark(self, why: str, cause: BaseException) -> Failure:
        if self.lost is None:
            self.lost = self._broken(why, cause)
            self._stopping.set()
        return self.lost

    def _broken(self, why: str, cause: BaseException) -> Failure:
        details: dict[str, Any] = {"server": self.target.name}
        if self._said:
            details["stderr"] = list(self._said)
        last = f" The last it wrote: {self._said[-1].strip()}" if self._said else ""
        return McpTransportError(
            f"The connection to the MCP server {self.target.name!r} failed: {self._shown(why)}.{last}",
            details=details,
            cause=cause,
        )

    @property
    def _refused(self) -> str:
        """What a server's last status says that refused to shake hands; the SDK leaves that out."""
        if self._status in (401, 403):
            way_out = "Give it headers by which it knows you, with --header or headers="
            return f"it answered with status {self._status}, because of who asks. {way_out}"
        return f"it answered with status {self._status}" if self._status >= 400 else ""

    def _shown(self, text: str) -> str:
        return quoted(masked(text, self.target.hidden)).strip()

    async def _end(self, *, kill: bool = True) -> None:
        task = self._task
        if task is None or task.done():
            return
        if kill:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # was told already


def _plainly(record: logging.LogRecord) -> bool:
    """What a server prints beside the protocol is worth a line, and no traceback that quotes all of it."""
    record.exc_info = record.exc_text = None
    return True


async def _unchecked(name: str, result: Any) -> None:
    return None


def _first(error: BaseException) -> BaseException:
    """The first exception in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _require_sdk() -> None:
    """Nothing is wrong with a server that we lack the means to ask."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        words = "Remote MCP servers need the package mcp: pip install 'fairlead[mcp]'"
        raise ConfigError(words, cause=error) from error


def _words(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no command {str(error.filename)!r}"
    if isinstance(error, asyncio.CancelledError):
        return "it was cut off"
    return str(error).strip().rstrip(".") or type(error).__name__
