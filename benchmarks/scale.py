"""A day at internet scale, by model: what breaks first with a thousand workers and a billion tasks.

Plain arithmetic over figures that were measured: rates from docs/benchmarks.md, and what a task costs the database and
the bus from `scale.json`, which `scaling.py` writes. `python benchmarks/scale.py` prints the tables of docs/scale.md.
What a machine offers is assumed, and said so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DAY = 86_400
BILLION = 1_000_000_000
WORKERS = 1_000
#: The busiest minute has so many times the mean.
PEAK = 3.0
#: Of what a machine offers, so much is used on purpose.
SHARE = 0.5
#: Connections of a process at most: 8 for work and one that listens.
CONNECTIONS = 9
#: Days that ended tasks are kept.
KEPT = 7
#: Workers that take the place of this many times as many, each with that many times the tasks at once.
WIDER = 4
DELTAS = 100


class Machine(NamedTuple):
    """The database's server, as one can rent it; assumed, not measured."""

    cores: int = 64
    connections: int = 5_000
    #: Bytes a second of log that it writes and sends to a standby.
    wal: float = 500e6
    disk: float = 30e12
    #: Seconds until a commit is on disk.
    commit: float = 0.0002
    bus_disk: float = 4e12


class Costs(NamedTuple):
    """What was measured for one task, by `scaling.py`."""

    submit_wal_bytes: float
    run_wal_bytes: float
    prune_wal_bytes: float
    stored_bytes: float
    submit_database_us: float
    run_database_us: float
    prune_database_us: float
    pruned_a_second: float
    run_commits: float
    wakes: float
    connection_bytes: float
    wake_us: float
    plain_commits_a_second: float
    told_commits_a_second: float
    delta_stream_bytes: float
    permits_a_second: float

    @property
    def wal(self) -> float:
        return self.submit_wal_bytes + self.run_wal_bytes + self.prune_wal_bytes

    @property
    def database_us(self) -> float:
        return self.submit_database_us + self.run_database_us + self.prune_database_us


class Rates(NamedTuple):
    """What one process does, from docs/benchmarks.md."""

    submit: float
    batch: float
    drain: float
    http: float
    idle_stream_bytes: float


def costs() -> Costs:
    return Costs(**json.loads(Path(__file__).with_name("scale.json").read_text()))


def rates(page: str) -> Rates:
    """Read the rates off the page of benchmarks. Raises LookupError when a row is not there any more."""
    tasks = _row(page, "PostgreSQL, tasks a second", "fairlead")
    return Rates(
        submit=_number(tasks[-2]),
        batch=_number(_row(page, "PostgreSQL, a batch of 10,000", "fairlead")[-2]),
        drain=_number(tasks[-1]),
        http=_number(_row(page, "fairlead", "", section="## HTTP")[3]),
        idle_stream_bytes=_number(_row(page, "fairlead", "", section="## Server-sent events")[-1]) * 1024,
    )


def _row(page: str, first: str, second: str, section: str = "") -> list[str]:
    within = page[page.index(section) + len(section) :].partition("\n## ")[0] if section else page
    for line in within.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == first and cells[1:2] and cells[1].startswith(second):
            return cells
    raise LookupError(
        f"docs/benchmarks.md has no row {first!r}, {second!r} any more: mend benchmarks/scale.py."
    )


def _number(text: str) -> float:
    found = re.search(r"[\d,.]+", text)
    if found is None:
        raise LookupError(f"{text!r} is no number: mend benchmarks/scale.py.")
    return float(found[0].replace(",", ""))


class Limit(NamedTuple):
    """Something that gives out: what a day of so many tasks takes of it, and what there is."""

    what: str
    #: From tasks a day and workers, to how much is taken, as a part of what is there.
    load: Callable[[float, int], float]
    way_out: str
    #: The same once NATS carries wakes, tasks come in batches, workers are wider, and ended tasks are kept for a day.
    eased: Callable[[float, int], float] | None = None

    def breaks_at(self, workers: int, eased: bool = False) -> float:
        """Tasks a day at which it gives out; 0 where the workers alone are too many. All loads grow with tasks."""
        load = self.eased if eased and self.eased else self.load
        fixed, more = load(0, workers), load(BILLION, workers) - load(0, workers)
        if fixed >= 1:
            return 0.0
        return float("inf") if more <= 0 else (1 - fixed) / more * BILLION


