"""Actions as MCP tools: what `tools/list` says of each, per revision, and how data and schemas are wrapped.

It compiles an action's shapes when they are first needed, and runs nothing.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.actions import Action, DefinitionError
from fairlead.actions.manifest import describe_policy
from fairlead.surfaces.mcp.content import declares_blocks
from fairlead.surfaces.mcp.revisions import Revision
from fairlead.tools.hiding import HIDDEN

if TYPE_CHECKING:
    from fairlead.schema import Schema

#: The members under which a root that is no object is wrapped, going in and coming out.
INPUT: Final = "input"
RESULT: Final = "result"
METADATA: Final = "fairlead/metadata"
HEADER: Final = "x-mcp-header"

_BOOLEAN_VALUED: Final = frozenset({
    "additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems",
})  # fmt: skip
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES: Final = (
    "items", "not", "contains", "propertyNames", "if", "then", "else", "additionalProperties",
    "unevaluatedProperties", "additionalItems", "unevaluatedItems",
)  # fmt: skip
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Mirrored(NamedTuple):
    """An argument that clients repeat in a header, so that what stands between can route by it."""

    header: bytes
    path: tuple[str, ...]
    type: str


class Tool:
    """One action as a tool."""

    def __init__(
        self, action: Action[..., Any], attribution: dict[str, str] | None, mute: bool = False
    ) -> None:
        self.action = action
        #: Whether nothing can be said while it runs: neither its function nor anything around it has a context.
        self.mute = mute and not (
            action.binding.wants_context or action.deprecation or action.retry.retries or action.permissions
        )
        #: Whether it is an agent, who may have something to ask.
        self.agent = "agent" in action.metadata
        self.name = action.name
        #: The name as clients repeat it in a header.
        self.header = action.name.encode()
        #: Whether the action yields its result piece by piece.
        self.streams = action.binding.style in ("async_stream", "sync_stream")
        #: Whether some of what it gives is not for models.
        self.hides = HIDDEN in action.metadata
        self._attribution = attribution
        #: Results of calls that say nothing but their data, by revision and shape.
        self.templates: dict[tuple[str, bytes], bytes] = {}

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return _rooted(portable(self._described(self.action.input, "input")), INPUT)

    @cached_property
    def wraps_input(self) -> bool:
        """Whether the action takes something that is no object, so that arguments come wrapped."""
        return not _is_object(self._described(self.action.input, "input"))

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """None where nothing is declared, or where content blocks are."""
        if self.gives_blocks or self.action.output is None:
            return None
        return portable(self._described(self.action.output, "output"))

    @cached_property
    def wraps_output(self) -> bool:
        """Whether data must be wrapped for revisions in which structured content is an object."""
        return self.output_schema is not None and not _is_object(self.output_schema)

    @cached_property
    def gives_blocks(self) -> bool:
        """Whether the action is declared to return content blocks."""
        declared = self.action._options.get("output")
        if declared is None:
            try:
                declared = typing.get_type_hints(self.action.function).get("return")
            except (NameError, TypeError, AttributeError):
                return False
        return declares_blocks(declared)

    @cached_property
    def mirrored(self) -> tuple[Mirrored, ...]:
        """The arguments that are repeated in headers. Raises DefinitionError for a mark that no client may follow."""
        found = tuple(_mirrored(self.input_schema, ()))
        for each in found:
            if not _TOKEN.fullmatch(each.header.decode("latin-1")) or each.type not in (
                "string",
                "integer",
                "boolean",
            ):
                raise DefinitionError(
                    f"Action {self.name!r}: {'.'.join(each.path)!r} cannot be sent in a header. "
                    f"{HEADER} takes a header's name, on a string, an integer or a boolean."
                )
        if len({each.header for each in found}) != len(found):
            raise DefinitionError(f"Action {self.name!r}: two arguments have the same {HEADER}.")
        return found

    def _described(self, schema: Schema, role: str) -> dict[str, Any]:
        try:
            return schema.json_schema if role == "input" else schema.output_json_schema
        except TypeError as exc:
            raise DefinitionError(f"Action {self.name!r}: the {role} cannot be described. {exc}") from exc

    def describe(self, revision: Revision) -> dict[str, Any]:
        """The tool as `tools/list` has it."""
        action = self.action
        told: dict[str, Any] = {"name": self.name}
        if revision.structures:
            told["title"] = action.title
        told |= {"description": action.description, "inputSchema": self.input_schema}
        if revision.structures and self.output_schema is not None:
            told["outputSchema"] = (
                self.output_schema if revision.stateless else _rooted(self.output_schema, RESULT)
            )
        if revision.annotates:
            told["annotations"] = hints(action)
        if revision.structures:
            told["_meta"] = {METADATA: describe_policy(action, self._attribution)}
        return told


def input_schema(action: Action[..., Any]) -> dict[str, Any]:
    """An action's input schema with an object at its root."""
    return Tool(action, None).input_schema


def hints(action: Action[..., Any]) -> dict[str, Any]:
    """What a client may expect of a tool. Whether it reaches beyond our own world, nobody says: it may."""
    return {
        "title": action.title,
        "readOnlyHint": action.side_effects == "read",
        "destructiveHint": action.side_effects == "destructive",
        "idempotentHint": action.side_effects == "read" or action.idempotency == "idempotent",
        "openWorldHint": action.public_metadata.get("openWorldHint") is not False,
    }


def portable(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy that every client can read: no bare `true` or `false` where a schema stands."""
    told: dict[str, Any] = _portable(schema, "")
    return told


def _portable(schema: Any, keyword: str) -> Any:
    if isinstance(schema, bool):
        if keyword in _BOOLEAN_VALUED:
            return schema
        return {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        return schema
    told = dict(schema)
    for key in _MAPS:
        if isinstance(told.get(key), dict):
            told[key] = {name: _portable(each, key) for name, each in told[key].items()}
    for key in _LISTS:
        if isinstance(told.get(key), list):
            told[key] = [_portable(each, key) for each in told[key]]
    for key in _SINGLES:
        if key in told:
            told[key] = _portable(told[key], key)
    return told


def _is_object(schema: Mapping[str, Any]) -> bool:
    """Whether nothing but objects fits, as can be seen at the root or in every branch."""
    if "type" in schema:
        return bool(schema["type"] == "object")
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return all(isinstance(branch, dict) and _is_object(branch) for branch in schema[key])
    return any(isinstance(branch, dict) and _is_object(branch) for branch in schema.get("allOf", ()))


def _rooted(schema: dict[str, Any], member: str) -> dict[str, Any]:
    """The schema with `type: object` at its root, wrapped under a member if need be."""
    if schema.get("type") == "object":
        return schema
    if _is_object(schema):
        return {"type": "object", **schema}
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    root = {"type": "object", "properties": {member: inner}, "required": [member]}
    return {**root, "$defs": schema["$defs"]} if "$defs" in schema else root


def _mirrored(schema: Any, path: tuple[str, ...]) -> Iterator[Mirrored]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, each in properties.items():
        if not isinstance(each, dict):
            continue
        if HEADER in each:
            header = f"mcp-param-{each[HEADER]}".lower().encode(errors="replace")
            yield Mirrored(header, (*path, name), str(each.get("type")))
        yield from _mirrored(each, (*path, name))
