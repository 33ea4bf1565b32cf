"""Actions: what can be called, with its contract. The runtime calls them; surfaces show them."""

from fairlead.actions.binding import Injected, deferred
from fairlead.actions.catalogue import Catalogue, Group, action, collect
from fairlead.actions.definition import RESERVED_NAMES, Action, ActionOptions
from fairlead.actions.exposure import Exposure
from fairlead.actions.manifest import (
    action_manifest,
    describe_action,
    describe_attribution,
    describe_policy,
    surface_manifest,
)
from fairlead.actions.policy import Concurrency, DefinitionError, Deprecation, RateLimit, Retry
from fairlead.actions.surfaces import IN_PROCESS, Surface, register_surface, surface_names, surfaces

__all__ = [
    "IN_PROCESS",
    "RESERVED_NAMES",
    "Action",
    "ActionOptions",
    "Catalogue",
    "Concurrency",
    "DefinitionError",
    "Deprecation",
    "Exposure",
    "Group",
    "Injected",
    "RateLimit",
    "Retry",
    "Surface",
    "action",
    "action_manifest",
    "collect",
    "deferred",
    "describe_action",
    "describe_attribution",
    "describe_policy",
    "register_surface",
    "surface_manifest",
    "surface_names",
    "surfaces",
]
