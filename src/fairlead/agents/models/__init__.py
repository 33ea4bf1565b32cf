"""Models: one way to ask them all. Providers, models on this machine, and the scripted one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.agents.models.model import (
        Delta,
        Embedded,
        Image,
        Message,
        Model,
        Reply,
        Request,
        Settings,
        ToolCall,
        ToolSpec,
        Usage,
    )
    from fairlead.agents.models.registry import Models
    from fairlead.agents.models.retrying import Retries
    from fairlead.agents.models.script import ScriptModel, Turn, call
    from fairlead.agents.models.weights import Weights

__all__ = [
    "Delta",
    "Embedded",
    "Image",
    "Message",
    "Model",
    "Models",
    "Reply",
    "Request",
    "Retries",
    "ScriptModel",
    "Settings",
    "ToolCall",
    "ToolSpec",
    "Turn",
    "Usage",
    "Weights",
    "call",
]

__getattr__ = on_demand(
    __name__,
    {
        "Delta": "model",
        "Embedded": "model",
        "Image": "model",
        "Message": "model",
        "Model": "model",
        "Models": "registry",
        "Reply": "model",
        "Request": "model",
        "Retries": "retrying",
        "ScriptModel": "script",
        "Settings": "model",
        "ToolCall": "model",
        "ToolSpec": "model",
        "Turn": "script",
        "Usage": "model",
        "Weights": "weights",
        "call": "script",
    },
)
