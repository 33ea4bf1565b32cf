"""`fairlead docs`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairlead.project.documents import GUIDE, OUT_DIR, export_docs, llms_text
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.console import harmless
from fairlead.surfaces.cli.hints import wrong_option

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program


def _docs(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--html", "--llms", "--json"), ("--out-dir", "--filename", "--cwd"))
    given = options.values
    if not os.path.isdir(given.get("--cwd", ".")):
        raise wrong_option("--cwd", "there is no such folder")
    app = program.the_app()
    if not {"--html", "--json"} & options.on and not given:
        text = llms_text(app) if "--llms" in options.on else app.create_guide_doc()
        program.console.write(harmless(text) if program.console.out_tty else text)
        return 0
    written = export_docs(
        app,
        out_dir=given.get("--out-dir", OUT_DIR),
        filename=given.get("--filename", GUIDE),
        cwd=given.get("--cwd", "."),
        html="--html" in options.on,
        llms="--llms" in options.on,
    )
    if "--json" in options.on or not program.console.out_tty:
        return program.write_json(written)
    places = [os.path.relpath(each["path"]) for each in written["files"]]
    lines = ["Wrote:", *(f"  {place}" for place in places)]
    lines += [f"Open {place} in a browser." for place in places if place.endswith("index.html")]
    program.console.write(harmless("\n".join(lines)) + "\n")
    return 0


DOCS = Command(
    "docs [--out-dir DIR] [--html] [--llms] [--json]",
    (
        ("--out-dir DIR", f"Write files there instead of printing. [default: {OUT_DIR}]"),
        ("--filename NAME", f"What the guide is called. [default: {GUIDE}]"),
        ("--cwd DIR", "The folder that DIR is in. [default: this one]"),
        ("--html", "Write a site for people, too."),
        ("--llms", "Write llms.txt, too; without other options, print it."),
        ("--json", "Write the files, and print which as JSON; so it is where the output is not a terminal."),
    ),
    _docs,
    ("docs", "docs --out-dir dist/fairlead --html --llms"),
)
