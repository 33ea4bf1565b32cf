"""Notes in a file, one JSON object a line. It knows nothing of actions or callers."""

import json
import os
import threading
from pathlib import Path
from typing import TypedDict


class Note(TypedDict):
    id: int
    text: str


class Notebook:
    """Safe to use from many threads of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def add(self, text: str) -> Note:
        with self._lock:
            note: Note = {"id": len(self._read()) + 1, "text": text}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(note) + "\n")
            return note

    def all(self) -> list[Note]:
        with self._lock:
            return self._read()

    def _read(self) -> list[Note]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]


def notes_file() -> Path:
    """Where the notes are: the file that MY_APP_NOTES names, or notes.jsonl here."""
    return Path(os.environ.get("MY_APP_NOTES", "notes.jsonl"))
