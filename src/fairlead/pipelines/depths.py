"""How deep types and plumbs lead into each other: only so deep can they be followed where a program runs."""

from __future__ import annotations

from typing import Final

from fairlead.pipelines.program import Process
from fairlead.pipelines.schemas import parts
from fairlead.pipelines.types import Alias, Type

DEEPEST: Final = 200


def depth_of_type(type: Type, known: dict[int, int]) -> int:
    """How many types a type leads through, one inside the other. What leads back to itself counts once."""
    inside = type.target if isinstance(type, Alias) else None
    if isinstance(type, Alias):
        if id(type) in known or inside is None:
            return known.get(id(type), 0)
        known[id(type)] = 0
        known[id(type)] = depth_of_type(inside, known)
        return known[id(type)]
    return max((1 + depth_of_type(each, known) for each in parts(type)), default=0)


def depth_of_process(process: Process, known: dict[int, int]) -> int:
    """How many plumbs and other names a process leads through."""
    if id(process) not in known:
        inside = [] if process.graph is None else [each.process for each in process.graph.nodes]
        if process.kind == "rebinding":
            inside.append(process.behind)
        below = (1 + depth_of_process(each, known) for each in inside if each is not None)
        known[id(process)] = max(below, default=0)
    return known[id(process)]
