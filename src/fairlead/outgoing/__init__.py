"""Requests that leave this machine: to whom they may go, and how they get there and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.outgoing.guard import Guard
    from fairlead.outgoing.requests import Outgoing, Received

__all__ = ["Guard", "Outgoing", "Received"]

__getattr__ = on_demand(__name__, {"Guard": "guard", "Outgoing": "requests", "Received": "requests"})
