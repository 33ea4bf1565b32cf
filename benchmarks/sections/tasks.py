"""Durable tasks: through the queue and out again, how soon a worker begins, logs, and a table that is full."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from environments import QUEUES
from queueing import Queue, Servers, Toiler, toilers
from queues.finished import fill_database, fill_file
from report import Section, millis, percent, times
from rounds import Failures, Pace, Timing

SQLITE, POSTGRES, NATS = "SQLite", "PostgreSQL", "NATS"
FORMS = (SQLITE, POSTGRES, NATS)
OURS = "fairlead"
BARE = {SQLITE: "bare loop", POSTGRES: "bare `SKIP LOCKED` loop", NATS: "bare JetStream loop with rows"}

#: Tasks that a queue is given in one turn, and those that are submitted at once.
COUNT = {SQLITE: 200, POSTGRES: 200, NATS: 200}
BATCH = 10_000
#: Tasks in a turn for a worker that is idle; and seconds in which it is given nothing.
DISTURBED = 10
IDLE_SECONDS = 6.0
#: Milliseconds within which it should begin.
SOON = {SQLITE: 5, POSTGRES: 15, NATS: 10}
EVENTS = 40_000
EVENTS_A_SECOND = 20_000
TAILS = 1000
#: Finished tasks that a table has; and how often something is done with it in a turn.
FINISHED = {SQLITE: 1_000_000, POSTGRES: 1_000_000}
USES = 50
#: Seconds: what takes that long is done once.
SLOW = 0.5

WHAT = f"""\
Two numbers to add, as a durable task: submitted one by one while nobody works, then run to the last by one worker.
Every submit is on disk before the next, in all of them: SQLite with `synchronous = FULL`, PostgreSQL and JetStream as
they come. The bare loops are what one would write by hand in an hour: an insert, a claim and an update for each task,
and on NATS a message with them.
Workers run up to 32 tasks at once where they can; DBOS polls a hundred times a second, and its start is not counted.
"Start" is from the beginning of a submit in one process to the first line of the action in another whose worker was
idle; the bare wake is a datagram, a `NOTIFY`, or a message, and the same rows.
Processor time is that of an idle worker's process.
A log is read through `Tasks.events` by another process than the one that wrote it.
A full table has {FINISHED[SQLITE]:,} finished tasks with their logs, an empty one has one.
"Fairlead, of it" is our speed as a part of theirs; where times are shown, our time as a multiple of theirs."""

COLUMNS = ("work", "by", "figure", "spread", "fairlead, of it", "submit alone", "drain alone")


def measure(pace: Pace, failures: Failures) -> Section:
    section = Section("tasks", "Durable tasks", WHAT, COLUMNS)
    with Servers() as servers:
        for part in (_throughput, _idle, _logs, _full):
            began = time.perf_counter()
            part(section, servers, pace, failures)
            print(f"  {part.__name__[1:]}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return section


# Who takes part.


def _ours(servers: Servers, form: str, database: str) -> Queue:
    if form == SQLITE:
        addresses = (f"sqlite:///{servers.file(database)}",)
    elif form == POSTGRES:
        addresses = (servers.database(database),)
    else:
        # Streams have the same names in every database: one database for each server.
        addresses = (servers.database("nats"), servers.nats())
    return Queue(OURS, "queues.fairlead:Fairlead", addresses, package="fairlead")


def _bare(servers: Servers, form: str) -> Queue:
    if form == SQLITE:
        return Queue(BARE[form], "queues.bare:Sqlite", (servers.file("bare"),))
    if form == POSTGRES:
        return Queue(BARE[form], "queues.bare:Postgres", (servers.database("bare"),))
    return Queue(BARE[form], "queues.bare:Nats", (servers.database("bare-nats"), servers.nats()))


def _peers(servers: Servers, form: str) -> list[Queue]:
    if form == SQLITE:
        return [Queue("huey", "queues.huey:Huey", (servers.file("huey"),), QUEUES, "huey")]
    if form == NATS:
        return []
    targets = {"procrastinate": "Procrastinate", "pgqueuer": "Pgqueuer", "dbos": "Dbos"}
    return [
        Queue(name, f"queues.{name}:{target}", (servers.database(name),), QUEUES, name)
        for name, target in targets.items()
    ]


# Submit and drain.


@dataclass
class Passage:
    """Seconds for one task: submitted, drained, and both."""

    version: str
    submit: Timing = field(default_factory=Timing)
    drain: Timing = field(default_factory=Timing)
    both: Timing = field(default_factory=Timing)

    def take(self, toiler: Toiler, count: int) -> None:
        submitted = toiler.ask("submit", count) / count
        drained = toiler.ask("drain", count) / count
        self.submit.rounds.append(submitted)
        self.drain.rounds.append(drained)
        self.both.rounds.append(submitted + drained)


def _throughput(section: Section, servers: Servers, pace: Pace, failures: Failures) -> None:
    for form in FORMS:
        with _tried(failures, f"tasks on {form}"):
            queues = [_bare(servers, form), _ours(servers, form, "ours"), *_peers(servers, form)]
            with toilers(queues, failures) as running:
                passages, batch = _turns(running, form, pace)
            _add_throughput(section, form, passages, batch)


def _turns(running: Sequence[Toiler], form: str, pace: Pace) -> tuple[dict[str, Passage], Timing]:
    count = COUNT[form] // 2 if pace.quick else COUNT[form]
    passages = {toiler.queue.name: Passage(toiler.queue.version) for toiler in running}
    batch = Timing()
    for toiler in running:
        Passage("").take(toiler, 20)
    for turn in range(pace.bursts):
        print(f"  {form}: turn {turn + 1} of {pace.bursts}", file=sys.stderr)
        for toiler in running:
            passages[toiler.queue.name].take(toiler, count)
            if toiler.queue.name == OURS and form != NATS:
                batch.rounds.append(toiler.ask("submit_batch", BATCH) / BATCH)
    return passages, batch


def _add_throughput(section: Section, form: str, passages: dict[str, Passage], batch: Timing) -> None:
    ours = passages.get(OURS)
    work = f"{form}, tasks a second"
    for name, passage in passages.items():
        cells = (_rate(passage.both), percent(passage.both.spread))
        ratio = "" if ours is None or passage is ours else times(passage.both.cost(ours.both))
        shown = f"{name} {passage.version}".strip()
        section.rows.append((work, shown, *cells, ratio, _rate(passage.submit), _rate(passage.drain)))
        section.numbers[f"{form}: {name}"] = {
            "submit": 1 / passage.submit.median,
            "drain": 1 / passage.drain.median,
            "both": 1 / passage.both.median,
        }
    if ours is None:
        return
    if batch.rounds:
        ratio = ours.submit.cost(batch)
        section.rows.append(
            (f"{form}, a batch of {BATCH:,}", OURS, "", percent(batch.spread), "", _rate(batch), "")
        )
        section.numbers[f"{form}: batch"] = 1 / batch.median
        promise = f"{form}: a batch of {BATCH:,} is submitted at least 10 times as fast as one by one"
        section.require(promise, times(ratio), ratio >= 10)
    for name, passage in passages.items():
        ratio = passage.both.cost(ours.both)
        if name == BARE[form]:
            section.require(f"{form}: at least 0.5 of the {name}", times(ratio), ratio >= 0.5)
        elif passage is not ours:
            section.require(f"{form}: ahead of {name}", times(ratio), ratio > 1)


# An idle worker.


def _idle(section: Section, servers: Servers, pace: Pace, failures: Failures) -> None:
    with ExitStack() as stack:
        idle = {}
        for form in FORMS:
            with _tried(failures, f"start of a task on {form}"):
                queues = [_ours(servers, form, "idle"), _bare(servers, form)]
                workers = stack.enter_context(toilers(queues))
                with toilers(queues) as submitters:
                    _add_starts(section, form, _starts(workers, submitters, pace))
                idle[form] = workers[0]
        with _tried(failures, "idle workers"):
            _add_cpu(section, idle, pace)


def _starts(workers: Sequence[Toiler], submitters: Sequence[Toiler], pace: Pace) -> dict[str, Timing]:
    """Seconds until a task was started, each a round."""
    found = {worker.queue.name: Timing() for worker in workers}
    for worker in workers:
        worker.ask("work")
    for turn in range(pace.bursts + 1):
        for worker, submitter in zip(workers, submitters, strict=True):
            submitter.ask("disturb", DISTURBED)
            starts: list[float] = []
            while len(starts) < DISTURBED:
                starts += worker.ask("starts")
            if turn:  # the first is to warm up
                found[worker.queue.name].rounds += starts
    return found


def _add_starts(section: Section, form: str, found: dict[str, Timing]) -> None:
    ours = found[OURS].median
    for name, timing in found.items():
        ratio = "" if name == OURS else times(ours / timing.median)
        shown = name if name == OURS else "bare wake"
        section.rows.append(
            (f"{form}, start, ms", shown, millis(timing.median), percent(timing.spread), ratio, "", "")
        )
        section.numbers[f"{form}: start, {shown}"] = timing.median
    promise = f"{form}: an idle worker starts a task within {SOON[form]} ms (p50)"
    section.require(promise, f"{millis(ours)} ms", ours * 1000 < SOON[form])


def _add_cpu(section: Section, idle: dict[str, Toiler], pace: Pace) -> None:
    """The part of a core that workers use while there is nothing to do."""
    seconds = IDLE_SECONDS / 2 if pace.quick else IDLE_SECONDS
    before = {form: worker.ask("cpu") for form, worker in idle.items()}
    time.sleep(seconds)
    for form, worker in idle.items():
        part = (worker.ask("cpu") - before[form]) / seconds
        shown = f"{part * 100:.2f} %"
        section.rows.append((f"{form}, idle worker, of a core", OURS, shown, "", "", "", ""))
        section.numbers[f"{form}: idle"] = part
        section.require(f"{form}: an idle worker uses under 1 % of a core", shown, part < 0.01)


# Logs.


def _logs(section: Section, servers: Servers, pace: Pace, failures: Failures) -> None:
    for form in FORMS:
        with _tried(failures, f"logs on {form}"):
            queue = _ours(servers, form, "logs")
            with toilers([queue, queue]) as (writer, reader):
                # Before the other, which leaves memory that would be used again.
                _watch_many(section, form, writer, reader)
                _read_log(section, form, writer, reader, pace)


def _read_log(section: Section, form: str, writer: Toiler, reader: Toiler, pace: Pace) -> None:
    count = EVENTS // 4 if pace.quick else EVENTS
    id = writer.ask("write_log", count)
    timing = Timing([reader.ask("read_log", id, count) / count for _ in range(pace.bursts + 1)][1:])
    rate = 1 / timing.median
    section.rows.append(
        (f"{form}, events read a second", OURS, f"{rate:,.0f}", percent(timing.spread), "", "", "")
    )
    section.numbers[f"{form}: events"] = rate
    promise = f"{form}: at least {EVENTS_A_SECOND:,} events of a log a second"
    section.require(promise, f"{rate:,.0f}", rate >= EVENTS_A_SECOND)


def _watch_many(section: Section, form: str, writer: Toiler, reader: Toiler) -> None:
    """Run tasks that nobody watches, and as many that are all watched by one process."""
    writer.ask("submit_ids", TAILS)
    alone = writer.ask("drain", TAILS)
    size = reader.ask("watch", writer.ask("submit_ids", TAILS)) / 1024
    start = time.perf_counter()
    writer.tell("drain", TAILS)
    whole = reader.ask("watched")
    taken = time.perf_counter() - start
    writer.hear()
    work = f"{form}, {TAILS:,} tasks run"
    section.rows.append((f"{work}, s", OURS, f"{alone:.2f}", "", "", "", ""))
    section.rows.append(
        (f"{work} and tailed to their ends, s", f"{size:.1f} KiB a tail", f"{taken:.2f}", "", "", "", "")
    )
    section.numbers[f"{form}: tails"] = {"alone": alone, "tailed": taken, "kib": size}
    section.require(
        f"{form}: {TAILS:,} tails in one process have all of their logs", "all" if whole else "not all", whole
    )


# A table that is full.

#: What is done with it: an order to the process, and words for it.
ORDERS: dict[str, tuple[str, ...]] = {
    "submit": ("submit",),
    "claim": ("claim",),
    "list": ("listed", "all"),
    "list of open tasks": ("listed", "open"),
    "list of failed tasks, of which there are none": ("listed", "failed"),
}


def _full(section: Section, servers: Servers, pace: Pace, failures: Failures) -> None:
    for form, count in FINISHED.items():
        count = count // 10 if pace.quick else count
        with _tried(failures, f"a full table on {form}"):
            queues = [_ours(servers, form, name) for name in ("empty", "full")]
            _fill(servers, form, queues[1], count)
            with toilers(queues) as (empty, full):
                for words, order in ORDERS.items():
                    _add_full(section, form, words, count, *_both(empty, full, order, pace))


def _fill(servers: Servers, form: str, queue: Queue, count: int) -> None:
    toiler = Toiler(queue)
    Passage("").take(toiler, 1)
    toiler.close()
    print(f"  {form}: {count:,} finished tasks", file=sys.stderr)
    if form == SQLITE:
        fill_file(servers.file("full"), count)
    else:
        fill_database(servers.database("full"), count)


def _both(empty: Toiler, full: Toiler, order: Sequence[str], pace: Pace) -> tuple[Timing, Timing]:
    if order[0] == "listed" and (once := full.ask(*order, 1)) > SLOW:
        return Timing([empty.ask(*order, 1)]), Timing([once])
    found = (Timing(), Timing())
    for toiler in (empty, full):
        toiler.ask(*order, USES)
    for turn in range(2 * pace.bursts + 1):
        # Whoever comes second may find the disk busy with the first.
        pairs = list(zip((empty, full), found, strict=True))
        for toiler, timing in pairs if turn % 2 else reversed(pairs):
            timing.rounds.append(toiler.ask(*order, USES) / USES)
    return found


def _add_full(section: Section, form: str, words: str, count: int, empty: Timing, full: Timing) -> None:
    ratio = full.cost(empty)
    work = f"{form}, {words}, ms"
    section.rows.append((work, "empty table", _precisely(empty), _spread(empty), "", "", ""))
    section.rows.append((work, f"{count:,} finished", _precisely(full), _spread(full), times(ratio), "", ""))
    section.numbers[f"{form}: {words}"] = {"empty": empty.median, "full": full.median}
    promise = f"{form}, {words}: {count:,} finished tasks cost at most 1.2 times as much"
    section.require(promise, times(ratio), ratio <= 1.2)


@contextmanager
def _tried(failures: Failures, name: str) -> Iterator[None]:
    """One part that cannot be measured leaves the others."""
    try:
        yield
    except Exception as reason:
        failures.add(f"{OURS}: {name}", reason)


def _rate(timing: Timing) -> str:
    return f"{1 / timing.median:,.0f}"


def _precisely(timing: Timing) -> str:
    return f"{timing.median * 1000:.2f}"


def _spread(timing: Timing) -> str:
    return percent(timing.spread) if len(timing.rounds) > 1 else ""
