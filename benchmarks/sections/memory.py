"""Whether a million calls leave anything behind."""

import sys

from report import Section
from rounds import Contender, Failures, Pace, workers
from sections.invoke import FAIRLEAD, PLAIN, POLICIES

WARM_UP = 50_000
STEPS = 10
#: Growth below this is the allocator's, not a leak: 2 bytes a call.
ALLOWED_MEGABYTES = 2.0

WHAT = f"""\
The size of a process (its resident set) after {WARM_UP:,} calls, and after a million more, one after another.
With every policy on, each call has its own idempotency key, so the store of results must keep its bound."""


def measure(pace: Pace, failures: Failures) -> Section:
    section = Section("memory", "Memory", WHAT, ("a million calls", "before MB", "after MB", "grown by MB"))
    chosen = [contender for contender in FAIRLEAD if contender.name in (PLAIN, POLICIES)]
    step = 10_000 if pace.quick else 100_000
    with workers(chosen, failures) as running:
        for worker in running:
            print(f"  {worker.contender.name}", file=sys.stderr)
            worker.time(WARM_UP)
            sizes = [worker.memory() / 1e6]
            for _ in range(STEPS):
                worker.time(step)
                sizes.append(worker.memory() / 1e6)
            _add(section, worker.contender, sizes, step)
    return section


def _add(section: Section, contender: Contender, sizes: list[float], step: int) -> None:
    grown = sizes[-1] - sizes[0]
    section.rows.append((contender.name, f"{sizes[0]:.1f}", f"{sizes[-1]:.1f}", f"{grown:.2f}"))
    section.numbers[contender.name] = sizes
    promise = f"{contender.name}: {STEPS * step:,} calls leave the size flat"
    section.require(promise, f"{grown:+.2f} MB", grown <= ALLOWED_MEGABYTES)
