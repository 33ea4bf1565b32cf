"""JSON safety of values without a declared type."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from fairlead._json import dumps, loads, plain
from fairlead.schema import NotJsonable, jsonable, schema_of


class Colour(Enum):
    red = "r"


class Size(IntEnum):
    big = 3


class Word(StrEnum):
    yes = "y"


@dataclass
class Point:
    x: int
    when: date


class Struct(msgspec.Struct):
    a: int


@attrs.define
class Attrs:
    b: Colour


class Model(BaseModel):
    c: datetime


class Pair(NamedTuple):
    one: int
    two: str


MOMENT = datetime(2026, 1, 31, 13, 45, tzinfo=UTC)

SPELLED: list[tuple[Any, Any]] = [
    ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
    ((1, (2,)), [1, [2]]),
    (MOMENT, "2026-01-31T13:45:00Z"),
    (date(2026, 1, 31), "2026-01-31"),
    (time(13, 45), "13:45:00"),
    (timedelta(minutes=15), "PT15M"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Decimal("1.50"), "1.50"),
    (PurePosixPath("/tmp/x"), "/tmp/x"),
    ([Colour.red, Size.big, Word.yes], ["r", 3, "y"]),
    (Point(1, date(2026, 1, 31)), {"x": 1, "when": "2026-01-31"}),
    (Struct(1), {"a": 1}),
    (Attrs(Colour.red), {"b": "r"}),
    (Model(c=MOMENT), {"c": "2026-01-31T13:45:00Z"}),
    (Pair(1, "a"), [1, "a"]),
    (OrderedDict(a=1), {"a": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (10**40, 10**40),
]


@pytest.mark.parametrize(("value", "expected"), SPELLED, ids=lambda value: type(value).__name__)
def test_known_values_get_their_json_spelling(value: Any, expected: Any) -> None:
    assert jsonable(value) == expected
    assert schema_of(Any).dump(value) == expected


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append({"again": ring, "twice": ring})
    return ring


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    return value


@dataclass
class Node:
    left: Any
    right: Any


def knot() -> Node:
    node = Node(None, None)
    node.left = node.right = node
    return node


REFUSED: list[tuple[Any, tuple[str | int, ...]]] = [
    ({"a": {1}}, ("a",)),
    ([lambda: None], (0,)),
    (iter([1]), ()),
    ({"a": b"x"}, ("a",)),
    ([float("nan")], (0,)),
    (float("inf"), ()),
    (Decimal("NaN"), ()),
    ({"a": {1: "x"}}, ("a", 1)),
    ({None: 1}, ("NoneType",)),
    (object(), ()),
    (1j, ()),
    ("\ud800", ()),
]


@pytest.mark.parametrize(("value", "path"), REFUSED, ids=lambda value: type(value).__name__)
def test_what_json_cannot_say_is_refused_with_its_path(value: Any, path: tuple[str | int, ...]) -> None:
    with pytest.raises(NotJsonable) as caught:
        jsonable(value)

    assert caught.value.path == path


@pytest.mark.parametrize("build", [circle, deep, knot])
def test_cycles_and_depth_are_refused(build: Any) -> None:
    with pytest.raises(NotJsonable):
        jsonable(build())


def test_shared_references_are_fine() -> None:
    shared = {"a": [1]}

    assert jsonable([shared, shared, {"x": shared}]) == [shared, shared, {"x": shared}]


def test_the_result_is_a_copy() -> None:
    value = {"a": [1]}

    result = jsonable(value)
    value["a"].append(2)

    assert result == {"a": [1]}


def test_typed_outputs_refuse_what_json_cannot_say() -> None:
    class Reading(BaseModel):
        level: float
        extra: Any = None

    schema = schema_of(Reading)
    for bad in (Reading(level=float("nan")), Reading(level=1.0, extra={1, 2})):
        with pytest.raises(ValueError) as caught:
            schema.dump(schema.validate(bad))
        assert [issue.code for issue in schema.issues(caught.value)] == ["unserializable"]


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=5)
    | st.uuids()
    | st.dates()
    | st.decimals()
    | st.sampled_from([Colour.red, Size.big, Word.yes])
    | st.binary(max_size=2)
)
VALUES = st.recursive(
    LEAVES,
    lambda each: (
        st.lists(each, max_size=4)
        | st.tuples(each, each)
        | st.dictionaries(st.text(max_size=3) | st.integers(), each, max_size=4)
    ),
)


@given(VALUES)
def test_what_is_spelled_at_once_is_spelled_as_after_a_closer_look(value: Any) -> None:
    spelled = plain(value)
    assert spelled is None or spelled == dumps(jsonable(value))


def test_only_what_is_json_is_spelled_at_once() -> None:
    nested: Any = []
    for _ in range(150):
        nested = [nested]
    itself: list[Any] = []
    itself.append(itself)
    for other in (float("nan"), {"a": [float("inf")]}, 2**70, {1: 2}, "\ud800", nested, itself, object()):
        assert plain(other) is None
    assert plain({"a": [1, 2.5, "x", True]}) == '{"a":[1,2.5,"x",true]}'


SPLIT = st.recursive(
    st.text(st.characters(exclude_categories=())) | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=5,
)


@given(SPLIT)
@example({"\ud800": 2**70})
def test_whatever_is_written_as_json_can_be_read_again(value: Any) -> None:
    loads(dumps(value))


def test_half_a_character_is_written_as_the_one_that_stands_for_such() -> None:
    value = {"\ud83d": ["\\ud83d \ud83d\ude00 \ude00", "plain"]}
    for indent in (False, True):
        assert loads(dumps(value, indent=indent)) == {"\ufffd": ["\\ud83d \U0001f600 \ufffd", "plain"]}
