"""`ApiKeys`: callers known by a key that was given to them. Only hashes of keys are kept."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from fairlead.actions import DefinitionError
from fairlead.failures.action import AuthenticationError
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.auth.credentials import InvalidCredentials, credential
from fairlead.surfaces.auth.keyfile import SHAPE, Key, Keys, digest, parse, read_key
from fairlead.surfaces.auth.watched import Watched

if TYPE_CHECKING:
    from fairlead.surfaces.http.asgi import Request

#: A key that a developer brings must be at least this long: nobody may guess it.
SHORTEST = 20

_VISIBLE = re.compile("[!-~]+")
_NOBODY: Final = "sha256:" + "0" * 64


class ApiKeys:
    """A resolver for `Authorization: Bearer KEY` and `X-API-Key: KEY`.

    `source` is a file that `fairlead keys` writes, read again when it changes; or a mapping from a key to
    what is known of it: `ApiKeys({os.environ["CI_KEY"]: {"name": "ci", "permissions": ["tasks:*"]}})`.
    With `required`, a call without credentials is refused; put that on the last resolver of a list.
    """

    #: A credential that no resolver of a list takes for its own is refused.
    reads_credentials = True
    #: How OpenAPI tells it.
    security_schemes: Final = {
        "apiKey": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "flk_<id>_<secret>",
            "description": "An API key, as `Authorization: Bearer KEY`.",
        },
        "apiKeyHeader": {
            "type": "apiKey",
            "in": "header",
            "name": "X-API-Key",
            "description": "The same in a header of its own, as `X-API-Key: KEY`.",
        },
    }

    def __init__(
        self,
        source: str | os.PathLike[str] | Mapping[str, Mapping[str, Any]],
        *,
        required: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.required = required
        self._now = now
        self._given = _hashed(source) if isinstance(source, Mapping) else {}
        self._file = None if isinstance(source, Mapping) else Watched("API keys", source, parse)

    def __call__(self, request: Request) -> Caller | None:
        token = credential(request)
        if token is None:
            if self.required:
                raise AuthenticationError(
                    "This server takes no anonymous calls. "
                    "Send an API key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
                )
            return None
        key = self._find(token)
        return None if key is None else self._caller(key)

    def _find(self, token: str) -> Key | None:
        """The key of this text; None for a text that is not one of ours, so that others may know it.

        Whoever guesses learns nothing from the time it takes: a key is found by its public id, and its
        hash is compared as slowly when there is none.
        """
        keys = self._given if self._file is None else self._file.value
        hashed = digest(token)
        shape = SHAPE.fullmatch(token)
        key = keys.get(shape[1] if shape else hashed)
        if compare_digest(hashed, key.hash if key else _NOBODY) and key is not None:
            return key
        if shape is None:
            return None
        raise InvalidCredentials("The API key is not known here.")

    def _caller(self, key: Key) -> Caller:
        status = key.status(self._now())
        if status != "active":
            raise InvalidCredentials(
                "The API key has expired." if status == "expired" else "The API key was revoked."
            )
        auth = {"type": "api_key", "id": key.id, "name": key.name, "permissions": list(key.permissions)}
        return Caller({"id": key.user}, auth)


def _hashed(source: Mapping[str, Mapping[str, Any]]) -> Keys:
    """Keys that a developer brings, by their id or, where they have none, by their hash."""
    keys: Keys = {}
    for number, (token, record) in enumerate(source.items(), start=1):
        # Its number stands for the key, which must not be told.
        where = f"number {number}"
        if len(token) < SHORTEST or not _VISIBLE.fullmatch(token):
            raise DefinitionError(
                f"ApiKeys: key {where} must be a text of at least {SHORTEST} visible characters. "
                "Make one with `fairlead keys new`."
            )
        hashed = digest(token)
        try:
            key = read_key(where, record, hashed)
        except ValueError as exc:
            raise DefinitionError(f"ApiKeys: {exc}") from exc
        shape = SHAPE.fullmatch(token)
        keys[shape[1] if shape else hashed] = replace(key, id=shape[1] if shape else key.name)
    return keys
