"""Named SQL: a room writes its statements in a `.sql` file beside its code and uses them by name.

    -- take
    SELECT ... WHERE id = :id

    -- take (postgres)
    SELECT ... WHERE id = :id FOR UPDATE

A statement without a database in brackets serves both. Parameters are `:name` in both.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_TITLE = re.compile(r"^-- (\w+)(?: \((sqlite|postgres)\))?$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


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

    def returning(self, columns: str) -> Statement:
        """The same, giving columns of the rows it touches."""
        more = f" RETURNING {columns}"
        return self._replace(sqlite=self.sqlite + more, postgres=self.postgres + more.encode())


class Statements:
    """The statements of one file, each as an attribute."""

    def __init__(self, file: Path) -> None:
        pieces = _TITLE.split(file.read_text())[1:]
        found: dict[str, dict[str, str]] = {}
        for name, database, sql in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            found.setdefault(name, {})[database or "both"] = sql.strip().rstrip(";")
        self._all = {}
        for name, forms in found.items():
            both = forms.get("both", "")
            self._all[name] = Statement.of(forms.get("sqlite", both), forms.get("postgres", both), name)

    def __getattr__(self, name: str) -> Statement:
        try:
            return self._all[name]
        except KeyError:
            raise AttributeError(f"No statement is named {name!r}.") from None


def statements(beside: str, name: str = "statements.sql") -> Statements:
    """The statements of the file beside a module: `SQL = statements(__file__)`."""
    return Statements(Path(beside).with_name(name))
