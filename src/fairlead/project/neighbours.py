"""Which of an app's actions are alike by their names, in time that grows with the names and not with their pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead.actions import Action

#: Shorter names differ by a letter and are still told apart.
_SHORTEST: Final = 5


class Neighbours:
    """An app's actions, so that each finds those that it may be taken for."""

    def __init__(self, actions: Iterable[Action[..., Any]]) -> None:
        listed = list(actions)
        self._versions = Counter((each.name, each.version) for each in listed)
        self._names = [each.name for each in listed]
        #: Places in the list, by what names that are alike have in common.
        self._places: dict[Any, list[int]] = defaultdict(list)
        for place, name in enumerate(self._names):
            for mark in _marks(name):
                self._places[mark].append(place)

    def has_twin(self, action: Action[..., Any]) -> bool:
        """Whether another one has the same name and version."""
        return self._versions[action.name, action.version] > 1

    def alike(self, name: str) -> Iterator[str]:
        """Names after this one in the alphabet that are easily taken for it, in the order of the app."""
        words = _words(name)
        near = {place for mark in _marks(name) for place in self._places.get(mark, ())}
        for place in sorted(near):
            other = self._names[place]
            if other > name and (_words(other) == words or _one_apart(name, other)):
                yield other


def _marks(name: str) -> set[Any]:
    """Two names of which one letter makes the difference are equal when each leaves out one or none."""
    left_out = {name[:at] + name[at + 1 :] for at in range(len(name))} if len(name) >= _SHORTEST else set()
    return {_words(name), name, *left_out}


def _words(name: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in name.split("_"))


def _one_apart(one: str, other: str) -> bool:
    """Whether one letter makes the difference between two names of some length."""
    if abs(len(one) - len(other)) > 1 or min(len(one), len(other)) < _SHORTEST or one == other:
        return False
    short, long = sorted((one, other), key=len)
    at = next((index for index, letter in enumerate(short) if letter != long[index]), len(short))
    return short[at:] == long[at + 1 :] or (len(short) == len(long) and short[at + 1 :] == long[at + 1 :])
