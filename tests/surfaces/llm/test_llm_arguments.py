"""Arguments as models write them: one clear meaning is read, and the rest is refused without being repeated."""

from __future__ import annotations

import ast
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.failures import Failure, Kind
from fairlead.schema.fits import same
from fairlead.tools.arguments import arguments_of
from fairlead.tools.mending import Unreadable, mended

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9, allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)

SLIPS = [
    ("", {}),
    ("  \n ", {}),
    ('{"a": 1,}', {"a": 1}),
    ('{"a": [1, 2,],}', {"a": [1, 2]}),
    ("{'a': 'b'}", {"a": "b"}),
    ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}),
    ('{"a": "it\'s"}', {"a": "it's"}),
    (r"{'a': 'it\'s'}", {"a": "it's"}),
    ("{a: 1}", {"a": 1}),
    ("{a_b-c: true}", {"a_b-c": True}),
    ('{"a": True, "b": None, "c": False}', {"a": True, "b": None, "c": False}),
    ("{'a': (1, 2)}", {"a": [1, 2]}),
    ('```json\n{"a": 1}\n```', {"a": 1}),
    ('```\n{"a": 1}', {"a": 1}),
    ("```json\n{'a': 1,}\n```\n", {"a": 1}),
    ('{"a": "x"', {"a": "x"}),
    ('{"a": {"b": ["x"', {"a": {"b": ["x"]}}),
    ('{"a": true', {"a": True}),
    ('{"a": 1}}', {"a": 1}),
    ('{"a": 1}{"a": 1}', {"a": 1}),
    ('{}{"a": 1}', {"a": 1}),
    ('{"a": 1} {}', {"a": 1}),
    ("{}{}", {}),
    ('"{\\"a\\": 1}"', {"a": 1}),
    ('"\\"{\\\\\\"a\\\\\\": 1}\\""', {"a": 1}),
    ('{"a": 1} // done', {"a": 1}),
    ('{/* first */ "a": 1}', {"a": 1}),
    ('{"a": "line\nbreak\tand tab"}', {"a": "line\nbreak\tand tab"}),
    ('\ufeff{"a": 1}', {"a": 1}),
    ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ("{'a': '\\ud83d\\ude00'}", {"a": "😀"}),
    ("{'a': '\\ud83d'}", {"a": "�"}),
    ('{"a": 1, "a": 1,}', {"a": 1}),
    ("null", None),
    ("[1, 2,]", [1, 2]),
]

UNCLEAR = [
    '{"a": [1]]}',
    '{"a": "cut of',
    '{"a": 12',
    '{"a": [1, 2',
    '{"a": "x",',
    '{"a":',
    '{"a"',
    "{",
    '{"a": [',
    '{"a": {"b"',
    '{"a": 1}{"a": 2}',
    '{"a": 1}{"a": true}',
    "{'a': 'it's'}",
    r'{"path": "C:\dir\new"}',
    r'{"a": "\u12"}',
    '{"a": word}',
    '{"a": 1 "b": 2}',
    '{"a" 1}',
    '{"a": NaN}',
    "{'a': Infinity}",
    '{"a": 1e999,}',
    '{"a": 01}',
    '{"a": .5}',
    '{"a": +1}',
    '{1: "a"}',
    '{"a": 1, "a": 2,}',
    'Sure! {"a": 1}',
    '{"a": 1} I hope this helps.',
    "secret words",
    '"secret words"',
    "<xml/>",
    "{" * 200,
    "[" * 5000 + "]" * 4999,
]


@pytest.mark.parametrize(("text", "meant"), SLIPS)
def test_a_slip_with_one_clear_meaning_is_mended(text: str, meant: Any) -> None:
    assert same(arguments_of(text).value, meant)


@pytest.mark.parametrize("text", UNCLEAR)
def test_what_could_mean_something_else_is_refused_with_advice(text: str) -> None:
    with pytest.raises(Failure) as caught:
        arguments_of(text)
    failure = caught.value
    assert failure.kind is Kind.malformed
    assert failure.expected == "a JSON object"
    assert "Send one JSON object" in failure.message


def test_a_refusal_says_where_and_never_what() -> None:
    with pytest.raises(Failure) as caught:
        arguments_of('{"token":\n  hunter2}')
    assert "line 2, column 3" in caught.value.message
    assert "hunter2" not in caught.value.message
    assert "token" not in caught.value.message


def test_what_was_mended_is_noted() -> None:
    notes = arguments_of("```\n{'a': True,}\n```").notes
    assert len(notes) == 4
    assert all(note.startswith("arguments: ") for note in notes)
    assert arguments_of('{"a": 1}').notes == []
    assert arguments_of("").notes == []


@pytest.mark.parametrize("given", [{"a": 1}, [1], 5, None])
def test_what_is_no_text_is_taken_as_it_is(given: Any) -> None:
    assert arguments_of(given).value == ({} if given is None else given)


def test_bytes_are_text() -> None:
    assert arguments_of(b'{"a": 1}').value == {"a": 1}


@settings(max_examples=80, deadline=None)
@given(OBJECTS, st.sampled_from([None, 1, "\t"]))
def test_proper_json_is_read_as_it_is(value: Any, indent: Any) -> None:
    for text in (json.dumps(value, indent=indent), json.dumps(value, ensure_ascii=False)):
        arguments = arguments_of(text)
        assert same(arguments.value, value)
        assert arguments.notes == []
        assert same(mended(text).value, value)


@settings(max_examples=80, deadline=None)
@given(OBJECTS)
def test_python_literals_are_read_as_what_they_say(value: Any) -> None:
    text = repr(value)
    try:
        found = arguments_of(text).value
    except Failure:
        assert "\\x" in text or "\\U" in text  # Python's own escapes
        return
    assert same(found, ast.literal_eval(text))


@settings(max_examples=100, deadline=None)
@given(OBJECTS, st.data())
def test_what_is_cut_off_is_refused_or_loses_no_begun_value(value: Any, data: st.DataObject) -> None:
    """A cut text is read only where nothing that was begun is missing; whatever came whole is there unchanged."""
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    try:
        found = arguments_of(cut).value
    except Failure:
        return
    assert begins(found, value)


def begins(found: Any, value: Any) -> bool:
    if isinstance(value, dict) and isinstance(found, dict):
        keys = list(value)[: len(found)]
        return list(found) == keys and all(begins(found[key], value[key]) for key in keys)
    if isinstance(value, list) and isinstance(found, list):
        return len(found) <= len(value) and all(map(begins, found, value))
    return same(found, value)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("{}[](),:'\"\\/*`abtrue1.-Nn \n"), max_size=30))
def test_any_text_is_a_value_or_a_refusal(text: str) -> None:
    with contextlib.suppress(Unreadable):
        json.dumps(mended(text).value)


def test_a_long_text_takes_time_in_proportion() -> None:
    text = "{'a': [" + "'x', " * 30_000 + "]}"
    assert len(arguments_of(text).value["a"]) == 30_000
    with pytest.raises(Failure):
        arguments_of("{'a': '" + "x" * 300_000)
