"""Idempotency: a write that is sent twice and done once."""

import asyncio

from fairlead import App

app = App("bank", description="Move money.")
sent: list[int] = []


@app.action(side_effects="write")
async def send_money(amount: int) -> int:
    """Send an amount, and give the number of the transfer."""
    sent.append(amount)
    return len(sent)


async def main() -> None:
    first = await app.invoke("send_money", {"amount": 5}, user="ada", idempotency_key="rent-may")
    again = await app.invoke("send_money", {"amount": 5}, user="ada", idempotency_key="rent-may")
    assert first.data == again.data == 1
    assert again.replayed
    assert sent == [5]

    # The same key for another request is a conflict, not a second transfer.
    other = await app.invoke("send_money", {"amount": 6}, user="ada", idempotency_key="rent-may")
    assert other.failure is not None
    assert other.failure.code == "CONFLICT"

    # Another caller has keys of their own.
    assert (await app.invoke("send_money", {"amount": 5}, user="bob", idempotency_key="rent-may")).data == 2


asyncio.run(main())
