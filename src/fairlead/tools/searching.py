"""Looking for text in files: bounded in what it reads, and in how long one pattern may take.

Plain text is looked for here; a pattern is matched in a process of its own, which is stopped when it takes too long.
It knows no tool: who searches gives the fence, and tells failures in its own words.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.tools.fence import Fence, Found, chunks, opened
from fairlead.tools.globs import Glob
from fairlead.tools.listing import readable
from fairlead.tools.searching_child import LONGEST_LINE

#: Seconds for one piece of a file.
PATIENCE: Final = 5.0
LONGEST_PATTERN: Final = 1000
#: Bytes: of one file, and of all files of one search.
MOST_OF_ONE: Final = 16 * 1024 * 1024
MOST_OF_ALL: Final = 512 * 1024 * 1024
MOST_FILES: Final = 50_000

_CHILD: Final = Path(__file__).with_name("searching_child.py")
_GLANCE: Final = 0.1
_NEEDED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

#: Matching lines of a text, by their index.
Matches = list[tuple[int, str]]
Find = Callable[[bytes], Matches]
Skip = Callable[[str, bool, int], bool]
Check = Callable[[], object]


class BadPattern(ValueError):
    """The text is no regular expression."""


class TooSlow(Exception):
    """The pattern takes too long: most often, a repetition is inside another one."""


class Hit(NamedTuple):
    """A line that matches."""

    path: str
    line: int
    text: str


class Search:
    """One search over the files of a fence. `incomplete` says afterwards whether something was left out."""

    def __init__(self, fence: Fence, path: str, skip: Skip, check: Check, glob: Glob | None = None) -> None:
        self.incomplete = False
        self.files = 0
        self._fence = fence
        self._path = path
        self._skip = skip
        self._check = check
        self._glob = glob
        self._room = MOST_OF_ALL
        self._above = "".join(f"{name}/" for name in fence.parts(path))

    def names(self) -> Iterator[Found]:
        """The files that the glob means."""
        for found in self._fence.tree(self._path, self._skip):
            self._check()
            self.files += 1
            if self.files > MOST_FILES:
                self.incomplete = True
                return
            if self._wanted(found.path):
                yield found

    def lines(self, find: Find) -> Iterator[Hit]:
        """The lines of those files that match. Files that are not text have none."""
        for found in self.names():
            if self._room <= 0:
                self.incomplete = True
                return
            try:
                handle = opened(found)
            except OSError:
                continue  # gone by now, or closed to us
            try:
                for index, text in self._in_file(handle, find):
                    yield Hit(readable(found.path), index + 1, text)
            finally:
                os.close(handle)

    def one(self, path: str, find: Find) -> Iterator[Hit]:
        """The same for one file."""
        with self._fence.open(path) as handle:
            for index, text in self._in_file(handle, find):
                yield Hit(readable(self._fence.spelled(path)), index + 1, text)

    def _wanted(self, path: str) -> bool:
        """Paths are from the root, and globs from there or from the folder that is searched."""
        if self._glob is None or self._glob.matches(path):
            return True
        return self._above != "" and self._glob.matches(path[len(self._above) :])

    def _in_file(self, handle: int, find: Find) -> Iterator[tuple[int, str]]:
        before, rest, read = 0, b"", 0
        for chunk in chunks(handle, MOST_OF_ONE):
            self._check()
            if b"\0" in chunk:
                return
            read += len(chunk)
            whole, newline, tail = (rest + chunk).rpartition(b"\n")
            rest = tail
            if newline:
                yield from _moved(find(whole), before)
                before += whole.count(b"\n") + 1
        if rest:
            yield from _moved(find(rest), before)
        self._room -= read
        self.incomplete |= read >= MOST_OF_ONE


@contextmanager
def matching(
    pattern: str, *, ignore_case: bool = False, patience: float = PATIENCE, check: Check = lambda: None
) -> Iterator[Find]:
    """A way to find the lines that match a pattern.

    Raises:
        BadPattern: it is no regular expression.
        TooSlow: while it is used: a text took longer than `patience` seconds.
    """
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it has {len(pattern)} characters; give 1 to {LONGEST_PATTERN}")
    if re.escape(pattern).replace("\\ ", " ").replace("\\-", "-") == pattern:
        yield _plain(pattern, ignore_case)
        return
    child = _Child(patience, check)
    try:
        asked = {"pattern": pattern, "ignore_case": ignore_case}
        if wrong := child.ask(json.dumps(asked).encode()):
            raise BadPattern(wrong.decode())
        yield lambda data: json.loads(child.ask(data))
    finally:
        child.end()


def _plain(text: str, ignore_case: bool) -> Find:
    wanted = text.lower() if ignore_case else text

    def find(data: bytes) -> Matches:
        whole = data.decode(errors="replace")
        if wanted not in (whole.lower() if ignore_case else whole):
            return []
        lines = enumerate(whole.split("\n"))
        return [(at, _cut(line)) for at, line in lines if wanted in (line.lower() if ignore_case else line)]

    return find


class _Child:
    """The process that matches. It is asked one thing at a time."""

    def __init__(self, patience: float, check: Check) -> None:
        self._patience = patience
        self._check = check
        # Isolated, and of this process's environment it gets only what Python itself may need to start.
        command = [sys.executable, "-I", "-S", str(_CHILD)]
        environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._arrived = select.poll()
        self._arrived.register(self._out.fileno(), select.POLLIN | select.POLLHUP)

    def ask(self, data: bytes) -> bytes:
        try:
            self._in.write(len(data).to_bytes(4, "big") + data)
            self._in.flush()
        except BrokenPipeError:
            raise TooSlow from None  # it reached a limit of its own
        deadline = time.monotonic() + self._patience
        return self._received(int.from_bytes(self._received(4, deadline), "big"), deadline)

    def _received(self, size: int, deadline: float) -> bytes:
        parts = []
        while size > 0:
            self._check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TooSlow
            if not self._arrived.poll(min(left, _GLANCE) * 1000):
                continue
            part = os.read(self._out.fileno(), size)
            if not part:
                raise TooSlow
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        with suppress(BrokenPipeError):
            self._in.close()


def _cut(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "..."


def _moved(matches: Matches, by: int) -> Iterator[tuple[int, str]]:
    for index, text in matches:
        yield index + by, text
