"""The fence: what a plugin's process can read, write, reach and start, tried by a plugin that wants out."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins import confinement, fences
from fairlead.plugins.fences import Fence, fence_here
from fairlead.plugins.process import Limits, ProcessRunner
from fairlead.tools.bubblewrap import bubblewrap
from plugins.conftest import Compiled
from plugins.native_kit import below, folder_of, gone, status

Make = Callable[..., ProcessRunner]

needs_landlock = pytest.mark.skipif(not confinement.landlock_version(), reason="this kernel has no Landlock")
needs_seccomp = pytest.mark.skipif(not confinement.seccomp_here(), reason="calls cannot be filtered here")
FENCES = [
    pytest.param("landlock", marks=needs_landlock),
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(isinstance(bubblewrap(), str), reason="no bubblewrap works here"),
    ),
]


@pytest.fixture
def hostile(compiled: Compiled, tmp_path: Path) -> Path:
    """The library in a folder of its own, as installed plugins are."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    return Path(shutil.copy(compiled("hostile"), folder / "hostile.so"))


async def invoke(runner: ProcessRunner, id: str, payload: object = "") -> str:
    return await runner.invoke("tool", id, str(payload), agent=None, timeout=20)


async def told(runner: ProcessRunner, id: str, payload: object = "") -> dict[str, str]:
    return dict(each.split(": ") for each in (await invoke(runner, id, payload)).split(", "))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", FENCES)
async def test_the_user_s_files_cannot_be_read(
    process_runner: Make, hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fence: str
) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text("a private key")
    monkeypatch.setenv("GITHUB_TOKEN", "canary-of-the-environment")
    runner = process_runner(hostile, fence=fence)
    for path in (secret, "/etc/shadow", "/root/.bashrc", f"/proc/{os.getpid()}/environ"):
        assert await invoke(runner, "read", path) in ("open: EACCES", "open: ENOENT"), path
    for pid in (1, "self", os.getpid()):
        assert "canary" not in await invoke(runner, "read", f"/proc/{pid}/environ")


@pytest.mark.parametrize("fence", FENCES)
async def test_nothing_can_be_written_but_in_the_plugin_s_own_folder(
    process_runner: Make, hostile: Path, tmp_path: Path, fence: str
) -> None:
    runner, library = process_runner(hostile, fence=fence), os.stat(hostile)
    for path in (hostile, hostile.parent / "new", "/usr/new", Path.home() / "new"):
        assert (await invoke(runner, "write", path)).startswith("open: E"), path
    # In bubblewrap there are such folders, which are the plugin's own.
    for path in (tmp_path / "new", Path("/dev/shm") / f"new-{os.getpid()}"):
        await invoke(runner, "write", path)
        assert not path.exists()
    assert os.stat(hostile).st_mtime_ns == library.st_mtime_ns
    assert await invoke(runner, "write", "in-its-own-folder") == "write: done"


@needs_seccomp
@needs_landlock
async def test_files_of_others_cannot_be_changed_moved_or_watched(
    process_runner: Make, hostile: Path, tmp_path: Path
) -> None:
    file = tmp_path / "document"
    file.write_text("text")
    before = os.stat(file)
    tried = await told(process_runner(hostile), "change_file", file)
    assert len(tried) == 11
    assert {name: how for name, how in tried.items() if how not in ("EPERM", "EACCES", "EXDEV")} == {}
    assert os.stat(file) == before


@needs_seccomp
@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("allow", [(), ("processes",)], ids=["nothing granted", "processes granted"])
async def test_what_it_may_only_read_keeps_its_mode_owner_times_and_attributes(
    process_runner: Make, hostile: Path, fence: str, allow: tuple[str, ...]
) -> None:
    """By a descriptor, too: whoever owns a file could make it setuid with nothing but leave to read it."""
    tool = hostile.parent / "tool"
    tool.write_text("#!/bin/sh")
    before = os.stat(tool)
    tried = await told(process_runner(hostile, fence=fence, allow=allow), "change_read_file", tool)
    assert len(tried) == 16
    assert {name: how for name, how in tried.items() if how != "EPERM"} == {}
    assert os.stat(tool) == before


@needs_landlock
async def test_its_own_entry_in_proc_leads_nowhere_else(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile)
    assert (await invoke(runner, "read", "/proc/self/status")).startswith("Name:")
    for path in ("/proc/self/root/etc/shadow", "/proc/self/../1/environ", "/proc/self/cwd/../../etc/shadow"):
        assert await invoke(runner, "read", path) == "open: EACCES"
    assert (await invoke(runner, "write", "/proc/self/mem")) == "open: EACCES"


