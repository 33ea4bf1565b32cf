"""How many events a second pass through a stream, and whether twice the events take twice the time."""

import sys

from report import Section, percent, times
from rounds import Contender, Failures, Pace, Timing, Worker, workers

SIZE = 100_000

CONTENDERS = [
    Contender("bare async generator", "contenders.fairlead", "bare_stream"),
    Contender("fairlead, chunks", "contenders.fairlead", "chunk_stream"),
    Contender("fairlead, logs", "contenders.fairlead", "log_stream"),
]

WHAT = f"""\
One stream of {SIZE:,} events and one of twice as many, read to the end in process.
Chunks are what an asynchronous generator yields; logs are events that the function waits for.
The bare generator yields ready dicts and nothing else is done: the limit."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("stream", "events a second", "spread", "of the limit", "twice the events cost")
    section = Section("streams", "Streams", WHAT, columns)
    with workers(CONTENDERS, failures) as running:
        results = _turns(running, pace)
    limit = results[CONTENDERS[0].name][0].median if CONTENDERS[0].name in results else None
    for name, (once, twice) in results.items():
        rate, growth = 1 / once.median, 2 * twice.median / once.median
        part = times(limit / once.median) if limit else "-"
        section.rows.append((name, f"{rate:,.0f}", percent(once.spread), part, times(growth)))
        section.numbers[name] = {"events_per_second": rate, "growth": growth}
        if name.startswith("fairlead"):
            section.require(f"{name}: over 300,000 events a second", f"{rate:,.0f}", rate > 300_000)
            section.require(f"{name}: 200,000 events cost twice 100,000", times(growth), growth <= 2.2)
    return section


def _turns(running: list[Worker], pace: Pace) -> dict[str, tuple[Timing, Timing]]:
    results = {worker.contender.name: (Timing(), Timing()) for worker in running}
    for worker in running:
        worker.time(SIZE // 10)
    for turn in range(pace.streams):
        print(f"  turn {turn + 1} of {pace.streams}", file=sys.stderr)
        for worker in running:
            once, twice = results[worker.contender.name]
            once.rounds.append(worker.time(SIZE) / SIZE)
            twice.rounds.append(worker.time(2 * SIZE) / (2 * SIZE))
    return results
