"""Types: what fits is never refused, what is disjoint shares no value, and a schema says the same as its type."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fairlead import _json
from fairlead.pipelines.checking import Options, check_text
from fairlead.pipelines.schemas import schema_of, type_of
from fairlead.pipelines.spelling import read_type, spelled_type
from fairlead.pipelines.types import (
    BOOL,
    INT,
    JSON,
    NUMBER,
    STRING,
    UNIT,
    Alias,
    Array,
    Field,
    Product,
    Record,
    Sum,
    Type,
    assignable,
    disjoint,
    joined,
    resolve,
    shown,
)
from fairlead.pipelines.validating import checker, refusal
from pipeline_values import ANYTHING, TYPES, values

EXAMPLES = int(os.environ.get("FAIRLEAD_FUZZ", "100"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def holds(type: Type, value: Any) -> bool:
    """Whether a value is of a type, in the plainest words."""
    plain = resolve(type)
    match plain:
        case Array(item=item):
            return isinstance(value, list) and all(holds(item, each) for each in value)
        case Product(items=items):
            return isinstance(value, list) and len(value) == len(items) and all(map(holds, items, value))
        case Sum(variants=several):
            return any(holds(each, value) for each in several)
        case Record(fields=fields):
            if not isinstance(value, dict) or set(value) - {each.name for each in fields}:
                return False
            return all(
                holds(each.type, value[each.name]) if each.name in value else each.optional for each in fields
            )
    if plain == JSON:
        return True
    if isinstance(value, bool):
        return plain == BOOL
    kinds: dict[Any, Any] = {STRING: str, INT: int, NUMBER: (int, float), UNIT: None.__class__}
    return plain in kinds and isinstance(value, kinds[plain])


def wider(type: Type, other: Type) -> st.SearchStrategy[Type]:
    """Another type: as it is, or so that the first one fits, which types that are drawn alone seldom do."""
    return st.sampled_from((other, Sum((other, type)), joined((type, other))))


@many
@given(st.data(), TYPES)
def test_the_compiled_check_takes_exactly_the_values_of_a_type(data: st.DataObject, type: Type) -> None:
    value = data.draw(values(type) | ANYTHING)
    assert checker(type)(value) == holds(type, value)


@many
@given(st.data(), TYPES, TYPES)
def test_what_fits_is_never_refused(data: st.DataObject, given_type: Type, wanted: Type) -> None:
    wanted = data.draw(wider(given_type, wanted))
    assume(assignable(given_type, wanted))
    assert checker(wanted)(data.draw(values(given_type)))


@many
@given(st.data(), TYPES, TYPES)
def test_what_is_disjoint_has_no_value_in_common(data: st.DataObject, one: Type, other: Type) -> None:
    assume(disjoint(one, other))
    value = data.draw(values(one) | values(other))
    assert not (checker(one)(value) and checker(other)(value))


@many
@given(TYPES, TYPES)
def test_disjointness_is_the_same_both_ways_and_never_with_itself(one: Type, other: Type) -> None:
    assert disjoint(one, other) == disjoint(other, one)
    assert assignable(one, one)


@many
@given(st.data(), TYPES, TYPES, TYPES)
def test_fitting_goes_on_through_a_third(data: st.DataObject, one: Type, two: Type, three: Type) -> None:
    two = data.draw(wider(one, two))
    three = data.draw(wider(two, three))
    assume(assignable(one, two) and assignable(two, three))
    assert assignable(one, three)


@many
@given(st.data(), TYPES)
def test_what_the_checker_lets_through_a_wire_is_not_refused_at_its_end(
    data: st.DataObject, type: Type
) -> None:
    wanted = data.draw(TYPES)
    text = f"let main : !({shown(type)}) -> !({shown(wanted)}) = id"
    checked = check_text(text.replace("T", "json"), options=Options())
    assume(not checked.errors and checked.main is not None)
    assert checked.main is not None
    before, after = checked.main.input_type(), checked.main.output_type()
    assert checker(after)(data.draw(values(before)))


@many
@given(st.data(), TYPES)
def test_a_type_and_its_schema_take_the_same_values(data: st.DataObject, type: Type) -> None:
    jsonschema = pytest.importorskip("jsonschema_rs")
    value = data.draw(values(type) | ANYTHING)
    assume("1.0" not in repr(value) and ".0" not in repr(value))  # to JSON Schema, 1.0 is an integer
    assert jsonschema.validator_for(schema_of(type)).is_valid(value) == holds(type, value)


@many
@given(TYPES)
def test_a_type_comes_back_from_its_schema(type: Type) -> None:
    read = type_of(schema_of(type)).type
    assert assignable(type, read)


def test_a_type_may_be_part_of_itself() -> None:
    tree = Alias("Tree")
    tree.target = Sum((INT, Record((Field("left", tree), Field("right", tree)))))
    again = Alias("Again")
    again.target = Sum((INT, Record((Field("left", again), Field("right", tree)))))
    assert assignable(tree, again)
    assert assignable(again, tree)
    assert not disjoint(tree, again)
    assert disjoint(tree, STRING)
    check = checker(tree)
    assert check({"left": 1, "right": {"left": 2, "right": 3}})
    assert not check({"left": 1, "right": {"left": 2, "right": "3"}})
    assert assignable(type_of(schema_of(tree)).type, tree)


def test_a_value_that_is_nested_too_deeply_is_refused_and_does_not_crash() -> None:
    deep = Alias("Deep")
    deep.target = Sum((UNIT, Record((Field("in", deep),))))
    value: Any = None
    for _ in range(100_000):
        value = {"in": value}
    assert not checker(deep)(value)
    assert refusal(deep, value, "x").code == "validation_error"


@pytest.mark.parametrize(
    ("value", "path"),
    [({"a": 1, "b": [1, "x"]}, "/b/1"), ({"a": 1}, "/b"), ({"a": 1, "b": [], "c": 1}, "/c"), ([], "")],
)
def test_a_refusal_names_the_place_and_never_the_value(value: Any, path: str) -> None:
    type = Record((Field("a", INT), Field("b", Array(INT))))
    failure = refusal(type, value, "here")
    assert failure.details["path"] == path
    assert failure.details["source"] == "here"


@pytest.mark.parametrize(
    ("schema", "type", "beyond"),
    [
        ({"type": "string", "minLength": 1}, "string", 1),
        ({"enum": ["a", "b"]}, "string", 1),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | unit", 0),
        ({"type": ["integer", "null"]}, "int | unit", 0),
        ({"type": "object"}, "json", 1),
        ({"type": "object", "additionalProperties": False}, "{}", 0),
        ({"type": "object", "properties": {"id": {"type": "integer"}}}, '{ "id"?: int }', 0),
        ({"type": "array", "prefixItems": [{"type": "string"}, {}]}, "(string, json)", 0),
        ({}, "json", 0),
    ],
)
def test_a_schema_is_read_as_closely_as_types_can_say(schema: dict[str, Any], type: str, beyond: int) -> None:
    read = type_of(schema)
    assert (shown(read.type), len(read.beyond)) == (type, beyond)


@many
@given(TYPES)
def test_a_type_that_was_sent_to_another_process_is_the_same_there(type: Type) -> None:
    told = read_type(_json.loads(_json.encode(spelled_type(type))))
    assert shown(told) == shown(type)
    assert schema_of(told) == schema_of(type)


def test_a_type_that_is_part_of_itself_can_be_sent_too() -> None:
    tree = Alias("Tree")
    tree.target = Record((Field("kids", Array(tree)), Field("name", STRING, optional=True)))
    told = read_type(spelled_type(tree))
    assert checker(told)({"kids": [{"kids": [], "name": "x"}]})
    assert not checker(told)({"kids": [{"kids": [{}]}]})


def doubling(name: str, last: str, way: str, depth: int = 40) -> str:
    """Types that name the one before twice: written out, the last has two to the power of its depth parts."""
    lines = [f"type {name}0 = {last}"]
    lines += [f"type {name}{each + 1} = {way.replace('T', f'{name}{each}')}" for each in range(depth)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("ways", "last", "signature", "rules"),
    [
        ("{ x: T, y: T }", "int", "!A40 -> !B40 = id", []),
        ("{ x?: T, y?: T }", "int", "!A40 -> !B40 = id", []),
        ("(T, T)", "int", "!A40 -> !B40 = id", []),
        ("{ x: T } | { y: T }", "int", "!A40 -> !B40 = id", []),
        ("{ x: T, y: T }", "string", "!A40 -> !B40 = id", ["mismatch"]),
        ("{ x: T, y: T }", "int", "!(A40 | B40) -> !int = map(1)", ["overlap"]),
        ("{ x: T, y: T }", "string", "!(A40 | B40) -> !int = map(1)", []),
        ("T | T", "int", "!A40 -> !B40 = id", ["overlap"] * 80),
    ],
)
def test_types_that_name_others_often_are_compared_in_time_that_grows_with_the_text(
    ways: str, last: str, signature: str, rules: list[str]
) -> None:
    text = f"{doubling('A', 'int', ways)}\n{doubling('B', last, ways)}\nlet main : {signature}"
    assert [each.rule for each in check_text(text).errors] == rules


def test_a_type_that_is_far_longer_than_its_program_is_told_in_short() -> None:
    steps = " ; ".join(["map({ x: value, y: value })"] * 40)
    wrong = check_text(f"let main : !int -> !int = plumb(i, o) {{ i ; {steps} ; o }}").errors
    assert [each.rule for each in wrong] == ["mismatch"]
    assert len(wrong[0].message) < 1000


def test_the_schema_of_a_type_that_names_others_often_has_them_as_definitions() -> None:
    checked = check_text(doubling("A", "int", "{ x: T, y: T }"), options=Options(require_main=False))
    schema = schema_of(checked.types["A40"])
    assert schema["$ref"] == "#/$defs/A40"
    assert schema["$defs"]["A2"]["properties"]["x"] == {"$ref": "#/$defs/A1"}
    assert len(_json.dumps(schema)) < 20_000
