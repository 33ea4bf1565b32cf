"""Importing an app in a process of its own: what it is, which files it consists of, and what importing it does.

    python -m fairlead.project.probe DIRECTORY TARGET OUT

The answer is written to a file, so that nothing the app prints can be mistaken for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fairlead._json import encode, loads

_LIMIT = 60.0


def probe(cwd: Path, target: str) -> dict[str, Any]:
    """`{module, attribute, root, files, actions, printed, threads, seconds}`, or `{failure}`."""
    with tempfile.TemporaryDirectory(prefix="fairlead-probe-") as folder:
        out = Path(folder, "told.json")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "fairlead.project.probe", str(cwd), target, str(out)],
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


def _look(directory: str, target: str) -> dict[str, Any]:
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
    except Failure as failure:
        return {"failure": failure.message}
    module, attribute = _where(app, set(sys.modules) - before)
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


def _where(app: object, names: set[str]) -> tuple[str, str]:
    """The module and name under which the app is found: the outermost, if there are several."""
    found = [
        (name, attribute)
        for name in names
        for attribute, value in list(vars(sys.modules[name]).items())
        if value is app
    ]
    return min(found, key=lambda each: (each[0].count("."), each))


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


def _tree(root: str, folder: str) -> set[str]:
    found: set[str] = set()
    for place, folders, files in os.walk(os.path.join(root, folder)):
        folders[:] = [each for each in folders if each != "__pycache__" and not each.startswith(".")]
        # What begins with a dot is the developer's own, a secret perhaps; a link may lead nowhere.
        kept = [file for file in files if not file.startswith(".") and not file.endswith((".pyc", ".pyo"))]
        there = [os.path.join(place, file) for file in kept if os.path.isfile(os.path.join(place, file))]
        found.update(os.path.relpath(file, root) for file in there)
    return found


if __name__ == "__main__":
    answer = _look(sys.argv[1], sys.argv[2])
    Path(sys.argv[3]).write_bytes(encode(answer))
    # Threads that the app started must not hold the answer back.
    os._exit(0)
