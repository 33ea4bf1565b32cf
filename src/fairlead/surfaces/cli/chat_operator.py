"""`TerminalOperator`: the person at the terminal as the one whom an agent asks. How a line is read it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from fairlead.agents.operator import Approval, Clarification, Verdict
from fairlead.surfaces.cli import question as asked
from fairlead.surfaces.cli.console import (
    BOLD,
    CYAN,
    DIM,
    RED,
    Console,
    harmless,
    harmless_json,
    harmless_line,
)

#: Shows a prompt and gives the line that was typed; None when the person ends the input or stops the run.
Line = Callable[[str], Awaitable[str | None]]

_YES: Final = frozenset({"y", "yes"})
_ALWAYS: Final = frozenset({"a", "always"})
_NO: Final = frozenset({"", "n", "no"})
_VIEW: Final = frozenset({"v", "view"})
#: Lines and characters of an input that are shown before somebody asks for all of it.
_LINES: Final = 20
_LONG: Final = 2000
_INDENT: Final = "    "


class TerminalOperator:
    """Asks on stderr, one question at a time. `alone` keeps others from writing there meanwhile."""

    def __init__(
        self, console: Console, line: Line, alone: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._console = console
        self._line = line
        self._alone = alone
        self._lock = asyncio.Lock()

    async def approve(self, ask: Approval) -> Verdict:
        async with self._lock:
            with self._alone():
                return await self._approved(ask)

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        async with self._lock:
            with self._alone():
                return await self._answered(ask)

    async def _approved(self, ask: Approval) -> Verdict:
        shown, whole = self._input(ask.input)
        self._console.say("\n".join([self._heading(ask), *shown]))
        choices = "[y]es, [N]o, [a]lways in this conversation"
        if not whole:
            choices += ", [v]iew all of it"
        while True:
            said = await self._line(f"  Allow it? {choices}: ")
            if said is not None and said.strip().lower() in _VIEW and not whole:
                self._console.say("\n".join(_lines(ask.input, self._console)))
                continue
            return _verdict(said)

    async def _answered(self, ask: Clarification) -> str | list[str] | None:
        about = {
            "question": ask.question,
            "options": list(ask.options),
            "allow_multiple": ask.allow_multiple,
        }
        self._console.say(asked.shown(about, self._console))
        said = await self._line(answer_prompt(ask.options, ask.allow_multiple))
        if said is None or not said.strip():
            return None
        answer: str | list[str] = asked.meant(said.strip(), about)
        return answer

    def _heading(self, ask: Approval) -> str:
        paint = self._console.err
        effect = {"destructive": " It destroys something, which cannot be undone.", "write": " It writes."}
        colour = RED if ask.effects == "destructive" else DIM
        who, tool = harmless_line(ask.agent or "The agent"), paint(harmless_line(ask.tool), BOLD)
        return f"{paint('?', CYAN)} {who} wants to use {tool}.{paint(effect.get(ask.effects, ''), colour)}"

    def _input(self, input: Any) -> tuple[list[str], bool]:
        lines = _lines(input, self._console)
        if len(lines) <= _LINES and sum(map(len, lines)) <= _LONG:
            return lines, True
        kept, room = [], _LONG
        for line in lines[:_LINES]:
            kept.append(line[:room])
            room -= len(line)
            if room <= 0:
                break
        # Half a colour must not go on behind the cut.
        rest = sum(map(len, lines)) - sum(map(len, kept))
        reset = "\x1b[0m" if self._console.err.on else ""
        return [*kept, f"{reset}{_INDENT}{self._console.err(f'... {rest} more characters', RED)}"], False


def answer_prompt(options: Any, several: bool) -> str:
    if not options:
        return "  Answer: "
    return f"  Answer, by number or in words{', several with commas between' if several else ''}: "


def _lines(input: Any, console: Console) -> list[str]:
    """What a tool would get, a field at a time; texts as they are."""
    if not isinstance(input, dict):
        return [_INDENT + line for line in _shown(input).split("\n")]
    lines = []
    for name, value in input.items():
        first, *rest = _shown(value).split("\n")
        lines.append(f"{_INDENT}{console.err(harmless_line(str(name)), CYAN)}: {first}")
        lines += [f"{_INDENT}  {line}" for line in rest]
    return lines


def _shown(value: Any) -> str:
    return harmless(value).rstrip("\n") if isinstance(value, str) else harmless_json(value)


def _verdict(said: str | None) -> Verdict:
    """Only a yes is one. Other words are a no, and the reason for it."""
    if said is None:
        return Verdict(False)
    word = said.strip().lower()
    if word in _ALWAYS:
        return Verdict(True, always=True)
    if word in _YES:
        return Verdict(True)
    return Verdict(False, "" if word in _NO else f"The person who was asked said: {said.strip()}")
