"""Programs that start warm as children of this process, which may be stopped, killed, waited for and looked at."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

import warm

_TAKE_OVER = 36  # PR_SET_CHILD_SUBREAPER
#: One at a time is given to us: nobody is to stop taking over while another waits.
_given = threading.Lock()


class Child(subprocess.Popen[Any]):
    """What `subprocess.Popen` gives for `python ARGUMENTS`, started warm. It ends with us, even by kill -9."""

    def __init__(self, kept: warm.Warm, *arguments: str, **options: Any) -> None:
        self._place = kept.place
        super().__init__(arguments, **options)

    def _execute_child(
        self,
        args: tuple[str, ...],
        executable: None,
        preexec_fn: None,
        close_fds: bool,
        pass_fds: tuple[()],
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        startupinfo: None,
        creationflags: int,
        shell: bool,
        *more: Any,
    ) -> None:
        """Where Popen would start a program, have a copy made; it has the same streams, folder, environment and
        network."""
        assert (executable, preexec_fn, pass_fds, shell) == (None, None, (), False)
        pipes = more[:6]  # of each stream, what is read from and what is written to
        theirs = (pipes[0], pipes[3], pipes[5])
        surroundings = {
            os.fsencode(k): os.fsencode(v) for k, v in (os.environ if env is None else env).items()
        }
        told = (list(args), os.fspath(cwd or os.getcwd()), surroundings, os.getpid())
        with socket.socket(socket.AF_UNIX) as door, open("/proc/thread-self/ns/net") as network, _given:
            libc = ctypes.CDLL(None)
            libc.prctl(_TAKE_OVER, 1)
            try:
                streams = [number if pipe == -1 else pipe for number, pipe in enumerate(theirs)]
                warm.ask(door, self._place, told, [*streams, network.fileno()])
                self.pid = int(door.recv(16))
            finally:
                libc.prctl(_TAKE_OVER, 0)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class Copies(warm.Warm):
    """Programs that start as copies of this process as it is now: it must have no threads yet."""

    def __init__(self, main: Callable[[list[str]], object]) -> None:
        # Not one that goes at the end of a process: each copy would take it away when it ends.
        self._folder = tempfile.mkdtemp(prefix="warm")
        waiting, self._life = os.pipe()
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(self.place)
            door.listen(64)
            self._pid = os.fork()
            if self._pid == 0:
                os.close(self._life)
                os.dup2(waiting, 0)
                os.close(waiting)
                os.setsid()
                warm.Keeper(door, main).keep()
                os._exit(0)
        os.close(waiting)

    @property
    def place(self) -> str:
        return f"{self._folder}/door"

    def close(self) -> None:
        os.close(self._life)
        os.waitpid(self._pid, 0)
        shutil.rmtree(self._folder)