def limits(cost: Costs, rate: Rates, machine: Machine) -> list[Limit]:
    def peak(tasks: float) -> float:
        return tasks / DAY * PEAK

    commits = 1 + cost.run_commits
    told = machine.commit  # commits that tell somebody wait for each other
    together = cost.plain_commits_a_second / cost.told_commits_a_second
    processor = machine.cores * SHARE * 1e6
    return [
        Limit(
            "connections of PostgreSQL",
            lambda tasks, workers: workers * CONNECTIONS / machine.connections,
            "fewer and wider workers: 250 with `--concurrency 64`",
            lambda tasks, workers: workers / WIDER * CONNECTIONS / machine.connections,
        ),
        Limit(
            "NOTIFY, to every process",
            lambda tasks, workers: peak(tasks) * cost.wakes * workers * cost.wake_us / processor,
            "NATS (`FAIRLEAD_BUS_URL`): a permit goes to one worker, not to all",
            lambda tasks, workers: 0.0,
        ),
        Limit(
            "commits, in turn where they NOTIFY",
            lambda tasks, workers: peak(tasks) * commits * told,
            f"NATS: without a NOTIFY commits share a wait for the disk ({together:.1f} times as many here)",
            lambda tasks, workers: peak(tasks) * commits * told / together,
        ),
        Limit(
            "PostgreSQL's processors",
            lambda tasks, workers: peak(tasks) * cost.database_us / processor,
            "batches (`submit_many`) for the submits; then more cells",
            lambda tasks, workers: (
                peak(tasks)
                * (
                    cost.submit_database_us * rate.submit / rate.batch
                    + cost.run_database_us
                    + cost.prune_database_us
                )
                / processor
            ),
        ),
        Limit(
            "log of PostgreSQL (WAL)",
            lambda tasks, workers: peak(tasks) * cost.wal / machine.wal,
            "`wal_compression = on`, longer checkpoints; then more cells",
        ),
        Limit(
            "forgetting, one worker at a time",
            lambda tasks, workers: tasks / DAY / cost.pruned_a_second,
            "partitions by day, dropped whole: not there yet; until then more cells",
        ),
        Limit(
            "disk of PostgreSQL",
            lambda tasks, workers: tasks * KEPT * cost.stored_bytes / (machine.disk * SHARE),
            "`app.tasks.worker(retention=86400)`: ended tasks for a day",
            lambda tasks, workers: tasks * cost.stored_bytes / (machine.disk * SHARE),
        ),
        Limit(
            "permits on NATS, one stream",
            lambda tasks, workers: peak(tasks) / cost.permits_a_second,
            "a stream for each cell; a bus with disks of its own",
        ),
        Limit(
            f"event stream on NATS, {DELTAS} deltas a task",
            lambda tasks, workers: tasks * DELTAS * cost.delta_stream_bytes / machine.bus_disk,
            "fewer, larger pieces; a bus for each cell",
        ),
        Limit(
            "processors of the workers",
            lambda tasks, workers: peak(tasks) / (rate.drain * workers),
            "more workers",
            lambda tasks, workers: peak(tasks) / (rate.drain * workers / WIDER),
        ),
    ]


def main() -> None:
    print("\n\n".join(tables().values()))


