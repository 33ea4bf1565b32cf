"""The keyboard of a chat: lines with editing and history where the terminal has them, and text of several lines.

What looks like a secret is not kept in the history. The file is the owner's alone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

from fairlead import _json
from fairlead.surfaces.cli.console import Console

#: Lines that are remembered.
_MOST: Final = 1000
_MORE: Final = "... "


class Keyboard:
    """Reads what a person types. Used from the thread that is told of Ctrl-C."""

    def __init__(
        self,
        console: Console,
        history: Path | None,
        secret: Callable[[str], bool],
        words: Sequence[str] = (),
    ) -> None:
        self._console = console
        self._history = history
        self._secret = secret
        self._words = tuple(words)
        self._readline = _readline(console)
        self._typed: list[str] = []
        if self._readline is not None:
            self._prepare(self._readline)

    def message(self, prompt: str) -> str | None:
        """A message, of several lines where they end in a backslash or were pasted; None at the end of the input.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        lines: list[str] = []
        while True:
            try:
                line = self.line(prompt if not lines else _MORE)
            except KeyboardInterrupt:
                if not lines and not self._begun():
                    raise
                # As in a shell, what was typed is given up, and not the program.
                lines.clear()
                self._console.say("")
                continue
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                lines.append(line)
                break
            lines.append(line[:-1])
        text = "\n".join(lines)
        self._remember(text)
        return text

    def _begun(self) -> bool:
        """Whether something stands on the line that was being typed."""
        return self._readline is not None and bool(self._readline.get_line_buffer())

    def line(self, prompt: str) -> str | None:
        """One line, which is not remembered; None at the end of the input."""
        console = self._console
        if self._readline is None:
            console.say(prompt, end="")
            line = console.stdin.readline()
            if not line:
                console.say("")
                return None
            return line.rstrip("\r\n")
        # Line editing is only had on the real streams; what tools print goes elsewhere meanwhile.
        held, sys.stdout = sys.stdout, console.stdout
        try:
            return input(_hidden(prompt))
        except EOFError:
            console.say("")
            return None
        except UnicodeDecodeError:
            console.say("That was no text in the terminal's encoding.")
            return ""
        finally:
            sys.stdout = held

    def close(self) -> None:
        """Write the history down."""
        if self._history is None or not self._typed:
            return
        kept = [*_read(self._history), *self._typed][-_MOST:]
        draft = self._history.with_name(f"{self._history.name}.{os.getpid()}")
        with suppress(OSError):  # a chat is not worth less without it
            self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as file:
                file.writelines(_json.dumps(each) + "\n" for each in kept)
            os.replace(draft, self._history)

    def _remember(self, text: str) -> None:
        if not text.strip() or self._secret(text):
            return
        self._typed.append(text)
        if self._readline is not None:
            self._readline.add_history(text)

    def _prepare(self, readline: ModuleType) -> None:
        readline.set_auto_history(False)
        readline.clear_history()
        for each in _read(self._history):
            readline.add_history(each)
        if "libedit" in (readline.__doc__ or ""):
            readline.parse_and_bind("bind ^I rl_complete")
        else:
            # Pasted text is one message, whatever line ends it has.
            readline.parse_and_bind("set enable-bracketed-paste on")
            readline.parse_and_bind("tab: complete")
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._completed)

    def _completed(self, text: str, state: int) -> str | None:
        found = [each for each in self._words if text.startswith("/") and each.startswith(text)]
        return f"{found[state]} " if state < len(found) else None


def _readline(console: Console) -> ModuleType | None:
    """Line editing, where the three streams are the process's own and a person is at them."""
    if not (console.interactive and console.out_tty) or console.environ.get("TERM") == "dumb":
        return None
    if console.stdin is not sys.__stdin__ or console.stdout is not sys.__stdout__:
        return None
    try:
        import readline
    except ImportError:  # Windows has none
        return None
    return readline


def _read(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [each for each in map(_json.loads, lines) if isinstance(each, str)]
    except (OSError, ValueError):
        return []


def _hidden(prompt: str) -> str:
    """The prompt with its colours marked as taking no room."""
    return re.sub(r"\x1b\[[0-9;]*m", "\x01\\g<0>\x02", prompt)
