"""The commands about the app and its failures, which every program has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.failures import Entry
    from fairlead.surfaces.cli.program import Program


def _write_table(program: Program, rows: list[dict[str, Any]]) -> int:
    from fairlead.surfaces.cli.render import table

    program.console.write(table(rows, program.console) + "\n")
    return 0


def _actions(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--json",), ("--output",))
    output = options.values.get("--output", "json" if options.on or not program.console.out_tty else "table")
    if output not in ("json", "table"):
        raise wrong_option("--output", f"expected json or table.{near_miss(output, ('json', 'table'))}")
    app = program.the_app()
    if output == "json":
        return program.write_json(app.action_manifest("cli"))
    from fairlead.surfaces.exposed import shown

    rows = [
        {
            "action": action.command_name,
            "effects": action.side_effects,
            "description": action.description + (" [deprecated]" if action.deprecated else ""),
        }
        for action in shown(app, "cli")
    ]
    return _write_table(program, rows)


def _manifest(program: Program, arguments: list[str]) -> int:
    Options(arguments, ("--json",))
    return program.write_json(program.the_app().manifest("cli"))


def _errors(program: Program, arguments: list[str]) -> int:
    from fairlead.failures import catalogue, families

    options = Options(arguments, ("--json",), ("--family",), words=1)
    family = options.values.get("--family")
    if family is not None and family not in families():
        expected = f"expected one of {', '.join(families())}.{near_miss(family, families())}"
        raise wrong_option("--family", expected)
    _learn_codes(program)
    entries = list(catalogue(family))
    if not options.words:
        if options.on:
            return program.write_json([_entry(each) for each in entries])
        return _write_table(program, [_brief(each) for each in entries])
    wanted = options.words[0]
    found = [each for each in entries if each.code.lower() == wanted.lower()]
    if not found:
        hint = near_miss(wanted.upper(), [each.code for each in entries]) or near_miss(
            wanted.lower(), [each.code for each in entries]
        )
        raise Failure(
            Kind.not_found,
            f"No failure code is named {wanted!r}.{hint} '{program.spelled} errors' lists them.",
        )
    if options.on:
        return program.write_json([_entry(each) for each in found])
    program.console.write("\n".join(_explained(program, each) for each in found))
    return 0


def _learn_codes(program: Program) -> None:
    """Import the app, so that its own codes are known; without it the built-in ones still are."""
    try:
        program.find_app()
    except Failure as failure:
        program.console.say(f"The app's own codes are missing: {failure.message}")


def _brief(entry: Entry) -> dict[str, Any]:
    return {
        "code": entry.code,
        "family": entry.family,
        "http": entry.http_status,
        "exit": entry.exit_code,
        "retry": "yes" if entry.retryable else "",
        "meaning": entry.message,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    from fairlead.failures import PIVOT, families

    words = {family: PIVOT[entry.kind].on(family) for family in families() if family != entry.family}
    return {
        "code": entry.code,
        "family": entry.family,
        "kind": entry.kind.value,
        "message": entry.message,
        "httpStatus": entry.http_status,
        "exitCode": entry.exit_code,
        "retryable": entry.retryable,
        "elsewhere": words,
    }


def _explained(program: Program, entry: Entry) -> str:
    from fairlead.surfaces.cli.console import BOLD, DIM

    paint = program.console.out
    told = _entry(entry)
    lines = [f"{paint(entry.code, BOLD)} {paint(f'({entry.family} family, kind {entry.kind.value})', DIM)}"]
    lines.append(f"  {entry.message}")
    numbers = [("HTTP status", entry.http_status), ("exit code", entry.exit_code)]
    facts = [f"{name} {number}" for name, number in numbers if number is not None]
    facts.append(
        "the same call may succeed if tried again"
        if entry.retryable
        else "trying the same again will not help"
    )
    lines.append(f"  {', '.join(facts)}.")
    lines.append(
        "  Elsewhere: " + ", ".join(f"{family} {word}" for family, word in told["elsewhere"].items()) + "."
    )
    return "\n".join(lines) + "\n"


def _version(program: Program, arguments: list[str]) -> int:
    import platform
    from importlib import metadata

    options = Options(arguments, ("--json",))
    versions = {"fairlead": metadata.version("fairlead"), "python": platform.python_version()}
    for requirement in metadata.requires("fairlead") or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if "extra ==" not in requirement:
            versions[name] = metadata.version(name)
    if options.on:
        return program.write_json(versions)
    program.console.write("".join(f"{name} {version}\n" for name, version in versions.items()))
    return 0


def _json_lines(program: Program, arguments: list[str]) -> int:
    Options(arguments)
    from fairlead.surfaces.cli.lines import serve

    return serve(program.the_app(), program.identity, program.console)


def _help(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, words=1)
    return program.help_for(options.words[0]) if options.words else program.help()


_JSON_ROW = ("--json", "Print JSON.")

ACTIONS = Command(
    "actions [--json | --output json|table]",
    (_JSON_ROW, ("--output FORMAT", "json or table.")),
    _actions,
)
MANIFEST = Command("manifest", (), _manifest)
ERRORS = Command(
    "errors [CODE] [--family FAMILY] [--json]",
    (("--family FAMILY", "Only the codes of action, tool, host, gateway or runtime."), _JSON_ROW),
    _errors,
)
JSON = Command(
    "json",
    (
        (
            "stdin",
            '{"action": "name", "input": {}, "confirm": true, "idempotencyKey": "k", "timeoutMs": 5000}',
        ),
    ),
    _json_lines,
)
VERSION = Command("version [--json]", (_JSON_ROW,), _version)
HELP = Command("help [COMMAND]", (), _help)
