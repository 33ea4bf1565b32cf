"""Pydantic's errors as our issues: our own codes and words, no rejected values, one issue for a failed union.

missing unexpected type too_short too_long too_small too_large multiple_of pattern enum literal
format finite unique union recursion value unserializable
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import PydanticSerializationError, ValidationError

from fairlead.failures import Issue
from fairlead.failures.redaction import DEFAULT
from fairlead.schema.jsonable import LONE_SURROGATE, NotJsonable
from fairlead.schema.locations import Map, Place, branches
from fairlead.schema.strictness import Core
from fairlead.schema.wording import counted, either, json_type, listed, one_of, unexpected

_MOST = 100
# Every error is spelled out before the first can be read, which takes long where a union of many is wrong often.
_COUNTED = 100_000
#: From how many characters on a value is looked for inside of words, too.
_LONG = 4

_TYPE_WORDS = {
    "string_type": "string", "string_unicode": "string", "int_type": "integer", "int_from_float": "integer",
    "float_type": "number", "bool_type": "boolean", "none_required": "null",
    "list_type": "array", "tuple_type": "array", "set_type": "array", "frozen_set_type": "array",
    "deque_type": "array", "iterable_type": "array", "named_tuple_type": "array",
    "dict_type": "object", "mapping_type": "object", "frozen_dict_type": "object",
    "ordered_dict_type": "object", "counter_type": "object", "model_type": "object",
    "model_attributes_type": "object",
    "dataclass_type": "object", "dataclass_exact_type": "object", "arguments_type": "object",
    "bytes_type": "string", "date_type": "date string like 2026-01-31",
    "time_type": "time string like 13:45:00", "datetime_type": "date-time string like 2026-01-31T13:45:00Z",
    "time_delta_type": "duration string like PT15M", "uuid_type": "UUID string", "url_type": "URL string",
    "decimal_type": "decimal number", "fraction_type": "fraction", "complex_type": "complex number",
    "invalid_key": "string key",
}  # fmt: skip
_FORMAT_WORDS = {
    "int_parsing": "integer", "int_parsing_size": "integer of sensible size", "float_parsing": "number",
    "bool_parsing": "boolean", "json_invalid": "JSON text", "json_type": "JSON text",
    "bytes_invalid_encoding": "encoded bytes", "string_not_ascii": "ASCII text",
    "date_parsing": "date string like 2026-01-31",
    "date_from_datetime_parsing": "date string like 2026-01-31",
    "date_from_datetime_inexact": "date without a time, like 2026-01-31",
    "time_parsing": "time string like 13:45:00",
    "datetime_parsing": "date-time string like 2026-01-31T13:45:00Z",
    "datetime_from_date_parsing": "date-time string like 2026-01-31T13:45:00Z",
    "datetime_object_invalid": "date-time string like 2026-01-31T13:45:00Z",
    "timezone_naive": "date-time without an offset", "timezone_aware": "date-time with an offset, like Z",
    "timezone_offset": "date-time with the declared offset", "date_past": "date in the past",
    "date_future": "date in the future", "datetime_past": "date-time in the past",
    "datetime_future": "date-time in the future", "time_delta_parsing": "duration string like PT15M",
    "url_parsing": "URL", "url_syntax_violation": "URL", "url_too_long": "shorter URL",
    "uuid_parsing": "UUID string", "uuid_version": "UUID of the declared version",
    "decimal_parsing": "decimal number", "decimal_max_digits": "decimal number with fewer digits",
    "decimal_max_places": "decimal number with fewer places",
    "decimal_whole_digits": "decimal number with fewer whole digits", "fraction_parsing": "fraction",
    "complex_str_parsing": "complex number",
}  # fmt: skip
_NODE_WORDS = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "none": "null",
    "any": "any value", "list": "array", "tuple": "array", "set": "array", "frozenset": "array",
    "deque": "array", "generator": "array", "named-tuple": "array",
    "dict": "object", "typed-dict": "object", "model-fields": "object",
    "dataclass-args": "object", "frozendict": "object", "ordered-dict": "object", "counter": "object",
    "date": _TYPE_WORDS["date_type"], "time": _TYPE_WORDS["time_type"],
    "datetime": _TYPE_WORDS["datetime_type"],
    "timedelta": _TYPE_WORDS["time_delta_type"], "uuid": "UUID string", "url": "URL string",
    "multi-host-url": "URL string", "decimal": "decimal number", "bytes": "string", "json": "JSON text",
}  # fmt: skip
_BOUNDS = {
    "greater_than": ("too_small", "greater than", "gt"),
    "greater_than_equal": ("too_small", "at least", "ge"),
    "less_than": ("too_large", "less than", "lt"),
    "less_than_equal": ("too_large", "at most", "le"),
}
_LENGTHS = {
    "too_short": ("too_short", "at least", "min_length", "items"),
    "too_long": ("too_long", "at most", "max_length", "items"),
    "string_too_short": ("too_short", "at least", "min_length", "characters"),
    "string_too_long": ("too_long", "at most", "max_length", "characters"),
    "bytes_too_short": ("too_short", "at least", "min_length", "bytes"),
    "bytes_too_long": ("too_long", "at most", "max_length", "bytes"),
}


def read(error: Exception, core: Core) -> list[Issue]:
    """The issues of an error that validating or dumping by a core schema raised."""
    if isinstance(error, ValidationError):
        return _Reader(core).read(error)
    if isinstance(error, RecursionError):
        return [_recursion(())]
    cause = error.__cause__ if isinstance(error, PydanticSerializationError) else error
    if isinstance(cause, NotJsonable):
        return [Issue(cause.path, "unserializable", f"This has no JSON form: {cause.reason}.")]
    return [Issue((), "unserializable", "The value does not have the declared shape, or has no JSON form.")]


class _Located:
    """One pydantic error with its place, already in our words."""

    def __init__(self, issue: Issue, place: Place, given: Any) -> None:
        self.issue = issue
        self.place = place
        self.given = given


class _Reader:
    def __init__(self, core: Core) -> None:
        self._map = Map(core)
        #: Keys that are not declared, so far.
        self._strangers = 0

    def read(self, error: ValidationError) -> list[Issue]:
        if error.error_count() > _COUNTED:
            return [
                Issue(
                    (), "value", f"More than {_COUNTED} things are wrong with the value. Send less at once."
                )
            ]
        errors = error.errors(include_url=False)[: _MOST * 10]
        located = [self._locate(each) for each in errors]
        return self._resolve(located, 0)[:_MOST]

    def _resolve(self, errors: list[_Located], depth: int) -> list[Issue]:
        """Errors inside the same union become one issue, or those of the one branch that was meant."""
        issues: list[Issue] = []
        groups: dict[Any, list[_Located]] = {}
        for each in errors:
            if len(each.place.unions) <= depth:
                issues.append(each.issue)
                continue
            union = each.place.unions[depth]
            key = (union.path, id(union.node))
            if key not in groups:
                groups[key] = []
                issues.append(Issue(union.path, "", ""))  # holds the group's place in the order
            groups[key].append(each)
        resolved = iter(groups.values())
        return [
            found
            for issue in issues
            for found in (self._resolve_union(next(resolved), depth) if not issue.code else [issue])
        ]

    def _resolve_union(self, errors: list[_Located], depth: int) -> list[Issue]:
        union = errors[0].place.unions[depth]
        by_branch: dict[str | int, list[_Located]] = {}
        for each in errors:
            by_branch.setdefault(each.place.unions[depth].branch, []).append(each)
        meant = [found for found in by_branch.values() if not _is_other_type(found, union.path)]
        if len(meant) > 1:
            meant = [found for found in meant if not _has_other_tag(found, union.path)] or meant
        if len(meant) == 1 or union.node["type"] == "tagged-union":
            return self._resolve(meant[0] if meant else errors, depth + 1)
        tag = self._tag(meant, union.path)
        if tag is not None:
            return [tag]
        fitting = [found for found in meant if not _has_other_keys(found, union.path)]
        if len(fitting) == 1:
            return self._resolve(fitting[0], depth + 1)
        expected = self._alternatives(union.node)
        at_union = next((each for each in errors if each.place.path == union.path), None)
        received = json_type(at_union.given) if at_union else None
        message = f"None of the allowed shapes fits. Expected {expected}."
        return [Issue(union.path, "union", message, expected, received)]

    def _tag(self, meant: list[list[_Located]], path: tuple[str | int, ...]) -> Issue | None:
        """When the alternatives differ by the value of one key, that key is what is wrong."""
        wrong = [
            {
                each.place.path: each
                for each in found
                if len(each.place.path) == len(path) + 1
                and self._map.peel(each.place.node)["type"] == "literal"
            }
            for found in meant
        ]
        shared = [place for place in wrong[0] if all(place in others for others in wrong)] if wrong else []
        if not shared:
            return None
        errors = [each[shared[0]] for each in wrong]
        values = [value for each in errors for value in self._map.peel(each.place.node)["expected"]]
        expected = one_of(dict.fromkeys(values))
        if errors[0].issue.code == "missing":
            return Issue(shared[0], "missing", f"This is required: {expected}.", expected)
        received = errors[0].issue.received
        return Issue(
            shared[0], "enum", f"This is not an allowed value. Expected {expected}.", expected, received
        )

    def describe(self, node: Core) -> str:
        """What a shape expects, in a few words."""
        if node["type"] == "nullable":
            return either([self.describe(node["schema"]), "null"])
        here = self._map.peel(node)
        if here is not node and _has_nullable(node):
            return either([self.describe(here), "null"])
        kind = here["type"]
        if kind == "union":
            return self._alternatives(here)
        if kind == "tagged-union":
            return "object"
        if kind == "literal":
            return one_of(here["expected"])
        if kind == "enum":
            return one_of(member.value for member in here["members"])
        if (
            kind == "list"
            and self._map.peel(here.get("items_schema", {"type": "any"}))["type"] in _NODE_WORDS
        ):
            items = self._map.peel(here.get("items_schema", {"type": "any"}))
            return "array" if items["type"] == "any" else f"array of {_plural(_NODE_WORDS[items['type']])}"
        return _NODE_WORDS.get(kind, "value of the declared kind")

    def _alternatives(self, union: Core) -> str:
        """What each branch expects. Several objects are told apart by the keys that they need."""
        told = [(branch, self.describe(branch)) for branch in branches(union)]
        several = [words for _, words in told].count("object") > 1
        return either(
            f"{words} with {listed(keys)}"
            if several and words == "object" and (keys := self._map.needed(branch))
            else words
            for branch, words in told
        )

    def _locate(self, error: Any) -> _Located:
        place = self._map.find(error["loc"])
        given = error.get("input")
        issue = self._issue(error["type"], error.get("ctx") or {}, error["msg"], place, given)
        return _Located(issue, place, given)

    def _issue(self, kind: str, ctx: dict[str, Any], text: str, place: Place, given: Any) -> Issue:
        path = place.path
        if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
            expected = self.describe(place.node)
            return Issue(path, "missing", f"This is required: {expected}.", expected)
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            self._strangers += 1
            look = self._strangers <= _MOST  # more are not told
            message = unexpected(path[-1] if path else "", self._map.keys(place.parent), look=look)
            return Issue(path, "unexpected", message, None, json_type(given))
        received = json_type(given)
        if kind == "string_unicode" and isinstance(given, str):
            return Issue(path, "unserializable", f"This has no JSON form: {LONE_SURROGATE}.")
        if place.is_key:
            return Issue(
                path, "type", "The key does not have the declared form.", self.describe(place.node), received
            )
        if kind in ("recursion_loop", "recursion_depth_exceeded"):
            return _recursion(path)
        return (
            _of_type(kind, path, self.describe(place.node), received)
            or _of_bounds(kind, ctx, path, received)
            or self._of_choice(kind, ctx, place, received)
            or _of_text(kind, ctx, path, received)
            or _of_author(kind, text, path, given)
        )

    def _of_choice(self, kind: str, ctx: dict[str, Any], place: Place, received: str) -> Issue | None:
        if kind in ("enum", "literal_error"):
            here = self._map.peel(place.node)
            known = here["type"] in ("enum", "literal")
            expected = self.describe(here) if known else str(ctx.get("expected", "a declared value"))
            code = "enum" if kind == "enum" or (known and len(here.get("expected", ())) != 1) else "literal"
            return Issue(
                place.path, code, f"This is not an allowed value. Expected {expected}.", expected, received
            )
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            here = self._map.peel(place.node)
            key = str(ctx.get("discriminator", "")).strip("'")
            expected = one_of(here["choices"]) if here["type"] == "tagged-union" else "a declared kind"
            path = (*place.path, key) if key.isidentifier() else place.path
            if kind == "union_tag_not_found":
                return Issue(path, "missing", f"This is required: {expected}.", expected)
            return Issue(path, "enum", f"This is not an allowed value. Expected {expected}.", expected)
        return None


def _of_type(kind: str, path: tuple[str | int, ...], declared: str, received: str) -> Issue | None:
    expected = _TYPE_WORDS.get(kind)
    if expected is None:
        return None
    if expected in declared and not declared.startswith(("any", "value")):
        expected = declared
    return Issue(path, "type", f"Expected {expected}, found {received}.", expected, received)


def _of_bounds(kind: str, ctx: dict[str, Any], path: tuple[str | int, ...], received: str) -> Issue | None:
    if kind in _BOUNDS:
        code, words, key = _BOUNDS[kind]
        expected = f"{words} {_shown(ctx[key])}"
        return Issue(
            path, code, f"The value is {code.replace('_', ' ')}. Expected {expected}.", expected, received
        )
    if kind in _LENGTHS:
        code, words, key, unit = _LENGTHS[kind]
        expected = counted(words, ctx[key], unit)
        return Issue(
            path, code, f"The value is {code.replace('_', ' ')}. Expected {expected}.", expected, received
        )
    if kind == "multiple_of":
        expected = f"a multiple of {_shown(ctx['multiple_of'])}"
        return Issue(path, "multiple_of", f"Expected {expected}.", expected, received)
    if kind == "finite_number":
        return Issue(path, "finite", "Expected a finite number.", "finite number", received)
    return None


def _of_text(kind: str, ctx: dict[str, Any], path: tuple[str | int, ...], received: str) -> Issue | None:
    if kind == "string_pattern_mismatch":
        expected = f"text matching {ctx['pattern']}"
        return Issue(
            path,
            "pattern",
            f"The text does not have the declared form. Expected {expected}.",
            expected,
            received,
        )
    if kind == "url_scheme":
        expected = f"URL with the scheme {ctx['expected_schemes']}"
        return Issue(path, "format", f"Expected {expected}.", expected, received)
    expected = _FORMAT_WORDS.get(kind, "")
    return Issue(path, "format", f"Expected {expected}.", expected, received) if expected else None


def _of_author(kind: str, text: str, path: tuple[str | int, ...], given: Any) -> Issue:
    """An author's own check, or an error we have no words for; its text may repeat the value."""
    for prefix in ("Value error, ", "Assertion failed, "):
        text = text.removeprefix(prefix)
    code = "format" if kind == "format" else "value"
    message = _without(text, given) or "The value was refused by the action's own check."
    return Issue(path, code, message, None, json_type(given))


