"""Known secret values are masked, however they arrive; and text and logs stay within bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.failures.tool import truncate
from fairlead.tools.masking import Mask
from fairlead.tools.processes_output import Kept, Log, Printed, Tail

NAMES = {"KEY": "abcdef", "LONG": "abcdefghij", "OTHER": "defghi-xyz"}


def test_the_longest_value_wins() -> None:
    assert Mask(NAMES).text("abcdefghij abcdef") == "[REDACTED:LONG] [REDACTED:KEY]"


def test_short_values_are_left_alone() -> None:
    assert Mask({"PIN": "12345", "EMPTY": ""}).text("12345 and more") == "12345 and more"


def test_signs_of_patterns_are_plain_signs() -> None:
    assert Mask({"K": "a.c*(e["}).text("a.c*(e[ abc*(e[") == "[REDACTED:K] abc*(e["


@pytest.mark.parametrize("cut", range(len("xxabcdefghijyy")))
def test_a_value_in_two_pieces_is_masked(cut: int) -> None:
    text, pieces = "xxabcdefghijyy", Mask(NAMES).pieces()
    assert pieces.feed(text[:cut]) + pieces.feed(text[cut:]) + pieces.close() == "xx[REDACTED:LONG]yy"


def test_only_what_may_become_a_value_is_held_back() -> None:
    pieces = Mask(NAMES).pieces()
    assert pieces.feed("Password: ") == "Password: "
    assert pieces.feed("ok abc") == "ok "
    assert pieces.feed("x") == "abcx"


@settings(deadline=None)
@given(st.lists(st.sampled_from(["abc", "def", "ghij", "abcdef", "-xyz", " ", "a"]), max_size=30), st.data())
def test_pieces_say_what_the_whole_says(words: list[str], data: st.DataObject) -> None:
    text, mask = "".join(words), Mask(NAMES)
    pieces, shown, at = mask.pieces(), "", 0
    while at < len(text):
        size = data.draw(st.integers(1, 7))
        shown += pieces.feed(text[at : at + size])
        at += size
    assert shown + pieces.close() == mask.text(text)


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(1, 20))
def test_bytes_in_pieces_say_what_the_whole_says(data: bytes, size: int) -> None:
    kept, tail = Kept(10_000), Tail()
    printed = Printed(Mask({}), kept, tail)
    for at in range(0, len(data), size):
        printed.feed(data[at : at + size])
    printed.close()
    assert kept.text() == data.decode(errors="replace")


@settings(deadline=None)
@given(st.text("ab \n", max_size=400), st.integers(1, 50), st.integers(1, 60))
def test_what_is_kept_is_what_cutting_the_whole_gives(text: str, cap: int, size: int) -> None:
    kept = Kept(cap)
    for at in range(0, len(text), size):
        kept.add(text[at : at + size])
    assert kept.text() == truncate(text, cap, head=0.4)
    if len(text) <= 2 * cap:
        assert kept.text(trim=True) == truncate(text.strip(), cap, head=0.4)


def test_the_tail_is_bounded_and_its_line_is_the_last_that_was_drawn() -> None:
    tail = Tail()
    tail.add("x" * 10_000 + "\n 10%\r 20%\r 30%\n\n")
    assert len(tail.text) <= 600
    assert tail.line == "30%"


def test_a_log_keeps_its_newest_part(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(os.open(path, os.O_RDWR | os.O_CREAT), 1000)
    for number in range(1000):
        log.add(f"line {number}\n")
        assert path.stat().st_size <= 1000
    log.add("y" * 5000 + "\n")
    assert path.stat().st_size <= 1000
    log.add("last\n")
    log.close()
    lines = path.read_text().splitlines()
    assert lines[0] == "[the older part of this log was dropped]"
    assert lines[-1] == "last"
