"""The master key, which opens the secrets of a store, and where it is kept: a file, the system's keyring, or a text.

A place holds one key, and during a rotation the older one too, the newest first. It is never in the store.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.store.folders import alone_in

#: Where the master key is: `keyring`, `keyring:NAME`, `file:PATH`, or the key itself in base64.
VARIABLE: Final = "FAIRLEAD_SECRET_KEY"
LENGTH: Final = 32
_SERVICE: Final = "fairlead"
#: A file of keys is short; what is longer is none.
_MOST: Final = 4096


class Key:
    """32 random bytes. It does not show them."""

    __slots__ = ("bytes", "id")

    def __init__(self, value: bytes | None = None) -> None:
        self.bytes = secrets.token_bytes(LENGTH) if value is None else value
        if len(self.bytes) != LENGTH:
            raise ValueError(f"a key has {LENGTH} bytes")
        self.id = hashlib.sha256(b"fairlead key id:" + self.bytes).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Key({self.id})"

    def __reduce__(self) -> Any:
        raise TypeError("A key is not to be pickled.")


Keys = Sequence[Key]


class MasterKey(ABC):
    """A place for the master key."""

    #: The place, for people.
    name: str
    #: What somebody has to do once a new key is in use.
    after_rotation: str = ""

    @abstractmethod
    def read(self) -> Keys | None:
        """The keys there, the newest first; None where there is none yet.

        Raises:
            Failure: it cannot be read, is damaged, or can be read by others.
        """

    @abstractmethod
    def write(self, keys: Keys) -> None:
        """Put these keys in the place of those that are there, at once or not at all."""

    @abstractmethod
    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else on this machine changes the keys meanwhile."""

    def made(self) -> Keys:
        """The keys there; a new one where there is none."""
        with self.locked():
            keys = self.read()
            if keys is None:
                keys = [Key()]
                self.write(keys)
        return keys

    def begin(self) -> tuple[Keys, Keys]:
        """Put a new key before the old one; gives both. A rotation that was cut short is gone on with."""
        keys = self.read() or []
        if len(keys) < 2:
            keys = [Key(), *keys]
            self.write(keys)
        return keys[:1], keys[1:]

    def end(self, old: Keys) -> None:
        """Drop the old keys, which nothing needs any more."""
        gone = {key.id for key in old}
        self.write([key for key in self.read() or [] if key.id not in gone])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class KeyInFile(MasterKey):
    """A file that its owner alone can read, made when it is first needed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self.name = str(self.path)

    def read(self) -> Keys | None:
        try:
            # Not by a link, which others may have put there, nor waiting for one who writes to a pipe.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return None
        except OSError as exc:
            reason = "it is a link" if self.path.is_symlink() else exc.strerror
            raise self._refused(f"cannot be used: {reason}. Name the file itself.") from exc
        try:
            self._check(os.fstat(descriptor))
            content = os.read(descriptor, _MOST)
        finally:
            os.close(descriptor)
        try:
            return _parsed(content.decode())
        except ValueError:
            raise self._refused("is damaged. Put a copy of it back.") from None

    def _check(self, about: os.stat_result) -> None:
        if not stat.S_ISREG(about.st_mode):
            raise self._refused("is not a file.")
        if os.name != "posix":
            return
        if about.st_uid not in (os.geteuid(), 0):
            raise self._refused("belongs to another user. Take another file.")
        if about.st_mode & 0o077:
            found = f"{stat.S_IMODE(about.st_mode):04o}"
            raise self._refused(
                f"can be used by others (its mode is {found}). If nobody has read it: chmod 600 {self.name!r}. "
                "If somebody may have, rotate afterwards."
            )

    def write(self, keys: Keys) -> None:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_spelled(keys).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
            self._sync_folder()
        except OSError as exc:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise self._refused(f"cannot be written: {exc.strerror}.") from exc

    def _sync_folder(self) -> None:
        """The name is on disk, too, before anything is encrypted with the key."""
        if os.name != "posix":
            return
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as exc:
            raise self._refused(f"cannot be written: {exc.strerror}.") from exc
        with alone_in(self.path.parent):
            yield

    def _refused(self, why: str) -> Failure:
        return StoreFailure(Kind.misconfigured, f"The file of the secret key, {self.name!r}, {why}")


class KeyInKeyring(MasterKey):
    """An entry in the keyring of the user who runs the program."""

    def __init__(self, account: str) -> None:
        self.account = account
        self.name = f"keyring:{account}"

    def read(self) -> Keys | None:
        with self._told():
            text = _keyring().get_password(_SERVICE, self.account)
        try:
            return None if text is None else _parsed(text)
        except ValueError:
            words = (
                f"The secret key in the keyring, {self.account!r} of {_SERVICE!r}, is damaged. Put it back."
            )
            raise StoreFailure(Kind.misconfigured, words) from None

    def write(self, keys: Keys) -> None:
        with self._told():
            _keyring().set_password(_SERVICE, self.account, _spelled(keys))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with alone_in(Path.home()):
            yield

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Failure:
            raise
        except Exception as exc:
            words = f"The system's keyring cannot be used: {type(exc).__name__}."
            way_out = f"Unlock it, or keep the key in a file: {VARIABLE}=file:PATH"
            raise StoreFailure(Kind.misconfigured, f"{words} {way_out}", cause=exc) from exc


class KeyInText(MasterKey):
    """Keys that somebody else keeps, in base64 with commas between: for containers, by an environment variable."""

    after_rotation = f"Now take the old key out of {VARIABLE}, wherever it is set."

    def __init__(self, text: str) -> None:
        self.name = VARIABLE
        try:
            self._keys = [Key(_decoded(part.strip())) for part in text.split(",")]
        except ValueError:
            raise StoreFailure(
                Kind.misconfigured,
                f"{VARIABLE} is not understood. Expected keyring, file:PATH, or {LENGTH} random bytes in base64, "
                f"as `openssl rand -base64 {LENGTH}` gives.",
            ) from None

    def read(self) -> Keys | None:
        return self._keys

    def write(self, keys: Keys) -> None:
        raise NotImplementedError  # nothing here changes them: see begin and end

    def begin(self) -> tuple[Keys, Keys]:
        if len(self._keys) < 2:
            raise StoreFailure(
                Kind.misconfigured,
                f"The key in {VARIABLE} can only be changed where it is set. Put a new key and a comma before it "
                "(NEW,OLD), rotate, and then take the old one away.",
            )
        return self._keys[:1], self._keys[1:]

    def end(self, old: Keys) -> None:
        """Whoever set it takes the old keys away."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        yield


