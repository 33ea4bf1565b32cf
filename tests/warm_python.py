"""`python FILE ...`, started warm: a process with the usual packages imported, which is then the file's.

It knows no options of Python's. Warnings are as `PYTHONWARNINGS` has them, which is `error` or nothing.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import runpy
import sys
import warnings

#: What many of the files need; what few do is left to them.
for name in ("httpx", "mcp.client.streamable_http", "pydantic", "uvicorn"):
    importlib.import_module(name)

#: Fairlead imports most of itself when it is needed, which is when an app is made and its command line is run.
ROOMS = (
    "actions",
    "agents",
    "failures",
    "pipelines",
    "plugins",
    "runtime",
    "schema",
    "store",
    "surfaces.cli",
    "tasks",
)
for room in ROOMS:
    package = importlib.import_module(f"fairlead.{room}")
    for module in pkgutil.iter_modules(package.__path__, f"fairlead.{room}."):
        importlib.import_module(module.name)


def main(arguments: list[str]) -> None:
    sys.argv[:], sys.orig_argv[:] = arguments, ["python", *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if os.environ.get("PYTHONWARNINGS") != "error":
        warnings.resetwarnings()  # to what Python has without the option that this process was started with
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
    runpy.run_path(os.path.abspath(arguments[0]), run_name="__main__")
