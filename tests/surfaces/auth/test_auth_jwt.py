"""Signed tokens: what holds gets in, and every known way to pass off another does not."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.surfaces.auth import ApiKeys, Caller, Jwt
from fairlead.surfaces.auth.resolve import resolve
from fairlead.surfaces.http.asgi import Request

SECRET = "correct horse battery staple, and then some"
ISSUER = "https://id.example"


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key(curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def public(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def private(key: Any) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def claims(**changed: Any) -> dict[str, Any]:
    told = {"sub": "u1", "exp": int(time.time()) + 600, **changed}
    return {name: value for name, value in told.items() if value is not None}


def signed(key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, **changed: Any) -> str:
    return jwt.encode(claims(**changed), key, algorithm, {"kid": kid} if kid else None)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forged(header: Any, payload: Any, secret: bytes | None) -> str:
    """A token as an attacker makes it, without a library that would refuse to."""
    body = f"{part(header)}.{part(payload)}"
    signature = b"" if secret is None else hmac.new(secret, body.encode(), hashlib.sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    algorithm: Any = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
    }
    found = next(reader for kind, reader in algorithm.items() if isinstance(key, kind))
    return {**found.to_jwk(key.public_key(), as_dict=True), **more}


def jwks_file(path: Path, *keys: dict[str, Any]) -> Path:
    draft = path / "draft.json"
    draft.write_text(json.dumps({"keys": keys}))
    return draft.rename(path / "jwks.json")


def who(resolvers: Any, token: str) -> Caller:
    headers = [(b"authorization", b"Bearer " + token.encode())]
    return asyncio.run(resolve(resolvers, Request({"method": "POST", "path": "/", "headers": headers})))


def refused(resolvers: Any, token: str) -> bool:
    with pytest.raises(Failure) as caught:
        who(resolvers, token)
    assert caught.value.code == "AUTHENTICATION_ERROR"
    assert token not in caught.value.message
    return True


def test_a_good_token_names_its_user_and_permissions() -> None:
    caller = who(Jwt(key=SECRET), signed(scope="tasks:read tasks:write", iss=ISSUER))
    assert caller.user == {"id": "u1", "issuer": ISSUER}
    assert caller.auth["permissions"] == ["tasks:read", "tasks:write"]
    assert who(Jwt(key=SECRET), signed()).user == {"id": "u1"}


@pytest.mark.parametrize(
    ("claim", "value", "expected"),
    [
        ("permissions", ["a", "b"], ["a", "b"]),
        ("permissions", "a b", ["a", "b"]),
        ("permissions", ["a", 1, None, {"*": True}], ["a"]),
        ("permissions", {"*": True}, []),
        ("permissions", True, []),
        ("scope", ["*"], []),
    ],
)
def test_permissions_come_from_the_one_claim_that_was_chosen(
    claim: str, value: Any, expected: list[str]
) -> None:
    resolver = Jwt(key=SECRET, permissions_claim="permissions")
    assert who(resolver, signed(**{claim: value})).auth["permissions"] == expected


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (rsa_key, "RS256"),
        (ec_key, "ES256"),
        (lambda: ec_key(ec.SECP384R1), "ES384"),
        (cache(ed25519.Ed25519PrivateKey.generate), "EdDSA"),
    ],
)
def test_a_public_key_verifies_tokens_of_its_own_algorithm(key: Any, algorithm: str) -> None:
    resolver = Jwt(key=public(key()))
    assert who(resolver, signed(private(key()), algorithm)).user == {"id": "u1"}
    assert refused(resolver, signed())


def test_a_public_key_is_not_taken_for_a_secret() -> None:
    pem = public(rsa_key())
    numbers = json.dumps(jwk(rsa_key())).encode()
    for secret in (pem, pem.strip(), pem.replace(b"\n", b"\r\n"), numbers, SECRET.encode()):
        token = forged({"alg": "HS256", "typ": "JWT"}, claims(), secret)
        assert refused(Jwt(key=pem), token)
        assert refused(Jwt(key=pem, algorithms=("RS256", "RS512")), token)


@pytest.mark.parametrize(
    "alg", ["none", "None", "NONE", "nOnE", "", None, "HS256 ", "hs256", ["HS256"], {"HS256": 1}, 256]
)
@pytest.mark.parametrize("secret", [None, b"", SECRET.encode()])
def test_a_token_without_an_allowed_algorithm_is_refused(alg: Any, secret: bytes | None) -> None:
    for resolver in (Jwt(key=SECRET), Jwt(key=public(rsa_key()))):
        assert refused(resolver, forged({"alg": alg, "typ": "JWT"}, claims(), secret))
        assert refused(resolver, forged({"typ": "JWT"}, claims(), secret))


def test_a_token_cannot_bring_the_key_it_is_verified_with(tmp_path: Path) -> None:
    theirs = rsa_key(1)
    path = jwks_file(tmp_path, jwk(rsa_key(), kid="ours"))
    for header in (
        {"jwk": jwk(theirs)},
        {"jku": "http://127.0.0.1:1/jwks"},
        {"x5u": "http://127.0.0.1:1/"},
        {"kid": "../../x"},
    ):
        token = jwt.encode(claims(), private(theirs), "RS256", {"kid": "ours", **header})
        assert refused(Jwt(jwks=path), token)
        assert refused(Jwt(key=public(rsa_key())), token)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": int(time.time()) - 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": "NaN"},
        {"exp": [9999999999]},
        {"nbf": int(time.time()) + 86_400},
        {"nbf": "later"},
        {"iat": int(time.time()) + 86_400},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": ["u1"]},
        {"aud": "other"},
        {"aud": None},
        {"aud": ["other", 1]},
        {"aud": {"here": 1}},
        {"iss": "https://id.example.evil"},
        {"iss": None},
        {"iss": ["https://id.example"]},
    ],
)
def test_a_claim_that_is_missing_or_wrong_is_refused(changed: dict[str, Any]) -> None:
    resolver = Jwt(key=SECRET, issuer=ISSUER, audience="here")
    good: dict[str, Any] = {"iss": ISSUER, "aud": ["here", "there"]}
    assert who(resolver, signed(**good)).user["id"] == "u1"
    payload = claims(**{**good, **changed})
    assert refused(resolver, forged({"alg": "HS256"}, payload, SECRET.encode()))


def test_a_token_for_an_audience_is_refused_where_none_is_named() -> None:
    assert refused(Jwt(key=SECRET), signed(aud="elsewhere"))


def test_leeway_covers_clocks_that_differ_and_no_more() -> None:
    token = signed(exp=int(time.time()) - 10)
    assert who(Jwt(key=SECRET, leeway=60), token).user == {"id": "u1"}
    assert refused(Jwt(key=SECRET, leeway=2), token)


def test_a_token_that_never_expires_is_taken_only_on_request() -> None:
    assert who(Jwt(key=SECRET, require_exp=False), signed(exp=None)).user == {"id": "u1"}
    assert refused(Jwt(key=SECRET), signed(exp=None))


def test_the_key_id_chooses_the_key_and_no_other_is_tried(tmp_path: Path) -> None:
    path = jwks_file(tmp_path, jwk(rsa_key(), kid="r"), jwk(ec_key(), kid="e", use="sig", alg="ES256"))
    resolver = Jwt(jwks=path)
    assert who(resolver, signed(private(rsa_key()), "RS256", "r")).user == {"id": "u1"}
    assert who(resolver, signed(private(ec_key()), "ES256", "e")).user == {"id": "u1"}
    for kid in ("e", "x", "R", None):
        assert refused(resolver, signed(private(rsa_key()), "RS256", kid))
    for wrong in (["r"], {"r": 1}, 1, True):
        assert refused(resolver, forged({"alg": "RS256", "kid": wrong}, claims(), None))


def test_a_token_without_a_key_id_may_use_the_only_key(tmp_path: Path) -> None:
    resolver = Jwt(jwks=jwks_file(tmp_path, jwk(rsa_key(), kid="r")))
    assert who(resolver, signed(private(rsa_key()), "RS256")).user == {"id": "u1"}


def test_rotated_keys_count_from_the_next_call_on(tmp_path: Path) -> None:
    old, new = signed(private(rsa_key()), "RS256", "a"), signed(private(rsa_key(1)), "RS256", "b")
    resolver = Jwt(jwks=jwks_file(tmp_path, jwk(rsa_key(), kid="a")))
    assert refused(resolver, new)
    jwks_file(tmp_path, jwk(rsa_key(1), kid="b"))
    assert who(resolver, new).user == {"id": "u1"}
    assert refused(resolver, old)


def test_a_key_set_that_breaks_lets_nobody_in(tmp_path: Path) -> None:
    path = jwks_file(tmp_path, jwk(rsa_key(), kid="a"))
    resolver = Jwt(jwks=path)
    path.write_text("{}")
    with pytest.raises(Failure) as caught:
        who(resolver, signed(private(rsa_key()), "RS256", "a"))
    assert caught.value.kind is Kind.misconfigured


def secret_jwk(**more: Any) -> dict[str, Any]:
    return {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET.encode()).rstrip(b"=").decode(), **more}


def test_a_secret_in_a_key_set_counts_only_where_its_algorithm_is_named(tmp_path: Path) -> None:
    path = jwks_file(tmp_path, jwk(rsa_key(), kid="r"), secret_jwk(kid="s"))
    assert refused(Jwt(jwks=path), signed(kid="s"))
    assert who(Jwt(jwks=path, algorithms=("HS256",)), signed(kid="s")).user == {"id": "u1"}
    assert refused(Jwt(jwks=path, algorithms=("HS256",)), signed(private(rsa_key()), "RS256", "r"))


def test_keys_for_other_uses_are_left_out(tmp_path: Path) -> None:
    others = (
        jwk(rsa_key(1), kid="e", use="enc"),
        jwk(ec_key(), kid="o", key_ops=["sign"]),
        {"kty": "new", "kid": "n"},
    )
    resolver = Jwt(jwks=jwks_file(tmp_path, jwk(rsa_key(), kid="r"), *others))
    assert refused(resolver, signed(private(rsa_key(1)), "RS256", "e"))
    assert refused(resolver, signed(private(ec_key()), "ES256", "o"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"key": SECRET, "jwks": "x"},
        {"key": "short"},
        {"key": SECRET, "algorithms": ("RS256",)},
        {"key": SECRET, "algorithms": ("HS512",)},
        {"key": SECRET, "algorithms": ("none",)},
        {"key": SECRET, "algorithms": ("HS256", "RS256")},
        {"key": SECRET, "leeway": -1},
        {"key": SECRET, "leeway": float("nan")},
        {"key": lambda: public(rsa_key()), "algorithms": ("HS256",)},
        {"key": lambda: private(rsa_key())},
        {"key": lambda: public(rsa.generate_private_key(65537, 1024))},
        {"key": lambda: public(ec_key(ec.SECP256K1))},
        {"key": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"},
        {"key": lambda: json.dumps(jwk(rsa_key()))},
        {"jwks": "/nowhere/jwks.json"},
    ],
)
def test_wiring_that_cannot_be_safe_is_refused_at_the_start(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as caught:
        Jwt(**{name: value() if callable(value) else value for name, value in options.items()})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a"}],
        [{"kty": "RSA", "kid": "a"}],
        [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}],
        ["RSA"],
        [secret_jwk(kid="s")],
    ],
)
def test_a_key_set_with_a_wrong_key_or_none_is_refused_at_the_start(tmp_path: Path, keys: list[Any]) -> None:
    with pytest.raises(DefinitionError):
        Jwt(jwks=jwks_file(tmp_path, *keys))


def test_a_key_set_with_private_or_doubled_keys_is_refused_at_the_start(tmp_path: Path) -> None:
    leaked = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(), as_dict=True)
    for keys in (
        [leaked],
        [jwk(rsa_key(), kid="a"), jwk(ec_key(), kid="a")],
        [jwk(rsa_key()), jwk(ec_key())],
    ):
        with pytest.raises(DefinitionError):
            Jwt(jwks=jwks_file(tmp_path, *keys))


def test_keys_and_tokens_are_told_apart_in_either_order() -> None:
    brought = "flk_" + "a" * 12 + "_" + "b" * 43
    keys, tokens = ApiKeys({brought: {"name": "ci"}}), Jwt(key=SECRET)
    for resolvers in ([keys, tokens], [tokens, keys]):
        assert who(resolvers, brought).user == {"id": "ci"}
        assert who(resolvers, signed()).user == {"id": "u1"}
        assert refused(resolvers, "neither")
        assert refused(resolvers, signed("another secret of thirty-two bytes."))
        assert refused(resolvers, brought[:-1] + "c")


def test_required_refuses_a_call_without_a_token() -> None:
    with pytest.raises(Failure) as caught:
        asyncio.run(resolve(Jwt(key=SECRET, required=True), Request({"headers": []})))
    assert caught.value.code == "AUTHENTICATION_ERROR"


def test_a_token_that_is_cut_or_changed_anywhere_is_refused() -> None:
    resolver = Jwt(key=SECRET)
    token = signed(scope="a")
    for at in range(0, len(token) - 1, 3):
        assert refused(resolver, token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :])
        assert at == 0 or refused(resolver, token[:at])


@pytest.mark.parametrize(
    "token",
    [
        "eyJ" + "a" * 50_000,
        "e." * 4000,
        "eyJ9..",
        "eyJhbGciOiJIUzI1NiJ9..",
        "e" + "." * 8000,
        "eyJhbGciOiJIUzI1NiJ9." + "A" * 8000 + ".",
    ],
)
def test_a_monstrous_token_is_refused_quickly(token: str) -> None:
    started = time.thread_time()
    assert refused(Jwt(key=SECRET), token)
    assert time.thread_time() - started < 1


def test_deep_json_in_a_token_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 3000).rstrip(b"=").decode()
    assert refused(Jwt(key=SECRET), f"{deep}.{deep}.x")
    assert refused(Jwt(key=SECRET), f"{part({'alg': 'HS256'})}.{deep}.x")


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=40))
def test_no_made_up_token_gets_in(header: bytes, payload: bytes, signature: bytes) -> None:
    token = ".".join(base64.urlsafe_b64encode(each).decode() for each in (header, payload, signature))
    assert refused(Jwt(key=SECRET), token)


@given(
    st.dictionaries(
        st.text(max_size=8), st.integers() | st.text(max_size=8) | st.booleans() | st.none(), max_size=4
    )
)
def test_no_header_makes_a_wrong_signature_good(header: dict[str, Any]) -> None:
    assert refused(Jwt(key=SECRET), forged({"alg": "HS256", **header}, claims(), os.urandom(32)))
