"""`Brief`: what every run of an agent is told, made once and used by many runs."""

from __future__ import annotations

from typing import Any

from fairlead.agents.loop import estimates
from fairlead.agents.models.model import AS_IT_LIKES, Message, Settings
from fairlead.schema import Schema


class Brief:
    """The instructions, how to answer, and what the answer has to be; None where any text will do."""

    __slots__ = ("instructions", "output", "schema", "settings", "system", "tokens")

    def __init__(
        self, instructions: str = "", settings: Settings = AS_IT_LIKES, output: Schema | None = None
    ) -> None:
        self.instructions = instructions
        self.settings = settings
        self.output = output
        #: What the conversation begins with.
        self.system = [Message("system", instructions)] if instructions else []
        #: About how many tokens that takes.
        self.tokens = sum(map(estimates.message, self.system))
        self.schema: dict[str, Any] | None = None if output is None else output.output_json_schema
