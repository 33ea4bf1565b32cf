"""Asking the person at the terminal before something is done that cannot be undone."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.actions import Action
from fairlead.runtime import Signal
from fairlead.surfaces.cli.console import BOLD, CYAN, RED, Console, harmless, harmless_line
from fairlead.surfaces.cli.live import brief

YES = frozenset({"y", "yes"})


async def ask(action: Action[..., Any], shown_input: Any, console: Console, signal: Signal) -> bool:
    """Say what will be done and with what, and wait for a yes. Anything else is a no."""
    console.say(_question(action, shown_input, console), end="")
    answer = await typed_line(console, signal)
    if answer == "":
        console.say("")  # no line ending came from the terminal
    return answer.strip().lower() in YES


def _question(action: Action[..., Any], shown_input: Any, console: Console) -> str:
    effect = " This cannot be undone." if action.side_effects == "destructive" else ""
    lines = [f"{console.err(action.title, BOLD)}: {harmless(action.description)}{console.err(effect, RED)}"]
    if isinstance(shown_input, dict):
        lines += [
            f"  {console.err(harmless_line(str(key)), CYAN)}: {brief(value)}"
            for key, value in shown_input.items()
        ]
    else:
        lines.append(f"  {brief(shown_input)}")
    return "\n".join([*lines, "Go ahead? [y/N] "])


async def typed_line(console: Console, signal: Signal) -> str:
    """One line from stdin, without holding up the loop; nothing when it ends or the call is cancelled."""
    try:
        descriptor = console.stdin.fileno()
    except (OSError, ValueError):
        return console.stdin.readline()
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bool] = loop.create_future()

    def settle(readable: bool) -> None:
        if not ready.done():
            ready.set_result(readable)

    def give_up() -> None:
        loop.call_soon_threadsafe(settle, False)

    try:
        loop.add_reader(descriptor, settle, True)
    except NotImplementedError:  # on Windows
        return console.stdin.readline()
    unsubscribe = signal.subscribe(give_up)
    try:
        readable = await ready
    finally:
        unsubscribe()
        loop.remove_reader(descriptor)
    return console.stdin.readline() if readable else ""
