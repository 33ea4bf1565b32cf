"""The values that commands must not show: those of the app's secret store, and those that the conversation knows."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

from fairlead.failures import Failure
from fairlead.runtime import App, Context
from fairlead.store.secrets import Secrets
from fairlead.tools.session import SESSION

_UNMASKED: Final = "The app's secrets could not be read, and are not masked in this output: {}"
#: One for each app: its keys are read once.
_STORES: Final[WeakKeyDictionary[App, Secrets]] = WeakKeyDictionary()


async def known_secrets(ctx: Context) -> dict[str, str]:
    """Secret values by name. The caller is warned where those of the app cannot be read."""
    session = SESSION.get()
    told = {} if session is None else dict(session.secrets)
    app: Any = ctx.runtime
    # A database is not made for this, and in one that there is not, nothing is secret.
    if not isinstance(app, App) or not app.has_store:
        return told
    try:
        return {**await asyncio.to_thread(_stored, app), **told}
    except Failure as failure:
        ctx.warn(_UNMASKED.format(failure.for_callers().message))
        return told


def _stored(app: App) -> dict[str, str]:
    if app not in _STORES:
        _STORES[app] = Secrets(app.store)
    return _STORES[app].values_now()
