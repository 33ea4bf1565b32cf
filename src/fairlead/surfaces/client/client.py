"""`Client`: actions as methods, wherever they run.

    client = Client(url="https://tasks.example.com", api_key=key)
    task = await client.create_task(title="Mend the net")

It is sugar over a transport: it turns a method into a call, follows the advice of failures about trying again,
and gives data or raises. It decides nothing about actions; their runtime does.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar, Unpack, overload

from fairlead.actions import Action, DefinitionError
from fairlead.actions import policy as checks
from fairlead.failures.action import InvalidResponse
from fairlead.runtime import Event, Runtime
from fairlead.runtime.clock import random_id
from fairlead.surfaces.client.in_process import InProcess
from fairlead.surfaces.client.reply import Reply
from fairlead.surfaces.client.retries import OWNER, USUAL, Attempts, policy_of
from fairlead.surfaces.client.transport import NOTHING, Call, InvokeOptions, Transport, Unreachable

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")

#: Actions whose function is `async def`, and those that yield: a caller gets all the items in a list.
Async: TypeAlias = Action[..., Coroutine[Any, Any, R]]
Yielding: TypeAlias = (
    Action[..., AsyncIterator[R]]
    | Action[..., AsyncGenerator[R, None]]
    | Action[..., Iterator[R]]
    | Action[..., Generator[R, None, None]]
)

_CALL: Final = tuple(InvokeOptions.__annotations__)
_LOCAL: Final = ("surface",)
_REMOTE: Final = ("base_path", "headers", "api_key", "http")


class ClientOptions(InvokeOptions, total=False):
    """What a client is made with: where the actions are, and what holds for every call unless the call says else."""

    runtime: Runtime
    url: str
    transport: Transport
    #: In process: the surface that the calls come from, `json` unless given.
    surface: str
    #: Over HTTP: where the server's routes are, `/fairlead` unless given.
    base_path: str
    headers: Mapping[str, str]
    #: Over HTTP: sent as a bearer token.
    api_key: str
    #: Over HTTP: an httpx client of your own, for proxies, certificates and the like; yours to close.
    http: httpx.AsyncClient


class Client:
    """Calls actions in process, over HTTP, or by a transport of your own.

    `await client.create_task({"title": "x"}, timeout=5)` gives an input and options;
    `await client.create_task(title="x")` gives the input's fields. Failures are raised.
    """

    transport: Transport

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        given: dict[str, Any] = dict(options)
        self.transport = _transport(given)
        self._defaults = _checked(given)

    @overload
    async def invoke(
        self, action: Async[R], input: Any = ..., *, raw: Literal[True], **options: Unpack[InvokeOptions]
    ) -> Reply[R]: ...
    @overload
    async def invoke(
        self,
        action: Async[R],
        input: Any = ...,
        *,
        raw: Literal[False] = ...,
        **options: Unpack[InvokeOptions],
    ) -> R: ...
    @overload
    async def invoke(
        self, action: Yielding[R], input: Any = ..., *, raw: Literal[True], **options: Unpack[InvokeOptions]
    ) -> Reply[list[R]]: ...
    @overload
    async def invoke(
        self,
        action: Yielding[R],
        input: Any = ...,
        *,
        raw: Literal[False] = ...,
        **options: Unpack[InvokeOptions],
    ) -> list[R]: ...
    @overload
    async def invoke(
        self,
        action: Action[..., R],
        input: Any = ...,
        *,
        raw: Literal[True],
        **options: Unpack[InvokeOptions],
    ) -> Reply[R]: ...
    @overload
    async def invoke(
        self,
        action: Action[..., R],
        input: Any = ...,
        *,
        raw: Literal[False] = ...,
        **options: Unpack[InvokeOptions],
    ) -> R: ...
    @overload
    async def invoke(
        self, action: str, input: Any = ..., *, raw: Literal[True], **options: Unpack[InvokeOptions]
    ) -> Reply[Any]: ...
    @overload
    async def invoke(
        self, action: str, input: Any = ..., *, raw: Literal[False] = ..., **options: Unpack[InvokeOptions]
    ) -> Any: ...
    async def invoke(
        self,
        action: str | Action[..., Any],
        input: Any = NOTHING,
        *,
        raw: bool = False,
        **options: Unpack[InvokeOptions],
    ) -> Any:
        """Call an action: its data, or its failure raised; with `raw=True` the whole reply.

        The action is a name, or the action itself: then the data has the type that its function returns.
        """
        reply = await self._reply(*self._call(action, input, options))
        if isinstance(action, Action):
            _type(reply, action)
        return reply if raw else reply.unwrap()

    async def stream(
        self, action: str | Action[..., Any], input: Any = NOTHING, **options: Unpack[InvokeOptions]
    ) -> AsyncGenerator[Event, None]:
        """Call an action and hear what it says as it runs; the last event is the result.

        Leaving the loop cancels the call. What has begun is never sent again.
        """
        call, said = self._call(action, input, options)
        attempts = Attempts(policy_of(said.get("retry"), self.transport.retry), said.get("deadline"))
        while True:
            events = self.transport.stream(call._replace(deadline=attempts.left))
            try:
                async with aclosing(events):
                    async for event in events:
                        yield event
                return
            except Unreachable as failure:
                if not await attempts.again(failure):
                    raise

    def with_options(self, **options: Unpack[InvokeOptions]) -> Self:
        """The same client, with other options for the calls made through it."""
        other = copy.copy(self)
        other._defaults = {**self._defaults, **_checked(dict(options))}
        return other

    async def aclose(self) -> None:
        """Close the connections. A client that only ever lives as long as its program need not."""
        await self.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __getattr__(self, name: str) -> Any:
        return method(self, name)

    async def _called(self, name: str, input: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """For the methods of clients that are written by `fairlead client py`."""
        return await called(self, name, input, named)

    def _call(
        self, action: str | Action[..., Any], input: Any, options: InvokeOptions
    ) -> tuple[Call, dict[str, Any]]:
        said = {**self._defaults, **_checked(dict(options))}
        about = {key: value for key, value in said.items() if key not in ("retry", "deadline")}
        return Call(action, input, **about), said

    async def _reply(self, call: Call, said: dict[str, Any]) -> Reply[Any]:
        policy = policy_of(said.get("retry"), self.transport.retry)
        if policy.retries and call.idempotency_key is None:
            # One key for all attempts, so that a write whose reply was lost is not done twice.
            call = call._replace(idempotency_key=random_id())
        attempts = Attempts(policy, said.get("deadline"))
        while True:
            try:
                reply = await self.transport.invoke(call._replace(deadline=attempts.left))
            except Unreachable as failure:
                if not await attempts.again(failure):
                    raise
                continue
            if not await attempts.again(reply.failure):
                return reply


def method(client: Any, name: str) -> Any:
    """An action as a method of a client, sync or async."""
    if name.startswith("_"):
        raise AttributeError(f"{type(client).__name__!r} object has no attribute {name!r}")

    def call(*input: Any, **named: Any) -> Any:
        return called(client, name, input, named)

    call.__name__ = call.__qualname__ = name
    return call


def called(client: Any, name: str, input: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call an action with an input and options, or with the input's fields by name."""
    if len(input) > 1:
        raise DefinitionError(
            f"{name} takes its input as one value, then options by name; or the input's fields by name."
        )
    if input:
        return client.invoke(name, input[0], **named)
    return client.invoke(name, named) if named else client.invoke(name)


