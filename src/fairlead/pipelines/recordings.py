"""Recordings: a run written down as lines, and played again without models, tools or actions.

Each line is one of `{"recording": 1}` (with the `"limits"` of the run, if it had any), `{"input": value}`,
`{"step": name, "place": name, "result": value}` (or `"failure"`, or `"cut"`: the seconds after which it was ended),
`{"output": value}`, and at last `{"end": null}` or `{"end": failure}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from fairlead import _json
from fairlead.failures import Failure
from fairlead.failures import runtime as wire
from fairlead.failures.runtime import ConfigError, ParseError
from fairlead.pipelines.host import Host
from fairlead.pipelines.journals import Journal, Recording, Replay
from fairlead.pipelines.lines import sent
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import Run

VERSION: Final = 1


class Recorder:
    """Writes a run down."""

    def __init__(self, file: TextIO, limits: Mapping[str, Any] | None = None) -> None:
        self._file = file
        self.write({"recording": VERSION, **({"limits": dict(limits)} if limits else {})})

    def write(self, line: dict[str, Any]) -> None:
        """Add a line."""
        self._file.write(_json.dumps(line) + "\n")

    def journal(self) -> Journal:
        """The journal for the run's host."""
        return Journal(Recording(self.write))

    def received(self, values: Iterable[Any]) -> None:
        """What went in."""
        for value in values:
            self.write({"input": value})

    def sent(self, values: Iterable[Any]) -> None:
        """What came out."""
        for value in values:
            self.write({"output": value})

    def ended(self, failure: Failure | None) -> None:
        """How it ended."""
        self.write({"end": None if failure is None else wire.render(failure)})


@dataclass(slots=True)
class Record:
    """A run that was written down."""

    inputs: list[Any] = field(default_factory=list)
    steps: dict[str, Any] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    complete: bool = False
    limits: dict[str, Any] | None = None


def read_record(text: str, name: str) -> Record:
    """A recording from its text. Raises ConfigError when it is none, or was cut off."""
    record, known = Record(), False
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            said = _line(_json.loads(line))
            known = known or said.get("recording") == VERSION
        except ValueError as error:
            message = f"Line {number} of {name!r} is not a line of a recording."
            raise ConfigError(message, details={"file": name, "line": number}, cause=error) from error
        _read(record, said)
    if not known or not record.complete:
        why = "is cut off: it has no end" if known else "is no recording"
        message = f"{name!r} {why}. Make one with `plumb run FILE --record REC`."
        raise ConfigError(message, details={"file": name})
    return record


def _line(said: Any) -> dict[str, Any]:
    """A line of a recording. Raises ValueError where it is none."""
    if not isinstance(said, dict) or not isinstance(said.get("end") or {}, dict):
        raise ValueError
    if "step" in said and not (
        isinstance(said["step"], str)
        and isinstance(said.get("place"), str)
        and isinstance(said.get("failure", {}), dict)
        and isinstance(said.get("cut", 0), int | float)
        and said.keys() & {"result", "failure", "cut"}
    ):
        raise ValueError
    return said


def _read(record: Record, said: dict[str, Any]) -> None:
    if "recording" in said:
        record.limits = said.get("limits")
    elif "input" in said:
        record.inputs.append(said["input"])
    elif "output" in said:
        record.outputs.append(said["output"])
    elif "step" in said:
        record.steps[said["step"]] = said
    elif "end" in said:
        record.failure, record.complete = said["end"], True


@dataclass(slots=True)
class Replayed:
    """What a replay gave, and how that differs from the recording."""

    outputs: list[Any]
    failure: Failure | None
    differences: list[str]
    steps: int

    @property
    def ok(self) -> bool:
        """Whether it went as it was recorded."""
        return not self.differences


async def replay(process: Process, record: Record, host: Host) -> Replayed:
    """Run a program on what was recorded: the same messages in, and each step as it was answered then."""
    pages = Replay(record.steps)
    host.journal, host.limits = Journal(pages), record.limits
    outputs: list[Any] = []
    failure: Failure | None = None
    try:
        async with Run(process, host, write=outputs.extend) as run:
            await sent(run, record.inputs, _broken(record.failure))
    except Failure as raised:
        failure = raised
    return Replayed(outputs, failure, _differences(record, outputs, failure, pages.left), len(record.steps))


def _broken(failure: dict[str, Any] | None) -> Failure | None:
    """What was wrong with the input itself: a line of it that was no message, and is in no recording."""
    if failure is None or failure.get("error") != ParseError.code or failure.get("source") != "main":
        return None
    return wire.parse(failure) if "line" in failure else None


def _differences(record: Record, outputs: list[Any], failure: Failure | None, left: set[str]) -> list[str]:
    found = []
    was = record.failure
    now = None if failure is None else wire.render(failure)
    if (was or {}).get("error") != (now or {}).get("error"):
        ends = [f"{each['error']}: {each['detail']}" if each else "no failure" for each in (was, now)]
        found.append(f"It ended with {ends[1]}; recorded was {ends[0]}.")
    spelled = [sorted(map(_json.dumps, each)) for each in (record.outputs, outputs)]
    for sign, one, other in (("missing", *spelled), ("new", *reversed(spelled))):
        rest = list(other)
        for each in one:
            if each in rest:
                rest.remove(each)
            else:
                found.append(f"{sign}: {each if len(each) <= 500 else each[:500] + '...'}")
    if left and not found:
        places = sorted({step.rpartition(":")[0].rpartition(":")[0] for step in left})
        found.append(f"{len(left)} recorded answers were not asked for: {', '.join(places)}.")
    return found
