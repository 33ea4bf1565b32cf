"""`search_memory`: looking up what was said in earlier conversations of the same person."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from fairlead.actions import Action
from fairlead.failures.tool import Unavailable
from fairlead.runtime import App, Context
from fairlead.tools.session import SESSION

_MOST: Final = 50
#: Characters around what was looked for.
_EXCERPT: Final = 500


def memory() -> Action[..., Any]:
    """The action that searches the app's stored conversations."""
    return Action(search_memory, side_effects="read")


async def search_memory(
    query: Annotated[
        str, Field(min_length=1, description="Words that were said; all of them have to be there.")
    ],
    limit: Annotated[int, Field(ge=1, le=_MOST, description="How many finds at most.")] = 10,
    *,
    ctx: Context,
) -> dict[str, Any]:
    """Search earlier conversations for words that were said in them, the best finds first."""
    app = ctx.runtime
    if not isinstance(app, App):
        raise Unavailable(
            "Nothing is remembered here: there is no app that keeps conversations.", retryable=False
        )
    session = SESSION.get()
    owner = ctx.caller if session is None else session.owner
    now = "" if session is None else session.id
    found = await app.conversations.find(query, owner, but=now, limit=limit + 1)
    entries = [
        {
            "conversation": each.conversation,
            "agent": each.agent,
            "title": each.title,
            "role": each.role,
            "text": _excerpt(each.text, query),
            "time": app.clock.stamp(each.created),
        }
        for each in found
    ]
    shown = entries[:limit]
    return {
        "kind": "search",
        "query": query,
        "entries": shown,
        "match_count": len(shown),
        "truncated": len(entries) > limit,
    }


def _excerpt(text: str, query: str) -> str:
    if len(text) <= _EXCERPT:
        return text
    low = text.lower()
    at = min((found for word in query.lower().split() if (found := low.find(word)) >= 0), default=0)
    start = max(0, at - _EXCERPT // 2)
    end = start + _EXCERPT
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
