"""The connection to NATS, of which nothing is left behind.

Imported where a bus is opened: it needs nats-py, which not every app has.
"""

from __future__ import annotations

from nats.aio.client import Client, Srv


class NatsClient(Client):
    """A client that closes a connection which came to nothing before it makes the next.

    Its base leaves that to the collector: a server that takes calls and does not answer costs a socket each time.
    """

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]
        await super()._connect_to_server(s)
