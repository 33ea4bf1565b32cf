"""`Compaction`: a conversation that fits into a model's window, however long it gets.

What has to go goes in this order, the oldest first: old listings are collapsed, old results and long turns are
shortened, old turns with tools are left out, old exchanges are left out. The first message, the message that is
being worked on and the last three turns stay as they are, and a call is never parted from its result.

What was made smaller once stays so, in the very same bytes: providers cache the beginning of a conversation,
and each change there is paid for. For the same reason it makes more room than it needs, and rests for a while.
It works on estimates, asks no model for a summary, and leaves the stored conversation as it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from fairlead.agents.loop import estimates, notices, shortening
from fairlead.agents.models.model import Message

#: How much of a window may be used.
EFFECTIVE: Final = 0.85
#: What a reply may take, where nobody said.
DEFAULT_RESPONSE: Final = 4_096
#: How many of the model's last turns stay as they are.
TURNS_KEPT: Final = 3
#: How full the room is after something was taken out.
LOW: Final = 0.75
#: Stands at the end of the first message once turns were left out. It never changes, so neither does that message.
LEFT_OUT: Final = notices.notice(
    "Earlier turns of this conversation were left out to save room. Look up again what you need of them."
)

Shorten = Callable[[Message], Message | None]


class Fitted(NamedTuple):
    """A conversation as it goes to the model. `over` says that it is too long even so."""

    messages: list[Message]
    tokens: int
    over: bool


@dataclass(slots=True)
class _Group:
    """Messages that stay together: a turn with calls and its results, or any other message by itself."""

    start: int
    end: int
    role: str
    #: Whether the model called tools in it.
    calls: bool
    dropped: bool = False


@lru_cache
def room(window: int, max_tokens: int | None) -> int:
    """How many tokens a model's window has for what it is told, beside its reply."""
    effective = int(window * EFFECTIVE)
    response, most = max_tokens or DEFAULT_RESPONSE, effective // 4
    return effective - (response if response < most else most)


