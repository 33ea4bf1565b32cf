"""What PostgreSQL's errors mean: known by SQLSTATE, told as a failure that says what to do."""

from __future__ import annotations

import re
from typing import Final

from fairlead.failures import Failure, Kind, StoreFailure
from fairlead.failures.typed import command

#: By SQLSTATE, or its class of two letters: kind, what happened, what to do. A command in braces is spelled as one
#: types it in this program.
_WORDS: Final[dict[str, tuple[Kind, str, str]]] = {
    "22": (Kind.invalid_input, "cannot keep a value", "Correct the value."),
    "23": (Kind.conflict, "holds something that rules this out", "Look at what is there."),
    "25006": (Kind.misconfigured, "is read-only", "Name the primary server in FAIRLEAD_DATABASE_URL."),
    "28": (
        Kind.misconfigured,
        "refuses the user",
        "Check the user and the password in FAIRLEAD_DATABASE_URL.",
    ),
    "3D000": (
        Kind.misconfigured,
        "is not there",
        "Make the database (createdb), or correct FAIRLEAD_DATABASE_URL.",
    ),
    "40": (Kind.unavailable, "is busy with others that want the same rows", "Try again."),
    "42501": (
        Kind.misconfigured,
        "does not allow this user to",
        "Grant the user CREATE and USAGE on the schema.",
    ),
    "42P01": (Kind.misconfigured, "lacks a table", "Bring it up to date: {store migrate}"),
    "53100": (Kind.unavailable, "has no room on its disk. Nothing was changed", "Make room and try again."),
    "53300": (
        Kind.unavailable,
        "has as many connections as it allows",
        "Raise max_connections, or run fewer processes.",
    ),
    "53": (Kind.unavailable, "has run out of something", "Try again later."),
    "55P03": (Kind.unavailable, "is locked: another process has been changing the same rows", "Try again."),
    "57014": (Kind.unavailable, "was told to stop, or took longer than it may", "Try again."),
    "58": (Kind.unavailable, "has a disk that fails", "Look at the server's log."),
    "XX001": (Kind.misconfigured, "is damaged", "Restore a backup: {store restore FILE --force}"),
    "XX002": (Kind.misconfigured, "has a damaged index", "Run REINDEX, or restore a backup."),
}
#: libpq gives no SQLSTATE for a connection that was refused, only the server's words. The first that fits counts.
_SAID: Final = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "authentication failed": "28000",
    "pg_hba.conf": "28000",
    "too many clients": "53300",
    "too many connections": "53300",
    "connection slots": "53300",
    "starting up": "57P03",
    "shutting down": "57P03",
    "in recovery mode": "57P03",
    "not yet accepting connections": "57P03",
    'role "': "28000",
}


def statement_failure(state: str, error: Exception, name: str) -> Failure:
    """What a statement's error means."""
    found = _WORDS.get(state) or _WORDS.get(state[:2])
    if found is None:
        return StoreFailure(
            Kind.internal, f"The store {name} failed: {error} (SQLSTATE {state})", cause=error
        )
    kind, happened, way_out = found
    way_out = re.sub(r"\{(.+)\}", lambda found: command(found[1]), way_out)
    again = 1 if kind is Kind.unavailable else None
    return StoreFailure(
        kind, f"The store {name} {happened}: {_plain(error)}. {way_out}", cause=error, retry_after=again
    )


def connection_failure(error: Exception, name: str) -> Failure:
    """What it means that a connection was refused; one that is `unavailable` may be granted later."""
    state = _state(error)
    if state and not state.startswith("57P"):
        return statement_failure(state, error, name)
    words = f"The store {name} cannot be reached: {_plain(error)}. Check that PostgreSQL runs there."
    return StoreFailure(Kind.unavailable, words, cause=error, retry_after=1)


def is_starting(error: Exception) -> bool:
    """Whether the server is there, and only not ready yet."""
    return _state(error) == "57P03"


def _state(error: Exception) -> str:
    said = _plain(error)
    if "database" in said and "does not exist" in said:
        return "3D000"
    return getattr(error, "sqlstate", None) or next((_SAID[words] for words in _SAID if words in said), "")


def _plain(error: Exception) -> str:
    """The last line says most: those before it are the addresses that were tried."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # libpq ends with a question of its own; our way out follows.
    told = [line for line in lines if not line.endswith("?")] or lines
    fatal = [line for line in told if "FATAL" in line] or told
    return (fatal[-1] if fatal else type(error).__name__).rstrip(".")
