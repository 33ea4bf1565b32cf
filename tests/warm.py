"""Programs that start warm: a process imports what they need, once, and has a copy of itself run each of them.

The command of a warm program stands for `python PROGRAM ...`: it is a process with the streams, the folder and the
environment that it is given; it ends as the program does, and the program is killed when it is. What it saves is
that thousands of modules are imported anew. A program has a function `main` that takes its arguments.
Where the process itself matters (it is stopped, or looked at), `warm_child` starts it as a child of ours.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib.util
import marshal
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

STAND_IN = str(Path(__file__).with_name("warm_stand_in.py"))
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_A_NETWORK = 0x40000000  # CLONE_NEWNET

Main = Callable[[list[str]], object]


class Warm:
    """A program of which copies are started. The first who needs it starts it, for all processes that are copies of
    the one that made this; it ends when the last of them has closed this, or has ended."""

    #: That of the fixture `warm_python`, for functions that no fixture is given to.
    python: ClassVar[Warm]

    def __init__(self, program: Path, *options: str, python: Path | str = sys.executable) -> None:
        self._command = [str(python), *options, __file__]
        self._program = str(program)
        #: Says where it waits, once it has been started. A lock of one process does not keep out its own threads.
        self._started = tempfile.TemporaryFile()  # noqa: SIM115
        self._starting = threading.Lock()
        self._life, self._held = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @property
    def place(self) -> str:
        """Where it waits for commands."""
        with self._starting:
            fcntl.lockf(self._started, fcntl.LOCK_EX)
            try:
                place = os.pread(self._started.fileno(), 4096, 0).decode()
                if not place:
                    place = self._start()
                    os.pwrite(self._started.fileno(), place.encode(), 0)
                return place
            finally:
                fcntl.lockf(self._started, fcntl.LOCK_UN)

    def _start(self) -> str:
        place = f"{tempfile.mkdtemp(prefix='warm')}/door"
        self._process = subprocess.Popen(
            [*self._command, place, self._program],
            stdin=self._life,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as said:
            assert said.readline() == b"open\n"
        return place

    def command(self, *arguments: str) -> list[str]:
        """What to start for `python PROGRAM ARGUMENTS`."""
        return [sys.executable, "-I", "-S", STAND_IN, self.place, *arguments]

    def line(self, *arguments: str) -> str:
        return shlex.join(self.command(*arguments))

    def close(self) -> None:
        if self._started.closed:
            return
        for file in (self._life, self._held):
            os.close(file)
        self._started.close()
        if self._process is not None:
            self._process.returncode = 0  # others may have commands for it: nobody waits for its end


class Asked(NamedTuple):
    """What a command hands over."""

    arguments: list[str]
    folder: str
    environ: dict[bytes, bytes]
    #: Whose child the program is to be; a command's is nobody's.
    parent: int | None
    streams: list[int]
    #: Where a child is to be.
    network: list[int]


class Keeper:
    """Has copies of a program run, each for as long as its command lives, and tells how they ended."""

    def __init__(self, door: socket.socket, main: Main) -> None:
        self._door = door
        self._main = main
        #: A program, by a file that tells of its end; and by the command's connection, that file.
        self._programs: dict[int, tuple[int, socket.socket]] = {}
        self._lives: dict[socket.socket, int] = {}

    def keep(self) -> None:
        """Do so until nobody holds our stdin any more."""
        while True:
            waiting: list[Any] = [0, self._door, *self._programs, *self._lives]
            ready = select.select(waiting, [], [])[0]
            if 0 in ready:
                break
            for each in ready:
                if each is self._door:
                    self._start(self._door.accept()[0])
                elif isinstance(each, int):
                    self._end(each)
                elif each in self._lives:  # else it has just ended
                    self._tell(each)
        for program, _ in self._programs.values():
            os.kill(program, signal.SIGKILL)

    def _start(self, caller: socket.socket) -> None:
        asked = _asked(caller)
        if asked is None:
            caller.close()
        elif (program := os.fork()) == 0:
            for each in (self._door, *self._lives):
                each.close()
            for life in self._programs:
                os.close(life)
            if asked.parent is not None:
                _become_child(asked.parent, caller)
            caller.close()
            _run(self._main, asked)
        else:
            for stream in (*asked.streams, *asked.network):
                os.close(stream)
            if asked.parent is not None:
                os.waitpid(program, 0)
                caller.close()
                return
            life = os.pidfd_open(program)
            self._programs[life], self._lives[caller] = (program, caller), life

    def _tell(self, caller: socket.socket) -> None:
        """What the command is told, the program is told; a command that is gone was killed."""
        number = caller.recv(1)
        program, _ = self._programs[self._lives[caller]]
        os.kill(program, number[0] if number else signal.SIGKILL)
        if not number:
            self._end(self._lives[caller])

    def _end(self, life: int) -> None:
        program, caller = self._programs.pop(life)
        del self._lives[caller]
        os.close(life)
        _, status = os.waitpid(program, 0)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            caller.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        caller.close()


def _asked(caller: socket.socket) -> Asked | None:
    """What a command wants, unless it is killed while it says so."""
    text, files, _, _ = socket.recv_fds(caller, 4, 4)
    length = int.from_bytes(text, "big")
    text = b""
    while len(text) < length and (part := caller.recv(length - len(text))):
        text += part
    if not text or len(text) < length:
        for file in files:
            os.close(file)
        return None
    arguments, folder, environ, *parent = marshal.loads(text)
    return Asked(arguments, folder, environ, parent[0] if parent else None, files[:3], files[3:])


def ask(door: socket.socket, place: str, told: tuple[Any, ...], files: list[int]) -> None:
    """Ask who waits there for a program, as a command does."""
    text = marshal.dumps(told)
    door.connect(place)
    socket.send_fds(door, [len(text).to_bytes(4, "big")], files)
    door.sendall(text)


def _become_child(parent: int, caller: socket.socket) -> None:
    """Be the caller's child, who takes over what this process leaves when it ends, and end with the caller."""
    before = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == before:
        time.sleep(0.0002)
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    assert os.getppid() == parent
    caller.sendall(str(os.getpid()).encode())


