"""A small search over what tools are called and say: BM25, built once, with a ranking that never wavers."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from math import log
from typing import Any, Final

from fairlead.actions import Action
from fairlead.actions.catalogue import snake_case

_K: Final = 1.2
_B: Final = 0.75
#: A word of the name says more than a word of the description.
_NAME: Final = 3
_WORD: Final = re.compile(r"[^\W_]+")
#: What a search for a tool is full of, and no tool is found by.
_EMPTY: Final = frozenset(
    """
    a an and are as at be by can for from how i in is it me my of on or that the this to with
    """.split()  # noqa: SIM905  # a table reads better than a list of strings
)
_SHORTEST_PREFIX: Final = 3


def words(text: str) -> list[str]:
    """The words of a text or a name, without their endings."""
    found = _WORD.findall(snake_case(text).replace("_", " "))
    return [_stem(word) for word in found if word not in _EMPTY]


def _stem(word: str) -> str:
    for ending, rest in (("ies", "y"), ("ing", ""), ("es", "e"), ("ed", "e"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + rest
            break
    return word.removesuffix("e") if len(word) > 3 else word


class Index:
    """Which tools a query means."""

    def __init__(self, actions: Iterable[Action[..., Any]]) -> None:
        self._lengths: dict[str, int] = {}
        self._found: dict[str, dict[str, int]] = {}
        for action in actions:
            counted = Counter(_said(action))
            self._lengths[action.name] = sum(counted.values())
            for word, count in counted.items():
                self._found.setdefault(word, {})[action.name] = count
        self._vocabulary = sorted(self._found)
        self._average = sum(self._lengths.values()) / len(self._lengths) if self._lengths else 1.0

    def search(self, query: str, limit: int) -> list[str]:
        """Names, the best first; of two that are as good, the one that comes first in the alphabet."""
        scores: Counter[str] = Counter()
        for word in dict.fromkeys(words(query)):
            for known, share in self._known(word):
                self._add(scores, self._found[known], share)
        exact = snake_case(query.strip())
        if exact in self._lengths:
            scores[exact] += 1_000
        ranked = sorted(scores.items(), key=lambda pair: (-round(pair[1], 9), pair[0]))
        return [name for name, _ in ranked[:limit]]

    def _known(self, word: str) -> Iterable[tuple[str, float]]:
        """The word itself, or else what it may be the beginning of."""
        if word in self._found:
            return [(word, 1.0)]
        if len(word) < _SHORTEST_PREFIX:
            return []
        at, begins = bisect_left(self._vocabulary, word), []
        while at < len(self._vocabulary) and self._vocabulary[at].startswith(word):
            begins.append((self._vocabulary[at], 0.5))
            at += 1
        # The other way round, for endings that were not cut off.
        return (
            begins
            or [(word[:end], 0.5) for end in range(len(word) - 1, 3, -1) if word[:end] in self._found][:1]
        )

    def _add(self, scores: Counter[str], found: Mapping[str, int], share: float) -> None:
        total = len(self._lengths)
        weight = share * log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
        for name, count in found.items():
            length = 1 - _B + _B * self._lengths[name] / self._average
            # A Counter may hold any number.
            scores[name] += weight * count * (_K + 1) / (count + _K * length)  # type: ignore[assignment]


def _said(action: Action[..., Any]) -> Iterable[str]:
    yield from words(action.name) * _NAME
    if action.title:
        yield from words(action.title)
    yield from words(action.description)
    yield from words(str(action.docs.get("when_to_use") or ""))
    for name in action.input.json_schema.get("properties", {}):
        yield from words(name)
