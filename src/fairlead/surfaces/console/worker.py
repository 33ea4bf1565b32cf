"""The process that has the app in it: it serves the console until the app's files change, then makes way for the next.

    python -m fairlead.surfaces.console.worker

The supervisor starts it and says by an environment variable what to do. It never dies of the app's own mistakes:
what cannot be imported is shown on the terminal and in the page, until a file changes.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.failures.redaction import DEFAULT
from fairlead.runtime import App
from fairlead.surfaces.cli import Console, locate
from fairlead.surfaces.cli.console import RED, harmless
from fairlead.surfaces.cli.identity import Identity
from fairlead.surfaces.console import watch
from fairlead.surfaces.console.acting import Acting
from fairlead.surfaces.console.changes import Broken, Changes
from fairlead.surfaces.console.console import about
from fairlead.surfaces.console.gate import Gate
from fairlead.surfaces.console.guard import Keys
from fairlead.surfaces.console.inside import Inside
from fairlead.surfaces.console.serving import Serving
from fairlead.surfaces.console.site import Site
from fairlead.surfaces.http.serving import listening

VARIABLE: Final = "FAIRLEAD_DEV"
#: The exit code that asks for the next generation.
AGAIN: Final = 75
#: Seconds after which a generation that does not end is ended.
PATIENCE: Final = 5.0


class Orders(NamedTuple):
    """What the supervisor wants."""

    target: str
    said_by: str
    #: Whether the app's own program was started: it has seen to the path.
    packaged: bool
    program: str
    #: Whom the calls are made for: user and auth.
    identity: list[Any]
    token: str
    session: str
    #: A file that exists once the token has been used: that outlives a generation.
    spent: str
    host: str
    port: int
    #: The listening socket, where one can be handed over.
    socket: int | None
    parent: int
    #: Where modules are looked for.
    path: list[str]
    #: How the app ended the process before this one, if it did: then it is not imported again as it is.
    ended: int | None = None

    def claim(self) -> bool:
        """Use the token up. Whoever makes the file is the first, in whatever generation."""
        try:
            os.close(os.open(self.spent, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    def files(self) -> set[str]:
        """The file that the target names, if it names one."""
        file = os.path.abspath(self.target.rpartition(":")[0] or self.target)
        return {file} if os.path.isfile(file) else set()


class Loaded(NamedTuple):
    """The app, or why there is none."""

    app: App | None
    failure: Failure | None = None

    @property
    def traceback(self) -> str:
        """The developer's part of the way to the failure."""
        cause = None if self.failure is None else self.failure.__cause__
        if cause is None:
            return ""
        told = traceback.TracebackException.from_exception(cause)
        told.stack = traceback.StackSummary.from_list(
            [frame for frame in told.stack if watch.is_own(frame.filename)]
        )
        return "".join(told.format())


def load(orders: Orders) -> Loaded:
    if orders.ended is not None:
        message = (
            f"The app ended its process with code {orders.ended}. It is started again when a file changes."
        )
        return Loaded(None, Failure(Kind.misconfigured, message))
    try:
        place = locate.Place(orders.target, orders.said_by, packaged=orders.packaged)
        return Loaded(locate.load(place, os.getcwd()))
    except Failure as failure:
        failure.message = failure.message.removesuffix(" FAIRLEAD_DEBUG=1 shows the traceback.")
        return Loaded(None, failure)


def run(orders: Orders) -> int:
    """Serve one generation; gives the process's exit code."""
    with watch.noted() as read:
        loaded = load(orders)
    watching = _watch(loaded, orders, read)
    changes = Changes()
    serving = Serving(_site(loaded, orders, changes), changes.end)
    _tell(loaded)
    again = threading.Event()

    def look() -> None:
        # Who has no parent any more has nobody to serve for.
        while os.getppid() == orders.parent:
            time.sleep(watch.EVERY)
            if watching.changed():
                again.set()
                break
        serving.stop()
        # An app that holds up its own loop must not hold up the developer.
        time.sleep(PATIENCE)
        os._exit(AGAIN)

    threading.Thread(target=look, name="fairlead-watch", daemon=True).start()
    serving.run(_socket(orders))
    return AGAIN if again.is_set() else 0


def _site(loaded: Loaded, orders: Orders, changes: Changes) -> Site:
    who = Identity(*orders.identity)
    keys = Keys(orders.token, orders.session, orders.claim)
    if loaded.app is None or loaded.failure is not None:
        assert loaded.failure is not None
        broken = Broken(loaded.failure, loaded.traceback, changes.generation)
        return Site(Gate(keys, changes.around(broken), DEFAULT))
    inside = Inside(loaded.app, Acting(*who), orders.program, about(who, changes.generation))
    return Site(Gate(keys, changes.around(inside), loaded.app.redactor), loaded.app, inside.end)


def _watch(loaded: Loaded, orders: Orders, read: Mapping[str, watch.Stamp]) -> watch.Watch:
    if loaded.failure is None:
        return watch.Watch(watch.loaded, read, new=False)
    failed = watch.named_in(loaded.failure) | orders.files()
    return watch.Watch(lambda: watch.beside(watch.loaded() | failed, os.getcwd()), read, new=True)


def _tell(loaded: Loaded) -> None:
    console = Console()
    if loaded.app is not None:
        count = len(loaded.app.actions)
        console.say(f"{loaded.app.name}: {count} {'action' if count == 1 else 'actions'}")
    if loaded.failure is not None:
        console.say(harmless(loaded.traceback), end="")
        console.say(console.err(harmless(loaded.failure.message), RED))


def _socket(orders: Orders) -> socket.socket:
    if orders.socket is None:
        return listening(orders.host, orders.port)
    return socket.socket(fileno=orders.socket)


def main() -> None:
    orders = Orders(**_json.loads(os.environ.pop(VARIABLE)))
    sys.path[:] = orders.path
    sys.exit(run(orders))


if __name__ == "__main__":
    main()
