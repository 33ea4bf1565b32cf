"""MCP over stdio: one call after another, many at a time, and the wait for the first answer."""

import statistics
import sys

from environments import CORE, MCP
from piping import Pipe, Piped, call_of, first_answer, line_of, pipes
from report import Section, micros, millis, percent, times
from rounds import Failures, Pace, Timing
from sections.start import PYDANTIC, Start
from task import VALID

OURS = "fairlead mcp --stdio"
FLOOR = "JSON-RPC lines, no protocol"
MANY = 16
#: Seconds that a batch of calls should take.
LENGTH = 0.15

SERVERS = [
    Piped(FLOOR, "python", ("-m", "servers.lines"), CORE, "pydantic", shakes=False),
    Piped(OURS, "fairlead", ("--app", "app:app", "mcp", "--stdio"), CORE, "fairlead"),
    Piped("mcp", "python", ("-m", "servers.tools", "official"), MCP, "mcp"),
    Piped("fastmcp", "python", ("-m", "servers.tools", "fastmcp"), MCP, "fastmcp"),
]
IMPORT = Start(PYDANTIC, CORE, "python", ("-c", PYDANTIC))

WHAT = f"""\
`tools/call` of the shared task, from one process to another over pipes: one call after another, and {MANY} sent at a
time.
The floor reads a line, validates the arguments, calls, validates the result and writes a line; it has no handshake
and runs nothing at once.
"First answer" is from the start of the process to its answer to `initialize`."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = (
        "server",
        "version",
        "µs a call",
        "spread",
        "of floor",
        f"µs, {MANY} at a time",
        "of floor",
        "first answer ms",
    )
    section = Section("mcp-stdio", "MCP over stdio", WHAT, columns)
    with pipes(SERVERS, failures) as running:
        right = [pipe for pipe in running if _does_the_job(pipe, failures)]
        results = _turns(right, pace)
    starts = _starts([pipe.piped for pipe in right if pipe.piped.shakes], pace)
    for pipe in right:
        name = pipe.piped.name
        one, many = results[name]
        version = pipe.piped.environment.versions()[pipe.piped.package]
        first = millis(starts[name].median) if name in starts else ""
        costs = [_cost(results, way, name) for way in (0, 1)]
        section.rows.append(
            (
                name,
                version,
                micros(one.median),
                percent(one.spread),
                costs[0],
                micros(many.median),
                costs[1],
                first,
            )
        )
        section.numbers[name] = {"one": one.median, "many": many.median}
    section.numbers["first_answer"] = {name: timing.median for name, timing in starts.items()}
    _judge(section, results, starts)
    return section


Timings = dict[str, tuple[Timing, Timing]]


def _cost(results: Timings, way: int, name: str) -> str:
    return times(results[name][way].cost(results[FLOOR][way])) if FLOOR in results else "-"


def _does_the_job(pipe: Pipe, failures: Failures) -> bool:
    answer = pipe.ask(line_of(call_of(1, VALID)))
    if VALID["title"].encode() in answer:
        return True
    failures.add(pipe.piped.name, "its answer does not show the function's output")
    return False


def _turns(running: list[Pipe], pace: Pace) -> Timings:
    results = {pipe.piped.name: (Timing(), Timing()) for pipe in running}
    one, many = line_of(call_of(2, VALID)), b"".join(line_of(call_of(3 + i, VALID)) for i in range(MANY))
    for pipe in running:
        pipe.time(one, 1, 100)
    counts = [max(1, round(LENGTH / pipe.time(one, 1, 100))) for pipe in running]
    for turn in range(pace.streams):
        print(f"  turn {turn + 1} of {pace.streams}", file=sys.stderr)
        for pipe, count in zip(running, counts, strict=True):
            alone, together = results[pipe.piped.name]
            alone.rounds.append(pipe.time(one, 1, count))
            together.rounds.append(pipe.time(many, MANY, max(1, count // MANY)))
    return results


def _starts(servers: list[Piped], pace: Pace) -> dict[str, Timing]:
    """How long each takes to its first answer, and `import pydantic` to its end. The slow ones seldom take part."""
    timings = {name: Timing() for name in (PYDANTIC, *(server.name for server in servers))}
    CORE.ensure()
    IMPORT.run()
    for turn in range(pace.processes):
        timings[PYDANTIC].rounds.append(IMPORT.run())
        for server in servers:
            if server.environment is CORE or turn % 7 == 0:
                timings[server.name].rounds.append(first_answer(server))
    return timings


def _judge(section: Section, results: Timings, starts: dict[str, Timing]) -> None:
    if OURS not in results:
        return
    one, many = results[OURS]
    if FLOOR in results:
        cost = one.cost(results[FLOOR][0])
        section.require("a call: at most 1.5 times the floor", times(cost), cost <= 1.5)
    for peer in ("mcp", "fastmcp"):
        if peer in results:
            ratio = min(results[peer][0].cost(one), results[peer][1].cost(many))
            section.require(f"at least 3 times as many calls as {peer}", times(ratio), ratio >= 3)
    ratio = statistics.median(starts[OURS].rounds) / starts[PYDANTIC].median
    section.require(f"first answer: within 2.5 times `{PYDANTIC}`", times(ratio), ratio <= 2.5)
