"""`fairlead plugin create`: a plugin, in C or in Python, that runs and can be installed as it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from fairlead.failures import Failure, Kind
from fairlead.project.identity import slug_of
from fairlead.project.writing import write_files

FOLDER: Final = Path(__file__).parent / "templates" / "plugin"
IN_PYTHON: Final = Path(__file__).parent / "templates" / "plugin_py"
#: How the template calls itself.
_PLACEHOLDER: Final = "my-app"


def create_plugin(
    folder: Path, *, id: str | None = None, force: bool = False, python: bool = False
) -> dict[str, Any]:
    """Write a plugin's project into a folder; gives `{ok, id, cwd, files, nextSteps}`.

    Raises:
        Failure: the name cannot be used, or a file is there already: then nothing is written.
    """
    from fairlead.plugins.manifest import check_id

    name = slug_of(folder.resolve().name)
    if re.fullmatch(r"[a-z][a-z0-9-]{0,63}", name) is None:
        raise Failure(Kind.invalid_input, f"A plugin cannot be called {name[:70]!r}: begin with a letter.")
    chosen = check_id(id or f"com.example.{name}")
    files = {
        place: text.replace(f"com.example.{_PLACEHOLDER}", chosen).replace(_PLACEHOLDER, name)
        for place, text in _template(IN_PYTHON if python else FOLDER).items()
    }
    taken = sorted(place for place in files if os.path.lexists(folder / place))
    if taken and not force:
        raise Failure(
            Kind.conflict,
            f"Already there: {', '.join(taken)}. Nothing was written. Choose another name, or --force to replace them.",
        )
    write_files(folder, files)
    tried = """hello '{"name": "Ada"}'"""
    if python:
        steps = [f"fairlead plugin run . {tried}", "fairlead plugin test ."]
    else:
        steps = ["fairlead plugin build", f"fairlead plugin run build/{chosen} {tried}"]
    return {"ok": True, "id": chosen, "cwd": str(folder), "files": sorted(files), "nextSteps": steps}


def _template(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            inside = path.relative_to(folder).as_posix()
            found[".gitignore" if inside == "gitignore" else inside] = path.read_text("utf-8")
    return found
