"""Drop empty fillers: blank strings that models send for optional string fields they do not use.

A blank is a valid string, so this runs before validation, by a small plan made when the schema is
compiled. Required fields, enums that list "" and fields that state a minimum length of 0 keep theirs.
So it is with arguments that are wrapped in `properties`, where an object takes keys that it does not declare.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.schema.compiled import Blanks, spell

_DEEPEST = 64
_WRAPPER = "properties"
#: What may be given in another shape than what is inside.
_OPAQUE = ("union", "tagged-union", "json", "function-before", "function-plain")


class Plan:
    """Where blanks may be dropped in one object or array, and the plans of what it holds."""

    __slots__ = ("droppable", "inner", "items")

    def __init__(self) -> None:
        self.droppable: tuple[str, ...] = ()
        self.inner: dict[str, Plan] = {}
        self.items: Plan | None = None

    def __call__(self, value: Any) -> tuple[Any, list[str]]:
        notes: list[str] = []
        if not self.inner and type(value) is dict and not self._has_blank(value):
            return value, notes
        return self._run(value, (), notes), notes

    def _has_blank(self, value: dict[str, Any]) -> bool:
        for name in self.droppable:
            text = value.get(name)
            if isinstance(text, str) and (not text or text.isspace()):
                return True
        return False

    def _run(self, value: Any, path: tuple[str | int, ...], notes: list[str]) -> Any:
        if len(path) > _DEEPEST:
            return value
        if isinstance(value, dict):
            return self._run_object(value, path, notes)
        if self.items is None or not isinstance(value, list):
            return value
        items = [self.items._run(item, (*path, n), notes) for n, item in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    def _run_object(self, value: dict[str, Any], path: tuple[str | int, ...], notes: list[str]) -> Any:
        result = value
        for name in self.droppable:
            text = value.get(name)
            if isinstance(text, str) and (not text or text.isspace()):
                result = dict(value) if result is value else result
                del result[name]
                notes.append(f"{spell((*path, name))}: blank text was read as absent")
        for name, plan in self.inner.items():
            if name in value:
                new = plan._run(value[name], (*path, name), notes)
                if new is not value[name]:
                    result = dict(value) if result is value else result
                    result[name] = new
        return result


class _Unwrapping:
    """For an open object: arguments inside `properties` move up, where one of them is declared and that is not."""

    __slots__ = ("_blanks", "_declared")

    def __init__(self, declared: frozenset[str], blanks: Blanks | None) -> None:
        self._declared = declared
        self._blanks = blanks

    def __call__(self, value: Any) -> tuple[Any, list[str]]:
        inner = value.get(_WRAPPER) if type(value) is dict else None
        if type(inner) is not dict or self._declared.isdisjoint(inner):
            return (value, []) if self._blanks is None else self._blanks(value)
        value = {**inner, **{name: item for name, item in value.items() if name != _WRAPPER}}
        value, notes = (value, []) if self._blanks is None else self._blanks(value)
        return value, [f"{_WRAPPER}: the object inside was read as the arguments", *notes]


def plan_of_core(core: Mapping[str, Any]) -> Blanks | None:
    """The plan for a pydantic core schema."""
    return _planned(_CoreReader(core).read(core), _open_core(core))


def plan_of_document(document: Mapping[str, Any]) -> Blanks | None:
    """The plan for a JSON Schema."""
    return _planned(_DocumentReader(document).read(document), _open_document(document))


def _planned(found: Plan | None, declared: frozenset[str]) -> Blanks | None:
    blanks = found if found is not None and _useful(found) else None
    return _Unwrapping(declared, blanks) if declared and _WRAPPER not in declared else blanks


def _open_core(core: Mapping[str, Any]) -> frozenset[str]:
    """The keys that an object declares which takes others, too; none of one that refuses them, and is read later."""
    definitions = {each["ref"]: each for each in core.get("definitions", ()) if "ref" in each}
    node, extra = core, None
    while node["type"] not in ("typed-dict", "model-fields", "dataclass-args"):
        extra = extra or (node.get("config") or {}).get("extra_fields_behavior")
        node = definitions.get(node.get("schema_ref")) or node.get("schema") or {}
        if not isinstance(node, dict) or node.get("type") in (None, *_OPAQUE):
            return frozenset()
    extra = node.get("extra_behavior") or extra
    fields = node["fields"]
    if extra not in ("allow", "ignore") or not isinstance(fields, dict):
        return frozenset()
    names = (field.get("validation_alias", name) for name, field in fields.items())
    return frozenset(name for name in names if isinstance(name, str))


def _open_document(document: Mapping[str, Any]) -> frozenset[str]:
    from fairlead.schema.fits import matches, resolve

    schema: Any = document
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        schema = resolve(schema["$ref"], document)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return frozenset()
    refused = False in (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
    if refused or any(matches(each, _WRAPPER) for each in schema.get("patternProperties") or ()):
        return frozenset()
    return frozenset(properties)


def _useful(plan: Plan) -> bool:
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        each = waiting.pop()
        if each.droppable:
            return True
        if id(each) not in seen:
            seen.add(id(each))
            waiting += [*each.inner.values(), *([each.items] if each.items else [])]
    return False


class _CoreReader:
    """Reads plans from core schemas; a recursive shape gives a plan that mentions itself."""

    def __init__(self, core: Mapping[str, Any]) -> None:
        self._definitions = {each["ref"]: each for each in core.get("definitions", ()) if "ref" in each}
        self._plans: dict[str, Plan] = {}

    def read(self, node: Any) -> Plan | None:
        kind = node["type"]
        if kind == "definition-ref":
            return self._read_definition(node["schema_ref"])
        if kind in ("typed-dict", "model-fields", "dataclass-args"):
            return self._read_fields(node)
        if kind in ("list", "set", "frozenset") and "items_schema" in node:
            plan = Plan()
            plan.items = self.read(node["items_schema"])
            return plan if plan.items else None
        if kind in _OPAQUE:
            return None
        return self.read(node["schema"]) if isinstance(node.get("schema"), dict) else None

    def _read_definition(self, ref: str) -> Plan | None:
        if ref in self._plans:
            return self._plans[ref]
        plan = self._plans[ref] = Plan()
        found = self.read(self._definitions[ref]) if ref in self._definitions else None
        if found is not None:
            plan.droppable, plan.inner, plan.items = found.droppable, found.inner, found.items
        return plan

    def _read_fields(self, node: Any) -> Plan:
        plan = Plan()
        fields = node["fields"]
        named = fields.items() if isinstance(fields, dict) else [(field["name"], field) for field in fields]
        droppable = []
        for name, field in named:
            alias = field.get("validation_alias", name)
            if not isinstance(alias, str):
                continue
            if _is_optional(field, node) and _is_plain_string(field["schema"]):
                droppable.append(alias)
                continue
            inner = self.read(field["schema"])
            if inner is not None:
                plan.inner[alias] = inner
        plan.droppable = tuple(droppable)
        return plan


def _is_optional(field: Mapping[str, Any], parent: Mapping[str, Any]) -> bool:
    if field["schema"]["type"] == "default":
        return True
    if parent["type"] == "typed-dict":
        return not field.get("required", parent.get("total", True))
    return False


def _is_plain_string(node: Any) -> bool:
    while node["type"] in ("default", "function-after"):
        node = node["schema"]
    return bool(node["type"] == "str") and node.get("min_length") != 0


class _DocumentReader:
    """Reads plans from JSON Schemas."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._plans: dict[str, Plan] = {}

    def read(self, schema: Any) -> Plan | None:
        if not isinstance(schema, dict):
            return None
        if isinstance(schema.get("$ref"), str):
            return self._read_reference(schema["$ref"])
        properties = schema.get("properties")
        if isinstance(properties, dict):
            return self._read_properties(properties, schema.get("required") or ())
        items = self.read(schema.get("items"))
        if items is None:
            return None
        plan = Plan()
        plan.items = items
        return plan

    def _read_reference(self, ref: str) -> Plan | None:
        from fairlead.schema.fits import resolve

        if ref not in self._plans:
            plan = self._plans[ref] = Plan()
            found = self.read(resolve(ref, self._root))
            if found is not None:
                plan.droppable, plan.inner, plan.items = found.droppable, found.inner, found.items
        return self._plans[ref]

    def _read_properties(self, properties: Mapping[str, Any], required: Any) -> Plan:
        plan = Plan()
        plan.droppable = tuple(
            name for name, each in properties.items() if name not in required and _declares_plain_string(each)
        )
        for name, each in properties.items():
            inner = self.read(each)
            if inner is not None:
                plan.inner[name] = inner
        return plan


def _declares_plain_string(schema: Any) -> bool:
    if not isinstance(schema, dict) or schema.get("type") != "string":
        return False
    return "" not in (schema.get("enum") or ()) and schema.get("minLength") != 0 and schema.get("const") != ""
