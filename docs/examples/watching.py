"""Hooks, middleware, services and redaction."""

import asyncio
from collections.abc import Iterator
from typing import Any

from fairlead import App, Context
from fairlead.runtime import Call, Invocation
from fairlead.runtime.plan import Next

seen: list[str] = []


def ended(invocation: Invocation) -> None:
    assert invocation.result is not None
    seen.append(f"{invocation.surface} {'ok' if invocation.result.ok else 'failed'}")


async def shout(call: Call, next: Next) -> Any:
    seen.append(f"before {call.action.name}")
    return (await next()).upper()


app = App(
    "door",
    description="Open doors.",
    hooks={"on_invocation_end": ended},
    middleware=[shout],
    redact={"keys": ["pin"]},
)


@app.service
def keyring() -> Iterator[dict[str, str]]:
    """Opened before the first call, closed when the app stops."""
    seen.append("keys taken")
    yield {"front": "K-1"}
    seen.append("keys returned")


@app.action
async def open_door(ctx: Context, name: str) -> str:
    """Open a door."""
    ctx.logger.info("Opening with Bearer abc.def.ghi", name=name, pin="1234")
    return f"opened with {ctx.services.keyring[name]}"


async def main() -> None:
    async with app:
        result = await app.invoke("open_door", {"name": "front"}, surface="json")
    assert result.data == "OPENED WITH K-1"
    assert result.logs[0]["message"] == "Opening with Bearer [REDACTED]"
    assert result.logs[0]["fields"] == {"name": "front", "pin": "[REDACTED]"}
    assert seen == ["keys taken", "before open_door", "json ok", "keys returned"]


asyncio.run(main())
