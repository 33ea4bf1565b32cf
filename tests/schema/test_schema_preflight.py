"""Preflight: every coercion of the tool contract, by the names its tests have, and the slips beyond them."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from effort import effort
from fairlead.schema import Invalid, Schema, schema_of, signature_of
from fairlead.schema.preflight import repair

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
STRINGS = {"type": "array", "items": {"type": "string"}}


def shape(required: bool = True, **properties: Any) -> Schema:
    return schema_of(
        {
            "type": "object",
            "properties": properties,
            "required": list(properties) if required else [],
            "additionalProperties": False,
        }
    )


def outcome(schema: Schema, value: Any) -> tuple[Any, list[str]]:
    """What a caller of the runtime gets: blanks dropped, validated, mended when refused."""
    notes: list[str] = []
    if schema.drop_blanks is not None:
        value, notes = schema.drop_blanks(value)
    try:
        return schema.validate(value), notes
    except ValueError as error:
        mended, more = schema.mend(value, error, repair=True)
        return mended, notes + more


def refusals(schema: Schema, value: Any) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(Invalid) as caught:
        outcome(schema, value)
    return {issue.path: issue.code for issue in caught.value.issues}


READ = {
    "integerAcceptsNativeInt": (INTEGER, 15, 15),
    "integerAcceptsStringEncoded": (INTEGER, "15", 15),
    "integerAcceptsIntegralDouble": (INTEGER, 15.0, 15.0),
    "integerAcceptsIntegralStringDouble": (INTEGER, "15.0", 15),
    "integerAcceptsSpacesAround": (INTEGER, " 15 ", 15),
    "integerAcceptsSign": (INTEGER, "-15", -15),
    "integerAcceptsAnySize": (INTEGER, "123456789012345678901234567890", 123456789012345678901234567890),
    "numberAcceptsNativeDouble": (NUMBER, 3.14, 3.14),
    "numberAcceptsNativeInt": (NUMBER, 3, 3),
    "numberAcceptsStringEncodedDouble": (NUMBER, "3.14", 3.14),
    "numberAcceptsStringEncodedExponent": (NUMBER, "1e3", 1000.0),
    "booleanAcceptsNative": (BOOLEAN, True, True),
    **{
        f"booleanAcceptsStringVocabulary-{word}": (BOOLEAN, word, meaning)
        for word, meaning in {
            "true": True, "false": False, "TRUE": True, "False": False, "1": True, "0": False,
            "yes": True, "no": False, "YES": True, " yes ": True,
        }.items()
    },
    "arrayAcceptsNative": (STRINGS, ["a"], ["a"]),
    "arrayAcceptsJSONEncodedString": (STRINGS, '["a","b"]', ["a", "b"]),
    "arrayAcceptsJSONEncodedEmptyArrayString": (STRINGS, "[]", []),
    "unwrapsStringifiedArrayToNative": ({"type": "array"}, "[1, 2]", [1, 2]),
    "unwrapsStringifiedObjectToNative": ({"type": "object"}, '{"a": 1}', {"a": 1}),
    "unwrapsStringifiedIntegerToNative": (INTEGER, "7", 7),
    "unwrapsStringifiedBooleanToNative": (BOOLEAN, "true", True),
    "nativeArrayIsLeftUnchanged": ({"type": "array"}, ["1", "true"], ["1", "true"]),
    "openSchemaWithoutTypeDoesNothing": ({}, "15", "15"),
    "enumNormalizesCanonicalCaseDuringCoercion": ({"type": "string", "enum": ["a b", "c"]}, "A B", "a b"),
    "enumExactHitIsLeftAlone": ({"type": "string", "enum": ["a", "A"]}, "A", "A"),
    "nullableEnumAcceptsRequiredNull": ({"enum": ["a", None]}, None, None),
    "nullTextForNullable": ({"type": ["integer", "null"]}, " NULL ", None),
    "nullTextForOpenApiNullable": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "none", None),
    "nullTextForNullableEnum": ({"enum": ["a", None]}, "null", None),
    "nullTextForNullableFormat": ({"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}, "null", None),
    "nullTextForNullableFormatInOne": ({"type": ["string", "null"], "format": "date"}, "None", None),
    "nullTextForNullablePattern": (
        {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9.]+$"}, {"type": "null"}]}, "null", None
    ),
    "nullTextForNullableText": ({"type": ["string", "null"]}, "null", "null"),
    "oneOfTakesTheBranchThatFits": ({"oneOf": [INTEGER, STRINGS]}, '["a"]', ["a"]),
    "oneOfReadsAScalar": ({"oneOf": [INTEGER, STRINGS]}, "5", 5),
    "arrayItemsAreReadOneByOne": ({"type": "array", "items": INTEGER}, ["1", 2], [1, 2]),
    "patternIsASearch": ({"type": "string", "pattern": "b"}, "abc", "abc"),
    "rangeHoldsForReadText": ({"type": "integer", "minimum": 1, "maximum": 9}, "9", 9),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_clearly_meant_is_read(case: str) -> None:
    declared, given, expected = READ[case]

    read, _ = outcome(shape(x=declared), {"x": given})

    assert read == {"x": expected}
    assert type(read["x"]) is type(expected)


REFUSED = {
    "integerRejectsFractionalDouble": (INTEGER, 15.5, "type"),
    "integerRejectsFractionalString": (INTEGER, "15.5", "type"),
    "integerRejectsNonNumericString": (INTEGER, "abc", "type"),
    "integerRejectsBoolean": (INTEGER, True, "type"),
    "integerRejectsUnderscores": (INTEGER, "1_000", "type"),
    "numberRejectsNonNumericString": (NUMBER, "abc", "type"),
    "numberRejectsBoolean": (NUMBER, True, "type"),
    "numberRejectsInfinity": (NUMBER, "inf", "type"),
    "numberRejectsNaN": (NUMBER, "nan", "type"),
    "numberRejectsOverflow": (NUMBER, "1e999", "type"),
    "booleanRejectsArbitraryString": (BOOLEAN, "maybe", "type"),
    "booleanRejectsNumberOutsideZeroOne": (BOOLEAN, 2, "type"),
    "booleanRejectsOne": (BOOLEAN, 1, "type"),
    "arrayRejectsBareString": (STRINGS, "abc", "type"),
    "arrayRejectsObjectEncodedString": (STRINGS, '{"a": 1}', "type"),
    "stringStillRejectsInteger": ({"type": "string"}, 5, "type"),
    "stringStillRejectsBoolean": ({"type": "string"}, True, "type"),
    "enumStillRejectsUnknownValue": ({"type": "string", "enum": ["a", "b"]}, "c", "enum"),
    "enumRejectsAmbiguousCase": ({"type": "string", "enum": ["Aa", "aA"]}, "AA", "enum"),
    "typesThatReadDifferently": ({"type": ["integer", "boolean"]}, "1", "type"),
    "patternRefuses": ({"type": "string", "pattern": "^b"}, "abc", "pattern"),
    "rangeRefusesBelow": ({"type": "integer", "minimum": 1}, 0, "too_small"),
    "rangeRefusesReadText": ({"type": "integer", "maximum": 9}, "10", "too_large"),
    "arrayItemsRefuseAtTheirPath": (INTEGER, [1], "type"),
    "nullForRequired": (INTEGER, None, "type"),
    "blankForRequired": (INTEGER, "", "type"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_clear_is_refused(case: str) -> None:
    declared, given, code = REFUSED[case]

    assert refusals(shape(x=declared), {"x": given}) == {("x",): code}


def test_top_level_integer_coerces_string() -> None:
    assert outcome(schema_of(INTEGER), "15")[0] == 15


def test_top_level_boolean_coerces_string() -> None:
    assert outcome(schema_of(BOOLEAN), "yes")[0] is True


def test_package_list_as_text_and_flag_as_word() -> None:
    schema = shape(False, packages=STRINGS, upgrade=BOOLEAN)

    assert outcome(schema, {"packages": '["numpy"]', "upgrade": "false"})[0] == {
        "packages": ["numpy"],
        "upgrade": False,
    }


def test_command_with_timeout_as_text_and_blank_directory() -> None:
    schema = schema_of(
        {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout": INTEGER, "cwd": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": False,
        }
    )

    value, notes = outcome(schema, {"command": "ls", "timeout": "15", "cwd": ""})

    assert value == {"command": "ls", "timeout": 15}
    assert len(notes) == 2


@pytest.mark.parametrize("blank", ["", "   ", "\n\t"])
def test_blank_optional_string_is_dropped(blank: str) -> None:
    assert outcome(shape(False, x={"type": "string"}), {"x": blank})[0] == {}


def test_blank_required_string_is_preserved() -> None:
    assert outcome(shape(x={"type": "string"}), {"x": ""}) == ({"x": ""}, [])


def test_blank_that_an_enum_lists_is_preserved() -> None:
    assert outcome(shape(False, x={"type": "string", "enum": ["", "a"]}), {"x": ""}) == ({"x": ""}, [])


def test_blank_that_a_minimum_length_of_zero_invites_is_preserved() -> None:
    def note(text: Annotated[str, Field(min_length=0)] = "none") -> None: ...

    assert outcome(signature_of(note), {"text": ""}) == ({"text": ""}, [])


def test_blank_optional_enum_is_absent() -> None:
    assert outcome(shape(False, x={"type": "string", "enum": ["a"]}), {"x": ""})[0] == {}


@pytest.mark.parametrize("declared", [INTEGER, STRINGS, BOOLEAN, {"type": "object"}])
@pytest.mark.parametrize("filler", ["", None, "null", "None"])
def test_filler_for_an_optional_non_string_is_absent(declared: dict[str, Any], filler: Any) -> None:
    assert outcome(shape(False, x=declared), {"x": filler})[0] == {}


def test_blanks_are_dropped_in_nested_objects_and_lists() -> None:
    class Item(TypedDict):
        name: str
        note: NotRequired[str]

    def store(items: list[Item], owner: Item) -> None: ...

    value, notes = outcome(
        signature_of(store),
        {"items": [{"name": "a", "note": " "}], "owner": {"name": "", "note": ""}},
    )

    assert value == {"items": [{"name": "a"}], "owner": {"name": ""}}
    assert [note.split(":")[0] for note in notes] == ["items[0].note", "owner.note"]


def test_non_string_optional_property_is_left_alone_when_it_fits() -> None:
    assert outcome(shape(False, x=INTEGER, y=STRINGS), {"x": 0, "y": []}) == ({"x": 0, "y": []}, [])


def test_unrelated_properties_are_preserved() -> None:
    schema = schema_of({"type": "object", "properties": {"n": INTEGER}, "required": ["n"]})

    assert outcome(schema, {"n": "1", "other": "2"})[0] == {"n": 1, "other": "2"}


def test_enum_validates_case_insensitively_only_through_repair() -> None:
    schema = shape(x={"type": "string", "enum": ["pinned"]})

    with pytest.raises(Invalid):
        schema.parse({"x": "Pinned"}, repair=False)


CHART = {
    "type": "object",
    "properties": {"kind": {"type": "string"}, "size": INTEGER},
    "required": ["kind"],
    "additionalProperties": False,
}


def test_properties_wrapper_is_unwrapped() -> None:
    assert outcome(schema_of(CHART), {"properties": {"kind": "bar", "size": "3"}})[0] == {
        "kind": "bar",
        "size": 3,
    }


def test_partial_properties_wrapper_keeps_top_level_priority() -> None:
    value, _ = outcome(schema_of(CHART), {"kind": "pie", "properties": {"kind": "bar", "size": 3}})

    assert value == {"kind": "pie", "size": 3}


def test_properties_without_overlap_is_left_alone() -> None:
    codes = refusals(schema_of(CHART), {"kind": "bar", "properties": {"colour": "red"}})

    assert codes == {("properties",): "unexpected"}


def test_declared_properties_property_is_not_unwrapped() -> None:
    schema = shape(properties={"type": "object"}, kind={"type": "string"})

    assert refusals(schema, {"properties": {"kind": "bar"}}) == {("kind",): "missing"}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    kind: str = "line"
    n: int = 1


OPEN = {"type": "object", "properties": {"kind": {"type": "string"}, "n": INTEGER}}


@pytest.mark.parametrize(
    "declared", [OPEN, {"$ref": "#/$defs/a", "$defs": {"a": OPEN}}, Open], ids=["plain", "ref", "model"]
)
def test_a_properties_wrapper_is_unwrapped_where_other_keys_are_taken_too(declared: Any) -> None:
    schema = schema_of(declared)

    def read(value: Any) -> tuple[Any, list[str]]:
        read, notes = outcome(schema, value)
        return schema.dump(read), notes

    value, notes = read({"properties": {"kind": "bar", "n": "3", "more": 1}, "n": 4})
    assert value == {"kind": "bar", "n": 4, "more": 1}
    assert notes == ["properties: the object inside was read as the arguments"]
    kept, notes = read({"kind": "bar", "n": 1, "properties": {"other": 1}})
    assert kept["properties"] == {"other": 1}
    assert notes == []


@pytest.mark.parametrize(
    "also", [{"properties": {"n": INTEGER, "properties": {}}}, {"patternProperties": {"^prop": {}}}]
)
def test_properties_that_an_open_object_declares_are_its_own(also: dict[str, Any]) -> None:
    value = {"properties": {"n": 1}}
    assert outcome(schema_of({**OPEN, **also}), value) == (value, [])


def test_wrapper_is_unwrapped_in_a_nested_object() -> None:
    assert outcome(shape(chart=CHART), {"chart": {"properties": {"kind": "bar"}}})[0] == {
        "chart": {"kind": "bar"}
    }


def test_object_any_of_required_groups_is_validated() -> None:
    schema = schema_of(
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "id": INTEGER},
            "anyOf": [{"required": ["path"]}, {"required": ["id"]}],
        }
    )

    assert outcome(schema, {"path": "x"})[0] == {"path": "x"}
    assert outcome(schema, {"id": "4"})[0] == {"id": 4}
    with pytest.raises(Invalid):
        outcome(schema, {})


def test_unexpected_property_is_refused_when_strict() -> None:
    assert refusals(shape(a=INTEGER), {"a": 1, "b": 2}) == {("b",): "unexpected"}


def test_exact_properties_are_accepted() -> None:
    assert outcome(shape(a=INTEGER), {"a": 1}) == ({"a": 1}, [])


def test_lenient_schema_ignores_unknown_keys() -> None:
    assert outcome(schema_of({"type": "object", "properties": {"a": INTEGER}}), {"b": 2}) == ({"b": 2}, [])


def test_missing_and_unexpected_are_both_reported() -> None:
    assert refusals(shape(a=INTEGER), {"zzz": 2}) == {("a",): "missing", ("zzz",): "unexpected"}


class Closed(TypedDict):
    a: int


def test_notice_of_unreadable_arguments_becomes_the_issue() -> None:
    notice = {
        "_error": "invalid_tool_arguments",
        "_message": "cut off",
        "_field": "path",
        "_expected": "a path",
    }
    for schema in (
        shape(a=INTEGER),
        schema_of({"type": "object"}),
        schema_of(Closed),
    ):
        with pytest.raises(Invalid) as caught:
            schema.parse(notice)
        assert caught.value.issues == [(("path",), "malformed", "cut off", "a path", None)]


class Item(BaseModel):
    name: str
    count: int = 1


def tool(
    task_id: str,
    items: list[Item] | None = None,
    tags: list[str] = [],  # noqa: B006
    limit: int = 10,
    mode: Literal["fast run", "slow"] = "slow",
    level: Literal[1, 2] = 1,
    due: date | None = None,
    either: int | list[int] = 0,
    note: str | int = "",
    extra: dict[str, Any] = {},  # noqa: B006
) -> None: ...


TOOL = signature_of(tool)

SLIPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "arguments wrapper": ({"arguments": {"task_id": "a"}}, {}),
    "args wrapper": ({"args": {"task_id": "a"}}, {}),
    "input wrapper": ({"input": {"task_id": "a"}}, {}),
    "parameters wrapper as text": ({"parameters": '{"task_id": "a"}'}, {}),
    "kwargs wrapper with an outer key": ({"kwargs": {"task_id": "a"}, "limit": 3}, {"limit": 3}),
    "wrapper in a wrapper": ({"input": {"arguments": {"task_id": "a"}}}, {}),
    "the whole call": ({"name": "tool", "arguments": {"task_id": "a"}}, {}),
    "whole arguments as text": ('{"task_id": "a", "limit": 2}', {"limit": 2}),
    "whole arguments fenced": ('```json\n{"task_id": "a"}\n```', {}),
    "whole arguments encoded twice": ('"{\\"task_id\\": \\"a\\"}"', {}),
    "whole arguments in Python's spelling": ("{'task_id': 'a', 'items': None,}", {"items": None}),
    "arguments in a list of one": ([{"task_id": "a"}], {}),
    "camel case key": ({"taskId": "a"}, {}),
    "dashed key": ({"task-id": "a"}, {}),
    "spoken key": ({"Task ID": "a"}, {}),
    "list of stringified objects": (
        {"task_id": "a", "items": ['{"name": "x", "count": "2"}']},
        {"items": [Item(name="x", count=2)]},
    ),
    "stringified list of objects": (
        {"task_id": "a", "items": '[{"name": "x"}]'},
        {"items": [Item(name="x")]},
    ),
    "counted keys for a list": ({"task_id": "a", "tags": {"0": "x", "1": "y"}}, {"tags": ["x", "y"]}),
    "single quotes": ({"task_id": "a", "tags": "['x', 'y']"}, {"tags": ["x", "y"]}),
    "JSON words in single quotes": ({"task_id": "a", "extra": "{'x': true}"}, {"extra": {"x": True}}),
    "null text for nullable list": ({"task_id": "a", "items": "null"}, {"items": None}),
    "null for an optional": ({"task_id": "a", "limit": None}, {}),
    "blank for an optional date": ({"task_id": "a", "due": ""}, {}),
    "enum with other separators": ({"task_id": "a", "mode": "FAST_RUN"}, {"mode": "fast run"}),
    "numeric enum as text": ({"task_id": "a", "level": "2"}, {"level": 2}),
    "union of number and list": ({"task_id": "a", "either": "[1, 2]"}, {"either": [1, 2]}),
    "whole number with a fraction of zero": ({"task_id": "a", "limit": 5.0}, {"limit": 5}),
    "number encoded twice": ({"task_id": "a", "limit": '"5"'}, {"limit": 5}),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_with_one_clear_meaning_are_mended(slip: str) -> None:
    given, expected = SLIPS[slip]

    value, notes = outcome(TOOL, given)

    assert value == {"task_id": "a", **expected}
    assert notes


LEFT: dict[str, dict[str, Any]] = {
    "digits where text is allowed": {"task_id": "15"},
    "JSON where text is allowed": {"task_id": '["a"]'},
    "digits where text or number is allowed": {"task_id": "a", "note": "15"},
    "null text where text is allowed": {"task_id": "null"},
    "anything under an open key": {"task_id": "a", "extra": {"n": "15", "properties": {}, "blank": ""}},
}


@pytest.mark.parametrize("case", LEFT)
def test_a_real_string_is_never_touched(case: str) -> None:
    assert outcome(TOOL, LEFT[case]) == (LEFT[case], [])


@pytest.mark.parametrize("case", LEFT)
def test_a_real_string_is_not_touched_while_its_neighbour_is_mended(case: str) -> None:
    value, notes = outcome(TOOL, {**LEFT[case], "limit": "3"})

    assert value == {**LEFT[case], "limit": 3}
    assert notes == ["limit: text was read as an integer"]


AMBIGUOUS: dict[str, Any] = {
    "two spellings of one key": {"taskId": "a", "task-id": "b"},
    "a key and its other spelling": {"task_id": "a", "taskId": "b"},
    "two wrappers": {"args": {"task_id": "a"}, "input": {"task_id": "b"}},
    "a list of two calls": [{"task_id": "a"}, {"task_id": "b"}],
    "a bare string": "a",
    "counted keys with a gap": {"task_id": "a", "tags": {"0": "x", "2": "y"}},
    "a bare word for a list": {"task_id": "a", "tags": "x"},
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_what_has_two_meanings_is_refused(case: str) -> None:
    assert refusals(TOOL, AMBIGUOUS[case])


def test_a_declared_name_beside_a_wrapper_is_refused() -> None:
    def create_user(name: str, age: int) -> None: ...

    call = {"name": "create_user", "arguments": {"name": "x", "age": 1}}

    assert ("arguments",) in refusals(signature_of(create_user), call)


def test_failed_repair_reports_what_remains_at_its_own_path() -> None:
    given = '{"task_id": "a", "items": "[{\\"name\\": 5}]", "limit": "7"}'

    assert refusals(TOOL, given) == {("items", 0, "name"): "type"}


def test_strict_switches_repair_off() -> None:
    with pytest.raises(Invalid):
        TOOL.parse({"task_id": "a", "limit": "7"}, repair=False)


def test_the_given_value_is_not_changed() -> None:
    given = {"arguments": {"task_id": "a", "tags": '["x"]', "items": [{"name": "n", "count": "2"}]}}
    before = repr(given)

    outcome(TOOL, given)

    assert repr(given) == before


def test_repair_serves_a_bare_json_schema_with_references() -> None:
    document = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"n": INTEGER, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            }
        },
    }

    value, notes = repair({"tree": {"n": "1", "kids": '[{"n": "2"}]'}}, document)

    assert value == {"tree": {"n": 1, "kids": [{"n": 2}]}}
    assert len(notes) == 3


def test_hostile_text_is_bounded() -> None:
    bomb = '"x"'
    for _ in range(12):
        bomb = f'["{bomb}"]'.replace('"', '\\"')
    for text in (
        "[" * 100_000,
        bomb,
        "(" * 5_000,
        "{'a':" * 5_000,
        "-" * 20_000,
        "9" * 100_000,
        "```" * 5_000,
    ):
        assert refusals(TOOL, {"task_id": "a", "tags": text}) == {("tags",): "type"}


def test_hostile_keys_are_bounded() -> None:
    given = {"task_id": "a", **{f"key {n}": n for n in range(20_000)}}

    assert set(refusals(TOOL, given).values()) == {"unexpected"}


def test_union_of_recursive_shapes_is_bounded() -> None:
    branch = {"type": "object", "properties": {"k": {"$ref": "#"}, "n": INTEGER}, "required": ["n"]}
    document = {"anyOf": [branch, {**branch, "required": ["k"]}, {**branch, "required": ["k", "n"]}]}
    given: dict[str, Any] = {"n": "x"}
    for _ in range(50):
        given = {"k": given, "n": "x"}

    assert repair(given, document) == (given, [])


def test_many_choices_cost_no_more_than_a_few() -> None:
    def refused(choices: int) -> float:
        schema = schema_of(list[Literal[tuple(f"v{n}" for n in range(choices))]])  # type: ignore[misc]
        assert schema.parse(["V1"]) == ["v1"]

        def send() -> None:
            with pytest.raises(Invalid):
                schema.parse(["x"] * 2000)

        return effort(send)

    refused(2)
    assert refused(500) < 10 * refused(5)
