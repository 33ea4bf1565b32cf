"""The states of a task and the moves between them: the one table that everything else goes by.

queued -> running -> completed | failed
running -> input_required | auth_required -> running
any that is not final -> canceled | timeout | rejected
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """How far a task is. A task that waits for another attempt is still running."""

    queued = "queued"
    running = "running"
    input_required = "input_required"
    auth_required = "auth_required"
    completed = "completed"
    failed = "failed"
    canceled = "canceled"
    timeout = "timeout"
    rejected = "rejected"

    @property
    def final(self) -> bool:
        """Whether nothing comes after it."""
        return self in FINAL

    @property
    def paused(self) -> bool:
        """Whether it waits for somebody's answer."""
        return self in PAUSED


FINAL: Final = frozenset({State.completed, State.failed, State.canceled, State.timeout, State.rejected})
PAUSED: Final = frozenset({State.input_required, State.auth_required})
_CUT: Final = frozenset({State.canceled, State.timeout, State.rejected})
MOVES: Final[dict[State, frozenset[State]]] = {
    State.queued: _CUT | {State.running},
    State.running: _CUT | PAUSED | {State.completed, State.failed},
    State.input_required: _CUT | {State.running},
    State.auth_required: _CUT | {State.running},
    **{state: frozenset() for state in FINAL},
}
