"""`fairlead lint`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fairlead.actions import DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.project.config import load_project_config
from fairlead.project.lint import counts, lint_actions, sarif
from fairlead.project.rules import RULES, Settings
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, RED, YELLOW, harmless_line

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program

_COLOURS = {"error": RED, "warning": YELLOW, "info": CYAN}


def _lint(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--json", "--sarif", "--rules", "--strict"), ("--ignore",))
    if "--rules" in options.on:
        return _rules(program, as_json="--json" in options.on)
    given = load_project_config(os.getcwd()).section("lint")
    given["ignore"] = [*given.get("ignore", ()), *_codes(options.values.get("--ignore"))]
    try:
        settings = Settings.of(given)
    except DefinitionError as exc:
        raise Failure(Kind.invalid_input, str(exc)) from exc
    report = lint_actions(program.the_app().catalogue, settings)
    failed = bool(report["findings"]) if "--strict" in options.on else not report["ok"]
    if "--sarif" in options.on:
        program.write_json(sarif(report, os.getcwd()))
    elif "--json" in options.on or not program.console.out_tty:
        program.write_json(report)
    else:
        program.console.write(_told(program, report))
    return 1 if failed else 0


def _codes(given: str | None) -> list[str]:
    return [code.strip().upper() for code in (given or "").split(",") if code.strip()]


def _told(program: Program, report: dict[str, Any]) -> str:
    paint = program.console.out
    lines = []
    for each in report["findings"]:
        where = f"{os.path.relpath(each['file'])}:{each['line']}" if each.get("file") else ""
        level = paint(each["level"], _COLOURS[each["level"]])
        lines.append(
            f"{level} {paint(each['code'], BOLD)} {each['action']}: {harmless_line(each['message'])} "
            f"{paint(harmless_line(where), DIM)}"
        )
    found = counts(report)
    told = ", ".join(
        f"{found[level]} {level}{'s' * (found[level] > 1)}" for level in _COLOURS if found[level]
    )
    return "\n".join([*(line.rstrip() for line in lines), f"{told or 'Nothing'} found.", ""])


def _rules(program: Program, *, as_json: bool) -> int:
    rows = [{"code": rule.code, "level": rule.level, "meaning": rule.summary} for rule in RULES.values()]
    if as_json:
        return program.write_json(rows)
    from fairlead.surfaces.cli.render import table

    program.console.write(table(rows, program.console) + "\n")
    return 0


LINT = Command(
    "lint [--json | --sarif] [--ignore CODES] [--strict] [--rules]",
    (
        ("--json", "Print the findings as JSON; so it is where the output is not a terminal."),
        ("--sarif", "Print them as SARIF 2.1.0, for code hosts."),
        (
            "--ignore CODES",
            "Leave these out, separated by commas; [tool.fairlead.lint] ignore does the same.",
        ),
        ("--strict", "End with 1 for any finding, not only for errors."),
        ("--rules", "List the rules."),
    ),
    _lint,
    ("lint", "lint --ignore DESTRUCTIVE_MCP --strict"),
)
