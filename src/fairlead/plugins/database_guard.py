"""What a plugin's SQL may do: an authorizer that SQLite asks about each thing a statement would do.

It sees what SQLite has understood, not how it was spelled: comments, letter case and string literals mean nothing
here. The names of actions are SQLite's own numbers, which are part of its file format's promise and never change.
"""

from __future__ import annotations

from typing import Final

ALLOWED: Final = 0
DENIED: Final = 1

_PRAGMA: Final = 19
_READ: Final = 20
_ATTACH: Final = 24
_DETACH: Final = 25
_CREATE_VTABLE: Final = 29
_FUNCTION: Final = 31

#: Pragmas that tell something or keep a number for the plugin, with or without a value.
_FREE: Final = """
    application_id case_sensitive_like collation_list compile_options data_version defer_foreign_keys
    foreign_key_check foreign_key_list foreign_keys function_list incremental_vacuum index_info index_list
    index_xinfo integrity_check module_list optimize pragma_list quick_check recursive_triggers table_info
    table_list table_xinfo user_version wal_checkpoint
"""
#: Pragmas that may be asked and not set.
_ASKED: Final = """
    auto_vacuum busy_timeout cache_size encoding freelist_count journal_mode max_page_count page_count page_size
    schema_version synchronous temp_store
"""
_PRAGMAS: Final = frozenset(_FREE.split())
_READABLE: Final = frozenset(_ASKED.split())
_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "sqlcipher_export"})
_MODULES: Final = frozenset({"fts3", "fts4", "fts4aux", "fts5", "fts5vocab", "rtree", "rtree_i32"})
_TABLES: Final = frozenset({"sqlite_dbpage", "sqlite_memory", "fsdir", "csv", "zipfile"})


class Authorizer:
    """Answers SQLite, and remembers what it refused."""

    def __init__(self) -> None:
        self.refused: str | None = None
        #: Set while the host runs a statement of its own.
        self.off = False

    def __call__(
        self, action: int, first: str | None, second: str | None, schema: str | None, source: str | None
    ) -> int:
        if self.off:
            return ALLOWED
        why = refusal(action, (first or "").lower(), second)
        if why is None:
            return ALLOWED
        self.refused = why
        return DENIED


def refusal(action: int, first: str, second: str | None) -> str | None:
    """Why a plugin may not do something; None if it may."""
    if action in (_ATTACH, _DETACH):
        return "a plugin has one database, and other files cannot be attached, detached or written"
    if action == _FUNCTION and (name := (second or "").lower()) in _FUNCTIONS:
        return f"the function {name} is not for plugins"
    if action == _CREATE_VTABLE and (name := (second or "").lower()) not in _MODULES:
        return f"virtual tables of the module {name!r} are not for plugins"
    if action == _READ and first in _TABLES:
        return f"the table {first} is not for plugins"
    if action == _PRAGMA and first not in _PRAGMAS:
        if first not in _READABLE:
            return f"PRAGMA {first} is not for plugins"
        if second is not None:
            return f"PRAGMA {first} can be asked, and only the host sets it"
    return None