def master_key(environ: Mapping[str, str], file: Path | None, account: str) -> MasterKey:
    """The place that the settings name, else the file.

    Raises:
        Failure: what they name makes no sense, or they name none and there is no file.
    """
    named = environ.get(VARIABLE, "").strip()
    kind, _, rest = named.partition(":")
    if kind == "keyring":
        return KeyInKeyring(rest or account)
    if kind == "file" and rest:
        return KeyInFile(os.path.expanduser(rest))
    if named:
        return KeyInText(named)
    if file is None:
        raise StoreFailure(
            Kind.misconfigured,
            f"Where the secret key is kept must be said for a database that others share: set {VARIABLE} to "
            "keyring, file:PATH or the key in base64, the same for all.",
        )
    return KeyInFile(file)


def _spelled(keys: Keys) -> str:
    """A line for each, with its id, by which damage is seen."""
    return "".join(f"{key.id} {base64.b64encode(key.bytes).decode()}\n" for key in keys)


def _parsed(text: str) -> Keys:
    keys = []
    for line in text.splitlines(keepends=True):
        id, _, value = line.partition(" ")
        key = Key(_decoded(value.rstrip("\n")))
        if key.id != id or not line.endswith("\n"):
            raise ValueError("damaged")
        keys.append(key)
    if not keys:
        raise ValueError("empty")
    return keys


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as exc:
        raise ValueError("no base64") from exc


def _keyring() -> Any:
    try:
        import keyring
    except ImportError:
        raise StoreFailure(
            Kind.misconfigured,
            "The system's keyring needs a package: pip install keyring. "
            f"Or keep the key in a file: {VARIABLE}=file:PATH",
        ) from None
    return keyring
