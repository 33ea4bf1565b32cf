"""Permissions: declared, and checked by an app's own rule."""

import asyncio
from typing import Any

from fairlead import Action, App, Context

app = App("files", description="Keep files.")


@app.action(permissions=["files:read"])
async def read_file(name: str) -> str:
    """Read a file."""
    return f"the text of {name}"


def only_ada(action: Action[..., Any], input: Any, ctx: Context) -> bool | str:
    """True allows; a text is what the caller hears."""
    return ctx.user == "ada" or "Only Ada may do this."


strict = App("strict", actions=app.actions, permission_checker=only_ada)


async def code(app: App, **identity: Any) -> str:
    result = await app.invoke("read_file", {"name": "x"}, **identity)
    return "ok" if result.failure is None else result.failure.code


async def main() -> None:
    assert await code(app) == "AUTHENTICATION_ERROR"
    assert await code(app, user="ada", auth={"permissions": ["mail:read"]}) == "AUTHORIZATION_ERROR"
    assert await code(app, user="ada", auth={"permissions": ["files:read"]}) == "ok"
    assert await code(app, user="ada", auth={"permissions": ["files:*"]}) == "ok"
    assert await code(strict, user="ada") == "ok"
    assert await code(strict, user="bob") == "AUTHORIZATION_ERROR"


asyncio.run(main())
