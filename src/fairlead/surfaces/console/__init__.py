"""The browser console: an app's actions on a page, for the person who develops it, on that person's machine.

    console = app.console()
    print(console.link("http://127.0.0.1:4321"))

`fairlead dev` serves it and reloads the app on change. It is not for others: it acts with all of your rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead._lazy import on_demand

if TYPE_CHECKING:
    from fairlead.surfaces.console.console import Console

__all__ = ["Console"]

__getattr__ = on_demand(__name__, {"Console": "console"})