@needs_landlock
async def test_a_link_in_its_own_folder_leads_nowhere(
    process_runner: Make, hostile: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    runner = process_runner(hostile)
    assert await invoke(runner, "link", secret) == "symlink: done"
    assert await invoke(runner, "read", "escape") == "open: EACCES"


@pytest.mark.parametrize("fence", FENCES)
async def test_its_own_files_and_the_system_s_libraries_can_be_read(
    process_runner: Make, hostile: Path, fence: str
) -> None:
    (hostile.parent / "data.txt").write_text("its own data")
    runner = process_runner(hostile, fence=fence)
    assert await invoke(runner, "read", hostile.parent / "data.txt") == "its own data"
    assert (await invoke(runner, "list", "/usr/lib")).endswith("entries")
    assert not (await invoke(runner, "read", "/dev/urandom")).startswith("open")


@needs_landlock
async def test_the_fence_stands_before_the_library_is_opened(process_runner: Make, hostile: Path) -> None:
    """A constructor runs inside `dlopen`, before any check of ours."""
    assert await invoke(process_runner(hostile), "eager") == "open: EACCES, socket: EACCES"


async def test_the_environment_has_the_language_and_nothing_that_is_ours(
    process_runner: Make, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary-of-the-environment")
    monkeypatch.setenv("LANG", "C.UTF-8")
    said = await invoke(process_runner(hostile), "environment")
    assert "canary" not in said
    assert {each.partition("=")[0] for each in said.split(", ")} - {"LC_ALL", "LC_CTYPE", "TZ"} == {
        "LANG",
        "PATH",
        "HOME",
        "TMPDIR",
    }


# --- network ----------------------------------------------------------------------------------------------------------


@needs_seccomp
async def test_no_socket_can_be_made(process_runner: Make, hostile: Path) -> None:
    assert set((await told(process_runner(hostile), "sockets")).values()) == {"EACCES"}


@needs_seccomp
async def test_the_network_is_reached_only_where_it_was_granted(process_runner: Make, hostile: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert await invoke(process_runner(hostile), "connect", port) == "socket: EACCES"
        granted = process_runner(hostile, allow=("network",))
        assert await invoke(granted, "connect", port) == "connect: done"


@needs_seccomp
async def test_a_grant_of_the_network_opens_no_other_sockets(process_runner: Make, hostile: Path) -> None:
    made = await told(process_runner(hostile, allow=("network",)), "sockets")
    assert {name for name, how in made.items() if how == "done"} == {
        "inet",
        "inet datagram",
        "inet6",
        "netlink",
    }
    assert made["unix"] == made["packet"] == made["vsock"] == "EACCES"


# --- other processes --------------------------------------------------------------------------------------------------


@needs_seccomp
@needs_landlock
async def test_the_host_cannot_be_signalled_traced_or_read(process_runner: Make, hostile: Path) -> None:
    tried = await told(process_runner(hostile), "attack", os.getpid())
    assert set(tried.values()) == {"EPERM", "EACCES"}
    assert len(tried) == 13


@pytest.fixture
def other() -> Iterator[int]:
    """A process as an ordinary user's: what has capabilities is out of reach of what has none in any case."""
    program = "import confinement; confinement._drop_capabilities(); print(flush=True); open(0).read()"
    pipe, env = subprocess.PIPE, {"PYTHONPATH": os.path.dirname(confinement.__file__)}
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, env=env) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running.pid
        running.communicate()


@needs_seccomp
@pytest.mark.parametrize("allow", [(), ("processes",)], ids=["nothing granted", "processes granted"])
async def test_others_cannot_be_held_back_or_signalled_by_the_kernel(
    process_runner: Make, hostile: Path, other: int, allow: tuple[str, ...]
) -> None:
    tried = await told(process_runner(hostile, allow=allow), "hold_back", other)
    assert {name: how for name, how in tried.items() if how != "EPERM"} == {}
    assert len(tried) == 10


@needs_seccomp
@needs_landlock
async def test_with_processes_granted_the_host_is_as_safe(process_runner: Make, hostile: Path) -> None:
    if confinement.landlock_version() < 6:
        pytest.skip("signals are scoped from Landlock 6 on")
    tried = await told(process_runner(hostile, allow=("processes",)), "attack", os.getpid())
    # Everybody is whoever is inside the fence, and there is no group of that number.
    assert tried.pop("kill everybody") in ("done", "EPERM", "ESRCH")
    assert tried.pop("kill the group") in ("EPERM", "ESRCH")
    assert set(tried.values()) == {"EPERM", "EACCES"}


@needs_seccomp
async def test_no_process_can_be_started_and_no_group_left(process_runner: Make, hostile: Path) -> None:
    tried = await told(process_runner(hostile), "processes")
    assert tried.pop("clone3") == "ENOSYS"
    assert set(tried.values()) == {"EPERM"}
    assert {"fork", "clone", "setsid", "setpgid", "exec"} <= set(tried)


@needs_seccomp
@needs_landlock
async def test_programs_of_the_system_run_only_where_processes_were_granted(
    process_runner: Make, hostile: Path, tmp_path: Path
) -> None:
    assert await invoke(process_runner(hostile), "spawn", "/usr/bin/true") == "spawn: EPERM"
    granted = process_runner(hostile, allow=("processes",))
    assert await invoke(granted, "spawn", "/usr/bin/true") == "exit 0"
    assert await invoke(granted, "spawn", "/usr/bin/false") == "exit 1"
    own = shutil.copy("/usr/bin/true", tmp_path / "program")
    assert await invoke(granted, "spawn", own) == "spawn: EACCES"


@needs_seccomp
async def test_calls_that_lead_outside_are_refused(process_runner: Make, hostile: Path) -> None:
    tried = await told(process_runner(hostile), "system_calls")
    assert {name: how for name, how in tried.items() if how != "EPERM"} == {}
    assert len(tried) == 28


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_memory_ends_at_the_limit_and_the_host_goes_on(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile, limits=Limits(data=256 * 1024**2))
    try:
        assert int(await invoke(runner, "use_up_memory")) <= 256
    except Failure as ended:
        assert ended.kind is Kind.unavailable  # noqa: PT017  # an interpreter without memory may end as well
    assert await invoke(process_runner(hostile), "fine", "yes") == "yes"


@needs_seccomp
async def test_memory_that_no_limit_counts_is_refused(process_runner: Make, hostile: Path) -> None:
    assert await invoke(process_runner(hostile), "shared_memory") == "mmap: EPERM"


async def test_threads_end_at_the_limit_of_memory(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile, limits=Limits(data=256 * 1024**2))
    assert int(await invoke(runner, "many_threads")) <= 256
    assert await invoke(runner, "fine", "yes") == "yes"


async def test_a_file_ends_at_the_limit(process_runner: Make, hostile: Path) -> None:
    assert await invoke(process_runner(hostile), "fill_disk", "large") == "ftruncate: EFBIG"


@pytest.mark.parametrize("how", ["large", "unseen", "empty"])
async def test_a_folder_that_is_filled_ends_the_plugin_and_is_emptied(
    process_runner: Make, hostile: Path, how: str
) -> None:
    limits = Limits(folder=1_000_000, files=100)
    runner = process_runner(hostile, limits=limits if how == "empty" else Limits(folder=1_000_000))
    await runner.start()
    first = folder_of(runner.pid or 0)
    with pytest.raises(Failure, match="keeps more than") as full:
        pytest.fail(await invoke(runner, "fill_folder", how))
    assert full.value.kind is Kind.unavailable
    assert await invoke(runner, "fine", "still here") == "still here"
    assert folder_of(runner.pid or 0) != first
    await runner.stop()
    assert not first.exists()


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize(("how", "allow"), [("unseen", ()), ("child", ("processes",))])
async def test_what_any_process_of_a_plugin_keeps_open_counts_in_each_fence(
    process_runner: Make, hostile: Path, fence: str, how: str, allow: tuple[str, ...]
) -> None:
    runner = process_runner(hostile, fence=fence, allow=allow, limits=Limits(folder=1_000_000))
    with pytest.raises(Failure, match="keeps more than"):
        pytest.fail(await invoke(runner, "fill_folder", how))


@pytest.mark.parametrize(("id", "how"), [("nest", "30 200 1"), ("close_folder", "1")])
async def test_what_is_kept_where_nobody_can_look_ends_the_plugin_and_is_removed(
    process_runner: Make, hostile: Path, id: str, how: str
) -> None:
    runner = process_runner(hostile, limits=Limits(folder=1_000_000))
    await runner.start()
    first = folder_of(runner.pid or 0)
    # The system's own user may look into every folder, and counts what is in it.
    with pytest.raises(Failure, match="it keeps") as ended:
        pytest.fail(await invoke(runner, id, how))
    assert ended.value.kind is Kind.unavailable
    assert await invoke(runner, "fine", "still here") == "still here"
    await runner.stop()
    assert not first.exists()


@pytest.mark.parametrize(("id", "how"), [("nest", "1500 1 0"), ("nest", "15 200 0"), ("close_folder", "0")])
async def test_a_folder_is_removed_however_deep_or_closed_it_is(
    process_runner: Make, hostile: Path, id: str, how: str
) -> None:
    runner = process_runner(hostile)
    await runner.start()
    folder = folder_of(runner.pid or 0)
    assert await invoke(runner, id, how) == "done"
    await runner.stop()
    assert not folder.exists()


async def test_the_process_is_limited_and_has_no_privileges(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile, limits=Limits(data=300 * 1024**2, nofile=100))
    await runner.start()
    assert runner.pid is not None
    assert resource.prlimit(runner.pid, resource.RLIMIT_CORE) == (0, 0)
    assert resource.prlimit(runner.pid, resource.RLIMIT_NOFILE) == (100, 100)
    assert resource.prlimit(runner.pid, resource.RLIMIT_DATA) == (300 * 1024**2,) * 2
    found = status(runner.pid)
    assert found["NoNewPrivs"] == "1"
    assert {int(found[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert os.getpgid(runner.pid) == runner.pid


# --- which fence ------------------------------------------------------------------------------------------------------


def test_the_best_fence_of_the_machine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fence_here.cache_clear()
    monkeypatch.setattr(confinement, "landlock_version", lambda: 7)
    assert fence_here() == Fence("landlock", 7, confinement.seccomp_here())
    fence_here.cache_clear()
    monkeypatch.setattr(confinement, "landlock_version", lambda: 0)
    assert fence_here().kind == ("limits" if isinstance(bubblewrap(), str) else "bubblewrap")
    fence_here.cache_clear()


def test_a_fence_says_what_it_holds_and_what_would_be_better() -> None:
    assert "Landlock 7" in Fence("landlock", 7, True).sentence()
    assert "bubblewrap" in Fence("bubblewrap", 0, True).sentence()
    assert "apt-get install bubblewrap" in Fence("limits", 0, True).sentence()
    assert "cannot be filtered" in Fence("landlock", 7, False).sentence()


async def test_a_machine_without_any_fence_still_limits_and_runs_the_plugin(
    process_runner: Make, hostile: Path
) -> None:
    runner = process_runner(hostile, fence="limits")
    assert await invoke(runner, "fine", "yes") == "yes"
    assert runner.pid is not None
    assert resource.prlimit(runner.pid, resource.RLIMIT_CORE) == (0, 0)


@pytest.mark.skipif(isinstance(bubblewrap(), str), reason="no bubblewrap works here")
async def test_bubblewrap_ends_with_what_is_in_it(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile, fence="bubblewrap")
    await runner.start()
    assert runner.pid is not None
    inside = below(runner.pid)
    assert inside
    with pytest.raises(Failure, match="terminated"):
        await runner.invoke("tool", "hang_stubbornly", "", agent=None, timeout=0.2)
    for pid in inside:
        await gone(pid)
    with pytest.raises(Failure, match="terminated"):
        await invoke(runner, "segfault")
    assert await invoke(runner, "fine", "yes") == "yes"


async def test_a_plugin_that_cannot_be_fenced_does_not_run(
    process_runner: Make, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fences, "writable", lambda _scratch: ["/dev/null"])
    monkeypatch.setattr(Limits, "told", lambda _self: "nonsense=1")
    runner = process_runner(hostile)
    with pytest.raises(Failure, match="cannot be fenced") as refused:
        await runner.start()
    assert refused.value.kind is Kind.misconfigured
    await asyncio.sleep(0)
    assert runner.pid is None


@needs_seccomp
def test_the_filter_for_the_other_architecture_is_well_formed() -> None:
    """Jumps must stay inside; the kernel checks that only for the machine it runs on."""
    for machine in ("x86_64", "aarch64"):
        for allowed in (frozenset[str](), frozenset({"network"}), frozenset({"network", "processes"})):
            for scoped in (True, False):
                steps = confinement._program(machine, 1234, allowed, scoped)
                for at, (code, if_true, if_false, _value) in enumerate(steps):
                    if code in (0x15, 0x35, 0x45):
                        assert at + 1 + max(if_true, if_false) < len(steps)
                assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
                assert len(steps) < 4096


def test_a_plugin_s_process_has_no_terminal_though_its_host_runs_at_one() -> None:
    plugin = f"""\
import os, sys
sys.path.append({str(Path(confinement.__file__).parent)!r})
import helper
os.close(os.open("/dev/tty", os.O_RDWR))
helper.leave_terminal()
try:
    os.open("/dev/tty", os.O_RDWR)
except OSError as refused:
    print(refused.errno)
"""
    host = """\
import os, subprocess, sys
os.open(sys.argv[1], os.O_RDWR)
subprocess.run([sys.executable, "-I", "-S", "-c", sys.argv[2]], process_group=0, check=True)
"""
    ours, theirs = os.openpty()
    try:
        command = [sys.executable, "-c", host, os.ttyname(theirs), plugin]
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=30)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout.strip() == str(errno.ENXIO), done.stderr
