"""How strict mode says each shape, and what comes back of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field

from fairlead import App, s
from fairlead.failures import Failure
from fairlead.schema.dialects.limits import beyond_openai
from fairlead.schema.dialects.nodes import Nodes
from fairlead.schema.fits import same
from fairlead.surfaces.llm.strict import Strict


def parameters(function: Any, **options: Any) -> dict[str, Any]:
    app = App("shapes")
    app.add({"act": function}, **options)
    parameters: dict[str, Any] = app.tools("openai").definitions[0]["function"]["parameters"]
    return parameters


def strict(schema: Any) -> Strict:
    return Strict(Nodes(schema))


def with_field(schema: Any, *, required: bool = True) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"it": schema},
        "required": ["it"] if required else [],
        "additionalProperties": False,
    }


def said(schema: Any, *, required: bool = True) -> Any:
    return strict(with_field(schema, required=required)).schema["properties"]["it"]


def test_every_key_is_required_and_optional_ones_may_be_null() -> None:
    def act(title: str, count: int = 3, tags: list[str] = []) -> None: ...  # noqa: B006

    told = parameters(act)
    assert told["required"] == ["title", "count", "tags"]
    assert told["additionalProperties"] is False
    assert told["properties"]["title"] == {"type": "string"}
    assert told["properties"]["count"] == {"type": ["integer", "null"], "description": "(default: 3)"}
    assert told["properties"]["tags"]["anyOf"][1] == {"type": "null"}


def test_null_for_an_optional_that_takes_none_is_dropped() -> None:
    form = strict(with_field({"type": "integer"}, required=False))
    assert form.encode({}) == {"it": None}
    assert form.decode({"it": None}) == {}
    assert form.decode({"it": 4}) == {"it": 4}


def test_null_stays_where_it_is_the_default() -> None:
    form = strict(with_field({"type": ["string", "null"], "default": None}, required=False))
    assert form.schema["properties"]["it"] == {"type": ["string", "null"]}
    assert form.encode({}) == {"it": None}
    assert form.decode({"it": None}) == {"it": None}


class Change(TypedDict):
    note: NotRequired[str | None]


def patch(change: Change) -> None: ...


def test_null_and_absence_are_told_apart_where_they_differ() -> None:
    app = App("patching")
    app.add({"act": patch})
    tools = app.tools("openai")
    for change in ({}, {"note": None}, {"note": "new"}):
        sent = tools.arguments("act", change)
        jsonschema_rs.validate(tools.definitions[0]["function"]["parameters"], sent)
    assert tools.arguments("act", {}) == {"note": None}
    assert tools.arguments("act", {"note": None}) == {"note": {"value": None}}


def test_limits_that_the_provider_refuses_are_told_in_words() -> None:
    told = said({"type": "string", "description": "A name.", "minLength": 2, "maxLength": 9, "format": "uri"})
    assert told == {"type": "string", "description": 'A name. (format: "uri", minLength: 2, maxLength: 9)'}


def test_limits_that_the_provider_takes_are_stated() -> None:
    assert said({"type": "integer", "minimum": 1, "maximum": 9})["maximum"] == 9
    assert said({"type": "string", "format": "date"}) == {"type": "string", "format": "date"}
    assert said({"type": "string", "pattern": "^[a-z]+$"})["pattern"] == "^[a-z]+$"
    assert said({"type": "array", "items": {"type": "string"}, "minItems": 1})["minItems"] == 1


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?i)a", r"(a)\1", r"\Aa\Z", "(?P<n>a)"])
def test_a_pattern_beyond_regular_ones_is_told_in_words(pattern: str) -> None:
    assert "pattern" not in said({"type": "string", "pattern": pattern})


def test_a_record_is_a_list_of_keys_and_values() -> None:
    form = strict(with_field({"type": "object", "additionalProperties": {"type": "integer"}}))
    sent = {"it": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}
    assert form.encode({"it": {"a": 1, "b": 2}}) == sent
    assert form.decode(sent) == {"it": {"a": 1, "b": 2}}


def test_the_keys_of_a_record_keep_their_own_schema() -> None:
    told = said(
        {"type": "object", "propertyNames": {"enum": ["u", "v"]}, "additionalProperties": {"type": "integer"}}
    )
    assert told["items"]["properties"]["key"] == {"type": "string", "enum": ["u", "v"]}
    told = said({"type": "object", "patternProperties": {"^x": {"type": "integer"}}})
    assert told["items"]["properties"]["key"] == {"type": "string", "pattern": "^x"}


def test_a_key_that_is_given_twice_is_refused() -> None:
    form = strict(with_field({"type": "object", "additionalProperties": {"type": "integer"}}))
    with pytest.raises(Failure) as caught:
        form.decode({"it": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]})
    assert caught.value.code == "VALIDATION_ERROR"


class Open(BaseModel, extra="allow"):
    known: int


def keep(it: Open) -> None: ...


def test_keys_beyond_the_named_ones_have_a_list_of_their_own() -> None:
    app = App("open")
    app.add({"act": keep})
    tools = app.tools("openai")
    sent = tools.arguments("act", {"known": 1, "more": [True]})
    assert sent == {"known": 1, "additional_properties": [{"key": "more", "value": "[true]"}]}
    jsonschema_rs.validate(tools.definitions[0]["function"]["parameters"], sent)


@pytest.mark.parametrize(
    "schema", [{}, True, {"type": "object"}, {"type": "object", "additionalProperties": True}]
)
def test_anything_at_all_is_json_in_a_text(schema: Any) -> None:
    form = strict(with_field(schema))
    assert form.schema["properties"]["it"]["type"] == "string"
    assert form.encode({"it": {"a": [1]}}) == {"it": '{"a":[1]}'}
    assert form.decode({"it": '{"a":[1]}'}) == {"it": {"a": [1]}}


def test_a_text_that_holds_no_json_is_itself() -> None:
    form = strict(with_field({}))
    assert form.decode({"it": "plain words"}) == {"it": "plain words"}
    assert form.decode({"it": "{'a': 1}"}) == {"it": {"a": 1}}
    assert form.decode({"it": '"12"'}) == {"it": "12"}
    assert form.decode({"it": "{'a"}) == {"it": "{'a"}
    assert form.decode({"it": 5}) == {"it": 5}


def test_a_tuple_of_unlike_places_is_an_object_and_of_like_ones_a_list() -> None:
    unlike = {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "minItems": 2,
        "maxItems": 2,
    }
    form = strict(with_field(unlike))
    assert form.encode({"it": [1, "a"]}) == {"it": {"0": 1, "1": "a"}}
    assert form.decode({"it": {"0": 1, "1": "a"}}) == {"it": [1, "a"]}
    alike = {"type": "array", "prefixItems": [{"type": "number"}] * 2, "items": False, "minItems": 2}
    assert said(alike) == {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Node"}},
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
}


@dataclass
class Tree:
    label: str
    children: list[Tree] = field(default_factory=list)


def grow(tree: Tree) -> None: ...


def test_recursion_stays_legal() -> None:
    told = parameters(grow)
    assert told["properties"]["children"]["anyOf"][0] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert told["$defs"]["Tree"]["required"] == ["label", "children"]
    form = strict(NODE)
    assert form.schema["properties"]["next"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    assert form.encode({"next": {}}) == {"next": {"next": None}}
    assert form.decode({"next": {"next": None}}) == {"next": {}}


def test_a_schema_that_refers_to_its_own_root_stays_legal() -> None:
    form = strict({"type": "object", "properties": {"inner": {"$ref": "#"}}})
    sent = form.encode({"inner": {"inner": {}}})
    jsonschema_rs.validate(form.schema, sent)
    assert form.decode(sent) == {"inner": {"inner": {}}}


def test_a_reference_with_words_of_its_own_keeps_them() -> None:
    told = strict(
        {
            **NODE,
            "properties": {"next": {"$ref": "#/$defs/Node", "description": "After."}},
            "required": ["next"],
        }
    )
    assert told.schema["properties"]["next"] == {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "After."}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (s.union([s.string(), s.literal(None)]), None),
        (s.array(s.number()), [1, 2]),
        (s.record(s.number()), {"a": 1}),
        (s.string(), "x"),
        ({"anyOf": [with_field({"type": "integer"}), with_field({"type": "string"})]}, {"it": "x"}),
    ],
)
def test_a_root_that_is_no_object_is_put_into_one(schema: Any, value: Any) -> None:
    app = App("roots")
    app.add({"act": {"run": lambda v: v, "input": schema, "description": "Act."}})
    for format, path in (("openai", "parameters"), ("anthropic", "input_schema")):
        tools = app.tools(format)
        definition = tools.definitions[0].get("function", tools.definitions[0])
        sent = tools.arguments("act", value)
        assert definition[path]["type"] == "object"
        jsonschema_rs.validate(definition[path], sent)
        assert list(sent) == ["input"] or format == "anthropic"


def test_enums_say_their_type_and_one_value_is_an_enum() -> None:
    def act(
        mode: Literal["fast", "slow"], kind: Literal["x"] = "x", level: Literal[1, "high"] = 1
    ) -> None: ...

    told = parameters(act)["properties"]
    assert told["mode"] == {"type": "string", "enum": ["fast", "slow"]}
    assert told["kind"]["enum"] == ["x", None]
    assert told["level"]["anyOf"] == [
        {"type": "integer", "enum": [1]},
        {"type": "string", "enum": ["high"]},
        {"type": "null"},
    ]


def test_all_of_is_merged_where_it_can_be() -> None:
    parts = [
        with_field({"type": "integer"}),
        {"properties": {"that": {"type": "string"}}, "required": ["that"]},
    ]
    del parts[0]["additionalProperties"]
    told = strict({"allOf": parts, "unevaluatedProperties": False}).schema
    assert list(told["properties"]) == ["it", "that"]
    conflicting = {"allOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "time"}]}
    assert said(conflicting)["description"] == "(any value, as JSON text)"


def test_groups_of_required_keys_are_left_to_the_runtime() -> None:
    schema = {
        **with_field({"type": "string"}, required=False),
        "anyOf": [{"required": ["it"]}, {"required": []}],
    }
    assert list(strict(schema).schema["properties"]) == ["it"]


OBJECT = {"type": "object"}
TRAPS: list[tuple[list[Any], list[Any]]] = [
    ([{"type": "string"}, OBJECT], ["{}", {}, {"a": 1}]),
    ([OBJECT, {"type": "string"}], ["{}", {}, '{"a": 1}']),
    ([{"type": "string"}, OBJECT, with_field({})], ["x", {"it": 1}, {"other": 2}]),
    (
        [
            {"type": "string"},
            OBJECT,
            {"type": "object", "properties": {"object": {"type": "string"}}, "required": ["object"]},
        ],
        ["{}", {"object": "{}"}, {"object": 5}],
    ),
    (
        [{"type": "array", "items": {}}, {"type": "object", "additionalProperties": {}}],
        [[], {}, ["x"], {"a": "x"}],
    ),
    ([with_field({"type": "integer"}, required=False)] * 2, [{}, {"it": 1}]),
    (
        [with_field({"type": "integer"}, required=False), with_field({"type": "string"}, required=False)],
        [{}, {"it": 1}, {"it": "1"}],
    ),
    (
        [
            {
                "type": "object",
                "properties": {"kind": {"const": kind}, "size": {"type": "integer"}},
                "required": ["kind"],
                "additionalProperties": False,
            }
            for kind in ("cat", "dog")
        ],
        [{"kind": "cat"}, {"kind": "dog", "size": 3}],
    ),
]


@pytest.mark.parametrize(("branches", "values"), TRAPS)
def test_branches_that_look_alike_come_back_as_what_they_were(branches: list[Any], values: list[Any]) -> None:
    form = strict(with_field({"anyOf": branches}))
    for value in values:
        sent = form.encode({"it": value})
        jsonschema_rs.validate(form.schema, sent)
        assert same(form.decode(sent), {"it": value})


def test_a_discriminated_union_needs_no_wrapping() -> None:
    told = said({"anyOf": TRAPS[-1][0]})
    assert [list(branch["properties"]) for branch in told["anyOf"]] == [["kind", "size"]] * 2


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = with_field(schema)
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (nested(11), "levels"),
        (with_field({"enum": [f"v{n}" for n in range(1001)]}), "enum values"),
        (with_field({"enum": [f"{n:070}" for n in range(251)]}), "enum of 251 values"),
        (with_field({"enum": ["x" * 120_001]}), "characters"),
        ({"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(5001)}}, "properties"),
    ],
)
def test_a_schema_beyond_the_providers_limits_is_offered_without_strictness(schema: Any, why: str) -> None:
    app = App("large")
    app.add({"act": {"run": lambda v: v, "input": schema, "description": "Act."}})
    tools = app.tools("openai")
    function = tools.definitions[0]["function"]
    assert function["strict"] is False
    assert function["parameters"] == schema
    assert why in tools.report()["tools"][0]["reason"]


@pytest.mark.parametrize(
    "schema",
    [nested(10), with_field({"enum": [f"v{n}" for n in range(1000)]}), with_field({"enum": ["x" * 119_000]})],
)
def test_a_schema_within_the_limits_is_strict(schema: Any) -> None:
    assert beyond_openai(strict(schema).schema) is None


def test_descriptions_and_defaults_reach_the_model() -> None:
    def act(size: Annotated[int, Field(description="How large.", ge=1)] = 7) -> None: ...

    assert parameters(act)["properties"]["size"]["description"] == "How large. (default: 7)"
