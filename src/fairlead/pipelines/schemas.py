"""JSON Schema to types and back. What a schema asks beyond types is told, so that it can be shown as a warning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

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
    Primitive,
    Product,
    Record,
    Sum,
    Type,
    joined,
    resolve,
    variants,
)

_SIMPLE: Final = {"string": STRING, "integer": INT, "number": NUMBER, "boolean": BOOL, "null": UNIT}
#: Words that describe, and refuse nothing.
_WORDS: Final = frozenset(
    """
    title description default examples example deprecated readOnly writeOnly $defs definitions $schema $id
    $comment contentMediaType discriminator
    """.split()  # noqa: SIM905  # a table reads better than a list of strings
)
_SHAPE: Final = frozenset(
    """
    type properties required additionalProperties items prefixItems anyOf oneOf allOf $ref const enum
    """.split()  # noqa: SIM905
)

#: A type of more parts is written with its names as definitions.
_LONGEST: Final = 2000


class Read(NamedTuple):
    """A type, and what the schema asks that it does not say, by path."""

    type: Type
    beyond: tuple[str, ...]


def type_of(schema: Mapping[str, Any]) -> Read:
    """The type that a JSON Schema describes, as closely as types can."""
    reader = _Reader(schema)
    made = reader.read(schema, "")
    return Read(made, tuple(dict.fromkeys(reader.beyond)))


class _Reader:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._named: dict[str, Alias] = {}
        self.beyond: list[str] = []

    def read(self, schema: Any, path: str) -> Type:
        if not isinstance(schema, Mapping):
            return JSON
        self._note(schema, path)
        if "$ref" in schema:
            return self._referred(str(schema["$ref"]), path)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return joined([self.read(each, path) for each in schema[word]])
        if len(schema.get("allOf", ())) == 1:
            return self.read(schema["allOf"][0], path)
        if "const" in schema:
            return joined([_type_of_value(schema["const"])])
        if "enum" in schema:
            return joined([_type_of_value(each) for each in schema["enum"]])
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return joined([self._kind(each, schema, path) for each in kinds])
        if kinds is None and "properties" in schema:
            kinds = "object"
        return self._kind(kinds, schema, path)

    def _note(self, schema: Mapping[str, Any], path: str) -> None:
        where = path or "the input"
        for word in schema:
            if word not in _WORDS and word not in _SHAPE:
                self.beyond.append(f"{where}: {word} {schema[word]!r}"[:120])
        if "enum" in schema or "const" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            self.beyond.append(f"{where}: one of {', '.join(repr(each) for each in values)}"[:120])
        if len(schema.get("allOf", ())) > 1:
            self.beyond.append(f"{where}: allOf")

    def _kind(self, kind: Any, schema: Mapping[str, Any], path: str) -> Type:
        if kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "array":
            return self._array(schema, path)
        if kind == "object" and "properties" in schema:
            required = set(schema.get("required", ()))
            fields = (
                Field(name, self.read(each, f"{path}.{name}".lstrip(".")), name not in required)
                for name, each in schema["properties"].items()
            )
            return Record(tuple(fields))
        if kind == "object" and schema.get("additionalProperties") is False:
            return Record(())
        if kind == "object":
            self.beyond.append(f"{path or 'the input'}: an object of any names")
        return JSON

    def _array(self, schema: Mapping[str, Any], path: str) -> Type:
        first = schema.get("prefixItems")
        if isinstance(first, list) and schema.get("items") in (None, False) and first:
            return Product(tuple(self.read(each, f"{path}.{i}") for i, each in enumerate(first)))
        return Array(self.read(schema.get("items", {}), f"{path}[]"))

    def _referred(self, ref: str, path: str) -> Type:
        if ref in self._named:
            return self._named[ref]
        target: Any = self._root
        for part in ref.removeprefix("#").strip("/").split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            target = target.get(part) if isinstance(target, Mapping) and part else target
        if not ref.startswith("#") or target is None:
            return JSON
        alias = self._named[ref] = Alias(ref.rpartition("/")[2] or "Self")
        alias.target = self.read(target, path)
        return alias


def _type_of_value(value: Any) -> Type:
    match value:
        case None:
            return UNIT
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return NUMBER
        case str():
            return STRING
    return JSON


def schema_of(type: Type) -> dict[str, Any]:
    """A JSON Schema whose values are exactly the type's."""
    definitions: dict[str, Any] = {}
    recursive = _recursive(type)
    made = _write(type, definitions, {}, _every_name(type) if _long(type, recursive) else recursive)
    return {**made, "$defs": definitions} if definitions else made


def _long(type: Type, named: set[int]) -> bool:
    """Whether a type is too long to be written out: names that stand in it often make it longer than any program."""
    todo, count = [type], 0
    while todo and count <= _LONGEST:
        each, count = todo.pop(), count + 1
        if id(each) not in named:
            todo += parts(resolve(each))
    return count > _LONGEST


def _every_name(type: Type) -> set[int]:
    todo, found = [type], set()
    while todo:
        each = todo.pop()
        if isinstance(each, Alias):
            if id(each) in found:
                continue
            found.add(id(each))
        todo += parts(resolve(each))
    return found


def _recursive(type: Type) -> set[int]:
    """The names that are part of themselves."""
    found: set[int] = set()
    _walk(type, (), found, set())
    return found


def _walk(type: Type, above: tuple[int, ...], found: set[int], done: set[int]) -> None:
    if isinstance(type, Alias):
        if id(type) in above:
            found.add(id(type))
            return
        if id(type) in done:
            return
        _walk(resolve(type), (*above, id(type)), found, done)
        done.add(id(type))
        return
    for each in parts(type):
        _walk(each, above, found, done)


def parts(type: Type) -> list[Type]:
    """The types that a type is made of, one step down."""
    match type:
        case Record(fields=fields):
            return [each.type for each in fields]
        case Array(item=item):
            return [item]
        case Product(items=items) | Sum(variants=items):
            return list(items)
    return []


def _write(
    type: Type, definitions: dict[str, Any], names: dict[int, str], recursive: set[int]
) -> dict[str, Any]:
    if isinstance(type, Alias) and id(type) in recursive:
        if id(type) not in names:
            name, number = type.name, 2
            while name in definitions:
                name, number = f"{type.name}{number}", number + 1
            names[id(type)] = name
            definitions[name] = {}
            definitions[name] = _write(resolve(type), definitions, names, recursive)
        return {"$ref": f"#/$defs/{names[id(type)]}"}
    plain = resolve(type)
    match plain:
        case Primitive(name="json"):
            return {}
        case Primitive(name=name):
            return {
                "type": {"string": "string", "int": "integer", "number": "number", "bool": "boolean"}.get(
                    name, "null"
                )
            }
        case Array(item=item):
            return {"type": "array", "items": _write(item, definitions, names, recursive)}
        case Product(items=items):
            each = [_write(one, definitions, names, recursive) for one in items]
            return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
        case Sum():
            return {"anyOf": [_write(each, definitions, names, recursive) for each in variants(plain)]}
        case Record(fields=fields):
            return {
                "type": "object",
                "properties": {
                    each.name: _write(each.type, definitions, names, recursive) for each in fields
                },
                "required": [each.name for each in fields if not each.optional],
                "additionalProperties": False,
            }
    raise AssertionError(plain)
