"""`Screen`: an agent's run while it goes on. Its words go to stdout; thoughts, tools and lists to stderr.

One line at the bottom is drawn again in place where the terminal can do that; all else is written once and stays.
Where stderr is no terminal, only the words are shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

from fairlead.surfaces.cli import chat_cards as cards
from fairlead.surfaces.cli.chat_markdown import Markdown
from fairlead.surfaces.cli.console import CYAN, DIM, YELLOW, Console, harmless, harmless_line
from fairlead.surfaces.cli.live import Live, fitting

_CLEAR: Final = "\r\x1b[2K"
#: Seconds between two drawings of the line at the bottom.
_PACE: Final = 0.1
#: Seconds that nothing has to be heard before it says so.
_QUIET: Final = 0.3


class Screen:
    """Shows the events of one run after the other."""

    def __init__(
        self, console: Console, *, thoughts: bool = True, verbose: bool = False, words: bool = True
    ) -> None:
        self.console = console
        self.thoughts = thoughts
        #: What was said since a tool was last used: the answer, when the run is over.
        self.said = ""
        #: What the last tool gave, whole.
        self.output = ""
        self._words = words
        self._shown = verbose or console.err_tty
        self._redraw = console.can_redraw
        self._signs = cards.marks(console.stderr.encoding)
        self._live = Live(console, verbose)
        signs = cards.marks(console.stdout.encoding)
        bullet = "•" if signs is cards.UNICODE else "*"
        self._markdown = Markdown(console.out, bullet, signs.bar) if console.out.on else None
        #: What the cursor stands behind.
        self._midway: Literal["", "text", "thought"] = ""
        self._tools: dict[str, tuple[str, Any, float]] = {}
        self._progress = ""
        self._drawn = False
        self._turn = 0
        self._since = time.monotonic()
        self._todo = ""
        #: Whether something else has the terminal: a question, which must not be drawn over.
        self._away = False
        self._later: list[Mapping[str, Any]] = []
        #: What was last shown whole, for the empty line between a text and all else.
        self._last: Literal["", "text", "card"] = ""

    def event(self, event: Mapping[str, Any]) -> None:
        """Show one event of a call's stream."""
        if self._away:
            self._later.append(event)
            return
        match event["type"]:
            case "delta":
                self.delta(str(event["data"]))
            case "activity":
                self._activity(event)
            case "log" | "progress" | "artifact":
                self.rest()
                self._live.event(event)

    # Words.

    def delta(self, text: str) -> None:
        """A piece of what the agent says."""
        if not text:
            return
        self._not_run()
        if not self.said and self._midway != "text":
            text = text.lstrip("\n")
        self.said += text
        if not self._words or not text:
            return
        self._erase()
        if self._midway == "thought":
            self._break()
        if self._midway != "text":
            self._spaced("text")
        # Programs get what was said; a terminal must not act on it.
        shown = harmless(text.replace("\r", "")) if self.console.out_tty else text
        self._midway = "text"
        if self._markdown is not None:
            shown = self._markdown.feed(shown)
        if shown:
            self.console.write(shown)

    def ended(self, data: Any) -> None:
        """The run is over; its answer is shown unless it was said already."""
        self._not_run()
        if isinstance(data, str) and data.strip() and data.strip() != self.said.strip():
            self.rest()
            self.said = ""
            self.delta(data)
        self.rest()

    def begin(self) -> None:
        """Another run begins."""
        self.said = ""
        self._last = ""
        self._tools.clear()
        self._progress = ""
        self._since = time.monotonic()

    def rest(self) -> None:
        """Leave the cursor at the beginning of an empty line."""
        self._erase()
        self._live.clear()
        self._break()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        self.rest()
        self._spaced("card")
        self._away = True
        try:
            yield
        finally:
            self._away = False
            self._since = time.monotonic()
            later, self._later = self._later, []
            for event in later:
                self.event(event)

    def _spaced(self, what: Literal["text", "card"]) -> None:
        if self._last not in ("", what) and self._shown and self.console.out_tty:
            self.console.say("")
        self._last = what

    def line(self, text: str) -> None:
        """A line of its own."""
        self.rest()
        if self._shown:
            self.console.say(text)

    def _break(self) -> None:
        if self._midway == "text":
            held = "" if self._markdown is None else self._markdown.end()
            self.console.write(held + ("" if self.said.endswith("\n") else "\n"))
        elif self._midway == "thought":
            self.console.say("")
        self._midway = ""

    def _thought(self, text: str) -> None:
        if not (self.thoughts and self._shown) or not text:
            return
        begins = self._midway != "thought"
        if begins:
            self.rest()
            self._spaced("card")
            text = text.lstrip("\n")
            self._midway = "thought"
        paint, bar = self.console.err, f"{self._signs.thought} "
        lines = harmless(text.replace("\r", "")).split("\n")
        shown = f"\n{paint(bar, DIM)}".join(paint(line, DIM) for line in lines)
        self.console.say((paint(bar, DIM) if begins else "") + shown, end="")

    # What it does.

    def _activity(self, event: Mapping[str, Any]) -> None:
        data: Mapping[str, Any] = event.get("data") or {}
        match event.get("kind"):
            case "thinking":
                self._not_run()
                self._thought(str(data.get("text", "")))
            case "tool_call":
                self._called(data)
            case "tool_progress":
                self._progressed(data)
            case "tool_result":
                self._answered(data)
            case "todo":
                self._listed(data)
            case "info" | "warning" as kind:
                words = harmless(
                    " ".join(str(event[name]) for name in ("title", "detail") if event.get(name))
                )
                self.line(self.console.err(words, YELLOW if kind == "warning" else DIM))

    def _called(self, data: Mapping[str, Any]) -> None:
        name, arguments = str(data.get("name", "")), data.get("arguments")
        self.rest()
        self.said = ""
        self._progress = ""
        self._tools[str(data.get("id"))] = (name, arguments, time.monotonic())
        if self._shown and not self._redraw and name not in cards.QUIET:
            self._spaced("card")
            self.console.say(cards.begun(name, arguments, self.console.err, self._signs, self.console.width))

    def _progressed(self, data: Mapping[str, Any]) -> None:
        event = data.get("event") or {}
        percent, message = event.get("percent"), event.get("message") or event.get("title")
        told = "" if percent is None else f"{percent:.0f}%"
        words = " ".join(part for part in (told, harmless_line(str(message or ""))) if part)
        if words:
            self._progress = words
        if event.get("type") == "log" and event.get("level") in ("warn", "error"):
            self.line(self.console.err(f"  {words}", YELLOW))

    def _answered(self, data: Mapping[str, Any]) -> None:
        name, arguments, _ = self._tools.pop(str(data.get("id")), (str(data.get("name")), None, 0.0))
        self._progress = ""
        self._since = time.monotonic()
        ok = bool(data.get("ok"))
        if ok and name in cards.QUIET:
            return
        self._card({**data, "name": name}, arguments, cards.output(data.get("envelope")))

    def _not_run(self) -> None:
        """Close the cards of calls that nothing came of: the model has been told why."""
        for id in list(self._tools):
            name, arguments, _ = self._tools.pop(id)
            if name not in cards.QUIET:
                self._card({"name": name, "ok": False}, arguments, "It was not run.")

    def _card(self, told: Mapping[str, Any], arguments: Any, output: str) -> None:
        self.output = output
        self.rest()
        if not self._shown:
            return
        self._spaced("card")
        paint, width = self.console.err, self.console.width
        if not self._redraw:
            arguments = None  # they were shown when it began
        self.console.say(cards.ended(told, arguments, paint, self._signs, width))
        for line in cards.folded(output, paint, self._signs, width):
            self.console.say(line)

    def _listed(self, data: Mapping[str, Any]) -> None:
        markdown = str(data.get("markdown", ""))
        if markdown == self._todo:
            return
        self._todo = markdown
        self.rest()
        if self._shown:
            self._spaced("card")
            done, total = data.get("done", 0), data.get("total", 0)
            self.console.say(self.console.err(f"To do: {done} of {total} done", CYAN))
            for line in cards.listed(markdown, self.console.err, self._signs):
                self.console.say(line)

    # The line at the bottom.

    async def drawn(self) -> None:
        """Draw the line at the bottom, again and again, until this is cancelled."""
        while self._redraw:
            await asyncio.sleep(_PACE)
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if self._midway or self._away or (not self._tools and now - self._since < _QUIET):
            return
        self._turn += 1
        sign = self._signs.turns[self._turn % len(self._signs.turns)]
        self._drawn = True
        self.console.say(f"{_CLEAR}{self.console.err(sign, CYAN)} {self._doing(now)}", end="")

    def _doing(self, now: float) -> str:
        room = self.console.width - 4
        running = [each for each in self._tools.values() if each[0] not in cards.QUIET]
        if not running:
            return self.console.err(fitting(f"working {cards.span((now - self._since) * 1000)}", room), DIM)
        name, arguments, since = running[0]
        more = f"and {len(running) - 1} more" if len(running) > 1 else ""
        tail = "  ".join(part for part in (self._progress, more, _seconds(now - since)) if part)
        head = f"{harmless_line(name)} {cards.short_arguments(arguments, room // 2)}".rstrip()
        return fitting(f"{head}  {tail}", room)

    def _erase(self) -> None:
        if self._drawn:
            self.console.say(_CLEAR, end="")
            self._drawn = False


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds >= 1 else ""