def tables() -> dict[str, str]:
    """The tables of docs/scale.md, by the name between its marks."""
    cost, machine = costs(), Machine()
    rate = rates((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    every = limits(cost, rate, machine)
    return {
        "measured": _measured(cost, rate),
        "day": _day(cost, rate),
        "first": _first(every),
        "eased": _eased(every, machine),
    }


def _measured(cost: Costs, rate: Rates) -> str:
    rows = [
        ("submits of one process, one by one", f"{rate.submit:,.0f} a second"),
        ("submits of one process, in batches", f"{rate.batch:,.0f} a second"),
        ("tasks run by one worker", f"{rate.drain:,.0f} a second"),
        ("HTTP calls of one core", f"{rate.http:,.0f} a second"),
        ("an idle event stream", _bytes(rate.idle_stream_bytes)),
        ("PostgreSQL: processor time of a task (submit, run, forget)", _parts(cost, "database_us", "µs")),
        ("PostgreSQL: log of a task (submit, run, forget)", _parts(cost, "wal_bytes", "bytes")),
        ("PostgreSQL: room of an ended task with its log and indexes", _bytes(cost.stored_bytes)),
        ("PostgreSQL: NOTIFY of a task", f"{cost.wakes:.1f}"),
        ("PostgreSQL: processor time to bring one NOTIFY to one listener", f"{cost.wake_us:.1f} µs"),
        (
            "PostgreSQL: commits a second, 16 connections, without NOTIFY",
            f"{cost.plain_commits_a_second:,.0f}",
        ),
        ("PostgreSQL: the same with NOTIFY, which commit in turn", f"{cost.told_commits_a_second:,.0f}"),
        ("PostgreSQL: memory of a connection", _bytes(cost.connection_bytes)),
        ("PostgreSQL: tasks forgotten by one connection", f"{cost.pruned_a_second:,.0f} a second"),
        ("NATS: permits, 100 at a time", f"{cost.permits_a_second:,.0f} a second"),
        ("NATS: room of a delta", _bytes(cost.delta_stream_bytes)),
    ]
    return _table(("measured", "figure"), rows)


def _parts(cost: Costs, ending: str, unit: str) -> str:
    found = [getattr(cost, f"{part}_{ending}") for part in ("submit", "run", "prune")]
    return f"{sum(found):,.0f} {unit} ({', '.join(f'{each:,.0f}' for each in found)})"


def _day(cost: Costs, rate: Rates) -> str:
    rows = []
    sizes = [10**6, 10**7, 10**8, 10**9]
    for name, figure in (
        ("tasks a second, mean", lambda tasks: f"{tasks / DAY:,.0f}"),
        ("tasks a second, at the peak", lambda tasks: f"{_peak(tasks):,.0f}"),
        ("processes that submit one by one", lambda tasks: f"{_up(_peak(tasks) / rate.submit)}"),
        ("processes that submit in batches", lambda tasks: f"{_up(_peak(tasks) / rate.batch)}"),
        ("workers' cores for tasks that do nothing", lambda tasks: f"{_up(_peak(tasks) / rate.drain)}"),
        ("PostgreSQL, cores", lambda tasks: f"{_peak(tasks) * cost.database_us / 1e6:,.1f}"),
        ("PostgreSQL, log a second", lambda tasks: _bytes(_peak(tasks) * cost.wal)),
        ("PostgreSQL, log a day", lambda tasks: _bytes(tasks * cost.wal)),
        (f"PostgreSQL, disk for {KEPT} days", lambda tasks: _bytes(tasks * KEPT * cost.stored_bytes)),
        ("NOTIFY to 1,000 workers, a second", lambda tasks: f"{_peak(tasks) * cost.wakes * WORKERS:,.0f}"),
        ("PostgreSQL, cores for those", lambda tasks: f"{_wake_cores(tasks, cost):,.1f}"),
        ("NATS, permits a second", lambda tasks: f"{_peak(tasks):,.0f}"),
        (f"NATS, events of a day, {DELTAS} deltas a task", lambda tasks: _bytes(_events(tasks, cost))),
    ):
        rows.append((name, *(figure(tasks) for tasks in sizes)))
    return _table(("tasks a day", *(f"{tasks:,}" for tasks in sizes)), rows)


def _peak(tasks: float) -> float:
    return tasks / DAY * PEAK


def _wake_cores(tasks: float, cost: Costs) -> float:
    return _peak(tasks) * cost.wakes * WORKERS * cost.wake_us / 1e6


def _events(tasks: float, cost: Costs) -> float:
    return tasks * DELTAS * cost.delta_stream_bytes


def _first(every: list[Limit]) -> str:
    rows = [
        (each.what, _tasks(each.breaks_at(WORKERS)), f"{each.load(BILLION, WORKERS):,.1f}", each.way_out)
        for each in sorted(every, key=lambda limit: limit.breaks_at(WORKERS))
    ]
    return _table(("what gives out", "at tasks a day", "a billion takes it, times", "what to do"), rows)


def _eased(every: list[Limit], machine: Machine) -> str:
    order = sorted(every, key=lambda limit: limit.breaks_at(WORKERS, eased=True))
    rows = [(each.what, _tasks(each.breaks_at(WORKERS, eased=True))) for each in order]
    one = order[0].breaks_at(WORKERS, eased=True)
    rows.append(("**so one cell takes**", f"**{_tasks(one)}**"))
    rows.append(("**and a billion tasks a day take**", f"**{_up(BILLION / one)} cells**"))
    return _table(("what gives out", "at tasks a day"), rows)


def _tasks(number: float) -> str:
    if number == float("inf"):
        return "never"
    return f"{number / 1e6:,.0f} million" if number else "at 0: the workers alone are too many"


def _up(number: float) -> str:
    return f"{-(-number // 1):,.0f}"


def _bytes(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            break
        number /= 1000
    return f"{number:,.0f} {unit}" if number >= 100 or unit == "bytes" else f"{number:,.1f} {unit}"


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, ("---", *["---:"] * (len(titles) - 1)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
