"""What an action says while it runs, on stderr: log lines, and a progress bar that is drawn again in place.

Someone at a terminal sees both. Elsewhere nothing is shown, unless `--verbose` asks for the log lines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fairlead.surfaces.cli.console import (
    CYAN,
    DIM,
    RED,
    YELLOW,
    Console,
    harmless,
    harmless_json,
    harmless_line,
)
from fairlead.surfaces.cli.render import cells

_COLOURS = {"debug": (DIM,), "info": (CYAN,), "warn": (YELLOW,), "error": (RED,)}
_BAR = 24
_CLEAR = "\r\x1b[2K"
#: Seconds between two drawings of the bar.
_PACE = 0.04


class Live:
    """Shows events as they come."""

    def __init__(self, console: Console, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._shown = verbose or console.err_tty
        self._redraw = console.can_redraw
        self._bar: str | None = None
        self._drawn = 0.0

    def event(self, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "log":
                self.log(event["level"], event["message"], event["fields"])
            case "progress":
                self._progress(event["message"], event["percent"])
            case "artifact":
                self._artifact(event["artifact"])
            case "activity":
                self._activity(event["kind"], event["title"], event["data"])

    def log(self, level: str, message: str, fields: Mapping[str, Any] | None = None) -> None:
        if not self._shown or (level == "debug" and not self._verbose):
            return
        more = "".join(
            f"  {harmless_line(str(key))}={brief(value)}"
            for key, value in (fields or {}).items()
            if value is not None
        )
        word = self._console.err(f"{level:<5}", *_COLOURS.get(level, ()))
        told = harmless(str(message)).replace("\n", "\n" + " " * 6)
        self.line(f"{word} {told}{self._console.err(more, DIM)}")

    def line(self, text: str) -> None:
        """A line above the bar."""
        bar = self._bar
        self.clear()
        self._console.say(text)
        if bar is not None:
            self._draw(bar)

    def clear(self) -> None:
        """Take the bar away, if it is there."""
        if self._bar is not None:
            self._console.say(_CLEAR, end="")
            self._bar = None

    def _artifact(self, artifact: Mapping[str, Any]) -> None:
        if self._shown:
            name = artifact.get("name") or artifact["id"]
            place = f"  {artifact['uri']}" if artifact.get("uri") else ""
            self.line(f"{self._console.err('file ', CYAN)} {harmless(str(name) + place)}")

    def _activity(self, kind: str, title: str, data: Mapping[str, Any]) -> None:
        """What an agent does: which tools it uses, and what went wrong with them."""
        if kind == "tool_call":
            given = data.get("arguments")
            self.log("info", f"uses {title}", given if isinstance(given, Mapping) else None)
        elif kind == "tool_result" and not data.get("ok", True):
            self.log("warn", f"{title} failed")
        elif kind == "warning":
            self.log("warn", title)

    def _progress(self, message: str | None, percent: float | None) -> None:
        if not self._redraw:
            if self._verbose:
                told = "" if percent is None else f"{percent:.0f}%"
                self.log("info", " ".join(part for part in (told, message) if part) or "Progress update.")
            return
        now = time.monotonic()
        if self._bar is not None and now - self._drawn < _PACE and (percent is None or percent < 100):
            return
        self._drawn = now
        self._draw(self._line(message, percent))

    def _draw(self, bar: str) -> None:
        self._bar = bar
        self._console.say(_CLEAR + bar, end="")

    def _line(self, message: str | None, percent: float | None) -> str:
        words = harmless((message or "").replace("\n", " "))
        if percent is None:
            return self._console.err("...", CYAN) + f" {fitting(words, self._console.width - 5)}"
        share = min(max(percent, 0.0), 100.0)
        done = round(share / 100 * _BAR)
        full, empty = ("━", "─") if "utf" in (self._console.stderr.encoding or "").lower() else ("#", "-")
        bar = self._console.err(full * done, CYAN) + self._console.err(empty * (_BAR - done), DIM)
        return f"{bar} {share:3.0f}% {fitting(words, self._console.width - _BAR - 7)}".rstrip()


def brief(value: Any) -> str:
    """A value beside its name, on one line and harmless: a word as it is, anything else as JSON."""
    if isinstance(value, str) and value and " " not in value and value.isprintable():
        return value
    return harmless_json(value)


def fitting(text: str, width: int) -> str:
    """As much of a text as fits into so many cells."""
    text = text[: max(width, 0)]
    while cells(text) > max(width, 0):
        text = text[:-1]
    return text