def _transport(given: dict[str, Any]) -> Transport:
    places = {name: given.pop(name, None) for name in ("runtime", "url", "transport")}
    named = [name for name, value in places.items() if value is not None]
    if len(named) != 1:
        found = f"{' and '.join(named)} were given" if named else "none was given"
        raise DefinitionError(f"Client: give one of runtime=, url= and transport=; {found}.")
    [place] = named
    taken = {"runtime": _LOCAL, "url": _REMOTE, "transport": ()}[place]
    checks.known_keys(f"Client({place}=)", given, (*taken, *_CALL))
    settings = {name: given.pop(name) for name in taken if name in given}
    if place == "runtime":
        return InProcess(places["runtime"], settings.get("surface", "json"))
    if place == "url":
        from fairlead.surfaces.client.http import Http

        return Http(places["url"], **settings)
    transport: Transport = places["transport"]
    return transport


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    checks.known_keys(OWNER, options, _CALL)
    for name in ("timeout", "deadline"):
        checks.seconds(OWNER, name, options.get(name))
    if options.get("idempotency_key") is not None:
        checks.text(OWNER, "idempotency_key", options["idempotency_key"])
    policy_of(options.get("retry"), USUAL)
    return options


def _type(reply: Reply[Any], action: Action[..., Any]) -> None:
    """Make the data what the action's function returns."""
    if action.output is None or not reply.ok:
        return
    try:
        reply.data = action.output.validate_output(reply.data)
    except (ValueError, RecursionError) as exc:
        issues = action.output.issues(exc)
        raise InvalidResponse(
            f"The data is not what {action.name!r} returns here; the other side may be of another version. "
            "Call it by name for plain JSON.",
            issues=issues,
            cause=exc,
        ) from exc
