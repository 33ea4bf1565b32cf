"""How many messages a second pass through a pipeline, beside a graph library that does the same; how long a program
is checked, and what it costs to start one."""

import subprocess
import sys
import time

from environments import CORE, PEERS, ROOT
from report import Section, millis, percent, times
from rounds import Contender, Failures, Pace, Timing, Worker, workers

#: Messages of one round: for those who pass many a second, and for those who do not.
MANY, FEW = 20_000, 100
PAIR, SHORT, CHAIN = "fairlead, map ; filter", "fairlead, 10 nodes", "fairlead, 100 nodes"
PEER_PAIR, PEER_CHAIN = "langgraph, 2 nodes", "langgraph, 100 nodes"
CHECK = "fairlead, checking 1,000 bindings"
RUN, PYDANTIC = "plumb run, from start to end", "import pydantic"

CONTENDERS = [
    Contender(PAIR, "contenders.pipelines", "pair"),
    Contender(SHORT, "contenders.pipelines", "short_chain"),
    Contender(CHAIN, "contenders.pipelines", "chain"),
    Contender(PEER_PAIR, "contenders.langgraph_nodes", "pair", PEERS, "langgraph"),
    Contender(PEER_CHAIN, "contenders.langgraph_nodes", "chain", PEERS, "langgraph"),
    Contender(CHECK, "contenders.pipelines", "checking"),
]

WHAT = """\
Records go in, each is checked against its type, and what comes out is counted, all in one process.
LangGraph checks no types; each message is a run of its graph."""


def measure(pace: Pace, failures: Failures) -> Section:
    section = Section(
        "pipelines", "Pipelines", WHAT, ("pipeline", "messages a second", "spread", "of fairlead")
    )
    with workers(CONTENDERS, failures) as running:
        results = _turns(running, pace)
    checking = results.pop(CHECK, None)
    for name, timing in results.items():
        ours = results.get({PAIR: PAIR, PEER_PAIR: PAIR, SHORT: SHORT}.get(name, CHAIN))
        part = times(ours.median / timing.median) if ours else "-"
        section.rows.append((name, f"{1 / timing.median:,.0f}", percent(timing.spread), part))
        section.numbers[name] = {"messages_per_second": 1 / timing.median}
    _judge(section, results)
    if checking is not None:
        section.numbers[CHECK] = {"seconds": checking.median}
        promise = "checking a program of 1,000 bindings: less than a second"
        section.require(promise, f"{millis(checking.median)} ms", checking.median < 1)
    try:
        _judge_start(section, pace)
    except (OSError, subprocess.CalledProcessError) as reason:
        failures.add(RUN, reason)
    return section


def _judge(section: Section, results: dict[str, Timing]) -> None:
    if PAIR in results:
        rate = 1 / results[PAIR].median
        section.require("map ; filter: at least 150,000 messages a second", f"{rate:,.0f}", rate >= 150_000)
    for ours, theirs in ((PAIR, PEER_PAIR), (CHAIN, PEER_CHAIN)):
        if ours in results and theirs in results:
            ratio = results[theirs].median / results[ours].median
            section.require(f"{ours}: at least 10 times langgraph", f"{ratio:,.0f} times", ratio >= 10)
    if SHORT in results and CHAIN in results:
        cost = results[CHAIN].median / results[SHORT].median
        section.require("100 nodes cost at most 11 times what 10 do", f"{cost:.1f} times", cost <= 11)


def _judge_start(section: Section, pace: Pace) -> None:
    """Whole processes, in turns: a run of a small program, and the import."""
    binaries = CORE.path / "bin"
    program = ROOT / "docs" / "examples" / "sizing.plumb"
    messages = program.with_suffix(".jsonl").read_bytes()
    commands = {
        PYDANTIC: [str(binaries / "python"), "-c", PYDANTIC],
        RUN: [str(binaries / "plumb"), "run", str(program)],
    }
    timings = {name: Timing() for name in commands}
    for _ in range(pace.processes):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, input=messages, capture_output=True, check=True)
            timings[name].rounds.append(time.perf_counter() - start)
    section.numbers["start_seconds"] = {name: timing.median for name, timing in timings.items()}
    ratio = timings[RUN].median / timings[PYDANTIC].median
    section.require(f"{RUN}: less than 2 times `{PYDANTIC}`", times(ratio), ratio < 2)


def _turns(running: list[Worker], pace: Pace) -> dict[str, Timing]:
    results = {worker.contender.name: Timing() for worker in running}
    for turn in range(pace.streams):
        print(f"  turn {turn + 1} of {pace.streams}", file=sys.stderr)
        for worker in running:
            size = _size(worker.contender.name)
            if turn == 0:
                worker.time(size)
            results[worker.contender.name].rounds.append(worker.time(size) / size)
    return results


def _size(name: str) -> int:
    if name == CHECK:
        return 1
    return MANY if name.startswith("fairlead") else FEW
