"""Keys and rates in the store: what one process has done, all others know."""

import asyncio
import tempfile

from fairlead import App
from fairlead.store import DurableIdempotency, DurableRates, Store, open_store


def process(store: Store) -> App:
    """The app as each of several processes makes it."""
    app = App("bank", idempotency=DurableIdempotency(store), rates=DurableRates(store))

    @app.action(side_effects="write", rate_limit={"limit": 2, "per": 3600})
    async def send_money(amount: int) -> str:
        """Send an amount."""
        return f"sent {amount}"

    return app


async def main(folder: str) -> None:
    with open_store("bank", data=folder) as one, open_store("bank", data=folder) as other:
        first = await process(one).invoke("send_money", {"amount": 5}, idempotency_key="rent-may")
        again = await process(other).invoke("send_money", {"amount": 5}, idempotency_key="rent-may")
        assert again.data == first.data
        assert again.replayed

        assert (await process(one).invoke("send_money", {"amount": 6})).ok
        refused = await process(other).invoke("send_money", {"amount": 7})
        assert refused.failure is not None
        assert refused.failure.code == "RATE_LIMITED"


asyncio.run(main(tempfile.mkdtemp()))
