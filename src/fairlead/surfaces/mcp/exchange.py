"""`Exchange`: one request while it is being answered, with the way back to the client that sent it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from fairlead.runtime.identity import caller_of
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.mcp.peer import RESERVED, Peer
from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, MISSING_CAPABILITY, Params, Request, RpcError
from fairlead.surfaces.mcp.state import claim_of
from fairlead.surfaces.mcp.voice import Sink

if TYPE_CHECKING:
    from fairlead.surfaces.mcp.server import Server, View

#: The key of our own question among those of an action.
CONFIRM: Final = "fairlead/confirm"
#: The key of an agent's question.
CLARIFY: Final = "fairlead/clarify"
IDEMPOTENCY_KEY: Final = "fairlead/idempotencyKey"

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Line(Protocol):
    """A two-way connection, over which the server may ask."""

    def ask(self, method: str, params: Mapping[str, Any] | None, sink: Sink) -> Awaitable[Any]: ...


class Metadata(Mapping[str, Any]):
    """What came along with a call, as `ctx.metadata`: put together when somebody looks. It leads back to the client."""

    __slots__ = ("_known", "exchange")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._known: dict[str, Any] | None = None

    @property
    def _all(self) -> dict[str, Any]:
        """What the client sent, under what the edge knows."""
        if self._known is None:
            meta = self.exchange.meta
            own = {key: meta[key] for key in meta if not key.startswith(RESERVED)}
            self._known = {**own, **self.exchange.caller[2]}
        return self._known

    def __getitem__(self, key: str) -> Any:
        return self._all[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return repr(self._all)


class Exchange:
    """A request, who sent it, and what has been asked and answered on the way to its result."""

    # Most requests ask nothing: what is not set on the way keeps its default here, and is replaced, not changed.
    #: What the client has answered to what it was asked in earlier rounds.
    answers: Mapping[str, Any] = MappingProxyType({})
    #: What it is to be asked in the next.
    wanted: Mapping[str, Any] = MappingProxyType({})
    #: How many questions without a key the action has asked.
    asked = 0
    #: A capability that is needed, and that the client has not.
    missing: str | None = None
    #: The confirmation that a person was asked for in an earlier round.
    token: str | None = None
    #: Whether a person has confirmed the call in an earlier round.
    confirmed = False
    #: The conversation of an agent that has paused, and what it asks.
    paused: Mapping[str, Any] | None = None
    _claim: bytes | None = None

    def __init__(
        self, server: Server, request: Request, peer: Peer, caller: Caller, sink: Sink, line: Line | None
    ) -> None:
        self.server = server
        self.request = request
        self.params: Params = request[2]
        self.peer = peer
        self.caller = caller
        #: Takes messages that belong to this request.
        self.sink = sink
        #: None where the client cannot be asked before it is answered.
        self.line = line
        meta = self.params.get("_meta")
        self.meta: Mapping[str, Any] = meta if type(meta) is dict else _NOTHING

    @property
    def view(self) -> View:
        """What the caller is shown."""
        return self.server.view_of(self.caller)

    @property
    def caller_key(self) -> str:
        """Who is calling, as one stable text; empty when nobody said."""
        return caller_of(self.caller[0], self.caller[1])

    @property
    def claim(self) -> bytes:
        if self._claim is None:
            self._claim = claim_of(self.caller_key, self.request[1], self.params)
        return self._claim

    def want(self, key: str, method: str, params: dict[str, Any]) -> None:
        """Ask the client this in the next round."""
        self.wanted = {**self.wanted, key: {"method": method, "params": params}}

    async def resume(self) -> None:
        """Take up what earlier rounds have brought. Raises RpcError for state that is not ours."""
        if not self.peer.revision.stateless:
            return
        params = self.params
        sealed = params.get("requestState")
        if sealed is not None:
            state = self.server.seals.open(sealed, self.claim)
            self.answers = state["answers"]
            self.token = state["token"]
            self.confirmed = state["confirmed"]
            self.paused = state.get("paused")
            if self.confirmed or self.paused is not None:
                await self.server.seals.spend(state)
        given = params.get("inputResponses")
        if given is None:
            return
        if type(given) is not dict or not all(type(answer) is dict for answer in given.values()):
            raise RpcError(INVALID_PARAMS, "inputResponses is an object of objects.")
        self.answers = {**self.answers, **given}

    def input_required(self) -> dict[str, Any]:
        """The result that asks the client before the call can go on."""
        answers = {
            key: value for key, value in self.answers.items() if key not in self.wanted and key != CONFIRM
        }
        state: dict[str, Any] = {"answers": answers, "token": self.token, "confirmed": self.confirmed}
        if self.paused is not None:
            state["paused"] = self.paused
        return {
            "resultType": "input_required",
            "inputRequests": dict(self.wanted),
            "requestState": self.server.seals.seal(state, self.claim),
        }

    def incapable(self) -> RpcError:
        """What to say to a client that lacks what the call cannot do without."""
        name, _, mode = (self.missing or "").partition(".")
        return RpcError(
            MISSING_CAPABILITY,
            f"The request needs a client with the capability {self.missing!r}.",
            {"requiredCapabilities": {name: {mode: {}} if mode else {}}},
        )
