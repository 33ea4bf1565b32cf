"""What a JSON Schema says about a value, in the few words the command line needs.

It reads schemas. It knows neither flags nor how a value is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

Kind = Literal[
    "boolean", "integer", "number", "string", "choice", "array", "object", "record", "union", "any"
]
JsonSchema = dict[str, Any]

_PLAIN: dict[str, Kind] = {"boolean": "boolean", "integer": "integer", "number": "number", "string": "string"}


class Shape:
    """One schema, with references followed and null set aside."""

    __slots__ = ("_definitions", "branches", "choices", "kind", "nullable", "reference", "schema")

    def __init__(self, schema: Any, definitions: JsonSchema) -> None:
        self._definitions = definitions
        self.nullable = False
        #: The definition this shape came from; recursive shapes meet it again.
        self.reference: str | None = None
        self.schema: JsonSchema = self._settled(schema if isinstance(schema, dict) else {})
        self.choices: tuple[Any, ...] = self._choices()
        self.branches: tuple[Shape, ...] = tuple(self._shape(each) for each in self.schema.get("anyOf", ()))
        self.kind: Kind = self._kind()

    @property
    def members(self) -> dict[str, Shape]:
        """The declared members of an object."""
        return {name: self._shape(each) for name, each in self.schema.get("properties", {}).items()}

    @property
    def required(self) -> frozenset[str]:
        return frozenset(self.schema.get("required", ()))

    def item(self, index: int) -> Shape:
        """The shape of an array's item."""
        fixed = self.schema.get("prefixItems", ())
        return self._shape(fixed[index] if index < len(fixed) else self.schema.get("items", {}))

    @property
    def value(self) -> Shape:
        """The shape of a record's values."""
        return self._shape(self.schema.get("additionalProperties", {}))

    def admits(self, value: Any) -> bool:
        """Whether a JSON value is of the right type; nothing finer is asked."""
        if value is None:
            return self.nullable or self.kind == "any"
        match self.kind:
            case "choice":
                return any(value == each and type(value) is type(each) for each in self.choices)
            case "union":
                return any(branch.admits(value) for branch in self.branches)
            case "any":
                return True
        return isinstance(value, _TYPES[self.kind]) and (isinstance(value, bool) == (self.kind == "boolean"))

    def takes_text(self) -> bool:
        """Whether any text may be a value."""
        return self.kind in ("string", "any") or any(branch.takes_text() for branch in self.branches)

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal number, or one among others: a number, or the text of one."""
        kinds = {branch.kind for branch in self.branches}
        return "number" in kinds and any("pattern" in branch.schema for branch in self.branches)

    def words(self) -> Iterator[str]:
        """What a value may be, for a sentence."""
        if self.kind == "choice":
            yield from (label(choice) for choice in self.choices)
        elif self.kind == "union":
            several = [branch.kind for branch in self.branches].count("object") > 1
            words = (word for branch in self.branches for word in branch._words(several))
            yield from dict.fromkeys(words)
        else:
            yield _WORDS[self.kind]
        if self.nullable:
            yield "null"

    def _words(self, among_objects: bool) -> Iterator[str]:
        needed = self.schema.get("required") if self.kind == "object" and among_objects else None
        if needed:
            yield f"{_WORDS['object']} with {', '.join(needed)}"
        else:
            yield from self.words()

    def _shape(self, schema: Any) -> Shape:
        return Shape(schema, self._definitions)

    def _settled(self, schema: JsonSchema) -> JsonSchema:
        """Follow references, unwrap lone alternatives, and set null aside, until nothing changes."""
        for _ in range(32):  # a definition that is only a reference to itself has no end
            reference = schema.get("$ref")
            if isinstance(reference, str):
                self.reference = reference.rsplit("/", 1)[-1]
                found = self._definitions.get(self.reference, {})
                schema = {**found, **_without(schema, "$ref")}
                continue
            listed = _alternatives(schema)
            if listed is None:
                break
            key, alternatives = listed
            rest = [each for each in alternatives if not _is_null(each)]
            self.nullable = self.nullable or len(rest) < len(alternatives)
            if len(rest) != 1:
                return {**_without(schema, key), "anyOf": rest}
            schema = {**rest[0], **_without(schema, key)}
        return self._without_null_type(schema)

    def _without_null_type(self, schema: JsonSchema) -> JsonSchema:
        types = schema.get("type")
        if not isinstance(types, list):
            return schema
        rest = [each for each in types if each != "null"]
        self.nullable = self.nullable or len(rest) < len(types)
        if len(rest) == 1:
            return {**schema, "type": rest[0]}
        return {**_without(schema, "type"), "anyOf": [{"type": each} for each in rest]}

    def _choices(self) -> tuple[Any, ...]:
        listed = [self.schema["const"]] if "const" in self.schema else self.schema.get("enum")
        if not isinstance(listed, list):
            return ()
        self.nullable = self.nullable or None in listed
        return tuple(each for each in listed if each is not None)

    def _kind(self) -> Kind:
        if self.choices:
            return "choice"
        if self.branches:
            return "union"
        match self.schema.get("type"):
            case "array":
                return "array"
            case "object":
                return "object" if self.schema.get("properties") else "record"
            case str() as name:
                return _PLAIN.get(name, "any")
        return "object" if self.schema.get("properties") else "any"


_TYPES: dict[str, Any] = {
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
    "record": dict,
}
_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a JSON array",
    "object": "a JSON object",
    "record": "a JSON object",
    "any": "any JSON",
}


def label(choice: Any) -> str:
    """A choice as it is typed: text as it is, anything else as JSON."""
    if isinstance(choice, str):
        return choice
    from fairlead._json import dumps

    return dumps(choice)


def _alternatives(schema: JsonSchema) -> tuple[str, list[JsonSchema]] | None:
    for key in ("anyOf", "oneOf", "allOf"):
        listed = schema.get(key)
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            continue
        if key != "allOf" or len(listed) == 1:
            return key, listed
    return None


def _is_null(schema: JsonSchema) -> bool:
    return (
        schema.get("type") == "null"
        or ("const" in schema and schema["const"] is None)
        or schema.get("enum") == [None]
    )


def _without(schema: JsonSchema, key: str) -> JsonSchema:
    return {name: value for name, value in schema.items() if name != key}
