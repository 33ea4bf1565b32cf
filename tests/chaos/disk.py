"""A server whose store is a file on a small disk: the disk is filled up, then made read-only, and mended each time.

python tests/chaos/disk.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx

import warm_python
from chaos.fleet_in_chaos import MOVED, build, reply_to
from chaos.members import fill
from chaos.network import be_apart
from fairlead.gateway.keys import Keys
from servers import PATIENCE, Server, until
from warm import Warm
from warm_child import Child, Copies

AGENT = "/api/v1/agents/echo"


class Site(Server):
    """`fairlead serve`, with workers, on a store in a folder."""

    def __init__(self, warm: Warm, folder: Path, disk: Path) -> None:
        self.folder = folder
        self._warm = warm
        self.process = None
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "FAIRLEAD_APP": "chaos.member_in_chaos:app",
            "FAIRLEAD_DATA": str(folder),
            "CHAOS_STORE": f"sqlite:///{disk}/store.db",
            "CHAOS_FOLDER": str(folder),
            "CHAOS_ROLE": "test",
        }

    def begin(self) -> None:
        with self.log.open("wb") as log:
            self.process = Child(
                self._warm,
                *("-m", "fairlead", "serve", "--port", "8000"),
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ready(self) -> bool:
        return "/fairlead/actions" in self.log.read_text()


def given(http: httpx.Client, name: str) -> httpx.Response:
    return http.post(f"{AGENT}/tasks", json={"message": name, "idempotency_key": name})


def completed(http: httpx.Client, name: str) -> None:
    """Give a task, or the one that was given by this name, and see it end well."""
    answer = given(http, name)
    assert answer.is_success, answer.text
    path = f"{AGENT}/tasks/{answer.json()['data']['task_id']}"
    until(lambda: http.get(path).json()["data"]["status"] == "completed", f"{name} does not end")
    assert http.get(path).json()["data"]["result"] == reply_to(name)


def filled_up(site: Site, http: httpx.Client, disk: Path) -> None:
    completed(http, "before")
    fill(disk)
    told: list[str] = []

    def refused() -> bool:
        with suppress(httpx.TransportError):
            answer = given(http, f"while {len(told)}")
            told.append(f"{answer.status_code} {answer.text}")
        return bool(told) and told[-1].startswith("503")

    until(refused, "nothing is refused")
    # Why is for those who run it.
    assert "is full" in site.log.read_text()
    assert http.get("/healthz").is_success
    # Who only looks is answered.
    assert http.get(AGENT).is_success
    (disk / "ballast").unlink()
    completed(http, "after")
    for number, answer in enumerate(told):
        if not answer.startswith("503"):
            completed(http, f"while {number}")


def made_read_only(site: Site, http: httpx.Client, disk: Path) -> None:
    site.stop()
    _mount(disk, "remount,ro")
    site.begin()
    assert site.process is not None
    code = site.process.wait(PATIENCE)
    words = site.log.read_text()
    print(code, words)
    assert code != 0
    assert "Traceback" not in words, words
    assert str(disk) in words, words
    _mount(disk, "remount,rw")
    site.start()
    completed(http, "before")
    completed(http, "after all")


def _mount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)


def main() -> int:
    be_apart()
    copies = Copies(warm_python.main)
    folder = Path(tempfile.mkdtemp(prefix="fairlead-chaos-"))
    disk = folder / "disk"
    disk.mkdir()
    _mount(disk, "size=6m,mode=0700")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "clock-test").write_bytes(MOVED.pack(0.0))
    site = Site(copies, folder, disk)
    try:
        app = build(f"sqlite:///{disk}/store.db", folder, "test")
        key = Keys(app.store, app.wall).issue_now("chaos", owner="local", per_minute=10**6)[0]
        app.store.close()
        site.start()
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url="http://127.0.0.1:8000", headers=headers, timeout=PATIENCE) as http:
            filled_up(site, http, disk)
            made_read_only(site, http, disk)
    except Exception:
        print(site.log.read_text()[-4000:])
        raise
    finally:
        site.kill()
        copies.close()
        subprocess.run(["umount", "-l", disk], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
