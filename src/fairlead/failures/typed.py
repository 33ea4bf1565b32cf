"""How the running program is typed, for messages of rooms that know no command line.

A command does what a message wants only in the program that the message is about: another has another store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: The command line that runs, if one does, and the options by which it was told where its store is.
_running: Final[list[Callable[[], str]]] = []
_options: Final[list[str]] = []


@contextmanager
def typed_as(spelled: Callable[[], str]) -> Iterator[None]:
    """Let messages name this program until the end of the block."""
    before = list(_options)
    _running.append(spelled)
    _options.clear()
    try:
        yield
    finally:
        _running.pop()
        _options[:] = before


def chosen(option: str) -> None:
    """Let commands that messages name have this option."""
    _options[:] = [option]


def command(words: str, url: str = "") -> str:
    """A command of this program; where none is known, one for the store at this address."""
    if _running:
        return " ".join((_running[-1](), words, *_options))
    if not url:
        return f"fairlead {words}"
    import shlex

    return f"FAIRLEAD_DATABASE_URL={shlex.quote(url)} fairlead {words}"
