"""The Python of an environment that something is installed in, started warm: `FILE ...` or `[-P] -m MODULE ...`.

Only what stays there as it is has been imported, if it is there. What a command starts as `sys.executable` is what
`WARM_EXECUTABLE` names, if it names anything.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import runpy
import sys
from contextlib import suppress

#: What commands, servers and tests of every project need.
PACKAGES = (
    *("fairlead", "fairlead.actions", "fairlead.failures", "fairlead.runtime", "fairlead.schema"),
    *("fairlead.surfaces", "fairlead.surfaces.cli", "fairlead.surfaces.http", "fairlead.surfaces.mcp"),
    *("fairlead.testing", "_pytest", "_pytest.assertion", "_pytest.config", "_pytest._code", "_pytest._io"),
    *("_pytest.mark", "pytest_asyncio", "httpx", "httpcore", "anyio"),
)
for name in PACKAGES:
    with suppress(ImportError):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if not module.name.endswith(".__main__"):
                with suppress(ImportError):
                    importlib.import_module(module.name)


def main(arguments: list[str]) -> None:
    sys.orig_argv[:] = [sys.executable, *arguments]
    sys.executable = os.environ.get("WARM_EXECUTABLE", sys.executable)
    sys.path[0] = os.getcwd()
    if arguments[0] == "-P":
        del sys.path[0], arguments[0]
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:], sys.path[0] = arguments, os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")
