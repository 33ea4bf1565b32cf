"""What runs a plugin, and what a plugin can ask of its host: the two interfaces between native code and the rest.

A runner calls into one plugin, in a process of its own or in ours. What the plugin asks meanwhile goes to its
services, with a frame that says on whose behalf. Neither knows how the other works.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from fairlead.failures.host import HostFailure


@dataclass(frozen=True, slots=True)
class Frame:
    """On whose behalf a host call is made: the agent is an upper-case UUID from the edge, or nobody."""

    plugin: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """What a plugin said of itself when it was loaded, and which optional callbacks it has."""

    abi: int
    manifest: str
    routes: bool
    config: bool
    events: bool


#: An answer at once, on the loop, or from a thread: the thread that sets a `Future` also sends the answer.
Answer: TypeAlias = "str | Awaitable[str | None] | Future[str | None] | None"


class Services(Protocol):
    """What a plugin can ask. Always called on the loop's thread."""

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> Answer:
        """The answer of a slot; `args` are its strings, a log's level as a decimal."""
        ...

    def stream(
        self, request: str | None, frame: Frame, chunk: Callable[[str], Awaitable[None]] | None
    ) -> Awaitable[str | None]:
        """The answer of `complete_stream`; `chunk` gives one piece to the plugin, and is None where it wants none."""
        ...


class Terminated(HostFailure):
    """The plugin's process was ended, or ended by itself, before there was an answer. The message has the word."""

    #: The cause alone, in words without a stop.
    because: str = "its process was ended"


class Runner(Protocol):
    """One plugin that can be called. Its failures are of the host family; `Terminated` if its process is gone."""

    async def start(self) -> Started:
        """Load the plugin, unless it runs already: entry, checks, `init`, `get_manifest`."""
        ...

    async def invoke(self, kind: str, id: str, payload: str, *, agent: str | None, timeout: float) -> str:
        """What the plugin's `invoke` gives."""
        ...

    async def handle_route(self, request: str, *, agent: str | None, timeout: float) -> str:
        """What the plugin answers to an HTTP request."""
        ...

    async def config_changed(self, key: str, value: str, *, agent: str | None, timeout: float = 15) -> None:
        """Tell the plugin of a value; one at a time, and nothing where it does not listen."""
        ...

    async def task_event(
        self, task: str, event: int, payload: str, *, agent: str | None, timeout: float = 30
    ) -> None:
        """Tell the plugin what became of a task; nothing where it does not listen."""
        ...

    async def stop(self) -> None:
        """Wait for what is in flight, destroy the plugin exactly once, and take no more calls."""
        ...
