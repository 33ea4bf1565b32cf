"""Telling plugins of what is shared: each that handles artifacts is called for each of them, whoever shared it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from fairlead._json import dumps
from fairlead.failures import Failure
from fairlead.plugins.answers import SHARING, artifact_of
from fairlead.plugins.tools import bound_agent
from fairlead.runtime import App
from fairlead.runtime.hooks import Invocation

#: Seconds for one plugin.
LONGEST: Final = 120.0
_LOG: Final = logging.getLogger("fairlead.plugins")
_WATCHED: Final[WeakSet[App]] = WeakSet()


def watch(app: App) -> None:
    """From now on, have the app's plugins hear of what is shared."""
    if app in _WATCHED:
        return
    _WATCHED.add(app)

    async def shared(invocation: Invocation) -> None:
        artifact = _artifact(invocation)
        if artifact is not None:
            await announce(app, artifact)

    app.add_hook("on_invocation_end", shared)


async def announce(app: App, artifact: dict[str, Any]) -> None:
    """Call every plugin that handles artifacts, side by side, and wait for them; what they say is not heard."""
    payload = dumps(artifact, sort_keys=True)
    agent = bound_agent(app)
    plugins = [plugin for plugin in app.plugins if plugin.manifest.artifact_handler]
    await asyncio.gather(*(_called(plugin, payload, agent) for plugin in plugins))


async def _called(plugin: Any, payload: str, agent: str) -> None:
    with suppress(Failure):
        await plugin.start()
        if (plugin.abi or 0) < 2:
            return
        try:
            await plugin.invoke("artifact", "share", payload, agent=agent, timeout=LONGEST)
        except Failure as failure:
            _LOG.warning("Plugin %s failed at an artifact: %s", plugin.id, failure.message)


def _artifact(invocation: Invocation) -> dict[str, Any] | None:
    action, result = invocation.action, invocation.result
    if action is None or action.name != SHARING or result is None or not result.ok or result.replayed:
        return None
    return artifact_of(result.data.get("text")) if isinstance(result.data, dict) else None
