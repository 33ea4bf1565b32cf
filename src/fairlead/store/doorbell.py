"""Waking other processes on the same machine, without polling: a datagram socket for each, in one private folder.

A datagram holds topics, a line each. One that cannot be delivered, because the other is slow or stands still, is made
up for by "everything" as soon as there is room; one to a process that is gone removes its socket.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fairlead.store.store import EVERYTHING

#: The longest name a Unix socket can have, with room for the process's own part.
_LONGEST: Final = 80
_SIZE: Final = 4096
#: Seconds until a wake that found no room is tried again: soon, then ever less often.
_AGAIN: Final = 0.02
_SELDOM: Final = 0.5
#: Seconds between two looks whether the socket is still where others find it.
_LOOK: Final = 30.0
#: A folder that changed so recently may change again without showing it: clocks of disks are coarse.
_COARSE: Final = 100_000_000


class Doorbell:
    """This process's socket, and the way to all others that have the same file open.

    Raises:
        OSError: there can be none here; processes then see each other's work when they look.
    """

    def __init__(self, file: Path, rung: Callable[[Sequence[str]], None], look: float = _LOOK) -> None:
        self._file = file
        self._rung = rung
        self._look = look
        self.name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._lock = threading.Lock()
        self._missed: set[str] = set()
        self._others: list[str] = []
        self._seen = -1
        self.folder, self._socket = _hung_up(file, self.name)
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="fairlead-doorbell", daemon=True)
        self._thread.start()

    def ring(self, topics: Sequence[str]) -> None:
        """Wake the other processes."""
        message = "\n".join(topics).encode(errors="replace")
        if len(message) > _SIZE:
            message = EVERYTHING.encode()
        with self._lock:
            for other in self._neighbours():
                if other not in self._missed:  # it will hear of everything
                    self._send(other, message)

    def close(self) -> None:
        os.close(self._stopped)
        if self._thread is not threading.current_thread():
            self._thread.join()
        os.close(self._stop)
        self._socket.close()
        with contextlib.suppress(OSError):
            (self.folder / self.name).unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _neighbours(self) -> list[str]:
        try:
            changed = os.stat(self.folder).st_mtime_ns
            if changed != self._seen:
                self._others = [name for name in os.listdir(self.folder) if name != self.name]
                self._seen = changed if time.time_ns() - changed > _COARSE else -1
        except OSError:
            self._others = []
        return self._others

    def _send(self, other: str, message: bytes) -> None:
        try:
            self._socket.sendto(message, str(self.folder / other))
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                (self.folder / other).unlink()
            self._missed.discard(other)
        except OSError:
            self._missed.add(other)
            # The listener looks again when it has something to make up for.
            with contextlib.suppress(OSError):
                self._socket.sendto(b"", str(self.folder / self.name))
        else:
            self._missed.discard(other)

    def _listen(self) -> None:
        pause = _AGAIN
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop, selectors.EVENT_READ)
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(pause if self._missed else self._look)}
                if self._stop in ready:
                    return
                if ready:
                    self._receive()
                elif not os.path.exists(self.folder / self.name):
                    self._hang_again(selector)
                pause = min(pause * 1.5, _SELDOM) if self._missed else _AGAIN
                if self._missed:
                    self._make_up()

    def _receive(self) -> None:
        topics: dict[str, None] = {}
        with contextlib.suppress(BlockingIOError):
            while True:
                topics.update(dict.fromkeys(self._socket.recv(_SIZE).decode(errors="replace").split("\n")))
        topics.pop("", None)
        if topics:
            self._rung(list(topics))

    def _hang_again(self, selector: selectors.BaseSelector) -> None:
        """Somebody has tidied up, and nobody can find us."""
        with contextlib.suppress(OSError):
            folder, bell = _hung_up(self._file, self.name)
            with self._lock:
                selector.unregister(self._socket)
                self._socket.close()
                self.folder, self._socket, self._seen = folder, bell, -1
                selector.register(bell, selectors.EVENT_READ)
            self._rung([EVERYTHING])

    def _make_up(self) -> None:
        with self._lock:
            for other in list(self._missed):
                self._send(other, EVERYTHING.encode())


def _hung_up(file: Path, name: str) -> tuple[Path, socket.socket]:
    """A socket in a folder that only this user can use: beside the file, or where names are short."""
    beside = file.with_name(f"{file.name}.bell")
    digest = hashlib.sha256(os.fsencode(file)).hexdigest()[:16]
    elsewhere = Path(tempfile.gettempdir()) / f"fairlead-{os.getuid()}-{digest}"
    problem: OSError = OSError(f"there is no private folder for sockets near {file}")
    for folder in (beside, beside, beside, elsewhere, elsewhere):
        if len(os.fsencode(folder)) > _LONGEST:
            continue
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            _check_private(folder)
            bell.setblocking(False)
            bell.bind(str(folder / name))
        except OSError as exc:  # somebody who left may have taken the folder away just now
            bell.close()
            problem = exc
        else:
            return folder, bell
    raise problem


def _check_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise PermissionError(f"{folder} is not private")
