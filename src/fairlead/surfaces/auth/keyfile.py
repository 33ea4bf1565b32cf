"""API keys as they are kept: who each is for and what it allows, with a hash in the place of the secret.

    {"keys": {"3fK9…": {"hash": "sha256:…", "name": "ci", "permissions": ["tasks:read"], "created": "…"}}}

A key is `flk_<id>_<secret>`. The id is public; the secret has 256 random bits, so that a plain SHA-256 of it
cannot be searched, and it exists only where the key was given to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead import _json
from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind

PREFIX = "flk_"
#: What a key looks like.
SHAPE = re.compile(r"flk_([0-9A-Za-z]{12})_[0-9A-Za-z]{43}")

_ALPHABET = string.digits + string.ascii_letters
_ID_LENGTH, _SECRET_LENGTH = 12, 43
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MEMBERS = ("hash", "name", "user", "permissions", "created", "expires", "revoked")
_TIMES = ("created", "expires", "revoked")


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret. Times are in seconds since 1970."""

    id: str
    hash: str
    name: str
    #: The id of the user that calls with this key are made for.
    user: str
    permissions: tuple[str, ...] = ()
    created: float | None = None
    expires: float | None = None
    revoked: float | None = None

    def status(self, now: float) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def describe(self) -> dict[str, Any]:
        """What may be shown of it."""
        times = {name: None if (at := getattr(self, name)) is None else _written(at) for name in _TIMES}
        return {
            "id": self.id,
            "name": self.name,
            "user": self.user,
            "permissions": list(self.permissions),
            **times,
        }


Keys = dict[str, Key]


def digest(token: str) -> str:
    """The hash that is kept of a key."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def parse(data: bytes) -> Keys:
    """The keys of a file. Raises ValueError where it makes no sense; no part of it is guessed."""
    try:
        content = _json.loads(data)
    except ValueError as exc:
        raise ValueError("it is not JSON.") from exc
    if not isinstance(content, dict) or not isinstance(content.get("keys"), dict) or len(content) != 1:
        raise ValueError('it must be an object with the one member "keys", which holds the keys by id.')
    return {id: read_key(id, record) for id, record in content["keys"].items()}


def read_key(id: str, record: Any, hash: str | None = None) -> Key:
    """A key from its record. Raises ValueError; a misspelled `expires` must not make a key that never does."""
    where = f"key {id!r}"
    if not isinstance(record, Mapping):
        raise ValueError(f"{where} must be an object.")
    for member in record:
        if member not in _MEMBERS or (member == "hash" and hash is not None):
            raise ValueError(f"{where} has a member {member!r}.{near_miss(str(member), _MEMBERS)}")
    name = record.get("name")
    user = record.get("user", name)
    permissions = record.get("permissions", ())
    hash = record.get("hash") if hash is None else hash
    if not isinstance(name, str) or not name or not isinstance(user, str) or not user:
        raise ValueError(f"{where} must have a name, and its user must be the text of an id.")
    if isinstance(permissions, str) or not all(isinstance(item, str) and item for item in permissions):
        raise ValueError(f"the permissions of {where} must be a list of texts.")
    if not isinstance(hash, str) or not _HASH.fullmatch(hash):
        raise ValueError(f"the hash of {where} must be 'sha256:' and 64 hexadecimal digits.")
    times = {member: _instant(where, member, record.get(member)) for member in _TIMES}
    return Key(id, hash, name, user, tuple(permissions), **times)


class KeyFile:
    """The file of keys, for making and revoking them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def keys(self) -> Keys:
        """All keys, in the order they were made; none where the file does not exist yet."""
        try:
            return parse(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise Failure(
                Kind.misconfigured, f"The keys in {str(self.path)!r} cannot be read: {reason}"
            ) from exc

    def issue(
        self,
        name: str,
        *,
        now: float,
        user: str = "",
        permissions: tuple[str, ...] = (),
        expires: float | None = None,
    ) -> tuple[str, Key]:
        """Make a key: the text to give away, which is kept nowhere, and what is kept of it."""
        with self._locked():
            keys = self.keys()
            while (id := _random(_ID_LENGTH)) in keys:
                pass
            token = f"{PREFIX}{id}_{_random(_SECRET_LENGTH)}"
            keys[id] = Key(id, digest(token), name, user or name, permissions, now, expires)
            self._write(keys)
        return token, keys[id]

    def revoke(self, which: str, now: float) -> Key:
        """Revoke a key by its id, or by its name where only one key in use has it.

        Raises:
            Failure: no key is meant, or more than one.
        """
        with self._locked():
            keys = self.keys()
            key = _meant(keys, which, now)
            if key.revoked is None:
                key = keys[key.id] = replace(key, revoked=now)
                self._write(keys)
        return key

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Two programs that change the file at once do so one after the other."""
        try:
            import fcntl
        except ImportError:  # there is no such lock on Windows
            yield
            return
        try:
            folder = os.open(self._folder(), os.O_RDONLY)
        except OSError as exc:
            raise self._unwritable(exc) from exc
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _folder(self) -> Path:
        folder = self.path.absolute().parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise self._unwritable(exc) from exc
        return folder

    def _write(self, keys: Keys) -> None:
        """All of it or nothing, for the eyes of its owner only."""
        content = _json.encode({"keys": {key.id: _record(key) for key in keys.values()}}, indent=True)
        # A link to the file stays one.
        target = self.path.resolve()
        draft = target.with_name(f".{target.name}.{_random(8)}")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
        except OSError as exc:
            with contextlib.suppress(OSError):  # where nothing can be written, nothing can be removed either
                draft.unlink(missing_ok=True)
            raise self._unwritable(exc) from exc

    def _unwritable(self, exc: OSError) -> Failure:
        words = f"The keys cannot be written to {str(self.path)!r}: {exc.strerror}. Name another file."
        return Failure(Kind.misconfigured, words, cause=exc)


def _record(key: Key) -> dict[str, Any]:
    told = key.describe()
    del told["id"]
    return {"hash": key.hash, **{name: value for name, value in told.items() if value is not None}}


def _meant(keys: Keys, which: str, now: float) -> Key:
    whole = SHAPE.fullmatch(which)
    if (key := keys.get(whole[1] if whole else which)) is not None:
        return key
    named = [key for key in keys.values() if key.name == which]
    active = [key for key in named if key.status(now) == "active"]
    if len(active) > 1:
        raise Failure(
            Kind.conflict,
            f"{len(active)} keys have this name: {', '.join(key.id for key in active)}. Give an id.",
        )
    if named:
        return active[0] if active else named[-1]
    hint = "" if which.startswith(PREFIX) else near_miss(which, [key.name for key in keys.values()])
    raise Failure(Kind.not_found, f"No key has this id or name.{hint} 'fairlead keys list' lists them.")


def _instant(where: str, member: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{member!r} of {where} must be a time such as '2030-01-31T12:00:00Z'.")
    return moment.timestamp()


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
