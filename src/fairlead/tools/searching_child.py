"""The other side of `searching.py`: a process that matches lines, so that it can be stopped in the middle of one.

Python's regular expressions can take for ever on an unlucky pattern, and nothing else in their process runs
meanwhile. This file is run by its path, and imports nothing of ours. It reads no files: it is sent what to look at.

    -> pattern                      <- what is wrong with it, or nothing
    -> lines, as many as there are  <- [[index, text], ...]

Each message is its length in four bytes, and then its bytes.
"""

from __future__ import annotations

import json
import re
import sys
from typing import BinaryIO

LONGEST_LINE = 500
_MEMORY = 1 << 30
_SECONDS = 120


def main() -> None:
    _limit()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    asked = json.loads(_received(source) or b"{}")
    try:
        pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as exc:
        _send(sink, (str(exc) or type(exc).__name__).encode())
        return
    _send(sink, b"")
    while (data := _received(source)) is not None:
        _send(sink, json.dumps(_matches(pattern, data)).encode())


def _matches(pattern: re.Pattern[str], data: bytes) -> list[tuple[int, str]]:
    lines = data.decode(errors="replace").split("\n")
    return [(index, _cut(line)) for index, line in enumerate(lines) if _found(pattern, line)]


def _found(pattern: re.Pattern[str], line: str) -> bool:
    """Whether a line matches, with or without what ends it on Windows."""
    if pattern.search(line):
        return True
    return line.endswith("\r") and pattern.search(line[:-1]) is not None


def _cut(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "..."


def _limit() -> None:
    """So that it ends even if nobody is left to end it."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))


def _received(source: BinaryIO) -> bytes | None:
    head = source.read(4)
    return source.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def _send(sink: BinaryIO, data: bytes) -> None:
    sink.write(len(data).to_bytes(4, "big") + data)
    sink.flush()


if __name__ == "__main__":
    main()
