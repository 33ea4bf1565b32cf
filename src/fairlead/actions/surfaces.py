"""The ways in, by name: what each surface can do, for manifests and for checking `supported_surfaces`.

It describes surfaces and imports none of them. A surface of your own joins with `register_surface`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairlead.actions.policy import text

#: The surface of a call made in process without naming one. Every action allows it.
IN_PROCESS = "unknown"


class Surface(NamedTuple):
    """What a surface is called and what its callers can do."""

    name: str
    description: str = ""
    streaming: bool = False
    cancellation: bool = False
    binary_artifacts: bool = False
    interactive_confirmation: bool = False
    #: A local surface serves the person who runs the program: local and destructive actions are shown there.
    local: bool = False

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "capabilities": {
                "jsonInput": True,
                "jsonOutput": True,
                "streaming": self.streaming,
                "cancellation": self.cancellation,
                "binaryArtifacts": self.binary_artifacts,
                "interactiveConfirmation": self.interactive_confirmation,
            },
        }


_SURFACES: dict[str, Surface] = {}


def register_surface(surface: Surface) -> Surface:
    """Make a surface known, so that actions may name it in `supported_surfaces`."""
    text("Surface", "name", surface.name)
    _SURFACES[surface.name] = surface
    return surface


def surfaces() -> tuple[Surface, ...]:
    """All known surfaces, in the order they joined."""
    return tuple(_SURFACES.values())


def surface_names() -> tuple[str, ...]:
    return tuple(_SURFACES)


def near_surfaces() -> tuple[str, ...]:
    """Where an action may be called that has the rights of this program: not from other machines."""
    return tuple(name for name in _SURFACES if name not in ("http", "mcp"))


def is_local(name: object) -> bool:
    known = _SURFACES.get(name) if isinstance(name, str) else None
    return name == IN_PROCESS or (known is not None and known.local)


for _surface in (
    Surface("cli", "People at a terminal.", True, True, False, True, local=True),
    Surface("json", "Structured calls from a host program.", True, True, local=True),
    Surface("http", "Programs over HTTP.", True, True),
    Surface("mcp", "Models over the Model Context Protocol.", True, True),
    Surface("react", "Front-end components.", True, True, True, True, local=True),
    Surface("dev", "The browser console.", True, True, True, True, local=True),
    Surface("ai-sdk", "Models through a provider's tool format.", False, True),
):
    register_surface(_surface)
