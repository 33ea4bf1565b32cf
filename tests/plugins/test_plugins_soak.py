"""Many calls with kills in between: each is answered rightly or fails clearly, and nothing is left behind.

Quick unless FAIRLEAD_SOAK says how many calls: `FAIRLEAD_SOAK=100000 pytest tests/plugins/test_plugins_soak.py`.
"""

from __future__ import annotations

import asyncio
import gc
import glob
import os
import random
import signal
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins.child import Exit
from fairlead.plugins.process import ProcessRunner
from plugins.native_kit import ANN, Answering, processes

CALLS = int(os.environ.get("FAIRLEAD_SOAK", "3000"))
#: So many callers at once, and a kill after about so many calls.
CALLERS, BETWEEN_KILLS = 8, 250


def ours() -> set[int]:
    """The processes that we started, which have not been waited for or still run."""
    found = set()
    for pid in processes():
        try:
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(pid)
    return found


def held() -> tuple[int, int, int]:
    """Open files, threads and processes of ours."""
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(ours())


def scratch() -> set[str]:
    """The private folders of plugins of ours."""
    return set(glob.glob(f"{tempfile.gettempdir()}/fairlead-plugin-{os.getpid()}-*"))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def one_call(runner: ProcessRunner, number: int, chance: random.Random) -> str:
    """Make one of several kinds of calls; which, or how it failed."""
    text = f"call {number} " + "x" * chance.choice([0, 10, 1000, 70_000])
    kind = chance.choice(["raw", "raw", "raw", "host", "stream", "threads", "config"])
    try:
        if kind == "raw":
            assert await runner.invoke("tool", "raw", text, agent=ANN, timeout=30) == text
        elif kind == "host":
            assert await runner.invoke("tool", "host", f"1\n{text}", agent=ANN, timeout=30) == text
        elif kind == "stream":
            assert await runner.invoke("tool", "stream", text, agent=ANN, timeout=30) == "one|two|three|=done"
        elif kind == "threads":
            told = await runner.invoke("tool", "threads", "2 2", agent=ANN, timeout=30)
            assert told == "right 4, with an agent 0"
        else:
            await runner.config_changed("key", text[:50], agent=ANN, timeout=30)
    except Failure as failure:
        if failure.kind is not Kind.unavailable or "terminated" not in failure.message:
            raise
        return "terminated"
    return kind


@pytest.mark.timeout(120 + CALLS // 100)
async def test_a_soak_with_kills_in_between_leaves_nothing_behind(toy: Path) -> None:
    chance = random.Random(8)  # the same each time
    services = Answering()
    exits: list[Exit] = []

    async def soak(calls: int) -> Counter[str]:
        runner = ProcessRunner("test.toy", toy, services, on_exit=exits.append)
        numbers = iter(range(calls))
        done: Counter[str] = Counter()

        async def caller() -> None:
            for number in numbers:
                done[await one_call(runner, number, chance)] += 1
                services.asked.clear()
                if number % BETWEEN_KILLS == BETWEEN_KILLS // 2 and runner.pid is not None:
                    os.kill(runner.pid, signal.SIGKILL)
                    done["kills"] += 1

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        await runner.stop()
        # On the loop's one thread for work that blocks, so that it is there before anything is counted.
        await asyncio.to_thread(gc.collect)
        return done

    await soak(500)
    before, memory, folders, exits[:] = held(), resident(), scratch(), []
    done = await soak(CALLS)
    kills = done.pop("kills")
    assert sum(done.values()) == CALLS
    assert kills >= CALLS // BETWEEN_KILLS // 2
    assert done["terminated"] < CALLS / 10
    assert len(exits) == kills + 1
    assert [exit.reason for exit in exits[-1:]] == ["stopped"]
    files, threads, children = held()
    assert (files, children) == (before[0], before[2])
    assert threads <= before[1]  # those of other tests may have ended meanwhile
    assert resident() - memory < 20_000_000
    assert scratch() == folders
