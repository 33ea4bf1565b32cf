"""`Keys`: the keys that programs call agents with. A key is shown once, when it is made; its hash is kept.

    token, key = await Keys(app.store).issue("ci", owner="ann", per_minute=600)

An `oag_` key is its owner's. A `bak_` key is an agent's: it is for A2A and MCP with that one, and for nothing else.

How a key is recognised is `callers.py`; it forgets at once what changes here, in every process.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fairlead._json import dumps, loads
from fairlead.failures import Failure, Kind
from fairlead.gateway.callers import KEYS, OF_AGENT
from fairlead.store.statements import statements
from fairlead.store.store import Row, Store, Tx, writable

SQL: Final = statements(__file__, "keys.sql")
#: What a key may do that is about other keys, and about what others do.
ADMIN: Final = "admin"
LONGEST_NAME: Final = 200
#: Requests in a minute that can be said of a key.
MOST_PER_MINUTE: Final = 1_000_000
MOST_LISTED: Final = 10_000
#: Keys of one agent's own that may be good at once.
MOST_OF_AGENT: Final = 3
_SHOWN: Final = 12


class ApiKey(NamedTuple):
    """What is known of a key."""

    id: str
    prefix: str
    name: str
    owner: str
    per_minute: int | None
    #: The agents it is for; None for all that its owner may use.
    agents: tuple[str, ...] | None
    permissions: tuple[str, ...]
    created: float
    expires: float | None
    revoked: float | None
    used: float | None

    def status(self, now: float) -> str:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"

    def to_dict(self, now: float) -> dict[str, Any]:
        """The key as JSON, without anything that opens a door."""
        return {
            "id": self.id,
            "name": self.name,
            "key_prefix": self.prefix,
            "owner": self.owner,
            "rate_limit_per_minute": self.per_minute,
            "agents": None if self.agents is None else list(self.agents),
            "permissions": list(self.permissions),
            "status": self.status(now),
            "created_at": _instant(self.created),
            "expires_at": _instant(self.expires),
            "revoked_at": _instant(self.revoked),
            "last_used_at": _instant(self.used),
        }


#: So that a method may be called `list`.
_Listed = list[ApiKey]


class Keys:
    """The keys of a store."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def issue(self, name: str, **about: Any) -> tuple[str, ApiKey]:
        """`issue_now`, elsewhere than on the event loop."""
        return await asyncio.to_thread(self.issue_now, name, **about)

    async def list(self, owner: str | None = None) -> _Listed:
        """All keys, or an owner's, in the order they were made."""
        return await self._store.read(lambda tx: _listed(tx, owner))

    async def revoke(self, id: str, owner: str | None = None) -> ApiKey:
        """Stop accepting a key, in all processes at once; a second time it changes nothing.

        Raises:
            Failure: there is no such key, or none of this owner.
        """
        return await self._store.write(lambda tx: self._revoked(tx, id, owner))

    def issue_now(
        self,
        name: str,
        *,
        owner: str,
        per_minute: int | None = None,
        expires: float | None = None,
        agents: Iterable[str] | None = None,
        permissions: Iterable[str] = (),
        of_agent: bool = False,
    ) -> tuple[str, ApiKey]:
        """A new key, and what is known of it. `of_agent` makes it the key of the one agent that it is for.

        Raises:
            Failure: something said of it cannot be; its agent has as many keys as it may have.
        """
        now = self._clock()
        token = f"{OF_AGENT if of_agent else 'oag_'}{secrets.token_hex(32)}"
        key = ApiKey(
            str(uuid.uuid4()),
            token[:_SHOWN],
            _text("name", name),
            _text("owner", owner),
            _rate(per_minute),
            None if agents is None else tuple(dict.fromkeys(_text("agents", each) for each in agents)),
            tuple(dict.fromkeys(_text("permissions", each) for each in permissions)),
            now,
            expires,
            None,
            None,
        )
        if expires is not None and expires <= now:
            raise Failure(Kind.invalid_input, "A key ends at a time to come.", field="expires_at")
        if key.agents == ():
            raise Failure(Kind.invalid_input, "A key for no agent opens nothing. Name one.", field="agents")
        if of_agent and (len(key.agents or ()) != 1 or key.permissions):
            words = "A key of an agent is for that one, and has no permissions. Name one agent."
            raise Failure(Kind.invalid_input, words, field="agents")
        row = {
            "hash": hashlib.sha256(token.encode()).hexdigest(),
            "agents": None if key.agents is None else dumps(list(key.agents)),
            "permissions": dumps(list(key.permissions)),
        }
        fields = ("id", "prefix", "name", "owner", "per_minute", "created", "expires")
        row |= {field: getattr(key, field) for field in fields}

        def work(tx: Tx) -> None:
            if of_agent:
                found = [_read(each) for each in tx.all(SQL.of_agent, agents=row["agents"])]
                if sum(each.status(now) == "active" for each in found) >= MOST_OF_AGENT:
                    words = f"An agent has at most {MOST_OF_AGENT} keys of its own. Revoke one first."
                    raise Failure(Kind.conflict, words)
            tx.run(SQL.add, **row)

        self._store.write_now(work)
        return token, key

    def list_now(self, owner: str | None = None) -> _Listed:
        """`list` for code without an event loop."""
        return self._store.read_now(lambda tx: _listed(tx, owner))

    def revoke_now(self, word: str) -> ApiKey:
        """Stop accepting a key, by its id, its name, its first characters or the key itself.

        Raises:
            Failure: there is no such key, or several.
        """
        hashed = hashlib.sha256(word.encode(errors="replace")).hexdigest()

        def work(tx: Tx) -> ApiKey:
            found = [_read(row) for row in tx.all(SQL.by_word, word=writable(word), hash=hashed)]
            active = [each for each in found if each.revoked is None]
            if len(active) > 1:
                ids = ", ".join(each.id for each in active)
                raise Failure(Kind.conflict, f"More than one key is meant. Say which, by its id: {ids}.")
            if not found:
                raise _unknown()
            return self._revoked(tx, (active or found)[-1].id, None)

        return self._store.write_now(work)

    def any_now(self) -> bool:
        """Whether there is a key that opens something."""
        now = self._clock()
        return self._store.read_now(lambda tx: tx.one(SQL.any, now=now)) is not None

    def _revoked(self, tx: Tx, id: str, owner: str | None) -> ApiKey:
        row = tx.one(SQL.by_id, id=writable(id))
        if row is None or (owner is not None and row[3] != owner):
            raise _unknown()
        if tx.run(SQL.revoke, id=id, now=self._clock()):
            tx.tell(KEYS)
            row = tx.one(SQL.by_id, id=id)
            assert row is not None
        return _read(row)


