"""Types, messages and replies as JSON, as they go to another process and come back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fairlead.agents.models.model import Message, Reply, ToolCall, Usage
from fairlead.pipelines.types import PRIMITIVES, Alias, Array, Field, Primitive, Product, Record, Sum, Type

# Messages and replies


def spelled_message(message: Message) -> dict[str, Any]:
    """A message as JSON. Agents of pipelines see no pictures."""
    return {key: value for key, value in asdict(message).items() if value not in (None, "", ())}


def read_message(told: Mapping[str, Any]) -> Message:
    """The message that was spelled so."""
    return Message(**{**told, "calls": tuple(ToolCall(**each) for each in told.get("calls", ()))})


def spelled_reply(reply: Reply) -> dict[str, Any]:
    """A reply as JSON."""
    told = asdict(reply)
    return {key: value for key, value in told.items() if value not in (None, "", (), [])}


def read_reply(told: Mapping[str, Any]) -> Reply:
    """The reply that was spelled so."""
    known = dict(told)
    known["calls"] = tuple(ToolCall(**each) for each in told.get("calls", ()))
    known["usage"] = Usage(**told.get("usage", {}))
    return Reply(**known)


# Types


def spelled_type(type: Type) -> dict[str, Any]:
    """A type as JSON: the names that it uses, each with what it stands for, and the type itself."""
    names: list[list[Any]] = []
    places: dict[int, int] = {}

    def spell(each: Type) -> Any:
        match each:
            case Primitive(name=name):
                return name
            case Alias():
                if id(each) not in places:
                    places[id(each)] = len(names)
                    names.append([each.name, None])
                    if each.target is not None:
                        names[places[id(each)]][1] = spell(each.target)
                return {"name": places[id(each)]}
            case Record(fields=fields):
                return {"record": [[one.name, spell(one.type), one.optional] for one in fields]}
            case Array(item=item):
                return {"array": spell(item)}
            case Product(items=items):
                return {"product": [spell(one) for one in items]}
            case Sum(variants=variants):
                return {"sum": [spell(one) for one in variants]}

    made = spell(type)
    return {"names": names, "type": made}


def read_type(told: Mapping[str, Any]) -> Type:
    """The type that was spelled so."""
    names = [Alias(name) for name, _ in told["names"]]

    def read(each: Any) -> Type:
        if isinstance(each, str):
            return PRIMITIVES[each]
        ((kind, parts),) = each.items()
        match kind:
            case "name":
                alias: Alias = names[parts]
                return alias
            case "record":
                return Record(tuple(Field(name, read(type), optional) for name, type, optional in parts))
            case "array":
                return Array(read(parts))
            case "product":
                return Product(tuple(map(read, parts)))
        return Sum(tuple(map(read, parts)))

    for alias, (_, target) in zip(names, told["names"], strict=True):
        alias.target = None if target is None else read(target)
    return read(told["type"])