class Compaction:
    """What was made smaller in one conversation so far. Give it the conversation whole, each time."""

    #: Whether room had to be made. Most conversations fit as they are, and need nothing of what is kept for that.
    _grouped = False
    _factor = 1.0

    def __init__(
        self,
        window: int,
        *,
        system: int = 0,
        tools: int = 0,
        max_tokens: int | None = None,
        turns_kept: int = TURNS_KEPT,
    ) -> None:
        self._turns_kept = turns_kept if turns_kept > 1 else 1
        self._room = room(window, max_tokens)
        self._reserved = system + tools
        self._given: Sequence[Message] | None = None
        self._seen: list[Message] = []
        self._tokens = 0

    def _begin_groups(self) -> None:
        """Put together what is needed to make room."""
        self._grouped = True
        #: The messages as they are shown; None for one that is left out.
        self._shown: list[Message | None] = []
        self._shown += self._seen
        #: Those of them that are shown, as long as nothing has changed since they were put together.
        self._visible = self._seen.copy()
        self._changed = False
        self._sizes = [estimates.message(each) for each in self._seen]
        self._groups: list[_Group] = []
        #: Groups by number: the model's turns, and the users' messages.
        self._turns: list[int] = []
        self._users: list[int] = []
        #: How far each way of making room has got, in groups.
        self._reached = [0, 0, 0, 0]
        for at, message in enumerate(self._seen):
            self._group(at, message)

    @property
    def budget(self) -> int:
        """How many tokens the conversation may take, as they are estimated here."""
        left = int((self._room - self._reserved) / self._factor)
        return left if left > 0 else 0

    def reserve(self, *, system: int, tools: int) -> None:
        """Say what else the window has to hold, when that has changed."""
        self._reserved = system + tools

    def measured(self, estimated: int, counted: int) -> None:
        """Learn from what a provider counted. Room gets smaller by it, at most by half, and never larger."""
        if estimated > 0:
            self._factor = max(self._factor, min(2.0, counted / estimated))

    def fit(self, messages: Sequence[Message]) -> Fitted:
        """The conversation, made to fit. The work is that of the messages that are new.

        A list that was given before may have grown since. What was in it then is taken to be in it still.
        """
        self._follow(messages)
        budget = self.budget
        if self._tokens > budget:
            self._make_room(int(budget * LOW))
        if not self._grouped:
            return Fitted(self._seen.copy(), self._tokens, self._tokens > budget)
        if self._changed:
            self._visible = [each for each in self._shown if each is not None]
            self._changed = False
        return Fitted(self._visible.copy(), self._tokens, self._tokens > budget)

    # Following the conversation

    def _follow(self, messages: Sequence[Message]) -> None:
        seen = self._seen
        known = len(seen)
        if known:
            grown = (
                messages is self._given and len(messages) >= known and messages[known - 1] is seen[known - 1]
            )
            if not grown and seen != list(messages[:known]):
                self._rewind(_first_difference(seen, messages))
        for message in messages[len(seen) :] if seen else messages:
            self._add(message)
        self._given = messages

    def _add(self, message: Message) -> None:
        size = estimates.message(message)
        self._seen.append(message)
        self._tokens += size
        if self._grouped:
            self._shown.append(message)
            self._visible.append(message)
            self._sizes.append(size)
            self._group(len(self._seen) - 1, message)

    def _group(self, at: int, message: Message) -> None:
        last = self._groups[-1] if self._groups else None
        if message.role == "tool" and last is not None and last.role in ("assistant", "tool"):
            last.end = at + 1
            if last.dropped:
                self._show(at, None)
            return
        number = len(self._groups)
        if message.role == "assistant":
            self._turns.append(number)
        elif message.role == "user":
            self._users.append(number)
        self._groups.append(_Group(at, at + 1, message.role, bool(message.calls)))

    def _rewind(self, length: int) -> None:
        """Forget the messages from here on: the conversation went on differently."""
        if not self._grouped:
            del self._seen[length:]
            self._tokens = sum(map(estimates.message, self._seen))
            return
        while self._groups and self._groups[-1].end > length:
            length = min(length, self._groups.pop().start)
        if not length or not self._groups:
            self._grouped = False
            self._seen.clear()
            self._tokens = 0
            return
        self._tokens = sum(self._sizes[:length])
        for kept in (self._seen, self._shown, self._sizes):
            del kept[length:]
        self._changed = True
        count = len(self._groups)
        for numbers in (self._turns, self._users):
            while numbers and numbers[-1] >= count:
                numbers.pop()
        self._reached = [min(each, count) for each in self._reached]

    # Making room

    def _make_room(self, target: int) -> None:
        if not self._grouped:
            self._begin_groups()
        turns = self._protected_from()
        ways: tuple[tuple[Callable[[int, _Group], None], int], ...] = (
            (lambda _, group: self._shorten(group, shortening.listing), turns),
            (lambda _, group: self._shorten(group, shortening.result, shortening.words), turns),
            (lambda _, group: self._drop_turn(group), turns),
            (self._drop_exchange, self._exchange_around(turns)),
        )
        for stage, (way, end) in enumerate(ways):
            while self._tokens > target and self._reached[stage] < end:
                number = self._reached[stage]
                self._reached[stage] += 1
                group = self._groups[number]
                if not group.dropped and group.role != "system":
                    way(number, group)

    def _protected_from(self) -> int:
        """The group where the last turns begin."""
        if self._turns:
            return self._turns[max(0, len(self._turns) - self._turns_kept)]
        return self._users[-1] if self._users else 0

    def _exchange_around(self, number: int) -> int:
        """The user's message that a group belongs to. Nothing before the first can be left out."""
        at = bisect_right(self._users, number) - 1
        return self._users[at] if at >= 0 else 0

    def _shorten(self, group: _Group, *ways: Shorten) -> None:
        for at in range(group.start, group.end):
            message = self._seen[at]
            # What was made smaller already keeps its bytes.
            if self._shown[at] is not message:
                continue
            shorter = next((each for way in ways if (each := way(message)) is not None), None)
            if shorter is not None:
                self._show(at, shorter)

    def _drop_turn(self, group: _Group) -> None:
        """Leave out a turn with tools. What the model told the user at last stays for now."""
        if group.calls or group.role == "tool":
            self._drop(group)

    def _drop_exchange(self, number: int, group: _Group) -> None:
        """Leave out a user's message with all that came of it, so that users and model still take turns."""
        if group.role != "user" or number == self._users[0]:
            return
        later = self._users[bisect_right(self._users, number)]
        for each in self._groups[number:later]:
            if not each.dropped and each.role != "system":
                self._drop(each)

    def _drop(self, group: _Group) -> None:
        group.dropped = True
        for at in range(group.start, group.end):
            self._show(at, None)
        self._mark_first()

    def _mark_first(self) -> None:
        at = self._groups[self._users[0]].start if self._users else 0
        first = self._shown[at]
        if first is not None and first is self._seen[at]:
            content = f"{first.content}\n\n{LEFT_OUT}" if first.content else LEFT_OUT
            self._show(at, replace(first, content=content))

    def _show(self, at: int, message: Message | None) -> None:
        size = 0 if message is None else estimates.message(message)
        self._tokens += size - self._sizes[at]
        self._sizes[at] = size
        self._shown[at] = message
        self._changed = True


def _first_difference(seen: Iterable[Message], messages: Sequence[Message]) -> int:
    number = 0
    for number, (one, other) in enumerate(zip(seen, messages, strict=False)):
        if one != other:
            return number
    return min(number + 1, len(messages))
