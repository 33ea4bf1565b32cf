"""`fairlead doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.project.config import settings_schema
from fairlead.project.doctor import doctor_project
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import BOLD, CYAN, YELLOW, harmless_line
from fairlead.surfaces.cli.hints import wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program


def _doctor(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--json", "--fix", "--schema"), ("--cwd",))
    if "--schema" in options.on:
        return program.write_json(settings_schema())
    cwd = Path(options.values.get("--cwd", "."))
    if not cwd.is_dir():
        raise wrong_option("--cwd", "there is no such folder")
    report = doctor_project(cwd, target=program.target, fix="--fix" in options.on)
    if "--json" in options.on or not program.console.out_tty:
        program.write_json(report)
    else:
        program.console.write(_told(program, report))
    return 0 if report["ok"] else 1


def _told(program: Program, report: dict[str, Any]) -> str:
    paint = program.console.out
    lines = []
    for check in report["checks"]:
        mark = paint("!", YELLOW) if check["level"] == "warning" else paint("-", CYAN)
        lines.append(f"{mark} {paint(check['code'], BOLD)}: {harmless_line(check['message'])}")
        if check.get("wayOut"):
            lines.append(f"    {harmless_line(check['wayOut'])}")
    lines += [f"Fixed: {', '.join(report['fixed'])}."] if report["fixed"] else []
    warnings = sum(check["level"] == "warning" for check in report["checks"])
    found = f"{warnings} thing{'s' * (warnings > 1)} to look at." if warnings else "All is well."
    return "\n".join([*lines, found, ""])


DOCTOR = Command(
    "doctor [--fix] [--json] [--schema] [--cwd DIR]",
    (
        ("--fix", "Mend what can be mended safely."),
        ("--schema", "Print the JSON Schema of the settings, for editors."),
        ("--json", "Print the checks as JSON; so it is where the output is not a terminal."),
        ("--cwd DIR", "The project's folder. [default: this one]"),
    ),
    _doctor,
    ("doctor", "doctor --fix", "doctor --schema > fairlead.schema.json"),
)
