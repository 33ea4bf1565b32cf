"""What can go wrong with a fleet: each fault begins, lasts for a while, and is mended."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from chaos.members import GATEWAYS, LEASE, WORKERS, Fleet

#: Longer than the lease of what is lost, so that others take it over.
LONG = 1.5 * LEASE, 2.5 * LEASE
HOUR = 3600.0

#: Makes it go wrong, gives what to say of it, and mends it when it is entered again.
Fault = Callable[[Fleet, random.Random], Iterator[str]]


def kill_worker(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield _killed(fleet, chance.choice(WORKERS))


def kill_gateway(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield _killed(fleet, chance.choice(GATEWAYS))


def stop_gateway(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    role = chance.choice(GATEWAYS)
    process = fleet.members[role].process
    if process is not None:
        process.terminate()
    yield f"SIGTERM to {role}"


def pause_worker(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _paused(_pids(fleet, role := chance.choice(WORKERS)), role)


def pause_gateway(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _paused(_pids(fleet, role := chance.choice(GATEWAYS)), role)


def pause_database(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _paused(fleet.database_processes(), "PostgreSQL")


def pause_backends(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    there = fleet.backends()
    some = chance.sample(there, min(3, len(there)))
    yield from _paused(some, f"{len(some)} of {len(there)} backends of PostgreSQL")


def pause_nats(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    assert fleet.nats is not None
    process = fleet.nats.process  # none where it was killed just now
    yield from _paused([] if process is None else [process.pid], "NATS")


def cut_worker(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _cut(fleet, chance.choice(WORKERS), "database")


def cut_gateway(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _cut(fleet, chance.choice(GATEWAYS), "database")


def cut_answers(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    """What is asked is done, and nobody learns of it."""
    yield from _cut(fleet, chance.choice((*WORKERS, *GATEWAYS)), "database", 1)


def cut_worker_from_nats(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _cut(fleet, chance.choice(WORKERS), "nats")


def cut_gateway_from_nats(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    yield from _cut(fleet, chance.choice(GATEWAYS), "nats")


def restart_database(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    fleet.postgres.stop()
    yield "PostgreSQL is restarted"
    _start_database(fleet)


def crash_database(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    fleet.postgres.kill()
    yield "PostgreSQL crashes"
    _start_database(fleet)


def fill_disk(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    fleet.postgres.fill()
    yield "the database's disk is full"
    fleet.postgres.drain()
    process = fleet.postgres.process
    if process is not None and process.poll() is not None:  # there was no room to recover from it
        _start_database(fleet)


def kill_nats(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    nats = fleet.nats
    assert nats is not None
    nats.kill()
    yield "NATS is killed"
    if nats.process is None:  # it may have been killed twice
        fleet.network.places["nats"].do(nats.start)


def move_clocks(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    """As where all are on one machine: they agree, before and after."""
    jump = chance.choice((-HOUR, HOUR))
    fleet.move_clocks(jump)
    yield f"all clocks jump by {jump:g} s"
    fleet.move_clocks(0.0)
    _let_pass(fleet, jump)


def move_clock(fleet: Fleet, chance: random.Random) -> Iterator[str]:
    jump, role = chance.choice((-HOUR, HOUR)), chance.choice((*WORKERS, *GATEWAYS))
    fleet.move_clocks(jump, [role])
    yield f"the clock of {role} jumps by {jump:g} s"
    fleet.move_clocks(0.0)
    _let_pass(fleet, jump)


OF_ALL: tuple[Fault, ...] = (
    kill_worker,
    kill_gateway,
    stop_gateway,
    pause_worker,
    pause_gateway,
    pause_database,
    pause_backends,
    cut_worker,
    cut_gateway,
    cut_answers,
    restart_database,
    crash_database,
    fill_disk,
    move_clocks,
    move_clock,
)
OF_NATS: tuple[Fault, ...] = (pause_nats, cut_worker_from_nats, cut_gateway_from_nats, kill_nats)


def schedule(chance: random.Random, with_nats: bool) -> Iterator[list[Fault]]:
    """Faults that go together, for ever; none comes again before all others have come."""
    everything = [*OF_ALL, *(OF_NATS * 2 if with_nats else ())]
    while True:
        left = chance.sample(everything, len(everything))
        while left:
            at_once = chance.choice((1, 2, 2))
            together, left = left[:at_once], left[at_once:]
            # The database has one fault at a time: one that is stopped cannot be restarted.
            yield together if sum(map(_of_database, together)) < 2 else together[:1]


@contextmanager
def happening(fault: Fault, fleet: Fleet, chance: random.Random) -> Iterator[str]:
    begun = contextmanager(fault)(fleet, chance)
    with begun as words:
        yield words


def _of_database(fault: Fault) -> bool:
    return fault in (pause_database, pause_backends, restart_database, crash_database, fill_disk)


def _let_pass(fleet: Fleet, jump: float) -> None:
    """What was put off by a clock that was ahead is put off by as much, and not lost: that time passes here."""
    if jump > 0:
        fleet.let_pass(jump)


def _start_database(fleet: Fleet) -> None:
    fleet.network.places["database"].do(fleet.postgres.start)


def _killed(fleet: Fleet, role: str) -> str:
    process = fleet.members[role].process
    if process is not None:
        process.kill()
        process.wait()
    fleet.members[role].revive()
    return f"{role} is killed"


def _pids(fleet: Fleet, role: str) -> list[int]:
    process = fleet.members[role].process
    return [] if process is None else [process.pid]


def _paused(pids: list[int], what: str) -> Iterator[str]:
    _signal(pids, signal.SIGSTOP)
    yield f"{what} stand still" if len(pids) > 1 else f"{what} stands still"
    _signal(pids, signal.SIGCONT)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _cut(fleet: Fleet, one: str, other: str, ways: int = 2) -> Iterator[str]:
    fleet.network.cut(one, other, ways)
    yield f"{one} {'hears nothing of' if ways == 1 else 'is cut off from'} the {other}"
    fleet.network.heal(one, other)
