"""What built-in tools know of the conversation that they are called in. Whoever runs the conversation sets it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final


@dataclass(slots=True)
class Session:
    """A conversation while it is run."""

    id: str
    agent: str = ""
    #: The stable text of whoever the conversation belongs to.
    owner: str = ""
    #: The list that `todo` keeps, as Markdown.
    todo: str | None = None
    #: Commands that were run in this turn.
    commands: int = 0
    #: Secret values by name, beside those of the app's store; what commands print is masked with both.
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: The agent's folder: where relative paths begin, for tools that were given no root of their own.
    root: Path | None = None
    #: What other tools keep for the length of the conversation, by the tool.
    kept: dict[str, Any] = field(default_factory=dict)


#: The conversation that a tool is called in; None for a call of its own.
SESSION: Final[ContextVar[Session | None]] = ContextVar("fairlead_session", default=None)
#: The calls of models that a tool is called by, the outermost first: in which conversation, and the call's id.
CALLS: Final[ContextVar[tuple[tuple[Session, str], ...]]] = ContextVar("fairlead_calls", default=())
