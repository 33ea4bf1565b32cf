"""What the loop tells a model beside the conversation: short notices that ride along once and are never stored.

It has the words, and the rules for when they are due. Counting iterations and calls belongs to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.agents.models.model import Message

PREFIX: Final = "[System Notice]"
#: With so many iterations left, the model is told.
BUDGET_THRESHOLD: Final = 3
#: After so many iterations with open items and no `todo`, the model is told.
TODO_THRESHOLD: Final = 4

#: Said when a run ended without any text of the model.
EMPTY_REPLY: Final = "The model gave no answer. Ask again, or say it in other words."


def notice(text: str) -> str:
    """A text, marked as coming from the system."""
    return f"{PREFIX} {text}"


EMPTY_TURN: Final = notice(
    "Your last turn was empty. Answer the user in text, or call a tool. Do not send an empty turn."
)
DEDUPE: Final = notice(
    "You made this exact call before and nothing has changed since, so you have the same result again. "
    "Use it, or call with other arguments."
)
WRAP_UP: Final = notice(
    "There are no iterations left, and no tools any more. Tell the user in text what was done, what was "
    "found, and what is still open."
)


def budget(remaining: int, threshold: int = BUDGET_THRESHOLD) -> str | None:
    """What to tell when few iterations are left; None while there are enough, or none."""
    if not 0 < remaining <= threshold:
        return None
    left = "1 iteration is" if remaining == 1 else f"{remaining} iterations are"
    return notice(f"Only {left} left. Finish the most important part and answer.")


def stale_todo(pending: int) -> str:
    """What to tell when the list was not touched for long."""
    items = "1 open item" if pending == 1 else f"{pending} open items"
    return notice(
        f"Your todo list has {items} and was not updated for a while. "
        "Call `todo` with what is done by now, or finish the open items."
    )


@dataclass(slots=True)
class Staleness:
    """Counts the iterations since the list was touched. After telling, it counts from the start again."""

    threshold: int = TODO_THRESHOLD
    untouched: int = 0

    def after(self, *, touched: bool, pending: int) -> str | None:
        """What to tell in the next iteration, after one in which `todo` was called or not."""
        if touched or pending <= 0:
            self.untouched = 0
            return None
        self.untouched += 1
        if self.untouched < self.threshold:
            return None
        self.untouched = 0
        return stale_todo(pending)


def failed_again(name: str, times: int) -> str:
    """What to tell with a failure that is given again instead of being made again."""
    told = f"This exact `{name}` call has now failed {times} times, and nothing has changed in between. "
    if times > 2:
        told += "It was not run, and it will not be run. Stop repeating it: "
    return notice(told + "Read the error and change the arguments, or do something else.")


def circle(name: str, times: int) -> str:
    """What to tell about a call that is made again and again."""
    return notice(
        f"`{name}` was called {times} times with identical arguments. The result will not get better: "
        "change your approach, or tell the user what is in the way."
    )


def listing(outcome: str) -> str:
    """What to tell a model that lists folders and reads nothing."""
    if outcome == "emptyListing":
        return notice("The folder is empty. Do not invent files: look elsewhere, or tell the user.")
    if outcome == "partialListing":
        return notice("The listing is incomplete. Find the file with `file_search` instead of listing more.")
    return notice(
        "You have listed folders without reading a file. Copy the `path` of one of `result.entries` into "
        "your next `file_read`."
    )


def unknown_path(listed: str | None, truncated: bool) -> str:
    """What to tell about a path that does not exist, by what was listed last."""
    if truncated:
        return notice(
            "The path was not found, and the last listing was incomplete. Find the file with `file_search`."
        )
    if listed is None:
        return notice("The path was not found. List the folder above it, and copy a `path` from its entries.")
    return notice(
        f"The path was not found. Copy a `path` from the most recent listing's entries (of {listed!r}), "
        "or list the folder above it."
    )


def unknown_thing(name: str) -> str:
    """What to tell about something other than a path that does not exist."""
    return notice(
        f"What `{name}` was asked for was not found. Take names and ids from earlier results; do not guess them."
    )


def place(messages: Sequence[Message], notices: Sequence[str]) -> list[Message]:
    """The messages for one request, with notices at their end. The conversation itself stays as it is.

    After a tool's result a notice is told by the tool: it stands at the end of a copy of the last result.
    A tool message of its own would need a call of its own, since the large APIs refuse a second result for
    one call, and a user message between a result and the model's next turn would read as the user's own
    words, and is refused by APIs that want the roles to take turns. All but the last message keep their
    bytes, so what a provider cached of the conversation stays good.
    """
    if not notices:
        return list(messages)
    told = "\n".join(notices)
    last = messages[-1] if messages else None
    if last is not None and (last.role == "tool"):
        return [*messages[:-1], replace(last, content=f"{last.content}\n\n{told}")]
    if last is not None and last.role == "user":
        # Two user messages in a row are refused by some APIs as well.
        return [*messages[:-1], replace(last, content=f"{last.content}\n\n{told}" if last.content else told)]
    return [*messages, Message("user", told)]
