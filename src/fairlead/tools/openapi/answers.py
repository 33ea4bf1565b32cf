"""What an HTTP API answers, as data or as a failure: the status decides the kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from fairlead._json import whole_characters
from fairlead.failures import Failure, Kind
from fairlead.runtime import Context
from fairlead.tools.remote import masked, quoted

_KINDS: Final = {
    400: Kind.invalid_input,
    # Our own credentials were refused, which is nothing that the caller can mend.
    401: Kind.misconfigured,
    403: Kind.forbidden,
    404: Kind.not_found,
    405: Kind.unsupported,
    408: Kind.timeout,
    409: Kind.conflict,
    410: Kind.not_found,
    412: Kind.conflict,
    413: Kind.too_large,
    415: Kind.unsupported,
    422: Kind.invalid_input,
    423: Kind.conflict,
    428: Kind.conflict,
    429: Kind.rate_limited,
    501: Kind.unsupported,
    503: Kind.unavailable,
    504: Kind.timeout,
}


def kind_of(status: int) -> Kind:
    """What a failing status means."""
    return _KINDS.get(status, Kind.invalid_input if 400 <= status < 500 else Kind.upstream)


def data_of(media: str, name: str, body: bytes, ctx: Context) -> Any:
    """The data of a good answer: JSON, text, or bytes as an artifact."""
    if not body:
        return None
    bare = media.partition(";")[0].strip().lower()
    if bare == "application/json" or bare.endswith("+json"):
        if b"\\ud" in body or b"\\uD" in body:
            body = whole_characters(body)
        try:
            return json.loads(body, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise Failure(
                Kind.upstream, f"{name!r} answered with what it calls JSON, and it is not.", cause=error
            ) from error
    if bare.startswith("text/") or bare in ("application/xml", "application/yaml", "application/x-ndjson"):
        return body.decode("utf-8", errors="replace")
    made = ctx.artifacts.add(name, data=body, mime_type=bare or None)
    return {"artifact": made["id"], "name": name, "mime_type": bare or None, "size_bytes": len(body)}


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number in JSON")


def failure_of(
    status: int, headers: Mapping[str, str], body: bytes, name: str, hidden: tuple[str, ...], now: float
) -> Failure:
    """The failure of a bad answer, with what the API says of it."""
    kind = kind_of(status)
    said = masked(_said(body), hidden)
    words = f"{name!r} was refused with status {status}" + (f": {quoted(said, 500)}" if said else ".")
    if status == 401:
        words += " The credentials that the tool sends are not accepted: see its headers."
    return Failure(
        kind, words, details={"status": status}, retry_after=_retry_after(headers.get("retry-after"), now)
    )


def _said(body: bytes) -> str:
    """The words of an error in one of the usual shapes, else its text."""
    text = body.decode("utf-8", errors="replace").strip()
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text
    for _ in range(3):
        if isinstance(found, str):
            return found
        if not isinstance(found, Mapping):
            break
        found = next(
            (
                found[key]
                for key in ("detail", "message", "error", "title", "error_description")
                if found.get(key)
            ),
            None,
        )
    return found if isinstance(found, str) else ""


def _retry_after(given: str | None, now: float) -> float | None:
    """Seconds, from seconds or from a date."""
    if given is None:
        return None
    try:
        wait = float(given)
    except ValueError:
        try:
            wait = parsedate_to_datetime(given).timestamp() - now
        except ValueError:
            return None
    return wait if 0 <= wait < 86_400 * 365 else 0.0 if wait < 0 else None
