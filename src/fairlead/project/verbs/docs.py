"""`fairlead docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.project.documents import GUIDE, OUT_DIR, export_docs, llms_text
from fairlead.surfaces.cli.command import Command, Options

if TYPE_CHECKING:
    from fairlead.surfaces.cli.program import Program


def _docs(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, ("--html", "--llms", "--json"), ("--out-dir", "--filename", "--cwd"))
    app = program.the_app()
    given = options.values
    if "--html" not in options.on and not given:
        program.console.write(llms_text(app) if "--llms" in options.on else app.create_guide_doc())
        return 0
    written = export_docs(
        app,
        out_dir=given.get("--out-dir", OUT_DIR),
        filename=given.get("--filename", GUIDE),
        cwd=given.get("--cwd", "."),
        html="--html" in options.on,
        llms="--llms" in options.on,
    )
    return program.write_json(written)


DOCS = Command(
    "docs [--out-dir DIR] [--filename NAME] [--html] [--llms]",
    (
        ("--out-dir DIR", f"Write files there instead of printing. [default: {OUT_DIR}]"),
        ("--filename NAME", f"What the guide is called. [default: {GUIDE}]"),
        ("--cwd DIR", "The folder that DIR is in. [default: this one]"),
        ("--html", "Write a site for people, too."),
        ("--llms", "Write llms.txt, too; without other options, print it."),
    ),
    _docs,
    ("docs", "docs --out-dir dist/fairlead --html --llms"),
)
