"""The gateway: an app's agents for other people's programs, over HTTP. It translates and owns; agents do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.gateway.agent_turn import AgentTurn, Busy, Refused
    from fairlead.gateway.agent_worker import AgentWorker
    from fairlead.gateway.gateway import Gateway, GatewayOptions

__all__ = ["AgentTurn", "AgentWorker", "Busy", "Gateway", "GatewayOptions", "Refused"]

__getattr__ = on_demand(
    __name__,
    {
        "AgentTurn": "agent_turn",
        "AgentWorker": "agent_worker",
        "Busy": "agent_turn",
        "Gateway": "gateway",
        "GatewayOptions": "gateway",
        "Refused": "agent_turn",
    },
)
