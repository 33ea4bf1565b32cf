"""`Warnings`: what the author of a plugin should know, told once.

A warning's key is `<plugin>|<operation>|<reason>`. The last ones are kept in memory, for `fairlead plugin info` and
the console; each is written to Insights when it first comes up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple

#: Warnings that are kept.
KEPT: Final = 256
#: Keys of one plugin that are remembered as told. Reasons can hold a plugin's own words: what comes beyond stays
#: untold.
MOST_TOLD: Final = 4096
#: Characters of a key and of a text that are kept, for the same reason.
LONGEST_KEY: Final = 300
LONGEST: Final = 1000
UNKNOWN: Final = "<unknown>"


class Warned(NamedTuple):
    """One warning."""

    key: str
    text: str

    @property
    def plugin(self) -> str:
        plugin, bar, _ = self.key.partition("|")
        return plugin if bar else UNKNOWN


class Warnings:
    """The warnings of one app. `tell` is given each new one; without it they go to the program's log."""

    def __init__(self, tell: Callable[[Warned], None] | None = None) -> None:
        self._tell = tell
        self._told: dict[str, set[str]] = {}
        self._kept: dict[str, Warned] = {}
        self._lock = Lock()

    def once(self, plugin: str, operation: str, reason: str, text: str) -> bool:
        """Warn, unless the same was warned of before; whether it was told."""
        return self.add(f"{plugin}|{operation}|{reason}", text)

    def add(self, key: str, text: str) -> bool:
        """The same by a whole key. One without a bar belongs to no plugin that is known."""
        warned = Warned(key[:LONGEST_KEY], text[:LONGEST])
        with self._lock:
            told = self._told.setdefault(warned.plugin, set())
            if warned.key in told or len(told) >= MOST_TOLD:
                return False
            told.add(warned.key)
            self._kept[warned.key] = warned
            if len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        if self._tell is None:
            logging.getLogger("fairlead.plugins").warning("%s: %s", warned.plugin, warned.text)
        else:
            self._tell(warned)
        return True

    def all(self) -> list[Warned]:
        """What is kept, the oldest first."""
        with self._lock:
            return list(self._kept.values())

    def of(self, plugin: str) -> list[Warned]:
        """What is kept of one plugin, the oldest first."""
        return [each for each in self.all() if each.plugin == plugin]
