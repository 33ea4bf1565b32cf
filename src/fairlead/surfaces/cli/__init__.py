"""The command line: `fairlead --app MODULE:NAME ACTION ...` for any app, `app.cli()` for an app's own."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fairlead.surfaces.cli.console import Console
from fairlead.surfaces.cli.identity import Identity, local
from fairlead.surfaces.cli.program import Program
from fairlead.surfaces.cli.start import Start, started

if TYPE_CHECKING:
    from fairlead.runtime import App

__all__ = ["Console", "main", "run", "run_packaged"]

_LOCAL: Final[Any] = object()


def run(
    app: App,
    argv: Sequence[str] | None = None,
    *,
    user: Any = _LOCAL,
    auth: Any = _LOCAL,
    console: Console | None = None,
) -> NoReturn:
    """Run one app's command line and exit with its code.

    The calls are made for the person who runs the program, with every permission, unless `user` or `auth`
    say otherwise.
    """
    person = local()
    who = Identity(person.user if user is _LOCAL else user, person.auth if auth is _LOCAL else auth)
    _exit(Program(_start(app.name, argv), console or Console(), app, who), argv)


def main(argv: Sequence[str] | None = None, *, console: Console | None = None) -> NoReturn:
    """Run `fairlead` and exit with its code."""
    _exit(Program(_start("fairlead", argv), console or Console()), argv)


def run_packaged(target: str, *command: str) -> NoReturn:
    """Run the command line of the app that `MODULE:NAME` names, as a program of its own, and exit with its code.

    What launchers and installed commands call: the app is imported when it is needed, as `fairlead` does.
    """
    start = started(target.partition(":")[0])
    _exit(Program(start, Console(), home=target), [*command, *sys.argv[1:]])


def _start(name: str, argv: Sequence[str] | None) -> Start:
    """Arguments of the host program's own say nothing about how it was started."""
    return started(name) if argv is None else Start(name, name)


def _exit(program: Program, argv: Sequence[str] | None) -> NoReturn:
    # A process that ends gives its memory back as a whole: Python need not look for garbage in it first.
    atexit.register(gc.freeze)
    program.alone = argv is None
    sys.exit(program.run(sys.argv[1:] if argv is None else argv))
