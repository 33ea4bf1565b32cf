"""The credential that a request carries, if it carries one: a bearer token, or a key in `X-API-Key`.

It reads headers and judges their form only. Whether the credential is good, its resolver says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from fairlead.failures.action import AuthenticationError

if TYPE_CHECKING:
    from fairlead.surfaces.http.asgi import Request

#: Longer ones are not looked at: a signed token with many claims has about two thousand characters.
LONGEST = 8192

_AUTHORIZATION = re.compile(rb"(?i:bearer)(?: +(.*))?", re.DOTALL)
_OTHER_SCHEME = re.compile(rb"(?!(?i:bearer)(?:[ ,]|$))[!#-'*+.^_`|~\w-]+(?: |$)", re.ASCII)
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_KEY = re.compile(rb"[!-~]+")


class InvalidCredentials(AuthenticationError):
    """The request carries credentials that do not hold."""

    #: The word of RFC 6750 for it.
    error: ClassVar[str] = "invalid_token"


class UnclearCredentials(InvalidCredentials):
    """The request carries credentials that can be read in more than one way, or in none."""

    error = "invalid_request"


def credential(request: Request) -> str | None:
    """The request's token or key; None where it carries none. Other schemes than Bearer are left to others.

    Raises:
        UnclearCredentials: there is more than one, or it is not written as one.
    """
    authorizations, keys = [], []
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            authorizations.append(value)
        elif name == b"x-api-key":
            keys.append(value)
    if not authorizations and not keys:
        return None
    if len(authorizations) > 1 or len(keys) > 1:
        raise UnclearCredentials(
            "The request carries the same credentials header more than once. Send it once."
        )
    found = [*_bearer(authorizations), *(_checked(key, _KEY, "X-API-Key") for key in keys)]
    if len(found) > 1:
        raise UnclearCredentials("The request carries both a bearer token and X-API-Key. Send one of them.")
    return found[0] if found else None


def _bearer(values: list[bytes]) -> list[str]:
    if not values or _OTHER_SCHEME.match(values[0]):
        return []
    scheme = _AUTHORIZATION.fullmatch(values[0])
    return [_checked((scheme and scheme[1]) or b"", _TOKEN, "Authorization")]


def _checked(value: bytes, form: re.Pattern[bytes], header: str) -> str:
    if len(value) > LONGEST:
        raise UnclearCredentials(
            f"The {header} header is longer than {LONGEST} bytes, which is the limit here."
        )
    if not form.fullmatch(value):
        written = "'Authorization: Bearer TOKEN'" if header == "Authorization" else "'X-API-Key: KEY'"
        raise UnclearCredentials(f"The {header} header is not written as {written}.")
    return value.decode("ascii")
