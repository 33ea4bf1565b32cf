"""Expressions: what one computes is of the type that the checker found, and wires compute what they say."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fairlead.pipelines import tree
from fairlead.pipelines.checking import check_text
from fairlead.pipelines.expressions import ERRORS, IllTyped, compiled, selected, typed
from fairlead.pipelines.parsing import parse
from fairlead.pipelines.problems import Problems, Source
from fairlead.pipelines.running import run_all
from fairlead.pipelines.types import BOOL, INT, NUMBER, STRING, Field, Product, Record, Sum, Type, shown
from fairlead.pipelines.validating import checker
from fairlead.schema.fits import same
from pipeline_texts import EXPRESSION
from pipeline_values import TYPES, values

EXAMPLES = int(os.environ.get("FAIRLEAD_FUZZ", "75"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

ORDER = Record((Field("a", INT), Field("b", NUMBER, optional=True)))
DONE = Record((Field("b", BOOL),))
COMMON = st.sampled_from([INT, NUMBER, BOOL, STRING, ORDER, DONE, Product((INT, STRING)), Sum((ORDER, DONE))])
INPUTS = st.one_of(COMMON, COMMON, TYPES)
CONDITIONS = st.sampled_from(
    [
        "a > 1",
        "b",
        "not b",
        "a = 1 or b > 2",
        "value > 1",
        "value.0 > 1",
        "value = 1",
        "value.a != 2",
        "true",
        "a / a > 1",
    ]
)


def expression(text: str) -> tree.Expression:
    problems = Problems()
    program = parse(Source("x", f"let f : !json -> !json = map({text})"), problems)
    assume(not problems.errors)
    (binding,) = program.declarations
    assert isinstance(binding, tree.Binding)
    assert isinstance(binding.impl, tree.Computed)
    return binding.impl.expression


@many
@given(st.data(), EXPRESSION, INPUTS)
def test_what_is_computed_is_of_the_type_that_was_found(data: st.DataObject, text: str, input: Type) -> None:
    try:
        made = typed(expression(text), input)
    except IllTyped:
        assume(False)
    value = data.draw(values(input))
    try:
        result = compiled(made)(value)
    except ERRORS:
        return
    assert checker(made.type)(result), f"{text} of {shown(input)} gives {result!r}, not {shown(made.type)}"


@many
@given(st.data(), CONDITIONS, COMMON)
def test_what_a_filter_lets_through_is_of_the_type_it_promises(
    data: st.DataObject, text: str, input: Type
) -> None:
    try:
        kept, made = selected(expression(text), input)
    except IllTyped:
        assume(False)
    value = data.draw(values(input))
    if checker(kept)(value):
        try:
            assert compiled(made)(value) in (True, False)
        except ERRORS:
            return


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        ("1 + 2 * 3", None, 7),
        ("(1 + 2) * 3", None, 9),
        ("10 - 2 - 3", None, 5),
        ("-value", 3, -3),
        ("not (value > 1) or value = 5", 5, True),
        ("value > 1 and value < 3", 2, True),
        ('"a" + "b"', None, "ab"),
        ('"a" < "b"', None, True),
        ("value / 2", 3, 1.5),
        ("{ x: value, y: (value, [value]) }", 1, {"x": 1, "y": [1, [1]]}),
        ("value.0 + value.1", [1, 2], 3),
        ("[1, 2] = [1, 2]", None, True),
        ("unit", 1, None),
        ("1 != 2", 1, True),
        ("1.5e1", None, 15.0),
    ],
)
async def test_an_expression_means_what_it_says(text: str, value: Any, result: Any) -> None:
    types = {int: "int", list: "(int, int)"}
    given_type = types.get(type(value), "unit")
    source = f"let main : !{given_type} -> !json = map({text})"
    checked = check_text(source)
    assert [each.shown() for each in checked.errors] == []
    assert checked.main is not None
    assert await run_all(checked.main, [value]) == [result]


def test_one_is_not_true_and_is_one_point_nought() -> None:
    assert same(1, 1.0)
    assert not same(1, True)
    assert not same([0], [False])
    assert same({"a": [1]}, {"a": [1.0]})


STEPS = st.lists(
    st.sampled_from(
        ["map(value + 1)", "map(value * 2)", "filter(value > 3)", "filter(value < 40)", "id", "copy"]
    )
    | st.just("(map(value + 1) * id) ; merge"),
    max_size=6,
)


def naive(steps: list[str], values: list[int]) -> list[int]:
    """The same, step by step."""
    for step in steps:
        made: list[int] = []
        for value in values:
            made += {
                "map(value + 1)": [value + 1],
                "map(value * 2)": [value * 2],
                "filter(value > 3)": [value] if value > 3 else [],
                "filter(value < 40)": [value] if value < 40 else [],
                "(map(value + 1) * id) ; merge": [value + 1, value],
            }.get(step, [value])
        values = made
    return sorted(values)


@settings(max_examples=min(EXAMPLES, 100), deadline=None)
@given(STEPS, st.lists(st.integers(-5, 50), max_size=8))
def test_fused_wires_give_what_single_steps_give(steps: list[str], values: list[int]) -> None:
    import asyncio

    chain = " ; ".join(["i", *steps, "o"])
    checked = check_text(f"let main : !int -> !int = plumb(i, o) {{ {chain} }}")
    assert checked.main is not None
    assert sorted(asyncio.run(run_all(checked.main, values))) == naive(steps, values)
