"""How this process was started: the command's name, and the words one types to start it again.

A hint that names a command nobody has is worse than none. An app's name is not always a command: the app may
be a file that Python runs.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple


class Start(NamedTuple):
    """A program's name, how it is typed, and whether the name is a command that a shell can complete."""

    name: str
    typed: str
    command: bool = True


def started(name: str) -> Start:
    """How this process was started; `name` where that cannot be known."""
    script, *arguments = sys.argv or [""]
    if not script.endswith(".py") and os.path.isfile(script) and os.access(script, os.X_OK):
        return _command(script)
    before = sys.orig_argv[: len(sys.orig_argv) - len(arguments)]
    if script in ("", "-c") or [*before, *arguments] != sys.orig_argv:
        return Start(name, name)
    import shlex

    return Start(name, shlex.join(before), command=False)


def _command(script: str) -> Start:
    """An installed command; where the shell finds it, its name is enough."""
    folder, file = os.path.split(script)
    name = file.removesuffix(".exe")
    found = folder in os.environ.get("PATH", "").split(os.pathsep)
    return Start(name, name if found else script)
