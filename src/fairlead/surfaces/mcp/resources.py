"""Resources: what a client may read by URI. Those of the app itself, and those a server adds as functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead import _json
from fairlead.actions import DefinitionError
from fairlead.schema import jsonable
from fairlead.surfaces.mcp.content import base64
from fairlead.surfaces.mcp.exchange import Exchange
from fairlead.surfaces.mcp.functions import as_action, run
from fairlead.surfaces.mcp.templates import VARIABLE, Template

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Resource:
    """One URI, or a template of many, and the function that reads it.

    In a template `{name}` stands for one segment and `{+name}` for what may have slashes. The function gives a
    text, bytes, or anything that is JSON.
    """

    def __init__(
        self,
        uri: str,
        function: Callable[..., Any],
        name: str | None,
        title: str | None,
        mime_type: str | None,
        **options: Any,
    ) -> None:
        self.uri = _checked(uri)
        self.name = name or function.__name__
        self.title = title
        self.mime_type = mime_type
        self._template = Template(uri)
        self.variables = self._template.variables
        self.action = as_action(function, "resource", self.name, _packed, options)
        self.description = self.action.description
        self._check_parameters()

    @property
    def is_template(self) -> bool:
        return bool(self.variables)

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.action.input.json_schema

    def match(self, uri: str) -> dict[str, Any] | None:
        """The variables by which the template gives this URI; None where it does not."""
        return self._template.match(uri)

    async def read(self, exchange: Exchange, uri: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The contents. Raises what `run` raises."""
        packed = await run(exchange, self.action, variables)
        told = {"uri": uri}
        kind = self.mime_type or packed.pop("mimeType")
        return {**told, "mimeType": kind, **{key: packed[key] for key in ("text", "blob") if key in packed}}

    def describe(self, titled: bool) -> dict[str, Any]:
        """As it is listed."""
        told = {"uriTemplate" if self.is_template else "uri": self.uri, "name": self.name}
        if titled and self.title is not None:
            told["title"] = self.title
        told["description"] = self.description
        if self.mime_type is not None:
            told["mimeType"] = self.mime_type
        return told

    def _check_parameters(self) -> None:
        known = set(self.action.input.json_schema.get("properties", {}))
        if known != set(self.variables):
            raise DefinitionError(
                f"Resource {self.uri!r} has the variables {sorted(self.variables)}, and its function takes "
                f"{sorted(known)}. Give it a parameter for each variable, and no others."
            )


def _checked(uri: object) -> str:
    if not isinstance(uri, str) or not _SCHEME.match(uri):
        raise DefinitionError(f"A resource has a URI with a scheme, such as 'notes://today', not {uri!r}.")
    if "{" in VARIABLE.sub("", uri) or "}" in VARIABLE.sub("", uri):
        raise DefinitionError(f"Resource {uri!r}: a template's variables are {{name}} or {{+name}}.")
    names = [name for _, name in VARIABLE.findall(uri)]
    if len(set(names)) < len(names):
        raise DefinitionError(f"Resource {uri!r}: a template has each of its variables once.")
    return uri


def _packed(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"text": value, "mimeType": "text/plain"}
    if isinstance(value, bytes | bytearray):
        return {"blob": base64(bytes(value)), "mimeType": "application/octet-stream"}
    return {"text": _json.dumps(jsonable(value)), "mimeType": "application/json"}
