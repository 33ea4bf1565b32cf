"""What a built-in command is made of. Commands that belong to another surface live there and are found by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.pages import Row
    from fairlead.surfaces.cli.program import Program

Run = Callable[["Program", list[str]], int]


class Command(NamedTuple):
    """How a command is written, its options, and what it does; `run` gives the exit code."""

    usage: str
    rows: tuple[Row, ...]
    run: Run
    #: A line or two that one can type, shown at the end of the command's page.
    examples: tuple[str, ...] = ()
    #: Whether it sees `--help` itself, because another page may be meant.
    helps: bool = False


class Options:
    """The arguments of a built-in command, checked."""

    def __init__(
        self,
        arguments: list[str],
        switches: Collection[str] = (),
        valued: Collection[str] = (),
        words: int = 0,
    ) -> None:
        self.on: set[str] = set()
        self.values: dict[str, str] = {}
        self.words: list[str] = []
        rest = list(arguments)
        #: After `--` there are only words.
        plain = False
        while rest:
            token = rest.pop(0)
            flag, equals, value = token.partition("=")
            if flag == "--" and not equals and words and not plain:
                plain = True
            elif plain or not token.startswith("-") or (len(self.words) < words and _is_number(token)):
                self.words.append(token)
                if len(self.words) > words:
                    raise wrong_option(f"argument {len(arguments) - len(rest)}", "is one too many")
            elif flag in switches and not equals:
                self.on.add(flag)
            elif flag in valued:
                if not equals and not rest:
                    raise wrong_option(flag, "needs a value")
                self.values[flag] = value if equals else rest.pop(0)
            else:
                hint = near_miss(flag, [*switches, *valued])
                raise wrong_option(flag, f"there is no such option.{hint}")


def _is_number(token: str) -> bool:
    """Whether a word that begins as an option does is a negative number: no option is called so."""
    return token[1:2].isdecimal()