def _enter(network: list[int]) -> None:
    """Be in the network that the caller's thread is in, which needs root where that is another."""
    for file in network:
        if os.fstat(file).st_ino != os.stat("/proc/self/ns/net").st_ino:
            assert ctypes.CDLL(None).setns(file, _A_NETWORK) == 0
        os.close(file)


def _run(main: Main, asked: Asked) -> None:
    """Be the program."""
    if asked.parent is None:
        os.setsid()
    _enter(asked.network)
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
        os.close(stream)
    if asked.parent is None and os.isatty(0):
        # It is this program's terminal, where Ctrl-C is a signal, unless it is already another's.
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    os.environb.clear()
    os.environb.update(asked.environ)
    os.chdir(asked.folder)
    sys.argv[1:] = asked.arguments
    try:
        main(asked.arguments)
    except SystemExit as ended:
        _leave(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _leave(1)
    _leave(0)


def _leave(code: int) -> None:
    """End as Python does: once threads have ended, what is to be done at the end is done."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def keep(place: str, program: str) -> None:
    """Import the program, and run it for each command that comes."""
    sys.path[0] = os.path.dirname(program)
    spec = importlib.util.spec_from_file_location("warm_program", program)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["warm_program"] = importlib.util.module_from_spec(spec)
    gc.disable()  # what is imported stays
    spec.loader.exec_module(module)
    sys.argv[:] = [program]
    gc.collect()
    gc.freeze()  # else a collection in a copy would copy all that it looks at
    gc.enable()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen(64)
        print("open", flush=True)
        Keeper(door, module.main).keep()
    shutil.rmtree(os.path.dirname(place))


if __name__ == "__main__":
    keep(*sys.argv[1:])
