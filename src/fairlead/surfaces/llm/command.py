"""`tools`: an app's actions in a provider's format, or how large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.actions import DefinitionError
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program


def _tools(program: Program, arguments: list[str]) -> int:
    switches = ("--report", "--json", "--strict", "--no-strict")
    options = Options(arguments, switches, ("--format", "--trim"), words=len(arguments))
    if {"--strict", "--no-strict"} <= options.on:
        raise wrong_option("--no-strict", "cannot be given together with --strict")
    tools = _made(program, options)
    if "--report" not in options.on:
        return program.write_json(_as_data(tools.definitions))
    report = tools.report()
    if "--json" in options.on:
        return program.write_json(report)
    return _write_report(program, report)


def _made(program: Program, options: Options) -> Any:
    from fairlead.surfaces.llm.formats import FORMATS
    from fairlead.surfaces.llm.tools import Tools

    format = options.values.get("--format", "openai")
    if format not in FORMATS:
        raise wrong_option("--format", f"expected one of {', '.join(FORMATS)}.{near_miss(format, FORMATS)}")
    trim = _trim(options)
    names = [name.replace("-", "_") for name in options.words]
    try:
        return Tools(
            program.the_app(), format, strict="--no-strict" not in options.on, trim=trim, only=names or None
        )
    except DefinitionError as exc:
        meant = next((each for each in options.words if each in FORMATS), None)
        hint = f" A format is given as --format {meant}." if meant else ""
        raise wrong_option("NAME", str(exc).removeprefix("Tools: ") + hint) from exc


def _trim(options: Options) -> int | None:
    given = options.values.get("--trim")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        raise wrong_option("--trim", "expected a whole number of characters, at least 1")
    return int(given)


#: What a tool of the AI SDK has that only a program can use.
_NO_DATA = ("parameters", "execute")


def _as_data(definitions: Any) -> Any:
    if not isinstance(definitions, dict):
        return definitions
    return {
        name: {key: value for key, value in each.items() if key not in _NO_DATA}
        for name, each in definitions.items()
    }


def _write_report(program: Program, report: dict[str, Any]) -> int:
    from fairlead.surfaces.cli.render import table

    rows = [
        {
            "tool": row["name"],
            "tokens": row["tokens"],
            "description": row["description"],
            "schema": row["schema"],
            "strict": "yes" if row["strict"] else row.get("reason", "no"),
        }
        for row in report["tools"]
    ]
    if rows:
        program.console.write(table(rows, program.console) + "\n")
    count = f"{len(rows)} tool{'' if len(rows) == 1 else 's'}"
    program.console.write(f"{count}, about {report['tokens']} tokens as {report['format']}.\n")
    return 0


TOOLS = Command(
    "tools [--format FORMAT] [--report] [--json] [--strict | --no-strict] [--trim N] [NAME...]",
    (
        ("--format FORMAT", "openai, openai-responses, anthropic, gemini or ai-sdk. [default: openai]"),
        ("--report", "Print about how many tokens each tool takes, instead of the tools."),
        ("--json", "Print the report as JSON; the tools are JSON anyway."),
        ("--no-strict", "Leave the schemas as they are declared. [default: --strict]"),
        ("--trim N", "Cut descriptions to N characters; drop titles, examples and defaults."),
        ("NAME", "Only the actions of these names."),
    ),
    _tools,
    ("tools --format anthropic", "tools --report --trim 200"),
)
