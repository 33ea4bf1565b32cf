"""The three streams of a command, who is looking at them, and what may be written there.

Results go to stdout by `write`, everything else to stderr by `say`. Text for people is made harmless first:
a terminal must not act on control characters that came with the data.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO, cast

from fairlead import _json

BOLD: Final = "1"
DIM: Final = "2"
RED: Final = "31"
YELLOW: Final = "33"
CYAN: Final = "36"

# Control characters but tab and newline, other line ends, and the marks that reorder text.
_UNSAFE: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"


def harmless(text: str) -> str:
    """The text with control characters spelled out."""
    return re.sub(_UNSAFE, _spelled, text)


def harmless_line(text: str) -> str:
    """The same on one line, so that nobody can pass off a part of it as a line of ours."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def harmless_json(value: Any, *, indent: bool = False) -> str:
    """A value as JSON for a terminal: still JSON, with control characters as its own escapes."""
    return re.sub(_UNSAFE, _escaped, _json.dumps(value, indent=indent))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class Paint:
    """Colours text, or leaves it alone."""

    __slots__ = ("on",)

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.on and text and codes else text


def _closed(mode: str) -> TextIO:
    """What stands in for a stream that the program was started without."""
    return cast("TextIO", open(os.devnull, mode, encoding="utf-8"))


class Unwritable(OSError):
    """stdout cannot take what is written to it, as on a full disk."""

    def __str__(self) -> str:
        return (
            f"The output cannot be written: {self.strerror}. Make room or write it elsewhere, and look whether "
            "the command did its work before you repeat it."
        )


class Console:
    """stdin, stdout and stderr of one run of a command."""

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.stdin = stdin or sys.stdin or _closed("r")
        self.stdout = stdout or sys.stdout or _closed("w")
        self.stderr = stderr or sys.stderr or _closed("w")
        self.environ = os.environ if environ is None else environ
        self.out_tty = self.stdout.isatty()
        self.err_tty = self.stderr.isatty()
        self.out = Paint(_coloured(self.out_tty, self.environ))
        self.err = Paint(_coloured(self.err_tty, self.environ))
        self.debug = self.environ.get("FAIRLEAD_DEBUG", "") not in ("", "0")

    @property
    def can_redraw(self) -> bool:
        """Whether a line on stderr can be drawn again in place."""
        return self.err_tty and self.environ.get("TERM") != "dumb"

    @property
    def interactive(self) -> bool:
        """Whether someone is there to answer a question."""
        return self.err_tty and self.stdin.isatty()

    @property
    def width(self) -> int:
        """As COLUMNS says, else as wide as the terminal."""
        given = self.environ.get("COLUMNS", "")
        if given.isascii() and given.isdigit() and 0 < len(given) < 6 and int(given):
            return int(given)
        for stream in (self.stdout, self.stderr):
            try:
                columns = os.get_terminal_size(stream.fileno()).columns
            except (OSError, ValueError, AttributeError):
                continue
            if columns:
                return columns
        return 80

    def write(self, text: str) -> None:
        """Write a result to stdout, at once.

        Raises BrokenPipeError when nobody reads it any more, and Unwritable when it cannot be written.
        """
        try:
            self._write(text)
        except BrokenPipeError:
            raise
        except OSError as exc:
            raise Unwritable(exc.errno, exc.strerror) from exc

    def _write(self, text: str) -> None:
        buffer = getattr(self.stdout, "buffer", None)
        if buffer is None:
            self.stdout.write(text)
        else:
            # JSON is UTF-8 wherever it goes; a terminal of another encoding gets escapes for what it lacks.
            encoding = self.stdout.encoding if self.out_tty else "utf-8"
            self.stdout.flush()
            rest = memoryview(text.encode(encoding, "backslashreplace"))
            while rest:  # an unbuffered stream may take a part only
                rest = rest[buffer.write(rest) or 0 :]
        self.stdout.flush()

    def json(self, value: Any, *, indent: bool = False) -> str:
        """A value as JSON for stdout: as it is for programs, harmless for a terminal."""
        return harmless_json(value, indent=indent) if self.out_tty else _json.dumps(value, indent=indent)

    def write_json(self, value: Any, *, indent: bool = False) -> None:
        """Write a value to stdout as JSON, and a line end."""
        self.write(self.json(value, indent=indent) + "\n")

    def say(self, text: str, end: str = "\n") -> None:
        """Write to stderr. That nobody reads it is no reason to fail."""
        try:
            encoding = self.stderr.encoding or "utf-8"
            self.stderr.write((text + end).encode(encoding, "backslashreplace").decode(encoding))
            self.stderr.flush()
        except OSError:
            return

    def abandon_stdout(self) -> None:
        """Stop writing to a closed pipe, also when the interpreter flushes at its end."""
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())
        except (OSError, ValueError, AttributeError):
            return


def _coloured(tty: bool, environ: Mapping[str, str]) -> bool:
    if environ.get("NO_COLOR"):
        return False
    force = environ.get("FORCE_COLOR")
    if force:
        return force != "0"
    return tty and environ.get("TERM") != "dumb"
