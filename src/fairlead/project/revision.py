"""The command line on a copy of a project as it was at another time.

    python -P -m fairlead.project.revision TOP COPY ARGUMENTS...

Where a project's folder is on Python's path, as it is when the project is installed in place, that of the copy takes
its stead: else the code of today would be taken for that of then.
"""

from __future__ import annotations

import os
import sys


def _then(path: str, top: str, copy: str) -> str:
    """A folder of the path, or its counterpart in the copy. An environment inside the project stays what it is."""
    real = os.path.realpath(path)
    if not _within(top, real) or _within(os.path.realpath(sys.prefix), real):
        return path
    return os.path.normpath(os.path.join(copy, os.path.relpath(real, top)))


def _within(folder: str, path: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


if __name__ == "__main__":
    from fairlead.surfaces.cli import main

    top, copy, *arguments = sys.argv[1:]
    sys.path[:] = [_then(each, os.path.realpath(top), os.path.realpath(copy)) for each in sys.path]
    main(arguments)
