"""The process of one queue: `python toil.py queues.fairlead:Fairlead ADDRESS...`.

It is told on stdin what to do, a method of the queue and its arguments, and answers on stdout, a line of JSON each.
It runs in the queue's own environment, so it imports nothing but the queue.
"""

import asyncio
import importlib
import json
import os
import sys


async def main(target: str, addresses: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    module, _, name = target.partition(":")
    queue = getattr(importlib.import_module(module), name)(*addresses)
    await queue.open()
    print(json.dumps({"ready": True}), file=answers)
    orders = await _orders()
    # No line: who gave the orders is gone.
    while line := await orders.readline():
        order = json.loads(line)
        answer = await getattr(queue, order["do"])(*order["with"])
        print(json.dumps(answer), file=answers)
    os._exit(0)


async def _orders() -> asyncio.StreamReader:
    """Lines of stdin, read without holding up what runs meanwhile."""
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
