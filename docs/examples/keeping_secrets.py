"""Secrets: a token that is kept encrypted, used, and survives a change of keys."""

import asyncio
import tempfile

from fairlead.store import Secrets, open_store


async def main(folder: str) -> None:
    with open_store("shop", data=folder) as store:
        secrets = Secrets(store)

        await secrets.set("stripe", "sk_live_4711")
        assert await secrets.get("stripe") == "sk_live_4711"
        assert [each.name for each in await secrets.names()] == ["stripe"]

        # Something of your own, as a text that can be kept anywhere. It opens in its own context only.
        sealed = secrets.seal(b"card 4711", "order 17")
        assert await secrets.rotate() == 1
        assert secrets.open(sealed, "order 17") == b"card 4711"


asyncio.run(main(tempfile.mkdtemp()))
