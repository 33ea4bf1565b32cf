"""The `WWW-Authenticate` header of a refusal: how one may say who one is (RFC 6750, RFC 9728)."""

from __future__ import annotations

import re

from fairlead.failures import Failure, Kind
from fairlead.surfaces.auth.credentials import InvalidCredentials

_UNQUOTABLE = re.compile(r"[^ !#-\[\]-~]")
_SCOPE = re.compile(r"[!#-\[\]-~]+")


def challenge(failure: Failure, resource_metadata: str | None = None) -> str:
    """The header's content for a 401 or a 403; empty for a failure that better credentials would not mend.

    `resource_metadata` is the URL of the OAuth metadata of this server, for clients that look for it.
    """
    parameters: dict[str, str] = {}
    if isinstance(failure, InvalidCredentials):
        parameters |= {"error": failure.error, "error_description": failure.message}
    elif failure.kind is Kind.forbidden and failure.code == "AUTHORIZATION_ERROR":
        parameters["error"] = "insufficient_scope"
    elif failure.kind is not Kind.unauthenticated:
        return ""
    if (scope := _scope(failure)) and "error_description" not in parameters:
        parameters["scope"] = scope
    if resource_metadata is not None:
        parameters["resource_metadata"] = resource_metadata
    told = ", ".join(f'{name}="{_UNQUOTABLE.sub("?", value)}"' for name, value in parameters.items())
    return f"Bearer {told}" if told else "Bearer"


def _scope(failure: Failure) -> str:
    """The permissions that were missing, where the failure names them."""
    missing = failure.details.get("permissions")
    if not isinstance(missing, list | tuple):
        return ""
    return " ".join(item for item in missing if isinstance(item, str) and _SCOPE.fullmatch(item))
