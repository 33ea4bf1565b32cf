"""`Tool`: one action as a model is offered it, prepared once: its name, words and schema, and the way back from its
arguments to the action's input."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from typing import Any, Final, NamedTuple

from fairlead.actions import Action
from fairlead.schema.dialects.dialect import ANTHROPIC, GEMINI, Dialect, Rewriter
from fairlead.schema.dialects.limits import Complexity, beyond_anthropic, beyond_openai, complexity
from fairlead.schema.dialects.nodes import Nodes
from fairlead.schema.dialects.roots import Recode, Root, rooted
from fairlead.surfaces.llm.strict import Strict
from fairlead.surfaces.llm.trim import shortened, trimmed

_LONGEST_NAME: Final = 64


class Tool(NamedTuple):
    """An action, ready to be offered and called."""

    action: Action[..., Any]
    name: str
    description: str
    parameters: dict[str, Any]
    #: Whether the provider holds its model to the schema.
    strict: bool
    #: Why it does not, although it was asked to.
    reason: str | None
    #: An input as the arguments that stand for it, and back.
    encode: Recode
    decode: Recode


class _Source(NamedTuple):
    action: Action[..., Any]
    format: str
    description: str
    nodes: Nodes

    def tool(self, root: Root, *, strict: bool = False, reason: str | None = None) -> Tool:
        name = tool_name(self.action.name)
        return Tool(
            self.action, name, self.description, root.schema, strict, reason, root.encode, root.decode
        )


def prepared(
    actions: list[Action[..., Any]], format: str, *, strict: bool = True, trim: int | None = None
) -> list[Tool]:
    """The actions as tools in a provider's dialect; `trim` is the longest that a description may be."""
    sources = [_source(action, format, trim) for action in actions]
    if format == "gemini":
        return [source.tool(_rewritten(source, GEMINI)) for source in sources]
    if strict and format in ("openai", "openai-responses"):
        return [_openai(source) for source in sources]
    if strict and format == "anthropic":
        return _anthropic(sources)
    return [_loose(source) for source in sources]


def tool_name(name: str) -> str:
    """A name that all providers take; one that is too long ends in a digest of the whole."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"


def _source(action: Action[..., Any], format: str, trim: int | None) -> _Source:
    document = deepcopy(action.input.json_schema)
    if trim is None:
        return _Source(action, format, action.description, Nodes(document))
    return _Source(action, format, shortened(action.description, trim), Nodes(trimmed(document, trim)))


def _openai(source: _Source) -> Tool:
    form = Strict(source.nodes)
    reason = beyond_openai(form.schema)
    if reason is not None:
        return _loose(source, reason)
    return source.tool(Root(form.schema, form.encode, form.decode), strict=True)


def _anthropic(sources: list[_Source]) -> list[Tool]:
    tools = []
    used = Complexity()
    for source in sources:
        needed = used.plus(complexity(source.nodes))
        reason = beyond_anthropic(source.nodes) or needed.excess
        if reason is not None:
            tools.append(_loose(source, reason))
            continue
        used = needed
        tools.append(source.tool(_rewritten(source, ANTHROPIC), strict=True))
    return tools


def _rewritten(source: _Source, dialect: Dialect) -> Root:
    return rooted(source.nodes, Rewriter(source.nodes, dialect).document(), source.format)


def _loose(source: _Source, reason: str | None = None) -> Tool:
    return source.tool(rooted(source.nodes, source.nodes.root, source.format), reason=reason)
