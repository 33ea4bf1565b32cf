"""The store: the one database of a program, SQLite by default and PostgreSQL by URL. It knows rows, and no tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.store.idempotency import DurableIdempotency
    from fairlead.store.master import KeyInFile, KeyInKeyring, KeyInText
    from fairlead.store.migrations import migrate
    from fairlead.store.opening import data_folder, open_store
    from fairlead.store.rates import DurableRates
    from fairlead.store.secrets import Secrets
    from fairlead.store.statements import Statement, Statements, statements
    from fairlead.store.store import Bell, Store, Tx

__all__ = [
    "Bell",
    "DurableIdempotency",
    "DurableRates",
    "KeyInFile",
    "KeyInKeyring",
    "KeyInText",
    "Secrets",
    "Statement",
    "Statements",
    "Store",
    "Tx",
    "data_folder",
    "migrate",
    "open_store",
    "statements",
]

__getattr__ = on_demand(
    __name__,
    {
        "Bell": "store",
        "DurableIdempotency": "idempotency",
        "DurableRates": "rates",
        "KeyInFile": "master",
        "KeyInKeyring": "master",
        "KeyInText": "master",
        "Secrets": "secrets",
        "Statement": "statements",
        "Statements": "statements",
        "Store": "store",
        "Tx": "store",
        "data_folder": "opening",
        "migrate": "migrations",
        "open_store": "opening",
        "statements": "statements",
    },
)
