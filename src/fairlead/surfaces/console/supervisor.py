"""Keeping a console up while the app behind it comes and goes: one socket, one link, one generation after another.

The socket is held here and handed to each generation, so that a page that asks while the app is reloaded waits a
moment instead of being refused. The app is never run in this process.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final, NoReturn

from fairlead import _json
from fairlead.surfaces.cli.identity import Identity
from fairlead.surfaces.cli.locate import Place
from fairlead.surfaces.console.console import link
from fairlead.surfaces.console.serving import address
from fairlead.surfaces.console.worker import AGAIN, PATIENCE, VARIABLE, Orders

#: `-P`: a file in the working directory must not pass for one of Python's own.
_WORKER: Final = (sys.executable, "-P", "-m", "fairlead.surfaces.console.worker")


class Terminated(Exception):
    """Someone asked this process to end."""


class Supervisor:
    """Runs workers on one socket until it is stopped."""

    def __init__(self, place: Place, program: str, identity: Identity, at: socket.socket) -> None:
        token = secrets.token_urlsafe(32)
        #: The link that opens the page, once.
        self.link = link(address(at), token)
        self._socket = at
        self._folder = TemporaryDirectory(prefix="fairlead-dev-")
        host, port = at.getsockname()[:2]
        self._orders = Orders(
            target=place.target,
            said_by=place.said_by,
            packaged=place.packaged,
            program=program,
            identity=list(identity),
            token=token,
            session=secrets.token_urlsafe(32),
            spent=os.path.join(self._folder.name, "spent"),
            host=host,
            port=port,
            socket=at.fileno() if os.name == "posix" else None,
            parent=os.getpid(),
            path=sys.path,
        )

    def run(self) -> int:
        """Run until Ctrl-C or a signal; gives the exit code."""
        signal.signal(signal.SIGTERM, _terminate)
        ended: int | None = None
        with self._folder, closing(self._socket):
            if self._orders.socket is None:
                self._socket.close()
            while True:
                worker = self._start(ended)
                try:
                    code = worker.wait()
                except (KeyboardInterrupt, Terminated) as stopped:
                    _stop(worker)
                    return 143 if isinstance(stopped, Terminated) else 130
                if code != AGAIN and ended is not None:
                    # Even without the app it does not stay up: trying again would not help.
                    return code
                ended = None if code == AGAIN else code

    def _start(self, ended: int | None) -> subprocess.Popen[bytes]:
        orders = self._orders._replace(ended=ended)
        handed = () if orders.socket is None else (orders.socket,)
        environ = {**os.environ, VARIABLE: _json.dumps(orders._asdict())}
        return subprocess.Popen(_WORKER, env=environ, pass_fds=handed)


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """A worker on the same terminal has heard of Ctrl-C itself, and may be busy with it."""
    with suppress(KeyboardInterrupt, Terminated):
        worker.terminate()
        try:
            worker.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()
    worker.wait()


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
