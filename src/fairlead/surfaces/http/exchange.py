"""One request and its answer: the headers that concern every route, and failures in the client's words.

An answer is an envelope; a client that asks for `application/problem+json` gets failures as RFC 9457 has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from fairlead._json import encode
from fairlead.failures import Failure
from fairlead.failures import action as wire
from fairlead.failures.action import Cancelled, HttpServerError, MethodNotAllowed
from fairlead.failures.failure import default_message, lookup
from fairlead.runtime import Runtime
from fairlead.surfaces.auth.challenge import challenge
from fairlead.surfaces.http import compression
from fairlead.surfaces.http.accept import prefers
from fairlead.surfaces.http.asgi import JSON, Receive, Scope, Send, joined
from fairlead.surfaces.refusal import refusal

Extra = Sequence[tuple[bytes, bytes]]

PROBLEM = b"application/problem+json"
_PROBLEM_NAME = PROBLEM.decode()
_JSON_NAME = JSON.decode()
#: What may be repeated in a header and written to logs.
_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
#: Lengths of most answers, as text that is made once.
_USUAL = 1024
_LENGTHS = tuple(b"%d" % size for size in range(_USUAL))
_LONGEST_PAUSE = 10**9


class ServerStopping(Cancelled, http_status=503):
    """The server is stopping, and the call was cancelled. It may have begun its work."""


class Host(NamedTuple):
    """Whose answers these are: the runtime, its surface's name, and the size from which answers are compressed."""

    runtime: Runtime
    surface: str
    gzip: int | None = None


class Exchange:
    """A request that is being answered."""

    __slots__ = ("_id", "headers", "host", "receive", "scope", "send", "started")

    def __init__(self, host: Host, scope: Scope, receive: Receive, send: Send) -> None:
        self.host = host
        self.scope = scope
        self.receive = receive
        self.send = send
        given = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(given)
        if len(self.headers) != len(given):
            self.headers = joined(given)
        self._id: bytes | None = None
        #: Whether the answer has begun: then it is too late to refuse.
        self.started = False

    @property
    def sent_id(self) -> bytes | None:
        """The id that the client gave its request, if it can be repeated."""
        given = self.headers.get(b"x-request-id")
        return given if given is not None and _REQUEST_ID.fullmatch(given) else None

    @property
    def id(self) -> bytes:
        """The request's id: the client's, or a new one."""
        if self._id is None:
            self._id = self.sent_id or self.host.runtime.new_id().encode()
        return self._id

    def invocation_id(self) -> str | None:
        """An id that serves the request and its one invocation; None where the client has named its request."""
        if b"x-request-id" in self.headers and self.sent_id is not None:
            return None
        id = self.host.runtime.new_id()
        self._id = id.encode()
        return id

    async def answer(self, status: int, body: bytes, content_type: bytes = JSON, extra: Extra = ()) -> None:
        """Send a whole answer."""
        self.started = True
        least = self.host.gzip
        if least is not None and len(body) >= least and compression.takes_gzip(self.headers):
            body = await compression.compress(body)
            extra = (*extra, *compression.HEADERS)
        headers = [
            (b"content-type", content_type),
            (b"content-length", _LENGTHS[size] if (size := len(body)) < _USUAL else b"%d" % size),
            (b"x-request-id", self._id or self.id),
            *extra,
        ]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        if self.scope["method"] == "HEAD":
            body = b""
        await self.send({"type": "http.response.body", "body": body})

    async def bare(self, status: int, extra: Extra = ()) -> None:
        """Send an answer that has no body by its nature."""
        self.started = True
        headers = [(b"x-request-id", self.id), *extra]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def refuse(self, failure: Failure, action: str | None = None, extra: Extra = ()) -> None:
        """Send a failure that happened before there was a call."""
        runtime, surface, _ = self.host
        await self.fail(failure, refusal(failure, surface, runtime, action), extra)

    async def fail(self, failure: Failure, envelope: Mapping[str, Any], extra: Extra = ()) -> None:
        """Send a failed envelope, with the status and the headers of its failure."""
        status = status_of(failure)
        headers = [*extra, *_advice(failure, status)]
        if prefers(self.headers.get(b"accept"), _PROBLEM_NAME, _JSON_NAME):
            await self.answer(status, encode(_problem(envelope, status)), PROBLEM, headers)
        else:
            await self.answer(status, encode(envelope), JSON, headers)

    async def other_method(self, methods: Sequence[str]) -> None:
        """Answer a request whose method is not one of these: OPTIONS with them, any other with a refusal."""
        allowed = ", ".join((*methods, "OPTIONS"))
        allow = ((b"allow", allowed.encode()),)
        if self.scope["method"] == "OPTIONS":
            await self.bare(204, allow)
        else:
            await self.refuse(MethodNotAllowed(f"This address takes {allowed}."), extra=allow)


def status_of(failure: Failure) -> int:
    """The failure's HTTP status; one that is no status of a failure counts as none."""
    status = wire.http_status(failure)
    return status if 400 <= status <= 599 else wire.http_status(HttpServerError())


def _advice(failure: Failure, status: int) -> Extra:
    headers = []
    pause = failure.retry_after
    if isinstance(pause, int | float) and 0 <= pause < _LONGEST_PAUSE:
        headers.append((b"retry-after", b"%d" % ceil(pause)))
    if status in (401, 403) and (words := challenge(failure)):
        headers.append((b"www-authenticate", words.encode("latin-1", "replace")))
    return headers


def _problem(envelope: Mapping[str, Any], status: int) -> dict[str, Any]:
    error = dict(envelope["error"])
    code = error["code"]
    return {
        "type": f"urn:fairlead:failure:{code}",
        "title": default_message(lookup("action", code), code),
        "status": status,
        "detail": error.pop("message"),
        **error,
        "meta": envelope["meta"],
    }
