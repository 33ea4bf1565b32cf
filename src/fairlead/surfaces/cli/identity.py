"""Who the calls of a command are made for: the person who runs it, unless the host program says otherwise."""

from __future__ import annotations

from typing import Any, NamedTuple


class Identity(NamedTuple):
    """The caller, as the runtime is told."""

    user: Any
    auth: Any


def local() -> Identity:
    """Whoever owns the process may do all that the process can."""
    from getpass import getuser

    try:
        name = getuser()
    except (OSError, KeyError, ImportError):
        name = "local"
    return Identity({"id": name}, {"permissions": ["*"]})
