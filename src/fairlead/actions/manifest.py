"""Actions and surfaces as plain JSON, for tools that read contracts. The same app gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from fairlead.actions.definition import Action
from fairlead.actions.exposure import Exposure
from fairlead.actions.policy import Deprecation, Retry
from fairlead.actions.surfaces import IN_PROCESS, surfaces

ATTRIBUTION_KEYS = ("text", "url", "vendor", "product", "docs_url", "license_notice")


def describe_action(action: Action[..., Any]) -> dict[str, Any]:
    """One action's public contract, as a copy. Internal metadata stays out."""
    described = {
        "name": action.name,
        "version": action.version,
        "commandName": action.command_name,
        "title": action.title,
        "description": action.description,
        "inputSchema": action.input.json_schema,
        "outputSchema": action.output.output_json_schema if action.output else None,
        "visibility": action.visibility,
        "sideEffects": action.side_effects,
        "idempotency": action.idempotency,
        "permissions": list(action.permissions),
        "supportedSurfaces": list(action.supported_surfaces),
        "timeoutMs": None if action.timeout is None else round(action.timeout * 1000),
        "retry": _retry(action.retry),
        "requiresConfirmation": bool(action.requires_confirmation),
        "publicMetadata": action.public_metadata,
        "docs": {camel_case(key): value for key, value in action.docs.items()},
        "deprecated": action.deprecated,
        "deprecation": _deprecation(action.deprecation),
    }
    return deepcopy(described)


def describe_policy(action: Action[..., Any], attribution: Mapping[str, str] | None) -> dict[str, Any]:
    """What an action's public metadata and policy say beside a tool made from it."""
    return {
        **action.public_metadata,
        **({"attribution": dict(attribution)} if attribution else {}),
        "visibility": action.visibility,
        "sideEffects": action.side_effects,
        "requiresConfirmation": bool(action.requires_confirmation),
        "idempotency": action.idempotency,
        "permissions": list(action.permissions),
    }


def action_manifest(
    actions: Iterable[Action[..., Any]], *, surface: str = IN_PROCESS, exposure: Exposure | None = None
) -> list[dict[str, Any]]:
    """The actions that `surface` shows, described."""
    return [describe_action(action) for action in (exposure or Exposure()).select(actions, surface)]


def surface_manifest(
    name: str,
    actions: list[dict[str, Any]],
    *,
    older: list[dict[str, Any]] | None = None,
    attribution: dict[str, str] | None = None,
    generated_at: str | None = None,
) -> dict[str, Any]:
    """The app as a whole. `generated_at` is None unless given, so that equal apps give equal manifests.

    `older` are the versions that only `name@version` finds. They stand apart, so that a name is once in `actions`.
    """
    return {
        "name": name,
        "generatedAt": generated_at,
        **({"attribution": attribution} if attribution else {}),
        "actions": actions,
        **({"olderVersions": older} if older else {}),
        "surfaces": [surface.describe() for surface in surfaces()],
    }


def describe_attribution(given: dict[str, Any] | None) -> dict[str, str] | None:
    """Attribution in the manifest's words; it counts only when it has a text."""
    if not given or not given.get("text"):
        return None
    return {camel_case(key): given[key] for key in ATTRIBUTION_KEYS if given.get(key)}


def camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _retry(retry: Retry) -> dict[str, Any]:
    return {"retries": retry.retries, "delayMs": round(retry.delay * 1000) if retry.retries else 0}


def _deprecation(deprecation: Deprecation | None) -> dict[str, str] | None:
    if deprecation is None:
        return None
    fields = {"message": deprecation.message, "since": deprecation.since}
    fields |= {"removeAfter": deprecation.remove_after, "replacement": deprecation.replacement}
    return {key: value for key, value in fields.items() if value is not None}
