"""Envelopes as bytes. What cannot be written, or is more than may be sent, becomes a failure that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fairlead._json import encode
from fairlead.failures import Failure
from fairlead.failures import action as wire
from fairlead.failures.action import OutputSerializationError, ResponseTooLarge
from fairlead.failures.redaction import Redactor
from fairlead.runtime import Result
from fairlead.surfaces.refusal import UNWRITABLE

_HEAD = b'{"ok":true,"data":'
#: How long most calls take, in milliseconds, at the envelope's end.
_ENDS = tuple(b"%d}}" % milliseconds for milliseconds in range(100))


#: An envelope as bytes, the failure it tells of, and the envelope itself.
Written = tuple[bytes, Failure | None, Mapping[str, Any]]


class Plain:
    """Writes the envelopes of one action's calls that went well and said nothing, which is most of them."""

    __slots__ = ("_after", "_before")

    def __init__(self, action: str, surface: str) -> None:
        about = b',"artifacts":[],"logs":[],"meta":{"action":%b,"invocationId":'
        self._before = about % orjson.dumps(action)
        self._after = b',"surface":%b,"durationMs":' % orjson.dumps(surface)

    def write(self, result: Result, id: str | None) -> bytes | None:
        """The envelope; None for one that has more to say. The id is given where it is known already."""
        if result.failure is not None or not result._quiet:
            return None
        spent = round(result.duration * 1000)
        try:
            return b"".join(
                (
                    _HEAD,
                    orjson.dumps(result.data, None, orjson.OPT_NON_STR_KEYS),
                    self._before,
                    orjson.dumps(id or result.invocation_id),
                    self._after,
                    _ENDS[spent] if 0 <= spent < 100 else b"%d}}" % spent,
                )
            )
        except TypeError:
            return None


def write(
    envelope: dict[str, Any],
    failure: Failure | None,
    warnings: tuple[str, ...],
    limit: int | None,
    redactor: Redactor,
) -> Written:
    """The envelope with these warnings, within this many bytes."""
    if warnings:
        meta = envelope["meta"]
        meta["warnings"] = [*warnings, *meta.get("warnings", ())]
    try:
        body = encode(envelope)
    except TypeError:
        refused = OutputSerializationError(UNWRITABLE)
        return _instead(envelope, refused, redactor)
    if limit is None or len(body) <= limit:
        return body, failure, envelope
    return _instead(envelope, failure or _too_long(len(body), limit), redactor)


def _instead(envelope: dict[str, Any], failure: Failure, redactor: Redactor) -> Written:
    told = {"ok": False, "error": wire.render(failure, redactor), "artifacts": [], "logs": []}
    told["meta"] = envelope["meta"]
    return encode(told), failure, told


def _too_long(size: int, limit: int) -> Failure:
    return ResponseTooLarge(
        f"The action ran, and its answer of {size} bytes is longer than the {limit} that are sent here. "
        "Ask for less at a time.",
        details={"size": size, "limit": limit},
    )
