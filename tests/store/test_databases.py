"""The databases that tests use one after the other: none has anything of the test before."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from databases import Databases
from servers import Postgres

KEY = "INSERT INTO api_keys (id, hash, prefix, name, owner, permissions, created) VALUES ('1', '', '', '', '', '[]', 0)"


def used(postgres: Postgres, databases: Databases, statement: str) -> str:
    """Do something in a database, and give it back."""
    name = databases.with_tables()
    with closing(psycopg.connect(postgres.url(name), autocommit=True)) as connection:
        connection.execute(statement.replace("HERE", name).encode())
    databases.take_back(name)
    return name


def test_one_with_rows_comes_again_without_them(postgres: Postgres, databases: Databases) -> None:
    first = used(postgres, databases, KEY)
    assert used(postgres, databases, KEY) == first


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE api_keys ADD COLUMN more TEXT",
        "CREATE INDEX more ON api_keys (name)",
        "DROP TABLE api_keys",
        "DELETE FROM migrations",
        "GRANT SELECT ON api_keys TO PUBLIC",
        "ALTER DATABASE HERE SET default_transaction_read_only = on",
    ],
)
def test_one_that_was_changed_does_not_come_again(
    postgres: Postgres, databases: Databases, change: str
) -> None:
    changed = used(postgres, databases, change)
    assert used(postgres, databases, "SELECT 1") != changed


def test_one_that_somebody_still_uses_does_not_come_again(postgres: Postgres, databases: Databases) -> None:
    name = databases.with_tables()
    with closing(psycopg.connect(postgres.url(name))):
        databases.take_back(name)
        assert used(postgres, databases, "SELECT 1") != name
