"""The Python that verbs have parts of their work done by, started warm: `[-P] -m MODULE ...` or `-c CODE ...`."""

from __future__ import annotations

import importlib
import os
import pkgutil
import runpy
import sys

import fairlead.schema

#: What is needed to look at an app, to build a wheel and to check and upload it.
MODULES = (
    "fairlead._json",
    "fairlead.runtime.app",
    "fairlead.surfaces.cli.locate",
    "fairlead.surfaces.mcp",
    "hatchling.bridge.app",
    "hatchling.build",
    "hatchling.builders.wheel",
    "hatchling.metadata.core",
    "readme_renderer.markdown",
    "rich.console",
    "trove_classifiers",
    "twine.cli",
    "twine.commands.check",
    "twine.commands.upload",
)
for name in MODULES:
    importlib.import_module(name)
for module in pkgutil.iter_modules(fairlead.schema.__path__, "fairlead.schema."):
    importlib.import_module(module.name)


def main(arguments: list[str]) -> None:
    sys.orig_argv[:] = ["python", *arguments]
    if arguments[0] == "-P":
        del sys.path[0], arguments[0]
    else:
        sys.path[0] = os.getcwd()
    option, what, *sys.argv[1:] = arguments
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(what, {"__name__": "__main__"})
