"""How many messages a second pass through a pipeline, beside a graph library that does the same."""

import sys

from environments import PEERS
from report import Section, percent, times
from rounds import Contender, Failures, Pace, Timing, Worker, workers

#: Messages of one round: for those who pass many a second, and for those who do not.
MANY, FEW = 20_000, 100
PAIR, CHAIN = "fairlead, map ; filter", "fairlead, 100 nodes"
PEER_PAIR, PEER_CHAIN = "langgraph, 2 nodes", "langgraph, 100 nodes"

CONTENDERS = [
    Contender(PAIR, "contenders.pipelines", "pair"),
    Contender(CHAIN, "contenders.pipelines", "chain"),
    Contender(PEER_PAIR, "contenders.langgraph_nodes", "pair", PEERS, "langgraph"),
    Contender(PEER_CHAIN, "contenders.langgraph_nodes", "chain", PEERS, "langgraph"),
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
    for name, timing in results.items():
        ours = results.get(PAIR if name in (PAIR, PEER_PAIR) else CHAIN)
        part = times(ours.median / timing.median) if ours else "-"
        section.rows.append((name, f"{1 / timing.median:,.0f}", percent(timing.spread), part))
        section.numbers[name] = {"messages_per_second": 1 / timing.median}
    if PAIR in results:
        rate = 1 / results[PAIR].median
        section.require("map ; filter: at least 150,000 messages a second", f"{rate:,.0f}", rate >= 150_000)
    for ours, theirs in ((PAIR, PEER_PAIR), (CHAIN, PEER_CHAIN)):
        if ours in results and theirs in results:
            ratio = results[theirs].median / results[ours].median
            section.require(f"{ours}: at least 10 times langgraph", f"{ratio:,.0f} times", ratio >= 10)
    if PAIR in results and CHAIN in results:
        cost = results[CHAIN].median / results[PAIR].median
        section.require("100 nodes cost at most 100 times what 2 do", f"{cost:,.0f} times", cost <= 100)
    return section


def _turns(running: list[Worker], pace: Pace) -> dict[str, Timing]:
    results = {worker.contender.name: Timing() for worker in running}
    for turn in range(pace.streams):
        print(f"  turn {turn + 1} of {pace.streams}", file=sys.stderr)
        for worker in running:
            size = MANY if worker.contender.name.startswith("fairlead") else FEW
            if turn == 0:
                worker.time(size)
            results[worker.contender.name].rounds.append(worker.time(size) / size)
    return results
