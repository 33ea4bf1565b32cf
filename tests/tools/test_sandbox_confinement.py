"""What bubblewrap keeps from a command, and what is said where it cannot be used."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.failures import tool
from fairlead.tools.bubblewrap import Bubblewrap, bubblewrap
from fairlead.tools.sandbox import _bounded, sandbox
from fairlead.tools.shell import bash

FOUND = bubblewrap()
#: Each child waits for the end of a pipe, so that none is gone before the count.
BOMB = r"""
#include <stdio.h>
#include <unistd.h>
int main(void) {
    int ends[2], count = 0;
    char byte;
    if (pipe(ends)) return 1;
    for (pid_t made = 0; count < 5000 && (made = fork()) >= 0; count++)
        if (made == 0) return close(ends[1]), read(ends[0], &byte, 1) < 0;
    printf("%d\n", count);
}
"""
works = pytest.mark.skipif(not isinstance(FOUND, Bubblewrap), reason=f"no confinement here: {FOUND}")


def app_of(root: Path, **options: Any) -> App:
    app = App("workshop")
    app.add(sandbox(root, **options))
    return app


async def inside(root: Path, command: str, **options: Any) -> dict[str, Any]:
    call = {"command": command}
    done = await app_of(root, confine="require", **options).invoke("sandbox_exec", call, confirm=True)
    data: dict[str, Any] = done.unwrap()
    return data


def everywhere(root: Path, name: str) -> list[Path]:
    return list(root.rglob(name))


def exists(path: str) -> bool:
    return Path(path).exists()


@works
async def test_the_root_can_be_written_and_nothing_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    told = await inside(
        root, f"touch made; for at in / /usr /etc /opt {outside}; do touch $at/made || echo no; done"
    )
    assert told["stdout"].count("no\n") == 5
    assert everywhere(tmp_path, "made") == [root / "made"]


@works
async def test_other_peoples_files_are_not_there(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "diary").write_text("dear diary")
    told = await inside(
        root, f"cat {tmp_path}/diary ../diary /etc/shadow /etc/ssh/*key; ls /home /var /run /mnt; ls -A ~root"
    )
    assert "dear diary" not in told["stdout"]
    assert "root:" not in told["stdout"]
    assert ".ssh" not in told["stdout"]


@works
async def test_a_link_out_of_the_root_leads_nowhere(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.write_text("treasure")
    (root / "link").symlink_to(secret)
    told = await inside(root, "cat link; echo changed > link")
    assert "treasure" not in told["stdout"]
    assert secret.read_text() == "treasure"


@works
async def test_processes_outside_are_neither_seen_nor_touched(tmp_path: Path) -> None:
    told = await inside(
        tmp_path, f"ls -d /proc/[0-9]* | wc -l; kill -KILL {os.getpid()}; kill -KILL -1; echo alive"
    )
    assert int(told["stdout"].split()[0]) < 8


@works
async def test_there_is_no_network_unless_it_is_allowed(tmp_path: Path) -> None:
    program = 'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port}), 5); print("in")\''
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = program.format(port=server.getsockname()[1])
        assert (await inside(tmp_path, command))["exit_code"] == 1
        assert (await inside(tmp_path, command, network=True))["stdout"] == "in\n"


@works
async def test_there_are_no_capabilities_and_no_way_to_gain_privileges(tmp_path: Path) -> None:
    told = await inside(tmp_path, "cat /proc/self/status")
    facts = dict(line.split(":\t", 1) for line in told["stdout"].splitlines() if ":\t" in line)
    assert {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert facts["NoNewPrivs"] == "1"


@works
async def test_it_has_a_name_and_a_tmp_of_its_own(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp", prefix="not-for-sandboxes-") as file:
        told = await inside(tmp_path, "uname -n; ls /tmp; touch /tmp/mine && echo made")
        assert told["stdout"].startswith("sandbox\n")
        assert Path(file.name).name not in told["stdout"]
    assert told["stdout"].endswith("made\n")
    assert not exists("/tmp/mine")


@works
async def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path) -> None:
    # Whoever opens a pipe for reading waits for a writer; it ends when the last writer is gone.
    os.mkfifo(tmp_path / "held")
    reading = asyncio.ensure_future(asyncio.to_thread((tmp_path / "held").read_text))
    os.mkfifo(tmp_path / "ready")
    told = await inside(
        tmp_path, "setsid sh -c 'exec 3> held; echo > ready; exec sleep 1000' & cat ready; echo started"
    )
    assert told["stdout"] == "\nstarted\n"
    await asyncio.wait_for(reading, 20)


@works
async def test_paths_that_are_made_readable_can_be_read_only(tmp_path: Path) -> None:
    root, shelf = tmp_path / "root", tmp_path / "shelf"
    root.mkdir()
    shelf.mkdir()
    (shelf / "book").write_text("once upon a time")
    told = await inside(root, f"cat {shelf}/book; echo x > {shelf}/book", readable=[shelf])
    assert told["stdout"] == "once upon a time"
    assert (shelf / "book").read_text() == "once upon a time"


@works
async def test_a_confinement_that_cannot_be_made_is_said_and_nothing_is_run(tmp_path: Path) -> None:
    # Inside there is another /proc, in which nobody can make a place for this.
    app = app_of(tmp_path, confine="require", readable=["/proc/self/environ"])
    done = await app.invoke("sandbox_exec", {"command": "touch made"}, confirm=True)
    assert done.failure is not None
    assert tool.render(done.failure)["kind"] == "unavailable"
    assert not (tmp_path / "made").exists()


@works
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_fork_bomb_stays_small() -> None:
    """The kernel exempts root from the limit, so another user throws it."""
    assert isinstance(FOUND, Bubblewrap)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder)
        os.chmod(root, 0o755)
        for name in ("root", "tmp"):
            (root / name).mkdir()
            shutil.chown(root / name, "nobody")
        compile = ["cc", "-x", "c", "-", "-o", str(root / "root" / "bomb")]
        subprocess.run(compile, input=BOMB, text=True, check=True)
        argv = FOUND.wrap(
            _bounded(bash("./bomb")),
            root=root / "root",
            cwd=root / "root",
            tmp=root / "tmp",
        )
        done = subprocess.run(
            argv, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert 100 < int(done.stdout) < 2048


@works
def test_where_it_is_confined_nobody_is_asked_and_where_not_somebody_is(tmp_path: Path) -> None:
    asks = {
        mode: sandbox(tmp_path, confine=mode)[0].requires_confirmation for mode in ("auto", "require", "off")
    }
    assert asks == {"auto": False, "require": False, "off": True}
    assert "http" in sandbox(tmp_path, confine="require")[0].supported_surfaces
    assert "http" not in sandbox(tmp_path, confine="off")[0].supported_surfaces


async def test_without_bubblewrap_the_tool_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    bash = shutil.which("bash")
    assert bash is not None
    (tools / "bash").symlink_to(bash)
    monkeypatch.setenv("PATH", str(tools))
    call = {"command": "echo ran"}
    required = await app_of(tmp_path, confine="require").invoke("sandbox_exec", call, confirm=True)
    assert required.failure is not None
    assert tool.render(required.failure)["kind"] == "unavailable"
    assert "bubblewrap is not installed" in required.failure.message
    app = app_of(tmp_path)
    asked = await app.invoke("sandbox_exec", call)
    assert asked.failure is not None, "what is not confined asks first"
    done = await app.invoke("sandbox_exec", call, confirm=True)
    assert done.data["stdout"] == "ran\n"
    assert any("not confined: bubblewrap is not installed" in text for text in done.warnings)


@works
def test_where_namespaces_are_forbidden_the_tool_says_so(tmp_path: Path) -> None:
    """Inside a sandbox that forbids sandboxes, as in many containers: this machine's own, one level down."""
    program = (
        "import asyncio\nfrom fairlead import App\nfrom fairlead.tools.sandbox import sandbox\n"
        "for mode in ('require', 'auto'):\n"
        "    app = App('x')\n"
        "    app.add(sandbox('.', confine=mode)[0])\n"
        "    done = asyncio.run(app.invoke('sandbox_exec', {'command': 'echo ran'}, confirm=True))\n"
        "    print(done.ok, done.failure.message if done.failure else done.warnings)\n"
    )
    forbids = [
        "bwrap",
        "--unshare-user",
        "--disable-userns",
        "--bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    done = subprocess.run(
        [*forbids, "--cap-drop", "ALL", sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    required, auto = done.stdout.splitlines()
    assert required.startswith("False Commands must be confined here, and cannot be: bubblewrap cannot make")
    assert auto.startswith("True [")
    assert "This command is not confined: bubblewrap cannot make a confinement on this machine" in auto
