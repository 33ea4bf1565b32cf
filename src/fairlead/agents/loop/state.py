"""`TaskState`: what the loop remembers of the calls of one message, so that a model does not go round in circles.

It says what a result was, gives back what was read already instead of reading it again, and finds the one
sentence that would help the model on. It runs nothing and blocks nothing; the driver asks it and decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

from fairlead import _json
from fairlead.agents.loop import notices, paths
from fairlead.failures.tool import is_error, is_success

#: Tools whose success may be given again, as long as nothing was changed.
READS: Final = frozenset({"file_read", "file_search", "sandbox_read_file", "sandbox_search_files"})
SEARCHES: Final = frozenset({"file_search", "sandbox_search_files"})
#: Tools that change one file, by path.
WRITES: Final = frozenset({"file_edit", "file_write", "sandbox_write_file"})
#: Tools that may change anything, however they end.
COMMANDS: Final = frozenset({"shell_run", "sandbox_exec"})
#: Tools that fail the same way until something changes, where the failure is one of `LASTING`.
STEADY: Final = frozenset({"file_read", "file_search", "file_edit"})
LASTING: Final = frozenset({"invalid_args", "not_found"})
#: Failures after which nothing can have changed.
_HARMLESS_ENDS: Final = LASTING | {"rejected", "user_denied", "tool_not_found"}
#: Tools that change the conversation and nothing that could be read.
_OWN: Final = frozenset({"todo", "complete", "clarify"})
#: Arguments longer than this are known by their hash: a whole file need not be kept to be recognised.
_LONG: Final = 512
#: So many listings without a file read in between are wandering.
WANDERING: Final = 2
#: So many identical calls are a circle.
CIRCLE: Final = 3


class Outcome(StrEnum):
    """What a result means for the way on."""

    not_found = "notFound"
    error = "error"
    empty_listing = "emptyListing"
    partial_listing = "partialListing"
    populated_listing = "populatedListing"
    file_content = "fileContent"
    other = "other"


LISTINGS: Final = frozenset({Outcome.empty_listing, Outcome.partial_listing, Outcome.populated_listing})


@dataclass(frozen=True, slots=True)
class Held:
    """A result that is known already. A failure comes with what to tell the model about trying it again."""

    envelope: str
    notice: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """The last folder that was listed: what a user may mean by "the file" in the next message."""

    path: str
    entries: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Call:
    """A call in one spelling, whatever the order of its arguments."""

    name: str
    arguments: str
    path: str | None

    @property
    def shelf(self) -> str:
        """Where its failure is kept: by the file's own name, or with all that any write makes old."""
        return "" if self.path is None or self.name in SEARCHES else paths.last(self.path)


@dataclass(frozen=True, slots=True)
class _Failed:
    """A failure that is kept, and how often its call was made."""

    envelope: str
    times: int = 1


def classify(envelope: str | Mapping[str, Any]) -> Outcome:
    """What a tool's result means for the way on."""
    return _classified(_opened(envelope))


class TaskState:
    """The memory of one run. Work for each call is small, and does not grow with the run."""

    def __init__(self, nudges: bool = True) -> None:
        self._nudges = nudges
        #: Survives messages: "read the file" often means one of the list before.
        self.listing: Listing | None = None
        self.begin_message()

    def begin_message(self) -> None:
        """Forget all but the last listing: a user's new message is a new task."""
        self.wandering = 0
        self._reads: dict[_Call, str] = {}
        self._failed: dict[_Call, _Failed] = {}
        self._shelves: dict[str, set[_Call]] = {}
        self._repeats: dict[_Call, int] = {}
        self._staged: str | None = None
        self._last: tuple[str, str, _Call] | None = None

    def held(self, name: str, arguments: str) -> Held | None:
        """The result of this very call, if it is still true; None when the call has to be made."""
        if name not in READS and name not in STEADY:
            return None
        call = self._call(name, arguments)
        read = self._reads.get(call)
        if read is not None:
            return Held(read)
        failed = self._failed.get(call)
        if failed is None:
            return None
        again = self._failed[call] = replace(failed, times=failed.times + 1)
        return Held(failed.envelope, notices.failed_again(name, again.times), is_error=True)

    def record(
        self, name: str, arguments: str, envelope: str, *, effects: str = "read", beside: bool = False
    ) -> None:
        """Take note of a call that was made, with the effects that its action declares.

        `beside`: it was made at the same time as one that changed something. Nobody knows which was first, so its
        result is not given again.
        """
        call = self._call(name, arguments)
        result = _opened(envelope)
        outcome = _classified(result)
        self._forget(call, result, effects)
        self._keep(call, result, envelope, beside)
        if outcome in LISTINGS:
            self.wandering += 1
            self.listing = _listing(result)
        elif outcome is Outcome.file_content:
            self.wandering = 0
        self._staged = self._advice(call, outcome) if self._nudges else None

    def nudge(self) -> str | None:
        """What would help the model on after the last call. It is told once."""
        staged, self._staged = self._staged, None
        return staged

    def _call(self, name: str, arguments: str) -> _Call:
        # A call is asked for and then recorded: its arguments are read once.
        last = self._last
        if last is not None and last[1] is arguments and last[0] == name:
            return last[2]
        call = _spelled(name, arguments)
        self._last = (name, arguments, call)
        return call

    def _keep(self, call: _Call, result: _Result, envelope: str, beside: bool) -> None:
        known = self._failed.get(call)
        if beside or not result.ok:
            self._reads.pop(call, None)
        elif call.name in READS:
            self._reads[call] = envelope
        if not beside and result.failed and call.name in STEADY and result.kind in LASTING:
            self._failed[call] = _Failed(envelope, 1 if known is None else known.times + 1)
            self._shelves.setdefault(call.shelf, set()).add(call)
        elif known is not None:
            del self._failed[call]

    def _forget(self, call: _Call, result: _Result, effects: str) -> None:
        """Drop what this call may have made untrue."""
        if not _changed(call.name, result, effects):
            return
        # All of them: a link may lead to the file that was written, and only the disk knows.
        self._reads.clear()
        if call.name in WRITES and call.path is not None:
            self._forgive(call.path)
        else:
            self._failed.clear()
            self._shelves.clear()
        if result.ok and call.name not in COMMANDS:
            # Something moved: running the tests again after an edit is no circle. Editing the same way is.
            self._repeats = {call: times} if (times := self._repeats.get(call)) else {}

    def _forgive(self, path: str) -> None:
        """Forget the failures that a write to a path may have mended."""
        for wide in self._shelves.pop("", ()):
            self._failed.pop(wide, None)
        # A file that is written may have made its folders, too.
        for each in (path, *paths.above(path)):
            shelf = self._shelves.get(paths.last(each), set())
            for call in [known for known in shelf if known.path is not None and paths.same(known.path, each)]:
                self._failed.pop(call, None)
                shelf.discard(call)

    def _advice(self, call: _Call, outcome: Outcome) -> str | None:
        if call.name not in READS:
            times = self._repeats[call] = self._repeats.get(call, 0) + 1
            if times >= CIRCLE:
                return notices.circle(call.name, times)
        if outcome in LISTINGS:
            return notices.listing(outcome) if self.wandering >= WANDERING else None
        if outcome is not Outcome.not_found:
            return None
        if call.path is None:
            return notices.unknown_thing(call.name)
        seen = self.listing
        return notices.unknown_path(None if seen is None else seen.path, seen is not None and seen.truncated)


