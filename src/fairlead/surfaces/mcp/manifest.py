"""The tools of an app as one JSON document, for those who want to read them without a connection."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fairlead.actions import Action, Exposure
from fairlead.actions.manifest import describe_attribution
from fairlead.runtime import Runtime
from fairlead.surfaces.mcp.revisions import R2025_11
from fairlead.surfaces.mcp.tools import METADATA, Tool


def mcp_manifest(app: Runtime, exposure: Exposure | None = None) -> dict[str, Any]:
    """What `tools/list` tells, with the app's attribution; `metadata` is each tool's public metadata.

    Raises:
        DefinitionError: an action's types cannot be used.
    """
    attribution = describe_attribution(getattr(app, "attribution", None))
    tools = [_tool(action, attribution) for action in app.list_actions("mcp", exposure)]
    return {**({"attribution": attribution} if attribution else {}), "tools": tools}


def _tool(action: Action[..., Any], attribution: dict[str, str] | None) -> dict[str, Any]:
    told = deepcopy(Tool(action, attribution).describe(R2025_11))
    metadata = told.pop("_meta")[METADATA]
    return {**told, "metadata": metadata}
