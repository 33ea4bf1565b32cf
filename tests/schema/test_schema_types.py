"""Type hints as schemas: what is accepted, what is refused and how the refusal is told."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from ipaddress import IPv4Address, IPv6Network
from typing import Annotated, Any, Literal
from uuid import UUID

import attrs
import msgspec
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, RootModel, computed_field

from effort import effort
from fairlead import App
from fairlead.failures import Issue
from fairlead.schema import Invalid, Schema, schema_of
from fairlead.testing import expect_error


def issues(schema: Schema, value: Any) -> list[Issue]:
    with pytest.raises(Invalid) as caught:
        schema.parse(value, repair=False)
    return caught.value.issues


def codes(spec: Any, value: Any) -> list[tuple[tuple[str | int, ...], str]]:
    return [(issue.path, issue.code) for issue in issues(schema_of(spec), value)]


Few = Annotated[int, msgspec.Meta(gt=0, le=9, description="How many.")]


class Limited(msgspec.Struct):
    few: Few
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=5)] = "a"
    halves: Annotated[list[Annotated[float, msgspec.Meta(multiple_of=0.5)]], msgspec.Meta(max_length=2)] = []
    when: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


@dataclass
class FewOfThem:
    few: Few


class Colour(Enum):
    red = "red"
    blue = "blue"


class Level(IntEnum):
    low = 1
    high = 2


class Plain(typing.TypedDict, total=False):
    """A plain one."""

    x: typing.Required[int]
    kids: list[Plain]


class Struct(msgspec.Struct, rename="camel"):
    first_name: str
    child: Struct | None = None
    count: int = 4


@attrs.define
class Attrs:
    ratio: float
    _hidden: Struct | None = None
    made: list[str] = attrs.field(factory=list)


@dataclass
class Holder:
    plain: Plain
    attrs: Attrs
    when: datetime | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Circle:
    radius: float
    name: str = ""


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: float
    name: str = ""


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    speed: float


class Node(BaseModel):
    name: str
    kids: list[Node] = []


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("hint", "good", "value"),
    [
        (int, 5, 5),
        (float, 5, 5.0),
        (date, "2026-01-31", date(2026, 1, 31)),
        (datetime, "2026-01-31T00:00:00", datetime(2026, 1, 31)),
        (timedelta, "PT15M", timedelta(minutes=15)),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Decimal, "1.50", Decimal("1.50")),
        (Decimal, 1.5, Decimal("1.5")),
        (bytes, "x", b"x"),
        (Colour, "red", Colour.red),
        (Level, 2, Level.high),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 1], {1}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Literal["a", 1], 1, 1),
        (None, None, None),
        (RootModel[list[int]], [1], RootModel[list[int]]([1])),
    ],
)
def test_json_forms_are_accepted(hint: Any, good: Any, value: Any) -> None:
    assert schema_of(hint).validate(good) == value


@pytest.mark.parametrize(
    ("hint", "bad"),
    [
        (str, 1),
        (int, "1"),
        (int, 1.5),
        (int, True),
        (float, "1"),
        (float, True),
        (bool, 1),
        (bool, "true"),
        (date, 5),
        (datetime, 1700000000),
        (datetime, "1700000000"),
        (datetime, True),
        (timedelta, 30),
        (list[int], "1"),
        (dict[str, int], []),
        (None, "null"),
    ],
)
def test_other_json_types_are_refused(hint: Any, bad: Any) -> None:
    assert codes(hint, bad) == [((), "type")]


@pytest.mark.parametrize(
    ("hint", "bad", "code"),
    [
        (float, float("nan"), "finite"),
        (Annotated[int, Field(ge=1)], 0, "too_small"),
        (Annotated[int, Field(lt=1)], 1, "too_large"),
        (Annotated[int, Field(multiple_of=5)], 3, "multiple_of"),
        (Annotated[str, Field(min_length=1)], "", "too_short"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "too_long"),
        (Annotated[str, Field(pattern="^a")], "b", "pattern"),
        (Colour, "green", "enum"),
        (Literal["a", "b"], "c", "enum"),
        (Literal["a"], "c", "literal"),
        (Literal[1], True, "literal"),
        (date, "31.1.2026", "format"),
        (UUID, "zzz", "format"),
        (Decimal, "zzz", "format"),
    ],
)
def test_each_refusal_has_its_code(hint: Any, bad: Any, code: str) -> None:
    assert codes(list[hint], [bad]) == [((0,), code)]


def test_an_issue_says_what_was_expected_and_found() -> None:
    found = issues(schema_of(dict[str, int]), {"a": "b"})

    assert found == [Issue(("a",), "type", "Expected integer, found string.", "integer", "string")]


@pytest.mark.parametrize(("least", "expected"), [(1, "at least 1 character"), (2, "at least 2 characters")])
def test_a_length_is_told_with_its_unit(least: int, expected: str) -> None:
    specs = (Annotated[str, Field(min_length=least)], {"type": "string", "minLength": least})
    for spec in specs:
        assert issues(schema_of(spec), "")[0].expected == expected


def test_unknown_key_names_the_near_miss_and_the_allowed_ones() -> None:
    class Task(typing.TypedDict):
        title: str
        priority: int

    (found,) = issues(schema_of(Task), {"title": "x", "priority": 1, "prioritty": 2})

    assert found.code == "unexpected"
    assert found.path == ("prioritty",)
    assert "did you mean 'priority'" in found.message
    assert "title, priority" in found.message
    assert "prioritty" not in found.message


def test_models_nested_anywhere_get_strict_scalars() -> None:
    assert codes(dict[str, list[Cat]], {"a": [{"kind": "cat", "lives": "9"}]}) == [
        (("a", 0, "lives"), "type")
    ]


def test_the_authors_own_laxness_is_respected() -> None:
    class Lax(BaseModel):
        model_config = ConfigDict(strict=False, extra="forbid")
        n: int

    class Loose(BaseModel):
        model_config = ConfigDict(extra="ignore")
        n: int = Field(strict=False)

    assert schema_of(Lax).validate({"n": "5"}) == Lax(n=5)
    assert schema_of(Loose).validate({"n": "5", "ignored": 1}) == Loose(n=5)
    assert codes(Lax, {"n": 1, "m": 2}) == [(("m",), "unexpected")]


def test_dataclasses_and_typed_dicts_refuse_unknown_keys_unless_they_say_otherwise() -> None:
    @dataclass
    class Point:
        x: int

    class Open(typing.TypedDict):
        x: int

    Open.__pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[attr-defined]

    assert codes(Point, {"x": 1, "y": 2}) == [(("y",), "unexpected")]
    assert codes(Plain, {"x": 1, "y": 2}) == [(("y",), "unexpected")]
    assert schema_of(Open).validate({"x": 1, "y": 2}) == {"x": 1, "y": 2}


def test_foreign_classes_are_checked_constructed_and_dumped_at_any_depth() -> None:
    schema = schema_of(list[Holder])
    given = [
        {
            "plain": {"x": 1, "kids": [{"x": 2}]},
            "attrs": {"ratio": 1, "hidden": {"firstName": "a", "child": {"firstName": "b"}}},
            "when": "2026-01-31T00:00:00Z",
        }
    ]

    (value,) = schema.validate(given)

    assert value.attrs == Attrs(1.0, Struct("a", Struct("b")))
    dumped = schema.dump([value])
    assert dumped[0]["attrs"]["hidden"]["child"] == {"firstName": "b", "child": None, "count": 4}
    assert schema.validate(dumped) == [value]
    assert schema.dump(schema.validate([value])) == dumped
    given[0]["attrs"]["hidden"]["child"]["firstName"] = 5  # type: ignore[index]
    assert [issue.path for issue in issues(schema, given)] == [(0, "attrs", "hidden", "child", "firstName")]


def test_a_class_that_refuses_its_arguments_gives_an_issue() -> None:
    @attrs.define
    class Even:
        n: int = attrs.field(validator=attrs.validators.in_([2, 4]))

    (found,) = issues(schema_of(Even), {"n": 777})

    assert found.code == "value"
    assert "777" not in found.message


def test_an_authors_message_is_kept_without_the_value() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd, give an even number")
        return value

    (found,) = issues(schema_of(Annotated[int, AfterValidator(even)]), 777)

    assert found.message == "[value] is odd, give an even number"


@pytest.mark.parametrize(
    ("words", "given", "told"),
    [
        ("start is after end (see rule 12)", {"start": 3, "end": 2}, "start is after end (see rule 12)"),
        ("the name must end in x", {"name": "e"}, "the name must end in x"),
        ("no 3, and none of 31 to 35", {"start": 3}, "no [value], and none of 31 to 35"),
        ("value: hunter2hunter2", {"a": "hunter2", "b": "value"}, "[value]: [value][value]"),
        ("refused: token=srv-9f8e7d6c5b4a", {"token": "x"}, "refused: token=[REDACTED]"),
        ("refused: token=srv-9f8e7d6c5b4a", {"user": "token"}, "refused: [value]=[REDACTED]"),
    ],
)
def test_an_authors_message_is_readable_and_tells_neither_values_nor_secrets(
    words: str, given: dict[str, Any], told: str
) -> None:
    def never(value: Any) -> Any:
        raise ValueError(words)

    (found,) = issues(schema_of(Annotated[dict[str, Any], AfterValidator(never)]), given)

    assert found.message == told


@pytest.mark.parametrize(
    ("hint", "bad", "expected"),
    [
        (int | list[int] | None, "x", [((), "union")]),
        (int | list[int], ["x"], [((0,), "type")]),
        (Cat | Dog, {"kind": "cat", "lives": "x"}, [(("lives",), "type")]),
        (Cat | Dog, {"kind": "cow"}, [(("kind",), "enum")]),
        (Cat | Dog, {}, [(("kind",), "missing")]),
        (Cat | Dog, 5, [((), "union")]),
        (Pet, {"kind": "cat", "lives": "x"}, [(("lives",), "type")]),
        (Pet, {"kind": "cow"}, [(("kind",), "enum")]),
        (Pet, {}, [(("kind",), "missing")]),
        (Pet, 5, [((), "type")]),
        (
            dict[str, int | dict[str, Cat]],
            {"a": {"int": {"kind": "cat"}}},
            [(("a", "int", "lives"), "missing")],
        ),
        (Literal["a"] | int, "b", [((), "literal")]),
    ],
)
def test_a_failed_union_is_told_once_without_branch_labels(hint: Any, bad: Any, expected: Any) -> None:
    assert codes(hint, bad) == expected


def test_a_failed_union_lists_its_alternatives() -> None:
    (found,) = issues(schema_of(int | list[str] | None), {})

    assert (found.expected, found.received) == ("integer or array of strings", "object")


async def test_of_several_objects_a_failed_union_says_what_is_wrong_with_the_one_that_was_meant() -> None:
    app = App("shapes")

    @app.action
    def area(shape: Circle | Square) -> float:
        """Tell the area of a shape."""
        return 0.0

    async def told(shape: Any) -> list[tuple[str, str]]:
        failure = expect_error(await app.invoke("area", {"shape": shape}), "VALIDATION_ERROR")
        return [(".".join(map(str, each.path)), each.message) for each in failure.issues]

    assert await told({"radius": "far"}) == [("shape.radius", "Expected number, found string.")]
    assert await told({"side": []}) == [("shape.side", "Expected number, found array.")]
    either = "Expected object with radius or object with side."
    for neither in ({"radius": 1, "side": 1}, {}, {"edge": 1}, 5):
        assert await told(neither) == [("shape", f"None of the allowed shapes fits. {either}")]
    failure = expect_error(await app.invoke("area", {}), "VALIDATION_ERROR")
    assert failure.expected == "object with radius or object with side"


def test_circular_and_very_deep_values_give_an_issue() -> None:
    circle: dict[str, Any] = {"name": "a", "kids": []}
    circle["kids"].append(circle)
    deep: dict[str, Any] = {"name": "a"}
    for _ in range(3000):
        deep = {"name": "a", "kids": [deep]}

    assert issues(schema_of(Node), circle)[0].code == "recursion"
    assert issues(schema_of(Node), deep)[0].code == "recursion"
    with pytest.raises(Invalid):
        schema_of(Node).parse(deep)


def test_issues_are_bounded() -> None:
    assert len(issues(schema_of(list[int]), ["x"] * 5000)) == 100


def test_custom_serializers_are_kept() -> None:
    schema = schema_of(list[Annotated[int, PlainSerializer(str)]])

    assert schema.dump(schema.validate([1])) == ["1"]
    assert schema.output_json_schema["items"] == {"type": "string"}


def test_validation_and_dump_agree_on_aliases() -> None:
    class Row(BaseModel):
        row_id: int = Field(alias="rowId")

    schema = schema_of(Row)

    assert schema.dump(schema.validate({"rowId": 1})) == {"rowId": 1}
    assert list(schema.output_json_schema["properties"]) == ["rowId"]


class Shapeless: ...


@pytest.mark.parametrize("spec", ["int", 5, object(), print, Shapeless, lambda: 1])
def test_what_is_not_a_shape_is_refused(spec: Any) -> None:
    with pytest.raises(TypeError):
        schema_of(spec)


def test_a_schema_is_its_own_schema() -> None:
    schema = schema_of(int)

    assert schema_of(schema) is schema


def test_a_name_that_is_not_defined_is_named() -> None:
    with pytest.raises(TypeError, match="Nowhere"):
        schema_of(list["Nowhere"])  # type: ignore[name-defined]  # noqa: F821


def test_the_message_of_invalid_names_the_place() -> None:
    with pytest.raises(Invalid, match=r"^a\[1\]: Expected integer, found string\. \(1 more\)$"):
        schema_of(dict[str, list[int]]).parse({"a": [1, "x", "y"]}, repair=False)


class Order(BaseModel):
    dish: str
    table: int = 1


class Meal(BaseModel):
    orders: list[Order] = []
    label: str = ""


class Counted(Meal):
    @computed_field  # type: ignore[prop-decorator]
    @property
    def count(self) -> int:
        return len(self.orders)


def test_models_refuse_unknown_keys_unless_they_or_their_bases_say_otherwise() -> None:
    class Ignoring(BaseModel, extra="ignore"):
        x: int = 0

    class Child(Ignoring):
        y: int = 0

    class Taking(BaseModel, extra="allow"):
        x: int = 0

    class Root(RootModel[list[Order]]): ...

    assert codes(Order, {"dish": "soup", "tabel": 7}) == [(("tabel",), "unexpected")]
    assert codes(Meal, {"orders": [{"dish": "soup", "tabel": 7}]}) == [(("orders", 0, "tabel"), "unexpected")]
    assert codes(Root, [{"dish": "soup", "tabel": 7}]) == [((0, "tabel"), "unexpected")]
    assert schema_of(Child).validate({"y": 1, "z": 2}) == Child(y=1)
    assert schema_of(Taking).validate({"z": 2}).model_extra == {"z": 2}
    assert schema_of(Order).parse({"dish": "soup", "Table": 7}) == Order(dish="soup", table=7)


def test_what_a_model_dumps_can_be_read_again_by_the_other_side() -> None:
    schema = schema_of(list[Counted])
    dumped = schema.dump([Counted(label="x")])
    assert dumped == [{"orders": [], "label": "x", "count": 0}]
    assert schema.validate_output(dumped) == [Counted(label="x")]
    assert codes(list[Counted], dumped) == [((0, "count"), "unexpected")]


class Switch(Enum):
    on = True
    off = False


class Nth(IntEnum):
    zeroth = 0
    first = 1


class Pair(Enum):
    near = (1, 2)
    far = (3, 4)


class Day(Enum):
    first = date(2030, 1, 1)


class Rights(Flag):
    read = 1
    write = 2
    share = 8


class Word(Enum):
    yes = "yes"

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        return cls.yes if value in ("ja", 7) else None


@pytest.mark.parametrize(
    ("hint", "value", "member"),
    [
        (Nth, 1, Nth.first),
        (Nth, 1.0, Nth.first),
        (Nth, Nth.first, Nth.first),
        (Switch, True, Switch.on),
        (Switch, False, Switch.off),
        (Pair, [1, 2], Pair.near),
        (Pair, (3, 4), Pair.far),
        (Day, "2030-01-01", Day.first),
        (Day, date(2030, 1, 1), Day.first),
        (Word, "ja", Word.yes),
        (Word, 7, Word.yes),
        (Rights, 0, Rights(0)),
        (Rights, 11, Rights.read | Rights.write | Rights.share),
        (Rights, Rights.write, Rights.write),
        (Nth | str, "x", "x"),
        (IPv4Address, "10.0.0.1", IPv4Address("10.0.0.1")),
        (typing.Sequence, [1], [1]),
        (Sequence, (1,), (1,)),
    ],
)
def test_an_enum_takes_what_json_has_for_its_members(hint: Any, value: Any, member: Any) -> None:
    found = schema_of(hint).validate(value)
    assert found == member
    assert type(found) is type(member)


@pytest.mark.parametrize(
    ("hint", "value", "code"),
    [
        (Nth, True, "enum"),
        (Nth, "1", "enum"),
        (Nth, 2, "enum"),
        (Nth, [], "enum"),
        (Nth, None, "enum"),
        (Switch, 1, "enum"),
        (Switch, 0.0, "enum"),
        (Pair, [1, True], "enum"),
        (Pair, [1, 2, 3], "enum"),
        (Pair, [[1, 2]], "enum"),
        (Word, "nein", "enum"),
        (Word, 1, "enum"),
        (Rights, -1, "too_small"),
        (Rights, 16, "too_large"),
        (Rights, 4, "value"),
        (Rights, True, "type"),
        (Rights, "1", "type"),
        (IPv4Address, True, "type"),
        (IPv4Address, 5, "type"),
        (IPv6Network, 5, "type"),
        (typing.Sequence, "abc", "type"),
        (Sequence, "abc", "type"),
    ],
)
def test_an_enum_takes_nothing_that_only_python_holds_to_be_a_member(
    hint: Any, value: Any, code: str
) -> None:
    assert codes(hint, value) == [((), code)]
    assert codes(dict[str, list[hint]], {"a": [value]}) == [(("a", 0), code)]


def test_repair_still_reads_numbers_and_words_for_enums() -> None:
    assert schema_of(Nth).parse("1") is Nth.first
    assert schema_of(Rights).parse("3") == Rights.read | Rights.write
    assert schema_of(Word).parse(" YES ") is Word.yes
    assert schema_of(dict[Nth, int]).validate({"1": 2}) == {Nth.first: 2}


def test_flags_are_told_as_the_numbers_they_add_up_to() -> None:
    schema = schema_of(Rights)
    told = {"type": "integer", "minimum": 0, "maximum": 11}
    assert schema.json_schema == schema.output_json_schema == told
    assert schema.dump(Rights.read | Rights.share) == 9
    assert schema_of(list[Rights] | Rights).json_schema["anyOf"][1] == told


@pytest.mark.parametrize(
    ("spec", "wrong", "path", "code"),
    [
        (Limited, {"few": 0}, ("few",), "too_small"),
        (Limited, {"few": 10}, ("few",), "too_large"),
        (Limited, {"few": 1, "name": "A"}, ("name",), "pattern"),
        (Limited, {"few": 1, "name": "abcdef"}, ("name",), "too_long"),
        (Limited, {"few": 1, "halves": [0.3]}, ("halves", 0), "multiple_of"),
        (Limited, {"few": 1, "halves": [1.0, 1.0, 1.0]}, ("halves",), "too_long"),
        (Limited, {"few": 1, "when": "2030-01-31T12:00:00"}, ("when",), "format"),
        (list[Limited], [{"few": 0}], (0, "few"), "too_small"),
        (FewOfThem, {"few": 0}, ("few",), "too_small"),
        (Few, 0, (), "too_small"),
    ],
)
def test_limits_that_msgspec_declares_hold(
    spec: Any, wrong: Any, path: tuple[str | int, ...], code: str
) -> None:
    assert codes(spec, wrong) == [(path, code)]


def test_limits_and_words_that_msgspec_declares_are_told() -> None:
    told = {"type": "integer", "description": "How many.", "exclusiveMinimum": 0, "maximum": 9}
    assert schema_of(Limited).json_schema["properties"]["few"] == told
    assert schema_of(FewOfThem).json_schema["properties"]["few"] == told
    assert schema_of(Limited).parse({"few": 9, "when": "2030-01-31T12:00:00Z"}).few == 9


_NAMES = [f"field_{n}" for n in range(100)]


@pytest.mark.parametrize(
    "spec",
    [
        make_dataclass("Wide", [(name, int, 0) for name in _NAMES]),
        {"properties": {name: {"type": "integer"} for name in _NAMES}, "additionalProperties": False},
    ],
    ids=["typed", "JSON Schema"],
)
def test_keys_that_nobody_declared_cost_no_more_than_those_that_are_told(spec: Any) -> None:
    schema = schema_of(spec)

    def refused(count: int) -> float:
        value = {f"feild_{n}x": 1 for n in range(count)}
        return effort(lambda: issues(schema, value))

    refused(1)
    assert refused(1000) < 3 * refused(100)
    told = issues(schema, {f"feild_{n}x": 1 for n in range(1000)})
    assert len(told) == 100
    assert all("did you mean" in each.message for each in told)
