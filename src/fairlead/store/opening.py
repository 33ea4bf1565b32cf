"""`open_store`: which database a program uses, from its settings. Nothing else reads them."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from fairlead.failures import Kind, StoreFailure
from fairlead.store.store import Store

#: The address of the database; without it, a file in the data folder is used.
DATABASE_URL: Final = "FAIRLEAD_DATABASE_URL"
#: The folder for everything a program keeps.
DATA: Final = "FAIRLEAD_DATA"

_EXPECTED: Final = "Expected postgresql://user@host/database or sqlite:///path/to/file.db"


def open_store(
    app_name: str = "",
    *,
    url: str | None = None,
    data: str | os.PathLike[str] | None = None,
    migrate: bool = True,
) -> Store:
    """Open the database that the settings name, and bring its tables up to date.

    `url`, else FAIRLEAD_DATABASE_URL, else a SQLite file named after the app in `data`, else FAIRLEAD_DATA, else
    the platform's folder for data.

    Raises:
        Failure: the address is wrong, the database cannot be reached or written, or its tables are newer.
    """
    if app_name.startswith(("sqlite://", "postgres://", "postgresql://")):
        words = (
            "The app's name is the address of a database. Give it as url=..., or in FAIRLEAD_DATABASE_URL."
        )
        raise StoreFailure(Kind.misconfigured, words)
    return open_at(place_of(app_name, url=url, data=data), migrate=migrate)


def open_at(place: Path | str, *, migrate: bool = True) -> Store:
    """Open the database at a path, or at the address of a PostgreSQL database."""
    store = _file(place) if isinstance(place, Path) else _server(place)
    if migrate:
        from fairlead.store.migrations import migrate as up_to_date

        try:
            up_to_date(store, time.time())
        except BaseException:
            store.close()
            raise
    return store


def place_of(
    app_name: str = "", *, url: str | None = None, data: str | os.PathLike[str] | None = None
) -> Path | str:
    """Which database that is: a file's path, or the address of a PostgreSQL database.

    Raises:
        Failure: the address is wrong.
    """
    address = url or os.environ.get(DATABASE_URL, "").strip()
    return _at(address) if address else data_folder(data) / f"{slug(app_name)}.db"


def data_folder(given: str | os.PathLike[str] | None = None) -> Path:
    """Where a program keeps its data: as given, else FAIRLEAD_DATA, else by the platform's convention."""
    named = os.fspath(given) if given else os.environ.get(DATA, "").strip()
    return Path(os.path.abspath(os.path.expanduser(named))) if named else _platform_folder()


def slug(name: str) -> str:
    """A name as a file may be called: `My App` is `my-app`."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")[:60] or "fairlead"


def _platform_folder() -> Path:
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fairlead"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "fairlead"
    shared = os.environ.get("XDG_DATA_HOME", "")
    # The convention says that a relative path there is to be ignored.
    return (Path(shared) if os.path.isabs(shared) else home / ".local" / "share") / "fairlead"


def _file(path: Path) -> Store:
    from fairlead.store.sqlite import SqliteStore

    return SqliteStore(path)


def _server(url: str) -> Store:
    from fairlead.store.postgres import PostgresStore

    return PostgresStore(url)


def _at(url: str) -> Path | str:
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise StoreFailure(
            Kind.misconfigured, f"The database's URL cannot be read: {exc}. {_EXPECTED}."
        ) from None
    if parts.scheme == "sqlite":
        return _path(parts)
    if parts.scheme in ("postgres", "postgresql"):
        return url
    # The rest of the URL may hold a password, so it is not shown.
    found = f"it begins with {parts.scheme!r}" if parts.scheme and "://" in url else "it has no scheme"
    raise StoreFailure(
        Kind.misconfigured, f"The database's URL is not one of a known database: {found}. {_EXPECTED}."
    )


def _path(parts: SplitResult) -> Path:
    """As SQLAlchemy and others read it: three slashes begin a relative path, four an absolute one."""
    named = unquote(parts.path[1:])
    if parts.netloc or parts.query or parts.fragment or not named or named == ":memory:":
        words = "A SQLite URL names a file and nothing else: sqlite:///relative/file.db or sqlite:////absolute/file.db."
        raise StoreFailure(Kind.misconfigured, words)
    return Path(os.path.abspath(os.path.expanduser(named)))
