"""`completion/complete`: what may stand in an argument of a prompt or a resource template, as far as its type says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, Params, RpcError

if TYPE_CHECKING:
    from fairlead.surfaces.mcp.server import View

_MOST: Final = 100


def complete(view: View, params: Params) -> dict[str, Any]:
    """The values that fit what has been typed so far: those that begin with it, then those that hold it."""
    argument = params.get("argument")
    if not isinstance(argument, dict) or not isinstance(argument.get("name"), str):
        raise RpcError(INVALID_PARAMS, "Invalid params: name the argument to complete.")
    fields = _fields(view, params.get("ref")).get("properties", {})
    typed = str(argument.get("value", "")).casefold()
    values = list(dict.fromkeys(_values(fields.get(argument["name"]))))
    fitting = [value for value in values if value.casefold().startswith(typed)]
    fitting += [value for value in values if typed in value.casefold() and value not in fitting]
    return {"values": fitting[:_MOST], "total": len(fitting), "hasMore": len(fitting) > _MOST}


def _fields(view: View, ref: Any) -> Mapping[str, Any]:
    kind = ref.get("type") if isinstance(ref, dict) else None
    if kind == "ref/prompt" and isinstance(ref.get("name"), str):
        prompt = view.prompts.get(ref["name"])
        if prompt is not None:
            return prompt.fields
    if kind == "ref/resource" and isinstance(ref.get("uri"), str):
        resource = view.resource(ref["uri"])
        if resource is not None:
            return resource.fields
    raise RpcError(
        INVALID_PARAMS, "Invalid params: the reference names no prompt and no resource of this server."
    )


def _values(schema: Any) -> Iterator[str]:
    """All values that a schema allows, where it lists them."""
    if not isinstance(schema, dict):
        return
    if "const" in schema:
        yield _text(schema["const"])
    for value in schema.get("enum", ()):
        yield _text(value)
    if schema.get("type") == "boolean":
        yield from ("true", "false")
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _values(branch)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
