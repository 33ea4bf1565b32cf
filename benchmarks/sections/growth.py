"""What a call costs when there are 1, 10, 100 and 1,000 of everything: actions, agents, tasks, calls, connections."""

import http.client
import json
import socket
import sys
import time
from collections.abc import Sequence

from fairlead.tools.charts import chart
from fairlead.tools.charts_svg import svg
from hosting import JSON, Host, Site, hosts
from report import Section, micros, times
from rounds import Contender, Failures, Pace, Timing, contest, workers
from task import VALID

COUNTS = (1, 10, 100, 1000)
KINDS = {
    "actions": "a call, beside so many actions",
    "agents": "an agent's run, beside so many agents",
    "calls": "a call, while so many are under way",
    "tasks": "a task submitted, behind so many that wait",
}
CONNECTIONS = "connections"
SITE = Site("fairlead", "servers.fairlead:site", "/fairlead/actions/create_task/invoke")
#: Requests of one turn on one connection.
REQUESTS = 200
#: A thousand of a kind may cost a call so many times what one does. What is the same each time differs that much.
MOST = 1.5

WHAT = f"""\
What one call costs when there are {", ".join(f"{count:,}" for count in COUNTS)} of a kind, as a multiple of what it
costs when there is one: a call should cost what it costs, whatever stands around it.
Tasks are submitted to a SQLite file; connections are idle ones to a server that answers on another."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("what", *(f"{count:,}, µs" for count in COUNTS), f"{COUNTS[-1]:,} cost")
    section = Section("growth", "Growth", WHAT, columns)
    curves: dict[str, list[float]] = {}
    for kind, words in KINDS.items():
        print(f"  {kind}", file=sys.stderr)
        named = {f"fairlead, {count} {kind}": f"{kind}_{count}" for count in COUNTS}
        contenders = [Contender(name, "contenders.growth", maker) for name, maker in named.items()]
        with workers(contenders, failures) as running:
            found = contest(running, pace)
        if len(found) == len(COUNTS):
            curves[kind] = _add(section, kind, words, list(found.values()))
    held = _connections(pace, failures)
    if held:
        curves[CONNECTIONS] = _add(section, CONNECTIONS, "a request, beside so many connections", held)
    section.numbers = {
        kind: dict(zip(map(str, COUNTS), curve, strict=True)) for kind, curve in curves.items()
    }
    section.drawings["growth.svg"] = ("Cost of a call by how many there are of a kind", _drawn(curves))
    return section


def _add(section: Section, kind: str, words: str, found: Sequence[Timing]) -> list[float]:
    curve = [timing.cost(found[0]) for timing in found]
    section.rows.append((words, *(micros(timing.median) for timing in found), times(curve[-1])))
    section.require(
        f"{kind}: {COUNTS[-1]:,} cost a call at most {MOST} times what one does",
        times(curve[-1]),
        curve[-1] <= MOST,
    )
    return curve


def _connections(pace: Pace, failures: Failures) -> list[Timing]:
    """Seconds for a request while others only stay connected."""
    print(f"  {CONNECTIONS}", file=sys.stderr)
    timings = [Timing() for _ in COUNTS]
    with hosts([SITE], failures) as running:
        for host in running:
            for _ in range(pace.bursts):
                for count, timing in zip(COUNTS, timings, strict=True):
                    timing.rounds.append(_beside(host, count))
        return timings if running else []


def _beside(host: Host, count: int) -> float:
    idle = [socket.create_connection(("127.0.0.1", host.port), 10) for _ in range(count)]
    line = http.client.HTTPConnection("127.0.0.1", host.port, timeout=10)
    body = json.dumps({"input": VALID})
    try:
        started = 0.0
        for number in range(REQUESTS + 1):
            if number == 1:  # the first one connects
                started = time.perf_counter()
            line.request("POST", host.site.path, body, JSON)
            answer = line.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"status {answer.status}")
            answer.read()
        return (time.perf_counter() - started) / REQUESTS
    finally:
        line.close()
        for each in idle:
            each.close()


def _drawn(curves: dict[str, list[float]]) -> str:
    series = [{"name": kind, "values": list(curve)} for kind, curve in curves.items()]
    return svg(
        chart(
            "line",
            series,
            labels=[f"{count:,}" for count in COUNTS],
            title="What one call costs, in multiples of the first",
            x_title="how many there are",
            y_title="times",
        )
    )
