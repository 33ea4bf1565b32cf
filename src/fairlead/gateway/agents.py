"""Agents as other people's programs see them: the app's own, and those that run elsewhere and are registered here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fairlead._json import loads
from fairlead.actions import Action
from fairlead.failures.gateway import AgentNotFound, Conflict, InvalidParam
from fairlead.gateway.call import Answer, Call, Caller, Route
from fairlead.store import Tx
from fairlead.store.statements import statements
from fairlead.surfaces.talking import keeps_conversations, message_member

if TYPE_CHECKING:
    from fairlead.gateway.gateway import Gateway
    from fairlead.runtime import App

SQL = statements(__file__)
#: What those listen to who remember agents.
AGENTS: Final = "gateway:agents"
#: Seconds that an agent of the app is remembered.
_REMEMBERED: Final = 5.0
_NONE: Final[frozenset[Action[..., Any]]] = frozenset()
#: The instance of the app's own agents.
LOCAL: Final = "local"
VISIBILITIES: Final = ("private", "unlisted", "public", "marketplace")
#: Those that everybody may find.
SHOWN: Final = ("public", "marketplace")
#: What the published contract asks about, and what is true of our agents.
CAPABILITIES: Final[dict[str, bool]] = {
    "multipleConversations": True,
    "loadConversation": True,
    "createConversation": True,
    "canvas": False,
    "terminal": False,
    "webSsh": False,
    "fileSystem": False,
    "image": False,
    "audio": False,
    "mcp": True,
    "cron": False,
    "streaming": True,
    "pushNotifications": True,
    "a2a": True,
    "extendedAgentCard": True,
    "modelsList": False,
    "modelsSet": True,
    "skillsList": False,
    "skillsInstall": False,
    "skillsUninstall": False,
    "skillsUpdate": False,
}


@dataclass(frozen=True, slots=True)
class GatewayAgent:
    """An agent, whoever runs it."""

    id: str
    owner: str
    name: str
    description: str
    visibility: str
    mcp_enabled: bool
    created: float
    updated: float
    #: The action, of an agent of the app itself.
    action: Action[..., Any] | None = None
    #: Of one that runs elsewhere: the instance that registered it, how it takes work, and until when it is there.
    instance: str | None = None
    mode: str | None = None
    lease: float | None = None
    epoch: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)
    #: Of one of the app: where a message goes in its input, and whether it can be told which conversation to go on
    #: with.
    face: tuple[str | None, bool] = (None, False)

    def online(self, now: float) -> bool:
        """Whether somebody is there to run it. What waits in a queue needs nobody now."""
        return self.action is not None or self.mode == "queue" or (self.lease or 0.0) > now

    def to_dict(self) -> dict[str, Any]:
        """As the contract has it."""
        # Whoever runs an agent elsewhere has its model, and hears of no other.
        capabilities = {**CAPABILITIES, "mcp": self.mcp_enabled, "modelsSet": self.action is not None}
        told = {
            "id": self.id,
            "instanceId": self.instance or "local",
            "name": self.name,
            "status": "active",
            "visibility": self.visibility,
            "mcpEnabled": self.mcp_enabled,
            "capabilities": capabilities,
            "conversationTransport": "message-service",
            "description": self.description,
            "displayName": str(self.about.get("displayName") or self.name),
        }
        if self.created:
            told |= {"createdAt": instant(self.created), "updatedAt": instant(self.updated)}
        return told


class Agents:
    """All agents that a gateway serves."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._app = gateway.app
        #: What is known of the app's own agents, and until when that counts: they are asked for with every call.
        self._known: dict[str, tuple[float, GatewayAgent]] = {}
        #: Those that are their owner's alone, for which revision of the catalogue, and until when that counts.
        self._private: tuple[int, float, frozenset[Action[..., Any]]] | None = None
        self._heard = False
        #: Grows whenever agents change: what was looked up before that is not remembered.
        self._era = 0

    async def usable(self, id: str, caller: Caller) -> GatewayAgent:
        """An agent that the caller may talk with.

        Raises:
            AgentNotFound: there is none, or none that the caller may know of.
        """
        return _open_to(caller, id, self._remembered(id) or await self._find(id))

    def usable_now(self, id: str, caller: Caller) -> GatewayAgent | None:
        """The same, where it is known without asking the store. Raises AgentNotFound."""
        agent = self._remembered(id)
        return None if agent is None else _open_to(caller, id, agent)

    async def owned(self, id: str, caller: Caller) -> GatewayAgent:
        """An agent of the caller's own. Raises AgentNotFound."""
        agent = await self.usable(id, caller)
        if agent.owner != caller.owner:
            raise AgentNotFound
        return agent

    async def of(self, caller: Caller) -> list[GatewayAgent]:
        """The caller's own agents, by name."""
        rows = await self._app.store.read(lambda tx: tx.all(SQL.agents_of, owner=caller.owner))
        known = {row[0]: row for row in rows}
        own = [self._local(action, known.pop(action.name, None)) for action in self._actions()]
        remote = [_remote(row) for row in known.values() if row[6] is not None]
        listed = [each for each in (*own, *remote) if each.owner == caller.owner]
        return [each for each in listed if caller.agents is None or each.id in caller.agents]

    async def hidden_from(self, caller: Caller) -> frozenset[Action[..., Any]]:
        """The app's own agents that the caller may not know of: as actions they are not there, either."""
        if caller.owner == self._gateway.owner:
            return _NONE
        revision = self._app.catalogue.revision
        known = self._private
        if known is not None and known[0] == revision and known[1] > self._app.clock.monotonic():
            return known[2]
        self._listen()
        era = self._era
        rows = await self._app.store.read(lambda tx: tx.all(SQL.agents_of, owner=self._gateway.owner))
        visible = {row[0]: row for row in rows}
        found = [each for each in self._app.catalogue.versions() if "agent" in each.metadata]
        shut = [each for each in found if self._local(each, visible.get(each.name)).visibility == "private"]
        hidden = frozenset(shut)
        self._private = revision, self._app.clock.monotonic() + _REMEMBERED, hidden
        if era != self._era:  # looked at last, as they are forgotten on any thread
            self._private = None
        return hidden

    async def listed(self, caller: Caller) -> list[GatewayAgent]:
        """The caller's own agents, and those of the app that its owner shows to everybody."""
        own = await self.of(caller)
        known = {each.id for each in own}
        others = [action.name for action in self._actions() if action.name not in known]
        found = [await self._find(id) for id in others]
        shown = [each for each in found if each is not None and each.visibility in SHOWN]
        return [*own, *(each for each in shown if caller.agents is None or each.id in caller.agents)]

    async def change(
        self, agent: GatewayAgent, visibility: str | None, mcp_enabled: bool | None
    ) -> GatewayAgent:
        """Set what its owner may set. None leaves it as it is: another may be setting it just now.

        Raises:
            AgentNotFound: it is not there any more.
        """
        about = {
            "id": agent.id,
            "owner": agent.owner,
            "visibility": visibility,
            "mcp_enabled": None if mcp_enabled is None else int(mcp_enabled),
        }
        now = self._app.wall()

        def work(tx: Tx) -> None:
            if agent.action is None:
                tx.run(SQL.set_agent, **about, now=now)
            else:
                tx.run(SQL.forget_others, id=agent.id, owner=agent.owner)
                tx.run(SQL.set_own_agent, **about, now=now)
            tx.tell(AGENTS)

        await self._app.store.write(work)
        self._forget()
        changed = await self._find(agent.id)
        if changed is None:  # whoever runs it took it away meanwhile
            raise AgentNotFound
        return changed

    async def on(self, instance: str) -> frozenset[str]:
        """The ids of the agents on an instance."""
        if instance == LOCAL:
            return frozenset(own_agents(self._app))
        rows = await self._app.store.read(lambda tx: tx.all(SQL.agents_on, instance=instance))
        return frozenset(id for (id,) in rows)

    def _remembered(self, id: str) -> GatewayAgent | None:
        known = self._known.get(id)
        if known is None:
            return None
        until, agent = known
        app = self._app
        return agent if agent.action is app.get(id) and until > app.clock.monotonic() else None

    async def _find(self, id: str) -> GatewayAgent | None:
        known = self._remembered(id)
        if known is not None:
            return known
        action = self._app.get(id)
        self._listen()
        era = self._era
        row = await self._app.store.read(lambda tx: tx.one(SQL.agent_by_id, id=id))
        if action is not None and "agent" in action.metadata:
            found = self._local(action, row)
            self._known[id] = self._app.clock.monotonic() + _REMEMBERED, found
            if era != self._era:  # looked at last, as they are forgotten on any thread
                self._known.pop(id, None)
            return found
        return None if row is None or row[6] is None else _remote(row)

    def _listen(self) -> None:
        if not self._heard:
            self._heard = True
            self._app.store.listen(AGENTS, self._forget)

    def _forget(self) -> None:
        """On any thread."""
        self._era += 1
        self._known.clear()
        self._private = None

    def _actions(self) -> list[Action[..., Any]]:
        return [action for action in self._app.catalogue if "agent" in action.metadata]

    def _local(self, action: Action[..., Any], row: Any) -> GatewayAgent:
        owner, visibility, mcp, created, updated = self._gateway.owner, "private", True, 0.0, 0.0
        if row is not None and is_own(row, owner):
            _, _, visibility, mcp, created, updated, *_ = row
        return GatewayAgent(
            action.name,
            owner,
            action.title,
            action.description,
            visibility,
            bool(mcp),
            created,
            updated,
            action,
            face=_face(action),
        )


