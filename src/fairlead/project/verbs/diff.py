"""`fairlead diff`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind
from fairlead.project.diff import diff_manifests
from fairlead.project.manifests import Target, has_commits, manifest_of
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, RED, YELLOW, harmless_line
from fairlead.surfaces.cli.hints import wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program

_WIDEST = 160
_COLOURS = {"breaking": RED, "warning": YELLOW, "info": CYAN}


def _diff(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--json",), ("--previous", "--next", "--cwd"), words=2)
    named = {"--previous": options.values.get("--previous"), "--next": options.values.get("--next")}
    for flag, word in zip(named, options.words, strict=False):
        if named[flag] is not None:
            raise wrong_option(flag, "is given twice: as an option and as a word")
        named[flag] = word
    cwd = Path(options.values.get("--cwd", "."))
    if not cwd.is_dir():
        raise wrong_option("--cwd", "there is no such folder")
    program.work_in(cwd)

    def target() -> str | None:
        # An app's own program compares that app, whatever else is in its folder.
        return program.import_target() if program.owned else program.target

    previous = _previous(named["--previous"], cwd, target)
    following = manifest_of(named["--next"], cwd, target) if named["--next"] else _own(program)
    diff = diff_manifests(previous, following)
    if "--json" in options.on or not program.console.out_tty:
        program.write_json(diff)
    else:
        program.console.write(_told(program, _harmless(diff)))
    return 0 if diff["ok"] else 1


def _previous(source: str | None, cwd: Path, target: Target) -> Any:
    if source is not None:
        return manifest_of(source, cwd, target)
    if not has_commits(cwd):
        raise Failure(
            Kind.invalid_input,
            "There is nothing to compare with: this folder has no git commit. Commit it first, or name what was: "
            "`fairlead manifest > old.json` keeps it, `fairlead diff old.json` compares with it.",
        )
    return manifest_of("HEAD", cwd, target)


def _harmless(value: Any) -> Any:
    """What a manifest says, as a terminal can take it: it may be somebody else's."""
    if isinstance(value, dict):
        return {key: _harmless(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_harmless(item) for item in value]
    return harmless_line(value) if isinstance(value, str) else value


def _own(program: Program) -> Any:
    return program.the_app().manifest()


def _told(program: Program, diff: dict[str, Any]) -> str:
    paint = program.console.out
    lines = []
    for change in diff["changes"]:
        level = paint(change["severity"], _COLOURS[change["severity"]])
        lines.append(f"{level} {paint(change['action'], BOLD)}: {change['message']}")
        for word in ("before", "after"):
            if word in change:
                lines.append(f"  {word:6} {_shown(change[word])}")
        if change.get("why"):
            lines.append(f"  {paint(change['why'], DIM)}")
    count = diff["summary"]
    told = f"{count['breaking']} breaking, {count['warnings']} to look at, {count['info']} harmless."
    asks = f" This asks for a new {diff['bump']} version." if diff["bump"] else ""
    return "\n".join([*lines, (told + asks) if diff["changes"] else "Nothing changed for callers.", ""])


def _shown(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 1]}…"


DIFF = Command(
    "diff [OLD [NEW]] [--json]",
    (
        ("OLD, --previous OLD", "A manifest file, a git revision, or installed:PACKAGE. [default: HEAD]"),
        ("NEW, --next NEW", "The same. [default: the app as it is]"),
        ("--cwd DIR", "The project's folder. [default: this one]"),
        ("--json", "Print the changes as JSON; so it is where the output is not a terminal."),
    ),
    _diff,
    ("diff", "diff v1.2.0", "diff old.json new.json --json"),
)
