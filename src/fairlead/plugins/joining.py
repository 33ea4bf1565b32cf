"""Where plugins meet agents, models and tasks: what the host's services need of the rest of the app."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fairlead.actions import Action
from fairlead.plugins import dispatched
from fairlead.plugins.identity import agent_of
from fairlead.plugins.preferences import Preferences
from fairlead.plugins.tools import own_tools

if TYPE_CHECKING:
    from fairlead.plugins.dispatch import Dispatches
    from fairlead.plugins.inference import Inference, Instructions, Warn
    from fairlead.plugins.plugin import Plugin
    from fairlead.runtime import App


def join(app: App, plugin: Plugin) -> None:
    """Have an app run what its plugins dispatch, and tell them of artifacts, in whichever process this is."""
    dispatched.offer(app, partial(pinned, app))
    if plugin.manifest.artifact_handler:
        from fairlead.plugins.artifacts import watch

        watch(app)


def inference_of(app: App, plugin: Plugin, warn: Warn) -> Inference:
    """What answers a plugin's calls of models."""
    from fairlead.plugins.inference import Inference

    return Inference(
        app,
        plugin.id,
        warn=warn,
        instructions=instructions_of(app, plugin),
        tools=lambda: own_tools(app, plugin.id),
    )


def dispatches_of(app: App, plugin: Plugin, warn: Warn) -> Dispatches:
    """What answers a plugin's calls about tasks."""
    from fairlead.plugins.dispatch import Dispatches

    return Dispatches(
        app,
        plugin.id,
        warn=warn,
        deliver=plugin.task_event,
        instructions=instructions_of(app, plugin),
        tools=lambda: own_tools(app, plugin.id),
    )


def instructions_of(app: App, plugin: Plugin) -> Instructions:
    """What models are told of a plugin: what a person set for the agent, else the plugin's own words."""
    settings = Preferences(plugin.layout.home(plugin.id))

    def told(agent: str | None) -> str:
        found = agent_of(app, agent)
        own = plugin.manifest.instructions or ""
        return (settings.instructions(found.name) if found is not None else None) or own

    return told


def pinned(app: App, plugin: str, names: list[str]) -> list[Action[..., Any]]:
    """The tools of these names that a plugin may pin: its own, and our built-in ones."""
    from fairlead.plugins.dispatch import built_ins, spare

    own, ours = own_tools(app, plugin), set(built_ins(app))
    found = [own.get(name) or (app.get(name) or spare(name) if name in ours else None) for name in names]
    return [each for each in found if each is not None]
