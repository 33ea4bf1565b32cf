"""`fairlead init`."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from fairlead.project.init import BASE, TEMPLATES, init_project
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import harmless

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program


def _init(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--force", "--json"), ("--cwd", "--name"), words=1)
    made = init_project(
        options.values.get("--cwd", "."),
        template=options.words[0] if options.words else BASE,
        name=options.values.get("--name"),
        force="--force" in options.on,
    )
    if "--json" in options.on or not program.console.out_tty:
        return program.write_json(made)
    lines = [f"Made {len(made['files'])} files in {made['cwd']}.", "Next:"]
    there = os.path.samefile(made["cwd"], ".")
    lines += [] if there else [f"  cd {shlex.quote(made['cwd'])}"]
    lines += [f"  {step}" for step in made["nextSteps"]]
    program.console.write(harmless("\n".join(lines)) + "\n")
    return 0


INIT = Command(
    "init [TEMPLATE] [--cwd DIR] [--name NAME] [--force]",
    (
        *((name, f"Make {what}.") for name, what in TEMPLATES.items()),
        ("--cwd DIR", "Where to; the folder is made. [default: this one]"),
        ("--name NAME", "What the app is called. [default: the folder's name]"),
        ("--force", "Replace files that are there already."),
        ("--json", "Print what was made as JSON; so it is where the output is not a terminal."),
    ),
    _init,
    ("init --cwd notes", "init fastapi --cwd api --name notes"),
)