def is_admin(permissions: Iterable[str]) -> bool:
    """Whether these permissions reach what is others'."""
    return not {ADMIN, "*"}.isdisjoint(permissions)


def moment(text: Any, field: str = "expires_at") -> float:
    """The time that RFC 3339 words stand for. Raises Failure."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        words = f"{field} must be a time such as 2030-01-31T12:00:00Z."
        raise Failure(Kind.invalid_input, words, field=field) from None


def _listed(tx: Tx, owner: str | None) -> list[ApiKey]:
    if owner is None:
        return [_read(row) for row in tx.all(SQL.all, most=MOST_LISTED)]
    return [_read(row) for row in tx.all(SQL.of_owner, owner=writable(owner), most=MOST_LISTED)]


def _read(row: Row) -> ApiKey:
    key = ApiKey(*row)
    agents = None if key.agents is None else tuple(loads(row[5]))
    return key._replace(agents=agents, permissions=tuple(loads(row[6])))


def _text(field: str, value: Any) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LONGEST_NAME
        or not value.isprintable()
        or value != writable(value)
    ):
        words = f"{field} takes texts of 1 to {LONGEST_NAME} characters that can be seen."
        raise Failure(Kind.invalid_input, words, field=field)
    return value.strip()


def _rate(value: Any) -> int | None:
    if value is None or (type(value) is int and 0 < value <= MOST_PER_MINUTE):
        return value
    words = f"rate_limit_per_minute must be a whole number from 1 to {MOST_PER_MINUTE}."
    raise Failure(Kind.invalid_input, words, field="rate_limit_per_minute")


def _instant(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unknown() -> Failure:
    return Failure(Kind.not_found, "There is no such key.")
