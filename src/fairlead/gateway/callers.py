"""Who calls the gateway, found from the request's credentials, and how often they may.

An `oag_` key is known by its hash, which is all that is kept of it. Other credentials are for the resolvers that the
gateway was given. What is known of a key is remembered for a moment, and forgotten at once when keys change.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any, Final

from fairlead._json import loads
from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.gateway import (
    AuthTransient,
    AuthUnavailable,
    Forbidden,
    GatewayFailure,
    InvalidToken,
    MissingToken,
    RateLimited,
    Unauthorized,
)
from fairlead.failures.redaction import Redactor
from fairlead.gateway.call import Caller
from fairlead.runtime import App
from fairlead.runtime.hooks import report
from fairlead.runtime.limits import MemoryRates
from fairlead.store import DurableRates
from fairlead.store.statements import statements
from fairlead.surfaces.auth.resolve import Resolver, resolve
from fairlead.surfaces.http.asgi import Request

SQL = statements(__file__)
#: What those listen to who remember keys.
KEYS: Final = "gateway:keys"
#: What a key looks like.
SHAPE: Final = re.compile(r"(oag|bak)_[0-9a-f]{64}")
#: How an agent's own key begins, and the header that it may come in.
OF_AGENT: Final = "bak_"
_OWN_HEADER: Final = "x-agent-api-key"
#: Seconds that a key is remembered.
_REMEMBERED: Final = 5.0
_MOST: Final = 10_000
#: Into how many parts a minute's requests are divided: so many at once are asked of the store.
_PARTS: Final = 20


@dataclass(slots=True)
class _Purse:
    """Requests that this process may still let through without asking."""

    left: int = 0
    until: float = 0.0
    #: Held by the one who asks the store for more; the others wait for what it brings.
    filling: asyncio.Lock = field(default_factory=asyncio.Lock)


#: Until when it counts, when the key expires, and whose it is.
_Known = tuple[float, float | None, Caller]


class Callers:
    """Knows keys and tokens, and counts requests over all processes."""

    def __init__(self, app: App, owner: str, resolvers: Sequence[Resolver], prefix: str = "") -> None:
        self._app = app
        self._owner = owner
        self._resolvers = resolvers
        #: Before whom a token names: without one, tokens and keys share their owners.
        self._prefix = prefix
        self._known: dict[str, _Known] = {}
        #: The same by the hash of the whole header that a key came in: what it says was read before. (Nobody keeps this
        #: hash, so it is the one that is made soonest.)
        self._headers: dict[bytes, _Known] = {}
        self._purses: dict[tuple[str, str], _Purse] = {}
        self._rates: DurableRates | None = None
        #: Counts while the store cannot be written.
        self._spare = MemoryRates(app.clock.monotonic)
        self._heard = False
        #: Grows whenever keys change: what was looked up before that is not remembered.
        self._era = 0

    def known(self, request: Request) -> Caller | None:
        """Who calls, if the same `Authorization` header was seen a moment ago with a key in it."""
        header = request.raw.get(b"authorization")
        if header is None:
            return None
        known = self._headers.get(hashlib.blake2b(header).digest())
        if known is None:
            return None
        until, expires, caller = known
        clock = self._app.clock
        if until < clock.monotonic() or (expires is not None and expires <= clock.time()):
            return None
        return caller

    async def of(self, request: Request, *, of_agent: bool = False) -> Caller:
        """Who makes this request. Keys of an agent's own open some addresses only.

        Raises:
            MissingToken, InvalidToken, Unauthorized: nobody who is known here.
            AuthUnavailable, AuthTransient: who it is could not be found out.
        """
        header = request.headers.get("authorization")
        own = request.headers.get(_OWN_HEADER) if of_agent else None
        if own is not None:
            if header is not None and header.partition(" ")[2].strip() != own.strip():
                raise InvalidToken("Two different credentials were sent. Send one.")
            return await self._by_key(own.strip())
        if header is None:
            raise Unauthorized(
                "Send a key or a token: the word Bearer and the key in the Authorization header."
            )
        scheme, _, token = header.strip().partition(" ")
        token = token.strip()
        if not header.strip() or (scheme.lower() == "bearer" and not token):
            raise MissingToken("The Authorization header is empty. Send the word Bearer and a key in it.")
        if scheme.lower() != "bearer":
            raise Unauthorized(
                "The Authorization header is the word Bearer and a key here; no other scheme is taken."
            )
        if token.startswith(OF_AGENT) and not of_agent:
            raise InvalidToken("A key of an agent's own is for A2A and MCP. Use a key of its caller's here.")
        if token.startswith(("oag_", OF_AGENT)):
            caller = await self._by_key(token)
            if not of_agent:
                self._remember(request.raw[b"authorization"], token)
            return caller
        return await self._by_token(request)

    def _remember(self, header: bytes, token: str) -> None:
        """Know the header again; keys that change meanwhile are forgotten on another thread."""
        era = self._era
        known = self._known.get(hashlib.sha256(token.encode()).hexdigest())
        if known is not None:
            if len(self._headers) >= _MOST:
                self._headers.clear()
            self._headers[hashlib.blake2b(header).digest()] = known
        if era != self._era:
            self._headers.clear()

    def counted(self, caller: Caller, endpoint: str) -> bool:
        """Count a request of a caller to an endpoint, if that can be done without asking the store."""
        purse = self._purses.get((caller.key or caller.owner, endpoint))
        if purse is None or purse.left <= 0 or purse.until < self._app.clock.monotonic():
            return False
        purse.left -= 1
        return True

    async def count(self, caller: Caller, endpoint: str, per_minute: int, *, looks: bool = False) -> None:
        """Count a request of a caller to an endpoint. Raises RateLimited.

        One that only `looks` is counted in this process alone while the store cannot be written: it can be answered.
        """
        limit = caller.per_minute or per_minute
        who = caller.key or caller.owner
        now = self._app.clock.monotonic()
        purse = self._purses.get((who, endpoint))
        if purse is None:
            if len(self._purses) >= _MOST:
                self._purses.clear()
            purse = self._purses[who, endpoint] = _Purse()
        async with purse.filling:
            if purse.left <= 0 or purse.until < now:
                await self._filled(purse, f"{who}\n{endpoint}", limit, now, looks)
            purse.left -= 1

    async def _filled(self, purse: _Purse, key: str, limit: int, now: float, looks: bool) -> None:
        if self._rates is None:
            self._rates = DurableRates(self._app.store, name="gateway", clock=self._app.clock.time)
        part = max(1, limit // _PARTS)
        parts = max(1, limit // part)
        try:
            wait = await self._rates.take(key, parts, 60.0)
        except StoreFailure as failure:
            if not looks:
                raise
            report(
                f"Requests that look are counted in this process alone: {failure.message}", self._app.redactor
            )
            wait = self._spare.take(key, parts, 60.0)
        if wait > 0:
            raise RateLimited("Too many requests. Wait as long as Retry-After says.", retry_after=wait)
        purse.left, purse.until = part, now + 60.0

    async def by_key(self, token: str) -> Caller:
        """Whose key this is. Raises InvalidToken."""
        return await self._by_key(token)

    async def _by_key(self, token: str) -> Caller:
        if not SHAPE.fullmatch(token):
            raise InvalidToken("The key is not known here.")
        hashed = hashlib.sha256(token.encode()).hexdigest()
        clock = self._app.clock
        known = self._known.get(hashed)
        if known is None or known[0] < clock.monotonic():
            known = await self._looked_up(hashed)
        if known[1] is not None and known[1] <= clock.time():
            raise InvalidToken("The key has expired. Ask for a new one.")
        return known[2]

    async def _looked_up(self, hashed: str) -> _Known:
        store = self._app.store
        if not self._heard:
            self._heard = True
            store.listen(KEYS, self._forget)
        era = self._era
        try:
            row = await store.read(lambda tx: tx.one(SQL.key_by_hash, hash=hashed))
        except Failure as failure:
            raise _unidentified(failure, self._app.redactor) from failure
        # The row is found by the hash of 256 random bits: how long that takes tells nothing of the key.
        if row is None:
            raise InvalidToken("The key is not known here.")
        id, _, _, owner, per_minute, agents, permissions, _, expires, revoked, _ = row
        if revoked is not None:
            raise InvalidToken("The key was revoked.")
        scope = None if agents is None else frozenset(loads(agents))
        caller = Caller(owner, id, scope, per_minute, tuple(loads(permissions)), expires)
        if len(self._known) >= _MOST:
            self._known.clear()
        known = (self._app.clock.monotonic() + _REMEMBERED, expires, caller)
        self._known[hashed] = known
        if era != self._era:  # looked at last, as they are forgotten on any thread
            self._known.pop(hashed, None)
        return known

    def _forget(self) -> None:
        """On any thread."""
        self._era += 1
        self._known.clear()
        self._headers.clear()

    async def _by_token(self, request: Request) -> Caller:
        if not self._resolvers:
            raise InvalidToken("The credential is not known here.")
        try:
            found = await resolve(self._resolvers, request, self._app.redactor)
        except Failure as failure:
            raise _unidentified(failure, self._app.redactor) from failure
        owner = _id_of(found.user) or _id_of(found.auth)
        if owner is None:
            raise InvalidToken("The credential is not known here.")
        permissions = found.auth.get("permissions", ()) if isinstance(found.auth, dict) else ()
        return Caller(f"{self._prefix}{owner}", permissions=tuple(permissions))


#: Failures that say nothing against the caller: whoever is logged in stays so.
_AWAY: Final = frozenset({Kind.unavailable, Kind.misconfigured, Kind.internal})
_FOR_A_MOMENT: Final = frozenset({Kind.timeout, Kind.upstream, Kind.busy, Kind.rate_limited})


def _unidentified(failure: Failure, redactor: Redactor) -> Failure:
    """Why somebody is not let in, by what went wrong. What is wrong with our own parts they are not told."""
    if isinstance(failure, GatewayFailure):
        return failure
    if failure.kind in _AWAY:
        report(f"Who calls the gateway could not be found out: {failure.message}", redactor)
        return AuthUnavailable(retry_after=failure.retry_after or 1.0)
    if failure.kind in _FOR_A_MOMENT:
        return AuthTransient(retry_after=failure.retry_after or 1.0)
    return (Forbidden if failure.kind is Kind.forbidden else InvalidToken)(failure.message)


def origin(address: str | None) -> str:
    """Where a stranger comes from, to be counted by. Of IPv6 one line has more addresses than anybody can count."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(found, IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Network((found, 64), strict=False))


def _id_of(identity: Any) -> str | None:
    if isinstance(identity, dict):
        named = identity.get("id") or identity.get("sub")
        return str(named) if named else None
    return identity if isinstance(identity, str) and identity else None
