"""Importing an app in a process of its own: what it is, which files it consists of, and what importing it does.

    python -m fairlead.project.probe DIRECTORY TARGET OUT [SERVER]

The answer is written to a file, so that nothing the app prints can be mistaken for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fairlead._json import encode, loads

#: Where `fairlead keys` keeps them.
KEYS_FILE: Final = "fairlead-keys.json"
#: A project may have a `types.py`: its folder is searched when the app is imported, and not before.
_COMMAND: Final = (sys.executable, "-P", "-m", "fairlead.project.probe")
_LIMIT = 60.0


def probe(cwd: Path, target: str, server: str | None = None) -> dict[str, Any]:
    """`{module, attribute, root, files, actions, printed, threads, seconds}`, or `{failure}`."""
    with tempfile.TemporaryDirectory(prefix="fairlead-probe-") as folder:
        out = Path(folder, "told.json")
        try:
            done = subprocess.run(
                [*_COMMAND, str(cwd), target, str(out), *([server] if server else [])],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failure": f"Importing the app took more than {_LIMIT:.0f} seconds."}
        if not out.is_file():
            return {"failure": f"Importing the app ended the process with {done.returncode}."}
        told: dict[str, Any] = loads(out.read_bytes())
        return told


def _look(directory: str, target: str, server: str | None) -> dict[str, Any]:
    import threading
    import time
    from contextlib import redirect_stdout
    from io import StringIO

    from fairlead.failures import Failure
    from fairlead.surfaces.cli import locate

    said = StringIO()
    threads, began = threading.active_count(), time.perf_counter()
    before = set(sys.modules)
    try:
        with redirect_stdout(said):
            app = locate.load(locate.Place(target, "the project"), directory)
            lacking = server and _no_server(server)
    except Failure as failure:
        return {"failure": failure.message}
    if lacking:
        return {"failure": lacking}
    place = _where(app, set(sys.modules) - before)
    if place is None:
        return {
            "failure": f"No module has the app {target!r} by a name of its own. Write `app = ...` in one."
        }
    module, attribute = place
    root = _root(module)
    return {
        "name": app.name,
        "module": module,
        "attribute": attribute,
        "root": root,
        "files": sorted(_files(root, set(sys.modules) - before)),
        "actions": len(app.actions),
        "printed": bool(said.getvalue()),
        "threads": threading.active_count() - threads,
        "seconds": time.perf_counter() - began,
    }


def _no_server(target: str) -> str | None:
    """Import the app's own MCP server, too; gives what is wrong with it."""
    from importlib import import_module

    from fairlead.surfaces.mcp import Server

    module, _, name = target.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as exc:  # whatever the module's own code raises while it is imported
        return f"mcp.server names {target!r}, which cannot be imported: {type(exc).__name__}: {exc}."
    if not isinstance(found, Server):
        return f"mcp.server names {target!r}, which is no MCP server. Write `server = app.mcp()` there."
    return None


def _where(app: object, names: set[str]) -> tuple[str, str] | None:
    """The module and name under which the app is found: the outermost, if there are several."""
    found = [
        (name, attribute)
        for name in names
        for attribute, value in list(vars(sys.modules[name]).items())
        if value is app
    ]
    return min(found, key=lambda each: (each[0].count("."), each), default=None)


def _root(module: str) -> str:
    """The directory that the module's outermost package is imported from."""
    file = os.path.realpath(sys.modules[module].__file__ or "")
    package = os.path.basename(file) == "__init__.py"
    for _ in range(module.count(".") + 1 + package):
        file = os.path.dirname(file)
    return file


def _files(root: str, names: set[str]) -> set[str]:
    """The project's own files: single modules, and packages whole, with the data in them."""
    found: set[str] = set()
    for name in names:
        given = getattr(sys.modules[name], "__file__", None)
        inside = os.path.relpath(os.path.realpath(given), root) if given else ".."
        if inside.startswith("..") or "site-packages" in inside:
            continue
        top = inside.split(os.sep)[0]
        found.update(_tree(root, top) if os.path.isdir(os.path.join(root, top)) else [inside])
    return found


def is_given_away(parts: Sequence[str], asked: str = "") -> bool:
    """Whether a file may be packed: not what is the developer's own, a secret perhaps, or made by running it.

    What begins with a dot has to be asked for by a pattern that says so.
    """
    hidden = any(part.startswith(".") for part in parts) and "." not in {
        part[:1] for part in asked.split("/")
    }
    made = "__pycache__" in parts or parts[-1].endswith((".pyc", ".pyo"))
    return not hidden and not made and parts[-1] != KEYS_FILE


def _tree(root: str, folder: str) -> set[str]:
    found: set[str] = set()
    for place, folders, files in os.walk(os.path.join(root, folder)):
        folders[:] = [each for each in folders if is_given_away((each,))]
        kept = [file for file in files if is_given_away((file,))]
        # A link may lead nowhere.
        there = [os.path.join(place, file) for file in kept if os.path.isfile(os.path.join(place, file))]
        found.update(os.path.relpath(file, root) for file in there)
    return found


if __name__ == "__main__":
    answer = _look(sys.argv[1], sys.argv[2], sys.argv[4] if len(sys.argv) > 4 else None)
    Path(sys.argv[3]).write_bytes(encode(answer))
    # Threads that the app started must not hold the answer back.
    os._exit(0)
