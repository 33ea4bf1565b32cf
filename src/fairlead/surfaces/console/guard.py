"""Who may use the console: the page that this server gave out, in the hands of whoever has its one-time link.

A program on the machine, a page of another origin and a name that was pointed at this machine can all reach the
port. Each request is held against all of these at once: a peer on this machine, a Host that is this machine and
this port, no foreign Origin, the session's secret in a header of its own, and a body that is JSON.

The secret is kept by the page and not in a cookie: cookies are shared by every server on the machine, whatever
its port. It knows nothing of what the console can do.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from ipaddress import ip_address

from fairlead.failures import Failure, Kind
from fairlead.surfaces.http.asgi import Request, Scope
from fairlead.surfaces.http.hosts import LOOPBACK
from fairlead.surfaces.http.media import require_json

SESSION_HEADER = "fairlead-session"
_SAFE = ("GET", "HEAD")
_SPENT = (
    "This link does not open the console: it works once, and it was used before or is incomplete. "
    "Use the tab it was opened in, or start the console again for a new one."
)
_NO_SESSION = "This page has no session. Open the link that the console printed when it was started."


class Keys:
    """The token of the link, which is good once, and the session's secret, which it is changed for."""

    def __init__(
        self,
        token: str | None = None,
        session: str | None = None,
        claim: Callable[[], bool] | None = None,
    ) -> None:
        self.token = token or secrets.token_urlsafe(32)
        self._session = session or secrets.token_urlsafe(32)
        self._spent = False
        self._claim = claim or self._claim_here

    def redeem(self, token: object) -> str:
        """The session's secret for the link's token. Raises Failure when it is wrong, or was used before."""
        if not isinstance(token, str) or not _same(token, self.token) or not self._claim():
            raise Failure(Kind.unauthenticated, _SPENT)
        return self._session

    def check(self, session: str | None) -> None:
        """Raises Failure unless this is the session's secret."""
        if session is None or not _same(session, self._session):
            raise Failure(Kind.unauthenticated, _NO_SESSION)

    def _claim_here(self) -> bool:
        first, self._spent = not self._spent, True
        return first


def admit(scope: Scope) -> None:
    """Raises Failure for a request that did not come from this machine and in its own name."""
    if not _is_loopback(scope.get("client")):
        raise Failure(Kind.forbidden, "The console answers this machine only.")
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in _own_names(scope):
        names = " or ".join(LOOPBACK)
        raise Failure(Kind.forbidden, f"The console answers to {names} and its own port, not to other names.")


def admit_own_page(request: Request) -> None:
    """Raises Failure for a request that a page of another origin made, or one whose body is not JSON."""
    headers = request.headers
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise _foreign()
    own = f"{request.scope.get('scheme', 'http')}://{headers['host']}"
    if headers.get("origin", own).lower() != own.lower():
        raise _foreign()
    if request.method not in _SAFE:
        require_json(dict(request.scope["headers"]))


def _own_names(scope: Scope) -> list[str]:
    port = (scope.get("server") or (None, None))[1]
    names = [f"{name}:{port}" for name in LOOPBACK]
    return [*names, *LOOPBACK] if port == 80 else names


def _is_loopback(peer: tuple[str, int] | None) -> bool:
    try:
        return peer is not None and ip_address(peer[0].partition("%")[0]).is_loopback
    except ValueError:
        return False


def _same(given: str, ours: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), ours.encode())


def _foreign() -> Failure:
    return Failure(Kind.forbidden, "The console acts for its own page only; this came from another origin.")
