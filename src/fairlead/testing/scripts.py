"""Models that play a written conversation, for tests of agents."""

from fairlead.agents.models.script import ScriptModel, Turn, call

__all__ = ["ScriptModel", "Turn", "call"]