def _open_to(caller: Caller, id: str, agent: GatewayAgent | None) -> GatewayAgent:
    if agent is None or (caller.agents is not None and id not in caller.agents):
        raise AgentNotFound
    if agent.owner != caller.owner and agent.visibility == "private":
        raise AgentNotFound
    return agent


def own_agents(app: App) -> list[str]:
    """The ids of the app's own agents."""
    return [action.name for action in app.catalogue if "agent" in action.metadata]


def is_own(row: Any, owner: str | None) -> bool:
    """Whether a row is of the app's own agent of that id: anybody may have registered one that runs elsewhere before.

    Args:
        owner: Whose the app's own agents are; None where that is not known.
    """
    return row[6] is None and owner in (None, row[1])


def _face(action: Action[..., Any]) -> tuple[str | None, bool]:
    known = _FACES.get(action)
    if known is None:
        known = _FACES[action] = message_member(action), keeps_conversations(action)
    return known


_FACES: Final[WeakKeyDictionary[Action[..., Any], tuple[str | None, bool]]] = WeakKeyDictionary()


def _remote(row: Any) -> GatewayAgent:
    id, owner, visibility, mcp, created, updated, instance, about, mode, lease, epoch = row
    told = loads(about)
    return GatewayAgent(
        id,
        owner,
        told["name"],
        told.get("description", ""),
        visibility,
        bool(mcp),
        created,
        updated,
        None,
        instance,
        mode,
        lease,
        epoch,
        told,
    )


