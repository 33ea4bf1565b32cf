"""Repair what a model clearly meant: schema-directed, at the failing places only.

Runs after validation failed. A subtree that fits its schema is never touched, a text is never read as
something else where a text is allowed, and what has two meanings is left to be refused. Driven by JSON
Schema alone, so it serves plugin and MCP tools too. The notes name places and kinds, never values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from fairlead.failures import Issue
from fairlead.failures.redaction import DEFAULT
from fairlead.schema.compiled import spell
from fairlead.schema.fits import Fit, at, declared_types, matches, missing, resolve, same, under
from fairlead.schema.readings import LONGEST_LITERAL, READERS, UNREAD, mapping
from fairlead.schema.wording import json_type

_STEPS = 50_000
_DEEPEST = 60
_MOST_NOTES = 50
_LONGEST_KEY = 100
_CHARACTERS_A_STEP = 20
_OPENINGS = ("[", "{", "(", '"')

_WRAPPERS = (
    "arguments", "args", "input", "inputs", "params", "parameters", "kwargs", "payload", "data", "body",
    "tool_input", "tool_args", "function_args", "action_input",
)  # fmt: skip
_CALL_KEYS = frozenset(
    {"name", "tool", "tool_name", "function", "function_name", "action", "type", "id", "call_id"}
)
_SEPARATORS = re.compile(r"[\s_\-.]+")

Path = tuple[str | int, ...]


class _GiveUp(Exception):
    """The value is too large or too deep to be worth repairing."""


def repair(value: Any, json_schema: dict[str, Any]) -> tuple[Any, list[str]]:
    """The value with its clear slips mended, and one note for each; the value itself when there is none."""
    try:
        mended, notes = _Mender(json_schema).run(value)
    except (_GiveUp, RecursionError):
        return value, []
    if len(notes) > _MOST_NOTES:
        notes = [*notes[:_MOST_NOTES], f"and {len(notes) - _MOST_NOTES} more"]
    return mended, notes


def refusal(value: Any) -> Issue | None:
    """What a host says in place of arguments that it could not read itself, if the value is such a notice."""
    if not isinstance(value, dict) or value.get("_error") != "invalid_tool_arguments":
        return None
    message, field, expected = (value.get(key) for key in ("_message", "_field", "_expected"))
    return Issue(
        (field,) if isinstance(field, str) and field else (),
        "malformed",
        message if isinstance(message, str) and message else "The arguments could not be read.",
        expected if isinstance(expected, str) and expected else None,
    )


class _Place(NamedTuple):
    """Where we are: the schema, the path, and how deep."""

    schema: Any
    path: Path
    depth: int

    def down(self, schema: Any, *steps: str | int) -> _Place:
        return _Place(schema, (*self.path, *steps), self.depth + 1)


class _Mender:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._fits = Fit(root)
        self._notes: list[str] = []
        self._steps = 0
        self._readings: dict[tuple[str, str], Any] = {}
        self._spellings: dict[tuple[int, Callable[[str], str]], dict[str, list[Any]]] = {}

    def run(self, value: Any) -> tuple[Any, list[str]]:
        return self._mend(value, _Place(self._root, (), 0)), self._notes

    def _mend(self, value: Any, place: _Place) -> Any:
        self._steps += 1
        if self._steps > _STEPS or place.depth > _DEEPEST:
            raise _GiveUp
        if not isinstance(place.schema, dict) or self._fits(value, place.schema):
            return value
        value = self._mend_by_own_keywords(value, place)
        if isinstance(value, str) and self._says_null(value, place.schema):
            self._note(place, "text was read as null")
            return None
        if isinstance(place.schema.get("$ref"), str):
            value = self._mend(value, place.down(resolve(place.schema["$ref"], self._root)))
        for each in place.schema.get("allOf") or ():
            value = self._mend(value, place.down(each))
        if not self._fits(value, place.schema):
            for keyword in ("anyOf", "oneOf"):
                value = self._mend_union(value, place, keyword)
        return value

    def _mend_by_own_keywords(self, value: Any, place: _Place) -> Any:
        types = declared_types(place.schema)
        if isinstance(value, str):
            value = self._read(value, types, place)
        elif isinstance(value, float) and "integer" in types and "number" not in types and value.is_integer():
            self._note(place, "a whole number with a fraction of zero was read as an integer")
            value = int(value)
        if isinstance(value, list) and "object" in types and "array" not in types and not place.path:
            value = self._unlist(value, place)
        if isinstance(value, dict) and "array" in types and "object" not in types:
            value = self._listed(value, place)
        if isinstance(value, dict) and _has(
            place.schema, "properties", "additionalProperties", "patternProperties"
        ):
            return self._mend_object(value, place)
        if isinstance(value, list) and _has(place.schema, "items", "prefixItems"):
            return self._mend_each(value, place)
        return value

    # Texts

    def _read(self, text: str, types: set[str], place: _Place) -> Any:
        options = _options(place.schema)
        if options is not None:
            nullable = [None] if place.schema.get("nullable") is True else []
            return self._read_option(text, [*options, *nullable], place)
        if "null" in types and self._reading("null", text) is None:
            types = {"null"}
        if not types or "string" in types:
            return text
        readings = {
            kind: value for kind in sorted(types) if (value := self._reading(kind, text)) is not UNREAD
        }
        values = list(readings.values())
        if not values or not all(same(value, values[0]) for value in values):
            return text
        kind = next(iter(readings))
        self._note(place, f"text was read as {_article(json_type(values[0]) if kind == 'number' else kind)}")
        return values[0]

    def _reading(self, kind: str, text: str) -> Any:
        """What a text says, read once: every branch of a union asks. What cannot be read costs the most."""
        key = (kind, text)
        if key not in self._readings:
            reader: Callable[[str], Any] | None = READERS.get(kind)
            found = self._readings[key] = reader(text) if reader else UNREAD
            if found is UNREAD and kind in ("array", "object") and text.lstrip()[:1] in _OPENINGS:
                self._steps += min(len(text), LONGEST_LITERAL) // _CHARACTERS_A_STEP
        return self._readings[key]

    def _spells(self, text: str, option: Any) -> bool:
        kind = json_type(option)
        reading = self._reading("number" if kind == "integer" else kind, text)
        return reading is not UNREAD and same(reading, option)

    def _read_option(self, text: str, options: list[Any], place: _Place) -> Any:
        for fold in (str.strip, _folded, _squeezed):
            found = self._spelled(options, place.schema, fold).get(fold(text), [])
            if len(found) == 1:
                self._note(place, "text was read as the declared spelling")
                return found[0]
            if found:
                return text
        found = [option for option in options if not isinstance(option, str) and self._spells(text, option)]
        if len(found) != 1:
            return text
        self._note(place, f"text was read as {_article(json_type(found[0]))}")
        return found[0]

    def _spelled(self, options: list[Any], schema: Any, fold: Callable[[str], str]) -> dict[str, list[Any]]:
        """A schema's texts by their folded spelling: there may be hundreds, and many values to look them up for."""
        key = (id(schema), fold)
        known = self._spellings.get(key)
        if known is None:
            known = self._spellings[key] = {}
            for option in options:
                if isinstance(option, str):
                    known.setdefault(fold(option), []).append(option)
        return known

    # Unions

    def _mend_union(self, value: Any, place: _Place, keyword: str) -> Any:
        branches = place.schema.get(keyword)
        if not isinstance(branches, list) or not branches:
            return value
        if (
            isinstance(value, str)
            and self._reading("null", value) is UNREAD
            and any(self._allows_text(branch) for branch in branches)
        ):
            return value
        met: list[tuple[Any, list[str]]] = []
        changed: list[tuple[Any, list[str]]] = []
        notes = self._notes
        for branch in branches:
            self._notes = []
            mended = self._mend(value, place.down(branch))
            if self._fits(mended, place.schema):
                met.append((mended, self._notes))
            elif self._notes and not _turned(value, mended):
                changed.append((mended, self._notes))
        self._notes = notes
        # When no branch can be met, one that can at least be come nearer to gives the better error.
        found = met or changed
        if not found or not all(same(mended, found[0][0]) for mended, _ in found):
            return value
        self._notes += found[0][1]
        mended = found[0][0]
        # What a text was found to hold, another branch may make more of.
        return mended if met else self._mend_union(mended, place, keyword)

    def _allows_text(self, schema: Any, depth: int = 0) -> bool:
        """Whether a text may stand here, other than one of a few listed ones."""
        if not isinstance(schema, dict) or depth > 10:
            return schema is not False
        if _options(schema) is not None:
            return False
        if isinstance(schema.get("$ref"), str):
            return self._allows_text(resolve(schema["$ref"], self._root), depth + 1)
        types = declared_types(schema)
        if types:
            return "string" in types
        inner = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key) or ()]
        return any(self._allows_text(each, depth + 1) for each in inner) if inner else True

    # Arrays

    def _mend_each(self, value: list[Any], place: _Place) -> list[Any]:
        mended = [self._mend(item, place.down(at(n, place.schema), n)) for n, item in enumerate(value)]
        return mended if any(new is not old for new, old in zip(mended, value, strict=True)) else value

    def _listed(self, value: dict[str, Any], place: _Place) -> Any:
        """`{"0": a, "1": b}` is how some models write an array."""
        if not value or set(value) != {str(n) for n in range(len(value))}:
            return value
        self._note(place, "an object with counted keys was read as an array")
        return [value[str(n)] for n in range(len(value))]

    def _unlist(self, value: list[Any], place: _Place) -> Any:
        if len(value) != 1:
            return value
        inner = mapping(value[0]) if isinstance(value[0], str) else value[0]
        if not isinstance(inner, dict):
            return value
        self._note(place, "an array of one object was read as the object")
        return inner

    # Objects

    def _mend_object(self, value: dict[str, Any], place: _Place) -> dict[str, Any]:
        properties = place.schema.get("properties")
        if isinstance(properties, dict) and properties:
            value = self._unwrap(value, properties, place)
            value = self._respell(value, properties, place)
        required = place.schema.get("required") or ()
        result = dict(value)
        for key, item in value.items():
            schemas = under(key, place.schema)
            optional = isinstance(properties, dict) and key in properties and key not in required
            if optional and self._is_absent(item, schemas, place.down(True, key)):
                del result[key]
                continue
            for schema in schemas:
                result[key] = self._mend(result[key], place.down(schema, key))
        unchanged = len(result) == len(value) and all(result[key] is item for key, item in value.items())
        return value if unchanged else result

    def _is_absent(self, item: Any, schemas: list[Any], place: _Place) -> bool:
        """Whether a value of an optional key is a filler for none at all."""
        takes = all(self._fits(item, schema) for schema in schemas)
        if item is None and not takes:
            self._note(place, "null was read as absent")
            return True
        if not isinstance(item, str):
            return False
        if not item.strip() and not takes:
            self._note(place, "blank text was read as absent")
            return True
        if takes or READERS["null"](item) is UNREAD or any(self._says_text(schema) for schema in schemas):
            return False
        if any(self._fits(None, schema) for schema in schemas):
            return False
        self._note(place, "the text null was read as absent")
        return True

    def _says_null(self, text: str, schema: dict[str, Any]) -> bool:
        return schema.get("nullable") is True and READERS["null"](text) is not UNREAD

    def _says_text(self, schema: Any) -> bool:
        """Whether any text at all is declared here."""
        options = _options(schema) if isinstance(schema, dict) else None
        if options is not None:
            return any(isinstance(option, str) for option in options)
        return self._allows_text(schema)

    def _unwrap(self, value: dict[str, Any], properties: dict[str, Any], place: _Place) -> dict[str, Any]:
        """Arguments inside one more object, as `{"arguments": {...}}`: inner keys move up, outer ones win."""
        wrappers = ("properties", *_WRAPPERS) if not place.path else ("properties",)
        while missing(value, place.schema) or self._strangers(value, properties, place):
            found = [
                (key, inner)
                for key in wrappers
                if key in value
                and key not in properties
                and (inner := self._wrapped(value[key], properties)) is not None
            ]
            if len(found) != 1:
                return value
            key, inner = found[0]
            outer = {name: item for name, item in value.items() if name != key}
            if key != "properties":
                if any(name in properties for name in outer if name in _CALL_KEYS):
                    return value  # `name` may be the call's or an argument: two meanings
                if self._refuses_extras(place):
                    outer = {name: item for name, item in outer.items() if name not in _CALL_KEYS}
            self._steps += 1
            self._note(place.down(True, key), "the object inside was read as the arguments")
            value = {**inner, **outer}
        return value

    def _wrapped(self, inner: Any, properties: dict[str, Any], layers: int = 4) -> dict[str, Any] | None:
        """The object under a wrapper key, native or as text, if it has a declared key."""
        if isinstance(inner, str):
            inner = self._reading("object", inner)
        if not isinstance(inner, dict):
            return None
        if any(key in properties for key in inner):
            return inner
        if len(inner) != 1 or not layers:
            return None
        key, only = next(iter(inner.items()))
        return self._wrapped(only, properties, layers - 1) if key in ("properties", *_WRAPPERS) else None

    def _respell(self, value: dict[Any, Any], properties: dict[str, Any], place: _Place) -> dict[str, Any]:
        """`taskId`, `task-id` and `Task ID` for `task_id`, when only one declared key can be meant."""
        strangers = self._strangers(value, properties, place)
        wanted = (
            [key for key in properties if key not in value] if strangers else missing(value, place.schema)
        )
        if not wanted:
            return value
        strangers = strangers or [key for key in value if isinstance(key, str) and key not in properties]
        meant = _by_spelling(wanted)
        renamed = {
            keys[0]: meant[spelling][0]
            for spelling, keys in _by_spelling(strangers).items()
            if len(keys) == 1 and len(meant.get(spelling, ())) == 1
        }
        for name in renamed.values():
            self._note(place.down(True, name), "a key was read as the declared spelling")
        return {renamed.get(key, key): item for key, item in value.items()} if renamed else value

    def _strangers(self, value: dict[Any, Any], properties: dict[str, Any], place: _Place) -> list[str]:
        """Keys that the schema refuses."""
        if not self._refuses_extras(place):
            return []
        patterns = place.schema.get("patternProperties") or {}
        undeclared = [key for key in value if isinstance(key, str) and key not in properties]
        return [key for key in undeclared if not any(matches(each, key) for each in patterns)]

    def _refuses_extras(self, place: _Place) -> bool:
        return (
            place.schema.get("additionalProperties") is False
            or place.schema.get("unevaluatedProperties") is False
        )

    def _note(self, place: _Place, what: str) -> None:
        # Keys of an open object are the caller's own words.
        path = [DEFAULT.text(step[:_LONGEST_KEY]) if isinstance(step, str) else step for step in place.path]
        self._notes.append(f"{spell(path) or 'input'}: {what}")


def _has(schema: Any, *keywords: str) -> bool:
    return isinstance(schema, dict) and any(keyword in schema for keyword in keywords)


def _turned(value: Any, mended: Any) -> bool:
    """Whether an object became an array, or the other way round: the other branches would turn it back."""
    return isinstance(value, list | dict) and type(mended) is not type(value)


def _options(schema: dict[str, Any]) -> list[Any] | None:
    options = schema.get("enum")
    if isinstance(options, list):
        return options
    return [schema["const"]] if "const" in schema else None


def _folded(text: str) -> str:
    return text.strip().casefold()


def _squeezed(text: str) -> str:
    return _SEPARATORS.sub("", text).casefold()


def _by_spelling(keys: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(_squeezed(key), []).append(key)
    return found


def _article(noun: str) -> str:
    if noun == "null":
        return noun
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
