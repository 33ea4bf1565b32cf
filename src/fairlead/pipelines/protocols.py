"""Sessions: a channel between two that speak in turn. Each of its steps is used exactly once, in order.

`c` is the end of the one who begins, `c@peer` the other's. In a choice the one who begins writes to `c@label`, and the
other reads `c@peer_label`; a label whose branch does not begin with `send` is chosen by sending `unit`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fairlead.pipelines import tree
from fairlead.pipelines.types import UNIT, Type, shown

if TYPE_CHECKING:
    from fairlead.pipelines.checking import Checker, Module
    from fairlead.pipelines.program import Protocol

PEER: Final = "peer"


def check_session(checker: Checker, module: Module, protocol: Protocol) -> None:
    """Check what a protocol is made of."""
    if isinstance(protocol.session, tree.Ending) and protocol.session.way == "loop":
        checker.tell(
            module, protocol.session.at, "recursive", f"The protocol {protocol.name!r} does nothing before it loops.",
            "Something has to be sent or received first.",
        )  # fmt: skip
    _walk(checker, module, protocol.session)


def _walk(checker: Checker, module: Module, session: tree.Session) -> None:
    match session:
        case tree.Exchange(type=node, rest=rest):
            checker.side(module, node)
            _walk(checker, module, rest)
        case tree.Choice(labels=labels):
            seen = set()
            for at, label, branch in labels:
                if label in seen:
                    checker.tell(module, at, "duplicate", f"There is a label {label!r} already.")
                seen.add(label)
                _walk(checker, module, branch)


@dataclass(eq=False, slots=True)
class Step:
    """One message of a session. `next` are the steps that may follow; from the last, a loop goes back to the first."""

    number: int
    way: str
    type: Type
    next: list[Step] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Session:
    """A protocol channel while its uses are checked, and what runs: its steps and where it begins."""

    name: str
    at: int
    first: list[Step]
    #: For each end and branch: the steps that are to come there, in order, with whether the end writes.
    tracks: dict[str, list[tuple[Step, bool]]]
    loops: bool = False
    used: dict[str, int] = field(default_factory=dict)

    def use(self, checker: Checker, module: Module, port: str | None, at: int, writes: bool) -> Step | None:
        """The step that a use of this channel stands for; None where it is not the next one, which is told."""
        key = port or ""
        if key not in self.tracks:
            ends = ", ".join(f"{self.name}@{each}" if each else self.name for each in self.tracks)
            checker.tell(
                module, at, "unknown", f"The session {self.name!r} has no end {key!r}.", f"There are {ends}."
            )
            return None
        done = self.used.get(key, 0)
        self.used[key] = done + 1
        track = self.tracks[key]
        spelled = f"{self.name}@{key}" if key else self.name
        if done >= len(track):
            checker.tell(
                module, at, "linear", f"{spelled!r} is used once more than its protocol says.",
                "A protocol channel cannot be copied: each step is used exactly once.",
            )  # fmt: skip
            return None
        step, wants = track[done]
        if wants != writes:
            said = f"sends {shown(step.type)}" if wants else f"receives {shown(step.type)}"
            checker.tell(
                module, at, "linear", f"The next step of {spelled!r} {said}.", "Use the steps in their order."
            )
            return None
        return step

    def finish(self, checker: Checker, module: Module) -> None:
        """Tell of steps that were never used."""
        for key, track in self.tracks.items():
            done = self.used.get(key, 0)
            if done < len(track):
                step, wants = track[done]
                spelled = f"{self.name}@{key}" if key else self.name
                said = f"sends {shown(step.type)}" if wants else f"receives {shown(step.type)}"
                checker.tell(
                    module, self.at, "linear", f"{spelled!r} is not used to its end: the next step {said}.",
                    "A protocol channel cannot be discarded: each step is used exactly once.",
                )  # fmt: skip


def session_of(checker: Checker, module: Module, protocol: Protocol, name: str, at: int) -> Session:
    """A protocol channel of its own."""
    made = Session(name, at, [], {"": [], PEER: []})
    numbers = iter(range(100_000))
    loops: list[Step] = []

    def follow(session: tree.Session, before: list[Step], label: str) -> None:
        mine, theirs = label, f"{PEER}_{label}" if label else PEER
        made.tracks.setdefault(mine, [])
        made.tracks.setdefault(theirs, [])
        match session:
            case tree.Exchange(way=way, type=node, rest=rest):
                step = Step(next(numbers), way, checker.side(protocol.module, node).types[0])
                link(step, before)
                made.tracks[mine].append((step, way == "send"))
                made.tracks[theirs].append((step, way == "recv"))
                follow(rest, [step], label)
            case tree.Choice(labels=labels):
                for _, inner, branch in labels:
                    named = f"{label}_{inner}" if label else inner
                    begins = isinstance(branch, tree.Exchange) and branch.way == "send"
                    chosen = before
                    if not begins:
                        step = Step(next(numbers), "send", UNIT)
                        link(step, before)
                        made.tracks.setdefault(named, []).append((step, True))
                        made.tracks.setdefault(f"{PEER}_{named}", []).append((step, False))
                        chosen = [step]
                    follow(branch, chosen, named)
            case tree.Ending(way="loop"):
                made.loops = True
                loops.extend(before)

    def link(step: Step, before: list[Step]) -> None:
        if before:
            for each in before:
                each.next.append(step)
        else:
            made.first.append(step)

    follow(protocol.session, [], "")
    for each in loops:
        each.next.extend(made.first)
    return made
