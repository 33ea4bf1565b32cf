"""Sections of the report, and two ways to show them: text for a terminal, Markdown for the documentation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

GLANCE = "At a glance"
TARGETS = ("target", "measured", "met")


@dataclass(frozen=True)
class Target:
    """A promise, what was measured, and whether it holds."""

    promise: str
    measured: str
    met: bool


@dataclass
class Section:
    """One measurement: what it is, a table, the promises it settles, and the bare numbers."""

    name: str
    title: str
    what: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, object] = field(default_factory=dict)
    #: Drawings by the name of their file, beside the page: what they show, and SVG.
    drawings: dict[str, tuple[str, str]] = field(default_factory=dict)

    def require(self, promise: str, measured: str, met: bool) -> None:
        self.targets.append(Target(promise, measured, met))


def as_text(section: Section) -> str:
    lines = [section.title, "=" * len(section.title), *_aligned([section.columns, *section.rows])]
    for target in section.targets:
        lines.append(f"{'met   ' if target.met else 'MISSED'}  {target.promise}: {target.measured}")
    lines += [f"note    {note}" for note in section.notes]
    return "\n".join(lines)


def as_markdown(section: Section) -> str:
    parts = [f"## {section.title}", section.what, _table(section.columns, section.rows)]
    parts += [f"![{shown}]({file})" for file, (shown, _) in section.drawings.items()]
    if section.targets:
        rows = [
            (target.promise, target.measured, "yes" if target.met else "no") for target in section.targets
        ]
        parts.append(_table(TARGETS, rows))
    if section.notes:
        parts.append("\n".join(f"- {note}" for note in section.notes))
    return "\n\n".join(parts)


def at_a_glance(sections: Mapping[str, str]) -> str:
    """How many of their targets the page's sections meet, and which not: read from their Markdown, by their titles."""
    rows, asked, met = [], 0, 0
    told = {title: targets for title, written in sections.items() if (targets := _targets(written))}
    for title, targets in told.items():
        missed = [f"{target.promise}: {target.measured}" for target in targets if not target.met]
        kept = len(targets) - len(missed)
        rows.append(
            (f"[{title}](#{title.lower().replace(' ', '-')})", f"{kept} of {len(targets)}", "; ".join(missed))
        )
        asked, met = asked + len(targets), met + kept
    rows.append(("all", f"{met} of {asked}", ""))
    return f"## {GLANCE}\n\n{_table(('section', 'targets met', 'missed, and what was measured'), rows)}"


def _targets(written: str) -> list[Target]:
    """The other way: the targets of a section that was written earlier."""
    _, _, below = written.partition(_table(TARGETS, ()) + "\n")
    rows = [line.strip("| ").split(" | ") for line in takewhile(bool, below.splitlines())]
    return [Target(promise, measured, met == "yes") for promise, measured, met in rows]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(_cell(text, width, i) for i, (text, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def _cell(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [columns, rule, *rows])


def micros(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}"


def millis(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f}"


def percent(part: float) -> str:
    return f"±{part * 100:.0f}%"
