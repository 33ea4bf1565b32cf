"""What the steps of a run gave. A step that is known is not done again: so runs go on after a crash, and are replayed.

A step is a call of a model, a tool or an action. It is known by its place, by what it was asked, and by how often
that was asked there: whatever order messages come in, the same step has the same name. Programs (`exec`) are not
steps: they are run again, on the same messages.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import orjson

from fairlead import _json
from fairlead.agents.models.model import Message
from fairlead.failures import Failure
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import ConfigError

_SORTED: Final = orjson.OPT_SORT_KEYS
MISSING: Final = object()
#: Seconds by which a replay may be later than its recording in ending what was cut off there.
_LATE: Final = 5.0

Work = Callable[[str], Awaitable[Any]]


class CutOff(NamedTuple):
    """A step that was ended after so many seconds, by a time-out or the end of the run: nobody knows its answer."""

    seconds: float
    refused: Failure


class Pages(Protocol):
    """Where steps are kept."""

    #: The name of the run that they are of, if it may be run again.
    run: str | None
    #: Whether every step is known: then nobody has to be there to answer.
    replaying: bool
    #: Whether failures are steps, too, each with a number of its own.
    failures: bool

    def known(self, step: str) -> Any:
        """What a step gave, or MISSING. Raises Failure where it has to be known."""
        ...

    async def keep(self, step: str, place: str, result: Any) -> None:
        """Keep what a step gave; it is kept when this returns."""
        ...

    def failed(self, step: str, place: str, failure: Failure) -> None:
        """A step failed. It is not known by that, and may be done again."""
        ...

    def cut_off(self, step: str, place: str, seconds: float) -> None:
        """A step was ended while it was under way."""
        ...


class Journal:
    """The steps of one run, or of a part of it."""

    def __init__(self, pages: Pages, within: str = "") -> None:
        self.pages = pages
        self._within = within
        self._asked: Counter[str] = Counter()
        #: Numbers of steps that came to nothing: whoever asks the same next is that step, with its key.
        self._free: dict[str, list[int]] = {}
        #: What was given by steps that could not be kept.
        self._unkept: dict[str, Any] = {}

    async def once(self, place: str, asked: Any, work: Work) -> Any:
        """What a step gives: as it is known, or by doing it. The work gets the step's name.

        Raises:
            Failure: it failed; it may be tried again as the same step.
        """
        return await self.answered(place, digest(asked), work)

    async def answered(self, place: str, asked: str, work: Work) -> Any:
        """The same for what is asked by its digest. Raises Failure."""
        name = f"{self._within}{place}:{asked}"
        number = self._number(name)
        step = f"{name}:{number}"
        result = self.pages.known(step)
        if result is not MISSING and not isinstance(result, CutOff):
            return result
        if isinstance(result, CutOff):
            await asyncio.sleep(result.seconds + _LATE)
            raise result.refused
        began = time.monotonic()
        try:
            if step not in self._unkept:
                self._unkept[step] = await work(step)
        except BaseException as error:
            if isinstance(error, Failure):
                self.pages.failed(step, place, error)
            else:
                self.pages.cut_off(step, place, time.monotonic() - began)
            if not (isinstance(error, Failure) and self.pages.failures):
                self._free.setdefault(name, []).append(number)
            raise
        try:
            await self.pages.keep(step, place, self._unkept[step])
        except BaseException:
            # It is done: whoever tries again keeps it, and does nothing.
            self._free.setdefault(name, []).append(number)
            raise
        return self._unkept.pop(step)

    def _number(self, name: str) -> int:
        if free := self._free.get(name):
            free.sort(reverse=True)
            return free.pop()
        self._asked[name] += 1
        return self._asked[name]

    def key(self, step: str) -> str | None:
        """The idempotency key of a step, where the run has a name that stays."""
        return None if self.pages.run is None else f"{self.pages.run}:{step}"

    def inside(self, step: str) -> Journal:
        """The journal of what is called within a step.

        The step has its name whether or not those before it are done again, and so has what is within.
        """
        return Journal(self.pages, f"{step}/")


def digest(asked: Any) -> str:
    """What is asked, as short as a name."""
    try:
        spelled = orjson.dumps(asked, option=_SORTED)
    except TypeError:  # integers beyond 64 bits
        spelled = _json.encode(asked)
    return hashlib.sha256(spelled).hexdigest()[:32]


def question(messages: Sequence[Message]) -> list[Any]:
    """What a model is asked, as far as it decides about the answer."""
    return [
        [each.role, each.content, [[call.name, call.arguments] for call in each.calls]] for each in messages
    ]


class Memory:
    """Steps in memory; also the beginning of every other kind."""

    run: str | None = None
    replaying = False
    failures = False

    def __init__(self, steps: dict[str, Any] | None = None) -> None:
        self.steps = steps if steps is not None else {}

    def known(self, step: str) -> Any:
        return self.steps.get(step, MISSING)

    async def keep(self, step: str, place: str, result: Any) -> None:
        self.steps[step] = result

    def failed(self, step: str, place: str, failure: Failure) -> None:
        pass

    def cut_off(self, step: str, place: str, seconds: float) -> None:
        pass


class Recording(Memory):
    """Steps as lines that are written down one by one, to be replayed."""

    failures = True

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._write = write

    def known(self, step: str) -> Any:
        return MISSING

    async def keep(self, step: str, place: str, result: Any) -> None:
        self._write({"step": step, "place": place, "result": result})

    def failed(self, step: str, place: str, failure: Failure) -> None:
        self._write({"step": step, "place": place, "failure": wire.render(failure)})

    def cut_off(self, step: str, place: str, seconds: float) -> None:
        self._write({"step": step, "place": place, "cut": round(seconds, 3)})


def _around(step: str) -> Iterator[str]:
    """What the name of a step says of the steps that it is within."""
    end = step.find("/")
    while end >= 0:
        yield step[:end]
        end = step.find("/", end + 1)


class Replay(Memory):
    """Steps of a recording, and no others: what was not recorded fails."""

    replaying = True
    failures = True

    def __init__(self, steps: dict[str, Any]) -> None:
        super().__init__(steps)
        #: Steps that were not asked for yet. One within another is only asked for where that one is not known.
        self.left = {step for step in steps if not any(outer in steps for outer in _around(step))}

    def known(self, step: str) -> Any:
        if step not in self.steps:
            place = step.rpartition(":")[0].rpartition(":")[0]
            recorded = sum(each.startswith(f"{place}:") for each in self.steps)
            message = (
                f"The recording has no answer for what {place!r} is asked now; it has {recorded} others of it. "
                "Record it again: the program or its input has changed."
            )
            raise ConfigError(message, details={"source": place})
        self.left.discard(step)
        said = self.steps[step]
        if "failure" in said:
            raise wire.parse(said["failure"])
        if "cut" in said:
            message = f"The recording ends what {said['place']!r} is asked here, and now nothing did."
            return CutOff(said["cut"], ConfigError(message, details={"source": said["place"]}))
        return said["result"]
