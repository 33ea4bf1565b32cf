"""Whatever the text is, the parser and the checker answer: no crash, and every problem has its place.

Quick by default; FAIRLEAD_FUZZ=N tries N texts, and `fuzz.py` beside this a million.
"""

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.pipelines.checking import check_text
from pipeline_texts import TOP, WORDS, sound

EXAMPLES = int(os.environ.get("FAIRLEAD_FUZZ", "150"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    sound(text)


@many
@given(st.lists(WORDS, max_size=60).map(" ".join))
def test_any_row_of_words_is_answered(text: str) -> None:
    sound(text)


@many
@given(st.lists(TOP, max_size=5).map("\n".join))
def test_any_program_is_answered(text: str) -> None:
    sound(text)


@many
@given(st.lists(TOP, min_size=1, max_size=4).map("\n".join), st.data())
def test_any_broken_program_is_answered(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 8)))
    sound(text[:start] + data.draw(st.sampled_from(["", "{", "}", "(", ";", "let", '"'])) + text[stop:])


def test_programs_that_nest_without_end_are_refused_in_words() -> None:
    for text in (
        "type T = " + "[" * 20_000,
        "let f : !int -> !int = map(" + "-" * 20_000 + "1)",
        "let f : !bool -> !bool = map(" + "not " * 10_000 + "value)",
        "let f : !int -> !int = map(value" + " + 1" * 10_000 + ")",
        "let f : !int -> !int = map(value" + ".a" * 10_000 + ")",
        "protocol P = " + "send int . " * 10_000 + "end",
        "type T = " + "!" * 20_000 + "int",
        "(*" * 20_000,
    ):
        found = check_text(text).errors
        assert found
        assert found[0].rule == "syntax"
