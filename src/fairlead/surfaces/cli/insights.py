"""`fairlead insights`: what plugins log and what they ask of the host, to be listed, searched and followed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import BOLD, DIM, RED, YELLOW, harmless_line
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store, span, whole

if TYPE_CHECKING:
    from fairlead.plugins.logs import Insights, Line, Wanted
    from fairlead.runtime import Signal
    from fairlead.store import Store
    from fairlead.surfaces.cli.program import Program

_VERBS: Final = ("list", "search", "follow")
_COLOURS: Final = {"TRACE": DIM, "DEBUG": DIM, "WARN": YELLOW, "ERROR": RED}


def _insights(program: Program, arguments: list[str]) -> int:
    verb, rest = _verb(arguments)
    options = Options(
        rest, ("--json",), ("--plugin", "--agent", "--level", "--since", "--limit", "--data"), words=20
    )
    if verb == "list" and options.words:
        raise wrong_option("argument 2", "is one too many. Words are looked for by: insights search WORDS")
    if verb == "search" and not options.words:
        raise wrong_option("argument 2", "expected words to look for, or a field such as event=hook.")
    choose_store(options.values.get("--data"))
    with _opened(program) as store:
        from fairlead.plugins.logs import Insights

        return (_follow if verb == "follow" else _list)(program, Insights(store), options)


def _verb(arguments: list[str]) -> tuple[str, list[str]]:
    if not arguments or arguments[0].startswith("-"):
        return "list", arguments
    verb, *rest = arguments
    if verb not in _VERBS:
        expected = f"expected one of {', '.join(_VERBS)}.{near_miss(verb[:20], _VERBS)}"
        raise wrong_option("argument 1", expected)
    return verb, rest


@contextlib.contextmanager
def _opened(program: Program) -> Iterator[Store]:
    """The store of the app, or of those programs that have no app."""
    from fairlead.store import open_store

    app = program.find_app(whole=False)
    if app is not None:
        yield app.store
        return
    with open_store() as store:
        yield store


def _wanted(options: Options) -> Wanted:
    from fairlead.plugins.logs import Wanted, level_of
    from fairlead.plugins.slots import LOG_LEVELS

    given = options.values
    level = None
    if "--level" in given:
        level = level_of(given["--level"])
        if level is None:
            raise wrong_option("--level", f"expected one of {', '.join(LOG_LEVELS).lower()}")
    # A word with blanks in it was quoted in the shell, and is meant as one.
    words = (f'"{word}"' if " " in word and '"' not in word else word for word in options.words)
    agent = given.get("--agent")
    return Wanted(
        given.get("--plugin"),
        None if agent is None else agent.upper(),
        level,
        _since(given.get("--since")),
        " ".join(words),
    )


def _since(given: str | None) -> float:
    if given is None:
        return 0.0
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        return time.time() - span("--since", given)
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _most(options: Options, default: str) -> int:
    from fairlead.plugins.logs import MOST_LISTED

    return whole("--limit", options.values.get("--limit", default), 1, MOST_LISTED)


def _list(program: Program, insights: Insights, options: Options) -> int:
    most = _most(options, "50")
    lines = insights.page_now(_wanted(options), most=most)
    listed = [each.to_dict() for each in reversed(lines)]
    if options.on or not program.console.out_tty:
        return program.write_json(listed)
    for each in reversed(lines):
        program.console.write(_shown(program, each) + "\n")
    if not lines:
        program.console.say("Nothing was found.")
    elif len(lines) == most:
        program.console.say(f"These are the newest {most}. --limit N shows more, --since the latest only.")
    return 0


def _follow(program: Program, insights: Insights, options: Options) -> int:
    from fairlead.surfaces.cli import interrupts

    wanted, first = _wanted(options), _most(options, "10")

    async def run(signal: Signal) -> int:
        following = asyncio.ensure_future(_told(program, insights, wanted, first, options))
        stopped = asyncio.ensure_future(signal.wait())
        try:
            await asyncio.wait((following, stopped), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            return 130 if signal.cancelled else 0
        finally:
            following.cancel()
            stopped.cancel()

    return interrupts.run(run)


async def _told(program: Program, insights: Insights, wanted: Wanted, first: int, options: Options) -> None:
    console = program.console
    if console.out_tty:
        console.say("Following. Ctrl-C ends it.")
    async for line in insights.follow(wanted, first=first):
        if options.on or not console.out_tty:
            console.write_json(line.to_dict())
        else:
            console.write(_shown(program, line) + "\n")


def _shown(program: Program, line: Line) -> str:
    """One line for people: when, who, how bad, what, and the fields that came with it."""
    told: dict[str, Any] = line.to_dict()
    console, level = program.console, told["level"]
    words = harmless_line(line.message if line.method == "LOG" else line.title)
    status = "" if line.method == "LOG" else console.out(f" {line.status}", DIM)
    fields = " ".join(f"{harmless_line(key)}={harmless_line(value)}" for key, value in told["fields"].items())
    colour = _COLOURS.get(level)
    return " ".join(
        part
        for part in (
            console.out(told["time"][:19].replace("T", " "), DIM),
            console.out(f"{level:<5}", colour) if colour else f"{level:<5}",
            console.out(harmless_line(line.plugin), BOLD),
            words + status,
            console.out(fields, DIM) if fields else "",
        )
        if part
    )


INSIGHTS = Command(
    "insights [list | search WORDS | follow [WORDS]] [OPTIONS]",
    (
        ("list", "The newest lines, the oldest of them first. [default]"),
        ("search WORDS", "Lines that have all of these words; key=value looks for a field of a payload."),
        ("follow [WORDS]", "The newest lines, and then each new one, until Ctrl-C."),
        ("--plugin ID", "Of this plugin."),
        ("--agent UUID", "Of calls that this agent made."),
        ("--level LEVEL", "Of this level or above: trace, debug, info, warn, error."),
        ("--since TIME", "From then on: 1h, 7d, or a time such as 2030-01-31T12:00."),
        ("--limit N", "The newest so many. [default: 50, and 10 before what is followed]"),
        DATA_ROW,
        ("--json", "Print JSON; an object a line when it follows."),
    ),
    _insights,
    (
        "insights --plugin acme.notes --level warn",
        "insights search webhook event=registered --since 1h",
        "insights follow --json",
    ),
)
