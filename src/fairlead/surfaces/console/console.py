"""`Console`: an app's browser console as an ASGI app."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from fairlead.runtime import Runtime
from fairlead.surfaces.cli.identity import Identity, local
from fairlead.surfaces.console.acting import Acting
from fairlead.surfaces.console.gate import Gate
from fairlead.surfaces.console.guard import Keys
from fairlead.surfaces.console.inside import Inside
from fairlead.surfaces.console.site import Site
from fairlead.surfaces.console.snippets import ADDRESS
from fairlead.surfaces.http.asgi import Receive, Scope, Send

_LOCAL: Final[Any] = object()


class Console:
    """Serves an app's console to the machine it runs on, with any ASGI server.

    Calls are made for the person who runs it, with every permission, unless `user` or `auth` say otherwise.
    `token` opens the page, once; without one it is random. `program` is how the command line is typed, and
    `address` where the app is served, for the code that the page shows.
    """

    def __init__(
        self,
        app: Runtime,
        *,
        token: str | None = None,
        user: Any = _LOCAL,
        auth: Any = _LOCAL,
        program: str = "fairlead",
        address: str = ADDRESS,
    ) -> None:
        person = local()
        who = Identity(person.user if user is _LOCAL else user, person.auth if auth is _LOCAL else auth)
        self._keys = Keys(token)
        inside = Inside(app, Acting(*who), program, about(who), address)
        self._inside = inside
        self._site = Site(Gate(self._keys, inside, app.redactor), app, inside.end)

    def link(self, address: str) -> str:
        """The link that opens the page at this address, once."""
        return link(address, self._keys.token)

    async def end(self) -> None:
        """End the runs of chats, for a server that does not run its lifespan: before the app's services stop."""
        await self._inside.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._site(scope, receive, send)


def link(address: str, token: str) -> str:
    """After the `#`, where no server, log or other page gets to see it."""
    return f"{address.rstrip('/')}/#token={quote(token, safe='')}"


def about(who: Identity, generation: str | None = None) -> dict[str, Any]:
    """What the page should know of its console; it has a generation where the app is reloaded."""
    return {"identity": who._asdict(), "generation": generation}
