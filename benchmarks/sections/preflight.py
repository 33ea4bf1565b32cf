"""What a repaired argument costs, and what a worker thread costs."""

from report import Section, micros, percent, times
from rounds import Contender, Failures, Pace, contest, workers

VALID, REPAIRED = "valid arguments", "one field repaired"
BARE, THREAD = "asyncio.to_thread", "a sync function's call"

CONTENDERS = [
    Contender(VALID, "contenders.fairlead", "valid"),
    Contender(REPAIRED, "contenders.fairlead", "repaired"),
    Contender(BARE, "contenders.fairlead", "bare_thread"),
    Contender(THREAD, "contenders.fairlead", "thread"),
]
BASES = {VALID: VALID, REPAIRED: VALID, BARE: BARE, THREAD: BARE}

WHAT = """\
A call whose arguments are right, and one where the integer came as text and was repaired.
Then a function that is not asynchronous, which Fairlead runs on a worker thread.
The limit for that is `asyncio.to_thread` around the bare function, with nothing validated."""


def measure(pace: Pace, failures: Failures) -> Section:
    section = Section("preflight", "Repairs and threads", WHAT, ("call", "µs", "spread", "cost"))
    with workers(CONTENDERS, failures) as running:
        timings = contest(running, pace)
    for name, timing in timings.items():
        base = timings.get(BASES[name])
        cost = times(timing.cost(base)) if base else "-"
        section.rows.append((name, micros(timing.median), percent(timing.spread), cost))
    section.numbers = {"microseconds": {name: timing.median * 1e6 for name, timing in timings.items()}}
    section.notes = ["cost is in multiples of the valid call, and of the bare thread"]
    return section
