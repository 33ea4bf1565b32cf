"""A model behind a network: time limits, retries and failures, the same for every provider.

What a request and an answer look like is known by the provider's own module, which fills in the blanks here.
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

from fairlead.agents.models.faults import Desk, Unreadable, Unsendable
from fairlead.agents.models.keys import Key, KeySource
from fairlead.agents.models.model import (
    DEFAULT_WINDOW,
    Delta,
    Embedded,
    Model,
    Reply,
    Request,
    ToolCall,
    Usage,
)
from fairlead.agents.models.providers import Provider
from fairlead.agents.models.retrying import Fault, Retries
from fairlead.agents.models.seams import Seam, sewn, sewn_through
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ConfigError

if TYPE_CHECKING:
    from fairlead.agents.models.prices import Prices

T = TypeVar("T")
#: Libraries whose exceptions mean that the connection failed.
_NETWORK: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "h11", "ssl", "anyio")
#: Seconds to get a connection.
CONNECT: Final = 10.0


class Reader(Protocol):
    """Puts a streamed reply together, event by event."""

    def feed(self, event: Any) -> Delta | None:
        """Take an event; gives what is to be shown of it."""

    def whole(self) -> Reply:
        """The reply, when the stream is over. Raises Unreadable when it was cut off."""


class RemoteModel(Model):
    """A model of a provider, asked through the provider's own library."""

    #: The module of that library. The package is called alike, with a dash for a dot.
    library: ClassVar[str]

    def __init__(
        self,
        provider: Provider,
        model: str,
        source: KeySource,
        *,
        environ: Mapping[str, str],
        retries: Retries | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.name = f"{provider.name}/{model}"
        self.window = provider.window or DEFAULT_WINDOW
        self.provider = provider
        self.model = model
        self._source = source
        self._environ = environ
        self._retries = retries or Retries()
        self._prices = prices
        # Connections belong to the event loop that made them.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    @property
    def priced(self) -> bool:
        # Who asks for no key sends no bill.
        free = not self.provider.needs_key
        return free or (self._prices is not None and self._prices.known(self.provider.name, self.model))

    async def reply(self, request: Request) -> Reply:
        async def ask(client: Any) -> Reply:
            return self._read(await self._ask(client, request), request)

        reply: Reply = await self._answered(ask, request.settings.timeout)
        return self._told(reply)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Texts as vectors, by a model that can do that."""
        if not texts:
            return Embedded([], self.model)

        async def ask(client: Any) -> Embedded:
            made = await self._embed(client, list(texts))
            if len(made.vectors) != len(texts) or not all(made.vectors):
                raise Unreadable(f"there are {len(made.vectors)} vectors for {len(texts)} texts")
            return made

        made: Embedded = await self._answered(ask, None)
        return replace(made, usage=self._priced(made.usage, made.model))

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        desk, client = await self._ready()
        deadline = time.monotonic() + (request.settings.timeout or self.provider.timeout)
        reader = self._reader(request)

        async def begin() -> tuple[AsyncGenerator[Any, None], Any]:
            events = self._events(client, request)
            try:
                return events, await self._faults(desk, anext(events, None))
            except BaseException:
                await events.aclose()
                raise

        events, event = await self._limited(desk, deadline, self._retries.run(begin))
        said, thought = Seam(), Seam()
        try:
            while event is not None:
                delta = self._settled(desk, reader.feed, event)
                if delta is not None:
                    shown = Delta(said.piece(delta.text), thought.piece(delta.reasoning))
                    if shown.text or shown.reasoning:
                        yield shown
                event = await self._next(desk, deadline, events)
            reply = self._settled(desk, reader.whole)
        finally:
            await events.aclose()
        yield self._told(reply)

    async def models(self) -> list[str]:
        """The names of the models that the provider offers."""
        names: list[str] = await self._answered(self._names, None)
        return names

    async def close(self) -> None:
        clients, self._clients = list(self._clients.items()), WeakKeyDictionary()
        for loop, client in clients:
            if loop is asyncio.get_running_loop():
                await self._close(client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _unsaid(self, variable: str, omitted: Any) -> dict[str, Any]:
        """What keeps the library from adding the headers that a variable of its own names.

        They are meant for the service of whoever made the library, and may be secrets: no other server gets them.
        """
        if self._at_home:
            return {}
        lines = os.environ.get(variable, "").split("\n")
        return {line.partition(":")[0].strip(): omitted for line in lines if ":" in line}

    @property
    def _at_home(self) -> bool:
        """Whether the service is that of whoever made the library, which its variables are about."""
        return self.provider.name == self.library and self.provider.base_url is None

    @abstractmethod
    def _connect(self, key: Key, base_url: str | None) -> Any:
        """The provider's client, with its own retries off. Runs on a thread: libraries are slow to load."""

    @abstractmethod
    async def _ask(self, client: Any, request: Request) -> Any:
        """The provider's answer, as it came."""

    @abstractmethod
    def _events(self, client: Any, request: Request) -> AsyncGenerator[Any, None]:
        """The events of a streamed answer, as they come."""

    @abstractmethod
    def _read(self, body: Any, request: Request) -> Reply:
        """The reply in an answer. Raises Unreadable."""

    @abstractmethod
    def _reader(self, request: Request) -> Reader: ...

    @abstractmethod
    def _fault(self, desk: Desk, exc: Exception) -> Fault | None:
        """What an exception of the provider's library means; None for one that is not its own."""

    async def _embed(self, client: Any, texts: list[str]) -> Embedded:
        raise Failure(Kind.unsupported, f"{self.provider.name} has no models for embeddings.")

    @abstractmethod
    async def _names(self, client: Any) -> list[str]: ...

    async def _close(self, client: Any) -> None:
        await client.close()

    async def _ready(self) -> tuple[Desk, Any]:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # Before the key: who has none yet need not look for one that is no use.
            await asyncio.to_thread(self._load)
        key = await self._source.get()
        desk = Desk(self.provider, self.model, key, self._source, self._environ)
        client = self._clients.get(loop)
        if client is None:
            base_url = self.provider.located(self._environ)
            client = await asyncio.to_thread(self._connect, key, base_url)
            client = self._clients.setdefault(loop, client)
        return desk, client

    def _load(self) -> None:
        try:
            import_module(self.library)
        except ImportError as exc:
            words = f"Models of {self.provider.name!r} need the package {self.library.replace('.', '-')}: "
            raise ConfigError(f"{words}pip install 'fairlead[models]'") from exc

    async def _answered(self, ask: Any, limit: float | None) -> Any:
        desk, client = await self._ready()
        deadline = time.monotonic() + (limit or self.provider.timeout)

        async def attempt() -> Any:
            return await self._faults(desk, ask(client))

        return await self._limited(desk, deadline, self._retries.run(attempt))

    async def _limited(self, desk: Desk, deadline: float, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
                return await work
        except TimeoutError:
            pass
        raise desk.late().failure

    async def _next(self, desk: Desk, deadline: float, events: AsyncGenerator[Any, None]) -> Any:
        """The next event. What fails now has begun to be told already, so that nothing is tried again."""
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
                return await anext(events, None)
        except Failure:
            raise
        except Exception as exc:
            fault = self._translated(desk, exc)
        raise fault.failure

    def _settled(self, desk: Desk, work: Any, *given: Any) -> Any:
        try:
            return work(*given)
        except Exception as exc:
            fault = self._translated(desk, exc)
        raise fault.failure

    async def _faults(self, desk: Desk, work: Awaitable[T]) -> T:
        """Whatever goes wrong as a `Fault`, which carries nothing of the exception: that may hold the key."""
        try:
            return await work
        except (Failure, Fault):
            raise
        except Exception as exc:
            fault = self._translated(desk, exc)
        raise fault

    def _translated(self, desk: Desk, exc: Exception) -> Fault:
        if isinstance(exc, Unreadable):
            return desk.unreadable(str(exc))
        if isinstance(exc, Unsendable):
            return desk.unsendable(str(exc))
        if isinstance(exc, UnicodeEncodeError):
            return desk.unsendable("a text in the request holds half of a character (a lone surrogate)")
        known = self._fault(desk, exc)
        if known is not None:
            return known
        if isinstance(exc, TimeoutError):
            return desk.late()
        if isinstance(exc, OSError) or type(exc).__module__.partition(".")[0] in _NETWORK:
            return desk.lost(exc)
        return desk.unreadable(f"reading it failed with {type(exc).__name__}")

    def _told(self, reply: Reply) -> Reply:
        return replace(
            reply,
            text=sewn(reply.text),
            reasoning=None if reply.reasoning is None else sewn(reply.reasoning),
            calls=tuple(
                ToolCall(sewn(call.name), sewn(call.arguments), sewn(call.id)) for call in reply.calls
            ),
            kept=None if reply.kept is None else sewn_through(reply.kept),
            usage=self._priced(reply.usage, reply.model),
        )

    def _priced(self, usage: Usage, model: str) -> Usage:
        if self._prices is None:
            return usage
        return replace(usage, cost=self._prices.cost(self.provider.name, self.model, usage))
