"""JSON Schema 2020-12 from a core schema: no invented titles, references only for recursive shapes."""

from __future__ import annotations

from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import core_schema

from fairlead.schema.basics import tidy
from fairlead.schema.compiled import Mode
from fairlead.schema.strictness import Core

_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLES = frozenset({
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_LARGEST = 20_000


def document(core: Core, mode: Mode) -> dict[str, Any]:
    """The JSON Schema of a shape. Raises TypeError when JSON cannot describe it."""
    try:
        schema = _Generator().generate(core, mode)
    except Exception as error:  # types describe themselves, too, and whatever they raise is theirs
        told = error.message if isinstance(error, PydanticInvalidForJsonSchema) else str(error)
        raise TypeError(
            f"This shape has no JSON Schema: {(told.splitlines() or ['it says not why'])[0]}"
        ) from error
    return _inline(schema)


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: dict[str, Any], parent_key: str | None = None) -> dict[str, Any]:
        return value

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        result = _own_title(super().model_schema(schema), schema["cls"])
        if self.mode == "validation" and schema.get("config", {}).get("extra_fields_behavior") == "forbid":
            result.setdefault("additionalProperties", False)
        return result

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        return _own_title(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> dict[str, Any]:
        return _own_title(super().typed_dict_schema(schema), schema.get("cls"))

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> dict[str, Any]:
        # Pydantic's own says that anything will do, and nothing does: no value of JSON is a class.
        return self.handle_invalid_for_json_schema(schema, "core_schema.IsSubclassSchema")

    def get_decimal_pattern(self, schema: core_schema.DecimalSchema) -> str | None:
        return self.build_decimal_pattern(schema)

    def field_is_required(self, field: Any, total: bool) -> bool:
        # Instances always have all their fields, so their dumps do too.
        if self.mode == "serialization" and field["type"] in ("model-field", "dataclass-field"):
            return field.get("serialization_exclude_if") is None
        return super().field_is_required(field, total)

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        result = super().generate_inner(schema)
        if schema["type"] == "enum":
            # Pydantic adds an enum's title after enum_schema, to the definition where there is one.
            defined = self.get_schema_from_definitions(result["$ref"]) if "$ref" in result else None
            _own_title(defined or result, schema["cls"])
        return result


def _own_title(schema: dict[str, Any], cls: Any) -> dict[str, Any]:
    """Drop a title that only repeats the class's name."""
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    if schema.get("title") == getattr(cls, "__name__", None) and "title" not in config:
        schema.pop("title", None)
    return schema


class _TooLarge(Exception):
    """Inlining every reference would make the document explode."""


def _inline(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", {})
    recursive = {name for name in definitions if _reaches(name, name, definitions)}
    try:
        result = _Inliner(definitions, recursive).document(schema)
    except _TooLarge:
        result = _Inliner(definitions, set(definitions)).document(schema)
    return result


class _Inliner:
    """Copies a schema with references replaced by what they mean, except those kept."""

    def __init__(self, definitions: dict[str, Any], kept: set[str]) -> None:
        self._definitions = definitions
        self._kept = kept
        self._used: list[str] = []
        self._size = 0

    def document(self, schema: dict[str, Any]) -> dict[str, Any]:
        name = _name(schema)
        # Clients want to see the root's own type, so a recursive root is spelled out once.
        root: dict[str, Any] = self._copy(
            {**self._definitions[name], **_siblings(schema)} if name else schema
        )
        definitions = {}
        for used in self._used:  # grows while definitions are copied
            definitions[used] = self._copy(self._definitions[used])
        if definitions:
            root["$defs"] = definitions
        return root

    def _copy(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._size += 1
        if self._size > _LARGEST and self._kept != set(self._definitions):
            raise _TooLarge
        name = _name(schema)
        if name is None:
            return _tidy({key: self._keyword(key, value) for key, value in schema.items()})
        if name not in self._kept:
            return self._copy({**self._definitions[name], **_siblings(schema)})
        if name not in self._used:
            self._used.append(name)
        return _tidy(dict(schema))

    def _keyword(self, key: str, value: Any) -> Any:
        if key in _MAPS and isinstance(value, dict):
            return {name: self._copy(each) for name, each in value.items()}
        if key in _LISTS and isinstance(value, list):
            return [self._copy(each) for each in value]
        return self._copy(value) if key in _SINGLES else value


def _name(schema: dict[str, Any]) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix("#/$defs/") if isinstance(ref, str) and ref.startswith("#/$defs/") else None


def _siblings(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "$ref"}


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    schema.pop("discriminator", None)  # OpenAPI's word, and its mapping would name definitions that are gone
    return tidy(schema)


def _reaches(start: str, goal: str, definitions: dict[str, Any]) -> bool:
    seen: set[str] = set()
    waiting = _references(definitions.get(start))
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            waiting |= _references(definitions.get(name)) - seen
    return False


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_references, schema))
    if not isinstance(schema, dict):
        return set()
    name = _name(schema)
    found = {name} if name else set()
    return found.union(*map(_references, schema.values()))
