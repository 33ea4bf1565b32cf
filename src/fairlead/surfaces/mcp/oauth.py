"""The endpoint as an OAuth 2 resource server: where tokens come from (RFC 9728), and what a challenge says.

Tokens are checked by the endpoint's resolvers; whether a caller may do something, the runtime decides. This module
only tells clients what they need to get a token that will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from fairlead import _json
from fairlead.actions import Action
from fairlead.failures import Failure
from fairlead.runtime import Context, Runtime
from fairlead.runtime.permissions import declared_permissions, granted
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.http.asgi import Scope

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource(NamedTuple):
    """What clients are told about getting in. With it, every request needs a caller."""

    #: The issuers whose tokens are taken.
    authorization_servers: Sequence[str]
    #: The endpoint's own URL, as tokens name it; found from the request where it is not given.
    resource: str | None = None
    #: Scopes that every request needs.
    scopes: Sequence[str] = ()
    #: Scopes that can be asked for; those above where it is not given.
    scopes_supported: Sequence[str] = ()
    documentation: str | None = None

    def metadata(self, scope: Scope, path: str, name: str) -> bytes:
        """The document at the well-known place."""
        told: dict[str, Any] = {
            "resource": self.resource or origin(scope) + path,
            "authorization_servers": list(self.authorization_servers),
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        }
        if supported := list(self.scopes_supported or self.scopes):
            told["scopes_supported"] = supported
        if self.documentation is not None:
            told["resource_documentation"] = self.documentation
        return _json.encode(told)

    def challenge(self, scope: Scope, path: str, error: str | None, scopes: Sequence[str]) -> bytes:
        """The `WWW-Authenticate` header of a refusal."""
        parts = [f'error="{error}"'] if error else []
        parts.append(f'resource_metadata="{origin(scope)}{WELL_KNOWN}{path}"')
        if scopes:
            parts.append(f'scope="{" ".join(scopes)}"')
        return f"Bearer {', '.join(parts)}".encode("ascii", "replace")

    def lacking(self, caller: Caller) -> list[str]:
        """The scopes that every request needs and this caller has not."""
        held = granted(cast("Context", caller))
        return [] if "*" in held else [scope for scope in self.scopes if scope not in held]


def denied(app: Runtime, action: Action[..., Any], caller: Caller) -> bool:
    """Whether the runtime would refuse this caller for want of declared permissions, so that more scopes would help."""
    if not action.permissions or app._checker is not None:
        return False
    try:
        return declared_permissions(action, None, cast("Context", caller)) is not True
    except Failure:
        return True


def origin(scope: Scope) -> str:
    """Where the app is that the request was sent to; its host has been checked by now."""
    host = next((value for name, value in scope["headers"] if name == b"host"), b"localhost")
    return f"{scope.get('scheme', 'http')}://{host.decode('latin-1')}{scope.get('root_path', '')}"
