"""Secrets in the store: passwords and tokens, encrypted before they come near a disk.

    secrets = Secrets(open_store("shop"))
    await secrets.set("stripe", token)
    token = await secrets.get("stripe")

Each value is encrypted with AES-256-GCM under a data key, bound to its name; each data key is in the store encrypted
under the master key, which is kept elsewhere (see `master.py`). So what was sealed for others survives a rotation, and
a master key that was replaced opens nothing any more.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from fairlead.actions.policy import near_miss
from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.store.master import Key, Keys, MasterKey, master_key
from fairlead.store.statements import statements
from fairlead.store.store import Row, Store, Tx, Work

SQL: Final = statements(__file__, "secrets.sql")
T = TypeVar("T")

#: Bytes: a certificate with its chain, and room to spare.
LARGEST: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:/-]{0,198}[A-Za-z0-9])?")
_NONCE: Final = 12
_SEALED: Final = re.compile(r"sealed1\.([0-9a-f]{16})\.([A-Za-z0-9_-]+={0,2})")


class SecretName(NamedTuple):
    """What may be shown of a secret."""

    name: str
    updated: float

    def describe(self) -> dict[str, Any]:
        """The same as JSON."""
        moment = datetime.fromtimestamp(self.updated, UTC).isoformat(timespec="seconds")
        return {"name": self.name, "updated": moment.replace("+00:00", "Z")}


class Damaged(StoreFailure):
    """What was sealed cannot be opened by anybody: it is not as it was, or its store has no key for it."""


class Secrets:
    """The secrets of a store. `key` is where the master key is kept; by default as the settings say.

    The default is FAIRLEAD_SECRET_KEY, else a file beside the store's own, `NAME.secret.key`. One master key is for
    one store: a rotation would shut the others out.
    """

    def __init__(
        self, store: Store, key: MasterKey | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        _cipher(bytes(32))
        self._store = store
        self._master = default_key(store, os.environ) if key is None else key
        self._clock = clock
        #: Master keys and data keys by id, and the data key that is used now.
        self._masters: dict[str, Key] = {}
        self._keys: dict[str, Key] = {}
        self._current: Key | None = None
        self._lock = threading.Lock()

    async def get(self, name: str) -> str:
        """A secret's value.

        Raises:
            Failure: there is none of this name, it was tampered with, or the master key is another.
        """
        return await asyncio.to_thread(self.get_now, name)

    async def set(self, name: str, value: str) -> None:
        """Keep a secret, in the place of one of the same name."""
        await asyncio.to_thread(self.set_now, name, value)

    async def remove(self, name: str) -> None:
        """Forget a secret. Raises Failure when there is none of this name."""
        await asyncio.to_thread(self.remove_now, name)

    async def names(self) -> list[SecretName]:
        """All secrets by name, without their values."""
        return await self._store.read(_names)

    async def rotate(self) -> int:
        """Make a new master key and a new data key, and encrypt all secrets anew; gives how many."""
        return await asyncio.to_thread(self.rotate_now)

    def get_now(self, name: str) -> str:
        """`get` for code without an event loop."""

        def work(tx: Tx) -> str:
            found = tx.one(SQL.get, name=checked_name(name))
            if found is None:
                raise _unknown(name, tx)
            return self._value(name, found, self._opened(tx)).decode(errors="surrogatepass")

        return self._with_masters(work, write=False)

    def set_now(self, name: str, value: str) -> None:
        """`set` for code without an event loop."""
        checked_name(name)
        plain = value.encode(errors="surrogatepass")
        if not 0 < len(plain) <= LARGEST:
            raise Failure(
                Kind.invalid_input, f"A secret has from 1 to {LARGEST} bytes, and this one {len(plain)}."
            )

        def work(tx: Tx) -> None:
            sealed = _row(self._current_key(tx), plain, _about(name))
            tx.run(SQL.put, name=name, updated=self._clock(), **sealed)

        self._with_masters(work, write=True)

    def remove_now(self, name: str) -> None:
        """`remove` for code without an event loop."""

        def work(tx: Tx) -> None:
            if not tx.run(SQL.remove, name=checked_name(name)):
                raise _unknown(name, tx)

        self._store.write_now(work)

    def values_now(self) -> dict[str, str]:
        """All values by name, for those who see to it that none is shown. No key is asked for where there is none."""

        def work(tx: Tx) -> dict[str, str]:
            rows = tx.all(SQL.all)
            keys = self._opened(tx) if rows else []
            return {row[0]: self._value(row[0], row[1:], keys).decode(errors="surrogatepass") for row in rows}

        return self._with_masters(work, write=False) if self.names_now() else {}

    def names_now(self) -> list[SecretName]:
        """`names` for code without an event loop."""
        return self._store.read_now(_names)

    def rotate_now(self) -> int:
        """`rotate` for code without an event loop.

        The new master key is kept before anything is encrypted with it, and the old one until nothing is encrypted
        with it any more. So wherever this is cut short, all can be read, and a rotation can be begun again.
        """
        with self._master.locked():
            self._know(self._master.read() or [])
            # With a wrong key nothing is begun.
            self._with_masters(self._opened, write=False)
            new, old = self._master.begin()
            self._know([*new, *old])

            def work(tx: Tx) -> int:
                tx.one(SQL.lock)
                known = {key.id: key for key in self._opened(tx)}
                for key in known.values():
                    tx.run(SQL.wrap_key, id=key.id, **_wrapped(new[0], key))
                current = self._new_key(tx, new[0])
                rows = tx.all(SQL.all)
                for name, *row in rows:
                    plain = self._value(name, tuple(row), list(known.values()))
                    tx.run(SQL.again, name=name, **_row(current, plain, _about(name)))
                return len(rows)

            count = self._with_masters(work, write=True)
            self._master.end(old)
        self._load()
        return count

    @property
    def after_rotation(self) -> str:
        """What is left to do by hand, if anything."""
        return self._master.after_rotation

    def seal(self, plain: bytes, context: str) -> str:
        """Bytes as a text that can be kept anywhere. It opens with the same context only, such as a task's id.

        The first seal or open of a process asks the store: not from within a transaction.
        """
        key = self._current
        if key is None:
            key = self._with_masters(self._current_key, write=True)
            self._load()
        nonce, value = _encrypted(key, plain, _context(context))
        return f"sealed1.{key.id}.{base64.urlsafe_b64encode(nonce + value).decode()}"

    def open(self, sealed: str, context: str) -> bytes:
        """What was sealed, also before a rotation.

        Raises:
            Failure: it was changed, sealed in another context, or the key is not here.
        """
        shape = _SEALED.fullmatch(sealed)
        if shape is None:
            raise _shut("The sealed text")
        if shape[1] not in self._keys:
            self._load()
        try:
            mixed = base64.urlsafe_b64decode(shape[2])
        except binascii.Error:
            raise _shut("The sealed text") from None
        key = self._keys.get(shape[1])
        if key is None:
            words = (
                f"The sealed text is under key {shape[1]}, which the store {self._store.name} does not have."
            )
            raise Damaged(Kind.misconfigured, f"{words} Open it with the store that it was sealed with.")
        return _decrypted(key, mixed[:_NONCE], mixed[_NONCE:], _context(context), "The sealed text")

    def __repr__(self) -> str:
        return f"Secrets({self._store.name!r}, {self._master!r})"

    def _load(self) -> None:
        """Have all data keys at hand, for sealing and opening."""
        keys = self._with_masters(self._opened, write=False)
        with self._lock:
            self._keys = {key.id: key for key in keys}
            self._current = keys[0] if keys else None

    def _with_masters(self, work: Work[T], write: bool) -> T:
        """Do work that needs the master key; again if it was replaced since it was last read."""
        do = self._store.write_now if write else self._store.read_now
        if not self._masters:
            some = self._store.read_now(lambda tx: bool(tx.all(SQL.keys)))
            # Where there are secrets already, a key that is made now would not be theirs.
            self._know(self._master.read() or [] if some or not write else self._master.made())
        while True:
            try:
                return do(work)
            except _UnknownMaster as unknown:
                # Others may rotate one after another: as long as there is another key, it is tried.
                there = self._master.read() or []
                if {key.id for key in there} <= set(self._masters):
                    raise self._wrong(str(unknown)) from None
                self._know(there)

    def _know(self, masters: Keys) -> None:
        self._masters = {key.id: key for key in masters}

    def _wrong(self, needed: str) -> Failure:
        held = ", ".join(self._masters) or "none"
        return StoreFailure(
            Kind.misconfigured,
            f"The secrets in the store {self._store.name} are under the master key {needed}, and {self._master.name} "
            f"has {held}. Put the right key there; without it they cannot be read.",
        )

    def _opened(self, tx: Tx) -> list[Key]:
        """All data keys, the newest first."""
        keys = []
        for id, master, nonce, value in tx.all(SQL.keys):
            held = self._masters.get(master)
            if held is None:
                raise _UnknownMaster(master)
            what = f"The data key {id} in the store {self._store.name}"
            keys.append(Key(_decrypted(held, nonce, value, f"key\n{id}\n{master}", what)))
        return keys

    def _current_key(self, tx: Tx) -> Key:
        """The newest data key, or the first one. No rotation goes on meanwhile, which might miss it."""
        tx.one(SQL.lock)
        keys = self._opened(tx)
        return keys[0] if keys else self._new_key(tx)

    def _new_key(self, tx: Tx, master: Key | None = None) -> Key:
        key = Key()
        master = master or next(iter(self._masters.values()), None)
        if master is None:
            raise _UnknownMaster("none")
        tx.run(SQL.add_key, id=key.id, created=self._clock(), **_wrapped(master, key))
        return key

    def _value(self, name: str, row: Row, keys: list[Key]) -> bytes:
        id, nonce, value = row
        what = f"The secret {name!r} in the store {self._store.name}"
        key = next((key for key in keys if key.id == id), None)
        if key is None:
            raise _shut(what)
        return _decrypted(key, nonce, value, _about(name), what)


def default_key(store: Store, environ: Mapping[str, str]) -> MasterKey:
    """Where the settings say that a store's master key is, else a file beside the store's own."""
    file = getattr(store, "file", None)
    return master_key(
        environ, None if file is None else file.with_name(f"{file.stem}.secret.key"), store.name
    )


class _UnknownMaster(Exception):
    """A data key is under a master key that is not at hand; its id."""


def _names(tx: Tx) -> list[SecretName]:
    return [SecretName(*row) for row in tx.all(SQL.names)]


def checked_name(name: str) -> str:
    """The name, if a secret can have it. Raises Failure if not."""
    if not _NAME.fullmatch(name):
        words = "A secret's name has 1 to 200 letters, digits and _ . : / - and begins and ends with a letter or digit."
        raise Failure(Kind.invalid_input, words, field="name")
    return name


def _unknown(name: str, tx: Tx) -> Failure:
    hint = near_miss(name, [each.name for each in _names(tx)])
    return Failure(Kind.not_found, f"There is no secret {name!r}.{hint}")


def _about(name: str) -> str:
    return f"secret\n{name}"


def _context(context: str) -> str:
    return f"sealed\n{context}"


def _row(key: Key, plain: bytes, about: str) -> dict[str, Any]:
    nonce, value = _encrypted(key, plain, about)
    return {"key": key.id, "nonce": nonce, "value": value}


def _wrapped(master: Key, key: Key) -> dict[str, Any]:
    nonce, value = _encrypted(master, key.bytes, f"key\n{key.id}\n{master.id}")
    return {"master": master.id, "nonce": nonce, "value": value}


def _encrypted(key: Key, plain: bytes, about: str) -> tuple[bytes, bytes]:
    nonce = os.urandom(_NONCE)
    return nonce, _cipher(key.bytes).encrypt(nonce, plain, about.encode(errors="surrogatepass"))


def _decrypted(key: Key, nonce: bytes, value: bytes, about: str, what: str) -> bytes:
    """The plain bytes, if nothing was changed and they are about the same thing."""
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = _cipher(key.bytes).decrypt(nonce, value, about.encode(errors="surrogatepass"))
    except (InvalidTag, ValueError):
        raise _shut(what) from None
    return plain


def _shut(what: str) -> Failure:
    return Damaged(
        Kind.misconfigured,
        f"{what} cannot be opened: it was changed, damaged or put in another's place. Set it again.",
    )


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise Failure(Kind.misconfigured, "Secrets need a package: pip install 'fairlead[secrets]'") from None
    return AESGCM(key)
