"""Who may call what. Declared permissions are enforced unless the app brings a checker of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any

from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.runtime.context import Context

#: Takes action, input and context. Only `True` allows; a text is the refusal's message.
PermissionChecker = Callable[[Action[..., Any], Any, Context], bool | str | Awaitable[bool | str]]


def declared_permissions(action: Action[..., Any], input: Any, context: Context) -> bool:
    """The default checker: the caller must hold every permission that the action declares."""
    missing = [needed for needed in action.permissions if not _holds(granted(context), needed)]
    if not missing:
        return True
    if context.user is None and context.auth is None:
        raise Failure(
            Kind.unauthenticated,
            f"Action {action.name!r} needs {_listed(missing)}, and the call carries no identity.",
            details={"permissions": missing},
        )
    raise Failure(
        Kind.forbidden,
        f"Action {action.name!r} needs {_listed(missing)}, which the caller does not have.",
        details={"permissions": missing},
    )


def granted(context: Context) -> set[str]:
    """The permissions of the caller, from `auth` and `user`."""
    return permissions_of(context.auth) | permissions_of(context.user)


def permissions_of(identity: Any) -> set[str]:
    """What an identity, a mapping or an object, says that it may do; `scopes` and `scope` are read as well."""
    found: set[str] = set()
    for key in ("permissions", "scopes", "scope"):
        value = identity.get(key) if isinstance(identity, Mapping) else getattr(identity, key, None)
        if isinstance(value, str):
            found.update(value.split())
        elif isinstance(value, Mapping):
            found.update(name for name, held in value.items() if held is True)
        elif isinstance(value, Iterable):
            found.update(item for item in value if isinstance(item, str))
    return found


def _holds(granted: set[str], needed: str) -> bool:
    """`tasks:*` holds `tasks:write` and `tasks:write:own`; `*` holds everything."""
    if needed in granted or "*" in granted:
        return True
    parts = needed.split(":")
    return any(":".join([*parts[:end], "*"]) in granted for end in range(1, len(parts)))


def _listed(permissions: list[str]) -> str:
    names = ", ".join(repr(item) for item in permissions)
    return f"permission {names}" if len(permissions) == 1 else f"permissions {names}"


async def permitted(answer: object) -> None:
    """Read a checker's answer that is not plainly `True`: it may be still to come, and anything else refuses."""
    if isawaitable(answer):
        answer = await answer
    if answer is not True:
        raise Failure(
            Kind.forbidden, answer if isinstance(answer, str) and answer else "Action is not authorized."
        )