@dataclass(frozen=True, slots=True)
class _Result:
    """What an envelope says, read once: how it ended, the failure's kind, and the result of a success."""

    ok: bool
    failed: bool
    kind: str = ""
    data: Mapping[str, Any] | None = None


def _opened(envelope: str | Mapping[str, Any]) -> _Result:
    if not isinstance(envelope, str):
        return _read(envelope, ok=envelope.get("ok") is True, failed=envelope.get("ok") is False)
    failed = is_error(envelope)
    ok = not failed and is_success(envelope)
    # Most successes are neither a listing nor a file, which shows without reading them.
    if not failed and not (ok and '"kind"' in envelope and ('"listing"' in envelope or '"file"' in envelope)):
        return _Result(ok, failed)
    try:
        told = _json.loads(envelope)
    except ValueError:
        return _Result(ok, failed)
    return _read(told, ok=ok, failed=failed) if isinstance(told, dict) else _Result(ok, failed)


def _read(told: Mapping[str, Any], *, ok: bool, failed: bool) -> _Result:
    if failed:
        return _Result(ok, failed, str(told.get("kind") or ""))
    data = told.get("result")
    return _Result(ok, failed, data=data if isinstance(data, dict) else None)


def may_change(name: str, effects: str) -> bool:
    """Whether a tool may change what others read, by the effects that its action declares."""
    return name in WRITES or name in COMMANDS or (effects != "read" and name not in _OWN)


def changed(name: str, envelope: str, effects: str) -> bool:
    """Whether a call that ended so may have changed what others read."""
    return _changed(name, _opened(envelope), effects)


def _changed(name: str, result: _Result, effects: str) -> bool:
    if not may_change(name, effects):
        return False
    return name in COMMANDS or not (result.failed and result.kind in _HARMLESS_ENDS)


def _classified(result: _Result) -> Outcome:
    if result.failed:
        return Outcome.not_found if result.kind == "not_found" else Outcome.error
    data = result.data or {}
    kind = data.get("kind")
    if kind == "file":
        return Outcome.file_content
    if kind != "listing":
        return Outcome.other
    if not _count(data):
        return Outcome.empty_listing
    return Outcome.partial_listing if data.get("truncated") is True else Outcome.populated_listing


def _count(listing: Mapping[str, Any]) -> int:
    count = listing.get("entry_count")
    if isinstance(count, int):
        return count
    entries = listing.get("entries")
    return len(entries) if isinstance(entries, list) else 0


def _listing(result: _Result) -> Listing:
    data = result.data or {}
    entries = data.get("entries")
    listed = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    named = tuple(str(each.get("path") or each.get("name") or "") for each in listed)
    return Listing(str(data.get("path") or "."), named, data.get("truncated") is True)


def _spelled(name: str, arguments: str) -> _Call:
    try:
        told = _json.loads(arguments)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return _Call(name, arguments.strip(), None)
    spelled = _json.dumps(told, sort_keys=True)
    if len(spelled) > _LONG:
        spelled = blake2b(spelled.encode(), digest_size=20).hexdigest()
    return _Call(name, spelled, paths.argument(told))
