"""Rewrite type hints that pydantic does not take into ones that it does.

typing.TypedDict before Python 3.12, msgspec Structs, attrs classes and `s` builders, at any depth.
It knows classes and their fields, not validation.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from fairlead.schema.builder import Builder

#: What msgspec's `Meta` says under the name that pydantic's `Field` has for it, too.
_LIMITS = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "title", "description", "examples",
)  # fmt: skip
_OLD_TYPED_DICT = getattr(typing, "_TypedDictMeta", None) if sys.version_info < (3, 12) else None


class Member(NamedTuple):
    """One field of a record: its name in JSON, in the constructor and on the instance."""

    name: str
    hint: Any
    required: bool
    argument: str
    attribute: str
    default: Any = None


def adapt(hint: Any) -> Any:
    """The hint, or an equal one that pydantic accepts."""
    return _adapt(hint, {})


def _adapt(hint: Any, done: dict[Any, Any]) -> Any:
    if isinstance(hint, Builder):
        return hint.annotation
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return _adapt_class(hint, done)
    arguments = typing.get_args(hint)
    if not arguments:
        return hint
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return hint
    if origin is Annotated:
        inner = _adapt(arguments[0], done)
        if inner is arguments[0] and not any(map(_is_meta, hint.__metadata__)):
            return hint
        return Annotated[(inner, *(part for each in hint.__metadata__ for part in _said(each)))]
    adapted = tuple(
        _adapt(argument, done) if not isinstance(argument, list) else argument for argument in arguments
    )
    generic = _adapt_class(origin, done, hint) if isinstance(origin, type) else hint
    if generic is not hint:
        return generic
    if all(new is old for new, old in zip(adapted, arguments, strict=True)):
        return hint
    if origin is types.UnionType:
        return typing.Union[adapted]  # noqa: UP007
    if hasattr(hint, "copy_with"):
        return hint.copy_with(adapted)
    return origin[adapted]


def _adapt_class(cls: type, done: dict[Any, Any], alias: Any = None) -> Any:
    """A class, or for a generic one its alias with the types that stand for its parameters."""
    whole = cls if alias is None else alias
    if whole in done:
        return done[whole]
    if _OLD_TYPED_DICT is not None and type(cls) is _OLD_TYPED_DICT:
        return _adapt_typed_dict(cls, done, whole)
    if hasattr(cls, "__required_keys__"):
        return _adapt_typed_dict(cls, done, whole) if _needs_help(cls, done) else whole
    members = _members(cls)
    if members is None:
        return whole
    if hasattr(cls, "__dataclass_fields__") and not _needs_help(cls, done):
        return whole
    return _adapt_record(cls, members, done, whole)


def _adapt_typed_dict(cls: Any, done: dict[Any, Any], whole: Any) -> Any:
    shell = _shell(cls.__name__, cls)
    done[whole] = shell
    shell.__annotations__ = {name: _adapt(_filled(hint, whole), done) for name, hint in hints_of(cls).items()}
    shell.__required_keys__ = cls.__required_keys__
    shell.__optional_keys__ = cls.__optional_keys__
    return shell


def _adapt_record(cls: type, members: Callable[[], list[Member]], done: dict[Any, Any], whole: Any) -> Any:
    """A record is checked as a typed dict of its fields, then constructed."""
    shell = _shell(cls.__name__, cls)
    done[whole] = Annotated[cls, Record(cls, shell)]
    fields = members()
    shell.__annotations__ = {
        each.name: _with_default(_adapt(_filled(each.hint, whole), done), each) for each in fields
    }
    shell.__required_keys__ = frozenset(each.name for each in fields if each.required)
    shell.__optional_keys__ = frozenset(each.name for each in fields if not each.required)
    shell.__fairlead_members__ = fields
    return done[whole]


def _filled(hint: Any, alias: Any) -> Any:
    """The hint of a generic class's member, with the types that its alias has in place of parameters."""
    parameters = getattr(typing.get_origin(alias), "__parameters__", ())
    given = dict(zip(parameters, typing.get_args(alias), strict=False))
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    inside = getattr(hint, "__parameters__", ()) if given and not isinstance(hint, type) else ()
    return hint[tuple(given.get(each, each) for each in inside)] if inside else hint


def _with_default(hint: Any, member: Member) -> Any:
    if member.default is None:
        return hint
    from fairlead.schema.signature import advertise

    return advertise(hint, member.default)


def typed_dict(name: str, fields: dict[str, Any], config: dict[str, Any] | None = None) -> Any:
    """A typed dict made at run time, of the kind that pydantic takes on every Python."""
    from typing_extensions import TypedDict

    make: Any = TypedDict
    made = make(name, fields)
    if config is not None:
        made.__pydantic_config__ = config
    return made


def _shell(name: str, cls: type) -> Any:
    """An empty typed dict; filled later, so that it can mention itself."""
    shell = typed_dict(name, {}, getattr(cls, "__pydantic_config__", None))
    shell.__module__ = cls.__module__
    shell.__qualname__ = cls.__qualname__
    own = cls.__dict__.get("__doc__")
    shell.__doc__ = None if own is None or own.startswith(f"{cls.__name__}(") else own
    return shell


