"""Markdown on its way to a terminal: styled as it comes, and never lost."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.surfaces.cli.chat_markdown import Markdown
from fairlead.surfaces.cli.console import Paint

MARKS = st.text(alphabet="ab *`#->~1.)\n\t", max_size=60)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def styled(*pieces: str) -> str:
    markdown = Markdown(Paint(True))
    return "".join(markdown.feed(piece) for piece in pieces) + markdown.end()


def plain(*pieces: str) -> str:
    return COLOURS.sub("", styled(*pieces))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It **works** well.", "It \x1b[1mworks\x1b[0m well."),
        ("See `app.py`.", "See \x1b[36mapp.py\x1b[0m."),
        ("# Title\ntext", "\x1b[1mTitle\x1b[0m\ntext"),
        ("- one\n* two", "\x1b[36m•\x1b[0m one\n\x1b[36m•\x1b[0m two"),
        ("1. one", "\x1b[36m1.\x1b[0m one"),
        ("> said", "\x1b[2m│\x1b[0m said"),
        ("```py\nx = 1\n```\nend", "\x1b[2m```py\x1b[0m\n\x1b[36mx = 1\x1b[0m\n\x1b[2m```\x1b[0m\nend"),
        ("``a ` b``", "\x1b[36ma ` b\x1b[0m"),
    ],
)
def test_markup_is_shown_in_style(text: str, shown: str) -> None:
    assert styled(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "2 ** 3",
        "a*b*c",
        "**open\nnext",
        "a ` b",
        "#tag",
        "-5 degrees",
        "--- ",
        "1.5 kg",
        "*",
        "**",
        "`",
        "``",
    ],
)
def test_what_is_no_markup_stays_as_it_was_written(text: str) -> None:
    assert plain(text) == text


def test_markup_in_code_is_code() -> None:
    assert plain("```\n# no **title**\n- no list\n~~~\n```\n") == "```\n# no **title**\n- no list\n~~~\n```\n"


def test_text_is_shown_as_soon_as_it_is_known_what_it_is() -> None:
    markdown = Markdown(Paint(True))
    assert markdown.feed("Hel") == "Hel"
    assert markdown.feed("lo *") == "lo "
    assert markdown.feed("*bo") == ""
    assert markdown.feed("ld** x") == "\x1b[1mbold\x1b[0m x"


def test_a_mark_that_is_never_closed_does_not_hold_the_text_back_for_ever() -> None:
    markdown = Markdown(Paint(True))
    assert markdown.feed("**" + "x" * 500) != ""


@example("-  ", [2])
@example("#  a", [2])
@given(MARKS, st.lists(st.integers(0, 60), max_size=6))
def test_the_cuts_between_pieces_do_not_matter(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert plain(*pieces) == plain(text)


@given(MARKS)
def test_no_letter_and_no_line_is_lost(text: str) -> None:
    shown = plain(text)
    assert re.sub(r"[^ab1\n]", "", shown) == re.sub(r"[^ab1\n]", "", text)
