"""Every built-in tool holds up against the slips of weak models. Calls are checked here, and none is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from fairlead import Action, App
from fairlead.agents.memory import memory
from fairlead.failures import Failure
from fairlead.failures import tool as wire
from fairlead.store import open_store
from fairlead.tools.artifacts import Artifacts
from fairlead.tools.artifacts_sharing import sharing
from fairlead.tools.charts import charts
from fairlead.tools.documents import documents
from fairlead.tools.files import files
from fairlead.tools.loop import loop_tools
from fairlead.tools.sandbox import sandbox
from fairlead.tools.shell import shell

ROOT = Path(gettempdir()) / "fairlead-matrix"
STRANGE = "surely_not_declared"


def built_in() -> list[Action[..., Any]]:
    """All of them; nothing is made on the disk."""
    made = [*files(ROOT), *documents(ROOT, exec=True, prefix="doc_"), *shell(ROOT), *sandbox(ROOT)]
    return [*made, *charts(), *loop_tools(), memory()]


ACTIONS = {each.name: each for each in built_in()}
NAMES = [*ACTIONS, "share_artifact"]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        made = App("x")
        for each in (*ACTIONS.values(), *sharing(Artifacts(store, tmp_path / "artifacts"))):
            made.add(each)
        yield made


def schema_of(app: App, name: str) -> dict[str, Any]:
    found = app.catalogue.find(name)
    assert found is not None
    return found.input.json_schema


def resolved(schema: Any, document: dict[str, Any]) -> dict[str, Any]:
    """A schema without references and without the choice of null."""
    if "$ref" in schema:
        place = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        return resolved(place, document)
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null" and "type" in each]
    if "type" not in schema and choices:
        return resolved(choices[0], document)
    found: dict[str, Any] = schema
    return found


def sample(schema: Any, document: dict[str, Any], *, full: bool) -> Any:
    """A value of the schema: as little as it asks for, or with everything that it declares."""
    schema = resolved(schema, document)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type", "string")
    kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
    if kind == "object":
        return {name: sample(inner, document, full=full) for name, inner in asked(schema, full).items()}
    if kind == "array":
        count = max(schema.get("minItems", 0), 1)
        return [sample(schema.get("items", {}), document, full=full) for _ in range(count)]
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return True if kind == "boolean" else "x" * max(schema.get("minLength", 0), 1)


def asked(schema: dict[str, Any], full: bool) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties", {})
    return properties if full else {name: properties[name] for name in required(schema)}


def required(schema: dict[str, Any]) -> list[str]:
    """What must be there: the first group, where one of several will do."""
    groups = [each["required"] for each in schema.get("anyOf", ()) if set(each) == {"required"}]
    return [*schema.get("required", ()), *(groups[0] if groups else ())]


def levels(schema: Any, document: dict[str, Any], place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a full sample there is an object whose keys are declared."""
    schema = resolved(schema, document)
    if "properties" in schema:
        yield place
    for name, inner in schema.get("properties", {}).items():
        yield from levels(inner, document, (*place, name))
    if isinstance(schema.get("items"), dict):
        yield from levels(schema["items"], document, (*place, 0))


async def refused(app: App, name: str, input: Any) -> dict[str, Any]:
    with pytest.raises(Failure) as caught:
        await app.check(name, input, confirm=True)
    return wire.render(caught.value)


@pytest.mark.parametrize("name", NAMES)
async def test_an_unknown_key_is_refused_at_each_level(app: App, name: str) -> None:
    schema = schema_of(app, name)
    places = list(levels(schema, schema))
    assert () in places
    for place in places:
        input = sample(schema, schema, full=True)
        await app.check(name, input, confirm=True)
        inner = input
        for step in place:
            inner = inner[step]
        inner[STRANGE] = 1
        envelope = await refused(app, name, input)
        assert envelope["kind"] == "invalid_args"
        assert STRANGE in envelope["field"]


@pytest.mark.parametrize("name", NAMES)
async def test_nothing_at_all_is_refused_with_the_first_field_that_is_required(app: App, name: str) -> None:
    needed = required(schema_of(app, name))
    if not needed:
        await app.check(name, {}, confirm=True)
        return
    envelope = await refused(app, name, {})
    assert (envelope["kind"], envelope["field"], envelope["retryable"]) == ("invalid_args", needed[0], True)


@pytest.mark.parametrize("name", NAMES)
async def test_as_little_as_the_schema_asks_for_is_accepted(app: App, name: str) -> None:
    schema = schema_of(app, name)
    await app.check(name, sample(schema, schema, full=False), confirm=True)


@pytest.mark.parametrize("name", NAMES)
async def test_arguments_wrapped_in_properties_are_accepted(app: App, name: str) -> None:
    schema = schema_of(app, name)
    input = sample(schema, schema, full=False) or sample(schema, schema, full=True)
    await app.check(name, {"properties": input}, confirm=True)


@pytest.mark.parametrize("name", NAMES)
async def test_arguments_spelled_as_text_are_accepted(app: App, name: str) -> None:
    schema = schema_of(app, name)
    for field, value in sample(schema, schema, full=True).items():
        if not isinstance(value, str):
            input = sample(schema, schema, full=True) | {field: json.dumps(value)}
            await app.check(name, input, confirm=True)


@pytest.mark.parametrize("name", NAMES)
async def test_words_of_a_closed_set_are_accepted_in_any_case(app: App, name: str) -> None:
    schema = schema_of(app, name)
    for field, inner in schema["properties"].items():
        words = resolved(inner, schema).get("enum")
        if words and all(isinstance(each, str) for each in words):
            input = sample(schema, schema, full=True) | {field: words[0].upper()}
            await app.check(name, input, confirm=True)


@pytest.mark.parametrize("name", NAMES)
async def test_empty_fillers_of_optional_texts_are_dropped(app: App, name: str) -> None:
    schema = schema_of(app, name)
    needed = required(schema)
    texts = [
        field
        for field, inner in schema["properties"].items()
        if field not in needed and resolved(inner, schema).get("type") == "string" and "enum" not in inner
    ]
    await app.check(name, sample(schema, schema, full=False) | dict.fromkeys(texts, " "), confirm=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_described(app: App, name: str) -> None:
    schema = schema_of(app, name)
    assert [field for field, inner in schema["properties"].items() if not inner.get("description")] == []
    assert schema["additionalProperties"] is False


def members(schema: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Every member of a schema, however deep."""
    if isinstance(schema, dict):
        for name, member in schema.get("properties", {}).items():
            yield f"{place}.{name}", member
            yield from members(member, f"{place}.{name}")
        for each in (schema.get("items"), *schema.get("anyOf", ()), *schema.get("$defs", {}).values()):
            yield from members(each, place)


def test_a_model_is_told_what_every_argument_means(app: App) -> None:
    told = {place: each for name in NAMES for place, each in members(schema_of(app, name), name)}
    assert [place for place, each in told.items() if not each.get("description")] == []