def instant(moment: float) -> str:
    """A time as the contract writes it."""
    second, part = divmod(round(moment * 1_000_000), 1_000_000)
    return f"{_to_the_second(second)}.{part // 1000:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(second: int) -> str:
    # What is told of now, many times in a second, differs in what comes after this.
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


async def list_agents(call: Call) -> Answer:
    limit = call.number("limit", 20, 1, 1000)
    offset = call.number("offset", 0, 0, 2**31 - 1)
    query = call.request.query
    instance = query.get("instance_id") or query.get("instanceId")
    agents = await call.gateway.agents.of(call.caller)
    if instance:
        agents = [each for each in agents if (each.instance or "local") == instance]
    if query.get("status") not in (None, "", "active"):
        agents = []
    page = agents[offset : offset + limit]
    return Answer([each.to_dict() for each in page], more={"total": len(agents)})


async def get_agent(call: Call) -> Answer:
    agent = await call.gateway.agents.owned(call.id("agentId"), call.caller)
    return Answer(agent.to_dict())


async def update_agent(call: Call) -> Answer:
    agents = call.gateway.agents
    agent = await agents.owned(call.id("agentId"), call.caller)
    body = call.json()
    unknown = [key for key in body if key not in ("visibility", "mcpEnabled", "mcp_enabled")]
    if unknown or not body:
        words = "Only visibility and mcpEnabled can be set here." if unknown else "There is nothing to set."
        field = unknown[0][:50] if unknown else None
        raise InvalidParam(f"{words} An agent's owner may set visibility and mcpEnabled.", field=field)
    if "visibility" in body and body["visibility"] not in VISIBILITIES:
        raise InvalidParam(f"visibility must be one of {', '.join(VISIBILITIES)}.", field="visibility")
    given = [body[key] for key in ("mcpEnabled", "mcp_enabled") if key in body]
    if any(type(each) is not bool for each in given) or len(set(given)) > 1:
        raise InvalidParam("mcpEnabled must be true or false, and mcp_enabled the same.", field="mcpEnabled")
    changed = await agents.change(agent, body.get("visibility"), given[0] if given else None)
    return Answer(changed.to_dict())


async def delete_agent(call: Call) -> Answer:
    await call.gateway.agents.owned(call.id("agentId"), call.caller)
    raise Conflict("An agent is taken away by whoever runs it, not here.")


ROUTES: Final = (
    Route("GET", "/api/v1/agents", list_agents, "listAgents"),
    Route("GET", "/api/v1/agents/{agentId}", get_agent, "getAgent"),
    Route("PATCH", "/api/v1/agents/{agentId}", update_agent, "updateAgent"),
    Route("DELETE", "/api/v1/agents/{agentId}", delete_agent, "deleteAgent"),
)
