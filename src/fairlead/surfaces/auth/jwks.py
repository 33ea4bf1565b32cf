"""The keys that signed tokens are verified with, and the algorithms each may be used for.

What a key is decides the algorithms, never what a token says: a public key is no secret, and `none` is no algorithm.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from fairlead import _json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

SECRET = "a shared secret"  # noqa: S105  # the name of a kind of key
#: By what a key is; the first is the one taken when nobody chooses.
ALGORITHMS = {
    SECRET: ("HS256", "HS384", "HS512"),
    "an RSA public key": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "a P-256 public key": ("ES256",),
    "a P-384 public key": ("ES384",),
    "a P-521 public key": ("ES512",),
    "an Ed25519 public key": ("EdDSA",),
}
_CURVES = {
    "secp256r1": "a P-256 public key",
    "secp384r1": "a P-384 public key",
    "secp521r1": "a P-521 public key",
}
_SMALLEST_RSA = 2048
#: In bytes: as long as the hash, as RFC 7518 asks.
_SHORTEST = {"HS256": 32, "HS384": 48, "HS512": 64}


class VerificationKey(NamedTuple):
    """A key, and what it may be used for."""

    key: Any
    algorithms: tuple[str, ...]


def given_key(key: str | bytes, algorithms: Collection[str]) -> VerificationKey:
    """A secret, or a public key in PEM. Raises ValueError for a key that does not fit, or is too weak."""
    data = key.encode() if isinstance(key, str) else bytes(key)
    if b"-----BEGIN" not in data:
        return _secret(data, _fitting(SECRET, algorithms, strict=True))
    if b"PRIVATE KEY" in data:
        raise ValueError(
            "it is a private key, which only the issuer of tokens should have. Give the public key."
        )
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        public = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise ValueError("it is not a public key in PEM.") from exc
    return VerificationKey(public, _fitting(_kind(public), algorithms, strict=True))


def key_set(data: bytes, algorithms: Collection[str]) -> dict[str | None, VerificationKey]:
    """The keys of a JWKS file by their id, without those for other uses. Raises ValueError.

    Secrets in it count only where `algorithms` names theirs.
    """
    try:
        content = _json.loads(data)
    except ValueError as exc:
        raise ValueError("it is not JSON.") from exc
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not all(isinstance(jwk, dict) for jwk in listed):
        raise ValueError('it must be a JWK set: an object with a list "keys" of objects.')
    keys: dict[str | None, VerificationKey] = {}
    for number, jwk in enumerate(listed, start=1):
        try:
            key = _member(jwk, algorithms)
        except ValueError as exc:
            raise ValueError(f"key number {number}: {exc}") from exc
        if key is None:
            continue
        if (kid := jwk.get("kid")) in keys:
            raise ValueError(f"key number {number} has the same id ('kid') as another, or none as another.")
        keys[kid] = key
    if not keys:
        raise ValueError("no key in it is for verifying signatures by an algorithm that is allowed here.")
    return keys


def _member(jwk: dict[str, Any], algorithms: Collection[str]) -> VerificationKey | None:
    """A key of a set; None where it is for something else."""
    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ("verify",)):
        return None
    if not isinstance(jwk.get("kid"), str | None):
        raise ValueError("its id ('kid') must be a text.")
    kty = jwk.get("kty")
    if "d" in jwk:
        raise ValueError("it is a private key, which only the issuer of tokens should have.")
    if kty not in ("RSA", "EC", "OKP", "oct") or (kty == "oct" and not algorithms):
        return None
    key = _loaded(jwk)
    kind = SECRET if kty == "oct" else _kind(key)
    fits = _fitting(kind, algorithms, strict=False)
    if (alg := jwk.get("alg")) is not None:
        fits = (alg,) if alg in ALGORITHMS[kind] and (not algorithms or alg in algorithms) else ()
    if not fits:
        return None
    return _secret(key, fits) if kty == "oct" else VerificationKey(key, fits)


def _loaded(jwk: dict[str, Any]) -> Any:
    from jwt import algorithms
    from jwt.exceptions import InvalidKeyError

    readers: dict[str, Any] = {
        "RSA": algorithms.RSAAlgorithm,
        "EC": algorithms.ECAlgorithm,
        "OKP": algorithms.OKPAlgorithm,
        "oct": algorithms.HMACAlgorithm,
    }
    try:
        return readers[jwk["kty"]].from_jwk(jwk)
    except (InvalidKeyError, ValueError, TypeError, KeyError) as exc:
        raise ValueError("its numbers do not make a key.") from exc


def _secret(data: bytes, algorithms: tuple[str, ...]) -> VerificationKey:
    shortest = max(_SHORTEST[name] for name in algorithms)
    if len(data) < shortest:
        raise ValueError(f"a secret for {', '.join(algorithms)} must have at least {shortest} random bytes.")
    if data.lstrip()[:1] == b"{" and b'"kty"' in data:
        raise ValueError("it is a JWK, not a secret. Keep it in a file and give its path as `jwks`.")
    return VerificationKey(data, algorithms)


def _kind(key: PublicKeyTypes) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < _SMALLEST_RSA:
            raise ValueError(f"an RSA key must have at least {_SMALLEST_RSA} bits.")
        return "an RSA public key"
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "an Ed25519 public key"
    raise ValueError("keys of this kind do not sign tokens. Use RSA, P-256, P-384, P-521 or Ed25519.")


def _fitting(kind: str, algorithms: Collection[str], *, strict: bool) -> tuple[str, ...]:
    """Which of the algorithms this kind of key can be used for; by default the usual one."""
    known = ALGORITHMS[kind]
    if not algorithms:
        return known[:1]
    unfit = [name for name in algorithms if name not in known]
    if strict and unfit:
        raise ValueError(
            f"it is {kind}, and {', '.join(unfit)} cannot be used with one: {', '.join(known)} can."
        )
    return tuple(name for name in algorithms if name in known)
