"""Server-sent events: how many a second reach the client, and what a stream costs that says nothing."""

import json
import sys

import load
from environments import WEB
from hosting import Host, Site, hosts
from report import Section, percent, times
from rounds import Failures, Pace, Timing

OURS = "fairlead"
BARE = "bare ASGI stream"
#: It keeps the first event back, so it cannot take part where streams wait.
JOINED = "bare ASGI stream, events joined"

SITES = [
    Site(BARE, "servers.bare:stream", "/"),
    Site(JOINED, "servers.bare:joined", "/"),
    Site(OURS, "servers.fairlead:site", "/fairlead/actions/numbers/stream"),
    Site("Starlette", "servers.starlette:site", "/stream", WEB),
    Site("FastAPI", "servers.fastapi:site", "/stream", WEB),
]
#: How events come: all of them ready, or one at each turn of the event loop.
READY, TURNS = "ready", "turn"
IDLE = 1000
#: Seconds that a stream should take.
LENGTH = 0.3

WHAT = f"""\
A stream of numbers, each an event with a type, an id and a small JSON object, read to its end by one client.
In "ready" the next event is always there; in "by turns" the source waits for a turn of the event loop after each,
so that no two can be sent together.
The bare stream has ids, keeps the connection alive and watches for the client's end, and sends each event by itself;
the one that joins sends 64 KiB at a time, however long the first event has to wait for that.
Starlette's and FastAPI's are their own streaming responses; Starlette's has no keep-alive.
"Idle" is the memory of the server for each of {IDLE:,} streams that have said one thing and now wait."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = (
        "stream",
        "ready, events a second",
        "spread",
        "of bare",
        "by turns",
        "spread",
        "of bare",
        "idle KiB",
    )
    section = Section("sse", "Server-sent events", WHAT, columns)
    with hosts(SITES, failures) as running:
        results = _turns(running, pace)
        idle = {host.site.name: _idle(host) for host in running if host.site.name != JOINED}
    for name, (ready, turns) in results.items():
        size = f"{idle[name]:.1f}" if name in idle else ""
        section.rows.append((name, *_cells(results, 0, ready), *_cells(results, 1, turns), size))
        section.numbers[name] = {
            "ready": 1 / ready.median,
            "turns": 1 / turns.median,
            "idle_kib": idle.get(name),
        }
    _judge(section, results, idle)
    return section


Timings = dict[str, tuple[Timing, Timing]]


def _cells(results: Timings, way: int, timing: Timing) -> tuple[str, str, str]:
    part = times(results[BARE][way].cost(timing)) if BARE in results else "-"
    return f"{1 / timing.median:,.0f}", percent(timing.spread), part


def _body(host: Host, upto: int, wait: str) -> bytes:
    asked = {"upto": upto, "wait": wait}
    return json.dumps({"input": asked} if host.site.name == OURS else asked).encode()


def _read(host: Host, upto: int, wait: str) -> float:
    return load.read_stream(host, _body(host, upto, wait), upto)


def _turns(running: list[Host], pace: Pace) -> Timings:
    results = {host.site.name: (Timing(), Timing()) for host in running}
    sizes = {(host.site.name, wait): _size(host, wait) for host in running for wait in (READY, TURNS)}
    for turn in range(pace.streams):
        print(f"  turn {turn + 1} of {pace.streams}", file=sys.stderr)
        for host in running:
            for timing, wait in zip(results[host.site.name], (READY, TURNS), strict=True):
                size = sizes[host.site.name, wait]
                timing.rounds.append(_read(host, size, wait) / size)
    return results


def _size(host: Host, wait: str) -> int:
    """How many events fill a stream of the right length, found while warming up."""
    size = 500
    while (taken := _read(host, size, wait)) < LENGTH / 4:
        size *= 2
    return max(100, round(size * LENGTH / taken))


def _idle(host: Host) -> float:
    print(f"  idle streams: {host.site.name}", file=sys.stderr)
    return load.idle_streams(host, _body(host, 1, "idle"), IDLE) / 1024


def _judge(section: Section, results: Timings, idle: dict[str, float]) -> None:
    if OURS not in results:
        return
    if BARE in results:
        for way, words in enumerate(("events that are ready", "events by turns")):
            part = results[BARE][way].cost(results[OURS][way])
            section.require(f"{words}: at least 0.6 of the {BARE}", times(part), part >= 0.6)
    section.require("an idle stream: under 20 KiB", f"{idle[OURS]:.1f} KiB", 0 < idle[OURS] < 20)
