"""What a request's body is said to be. Only JSON in UTF-8, as it is, is read.

The strictness is a fence: a page of another origin cannot send `application/json` without asking first.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.failures.action import UnsupportedMediaType
from fairlead.surfaces.http.asgi import JSON

_USUAL = frozenset({JSON, b"application/json; charset=utf-8", b"application/json;charset=UTF-8"})


def require_json(headers: Mapping[bytes, bytes]) -> None:
    """Raises UnsupportedMediaType for a body that is not said to be plain JSON."""
    given = headers.get(b"content-type")
    if given not in _USUAL and (given is None or not _is_json(given)):
        raise UnsupportedMediaType(
            "The request's content type is not JSON in UTF-8. Send 'Content-Type: application/json'."
        )
    if b"content-encoding" in headers and headers[b"content-encoding"].strip().lower() != b"identity":
        raise UnsupportedMediaType("The request's body is compressed. Send it without Content-Encoding.")


def _is_json(given: bytes) -> bool:
    media, *parameters = given.lower().split(b";")
    if media.strip() != JSON:
        return False
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"charset" and value.strip().strip(b'"') not in (b"utf-8", b"utf8"):
            return False
    return True