def _without(text: str, given: Any) -> str:
    """The text without secrets, and without what was given. Short values are parts of too many words."""
    text = DEFAULT.text(text).replace("\0", "")
    for leaf in sorted(_leaves(given), key=lambda leaf: (-len(leaf), leaf)):
        if leaf not in text:
            continue
        if len(leaf) < _LONG:
            text = re.sub(rf"(?<!\w){re.escape(leaf)}(?!\w)", "\0", text)
        else:
            text = text.replace(leaf, "\0")
    return text.replace("\0", "[value]").strip()


def _leaves(given: Any) -> set[str]:
    """The spellings of a value and its parts that a message could repeat; bounded. Paths tell of keys anyway."""
    found: set[str] = set()
    waiting = [given]
    while waiting and len(found) < 1000:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(list(value.values())[:1000])
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting.extend(list(value)[:1000])
        elif value is not None and not isinstance(value, bool):
            found.update(spelling for spelling in (str(value), repr(value)[1:-1]) if spelling.strip())
    return found


def _recursion(path: Sequence[str | int]) -> Issue:
    shown = tuple(path[:8])
    return Issue(
        shown, "recursion", "The value contains itself or is nested too deeply. Send a flatter value."
    )


def _is_other_type(errors: list[_Located], path: tuple[str | int, ...]) -> bool:
    """Whether a branch failed because the value is of another JSON type altogether."""
    first = errors[0]
    if first.place.path != path:
        return False
    if first.issue.code in ("literal", "enum"):
        node = first.place.node
        kinds = {json_type(value) for value in node.get("expected", ())}
        return bool(kinds) and json_type(first.given) not in kinds
    return first.issue.code == "type"


def _has_other_tag(errors: list[_Located], path: tuple[str | int, ...]) -> bool:
    return any(len(each.place.path) == len(path) + 1 and each.issue.code == "literal" for each in errors)


def _has_other_keys(errors: list[_Located], path: tuple[str | int, ...]) -> bool:
    return any(
        len(each.place.path) == len(path) + 1 and each.issue.code in ("missing", "unexpected")
        for each in errors
    )


def _has_nullable(node: Core) -> bool:
    while isinstance(node.get("schema"), dict):
        if node["type"] == "nullable":
            return True
        node = node["schema"]
    return False


def _shown(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _plural(word: str) -> str:
    return word if " " in word else word + "s"
