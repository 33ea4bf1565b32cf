"""What to say to those who mistyped. Nobody else pays for it."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.failures import Failure, Issue, Kind


def near_miss(word: str, choices: Iterable[str]) -> str:
    """`' Did you mean "x"?'`, or nothing when no choice is close."""
    close = closest(word, choices)
    return f" Did you mean {close!r}?" if close is not None else ""


def closest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that was most likely meant, if one is close."""
    from fairlead.schema import wording

    # Dashes that all flags have in common make no two of them alike.
    bare = {each.lstrip("-"): each for each in choices}
    close = wording.closest(word.lstrip("-"), bare)
    return None if close is None else bare[close]


def misuse(*issues: Issue) -> Failure:
    """The failure of a command line that makes no sense."""
    return Failure(Kind.invalid_input, "The command line cannot be understood.", issues=issues)


def wrong_option(flag: str, message: str) -> Failure:
    """The failure of one option."""
    return misuse(Issue((flag,), "invalid_option", message))
