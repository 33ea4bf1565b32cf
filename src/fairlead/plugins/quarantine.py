"""Plugins that brought their host down, and the marks by which the next start knows which one it was.

While a plugin is loaded, its id stands in `.currently_loading`. A mark whose process is gone is stale: its plugin is
put into `.quarantine`, with the version and the build that it fell with. When one of the two has changed, the plugin
gets one more try; otherwise a person has to give it one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairlead import _json
from fairlead.plugins.layout import sync_folder, write_durably
from fairlead.store.folders import alone_in

MARKER: Final = ".currently_loading"
QUARANTINE: Final = ".quarantine"
STALE: Final = "The program ended while it was loading the plugin."

log = logging.getLogger("fairlead.plugins")


@dataclass(frozen=True, slots=True)
class Row:
    """One plugin in quarantine. A row of an older file has nothing but the id."""

    id: str
    version: str | None = None
    build: str | None = None
    reason: str | None = None
    since: str | None = None

    def describe(self) -> dict[str, Any]:
        """The same as JSON, without what is not known."""
        told = {
            "id": self.id,
            "version": self.version,
            "build": self.build,
            "reason": self.reason,
            "since": self.since,
        }
        return {key: value for key, value in told.items() if value is not None}

    @property
    def legacy(self) -> bool:
        return self.version is None and self.build is None


class Quarantine:
    """The two files in the folder of all plugins; several processes may use them at once."""

    def __init__(self, root: Path, build: str) -> None:
        self._root = root
        self._build = build
        self._marker = root / MARKER
        self._file = root / QUARANTINE

    def mark(self, id: str, version: str | None = None) -> None:
        """Write down that a version of a plugin is being loaded; it is on disk when this returns."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with alone_in(self._root):
            self._write_marks([*self._marks(), _Mark(id, _process(os.getpid()), version or "")])

    def unmark(self, id: str) -> None:
        """Write down that it went well, or that its failure is known otherwise."""
        with self._alone() as there:
            if there:
                us, marks = _process(os.getpid()), self._marks()
                ours = next((mark for mark in marks if (mark.id, mark.process) == (id, us)), None)
                if ours is not None:
                    marks.remove(ours)
                    self._write_marks(marks)

    def promote(self, version_of: Callable[[str], str | None] = lambda _: None) -> list[str]:
        """Put those into quarantine whose loading nobody finished; gives their ids.

        `version_of` tells which version of a plugin is installed, for marks that do not say it.
        """
        with self._alone() as there:
            if not there or not self._marker.exists():
                return []
            marks = self._marks()
            stale = [mark for mark in marks if not mark.alive]
            for mark in stale:
                self._put(self._row(mark.id, mark.version or version_of(mark.id), STALE))
            if stale or not marks:
                self._write_marks([mark for mark in marks if mark not in stale])
        for mark in stale:
            log.warning("Plugin %r is in quarantine: %s", mark.id, STALE)
        return [mark.id for mark in stale]

    def put(self, id: str, version: str | None, reason: str) -> None:
        """Put a plugin into quarantine now; an older row of it is replaced."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with alone_in(self._root):
            self._put(self._row(id, version, reason))

    def rows(self) -> list[Row]:
        """What is in quarantine. A file that cannot be read counts as empty, and is told of in the log."""
        try:
            return _rows(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as exc:
            log.warning("%s cannot be read and is ignored: %s. Delete it, or mend it.", self._file, exc)
            return []

    @property
    def damaged(self) -> bool:
        """Whether the file is there and cannot be read."""
        try:
            _rows(self._file.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True
        return False

    def find(self, id: str) -> Row | None:
        """The row of a plugin, if it is in quarantine."""
        return next((row for row in self.rows() if row.id == id), None)

    def holding(self, id: str, version: str | None) -> Row | None:
        """The row that keeps this version of a plugin from being loaded.

        One that was written for another version, or by another build of the host, does not. Rows without either hold
        until a person removes them.
        """
        row = self.find(id)
        if row is None or row.legacy or (row.version == version and row.build == self._build):
            return row
        return None

    def held(self, id: str, version: str | None) -> Row | None:
        """The same for one who tries to load it: a row that does not hold is used up, for this one try."""
        row = self.holding(id, version)
        if row is None and self.remove(id):
            log.info("Plugin %r gets another try: it or its host has changed since it fell.", id)
        return row

    def remove(self, id: str) -> bool:
        """Take a plugin out of quarantine, and forget that it was being loaded; whether it was there."""
        with self._alone() as there:
            if not there:
                return False
            marks = self._marks()
            kept = [mark for mark in marks if mark.id != id]
            if kept != marks or not marks:
                self._write_marks(kept)
            rows = self.rows()
            rest = [row for row in rows if row.id != id]
            if len(rest) != len(rows):
                self._write_rows(rest)
        return len(rest) != len(rows)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether there is a folder; with it, nobody else changes the files meanwhile."""
        if not self._root.is_dir():
            yield False
            return
        with alone_in(self._root):
            yield True

    def _row(self, id: str, version: str | None, reason: str) -> Row:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
        return Row(id, version, self._build, reason, now.replace("+00:00", "Z"))

    def _put(self, row: Row) -> None:
        self._write_rows([*(each for each in self.rows() if each.id != row.id), row])

    def _write_rows(self, rows: list[Row]) -> None:
        if rows:
            content = _json.dumps([row.describe() for row in rows], indent=True)
            write_durably(self._file, content + "\n")
        else:
            self._file.unlink(missing_ok=True)
            sync_folder(self._root)

    def _marks(self) -> list[_Mark]:
        try:
            text = self._marker.read_text("utf-8", "replace")
        except FileNotFoundError:
            return []
        return [_Mark.parsed(line) for line in text.splitlines() if line.strip()]

    def _write_marks(self, marks: list[_Mark]) -> None:
        if not marks:
            self._marker.unlink(missing_ok=True)
            sync_folder(self._root)
            return
        content = "".join(f"{mark}\n" for mark in marks)
        try:
            write_durably(self._marker, content)
        except OSError:
            # Better a mark that may be lost with the power than none.
            self._marker.write_text(content)


@dataclass(frozen=True, slots=True)
class _Mark:
    """One line of the marker: the plugin, the process that loads it, and the version. Others write the id alone."""

    id: str
    process: str = ""
    version: str = ""

    @classmethod
    def parsed(cls, line: str) -> _Mark:
        id, process, version, *_ = [*line.split(), "", ""]
        return cls(id, process, version)

    @property
    def alive(self) -> bool:
        pid = self.process.partition(":")[0]
        return pid.isdigit() and self.process == _process(int(pid))

    def __str__(self) -> str:
        return f"{self.id} {self.process} {self.version}".rstrip()


def _process(pid: int) -> str:
    """The process by its number and the moment it began, since numbers are given again; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            began = file.read().rpartition(b")")[2].split()[19].decode()
    except ProcessLookupError:  # it ended while it was looked at
        return ""
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return ""
        began = ""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
    return f"{pid}:{began}"


def _rows(content: bytes) -> list[Row]:
    value = _json.loads(content)
    if not isinstance(value, list):
        raise ValueError("it holds no list")
    return [_row(each) for each in value]


def _row(value: Any) -> Row:
    if isinstance(value, str):
        return Row(value)
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise ValueError("one of its entries has no id")
    texts = {
        key: value[key] for key in ("version", "build", "reason", "since") if isinstance(value.get(key), str)
    }
    return Row(value["id"], **texts)
