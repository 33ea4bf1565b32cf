"""The leash: however this program ends, by kill -9 too, the process groups that it started end with it.

One small shell waits on a pipe that only this program holds open. It learns the mark of each command before that is
started, and its group as soon as there is one; when the pipe closes, it ends what is left of them. What is confined
dies with its parent, but for the moment in which bubblewrap prepares it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import threading
from typing import Final

#: Reads `+ NAME` and `- NAME`, where a name is the number of a group or a mark, which is never a number. Names stand
#: between blanks, so that 12 is not found in 123. A process that is just being started shows its mark a moment later.
_SCRIPT: Final = """
trap '' HUP INT TERM
names=' '
while read -r sign name; do
  names="${names/ $name / }"
  [ "$sign" = + ] && names="$names$name "
done
[ "$names" = ' ' ] && exit
for turn in 1 2 3 4 5; do
  for name in $names; do
    case $name in
      *=*) for path in $(grep -lsaF -e "$name" /proc/[0-9]*/environ); do
             pid="${path#/proc/}"
             kill -KILL "${pid%/environ}"
           done ;;
      *) kill -KILL -- "-$name" ;;
    esac
  done 2>/dev/null
  read -t 0.1 <> <(:)
done
"""


class Leash:
    """Holds groups and marks until they are let go. Started with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def hold(self, name: str) -> None:
        with self._lock:
            if self._shell is None or self._owner != os.getpid() or self._shell.poll() is not None:
                self._start()
            self._say(f"+ {name}\n")

    def let_go(self, *names: str) -> None:
        with self._lock:
            self._say("".join(f"- {name}\n" for name in names))

    def _start(self) -> None:
        bash = shutil.which("bash")
        if bash is None:
            return
        self._owner = os.getpid()
        # A folder that stays, and nothing of our environment: this process is nobody's business.
        self._shell = subprocess.Popen(
            [bash, "--noprofile", "--norc", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )

    def _say(self, line: str) -> None:
        if self._shell is None or self._shell.stdin is None or self._owner != os.getpid():
            return
        with contextlib.suppress(OSError, ValueError):
            os.write(self._shell.stdin.fileno(), line.encode())

    def close(self) -> None:
        """Let the shell end what is left, and wait for it."""
        with self._lock:
            shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None or self._owner != os.getpid():
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            shell.stdin.close()
            shell.wait(1.0)


LEASH: Final = Leash()
atexit.register(LEASH.close)
