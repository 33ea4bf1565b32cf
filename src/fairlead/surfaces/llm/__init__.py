"""Model tools: an app's actions in the words of five providers and two libraries, and the way back for their calls."""

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.surfaces.llm.manifest import function_calling_manifest
    from fairlead.surfaces.llm.tools import Tools

__all__ = ["Tools", "function_calling_manifest"]

__getattr__ = on_demand(__name__, {"Tools": "tools", "function_calling_manifest": "manifest"})
