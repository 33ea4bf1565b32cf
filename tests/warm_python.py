"""`python FILE ...`, `python -m MODULE ...` or `python -c TEXT ...`, started warm: a process with the usual packages
imported, which is then the program's.

It knows no other options of Python's. Warnings are as `PYTHONWARNINGS` has them, which is `error` or nothing; and
`sys.executable` is what `WARM_EXECUTABLE` names, if it names anything.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import runpy
import sys
import warnings

#: What many of the files need; what few do is left to them.
NEEDED = (
    *("getpass", "httpx", "httpcore", "h11", "anyio._backends._asyncio", "mcp.client.streamable_http"),
    *("pydantic.experimental.arguments_schema",),
    *("uvicorn", "uvicorn.lifespan.on", "uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl"),
    *("uvicorn.protocols.websockets.websockets_sansio_impl", "nats", "psycopg"),
)
for name in NEEDED:
    importlib.import_module(name)

#: Fairlead imports most of itself when it is needed, which is when an app is made and its command line is run.
ROOMS = (
    "actions",
    "agents",
    "failures",
    "gateway",
    "pipelines",
    "plugins",
    "runtime",
    "schema",
    "store",
    "surfaces",
    "surfaces.auth",
    "surfaces.cli",
    "surfaces.http",
    "surfaces.mcp",
    "tasks",
)
#: Few of the files need these, and the packages that they are made of take a third of the time of all.
UNUSUAL = {"fairlead.gateway.a2a_bridge", "fairlead.gateway.a2a_words"}
for room in ROOMS:
    package = importlib.import_module(f"fairlead.{room}")
    for module in pkgutil.iter_modules(package.__path__, f"fairlead.{room}."):
        if module.name not in UNUSUAL:
            importlib.import_module(module.name)


def main(arguments: list[str]) -> None:
    sys.orig_argv[:] = ["python", *arguments]
    sys.executable = os.environ.get("WARM_EXECUTABLE", sys.executable)
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if os.environ.get("PYTHONWARNINGS") != "error":
        warnings.resetwarnings()  # to what Python has without the option that this process was started with
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
    if arguments[0] == "-m":
        sys.argv[:], sys.path[0] = arguments[1:], os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv[:], sys.path[0] = ["-c", *arguments[2:]], ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv[:], sys.path[0] = arguments, os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(os.path.abspath(arguments[0]), run_name="__main__")
