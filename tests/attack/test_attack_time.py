"""Attacks on time: texts and values of a size that can be sent, made to cost far more than their size."""

from __future__ import annotations

import time
from functools import reduce
from operator import or_
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from fairlead.failures.redaction import Redactor
from fairlead.schema import Invalid, schema_of

SIZE = 200_000


@pytest.mark.parametrize(
    "piece",
    [
        'password="x\n',
        'password=\\"x\n',
        "'authorization: x ",
        '"cookie: a',
        "('password', 'x\n",
        "<password>a",
        "input_value=",
        "://a:b@ ",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_redacting_hostile_text_takes_time_in_line_with_its_length(piece: str) -> None:
    text = (piece * (SIZE // len(piece) + 1))[:SIZE]
    began = time.process_time()
    once = Redactor().text(text)
    assert time.process_time() - began < 5  # it took a minute when it was quadratic
    assert Redactor().text(once) == once


def _union() -> Any:
    fields: list[Any] = [{"common": (list[int], ...), f"f{n}": (int, ...)} for n in range(20)]
    shapes = [create_model(f"Shape{n}", **each) for n, each in enumerate(fields)]
    either: Any = reduce(or_, shapes)
    return create_model("Holder", xs=(list[either], ...))


@pytest.mark.parametrize(
    "items",
    [
        [f"({'1,' * 9_990}){' ' * n}" for n in range(15)],
        [{"f0": "1", "common": ["1"] * 100}] * 300,
    ],
    ids=["literals", "errors"],
)
def test_a_union_of_many_does_not_multiply_the_cost_of_bad_input(items: list[Any]) -> None:
    schema = schema_of(_union())
    began = time.process_time()
    with pytest.raises(Invalid) as refused:
        schema.parse({"xs": items})
    assert time.process_time() - began < 2.4  # nine seconds, before readings were kept and errors counted
    assert 0 < len(refused.value.issues) <= 100


def test_values_that_share_parts_are_redacted_once_for_each_place_within_bounds() -> None:
    nested: Any = "end"
    for _ in range(60):
        nested = {"value": nested}
    began = time.process_time()
    Redactor().value(nested)
    assert time.process_time() - began < 1


class Unfit(BaseModel):
    x: int


def test_a_long_unknown_key_is_refused_at_once() -> None:
    began = time.process_time()
    with pytest.raises(Invalid):
        schema_of(Unfit).parse({"k" * 1_000_000: 1})
    assert time.process_time() - began < 2
