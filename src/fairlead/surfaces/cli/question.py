"""The question of a paused task: how it is shown, and what an answer that was typed means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.runtime import Signal
from fairlead.surfaces.cli.console import BOLD, CYAN, Console, harmless, harmless_line
from fairlead.surfaces.cli.live import brief
from fairlead.surfaces.cli.prompt import typed_line


def shown(question: Mapping[str, Any], console: Console) -> str:
    """The question with its options, for stderr."""
    lines = [console.err(harmless(str(question.get("question", "It waits for an answer."))), BOLD)]
    details = dict(question.get("details") or {})
    wanted = details.pop("approval", None)
    if isinstance(wanted, Mapping) and isinstance(wanted.get("input"), Mapping):
        # A tool that wants to be used: what it would get, a field a line.
        details = {**wanted["input"], **details}
    elif wanted is not None:
        details["approval"] = wanted
    for name, value in details.items():
        lines.append(f"  {console.err(harmless_line(str(name)), CYAN)}: {brief(value)}")
    for number, option in enumerate(question.get("options") or (), start=1):
        lines.append(f"  {console.err(str(number), CYAN)}  {harmless_line(str(option))}")
    return "\n".join(lines)


async def typed(question: Mapping[str, Any], console: Console, signal: Signal) -> Any:
    """What the person at the terminal answers; None when they end the input or stop."""
    prompt = "Answer: "
    if question.get("options"):
        several = ", several with commas between" if question.get("allow_multiple") else ""
        prompt = f"Answer, by number or word{several}: "
    while True:
        console.say(prompt, end="")
        line = await typed_line(console, signal)
        if line == "":
            console.say("")
            return None
        if line.strip():
            return meant(line.strip(), question)


def meant(text: str, question: Mapping[str, Any]) -> Any:
    """The answer that a text stands for: an option by its number, several where several may be chosen."""
    options = question.get("options") or []
    if not options:
        return text
    if question.get("allow_multiple"):
        return [_option(part.strip(), options) for part in text.split(",") if part.strip()]
    return _option(text, options)


def _option(text: str, options: list[Any]) -> Any:
    if text in options or not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= len(options):
        return text
    return options[int(text) - 1]
