"""One request to the gateway, and what it is answered with. Handlers see these and no ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from fairlead._json import DEEPEST, is_deep, loads
from fairlead.failures import Failure
from fairlead.failures.gateway import InvalidBody, InvalidJson, InvalidParam, MissingParam
from fairlead.surfaces.http.asgi import Asgi, Receive, Request

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway
    from fairlead.runtime import App

#: Whose an app's own agents are, as its gateway was told.
OWNERS: Final[WeakKeyDictionary[App, str]] = WeakKeyDictionary()
#: Bytes of a request's body, by what it is for.
SMALL: Final = 64 * 1024
LARGE: Final = 1024 * 1024
LONGEST_ID: Final = 128
#: How JSON writes the character NUL.
_NUL: Final = b"\\u0000"
_YES: Final = frozenset({"true", "1", "yes"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the edge found out."""

    #: Whose agents, tasks and conversations these are.
    owner: str
    #: The key's id; empty for those who come with a token.
    key: str = ""
    #: The agents that the key is for; None for all of its owner's.
    agents: frozenset[str] | None = None
    #: Requests in a minute that the key may make; None for the gateway's own limit.
    per_minute: int | None = None
    permissions: tuple[str, ...] = ()
    #: When the key expires, if it does.
    expires: float | None = None

    def reaches(self, agent: str) -> bool:
        """Whether the key is for this agent."""
        return self.agents is None or agent in self.agents

    @property
    def user(self) -> dict[str, Any]:
        """The caller as the runtime knows them."""
        return {"id": self.owner}

    @property
    def auth(self) -> dict[str, Any]:
        return {"type": "gateway", "id": self.key, "permissions": list(self.permissions)}


class Answer(NamedTuple):
    """A whole answer. `data` is put into the success envelope, unless it is `flat`."""

    data: Any = None
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    #: Beside `success` and `data`.
    more: Mapping[str, Any] = MappingProxyType({})
    #: Whether `data` is the body as it is; None is no body at all.
    flat: bool = False
    #: The id of what was made; where it is not said, `data` is searched for it.
    made: str | None = None


@dataclass(frozen=True, slots=True)
class Frames:
    """An answer that is sent piece by piece: server-sent events, each a whole frame."""

    frames: AsyncIterator[bytes]
    headers: tuple[tuple[bytes, bytes], ...] = ()
    #: Seconds of silence after which there is a sign of life, where the frames have none of their own.
    every: float | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is neither JSON nor events: a file, say."""

    pieces: AsyncIterator[bytes]
    headers: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Served:
    """An answer that another app gives: one that speaks a protocol of its own."""

    app: Asgi


class Call:
    """One request."""

    __slots__ = ("_body", "caller", "gateway", "params", "receive", "request", "request_id")

    def __init__(
        self,
        gateway: Gateway,
        request: Request,
        caller: Caller,
        params: Mapping[str, str],
        request_id: str,
        receive: Receive | None = None,
    ) -> None:
        self.gateway = gateway
        self.request = request
        self.caller = caller
        #: The parts of the path, decoded.
        self.params = params
        self.request_id = request_id
        #: What the body comes from, where the handler reads it piece by piece.
        self.receive = receive

    def id(self, name: str) -> str:
        """A part of the path that is an id. Raises InvalidParam."""
        value = self.params[name]
        if not value or len(value) > LONGEST_ID or "\0" in value:
            raise InvalidParam(f"{name} must have 1 to {LONGEST_ID} characters.", field=name)
        return value

    def json(self) -> dict[str, Any]:
        """The body, which is an object.

        Raises:
            InvalidJson: it is not JSON.
            InvalidBody: it is not an object.
        """
        body = self.request.body
        try:
            value = loads(body)
        except ValueError as exc:
            raise InvalidJson(f"The request's body is not JSON: {exc}.") from None
        if is_deep(value, body):
            raise InvalidJson(f"The request's body has more than {DEEPEST} levels of lists and objects.")
        if type(value) is not dict:
            raise InvalidBody("The request's body must be an object.")
        if body.find(_NUL) >= 0 and holds_nul(value):
            raise InvalidBody("The request's body holds the character NUL, which cannot be kept.")
        return value

    def wants_events(self) -> bool:
        """Whether the client asked for a stream by name."""
        accept = self.request.raw.get(b"accept")
        return accept is not None and b"text/event-stream" in accept.lower()

    def flag(self, name: str) -> bool:
        return self.request.query.get(name, "").lower() in _YES

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number of the query. Raises InvalidParam."""
        given = self.request.query.get(name)
        if given is None or given == "":
            return default
        digits = given.removeprefix("-")
        if (
            not digits.isascii()
            or not digits.isdigit()
            or len(digits) > 18
            or not least <= int(given) <= most
        ):
            raise InvalidParam(f"{name} must be a whole number from {least} to {most}.", field=name)
        return int(given)

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """One of several words of the query. Raises InvalidParam."""
        given = self.request.query.get(name) or default
        if given not in choices:
            raise InvalidParam(f"{name} must be one of {', '.join(choices)}.", field=name)
        return given

    def key(self, *, required: bool = False) -> str | None:
        """The `Idempotency-Key` header. Raises MissingParam or InvalidParam."""
        given = self.request.headers.get("idempotency-key")
        if given is None and not required:
            return None
        if not given:
            raise MissingParam("This call needs an Idempotency-Key header.", field="Idempotency-Key")
        if len(given) > LONGEST_ID:
            raise InvalidParam(
                f"Idempotency-Key has at most {LONGEST_ID} characters.", field="Idempotency-Key"
            )
        return given


def holds_nul(value: Any) -> bool:
    """Whether a text somewhere in a JSON value has a character that no database keeps."""
    level = [value]
    while level:
        each = level.pop()
        if isinstance(each, str):
            if "\0" in each:
                return True
        elif isinstance(each, dict):
            level += (*each, *each.values())
        elif isinstance(each, list):
            level += each
    return False


Handler = Callable[[Call], Coroutine[Any, Any, Answer | Frames | Content | Served]]
#: A failure in the words of a protocol: what is answered to a request that could not be served.
Refused = Callable[["Gateway", Request, Failure], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path with parts in braces, and what serves it. The name counts for rates and logs."""

    method: str
    path: str
    handler: Handler
    name: str
    #: Bytes of its body.
    body: int = SMALL
    #: Whether it is for those who come without credentials, too.
    open: bool = False
    #: Whether the handler reads the body itself, from `call.receive`.
    raw: bool = False
    #: How failures are told, where it is not in the gateway's own envelope.
    refused: Refused | None = None
    #: Whether it counts for its caller's rate.
    counted: bool = True
    #: Whether keys of an agent's own are good here.
    of_agent: bool = False
