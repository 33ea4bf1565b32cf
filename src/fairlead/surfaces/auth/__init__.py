"""Who is calling, found at the edge from a request's credentials; never from its body.

    HttpApp(app, resolve_context=[ApiKeys("keys.json"), Jwt(jwks="jwks.json", issuer="https://id.example")])

A resolver is a callable that takes a request and gives a `Caller`, or None where it finds nothing to go by.
What a caller may do is not decided here: the runtime does that, from what the resolver says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.actions import Action
    from fairlead.surfaces.auth.jwt import Jwt
    from fairlead.surfaces.auth.keys import ApiKeys

__all__ = ["ANONYMOUS", "ApiKeys", "Caller", "Jwt"]

_NONE: Mapping[str, Any] = MappingProxyType({})


class Caller(NamedTuple):
    """Who is calling, what they may do, and what else the edge knows of the call."""

    user: Any = None
    auth: Any = None
    metadata: Mapping[str, Any] = _NONE
    #: Actions that are not there for this caller, on whatever surface: neither found nor listed.
    hides: frozenset[Action[..., Any]] = frozenset()


#: Nobody in particular.
ANONYMOUS = Caller()

__getattr__ = on_demand(__name__, {"ApiKeys": "keys", "Jwt": "jwt"})
