"""Basic shapes are compiled without pydantic's generators, and are what those would have made of them."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Optional, Required, TypedDict

import pytest
from annotated_types import Ge, MaxLen, MultipleOf
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import AfterValidator, Field

from fairlead.schema import Schema, basics, signature_of
from fairlead.schema import typed as compiling
from fairlead.schema.hints import hints_of
from fairlead.schema.signature import Signature


class Point(TypedDict):
    x: int
    y: NotRequired[float]


class Line(TypedDict, total=False):
    """Two points.

    And a name.
    """

    start: Required[Point]
    end: Point | None
    name: Annotated[str, "What people call it."]
    tags: dict[str, list[Literal["a", "b"]]]


class Tree(TypedDict):
    left: "Tree | None"


class Loose(TypedDict):
    __pydantic_config__ = {"extra": "allow"}  # type: ignore[misc]  # noqa: RUF012
    x: int


class Limited(TypedDict):
    """What limits can be."""

    name: Annotated[str, Field(min_length=1, max_length=3, description="What people call it.")]
    x: Annotated[int, "in words", Field(ge=0), Field(lt=5)]
    y: NotRequired[Annotated[float, Field(gt=0, le=1.5, description="Two\n  lines.")] | None]
    tags: Annotated[list[Annotated[str, MaxLen(3)]], Field(max_length=2)]
    start: Annotated[Literal["one", "two"] | None, Field(description="Where it starts.")]


SCALARS = st.sampled_from(
    [
        *(str, int, float, bool, None, Literal["one"], Literal["one", "two"], Point, Line, Limited),
        Annotated[str, Field(min_length=0)],
        Annotated[int, Ge(1), MultipleOf(5)],
        Annotated[float, Field(lt=2)],
    ]
)
HINTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda hint: list[hint]),  # type: ignore[valid-type]
        inner.map(lambda hint: dict[str, hint]),  # type: ignore[valid-type]
        inner.map(lambda hint: Optional[hint]),  # noqa: UP045
        inner.map(lambda hint: Annotated[hint, "in words"]),
        inner.map(lambda hint: Annotated[hint, Field(description="in a Field")]),
        inner.map(lambda hint: Annotated[list[hint], Field(min_length=1)]),  # type: ignore[valid-type]
    ),
    max_leaves=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "one", "two", "x", "5"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "start", "end", "name", "tags", "a"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def by_pydantic(compile: Callable[[], Schema]) -> Schema:
    """The same shape, made without the short way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basics, "core", lambda hint: None)
        patch.setattr(basics, "document", lambda core: None)
        schema = compile()
        _ = schema.json_schema, schema.output_json_schema
        return schema


def told(schema: Schema, value: Any) -> Any:
    """The validated value and what it is dumped to, or the issues."""
    try:
        checked = schema.validate(value)
    except ValueError as error:
        return schema.issues(error)
    return repr(checked), repr(schema.dump(checked))


@given(HINTS, JSON)
def test_a_basic_hint_means_what_pydantic_makes_of_it(hint: Any, value: Any) -> None:
    assume(basics.core(hint) is not None)
    short, long = (make(lambda: compiling.typed(hint)) for make in (lambda f: f(), by_pydantic))
    assert short.json_schema == long.json_schema
    assert list(short.json_schema) == list(long.json_schema)
    assert short.output_json_schema == long.output_json_schema
    assert short.plain or not long.plain
    assert told(short, value) == told(long, value)
    assert (short.drop_blanks is None) == (long.drop_blanks is None)
    if short.drop_blanks is not None and long.drop_blanks is not None:
        assert short.drop_blanks(value) == long.drop_blanks(value)


def plan(title: Annotated[str, "Said here."], line: Line, late: bool = False, at: float = 0.5) -> None:
    """Plan something.

    Args:
        title: Said there.
        late: Whether it is late.
    """


def defaults(name: str | None = None, tags: list[str] = [], kind: Literal["a", "b"] = "a") -> None:  # noqa: B006
    """Nothing is needed."""


def limited(
    title: Annotated[str, Field(min_length=1, description="Said in a Field.")],
    priority: Annotated[int, "Said here.", Field(ge=1, le=5)] = 3,
    weight: Annotated[float | None, Field(description="In kilograms.")] = None,
) -> None:
    """Limit something.

    Args:
        title: Said there.
        weight: Said there.
    """


def odd_default(name: str = object()) -> None:  # type: ignore[assignment]
    """A default that JSON has no word for."""


def nothing() -> None:
    """Take nothing."""


@pytest.mark.parametrize("function", [plan, defaults, limited, odd_default, nothing])
def test_a_basic_signature_means_what_pydantic_makes_of_it(function: Any) -> None:
    assert Signature(function)._basic({}) is not None
    short, long = signature_of(function), by_pydantic(lambda: signature_of(function))
    assert short.json_schema == long.json_schema
    assert list(short.json_schema["properties"]) == list(long.json_schema["properties"])
    for value in (
        {},
        {"title": "", "priority": 9},
        {"title": "", "line": {"start": {"x": 1}}, "more": 1},
        {"name": "", "tags": [1]},
    ):
        assert told(short, value) == told(long, value)


@pytest.mark.parametrize(
    "hint",
    [
        *(Any, Tree, Loose, list, dict[int, str], int | str, Literal[1], bytes, set[int]),
        Annotated[str, Field(pattern="^a")],
        Annotated[int, Field(ge=1, title="One")],
        Annotated[int, Field(strict=False)],
        Annotated[int, Field(3)],
        Annotated[int, Field(ge=1), Field(ge=2)],
        Annotated[int, Field(ge=0.5)],
        Annotated[bool, Field(ge=0)],
        Annotated[int | None, Field(ge=1)],
        Annotated[Point, Field(description="A point.")],
        Annotated[str, Field(description="")],
        Annotated[str, Field(min_length=1, json_schema_extra={"x": 1})],
        Annotated[str, AfterValidator(str.strip)],
    ],
)
def test_other_hints_are_left_to_pydantic(hint: Any) -> None:
    assert basics.core(hint) is None


def test_a_name_that_is_not_defined_yet_is_left_to_pydantic() -> None:
    class Unknown(TypedDict):
        x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(NameError):
        hints_of(Unknown)
    assert basics.core(Unknown) is None
