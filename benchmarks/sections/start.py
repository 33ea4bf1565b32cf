"""How long a program waits before it can do anything: imports, and the command line from start to end."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from environments import BENCHMARKS, CORE, HOME, MCP, PEERS, ROOT, Environment, SetupError
from report import Section, millis, percent, times
from rounds import Failures, Pace, Timing

PYDANTIC = "import pydantic"
FAIRLEAD = "import fairlead"
HELP = "fairlead --help"
PLAIN = "fairlead, a call on an app of plain types"
CALL = "fairlead, a call on an app with a constraint"
BOARD = "fairlead, a call on examples/taskboard"

WHAT = """\
Whole processes, started in turns, from start to end.
"Net" is what is left without the bare start of the interpreter in the same environment.
The app of plain types imports nothing but Fairlead, the one with a constraint imports pydantic's `Field` too,
and `examples/taskboard` more than that.
For a peer it is the import that one needs to define and call a tool."""

#: Peers take seconds to import: they take part in every third turn.
SLOW = 3
#: The example's board is kept under the benchmarks' own environments.
ENVIRON = {**os.environ, "TASKBOARD_DB": str(HOME / "taskboard.sqlite")}


@dataclass(frozen=True)
class Start:
    """A process to time: the program, from an environment's `bin`, and its arguments."""

    name: str
    environment: Environment
    program: str
    arguments: tuple[str, ...]
    folder: Path = ROOT

    def run(self) -> float:
        """Seconds from start to end."""
        command = [str(self.environment.path / "bin" / self.program), *self.arguments]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=self.folder, env=ENVIRON, capture_output=True, text=True)
        taken = time.perf_counter() - start
        if done.returncode:
            words = done.stderr.strip().splitlines()
            raise StartError(words[-1] if words else f"ended with {done.returncode}")
        return taken


class StartError(Exception):
    """A process did not end well."""


def _python(environment: Environment, code: str, name: str = "") -> Start:
    return Start(name or code, environment, "python", ("-c", code))


def _fairlead(name: str, folder: Path, *arguments: str) -> Start:
    return Start(name, CORE, "fairlead", arguments, folder)


CREATE = ("create_task", "--title", "Write", "--priority", "2")

EMPTY = {
    env.name: _python(env, "pass", f"python, nothing imported ({env.name})") for env in (CORE, PEERS, MCP)
}

STARTS = [
    *EMPTY.values(),
    _python(CORE, PYDANTIC),
    _python(CORE, "from pydantic import Field"),
    _python(CORE, "from pydantic import BaseModel"),
    _python(CORE, "import asyncio"),
    _python(CORE, FAIRLEAD),
    _python(CORE, "from fairlead import App"),
    _fairlead(HELP, ROOT, "--help"),
    _fairlead(PLAIN, BENCHMARKS, "--app", "plain_app:app", *CREATE),
    _fairlead(CALL, BENCHMARKS, "--app", "app:app", *CREATE),
    _fairlead(BOARD, ROOT / "examples" / "taskboard", "--app", "app:app", "list_tasks"),
    _python(PEERS, "from pydantic_ai import FunctionToolset"),
    _python(PEERS, "from strands import tool"),
    _python(PEERS, "from google.adk.tools import FunctionTool"),
    _python(PEERS, "from agents import function_tool"),
    _python(PEERS, "import arcade_tdk, arcade_core.executor"),
    _python(PEERS, "from langchain_core.tools import tool"),
    _python(MCP, "from mcp.server import MCPServer"),
    _python(MCP, "from fastmcp import FastMCP"),
]


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("process", "ms", "spread", "net ms", "net, of import pydantic", "whole, of import pydantic")
    section = Section("start", "Import and start", WHAT, columns)
    timings = _turns(_able(failures), pace)
    net = {start.name: timing.median - _empty(timings, start) for start, timing in timings.items()}
    whole = {start.name: timing.median for start, timing in timings.items()}
    section.numbers = {"seconds": whole, "net_seconds": net}
    for start, timing in timings.items():
        ratios = _ratios(net, whole, start.name) if PYDANTIC in net else ("-", "-")
        section.rows.append(
            (start.name, millis(timing.median), percent(timing.spread), millis(net[start.name]), *ratios)
        )
    if PYDANTIC in net:
        _judge(section, net, whole)
    return section


def _able(failures: Failures) -> list[Start]:
    """Those that run at all, each run once so that every compiled file is there."""
    able = []
    for start in STARTS:
        try:
            start.environment.ensure()
            start.run()
            able.append(start)
        except (SetupError, StartError, OSError) as reason:
            failures.add(start.name, reason)
    return able


def _turns(starts: list[Start], pace: Pace) -> dict[Start, Timing]:
    timings = {start: Timing() for start in starts}
    for turn in range(pace.processes):
        print(f"  turn {turn + 1} of {pace.processes}", file=sys.stderr)
        for start, timing in timings.items():
            if start.environment is CORE or turn % SLOW == 0:
                timing.rounds.append(start.run())
    return timings


def _empty(timings: dict[Start, Timing], start: Start) -> float:
    return timings[EMPTY[start.environment.name]].median


def _ratios(net: dict[str, float], whole: dict[str, float], name: str) -> tuple[str, str]:
    return times(net[name] / net[PYDANTIC]), times(whole[name] / whole[PYDANTIC])


def _judge(section: Section, net: dict[str, float], whole: dict[str, float]) -> None:
    """An import is judged by itself, a command as the process it is."""
    if FAIRLEAD in net:
        ratio = net[FAIRLEAD] / net[PYDANTIC]
        section.require(f"`{FAIRLEAD}`: at most 1.3 times `{PYDANTIC}`, net", times(ratio), ratio <= 1.3)
    for name in (HELP, PLAIN, CALL, BOARD):
        if name in whole:
            ratio = whole[name] / whole[PYDANTIC]
            section.require(f"{name}: at most 2 times `{PYDANTIC}`, whole", times(ratio), ratio <= 2)
