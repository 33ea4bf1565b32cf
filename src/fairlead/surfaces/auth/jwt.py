"""`Jwt`: callers known by a signed token of an issuer one trusts. Needs the extra `jwt`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fairlead.actions import DefinitionError
from fairlead.actions import policy as checks
from fairlead.failures.action import AuthenticationError
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.auth.credentials import InvalidCredentials, credential
from fairlead.surfaces.auth.jwks import ALGORITHMS, VerificationKey, given_key, key_set
from fairlead.surfaces.auth.watched import Watched

if TYPE_CHECKING:
    from fairlead.surfaces.http.asgi import Request

_KNOWN: Final = tuple(name for names in ALGORITHMS.values() for name in names)
#: Three parts in base64url, the first of which is a JSON object's.
_SHAPE = re.compile(r"e[\w-]+\.[\w-]*\.[\w-]*", re.ASCII)

#: What is wrong with a token, by the exception of the library, most exact first.
_REASONS: Final = {
    "ExpiredSignatureError": "The token has expired. Get a new one.",
    "ImmatureSignatureError": "The token is not valid yet.",
    "InvalidAudienceError": "The token is meant for another audience (aud).",
    "InvalidIssuerError": "The token comes from another issuer (iss).",
    "InvalidAlgorithmError": "The token is signed by an algorithm (alg) that is not allowed here.",
    "InvalidSignatureError": "The token's signature does not hold.",
}


class Jwt:
    """A resolver for `Authorization: Bearer TOKEN` with a JSON Web Token.

    `key` is a shared secret or a public key in PEM; `jwks` is the path of a JWK set instead, read again when
    it changes. Tokens must have `sub` and, unless told otherwise, `exp`; `issuer` and `audience` must match
    where they are given, and a token for an audience is refused where none is.
    """

    reads_credentials = True
    security_schemes: Final = {
        "jwt": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "A signed token, as `Authorization: Bearer TOKEN`.",
        }
    }

    def __init__(
        self,
        *,
        key: str | bytes | None = None,
        jwks: str | os.PathLike[str] | None = None,
        algorithms: Sequence[str] = (),
        issuer: str | Sequence[str] | None = None,
        audience: str | Sequence[str] | None = None,
        leeway: float = 0,
        permissions_claim: str = "scope",
        require_exp: bool = True,
        required: bool = False,
    ) -> None:
        _needs_library()
        if (key is None) == (jwks is None):
            raise DefinitionError(
                "Jwt takes `key`, a secret or a public key, or `jwks`, a file of keys: one of them."
            )
        allowed = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
        for name in allowed:
            checks.one_of("Jwt", "algorithms", name, _KNOWN)
        if not 0 <= leeway <= 600:
            raise DefinitionError("Jwt: leeway is in seconds, from 0 to 600.")
        self.required = required
        self._key = None if key is None else _given(key, allowed)
        self._set = (
            None if jwks is None else Watched("The JWK set", jwks, lambda data: key_set(data, allowed))
        )
        self._claim = checks.text("Jwt", "permissions_claim", permissions_claim)
        self._expected: dict[str, Any] = {
            "issuer": issuer,
            "audience": audience,
            "leeway": leeway,
            "options": {"require": ["sub", "exp"] if require_exp else ["sub"]},
        }

    def __call__(self, request: Request) -> Caller | None:
        token = credential(request)
        if token is None and self.required:
            raise AuthenticationError(
                "This server takes no anonymous calls. Send a token as 'Authorization: Bearer TOKEN'."
            )
        if token is None or not _SHAPE.fullmatch(token):
            return None
        claims = self._verified(token)
        user = {"id": claims["sub"]}
        if isinstance(claims.get("iss"), str):
            # The same id from another issuer is someone else.
            user["issuer"] = claims["iss"]
        return Caller(user, {"type": "jwt", "permissions": self._permissions(claims), "claims": claims})

    def _verified(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            key = self._chosen(header)
            if header.get("alg") not in key.algorithms:
                raise InvalidCredentials(_REASONS["InvalidAlgorithmError"])
            claims: dict[str, Any] = jwt.decode(
                token, key.key, algorithms=list(key.algorithms), **self._expected
            )
        except jwt.MissingRequiredClaimError as exc:
            raise InvalidCredentials(f"The token lacks the claim {exc.claim!r}.") from exc
        except jwt.PyJWTError as exc:
            known = (_REASONS[cls.__name__] for cls in type(exc).__mro__ if cls.__name__ in _REASONS)
            raise InvalidCredentials(
                next(known, "The token is not a JSON Web Token that can be read.")
            ) from exc
        if not claims["sub"]:
            raise InvalidCredentials("The token's subject (sub) is empty.")
        return claims

    def _chosen(self, header: dict[str, Any]) -> VerificationKey:
        """The key a token asks for, among those of this server: never one that it brings along."""
        if self._set is None:
            assert self._key is not None
            return self._key
        keys, kid = self._set.value, header.get("kid")
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        if kid is None or kid not in keys:
            raise InvalidCredentials("The token is signed by a key (kid) that is not known here.")
        return keys[kid]

    def _permissions(self, claims: dict[str, Any]) -> list[str]:
        """A list, or the words of a text, as scopes are written."""
        value = claims.get(self._claim)
        if isinstance(value, str):
            return value.split()
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _given(key: str | bytes, algorithms: tuple[str, ...]) -> VerificationKey:
    try:
        return given_key(key, algorithms)
    except ValueError as exc:
        raise DefinitionError(f"Jwt: the key cannot be used: {exc}") from exc


def _needs_library() -> None:
    from importlib.util import find_spec

    if find_spec("jwt") is None:
        raise DefinitionError("Jwt needs PyJWT. Install it with: pip install 'fairlead[jwt]'")
