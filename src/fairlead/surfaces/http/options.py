"""What `app.http(...)` takes, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from fairlead.actions import DefinitionError, Exposure
from fairlead.actions import policy as checks
from fairlead.actions.exposure import Filter
from fairlead.surfaces.auth.resolve import Resolver
from fairlead.surfaces.http.routes import BASES, MAX_BODY

if TYPE_CHECKING:
    from fairlead.surfaces.mcp import Server
    from fairlead.surfaces.mcp.oauth import ProtectedResource

_OWNER: Final = "HTTP"
#: In `allowed_hosts`: every name.
ANY_HOST: Final = "*"
_INCLUDE: Final = ("include_private", "include_local", "include_destructive", "filter")


class Cors(NamedTuple):
    """Which pages of other origins may call: their origins, whether with cookies, and with which further headers."""

    origins: tuple[str, ...]
    credentials: bool = False
    headers: tuple[str, ...] = ()
    max_age: int = 600


class HttpOptions(TypedDict, total=False):
    """All that can be said about how an app is served."""

    #: What is shown, as a whole; or by the four parts that follow.
    exposure: Exposure | None
    include_private: bool
    include_local: bool
    include_destructive: bool
    filter: Filter | None
    #: Who is calling: a function of the request, or several, asked in order.
    resolve_context: Resolver | Iterable[Resolver]
    bases: Sequence[str]
    #: Bytes that are read of a request.
    max_body: int
    #: Bytes that are sent of an envelope.
    max_response: int | None
    #: Calls in one batch, and how many of them run at once.
    max_batch: int
    batch_width: int
    #: Seconds of silence after which a stream says that it lives.
    keep_alive: float
    #: Origins, or a `Cors`, or a dict with its fields.
    cors: str | Sequence[str] | Mapping[str, Any] | Cors | None
    #: Bytes from which on answers are compressed for those who take it; False for never.
    gzip: int | bool
    allowed_hosts: Sequence[str]
    #: Whether `/mcp` is there; or the `app.mcp()` that it serves.
    mcp: bool | Server
    #: Where tokens for `/mcp` come from; with it, every request there needs a caller.
    mcp_oauth: ProtectedResource | None
    #: Whether clients of `/mcp` have sessions; without, each of several processes can answer each request.
    mcp_sessions: bool
    #: Whether the agents' API is there, where the app has agents; or what its gateway is told.
    gateway: bool | Mapping[str, Any]
    docs: bool
    metrics: bool


class Settings(NamedTuple):
    """The options as they are used."""

    exposure: Exposure
    resolvers: tuple[Resolver, ...]
    bases: tuple[str, ...]
    max_body: int
    max_response: int | None
    max_batch: int
    batch_width: int
    keep_alive: float
    cors: Cors | None
    gzip: int | None
    allowed_hosts: tuple[str, ...]
    mcp: bool | Server
    mcp_oauth: ProtectedResource | None
    mcp_sessions: bool
    gateway: bool | Mapping[str, Any]
    docs: bool
    metrics: bool


def settle(options: HttpOptions) -> Settings:
    """Raises DefinitionError for an option that is unknown or wrong."""
    checks.known_keys(_OWNER, options, tuple(HttpOptions.__annotations__))
    limit = options.get("max_response")
    return Settings(
        _exposure(options),
        checks.functions(_OWNER, "resolve_context", options.get("resolve_context", ())),
        _bases(options.get("bases", BASES)),
        _whole("max_body", options.get("max_body", MAX_BODY)),
        None if limit is None else _whole("max_response", limit),
        _whole("max_batch", options.get("max_batch", 100)),
        _whole("batch_width", options.get("batch_width", 16)),
        checks.seconds(_OWNER, "keep_alive", options.get("keep_alive", 15.0)) or 15.0,
        _cors(options.get("cors")),
        _gzip(options.get("gzip", True)),
        checks.names(_OWNER, "allowed_hosts", options.get("allowed_hosts", ())),
        _mcp(options.get("mcp", True)),
        _mcp_oauth(options),
        checks.boolean(_OWNER, "mcp_sessions", options.get("mcp_sessions", True)),
        _gateway(options.get("gateway", True)),
        checks.boolean(_OWNER, "docs", options.get("docs", True)),
        checks.boolean(_OWNER, "metrics", options.get("metrics", True)),
    )


def _exposure(options: HttpOptions) -> Exposure:
    whole = options.get("exposure")
    parts: dict[str, Any] = {key: value for key, value in options.items() if key in _INCLUDE}
    if whole is None:
        for key, value in parts.items():
            if key == "filter":
                checks.function(_OWNER, key, value or bool)
            else:
                checks.boolean(_OWNER, key, value)
        return Exposure(**parts)
    if parts:
        raise DefinitionError(f"{_OWNER}: give either exposure or {', '.join(parts)}, not both.")
    if not isinstance(whole, Exposure):
        raise DefinitionError(f"{_OWNER}: exposure must be an Exposure, not {whole!r}.")
    return whole


def _mcp(given: Any) -> bool | Server:
    return given if hasattr(given, "own_resources") else checks.boolean(_OWNER, "mcp", given)


def _gateway(given: Any) -> bool | Mapping[str, Any]:
    return given if isinstance(given, bool) else checks.mapping(_OWNER, "gateway", given)


def _mcp_oauth(options: HttpOptions) -> ProtectedResource | None:
    given: Any = options.get("mcp_oauth")
    if given is None:
        return None
    if not hasattr(given, "authorization_servers"):
        raise DefinitionError(f"{_OWNER}: mcp_oauth must be a ProtectedResource, not {given!r}.")
    if not options.get("mcp", True):
        raise DefinitionError(f"{_OWNER}: mcp_oauth is about /mcp, which mcp=False leaves out.")
    if not checks.functions(_OWNER, "resolve_context", options.get("resolve_context", ())):
        raise DefinitionError(f"{_OWNER}: mcp_oauth needs a resolve_context, which checks the tokens.")
    told: ProtectedResource = given
    return told


def _bases(given: object) -> tuple[str, ...]:
    bases = checks.names(_OWNER, "bases", given)
    for base in bases:
        if not base.startswith("/") or base.endswith("/") or "//" in base:
            raise DefinitionError(
                f"{_OWNER}: a base is a path that begins with a slash and does not end with one, not {base!r}."
            )
    if not bases:
        raise DefinitionError(f"{_OWNER}: bases is empty; give at least one, such as {BASES[0]!r}.")
    return bases


def _whole(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DefinitionError(f"{_OWNER}: {field} must be a whole number above 0, not {value!r}.")
    return value


def _gzip(value: object) -> int | None:
    if isinstance(value, bool):
        return 1024 if value else None
    return _whole("gzip", value)


def _cors(given: object) -> Cors | None:
    if given is None or given is False:
        return None
    if isinstance(given, str):
        given = Cors((given,))
    elif isinstance(given, Mapping):
        checks.known_keys(f"{_OWNER}: cors", given, Cors._fields)
        if "origins" not in given:
            raise DefinitionError(f"{_OWNER}: cors has no origins.")
        given = Cors(**given)
    elif not isinstance(given, Cors):
        given = Cors(checks.names(_OWNER, "cors", given))
    said: object = given.origins
    origins = (said,) if isinstance(said, str) else said
    cors = Cors(
        tuple(_origin(each) for each in checks.names(_OWNER, "cors.origins", origins)),
        checks.boolean(_OWNER, "cors.credentials", given.credentials),
        checks.names(_OWNER, "cors.headers", given.headers),
        _whole("cors.max_age", given.max_age),
    )
    if cors.credentials and "*" in cors.origins:
        raise DefinitionError(
            f"{_OWNER}: cors with credentials needs its origins by name: any page at all could act as its visitor."
        )
    return cors


def _origin(given: str) -> str:
    scheme, separator, rest = given.partition("://")
    if given != "*" and (not scheme or not separator or not rest or "/" in rest or "*" in given):
        raise DefinitionError(
            f"{_OWNER}: an origin is a scheme and a whole host, such as 'https://app.example.com', not {given!r}."
        )
    return given.lower()
