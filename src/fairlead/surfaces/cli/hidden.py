"""Values that nobody may see: typed at a terminal without an echo, or read from stdin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.failures import Failure, Kind

if TYPE_CHECKING:
    from fairlead.surfaces.cli.console import Console


def hidden_value(console: Console, name: str, largest: int, command: str) -> str:
    """The value, typed where nobody sees it, or from stdin without the line end at its end.

    Raises:
        Failure: none came, or it is no text; `command` is what to type instead.
    """
    if console.interactive:
        from getpass import getpass

        return getpass(f"Value of {name!r} (not shown): ")
    try:
        # Two more than the largest for the line end, and one by which a larger one is told.
        given = console.stdin.read(largest + 3)
    except ValueError:
        # The error holds what was read.
        raise Failure(Kind.invalid_input, "The value on stdin is not UTF-8 text.") from None
    value = given.removesuffix("\n").removesuffix("\r")
    if not value:
        words = f"No value came on stdin. Type it at a terminal, or: {command} < FILE"
        raise Failure(Kind.invalid_input, words)
    return value
