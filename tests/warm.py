"""Programs that start warm: a process imports what they need, once, and has a copy of itself run each of them.

The command of a warm program stands for `python PROGRAM ...`: it is a process with the streams, the folder and the
environment that it is given; it ends as the program does, and the program is killed when it is. What it saves is
that thousands of modules are imported anew. A program has a function `main` that takes its arguments.
"""

from __future__ import annotations

import os
import socket
import sys

# The commands are started dozens of times, so what only the other side needs is imported there.
if not sys.flags.isolated:
    import contextlib
    import gc
    import importlib.util
    import json
    import select
    import shlex
    import signal
    import subprocess
    import tempfile
    from pathlib import Path

_LENGTH = 8


class Warm:
    """A program of which copies are started until this is closed."""

    def __init__(self, program: Path, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm")
        self._place = f"{self._folder.name}/door"
        self._process = subprocess.Popen(
            [sys.executable, *options, __file__, self._place, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"open\n"

    def command(self, *arguments: str) -> list[str]:
        """What to start for `python PROGRAM ARGUMENTS`."""
        return [sys.executable, "-I", "-S", __file__, self._place, *arguments]

    def line(self, *arguments: str) -> str:
        return shlex.join(self.command(*arguments))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


def keep(place: str, program: str) -> None:
    """Import the program, and run it for each command that comes, until nobody holds our stdin any more."""
    sys.path[0] = os.path.dirname(program)
    spec = importlib.util.spec_from_file_location("warm_program", program)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["warm_program"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    gc.collect()
    gc.freeze()  # else a collection in a copy would copy all that it looks at
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen(64)
        print("open", flush=True)
        while True:
            if 0 in select.select([door.fileno(), 0], [], [])[0]:
                return
            caller, _ = door.accept()
            if os.fork() == 0:
                door.close()
                sys.argv[:] = [program]
                _serve(caller, module.main)
            caller.close()
            _bury()


def _bury() -> None:
    """Take note of those that ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(caller: socket.socket, main: object) -> None:
    """Run the program in a process of its own, for as long as its command lives; tell how it ended."""
    streams: list[int] = []
    data, streams, _, _ = socket.recv_fds(caller, _LENGTH, 3)
    text = b""
    while len(text) < int(data):
        text += caller.recv(1 << 16)
    told = json.loads(text)
    program = os.fork()
    if program == 0:
        caller.close()
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(told["environ"])
        os.chdir(told["folder"])
        sys.argv[1:] = told["arguments"]
        try:
            main(told["arguments"])  # type: ignore[operator]
        except SystemExit as ended:
            _end(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            _end(1)
        _end(0)
    for stream in (0, 1, *streams):
        os.close(stream)
    life = os.pidfd_open(program)
    while life not in select.select([caller.fileno(), life], [], [])[0]:
        # What the command is told, the program is told; a command that is gone was killed.
        os.kill(program, (caller.recv(1) or bytes([signal.SIGKILL]))[0])
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(BrokenPipeError):
        caller.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def stand_in(place: str, arguments: list[str]) -> None:
    """Be the command: hand over what we were given, and end as the program does."""
    import json
    import signal

    told = {"arguments": arguments, "folder": os.getcwd(), "environ": dict(os.environ)}
    text = json.dumps(told).encode()
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(place)
        socket.send_fds(door, [str(len(text)).zfill(_LENGTH).encode()], [0, 1, 2])
        door.sendall(text)
        for told_of in (signal.SIGINT, signal.SIGTERM):
            signal.signal(told_of, lambda number, _: door.send(bytes([number])))
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        code = int(door.recv(16) or b"1")
    if code < 0:
        if -code in (signal.SIGINT, signal.SIGTERM):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    if sys.flags.isolated:
        stand_in(sys.argv[1], sys.argv[2:])
    else:
        keep(*sys.argv[1:])
