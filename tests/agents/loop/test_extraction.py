"""Values of a declared type in what models say, in time that grows with the text and no faster."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from fairlead import _json
from fairlead.agents.loop.extraction import correction, extract
from fairlead.failures.runtime import OutputExtractionFailed, OutputValidationFailed
from fairlead.schema import schema_of


class Answer(BaseModel):
    a: int
    note: str = ""


ANSWER = schema_of(Answer)
NESTED = '{"a": 1, "note": "a } and a ] and a \\" in text"}'


def a_of(text: str) -> int:
    value = extract(text, ANSWER)
    assert isinstance(value, Answer)
    return value.a


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}',
        ' \n{"a": 1}\n ',
        'Here it is:\n```json\n{"a": 1}\n```\nAnything else?',
        '```\n{"a": 0}\n```\nNo, this:\n```json\n{"a": 1}\n```',
        'First {"a": 0}, and then, after some thought, {"a": 1}. See [1] and [2].',
        f"The answer is {NESTED} as you see.",
        'An open { in a sentence, and a 5" disk, and {"a": 1}',
        'In code: `f(x[0]) { return }` and the answer {"a": 1} and f() { x }',
        '```json\n{"a": 1}',
        '{"a": "1"}',
        '{"a": 1} } ] )',
        '[ { "a": {"a": 1}',
        '```python\nprint("x")\n```\n{"a":1}',
    ],
)
def test_an_object_is_found_wherever_a_model_puts_it(text: str) -> None:
    assert a_of(text) == 1


def test_the_last_value_counts() -> None:
    assert extract("[1] and [2, 3]", schema_of(list[int])) == [2, 3]
    assert extract("It was 3, now it is 42.", schema_of(int)) == 42
    assert extract("Is it? false, no: true!", schema_of(bool)) is True
    assert extract('{"a": 5} or 7', schema_of(int)) == 7


def test_a_fenced_block_comes_before_other_values() -> None:
    assert a_of('```json\n{"a": 1}\n```\nnot {"a": 2}') == 1


def test_the_whole_reply_comes_first() -> None:
    assert extract('{"text": "```json\\n{}\\n```"}', schema_of(dict[str, str])) == {
        "text": "```json\n{}\n```"
    }


@pytest.mark.parametrize("text", ["", "I cannot do that.", "Take 3 apples.", "{a: 1}", "```json\n```", "NaN"])
def test_a_reply_without_a_value_of_that_kind_is_told_so(text: str) -> None:
    with pytest.raises(OutputExtractionFailed) as caught:
        extract(text, ANSWER)
    assert caught.value.expected == "JSON object"


@pytest.mark.parametrize("text", ['{"b": "SECRET"}', '{"a": "SECRET"}', '["SECRET"]', "42", '[{"a": 1}, 2]'])
def test_a_value_of_another_shape_is_told_what_is_wrong_and_not_what_it_was(text: str) -> None:
    with pytest.raises(OutputValidationFailed) as caught:
        extract(text, ANSWER)
    assert caught.value.issues
    assert "SECRET" not in caught.value.message + repr(caught.value.issues)


def test_a_number_with_separators_is_not_cut_in_pieces() -> None:
    with pytest.raises(OutputExtractionFailed):
        extract("It costs 1,234.50 in all.", schema_of(float))


def test_a_list_is_not_taken_apart_for_an_object_in_it() -> None:
    with pytest.raises(OutputValidationFailed):
        extract('Both: [{"a": 1}, {"a": 2}]', ANSWER)


@pytest.mark.parametrize("text", ["Hello, {} and [1].", '{"a": 1}', "42", "  spaced ", "", '"half'])
def test_for_text_the_reply_is_the_value(text: str) -> None:
    assert extract(text, schema_of(str)) == text


def test_for_text_a_json_string_is_taken_for_what_it_says() -> None:
    assert extract('"Hello \\u00e9"\n', schema_of(str)) == "Hello é"


@pytest.mark.parametrize("text", ["red", " red\n", '"red"', 'It is "red".'])
def test_a_choice_among_words_is_found(text: str) -> None:
    assert extract(text, schema_of(Literal["red", "blue"])) == "red"


def test_a_choice_that_there_is_not_is_told_so() -> None:
    with pytest.raises(OutputValidationFailed):
        extract("green", schema_of(Literal["red", "blue"]))


def test_a_type_of_several_kinds_takes_any_of_them() -> None:
    schema = schema_of(Answer | int | None)
    assert extract("Well: null", schema) is None
    assert extract("Well: 3", schema) == 3
    assert extract('Well: {"a": 3}', schema) == Answer(a=3)


def test_a_foreign_schema_works_as_well() -> None:
    schema = schema_of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert extract('n is {"n": 3}.', schema) == {"n": 3}
    assert extract("x [1]", schema_of({})) == [1]


def test_the_correction_names_every_problem_and_the_shape() -> None:
    with pytest.raises(OutputValidationFailed) as caught:
        extract('{"a": "x", "note": 3}', ANSWER)
    told = correction(caught.value, ANSWER)
    assert told.startswith("[System Notice]")
    assert "\n- a: " in told
    assert "\n- note: " in told
    assert '"properties"' in told
    assert '"properties"' not in correction(caught.value)


def test_the_correction_of_a_reply_without_a_value_asks_for_one() -> None:
    with pytest.raises(OutputExtractionFailed) as caught:
        extract("Sorry.", ANSWER)
    assert "no JSON object" in correction(caught.value)


def test_a_long_list_of_problems_is_cut() -> None:
    with pytest.raises(OutputValidationFailed) as caught:
        extract(_json.dumps(["x"] * 50), schema_of(list[int]))
    assert "and 40 more" in correction(caught.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
prose = st.text(alphabet="abc ,.\n'", max_size=30)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), prose, prose)
def test_any_object_is_found_in_any_prose(value: dict[str, Any], before: str, after: str) -> None:
    text = f"{before}\n{_json.dumps(value)}\n{after}"
    assert extract(text, schema_of(dict[str, Any])) == value


@given(st.text(alphabet='{}[]",:1a \\`\n', max_size=60))
def test_whatever_a_model_says_there_is_a_value_or_a_failure(text: str) -> None:
    try:
        value = extract(text, schema_of(list[Any]))
    except (OutputExtractionFailed, OutputValidationFailed):
        return
    assert isinstance(value, list)


HOSTILE = [
    "{",
    "[",
    '{"a":',
    '["\\"',
    '"\\',
    "```json\n",
    "[1,",
    "{x",
    "[]",
    "é{",
    "-1",
    " {}}",
    ',"',
    '{"a\\",',
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("spec", [Answer, int | str | None], ids=["object", "scalar"])
def test_hostile_text_takes_time_that_grows_with_its_length(piece: str, spec: Any) -> None:
    schema = schema_of(spec)

    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        started = time.process_time()
        with suppress(OutputExtractionFailed, OutputValidationFailed):
            extract(text, schema)
        return time.process_time() - started

    seconds(1_000)
    assert seconds(400_000) < 20 * max(0.04, seconds(40_000))
