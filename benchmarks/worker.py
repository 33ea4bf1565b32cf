"""The process of one contender. It is told on stdin what to do, and answers on stdout, a line of JSON each.

It runs in the contender's own environment, so it imports nothing but the contender and the shared task.
"""

import asyncio
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import task


async def main(module_name: str, maker: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    module = importlib.import_module(module_name)
    make = getattr(module, maker)
    is_call = maker.endswith("call")
    batch = task.repeat(make(task.create_task)) if is_call else make()
    await batch(1)
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "time":
            reply: Any = await timed(batch, order["count"])
        elif order["do"] == "memory":
            reply = resident_bytes()
        else:
            reply = await facts(make, getattr(module, "shown", repr))
        print(json.dumps(reply), file=answers)


async def timed(batch: task.Batch, count: int) -> float:
    start = time.perf_counter()
    await batch(count)
    return time.perf_counter() - start


async def facts(make: Callable[[Any], task.Call], shown: Callable[[Any], str]) -> dict[str, bool]:
    """What the contender really checks, found by giving it wrong values."""
    right, wrong = make(task.create_task), make(task.create_wrong_task)
    if not await ran(right, task.VALID, shown):
        raise SystemExit("the contender's result of a valid call does not show the function's output")
    return {
        "types": not await ran(right, task.WRONG_TYPE, shown),
        "constraints": not await ran(right, task.TOO_SHORT, shown),
        "output": not await ran(wrong, task.VALID, shown),
    }


async def ran(call: task.Call, arguments: dict[str, Any], shown: Callable[[Any], str]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(task.MARK) in shown(await call(arguments))
    except Exception:
        return False


def resident_bytes() -> int:
    """The process's size now; where the system does not tell, its greatest size so far."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
