"""Fairlead: write an action once, and every caller gets it."""

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.actions import Action, action
    from fairlead.failures import Failure, Kind
    from fairlead.runtime import App, Context, Runtime
    from fairlead.schema import s
    from fairlead.surfaces.client import Client, SyncClient

__version__ = "1.0.0"

__all__ = [
    "Action",
    "App",
    "Client",
    "Context",
    "Failure",
    "Kind",
    "Runtime",
    "SyncClient",
    "action",
    "s",
]

__getattr__ = on_demand(
    __name__,
    {
        "Action": "actions",
        "App": "runtime",
        "Client": "surfaces.client",
        "Context": "runtime",
        "Failure": "failures",
        "Kind": "failures",
        "Runtime": "runtime",
        "SyncClient": "surfaces.client",
        "action": "actions",
        "s": "schema",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
