"""`todo`, `complete` and `clarify`: how a model plans, ends and asks. They are actions like all others.

They check and put into order what the model says. That a run ends or pauses by them is the loop's doing, which
looks at their results.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fairlead.actions import Action
from fairlead.failures.tool import InvalidArgs, Unavailable
from fairlead.runtime import Context
from fairlead.tools.session import SESSION

#: A line with a box, indented by six characters at most.
_BOX: Final = re.compile(r"^[ \t]{0,6}- \[([ xX])\](?=\s|$)", re.MULTILINE)
#: A summary has at least this many characters.
SHORTEST_SUMMARY: Final = 30
_PLACEHOLDERS: Final = frozenset(
    "done|complete|completed|ok|okay|looks good|all good|fine|finished".split("|")  # noqa: SIM905  # as the contract has it
)
MOST_OPTIONS: Final = 6
LONGEST_OPTION: Final = 80
AWAITING: Final = "Awaiting user response."


def loop_tools() -> list[Action[..., Any]]:
    """The three, for an agent or an app."""
    return [
        Action(todo, side_effects="write", idempotency="idempotent"),
        Action(complete),
        Action(clarify),
    ]


def boxes(markdown: str) -> tuple[int, int]:
    """How many items of a list are done, and how many there are."""
    marks = _BOX.findall(markdown)
    return sum(mark != " " for mark in marks), len(marks)


def pending_items(markdown: str | None) -> int:
    """How many items of a list are open; none where there is no list."""
    done, total = boxes(markdown) if markdown else (0, 0)
    return total - done


async def todo(
    markdown: Annotated[str, "The whole list, one item a line: '- [ ] open' or '- [x] done'."], ctx: Context
) -> dict[str, Any]:
    """Write down the plan, or what of it is done. The list replaces the one before.

    Use it for work of several steps: first with all steps open, then after each step with that step checked.
    """
    session = SESSION.get()
    if session is None:
        raise Unavailable(
            "There is no conversation to keep a list for: `todo` works in an agent's run only.",
            retryable=False,
        )
    if not markdown.strip():
        raise InvalidArgs(
            "The list is blank. Give every item on a line of its own.",
            field="markdown",
            expected="lines such as '- [ ] Read the file'",
        )
    session.todo = markdown
    done, total = boxes(markdown)
    if not total:
        ctx.warn("The list has no boxes, so nothing can be checked. Begin each item with '- [ ]' or '- [x]'.")
    await ctx.activity("todo", f"{done} of {total} done", markdown=markdown, done=done, total=total)
    return {"text": f"The list is kept: {done} of {total} done.", "done": done, "total": total}


async def complete(
    summary: Annotated[str, "What was done and what came of it, in a sentence or more, for the user."],
    ctx: Context,
) -> dict[str, Any]:
    """End the task, when all of it is done. The summary is what the user gets to read."""
    told = summary.strip()
    if told.lower().removesuffix(".").rstrip() in _PLACEHOLDERS:
        raise _no_summary(f"{told!r} says nothing of what was done.")
    if len(told) < SHORTEST_SUMMARY:
        raise _no_summary(f"The summary has {len(told)} characters; it needs at least {SHORTEST_SUMMARY}.")
    session = SESSION.get()
    if session is not None and (pending := pending_items(session.todo)):
        items = "1 item" if pending == 1 else f"{pending} items"
        ctx.warn(f"The todo list still has {items} open.")
    return {"summary": told, "text": told}


async def clarify(
    question: Annotated[str, "One question that can be answered without having seen your work."],
    options: Annotated[
        list[str] | None, "Up to 6 answers to choose from, 80 characters each. Leave out for a free answer."
    ] = None,
    allowMultiple: Annotated[bool, "Whether several of the options may be chosen."] = False,  # noqa: N803
) -> dict[str, Any]:
    """Ask the user, and wait for the answer. Only for what you cannot find out, and cannot go on without."""
    asked = question.strip()
    if not asked:
        raise InvalidArgs("The question is blank.", field="question", expected="a question for the user")
    choices = _choices(options or [])
    told: dict[str, Any] = {"text": AWAITING, "question": asked, "allow_multiple": False}
    if choices:
        told |= {"options": choices, "allow_multiple": allowMultiple}
    return told


def _choices(options: list[str]) -> list[str]:
    """The options, trimmed, each once whatever its case, as it was first written."""
    once: dict[str, str] = {}
    for each in options:
        if trimmed := each.strip():
            once.setdefault(trimmed.casefold(), trimmed)
    choices = list(once.values())
    if len(choices) > MOST_OPTIONS:
        raise _refused(
            f"There are {len(choices)} options; a person is asked to choose among {MOST_OPTIONS} at most."
        )
    if longest := max((len(each) for each in choices if len(each) > LONGEST_OPTION), default=0):
        raise _refused(f"An option has {longest} characters; {LONGEST_OPTION} is the most that can be shown.")
    return choices


def _refused(message: str) -> InvalidArgs:
    expected = f"at most {MOST_OPTIONS} texts of at most {LONGEST_OPTION} characters"
    return InvalidArgs(message, field="options", expected=expected)


def _no_summary(message: str) -> InvalidArgs:
    return InvalidArgs(
        f"{message} Say what was done and what came of it.",
        field="summary",
        expected=f"at least {SHORTEST_SUMMARY} characters about what was done",
    )
