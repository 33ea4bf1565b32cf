"""The OpenAPI document: valid, complete, and as true as the schemas it is made from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Union

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from pydantic import BaseModel, Field, create_model

from fairlead import App, Failure, Runtime, action
from fairlead.actions import Exposure
from fairlead.failures import catalogue
from fairlead.failures.failure import _codes
from fairlead.surfaces.auth import ApiKeys, Jwt
from fairlead.surfaces.http.openapi import openapi_document

Document = dict[str, Any]


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def invoke(document: Document, name: str) -> Document:
    operation: Document = document["paths"][f"/fairlead/actions/{name}/invoke"]["post"]
    return operation


def pointed(document: Document, pointer: str) -> Any:
    found: Any = document
    for step in pointer.removeprefix("#/").split("/"):
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def within(document: Document, *steps: str) -> jsonschema_rs.Validator:
    """The validator of a schema that stands somewhere in a document."""
    pointer = "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps)
    return jsonschema_rs.validator_for({"$ref": f"#/{pointer}", **document})


def input_of(document: Document, name: str) -> jsonschema_rs.Validator:
    body = (
        "components",
        "requestBodies",
        name,
        "content",
        "application/json",
        "schema",
        "properties",
        "input",
    )
    return within(document, *body)


@cache
def structure() -> jsonschema_rs.Validator:
    text = (files("openapi_spec_validator") / "resources/schemas/v3.1/schema.json").read_text()
    return jsonschema_rs.validator_for(json.loads(text))


def check(document: Document) -> None:
    """Like the validator of the tests that take one document, but quick."""
    structure().validate(document)
    assert all(pointed(document, ref) is not None for ref in references(document))
    assert all(
        re.fullmatch(r"[A-Za-z0-9._-]+", name) for part in document["components"].values() for name in part
    )
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_a_broad_app_has_a_valid_document(broad: App) -> None:
    document = openapi_document(broad, security=ApiKeys({"k" * 20: {"name": "x"}}))
    validate(json.loads(json.dumps(document)))
    check(document)


def test_every_action_that_is_shown_has_its_operations_and_no_other(broad: App) -> None:
    for exposure in (Exposure(), Exposure(include_destructive=True), Exposure(include_private=True)):
        shown = {each.name for each in broad.list_actions("http", exposure)}
        paths = openapi_document(broad, exposure=exposure)["paths"]
        for verb in ("invoke", "stream"):
            named = {
                found[1]
                for path in paths
                if (found := re.fullmatch(rf"/fairlead/actions/(\w+)/{verb}", path))
            }
            assert named == shown
    assert "hidden_one" not in json.dumps(openapi_document(broad))


def test_operations_have_names_of_their_own(broad: App) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(openapi_document(broad))]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z]\w*", id) for id in ids)


def test_the_same_app_gives_the_same_document(broad: App) -> None:
    first = openapi_document(broad)
    told = json.dumps(first)
    first["paths"].clear()
    first["components"]["schemas"]["Tree"]["properties"].clear()
    assert json.dumps(openapi_document(broad)) == told


def test_the_apps_own_words_are_in_it(broad: App) -> None:
    info = openapi_document(broad)["info"]
    assert info["title"] == "broad"
    assert info["version"] == "2.1.0"
    assert info["summary"] == "A broad app."
    assert info["contact"] == {"name": "Us", "url": "https://us.example"}
    assert info["license"] == {"name": "MIT"}


def test_a_bare_runtime_has_a_document_too() -> None:
    @action
    def ping() -> str:
        """Say something."""
        return "pong"

    document = openapi_document(Runtime([ping]), base="/api")
    check(document)
    assert "/api/actions/ping/invoke" in document["paths"]


def test_metrics_are_told_only_where_there_are_any(broad: App) -> None:
    assert "/metrics" in openapi_document(broad)["paths"]
    assert "/metrics" not in openapi_document(broad, metrics=False)["paths"]


def test_an_old_action_is_told_as_such(broad: App) -> None:
    old = invoke(openapi_document(broad), "find_old")
    assert old["deprecated"] is True
    assert "look_up" in old["description"]
    assert "deprecated" not in invoke(openapi_document(broad), "look_up")


def test_examples_come_from_the_actions_docs_and_fit_the_schemas(broad: App) -> None:
    document = openapi_document(broad)
    sent = document["components"]["requestBodies"]["grow_tree"]["content"]["application/json"]
    got = invoke(document, "grow_tree")["responses"]["200"]["content"]["application/json"]
    assert sent["examples"]["example"]["value"] == {"input": {"tree": {"name": "oak"}}}
    assert got["examples"]["example"]["value"]["data"] == {"name": "oak"}
    within(
        document, "components", "requestBodies", "grow_tree", "content", "application/json", "schema"
    ).validate(sent["examples"]["example"]["value"])


def test_every_failure_code_is_told_under_its_status_with_an_example_that_fits(broad: App) -> None:
    document = openapi_document(broad)
    told: dict[str, str] = {}
    for name, response in document["components"]["responses"].items():
        content = response["content"]["application/json"]
        validator = within(document, "components", "responses", name, "content", "application/json", "schema")
        for example in content["examples"].values():
            validator.validate(example["value"])
            told[example["value"]["error"]["code"]] = name
        wrong = json.loads(json.dumps(next(iter(content["examples"].values()))["value"]))
        wrong["error"]["code"] = "NO_SUCH_CODE"
        assert not validator.is_valid(wrong)
    expected = {entry.code: f"Failure{entry.http_status}" for entry in catalogue("action")}
    assert told == expected
    assert told["out_of_paper"] == "Failure503"
    for _, method, operation in operations(document):
        if method == "post":
            assert {f"Failure{status}" for status in operation["responses"]} >= set(expected.values())


def test_a_failure_whose_status_is_none_of_a_failure_counts_as_the_servers() -> None:
    class Odd(Failure, code="odd_status", kind=next(catalogue("action")).kind, http_status=200):
        """Odd."""

    try:
        document = openapi_document(App("odd"))
    finally:
        del _codes["action"]["odd_status"]  # other tests look at all codes there are
    check(document)
    assert "odd_status" in document["components"]["responses"]["Failure500"]["description"]


def test_without_resolvers_there_is_nothing_to_authenticate_by(broad: App) -> None:
    document = openapi_document(broad)
    assert "securitySchemes" not in document["components"]
    assert all(operation["security"] == [] for _, _, operation in operations(document))


def test_security_schemes_are_those_of_the_resolvers(broad: App) -> None:
    keys, tokens = ApiKeys({"k" * 20: {"name": "x"}}), Jwt(key="s" * 40)
    document = openapi_document(broad, security=[keys, tokens, lambda request: None])
    validate(document)
    assert set(document["components"]["securitySchemes"]) == {"apiKey", "apiKeyHeader", "jwt"}
    ways: list[Any] = [{"apiKey": []}, {"apiKeyHeader": []}, {"jwt": []}]
    assert invoke(document, "run_job")["security"] == ways
    assert invoke(document, "nothing")["security"] == [{}, *ways]
    strict = openapi_document(broad, security=[ApiKeys({"k" * 20: {"name": "x"}}, required=True), tokens])
    assert invoke(strict, "nothing")["security"] == ways


def test_recursive_shapes_stand_among_the_components_once(broad: App) -> None:
    document = openapi_document(broad)
    names = set(document["components"]["schemas"])
    assert {"Tree", "TreeOutput", "Even", "Odd", "Box_int"} <= names
    assert "$defs" not in json.dumps(document)
    validator = input_of(document, "grow_tree")
    assert validator.is_valid({"tree": {"name": "a", "children": [{"name": "b", "parent": {"name": "c"}}]}})
    assert not validator.is_valid(
        {"tree": {"name": "a", "children": [{"name": "b", "parent": {"nam": "c"}}]}}
    )


def takes(name: str, input: Any, app: App | None = None) -> App:
    """An app with an action that takes this."""

    def run(input: Any) -> None:
        """Take something."""

    app = App("taking") if app is None else app
    app.add({name: {"run": run, "input": input, "output": None}})
    return app


def node_of(held: Any) -> Any:
    """A recursive model that is called like others."""

    class Node(BaseModel):
        value: held
        more: list[Node] = []

    Node.model_rebuild(_types_namespace={"Node": Node, "held": held})
    return Node


def test_shapes_of_one_name_are_kept_apart_and_equal_ones_are_shared() -> None:
    app = App("clash")
    for name, held in (("a", int), ("b", str), ("c", int), ("meta", bool)):
        takes(name, create_model("Holder", node=(node_of(held), ...)), app)
    document = openapi_document(app)
    check(document)
    assert {"Node", "NodeInput", "NodeInput2"} <= set(document["components"]["schemas"])
    assert "NodeInput3" not in document["components"]["schemas"]
    for name, good, bad in (("a", 1, "x"), ("b", "x", 1), ("c", 1, "x"), ("meta", True, "x")):
        assert input_of(document, name).is_valid({"node": {"value": good, "more": [{"value": good}]}})
        assert not input_of(document, name).is_valid({"node": {"value": good, "more": [{"value": bad}]}})


def test_a_name_of_ours_is_not_taken_by_a_users_shape() -> None:
    class Meta(BaseModel):
        inner: Meta | None = None

    Meta.model_rebuild(_types_namespace={"Meta": Meta})
    document = openapi_document(takes("one", Meta))
    check(document)
    assert "durationMs" in document["components"]["schemas"]["Meta"]["properties"]
    assert input_of(document, "one").is_valid({"inner": {"inner": None}})
    assert not input_of(document, "one").is_valid({"inner": {"inner": 1}})


def about(a: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": a}, **more}


INTEGER = {"type": "integer"}
FOREIGN: list[tuple[dict[str, Any], Any, Any]] = [
    (about({"$ref": "#/definitions/x"}, definitions={"x": INTEGER}), {"a": 1}, {"a": "x"}),
    (about({"$ref": "#"}, additionalProperties=False), {"a": {"a": {}}}, {"a": {"b": 1}}),
    (about({"items": {"$ref": "#/properties/a/else"}, "else": INTEGER}), {"a": [1]}, {"a": ["x"]}),
    (about({"$ref": "#/$defs/x~1y"}, **{"$defs": {"x/y": INTEGER}}), {"a": 1}, {"a": "x"}),
    (about(INTEGER, **{"$schema": "https://json-schema.org/draft/2020-12/schema"}), {"a": 1}, {"a": "x"}),
    (about({"properties": {"$ref": INTEGER}}), {"a": {"$ref": 1}}, {"a": {"$ref": "x"}}),
    ({"type": "array", "prefixItems": [INTEGER]}, [1], ["x"]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), FOREIGN)
def test_a_json_schema_from_elsewhere_keeps_its_meaning(schema: dict[str, Any], good: Any, bad: Any) -> None:
    document = openapi_document(takes("one", schema))
    check(document)
    assert input_of(document, "one").is_valid(good)
    assert not input_of(document, "one").is_valid(bad)


def test_what_only_looks_like_a_reference_is_left_alone() -> None:
    likeness = {"$ref": "#/$defs/n"}
    schema = about({"$ref": "#/$defs/n", "default": likeness}, **{"$defs": {"n": {"enum": [likeness]}}})
    document = openapi_document(takes("one", schema))
    structure().validate(document)
    assert document["components"]["schemas"]["n"] == {"enum": [likeness]}


@pytest.mark.parametrize(
    "schema",
    [
        about({"$ref": "#/$defs/n"}, **{"$id": "https://x.example/s", "$defs": {"n": {}}}),
        about({"$ref": "#here"}, **{"$defs": {"n": {"$anchor": "here", "type": "integer"}}}),
        about({"items": [{}]}, **{"$schema": "http://json-schema.org/draft-07/schema#"}),
    ],
)
def test_a_json_schema_that_cannot_stand_in_a_document_is_told_loosely(schema: dict[str, Any]) -> None:
    document = openapi_document(takes("one", schema))
    check(document)
    assert input_of(document, "one").is_valid({"a": 1})
    assert not input_of(document, "one").is_valid([])


# Any shape that a developer may write gives a valid document with the same meaning.

scalars = st.sampled_from([int, float, str, bool, None, Any, Literal["a", "b"], Literal[1, "x", None]])
shapes = st.recursive(
    scalars,
    lambda inner: st.one_of(
        inner.map(lambda each: list[each]),  # type: ignore[valid-type]
        inner.map(lambda each: dict[str, each]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda pair: Union[pair]),  # noqa: UP007  # `|` is not for all of them
        st.tuples(inner, inner).map(lambda pair: tuple[pair]),  # type: ignore[valid-type]
        inner.map(node_of),
    ),
    max_leaves=5,
)
names = st.text("abcxyz", min_size=1, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.just("value"), inner, max_size=3),
    max_leaves=6,
)


def odd_model(fields: dict[str, Any]) -> Any:
    members: Any = {name: (type, Field(alias=f"x-{name} é")) for name, type in fields.items()}
    return create_model("Some [odd] name", **members)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(names, shapes, min_size=1, max_size=2), min_size=1, max_size=2), st.data())
def test_any_shapes_give_a_valid_document_that_means_the_same(
    models: list[dict[str, Any]], data: st.DataObject
) -> None:
    app = App("made")
    for number, fields in enumerate(models):
        takes(f"action_{number}", odd_model(fields), app)
    document = openapi_document(app)
    check(document)
    for each in app.actions:
        own = jsonschema_rs.validator_for(each.input.json_schema)
        there = input_of(document, each.name)
        whole = st.fixed_dictionaries(dict.fromkeys(each.input.json_schema["properties"], values))
        for value in data.draw(st.lists(whole, max_size=5)):
            assert there.is_valid(value) == own.is_valid(value)
