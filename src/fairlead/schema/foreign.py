"""Schemas from JSON Schema documents, backed by jsonschema-rs: every keyword of the draft, formats included.

Documents come from outside (plugins, MCP servers, configuration), so references may not leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fairlead.failures import Issue
from fairlead.schema.blanks import plan_of_document
from fairlead.schema.compiled import Invalid, Mode, Schema
from fairlead.schema.cost import Cost
from fairlead.schema.jsonable import NotJsonable, jsonable
from fairlead.schema.nullable import spelled_out
from fairlead.schema.preflight import refusal
from fairlead.schema.wording import either, json_type, one_of, unexpected

_MOST = 100
_DEAR = "The schema has more parts that apply to this value than can be checked. Send a smaller value."

# keyword: code, then what was expected, with the keyword's limit in it
_LIMITS = {
    "minimum": ("too_small", "at least {}"),
    "exclusiveMinimum": ("too_small", "greater than {}"),
    "maximum": ("too_large", "at most {}"),
    "exclusiveMaximum": ("too_large", "less than {}"),
    "minLength": ("too_short", "at least {} characters"),
    "maxLength": ("too_long", "at most {} characters"),
    "minItems": ("too_short", "at least {} items"),
    "maxItems": ("too_long", "at most {} items"),
    "minProperties": ("too_short", "at least {} keys"),
    "maxProperties": ("too_long", "at most {} keys"),
    "multipleOf": ("multiple_of", "a multiple of {}"),
    "pattern": ("pattern", "text matching {}"),
    "format": ("format", "text in the format {}"),
    "additionalItems": ("too_long", "at most {} items"),
}


class Foreign:
    """A JSON Schema document compiled to a validator."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = jsonable(document)
        self._rules = spelled_out(self._document)
        self._validator = _compile(self._rules)
        self._cost = Cost(self._rules)
        self.plain = False
        self.dump: Callable[[Any], Any] = jsonable
        self.drop_blanks = plan_of_document(self._document)

    def validate(self, value: Any) -> Any:
        # The copy is plain and bounded in depth; the validator recurses natively and must not meet a cycle.
        plain = jsonable(value)
        refused = refusal(plain)
        if refused is not None:
            raise Invalid([refused])
        if not self._cost.is_within_bounds(plain):
            raise Invalid([Issue((), "recursion", _DEAR)])
        if self._validator.is_valid(plain):
            return plain
        raise Invalid(self._read(self._validator.iter_errors(plain), self._rules))

    def validator_of_output(self) -> Callable[[Any], Any]:
        return self.validate

    def issues(self, error: Exception) -> list[Issue]:
        if isinstance(error, NotJsonable):
            return [Issue(error.path, "type", f"This is not a JSON value: {error.reason}.")]
        return [Issue((), "value", "The value could not be checked.")]

    def check(self, mode: Mode) -> None:
        """It came as JSON Schema."""

    def document(self, mode: Mode) -> dict[str, Any]:
        return self._document  # type: ignore[no-any-return]

    def _read(self, errors: Iterable[Any], document: Any) -> list[Issue]:
        issues: list[Issue] = []
        for error in errors:
            issues += _issues(error, document)
            if len(issues) >= _MOST:
                break
        return list(dict.fromkeys(issues))[:_MOST]


def foreign(document: dict[str, Any]) -> Schema:
    """The schema of a JSON Schema document.

    Raises:
        TypeError: the document is not a JSON Schema, or refers to something outside itself.
        ModuleNotFoundError: the extra `fairlead[jsonschema]` is not installed.
    """
    return Schema(Foreign(document))


def _compile(document: Any) -> Any:
    try:
        import jsonschema_rs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "JSON Schema documents need the package jsonschema-rs. "
            "Install it with: pip install 'fairlead[jsonschema]'"
        ) from error
    _check_references(document)
    try:
        return jsonschema_rs.validator_for(document, validate_formats=True, retriever=_refuse)
    except ValueError as error:
        why = str(getattr(error, "message", error)).splitlines()[0]
        where = "/".join(map(str, getattr(error, "instance_path", ())))
        raise TypeError(
            f"This is not a valid JSON Schema{f' at {where}' if where else ''}: {why}."
        ) from error


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri!r} is outside the document")


def _check_references(document: Any) -> None:
    """References must stay inside the document, and must lead somewhere other than back to themselves."""
    from fairlead.schema.fits import resolve

    identified = {
        each["$id"].split("#")[0] for each in _subschemas(document) if isinstance(each.get("$id"), str)
    }
    for each in _subschemas(document):
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            ref = each.get(keyword)
            if not isinstance(ref, str) or ref.startswith("#"):
                continue
            if not identified and not ref.startswith(("http://json-schema.org/", "https://json-schema.org/")):
                raise TypeError(
                    f"The JSON Schema refers to {ref!r}, which is outside it. Remote references are refused: "
                    "put the definition under '$defs' and refer to it as '#/$defs/NAME'."
                )
        hops = 0
        target: Any = each
        while (
            isinstance(target, dict)
            and isinstance(target.get("$ref"), str)
            and target["$ref"].startswith("#")
        ):
            target = resolve(target["$ref"], document)
            hops += 1
            if hops > 100:
                raise TypeError(f"The JSON Schema's reference {each['$ref']!r} only leads back to itself.")


