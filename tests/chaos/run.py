"""Faults by a seed, while clients work; then everything is mended, and what must hold is checked.

    make chaos ROUNDS=200
    python tests/chaos/run.py --form nats --seed 7 --rounds 50

Ends with 1 and the seed where something does not hold. The same seed gives the same faults in the same order; when
they fall is the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import warm_python
from chaos.faults import LONG, happening, schedule
from chaos.fleet_in_chaos import build
from chaos.load import Broken, Load, hold
from chaos.members import Fleet
from chaos.network import be_apart
from fairlead import App, Failure
from fairlead.gateway.keys import Keys
from fairlead.store import Statement
from fairlead.tasks import State, Tasks
from fairlead.tasks.bus import open_bus
from warm_child import Copies

#: Seconds in which a fleet is well again after a fault.
PATIENCE = 60.0
_TASKS = Statement.of("SELECT id, key, state, latest, run, action FROM tasks")
_ENDS = Statement.of(
    "SELECT task, count(*), max(number) FROM task_events WHERE type = 'terminal' GROUP BY task"
)
_OPEN = Statement.of(
    "SELECT id, action, key, state, ready, run, attempt, worker, due, lease FROM tasks WHERE ended IS NULL"
)
_STARTS = Statement.of("SELECT task, count(*) FROM task_events WHERE type = 'started' GROUP BY task")


async def play(fleet: Fleet, load: Load, rounds: int, seed: str) -> None:
    """Let it go wrong so many times; after each, all clients go on."""
    chance = random.Random(seed)
    faults = schedule(chance, fleet.nats is not None)
    await _progress(load, "the fleet begins to work")
    for number in range(1, rounds + 1):
        begun = time.monotonic()
        with ExitStack() as stack:
            words = []
            for fault in next(faults):
                words.append(await asyncio.to_thread(stack.enter_context, happening(fault, fleet, chance)))
                await asyncio.sleep(chance.uniform(0, 0.3))
            print(f"{number}: {', '.join(words)}", flush=True)
            await asyncio.sleep(chance.uniform(*LONG))
            await asyncio.to_thread(stack.close)
        healed = time.monotonic()
        await _progress(load, f"work goes on after: {', '.join(words)}")
        print(f"   {healed - begun:.1f} s, well after {time.monotonic() - healed:.1f} s", flush=True)


async def _progress(load: Load, what: str) -> None:
    before = load.count.copy()
    end = time.monotonic() + PATIENCE
    while any(load.count[kind] < before[kind] + 2 for kind in ("talks", "calls", "tasks")):
        hold(time.monotonic() < end, f"{PATIENCE:g} seconds are not enough until {what}: {load.count}")
        await asyncio.sleep(0.02)


async def revive(fleet: Fleet) -> None:
    while True:
        await asyncio.to_thread(fleet.revive)
        await asyncio.sleep(0.2)


async def check(tasks: Tasks, load: Load, folder: Path) -> str:
    """What must hold of what is on disk, once all has ended."""
    end = time.monotonic() + PATIENCE
    while any(not State(state).final for state in await tasks.counts()):
        hold(time.monotonic() < end, f"tasks have not ended: {await tasks.counts()}")
        await asyncio.sleep(0.05)
    rows = await tasks.store.read(lambda tx: tx.all(_TASKS))
    ends = {id: (count, last) for id, count, last in await tasks.store.read(lambda tx: tx.all(_ENDS))}
    starts: dict[str, int] = dict(await tasks.store.read(lambda tx: tx.all(_STARTS)))
    by_key = {row[1]: row for row in rows if row[1] is not None}
    for id, _, state, latest, run, _ in rows:
        hold(ends.get(id) == (1, latest), f"task {id} ({state}) has the ends {ends.get(id)}, latest {latest}")
        hold(starts.get(id, 0) == run, f"task {id} was started {starts.get(id)} times in {run} runs")
        said, reply = load.said.get(id, ("", ""))
        # A run that goes on where a lost one was says nothing twice, and cannot know what was heard.
        hold(run > 1 or said == reply, f"task {id} said {said!r} by the piece, and {reply!r} in the end")
    for key, id in {**load.effects, **load.singles}.items():
        hold(key in by_key and by_key[key][0] == id, f"the task {id} of {key} was accepted, and is not there")
    done = Counter((folder / "effects").read_text().split())
    for key in load.effects:
        hold(by_key[key][2] == "completed" and done[key] > 0, f"{key} was not done: {by_key[key]}")
    twice = {
        key: count for key, count in Counter((folder / "begun").read_text().split()).items() if count > 1
    }
    hold(not twice, f"begun twice: {twice}")
    again = sum(row[4] for row in rows) - len(rows)
    return f"{len(rows)} tasks, {again} runs again, {dict(load.count)}, seen {dict(load.seen)}"


async def _open(tasks: Tasks, app: App) -> list[Any]:
    """The tasks that have not ended, by the present time."""
    rows = await tasks.store.read(lambda tx: tx.all(_OPEN))
    now = app.clock.time()
    return [
        (*row[:-2], *(None if each is None else round(each - now, 1) for each in row[-2:])) for row in rows
    ]


async def scenario(fleet: Fleet, app: App, rounds: int, seed: str, key: str) -> str:
    tasks = Tasks(app, app.store, bus=open_bus(app.store, app.clock, fleet.bus))
    load = Load(fleet.gateways, key, tasks, fleet.postgres.was_full_since)
    reviving = asyncio.ensure_future(revive(fleet))
    working = asyncio.ensure_future(load.run())
    playing = asyncio.ensure_future(play(fleet, load, rounds, seed))
    try:
        await asyncio.wait((working, playing), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            load.stop()
            stuck = playing.exception()
            await asyncio.wait((working,), timeout=1 if stuck else PATIENCE)
            words = "" if stuck is None else f"{stuck!r}; "
            hold(
                working.done(), f"{words}clients still wait: {load.waiting()}, for {await _open(tasks, app)}"
            )
            playing.result()
        working.result()
        return await check(tasks, load, fleet.folder)
    finally:
        for each in (playing, working, reviving):
            each.cancel()
        await asyncio.gather(playing, working, reviving, return_exceptions=True)
        await tasks.bus.close()


def run(form: str, seed: str, rounds: int, say: Callable[[str], None]) -> bool:
    """Whether all held."""
    be_apart()
    copies = Copies(warm_python.main)
    folder = Path(tempfile.mkdtemp(prefix="fairlead-chaos-"))
    fleet = Fleet(copies, folder, form == "nats")
    begun = time.monotonic()
    try:
        app = build(fleet.url, folder, "test")
        key = Keys(app.store, app.wall).issue_now("chaos", owner="local", per_minute=10**6)[0]
        fleet.start()
        words = asyncio.run(scenario(fleet, app, rounds, seed, key))
        say(f"{form}, seed {seed}: {rounds} rounds in {time.monotonic() - begun:.0f} s, {words}")
        app.store.close()
    except (Broken, TimeoutError, ExceptionGroup, Failure) as broken:
        told = []
        for error in broken.exceptions if isinstance(broken, ExceptionGroup) else (broken,):
            told.append(f"{type(error).__name__}: {error}")
        for log in (*sorted(folder.glob("*.txt")), fleet.postgres.log):
            say(f"-- {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        for words in told:
            say(words)
        say(f"It did not hold with --form {form} --seed {seed} --rounds {rounds}")
        return False
    finally:
        fleet.remove()
        copies.close()
        shutil.rmtree(folder, ignore_errors=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--form", choices=("postgres", "nats"), default="nats")
    parser.add_argument("--seed", default=None, help="by default another one each time")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    seed = given.seed or f"{random.SystemRandom().randrange(10**6)}"
    return 0 if run(given.form, seed, given.rounds, print) else 1


if __name__ == "__main__":
    sys.exit(main())
