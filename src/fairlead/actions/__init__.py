"""Actions: what can be called, with its contract. The runtime calls them; surfaces show them."""

from fairlead.actions.catalogue import Catalogue, Group, action, collect
from fairlead.actions.definition import Action, ActionOptions
from fairlead.actions.exposure import Exposure
from fairlead.actions.manifest import action_manifest, describe_action, surface_manifest
from fairlead.actions.policy import Concurrency, DefinitionError, Deprecation, RateLimit, Retry
from fairlead.actions.surfaces import Surface, register_surface, surface_names, surfaces

__all__ = [
    "Action",
    "ActionOptions",
    "Catalogue",
    "Concurrency",
    "DefinitionError",
    "Deprecation",
    "Exposure",
    "Group",
    "RateLimit",
    "Retry",
    "Surface",
    "action",
    "action_manifest",
    "collect",
    "describe_action",
    "register_surface",
    "surface_manifest",
    "surface_names",
    "surfaces",
]
