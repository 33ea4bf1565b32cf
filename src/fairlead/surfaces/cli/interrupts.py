"""An event loop for one command, with Ctrl-C and SIGTERM as its cancellation.

The first asks the work to stop; the loop goes on until it has, and what it held is released. The second ends
the process at once, unless the command knows a faster way to stop.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from fairlead.runtime import Signal

_REASONS = {signals.SIGINT: "Cancelled by Ctrl-C.", signals.SIGTERM: "Cancelled by a request to terminate."}
#: How long tasks that outlive the command may take to end.
_PATIENCE = 0.2


def run(
    main: Callable[[Signal], Coroutine[Any, Any, int]],
    loop: asyncio.AbstractEventLoop | None = None,
    *,
    hurry: Signal | None = None,
) -> int:
    """Run to the exit code. A command that a signal cancelled ends with 128 and the signal's number.

    With `hurry` the second signal cancels that, and only the third ends the process.
    """
    loop = asyncio.new_event_loop() if loop is None else loop
    cancel = Signal()
    received: list[int] = []
    try:
        with _handled(loop, [cancel] if hurry is None else [cancel, hurry], received):
            try:
                code = loop.run_until_complete(main(cancel))
            finally:
                drain(loop)
    finally:
        loop.close()
    return 128 + received[0] if received and code == 130 else code


@contextmanager
def _handled(loop: asyncio.AbstractEventLoop, cancels: list[Signal], received: list[int]) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        if len(received) == len(cancels):
            os._exit(128 + number)
        cancel = cancels[len(received)]
        received.append(number)
        loop.call_soon_threadsafe(cancel.cancel, _REASONS[signals.Signals(number)])

    before = {each: signals.getsignal(each) for each in _REASONS}
    try:
        for each in _REASONS:
            _wake(loop, each)
            signals.signal(each, stop)
    except (ValueError, RuntimeError):
        before = {}  # signals reach the main thread only; elsewhere the host program handles them
    try:
        yield
    finally:
        for each, handler in before.items():
            _let_sleep(loop, each)
            signals.signal(each, handler)


def _wake(loop: asyncio.AbstractEventLoop, each: signals.Signals) -> None:
    """Have the loop woken by a signal: the system may deliver it to another thread while the loop waits.

    The loop's own handler would not do in place of ours: it cannot run while an action holds the loop.
    """
    with suppress(NotImplementedError):  # Windows wakes the main thread by itself
        loop.add_signal_handler(each, lambda: None)


def _let_sleep(loop: asyncio.AbstractEventLoop, each: signals.Signals) -> None:
    with suppress(NotImplementedError):
        loop.remove_signal_handler(each)


def drain(loop: asyncio.AbstractEventLoop) -> None:
    """End what is left. Work on a thread that does not heed its cancellation is not waited for."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, pending = loop.run_until_complete(asyncio.wait(left, timeout=_PATIENCE))
        for task in pending:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left behind knowingly
    loop.run_until_complete(loop.shutdown_asyncgens())
