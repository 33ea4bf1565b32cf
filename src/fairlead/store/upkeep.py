"""Looking after a store: what is in it, a backup of it, and a backup put back.

A backup is one SQLite file, of an embedded store and of a PostgreSQL database alike.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Final, NamedTuple

from fairlead.failures import Failure, Kind
from fairlead.store.migrations import migrate, migrations, version
from fairlead.store.moving import Moved, Progress, copy, counts
from fairlead.store.opening import open_at
from fairlead.store.sqlite import SqliteStore, connect, told
from fairlead.store.statements import Statement
from fairlead.store.store import Store, Tx

#: Pages of a file that are copied at a time.
_PAGES: Final = 1000
_SIZE: Final = Statement.of(
    "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
    "WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace",
)


class Status(NamedTuple):
    """What is in a store."""

    kind: str
    name: str
    #: In bytes.
    size: int
    #: The number of the newest migration that was applied, and the names of those that were not.
    version: int
    pending: list[str]
    #: Rows by table; empty while migrations are pending.
    rows: dict[str, int]

    def describe(self) -> dict[str, Any]:
        return self._asdict()


def status(store: Store) -> Status:
    """Look at a store, whatever its version."""

    def look(tx: Tx) -> Status:
        done = version(tx)
        known = migrations()
        pending = [each.label for each in known if each.number > done]
        rows = counts(tx) if done == known[-1].number else {}
        return Status(store.kind, store.name, int(tx.all(_SIZE)[0][0]), done, pending, rows)

    return store.read_now(look)


def backup(store: Store, file: Path, progress: Progress = lambda *_: None, *, replace: bool = False) -> Moved:
    """Write all that the store holds to a file. The file is whole or is not there.

    Raises:
        Failure: there is something of that name, or it cannot be written.
    """
    # A folder, or a device: that is not replaced, whoever asks for it.
    if os.path.exists(file) and not os.path.isfile(file):
        raise Failure(Kind.invalid_input, f"{str(file)!r} is there and is no file. Choose another name.")
    if os.path.lexists(file) and not replace:
        raise Failure(Kind.conflict, f"{str(file)!r} is there already. Choose another name, or add --force.")
    if isinstance(store, SqliteStore) and os.path.exists(file) and os.path.samefile(file, store.file):
        raise Failure(Kind.invalid_input, f"{str(file)!r} is the store itself. Choose another name.")
    with _beside(file) as made:
        if isinstance(store, SqliteStore):
            _copy_pages(store.file, made, progress, store.patience)
        else:
            with _opened(made) as target:
                migrate(target, time.time())
                copy(store, target, progress)
        with _opened(made) as target:
            moved = Moved(target.read_now(counts))
        _as_one_file(made)
        _placed(made, file)
    return moved


def restore(
    file: Path, target: Store | Path | str, progress: Progress = lambda *_: None, *, replace: bool = False
) -> Moved:
    """Put a backup back into a store that is open, or at a path or an address, which is empty or is to be replaced.

    Programs that have the store open go on with what is restored. A file that is damaged is set aside.

    Raises:
        Failure: the backup cannot be read, is of a newer Fairlead, or the store holds something.
    """
    with _beside(_near(target)) as copied:
        _check(file)
        # By the database and not as a file: what was written last may stand beside it, in its log.
        try:
            with (
                contextlib.closing(_read_only(file)) as given,
                contextlib.closing(sqlite3.connect(copied)) as made,
            ):
                given.backup(made)
        except sqlite3.Error as exc:
            raise told(exc, str(copied)) from exc
        with _opened(copied) as source:
            migrate(source, time.time())
            with _sound(target, replace) as store:
                way_out = "Add --force to replace them, or choose an empty one."
                return copy(source, store, progress, replace=replace, way_out=way_out)


@contextlib.contextmanager
def _sound(target: Store | Path | str, replace: bool) -> Iterator[Store]:
    """The store to restore into; what is damaged there is moved out of the way, if it is to be replaced."""
    if isinstance(target, Path) and replace and target.exists() and not _is_sound(target):
        aside = target.with_name(f"{target.name}.damaged-{int(time.time())}")
        for ending in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{target}{ending}", f"{aside}{ending}")
    if isinstance(target, Store):
        yield target
        return
    with open_at(target) as store:
        yield store


def _check(file: Path) -> None:
    try:
        if not file.is_file():
            raise Failure(Kind.not_found, f"There is no file {str(file)!r} to restore.")
        with file.open("rb") as opened:
            magic = opened.read(16)
    except OSError as exc:
        words = f"{str(file)!r} cannot be read: {exc.strerror}. Look at its permissions, or choose another."
        raise Failure(Kind.misconfigured, words, cause=exc) from exc
    if magic != b"SQLite format 3\x00" or not _is_sound(file):
        words = f"{str(file)!r} is no backup, or is damaged. Nothing was changed; choose another."
        raise Failure(Kind.invalid_input, words)
    with contextlib.closing(_read_only(file)) as connection:
        try:
            (newest,) = connection.execute("SELECT max(number) FROM migrations").fetchone()
        except sqlite3.Error:
            raise Failure(
                Kind.invalid_input, f"{str(file)!r} is a database, but no backup of a store."
            ) from None
    known = migrations()[-1].number
    if newest is not None and newest > known:
        words = f"{str(file)!r} has tables of version {newest}; this Fairlead knows {known}. Nothing was changed. "
        raise Failure(
            Kind.misconfigured, f"{words}Restore it with the Fairlead that wrote it, or update this one."
        )


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)


def _is_sound(file: Path) -> bool:
    try:
        with contextlib.closing(_read_only(file)) as connection:
            return bool(connection.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok")
    except sqlite3.OperationalError as exc:
        raise told(exc, str(file)) from exc
    except sqlite3.DatabaseError:
        return False


def _copy_pages(file: Path, target: Path, progress: Progress, patience: float) -> None:
    def tell(status: int, remaining: int, total: int) -> None:
        progress("pages", total - remaining, total)

    try:
        with (
            contextlib.closing(connect(file, patience)) as source,
            contextlib.closing(sqlite3.connect(target)) as copied,
        ):
            # In one transaction of the source: else every write of others would begin it anew.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(copied, pages=_PAGES, progress=tell, sleep=0.01)
            source.execute("COMMIT")
    except sqlite3.Error as exc:
        raise told(exc, str(target)) from exc


def _as_one_file(file: Path) -> None:
    """Without the log beside it."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    os.chmod(file, 0o600)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Store]:
    with SqliteStore(file) as store:
        yield store


@contextlib.contextmanager
def _beside(file: Path) -> Iterator[Path]:
    """A place for a file that is not finished, on the same disk, for the user alone."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(mkdtemp(prefix=f".{file.name[:40]}-", dir=file.parent))
    except OSError as exc:
        words = f"{str(file.parent)!r} cannot be written: {exc.strerror}. Choose another folder."
        raise Failure(Kind.misconfigured, words, cause=exc) from exc
    try:
        yield folder / "copy.db"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _placed(made: Path, file: Path) -> None:
    try:
        with made.open("rb") as opened:
            os.fsync(opened.fileno())
        os.replace(made, file)
        if os.name == "posix":
            folder = os.open(file.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as exc:
        words = f"{str(file)!r} cannot be written: {exc.strerror}. Choose another name."
        raise Failure(Kind.misconfigured, words, cause=exc) from exc


def _near(target: Store | Path | str) -> Path:
    """Where there should be room for a copy of the backup."""
    if isinstance(target, Path):
        return target
    return Path(gettempdir()) / "fairlead-restore"
