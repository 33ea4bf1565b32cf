"""The action that runs what plugins dispatch. No surface shows it, and none can call it.

It is there in every process that has the app, since any of them may be the one that takes the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.plugins.identity import agent_of
from fairlead.runtime import App, Context

NAME: Final = "plugin_dispatch"
#: The tools of these names that a plugin may pin.
Pinned = Callable[[str, list[str]], list[Action[..., Any]]]


def offer(app: App, pinned: Pinned) -> None:
    """Have the app know the action."""
    if app.get(NAME) is None:
        app.catalogue.add(_action(pinned))


def _action(pinned: Pinned) -> Action[..., Any]:
    async def plugin_dispatch(
        plugin: str,
        agent: str,
        session: str,
        prompt: str,
        tools: list[str],
        instructions: str,
        *,
        ctx: Context,
    ) -> str:
        """Run what a plugin dispatched.

        Args:
            plugin: The plugin's id.
            agent: The agent's id.
            session: The chat's id.
            prompt: What is said first.
            tools: Tools that are pinned.
            instructions: What the plugin has the agent told.
        """
        app = ctx.runtime
        assert isinstance(app, App)
        base = agent_of(app, agent)
        if base is None:
            raise Failure(Kind.not_found, "The agent that this task is for is not there any more.")
        whole = base.extended(instructions=instructions, tools=pinned(plugin, tools))
        from fairlead.plugins.chats import Chat

        return await Chat(app, whole, session, ctx).go(prompt)

    return Action(
        plugin_dispatch,
        name=NAME,
        visibility="private",
        supported_surfaces=(),
        side_effects="write",
        idempotency="non_idempotent",
    )