class Record:
    """Tells pydantic to check a class's fields as a typed dict, and how to make and take apart instances."""

    def __init__(self, cls: type, shell: Any) -> None:
        self._cls = cls
        self._shell = shell

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        fields = handler.generate_schema(self._shell)
        return core_schema.no_info_wrap_validator_function(
            self._make,
            fields,
            serialization=core_schema.wrap_serializer_function_ser_schema(self._take_apart, schema=fields),
        )

    def _make(self, value: Any, handler: Callable[[Any], dict[str, Any]]) -> Any:
        if isinstance(value, self._cls):
            return value
        checked = handler(value)
        members = [each for each in self._shell.__fairlead_members__ if each.name in checked]
        try:
            return self._cls(**{each.argument: checked[each.name] for each in members})
        except (TypeError, ValueError) as error:
            # The class's own checks; pydantic takes only ValueError for an answer.
            raise ValueError(str(error)) from error

    def _take_apart(self, value: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(
            {each.name: getattr(value, each.attribute) for each in self._shell.__fairlead_members__}
        )


def _members(cls: type) -> Callable[[], list[Member]] | None:
    if hasattr(cls, "__pydantic_fields__"):
        return None
    if hasattr(cls, "__struct_fields__"):
        return lambda: _struct_members(cls)
    if hasattr(cls, "__attrs_attrs__"):
        return lambda: _attrs_members(cls)
    if hasattr(cls, "__dataclass_fields__"):
        return lambda: _dataclass_members(cls)
    return None


def _struct_members(cls: Any) -> list[Member]:
    import msgspec

    hints = hints_of(cls)
    return [
        Member(
            f.encode_name,
            hints[f.name],
            f.required,
            f.name,
            f.name,
            _plain_default(f.default, msgspec.NODEFAULT),
        )
        for f in msgspec.structs.fields(cls)
    ]


def _attrs_members(cls: Any) -> list[Member]:
    import attrs

    hints = hints_of(cls)
    return [
        Member(
            f.alias,
            hints.get(f.name, Any),
            f.default is attrs.NOTHING,
            f.alias,
            f.name,
            _plain_default(f.default, attrs.NOTHING),
        )
        for f in attrs.fields(cls)
        if f.init
    ]


def _dataclass_members(cls: Any) -> list[Member]:
    from dataclasses import MISSING, fields

    hints = hints_of(cls)
    return [
        Member(
            f.name,
            hints[f.name],
            f.default is MISSING and f.default_factory is MISSING,
            f.name,
            f.name,
            _plain_default(f.default, MISSING),
        )
        for f in fields(cls)
        if f.init
    ]


def _plain_default(default: Any, nothing: Any) -> Any:
    return default if default is not nothing and isinstance(default, (str, int, float)) else None


def _needs_help(cls: type, done: dict[Any, Any]) -> bool:
    """Whether a class that pydantic takes leads to something that it does not."""
    seen: set[Any] = set()
    waiting: list[Any] = [cls]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, Builder) or _is_foreign(hint) or _is_meta(hint):
            return True
        if not isinstance(hint, type) or isinstance(hint, types.GenericAlias):
            if arguments := typing.get_args(hint):
                waiting.extend((typing.get_origin(hint), *arguments))
        elif hint not in seen and (
            hasattr(hint, "__dataclass_fields__") or hasattr(hint, "__required_keys__")
        ):
            seen.add(hint)
            waiting.extend(_known_hints(hint))
    done.update((each, each) for each in seen)
    return False


def _is_meta(mark: Any) -> bool:
    """Whether it is msgspec's way to write limits, which pydantic passes over."""
    return type(mark).__name__ == "Meta" and type(mark).__module__ == "msgspec"


def _said(mark: Any) -> list[Any]:
    """What stands beside a type, in words that pydantic knows."""
    if not _is_meta(mark):
        return [mark]
    from pydantic import AwareDatetime, Field, NaiveDatetime

    limits = {name: given for name in _LIMITS if (given := getattr(mark, name)) is not None}
    said: list[Any] = [Field(**limits, json_schema_extra=mark.extra_json_schema)]
    if mark.tz is not None:
        said.append(AwareDatetime if mark.tz else NaiveDatetime)
    return said


def _is_foreign(hint: Any) -> bool:
    if not isinstance(hint, type) or hasattr(hint, "__pydantic_fields__"):
        return False
    is_old = _OLD_TYPED_DICT is not None and type(hint) is _OLD_TYPED_DICT
    return is_old or hasattr(hint, "__struct_fields__") or hasattr(hint, "__attrs_attrs__")


def _known_hints(cls: type) -> list[Any]:
    try:
        return list(hints_of(cls).values())
    except NameError:
        return []


def hints_of(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(
        cls, include_extras=True, localns=names_around(cls, vars(sys.modules[cls.__module__]))
    )


def names_around(defined: Any, module: dict[str, Any]) -> dict[str, Any] | None:
    """Local names that a function or class written inside a function can see while that function runs."""
    inside = getattr(defined, "__qualname__", "").split(".<locals>")[:-1]
    if not inside:
        return None
    enclosing = {".<locals>".join(inside[: n + 1]) for n in range(len(inside))}
    names: dict[str, Any] = {}
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is module and frame.f_code.co_qualname in enclosing:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names
