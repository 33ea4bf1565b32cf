"""What a person may enter for a setting of a plugin: its type, and the rules that the manifest has for it."""

from __future__ import annotations

import json
import math
import re
from typing import Final

from fairlead.failures import Failure, Kind
from fairlead.plugins.manifest import Field, Manifest

_SHOWN_ONLY: Final = ("readonly", "status")
_MOST_SHOWN: Final = 12


def fields_of(manifest: Manifest) -> list[Field]:
    """Everything that a person can set: the fields, and secrets that are no fields as well."""
    fields = [] if manifest.config is None else list(manifest.config.fields)
    known = {each.key for each in fields}
    secrets = (Field(each.id, "secret", each.label) for each in manifest.secrets if each.id not in known)
    return [*fields, *secrets]


def field_named(manifest: Manifest, key: str) -> Field:
    """The field of a key. Raises Failure for one that the plugin does not have."""
    fields = {each.key: each for each in fields_of(manifest)}
    if key not in fields:
        names = ", ".join(list(fields)[:_MOST_SHOWN]) or "none"
        raise Failure(
            Kind.not_found, f"The plugin {manifest.plugin_id!r} has no setting {key[:80]!r}; it has: {names}."
        )
    return fields[key]


def checked(field: Field, value: str) -> str:
    """A value as it is kept. Raises Failure when the field cannot have it; the value is not repeated."""
    if field.type in _SHOWN_ONLY:
        raise _refused(field, "it is shown, not set")
    if field.type == "toggle":
        if value.lower() not in ("true", "false"):
            raise _refused(field, "expected true or false")
        return value.lower()
    if field.type == "select" and field.options:
        _one_of(field, value)
    if field.type == "multiselect":
        _some_of(field, value)
    if field.type == "number":
        _number(field, value)
    _rules(field, value)
    return value


def _one_of(field: Field, value: str) -> None:
    known = [each.value for each in field.options]
    if value not in known:
        raise _refused(field, f"expected one of {', '.join(known)}")


def _some_of(field: Field, value: str) -> None:
    try:
        given = json.loads(value)
    except ValueError:
        given = None
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise _refused(field, 'expected a JSON array of strings, like ["a", "b"]')
    for each in given if field.options else ():
        _one_of(field, each)


def _number(field: Field, value: str) -> None:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _refused(field, "expected a number")
    rules = field.validation
    if rules is not None and rules.min is not None and number < rules.min:
        raise _refused(field, f"expected at least {rules.min:g}")
    if rules is not None and rules.max is not None and number > rules.max:
        raise _refused(field, f"expected at most {rules.max:g}")


def _rules(field: Field, value: str) -> None:
    rules = field.validation
    if rules is None:
        return
    if rules.required and not value:
        raise _refused(field, "it must not be empty")
    if rules.min_length is not None and len(value) < rules.min_length:
        raise _refused(field, f"expected at least {rules.min_length} characters")
    if rules.max_length is not None and len(value) > rules.max_length:
        raise _refused(field, f"expected at most {rules.max_length} characters")
    if rules.pattern is not None and not _matches(rules.pattern, value):
        raise _refused(field, rules.pattern_hint or f"expected what {rules.pattern!r} matches")


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True  # a pattern that cannot be read refuses nobody


def _refused(field: Field, why: str) -> Failure:
    return Failure(Kind.invalid_input, f"{field.label} ({field.key}): {why}.", field=field.key)
