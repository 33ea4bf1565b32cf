"""A plugin's tools as actions: so they have every surface, and every rule of the runtime.

What the runtime has checked is handed to the plugin as JSON, with two members that only the host adds: the plugin's
configuration, where an agent calls, and the folder that is worked in. What comes back is an envelope, or is made one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead import _json
from fairlead.actions import Action, DefinitionError
from fairlead.failures import Failure, Kind
from fairlead.failures import tool as wire
from fairlead.plugins.finding import NotLoaded
from fairlead.plugins.identity import DEFAULT_AGENT, agent_uuid, is_default
from fairlead.plugins.manifest import Tool
from fairlead.plugins.preferences import Preferences
from fairlead.plugins.runner import Terminated
from fairlead.plugins.turns import Turns
from fairlead.runtime import App, Context
from fairlead.schema.foreign import foreign
from fairlead.tools.remote import LONGEST_DESCRIPTION, quoted, unique_names
from fairlead.tools.session import SESSION

if TYPE_CHECKING:
    from fairlead.plugins.plugin import Plugin

#: Seconds for one call. The plugin's process is ended with it; the runtime waits a little longer for that.
LONGEST: Final = 120.0
_GRACE: Final = 5.0
#: Where an action says in its metadata of which plugin it is, and which tool of it.
PLUGIN: Final = "plugin"
TOOL: Final = "tool"
#: What needs one of these runs one at a time, whichever plugin it is of.
_ALONE: Final = frozenset({"accessibility", "automation"})
_VERSION: Final = re.compile(r"\d+(\.\d+){0,2}([-+][0-9A-Za-z.-]+)?")
_TURNS: Final[WeakKeyDictionary[App, Turns]] = WeakKeyDictionary()
AnyAction = Action[..., Any]


def tools_of(plugin: Plugin, app: App) -> list[AnyAction]:
    """The tools of a plugin. What else an app with plugins needs is seen to here, too.

    Raises:
        Failure: a tool's parameters are no JSON Schema.
    """
    from fairlead.plugins.joining import join

    join(app, plugin)
    tools = {tool.id: tool for tool in plugin.manifest.tools}
    names = unique_names(tools, f"{plugin.namespace}_" if plugin.namespace else "")
    settings = Preferences(plugin.layout.home(plugin.id))
    return [_Called(plugin, tools[id], app).action(name, settings) for id, name in names.items()]


def own_tools(app: App, plugin: str) -> dict[str, AnyAction]:
    """The tools of a plugin that is loaded, by the ids that it gave them."""
    found = [action for action in app.catalogue if action.metadata.get(PLUGIN) == plugin]
    return {action.metadata[TOOL]: action for action in found if TOOL in action.metadata}


def bound_agent(app: App) -> str:
    """The agent that a call is made by; the built-in one where a person or another program calls."""
    session = SESSION.get()
    return DEFAULT_AGENT if session is None or not session.agent else agent_uuid(app.name, session.agent)


class _Called:
    """One tool, and how it is called."""

    def __init__(self, plugin: Plugin, tool: Tool, app: App) -> None:
        self._plugin = plugin
        self._tool = tool
        self._app = app
        needs = {each.strip().lower() for each in tool.requirements}
        self._alone = bool(needs & _ALONE)

    def action(self, name: str, settings: Preferences) -> AnyAction:
        plugin, tool = self._plugin, self._tool
        policy = settings.policy(tool.id) or tool.permission_policy
        version = plugin.version if plugin.version and _VERSION.fullmatch(plugin.version) else "1.0.0"

        async def call(input: Any, ctx: Context) -> Any:
            return await self._call(name, input, ctx)

        async def denied(input: Any, ctx: Context) -> Any:
            raise wire.Rejected(
                f"The tool {name!r} of the plugin {plugin.id!r} is not allowed here. To allow it: "
                f"fairlead plugin policy {plugin.id} {tool.id} ask"
            )

        about = {"plugin": plugin.id, "tool": tool.id, "policy": policy}
        try:
            return Action(
                denied if policy == "deny" else call,
                name=name,
                description=quoted(tool.description, LONGEST_DESCRIPTION).strip()
                or f"{tool.id} of {plugin.id}.",
                version=version,
                input=foreign(_document(tool.parameters)),
                side_effects="write",
                requires_confirmation=True if policy == "ask" else None,
                timeout=LONGEST + _GRACE,
                metadata={PLUGIN: plugin.id, TOOL: tool.id},
                public_metadata={PLUGIN: about},
            )
        except (TypeError, DefinitionError, RecursionError) as exc:
            words = f"The tool {tool.id!r} of the plugin {plugin.id!r} cannot be offered: {exc}"
            raise Failure(Kind.invalid_input, words, cause=exc) from exc

    async def _call(self, name: str, input: Any, ctx: Context) -> Any:
        if not self._alone:
            return _result(await self._said(name, input), name, ctx)
        async with _TURNS.setdefault(self._app, Turns()).taken():
            return _result(await self._said(name, input), name, ctx)

    async def _said(self, name: str, input: Any) -> str:
        """What the plugin says to a call."""
        agent = bound_agent(self._app)
        payload = _json.dumps(await self._payload(input, agent))
        try:
            return await self._plugin.invoke("tool", self._tool.id, payload, agent=agent, timeout=LONGEST)
        except Failure as failure:
            raise _told(failure, name) from failure

    async def _payload(self, input: Any, agent: str) -> Any:
        if not isinstance(input, Mapping):
            return input
        added: dict[str, Any] = {}
        if not is_default(agent):
            secrets = await self._secrets(agent)
            if secrets:
                added["_secrets"] = secrets
        session = SESSION.get()
        if session is not None and session.root is not None:
            added["_context"] = {"working_directory": str(session.root)}
        return {**input, **added} if added else input

    async def _secrets(self, agent: str) -> dict[str, str]:
        from fairlead.plugins.config import Config
        from fairlead.plugins.services import Shared

        shared = Shared.of(self._app)
        config = Config(self._plugin.id, self._app.store, shared.secrets, shared.warnings)
        config.on_value = shared.insights.hide
        return await config.merged(agent)


def _document(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """A tool's parameters; without any it takes whatever object it is given."""
    return {"type": "object", "properties": {}} if not parameters else dict(parameters)


def _result(said: str, name: str, ctx: Context) -> Any:
    """The result in what a plugin said. Raises the failure in it."""
    envelope = wire.normalize(said, name)
    if wire.is_error(envelope):
        raise wire.parse(envelope)
    try:
        told = _json.loads(envelope)
    except ValueError as exc:
        words = (
            f"The plugin's answer to {name!r} begins as an envelope, and is no JSON: it was cut off, or a value in it "
            "is not escaped. Tell whoever wrote the plugin."
        )
        raise wire.ExecutionError(words, retryable=False, cause=exc) from None
    warnings = told.get("warnings")
    for each in warnings if isinstance(warnings, list) else ():
        ctx.warn(str(each))
    return told.get("result")


def _told(failure: Failure, name: str) -> Failure:
    """Why there is no answer, as tools say it."""
    if isinstance(failure, NotLoaded):
        return failure
    if failure.kind is Kind.timeout:
        return wire.Timeout(failure.message, cause=failure)
    if failure.details.get("null"):
        return wire.ExecutionError(f"The plugin gave no answer to {name!r}.", cause=failure)
    if isinstance(failure, Terminated):
        return wire.ExecutionError(failure.message, cause=failure)
    return failure
