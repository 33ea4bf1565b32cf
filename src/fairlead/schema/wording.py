"""The words of issues: JSON type names, what a shape expects, and near misses. No pydantic, no values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_SHOWN = 20


def json_type(value: Any) -> str:
    """The JSON name of a value's type, or Python's where JSON has none."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (list, tuple)):
        return "array"
    if isinstance(value, dict):
        return "object"
    return type(value).__name__


def one_of(values: Iterable[Any]) -> str:
    """`one of "a", "b"`, as JSON spells the values."""
    from fairlead._json import dumps

    values = list(values)
    spelled = [dumps(value, default=str) for value in values[:_SHOWN]]
    if len(values) == 1:
        return spelled[0]
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return f"one of {', '.join(spelled)}{more}"


def counted(words: str, number: int, unit: str) -> str:
    """`at least 2 items`, `at least 1 item`."""
    return f"{words} {number} {unit.removesuffix('s') if number == 1 else unit}"


def either(alternatives: Iterable[str]) -> str:
    """`string or integer`, each named once."""
    return " or ".join(dict.fromkeys(alternatives))


def unexpected(key: Any, allowed: Sequence[str], *, look: bool = True) -> str:
    """What to say of a key that is not declared, without repeating it. To `look` for the near miss takes a while."""
    if not allowed:
        return "This key is not declared; no keys are allowed here."
    near = near_miss(str(key), allowed) if look else None
    hint = f"; did you mean {near!r}?" if near else "."
    return f"This key is not declared{hint} Allowed keys: {listed(allowed)}."


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, in whatever case."""
    by_fold = {each.casefold(): each for each in known}
    found = closest(word.casefold(), by_fold)
    return by_fold[found] if found is not None else None


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that begins so, or else one that is spelled much alike."""
    from difflib import get_close_matches

    known, word = list(known), word[:100]
    # Of a long word that is cut short so little may be there that others are more alike. One letter begins too many.
    begun = [each for each in known if each.startswith(word)] if len(word) > 1 else []
    found = [min(begun, key=len)] if begun else get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None


def listed(words: Sequence[str]) -> str:
    """`a, b and 3 more`, where there are many."""
    shown = ", ".join(words[:_SHOWN])
    return shown if len(words) <= _SHOWN else f"{shown} and {len(words) - _SHOWN} more"
