"""What an agent does, in lines for people: a tool that is used, what came of it, a list of things to do, usage.

It makes text, and knows nothing of when and where it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.surfaces.cli.console import CYAN, DIM, RED, Paint, harmless, harmless_json, harmless_line
from fairlead.surfaces.cli.live import brief, fitting

GREEN: Final = "32"
#: Tools whose use is shown in another way: as a list, as the answer, as a question.
QUIET: Final = frozenset({"todo", "complete", "clarify"})
#: Lines of a result that are shown; the rest is folded.
FOLD: Final = 4
_NARROWEST: Final = 20
#: Where a result has its text, if it is one with a text.
_TEXTS: Final = ("text", "content", "stdout", "output", "summary")


class Marks(NamedTuple):
    """The signs on a card, by what the terminal can show."""

    ok: str
    failed: str
    begun: str
    bar: str
    more: str
    done: str
    open: str
    thought: str
    turns: str


UNICODE: Final = Marks("✓", "✗", "→", "│", "…", "☑", "☐", "┆", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
ASCII: Final = Marks("+", "x", ">", "|", "...", "[x]", "[ ]", ":", "|/-\\")


def marks(encoding: str | None) -> Marks:
    return UNICODE if "utf" in (encoding or "").lower() else ASCII


def short_arguments(arguments: Any, width: int) -> str:
    """Arguments beside a tool's name: a lone value alone, several with their names, cut to the width."""
    if isinstance(arguments, Mapping):
        if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
            words = harmless_line(only)
        else:
            words = " ".join(
                f"{harmless_line(str(name))}={brief(value)}" for name, value in arguments.items()
            )
    else:
        words = harmless_line(arguments) if isinstance(arguments, str) else harmless_json(arguments)
    return cut(words, width)


def cut(text: str, width: int) -> str:
    width = max(width, _NARROWEST)
    fitted = fitting(text, width)
    return text if fitted == text else f"{fitting(text, width - 1)}…"


def span(milliseconds: float) -> str:
    """A duration as people say it."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 60 else f"{seconds // 60:.0f}m{seconds % 60:02.0f}s"


def begun(name: str, arguments: Any, paint: Paint, signs: Marks, width: int) -> str:
    """The line of a tool that begins."""
    room = width - len(name) - 4
    shown = short_arguments(arguments, room)
    return f"{paint(signs.begun, CYAN)} {harmless_line(name)} {paint(shown, DIM)}".rstrip()


def ended(told: Mapping[str, Any], arguments: Any, paint: Paint, signs: Marks, width: int) -> str:
    """The line of a tool that has ended: how, with what, how long."""
    name, ok = harmless_line(str(told.get("name", ""))), bool(told.get("ok"))
    took = told.get("duration_ms")
    lasted = span(took) if isinstance(took, int | float) and took >= 10 else ""
    sign = paint(signs.ok, GREEN) if ok else paint(signs.failed, RED)
    shown = short_arguments(arguments, width - len(name) - len(lasted) - 6) if arguments else ""
    parts = [sign, name, paint(shown, DIM), paint(lasted, DIM)]
    return " ".join(part for part in parts if part)


def output(envelope: Any) -> str:
    """What a tool's envelope says, as text; a failure says its message."""
    try:
        told = _json.loads(envelope) if isinstance(envelope, str) else envelope
    except ValueError:
        return harmless(str(envelope))
    if not isinstance(told, Mapping):
        return harmless(str(told))
    if told.get("ok") is not True:
        return harmless(str(told.get("message") or told.get("kind") or "It failed."))
    result = told.get("result")
    words = _text(result)
    warnings = [f"warning: {each}" for each in told.get("warnings") or ()]
    return harmless("\n".join([words, *warnings] if words else warnings))


def _text(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    if isinstance(result, Mapping):
        texts = [result[name] for name in _TEXTS if isinstance(result.get(name), str) and result[name]]
        if texts:
            return str(texts[0])
        return "\n".join(f"{name}: {brief(value)}" for name, value in result.items())
    if isinstance(result, list) and all(isinstance(each, str) for each in result):
        return "\n".join(result)
    return harmless_json(result)


def folded(text: str, paint: Paint, signs: Marks, width: int, most: int = FOLD) -> list[str]:
    """The first lines of a text beside a bar, and how many more there are."""
    lines = text.strip("\n").expandtabs(4).splitlines()
    if not any(line.strip() for line in lines):
        return []
    # A lone line more is shown rather than counted.
    kept = lines if len(lines) <= most + 1 else lines[:most]
    bar = paint(signs.bar, DIM)
    shown = [f"  {bar} {paint(cut(line, width - 5), DIM)}".rstrip() for line in kept]
    if len(kept) < len(lines):
        told = f"{signs.more} {len(lines) - len(kept)} more lines"
        shown.append(f"  {bar} {paint(told, DIM)}")
    return shown


def listed(markdown: str, paint: Paint, signs: Marks) -> list[str]:
    """A list of things to do."""
    shown = []
    for line in markdown.splitlines():
        bare = line.strip()
        if bare[:6].lower() == "- [x] ":
            shown.append(f"  {paint(signs.done, GREEN)} {paint(harmless_line(bare[6:]), DIM)}")
        elif bare[:6] == "- [ ] ":
            shown.append(f"  {signs.open} {harmless_line(bare[6:])}")
    return shown


def usage_line(used: Mapping[str, Any], seconds: float | None = None, parts: Sequence[str] = ()) -> str:
    """Tokens, cost and time on one line; nothing where nothing is known."""
    words = list(parts)
    if used.get("input") or used.get("output"):
        words.append(f"{count(used.get('input', 0))} in, {count(used.get('output', 0))} out")
    if used.get("cost"):
        words.append(f"${used['cost']:.4f}".rstrip("0").rstrip("."))
    if seconds is not None:
        words.append(span(seconds * 1000))
    return " · ".join(words)


def count(number: int) -> str:
    """A number of tokens: 950, 1.2k, 3.4M."""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
