"""Schemas from type hints, backed by pydantic's core."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fairlead.failures import Issue
from fairlead.schema.compiled import Mode, Schema
from fairlead.schema.jsonable import jsonable

#: Pydantic's words for a type that it does not know; its way out is a setting of models.
_UNKNOWN: Final = re.compile(r"Unable to generate pydantic-core schema for (.+?)\. Set ")


class Typed:
    """A core schema compiled to pydantic's validator and serializer, strict where JSON is unambiguous."""

    def __init__(self, core: Any) -> None:
        from pydantic_core import SchemaSerializer

        from fairlead.schema.blanks import plan_of_core
        from fairlead.schema.plain import is_plain
        from fairlead.schema.strictness import tighten
        from fairlead.schema.texts import carried

        self._given = core
        self.core = tighten(core)
        self.validate = _validator(self.core)
        self.plain = is_plain(self.core)
        self.dump: Callable[[Any], Any]
        if self.core["type"] == "any":
            self.dump = jsonable
        elif self.plain:
            self.dump = as_is
        else:
            serializer = SchemaSerializer(self.core, None, _use_prebuilt=False)
            self.dump = carried(partial(serializer.to_python, mode="json", by_alias=True, warnings=False))
        self.drop_blanks = plan_of_core(self.core)

    def validator_of_output(self) -> Callable[[Any], Any]:
        from fairlead.schema.strictness import has_records, tighten
        from fairlead.schema.texts import read_as_utf8

        core = tighten(self._given, closed=False) if has_records(self.core) else self.core
        if self.plain:
            return _validator(read_as_utf8(core))
        return self.validate if core is self.core else _validator(core)

    def issues(self, error: Exception) -> list[Issue]:
        from fairlead.schema.issues import read

        return read(error, self.core)

    def check(self, mode: Mode) -> None:
        found = _without_words(self.core)
        if found is None:
            return
        try:
            self.document(mode)
        except TypeError as error:
            why = "JSON has no form for such a value. Declare JSON's types, or a model of them."
            raise TypeError(found + why) from error

    def document(self, mode: Mode) -> dict[str, Any]:
        from fairlead.schema import basics

        basic = basics.document(self.core)
        if basic is not None:
            return basic
        from fairlead.schema.document import document

        return document(self.core, mode)


#: Shapes that no JSON Schema tells of, unless their author gives one.
_WORDLESS = frozenset({"callable", "is-instance", "is-subclass", "function-plain"})
#: What counts for Python's own values only, or is no shape.
_BESIDE = frozenset({"python_schema", "strict_schema", "metadata", "config", "serialization", "cls"})


def _without_words(core: Any, where: str = "") -> str | None:
    """The field for which there may be no words, as the beginning of a sentence; None where all have them."""
    if isinstance(core, list | tuple):
        return next((found for each in core if (found := _without_words(each, where)) is not None), None)
    if not isinstance(core, dict):
        return None
    if core.get("type") in _WORDLESS:
        return where
    for key, part in core.items():
        if key == "fields" and isinstance(part, dict) and not where:
            inner = [_without_words(field, f"{name!r}: ") for name, field in part.items()]
        else:
            inner = [None if key in _BESIDE else _without_words(part, where)]
        for found in inner:
            if found is not None:
                return found
    return None


def _validator(core: Any) -> Callable[[Any], Any]:
    from pydantic_core import SchemaValidator

    from fairlead.schema.floods import guarded, is_open_to_floods

    validate: Callable[[Any], Any] = SchemaValidator(core, None, _use_prebuilt=False).validate_python
    return guarded(validate) if is_open_to_floods(core) else validate


def as_is(value: Any) -> Any:
    return value


def typed(hint: Any, module: str | None = None) -> Schema:
    """The schema of a type hint. Raises TypeError when the hint has no JSON shape.

    Names in it are looked up where the caller of this package stands, or else in the module that is named.
    """
    return Schema(Typed(core_of(hint, module)))


def core_of(hint: Any, module: str | None = None) -> Any:
    """Pydantic's core schema for a hint, with names resolved where the user wrote it."""
    from fairlead.schema import basics

    if hint is Any:
        return {"type": "any"}
    basic = basics.core(hint)
    if basic is not None:
        return basic
    from pydantic import PydanticSchemaGenerationError
    from pydantic.errors import PydanticUserError

    name = getattr(hint, "__qualname__", None) or repr(hint)
    try:
        module = module or module_around()
        return _core_within(hint) if module is None else _core_at_top_of(module, hint)
    except NameError as error:
        raise TypeError(
            f"{name} mentions the name {error.name!r}, which is not defined where it is used."
        ) from error
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        why = str(error.message).split("\n")[0]
        unknown = _UNKNOWN.match(why)
        if unknown is not None:
            raise TypeError(
                f"{unknown[1]} has no declared shape. A dataclass, a TypedDict or a pydantic model has one."
            ) from error
        raise TypeError(f"{name} cannot be used as a shape: {why}") from error


def _core_at_top_of(module: str, hint: Any) -> Any:
    """The core schema of a hint that sees the names of a module.

    An adapter would build a validator and a serializer that nobody uses, and look through all installed
    packages for plugins to do so. Schemas of arguments come without: the hint is that of `*values`.
    """
    from fairlead.schema.hints import adapt

    try:
        from pydantic.experimental.arguments_schema import generate_arguments_schema
    except ImportError:
        # An experiment may end. Adapters only take longer.
        from pydantic import TypeAdapter

        return TypeAdapter(adapt(hint), module=module).core_schema

    def carrier(*values: Any) -> None: ...

    carrier.__module__ = module
    carrier.__annotations__ = {"values": adapt(hint)}
    core: Any = generate_arguments_schema(carrier, "arguments")
    if core["type"] == "definitions":
        return {**core, "schema": core["schema"]["var_args_schema"]}
    return core["var_args_schema"]


def _core_within(hint: Any) -> Any:
    """The core schema of a hint that sees the local names of a function of the user's, which is running."""
    from pydantic import TypeAdapter

    from fairlead.schema.hints import adapt

    adapter = TypeAdapter(adapt(hint), _parent_depth=_depth_of_user() + 1)
    if not adapter.pydantic_complete:
        adapter.rebuild(force=True)
    return adapter.core_schema


def module_around() -> str | None:
    """The module at whose top level the user is who called us; None inside a function or a class."""
    frame = sys._getframe(_depth_of_user() - 1)
    name: str = frame.f_globals.get("__name__", "")
    known = name in sys.modules and vars(sys.modules[name]) is frame.f_globals
    return name if known and frame.f_locals is frame.f_globals else None


def _depth_of_user() -> int:
    """How many frames up, counted from the calling function, the first one outside this package is."""
    depth = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "fairlead":
        frame = frame.f_back
        depth += 1
    return depth
