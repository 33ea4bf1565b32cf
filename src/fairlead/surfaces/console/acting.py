"""Whom the console's calls are made for: the person who runs it, or whom that person acts as for a while.

The choice comes in a header that only the guarded console reads. Remote surfaces know no such thing: there,
identity is found by the server.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from fairlead import _json
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.http.asgi import Request

HEADER = "fairlead-act-as"
_MEMBERS = ("user", "auth")


class Acting:
    """Resolves the caller of a request to the console."""

    def __init__(self, user: Any, auth: Any) -> None:
        self._own = Caller(user, auth)

    def __call__(self, request: Request) -> Caller:
        given = request.headers.get(HEADER)
        return self._own if given is None else _read(given)


def _read(given: str) -> Caller:
    try:
        who = _json.loads(unquote(given, errors="strict"))
    except ValueError as exc:
        raise Failure(Kind.invalid_input, f"The header {HEADER} is not JSON in percent encoding.") from exc
    if not isinstance(who, dict):
        raise Failure(Kind.invalid_input, f"The header {HEADER} must hold an object with user and auth.")
    for name in who:
        if name not in _MEMBERS:
            hint = near_miss(name, _MEMBERS)
            raise Failure(Kind.invalid_input, f"One acts as a user with an auth; there is no {name!r}.{hint}")
    return Caller(who.get("user"), who.get("auth"))
