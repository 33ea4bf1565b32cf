"""A shell with a project in it, for the canary."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attack.canary import CANARY
from servers import ends_with_us
from warm import Warm

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))

APP = (
    "import os, pathlib\nfrom attack.canary import aviary\napp = aviary(pathlib.Path(os.environ['AVIARY']))\n"
)


class Shell:
    """Runs `fairlead` in a project, and keeps what it says."""

    def __init__(self, folder: Path, warm: Warm) -> None:
        self.folder = folder
        self._warm = warm
        (folder / "app.py").write_text(APP)
        tests = str(Path(__file__).parents[1])
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([tests, *sys.path]),
            "AVIARY": str(folder),
            "FAIRLEAD_DATA": str(folder / "data"),
            "STRIPE_TOKEN": CANARY,
        }
        self.said: dict[str, str] = {}

    def run(self, *words: str, stdin: str = "", ok: bool | None = True, **more: str) -> str:
        done = subprocess.run(
            self._warm.command(FAIRLEAD, *words),
            cwd=self.folder,
            env={**self._environment, **more},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=45,
        )
        name = " ".join(words).replace(CANARY, "*") + f" {more}"
        self.said[f"stdout of {name}"], self.said[f"stderr of {name}"] = done.stdout, done.stderr
        assert ok is None or (done.returncode == 0) is ok, (name, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def working(self) -> Iterator[None]:
        """With a worker that says all there is to say."""
        with (self.folder / "worker.txt").open("wb") as words:
            worker = subprocess.Popen(
                self._warm.command(FAIRLEAD, "worker", "--verbose", "--json"),
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                preexec_fn=ends_with_us(signal.SIGKILL),
            )
        yield
        worker.terminate()
        worker.wait(45)
