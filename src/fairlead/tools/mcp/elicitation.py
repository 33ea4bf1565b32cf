"""Questions that an MCP server asks while it works, and who answers them. Nobody there means: declined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from fairlead.schema import Invalid, schema_of


class Elicitation(NamedTuple):
    """What a server wants to know from a person."""

    server: str
    message: str
    #: What the answer must look like; None when the person is sent to a page instead.
    schema: dict[str, Any] | None = None
    url: str | None = None


#: Asks a person. Gives the answer's fields, or None when they decline; an empty answer agrees to a page.
Elicit = Callable[[Elicitation], Awaitable[Mapping[str, Any] | None]]

#: Who answers the servers' questions in the calls that are made now. Whoever runs the conversation sets it.
ELICIT: Final[ContextVar[Elicit | None]] = ContextVar("fairlead_elicit", default=None)


async def answered(asked: Elicitation, elicit: Elicit | None) -> dict[str, Any]:
    """The answer as the protocol wants it: `{action, content?}`."""
    if elicit is None:
        return {"action": "decline"}
    given = await elicit(asked)
    if given is None:
        return {"action": "decline"}
    if asked.schema is None:
        return {"action": "accept"}
    fields = asked.schema.get("properties") or {}
    # What a person leaves as it was offered is meant so.
    offered = {
        name: field["default"]
        for name, field in fields.items()
        if isinstance(field, dict) and "default" in field
    }
    try:
        # Typed by a person: "3" is meant as the number where one is asked for.
        content = schema_of(asked.schema).parse({**offered, **given}, repair=True)
    except Invalid:
        return {"action": "cancel"}
    return {"action": "accept", "content": content}
