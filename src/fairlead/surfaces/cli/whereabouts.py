"""Where an app is, in words that another process can import it by."""

from __future__ import annotations

import sys
from types import ModuleType

from fairlead.runtime import App


def whereabouts(app: App) -> str | None:
    """`MODULE:NAME` or `FILE:NAME`; None for an app that no module has a name for, such as one made in a function."""
    # The program itself goes first: a module that only imported the app may import more than is wanted.
    main = sys.modules.get("__main__")
    for module in (main, *list(sys.modules.values())):
        name = _name_in(module, app)
        home = None if name is None or module is None else _home(module)
        if home is not None:
            return f"{home}:{name}"
    return None


def _name_in(module: ModuleType | None, app: App) -> str | None:
    # Some modules are stand-ins that answer to any name.
    names = getattr(module, "__dict__", None)
    if not isinstance(names, dict):
        return None
    return next((name for name, value in list(names.items()) if value is app), None)


def _home(module: ModuleType) -> str | None:
    if module.__name__ != "__main__":
        return module.__name__
    # Started by `python -m package.module`, it has that name; by `python file.py`, only the file's.
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return getattr(module, "__file__", None)