def _subschemas(document: Any) -> Iterable[dict[str, Any]]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(
                item for key, item in value.items() if key not in ("const", "enum", "default", "examples")
            )
        elif isinstance(value, list):
            waiting.extend(value)


def _issues(error: Any, document: Any) -> list[Issue]:
    kind, details = error.kind.name, error.kind.as_dict()
    path = tuple(error.instance_path)
    received = json_type(error.instance)
    if kind == "required":
        expected = _wanted(_beside(document, error), details["property"])
        words = f"This is required: {expected}." if expected else "This is required."
        return [Issue((*path, details["property"]), "missing", words, expected)]
    if kind in ("additionalProperties", "unevaluatedProperties"):
        allowed = _declared(document, error)
        given = error.instance if isinstance(error.instance, dict) else {}
        return [
            Issue((*path, key), "unexpected", unexpected(key, allowed), None, json_type(given.get(key)))
            for key in details["unexpected"][:_MOST]
        ]
    if kind in ("anyOf", "oneOf") and isinstance(details.get("context"), list):
        return _union(details["context"], document, path, received)
    return [_issue(kind, details, path, received)]


def _issue(kind: str, details: dict[str, Any], path: tuple[str | int, ...], received: str) -> Issue:
    if kind == "type":
        expected = either(details["types"])
        return Issue(path, "type", f"Expected {expected}, found {received}.", expected, received)
    if kind in ("enum", "const"):
        expected = one_of(details["options"] if kind == "enum" else [details["expected_value"]])
        code = "enum" if kind == "enum" else "literal"
        return Issue(path, code, f"This is not an allowed value. Expected {expected}.", expected, received)
    if kind in _LIMITS:
        code, words = _LIMITS[kind]
        limit = next(iter(details.values()), "")
        expected = words.format(limit)
        if limit == 1:
            expected = expected.removesuffix("s")  # at least 1 item
        return Issue(path, code, f"Expected {expected}.", expected, received)
    if kind == "uniqueItems":
        return Issue(path, "unique", "The items must differ from each other.", "unique items", received)
    if kind == "propertyNames":
        return Issue(path, "type", "A key does not have the declared form.", None, received)
    return Issue(path, "value", f"The value does not satisfy the schema's '{kind}'.", None, received)


def _union(
    context: list[list[Any]], document: Any, path: tuple[str | int, ...], received: str
) -> list[Issue]:
    meant = [branch for branch in context if branch and not _is_other_type(branch[0], path)]
    failed = [branch for branch in context if branch]
    if len(failed) < len(context):
        return [
            Issue(path, "union", "More than one of the alternatives fits; exactly one must.", None, received)
        ]
    if len(meant) == 1:
        return [issue for error in meant[0] for issue in _issues(error, document)]
    types = [kind for branch in context for kind in _types(branch[0])]
    expected = either(types) if types else None
    message = "None of the allowed shapes fits." + (f" Expected {expected}." if expected else "")
    return [Issue(path, "union", message, expected, received)]


def _is_other_type(error: Any, path: tuple[str | int, ...]) -> bool:
    if tuple(error.instance_path) != path:
        return False
    details = error.kind.as_dict()
    if error.kind.name in ("enum", "const"):
        values = details["options"] if error.kind.name == "enum" else [details["expected_value"]]
        return json_type(error.instance) not in {json_type(value) for value in values}
    return bool(error.kind.name == "type")


def _types(error: Any) -> list[str]:
    return list(error.kind.as_dict()["types"]) if error.kind.name == "type" else [json_type(error.instance)]


def _declared(document: Any, error: Any) -> list[str]:
    """The keys declared beside the keyword that refused one."""
    return list(_beside(document, error))


def _wanted(properties: dict[str, Any], key: str) -> str | None:
    """What a key should have held, as far as its schema says so in a word."""
    schema = properties.get(key)
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("enum"), list):
        return one_of(schema["enum"])
    types = schema.get("type")
    return either([types] if isinstance(types, str) else types) if types else None


def _beside(document: Any, error: Any) -> dict[str, Any]:
    """The properties declared beside the keyword that refused something."""
    schema = document
    for step in list(error.schema_path)[:-1]:
        if isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and step == "$ref":
            from fairlead.schema.fits import resolve

            schema = resolve(schema["$ref"], document)
        else:
            try:
                schema = schema[step]
            except (KeyError, IndexError, TypeError):
                return {}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}
