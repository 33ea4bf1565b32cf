"""Named SQL: a room writes its statements in a `.sql` file beside its code and uses them by name.

    -- take
    SELECT ... WHERE id = :id

    -- take (postgres)
    SELECT ... WHERE id = :id FOR UPDATE

A statement without a database in brackets serves both. Parameters are `:name` in both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_TITLE = re.compile(r"^-- (\w+)(?: \((sqlite|postgres)\))?$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
#: The one row that a statement enters.
_ROW = re.compile(r"(?<=VALUES )\([^()]*\)")


class Statement(NamedTuple):
    """One statement, as each database takes it: SQLite by names, PostgreSQL by numbers in the order of `values`."""

    name: str
    sqlite: str
    postgres: bytes
    values: tuple[str, ...]

    @classmethod
    def of(cls, sql: str, postgres: str | None = None, name: str = "") -> Statement:
        order: dict[str, str] = {}

        def number(found: re.Match[str]) -> str:
            return order.setdefault(found[1], f"${len(order) + 1}")

        numbered = _PARAMETER.sub(number, sql if postgres is None else postgres)
        return cls(name, sql, numbered.encode(), tuple(order))

    def for_rows(self, count: int) -> str:
        """What enters one row, for so many of them, as SQLite takes it: by `values`, row after row."""
        return _for_rows(self.sqlite, count)


@lru_cache(maxsize=256)
def _for_rows(sql: str, count: int) -> str:
    return _ROW.sub(lambda found: ", ".join([_PARAMETER.sub("?", found[0])] * count), sql)


class Statements:
    """The statements of one file, each as an attribute."""

    def __init__(self, file: Path) -> None:
        pieces = _TITLE.split(file.read_text())[1:]
        found: dict[str, dict[str, str]] = {}
        for name, database, sql in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            found.setdefault(name, {})[database or "both"] = sql.strip().rstrip(";")
        for name, forms in found.items():
            both = forms.get("both", "")
            # Attributes of its own are found at once; they are asked for with every call.
            vars(self)[name] = Statement.of(forms.get("sqlite", both), forms.get("postgres", both), name)

    def __getattr__(self, name: str) -> Statement:
        raise AttributeError(f"No statement is named {name!r}.")


def statements(beside: str, name: str = "statements.sql") -> Statements:
    """The statements of the file beside a module: `SQL = statements(__file__)`."""
    return Statements(Path(beside).with_name(name))
