"""A confirmation that is bound to one input."""

import asyncio

from fairlead import App

app = App("safe", description="Keep things.")


@app.action(side_effects="destructive", requires_confirmation="token")
async def burn_letters(count: int) -> int:
    """Burn some letters."""
    return count


async def main() -> None:
    asked = await app.invoke("burn_letters", {"count": 3}, user="ada")
    assert asked.failure is not None
    assert asked.failure.code == "CONFIRMATION_REQUIRED"
    token = asked.failure.details["confirmation"]["code"]

    # Another input needs another token; so does another caller.
    other = await app.invoke("burn_letters", {"count": 99}, user="ada", confirm=token)
    assert other.failure is not None

    assert (await app.invoke("burn_letters", {"count": 3}, user="ada", confirm=token)).data == 3

    # It works once.
    again = await app.invoke("burn_letters", {"count": 3}, user="ada", confirm=token)
    assert again.failure is not None


asyncio.run(main())
