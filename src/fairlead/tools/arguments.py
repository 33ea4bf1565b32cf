"""What a model sent as arguments, as one value: an object already, or a text that holds one, more or less."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.tools.mending import Unreadable, mended

_LAYERS: Final = 3
_ADVICE: Final = (
    "Send one JSON object: keys and strings in double quotes, backslashes and line breaks in strings escaped, "
    "no comments, nothing before or after it."
)


class Arguments(NamedTuple):
    """A value, and a note on each thing that was mended."""

    value: Any
    notes: list[str]


def arguments_of(given: Any) -> Arguments:
    """The value that a provider handed on as a call's arguments; nothing at all is no arguments.

    Raises:
        Failure: the text is not JSON and has no one meaning; says what to mend, not what was sent.
    """
    if given is None:
        return Arguments({}, [])
    if isinstance(given, bytes | bytearray):
        given = bytes(given).decode(errors="replace")
    if not isinstance(given, str):
        return Arguments(given, [])
    slips: list[str] = []
    value: Any = given
    for layer in range(_LAYERS + 1):
        if not value.strip():
            value = {}
            break
        value, more = _read(value)
        slips += more
        if not isinstance(value, str):
            break
        if layer == 0:
            slips.append("JSON inside a string")
    return Arguments(value, [f"arguments: read as JSON in spite of {slip}" for slip in dict.fromkeys(slips)])


def _read(text: str) -> tuple[Any, tuple[str, ...]]:
    try:
        return _json.loads(text), ()
    except ValueError:
        pass
    try:
        return mended(text)
    except Unreadable as exc:
        raise Failure(
            Kind.malformed, f"The arguments are not JSON: {exc}. {_ADVICE}", expected="a JSON object"
        ) from None
