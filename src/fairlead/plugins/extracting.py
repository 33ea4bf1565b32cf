"""A library's manifest, had from the library itself: it is loaded in its fence, asked, and ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from fairlead import _json
from fairlead.failures import Failure
from fairlead.failures.host import ContextUnavailable, render
from fairlead.plugins.runner import Frame, Runner, Started
from fairlead.plugins.slots import JSON, SLOTS

T = TypeVar("T")

#: Seconds for all of it.
TIMEOUT: Final = 30.0


class Nothing:
    """A host that has nothing to give: no values, no database, no models. What is logged is kept."""

    def __init__(self) -> None:
        self.said: list[tuple[str | None, ...]] = []

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> str | None:
        about = SLOTS[slot]
        assert about is not None
        if about.name in ("log", "log_structured"):
            self.said.append(args)
        return _refusal() if about.gives == JSON else None

    async def stream(
        self, request: str | None, frame: Frame, chunk: Callable[[str], Awaitable[None]] | None
    ) -> str | None:
        return _refusal()


async def extract(library: Path, folder: Path | None = None) -> Started:
    """What a library says of itself; it may read the folder. Raises Failure when it cannot be loaded."""
    from fairlead.plugins.process import ProcessRunner

    runner: Runner = ProcessRunner("manifest", library, Nothing(), folder=folder or library.parent)
    try:
        return await asyncio.wait_for(runner.start(), TIMEOUT)
    except TimeoutError:
        raise ContextUnavailable(
            f"{library.name!r} did not finish loading within {TIMEOUT:.0f} seconds."
        ) from None
    finally:
        await runner.stop()


def extract_now(library: Path, folder: Path | None = None) -> Started:
    """The same for code that cannot wait on a loop."""
    return apart(extract(library, folder))


def apart(work: Coroutine[Any, Any, T]) -> T:
    """Run something to its end on a loop of its own, whether or not one is running here."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as exc:
            failed.append(exc)

    thread = threading.Thread(target=run, name="fairlead-plugin")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _refusal() -> str:
    failure: Failure = ContextUnavailable("There is no host here: the plugin is only asked for its manifest.")
    return _json.dumps(render(failure), sort_keys=True)
