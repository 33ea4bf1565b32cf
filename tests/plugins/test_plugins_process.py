"""A plugin in a process of its own: deadlines, deaths, respawns, and what is left when the host goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins import child, fences, frames, process, slots
from fairlead.plugins.child import MOST_LANES, Exit
from fairlead.plugins.config import LARGEST as CONFIG_LARGEST
from fairlead.plugins.fences import fence_here
from fairlead.plugins.process import ProcessRunner
from plugins.conftest import Compiled
from plugins.native_kit import ANN, Answering, folder_of, gone, helpers

Make = Callable[..., ProcessRunner]


@pytest.fixture
def hostile(compiled: Compiled) -> Path:
    return compiled("hostile")


class Exits:
    """How processes ended, to be waited for."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Exit] = asyncio.Queue()

    def __call__(self, exit: Exit) -> None:
        self.seen.put_nowait(exit)


async def invoke(runner: ProcessRunner, id: str, payload: str = "", timeout: float = 20) -> str:
    return await runner.invoke("tool", id, payload, agent=ANN, timeout=timeout)


async def test_a_call_goes_through_a_process_of_its_own(process_runner: Make, toy: Path) -> None:
    runner = process_runner(toy)
    assert await invoke(runner, "echo", '"hello"') == '{"echo":"hello"}'
    assert runner.pid in helpers()
    assert runner.pid != os.getpid()


async def test_a_host_call_goes_there_and_back_within_a_call(process_runner: Make, toy: Path) -> None:
    assert (
        await invoke(process_runner(toy, Answering(config_get="stored")), "config_probe")
        == '{"config":"stored"}'
    )
    assert await invoke(process_runner(toy, Answering(config_get=None)), "config_probe") == '{"config":null}'


async def test_the_process_does_not_inherit_our_credentials(
    process_runner: Make, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "FAIRLEAD_SECRET_KEY",
        "LD_PRELOAD_X",
        "PYTHONPATH",
    ):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    runner = process_runner(toy)
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "FAIRLEAD_SECRET_KEY",
        "LD_PRELOAD_X",
        "PYTHONPATH",
    ):
        assert await invoke(runner, "env_probe", name) == "absent"
    assert await invoke(runner, "env_probe", "LC_ALL") == "leaked"


async def test_a_call_past_its_time_is_ended_and_the_next_one_starts_anew(
    process_runner: Make, toy: Path
) -> None:
    exits = Exits()
    runner = process_runner(toy, on_exit=exits)
    await runner.start()
    first = runner.pid
    with pytest.raises(Failure, match="terminated") as late:
        await invoke(runner, "sleep", timeout=0.2)
    assert late.value.kind is Kind.timeout
    assert runner.pid is None
    assert await invoke(runner, "raw", "again") == "again"
    assert runner.pid != first
    exit = await exits.seen.get()
    assert (exit.reason, exit.status, exit.while_) == ("killed", -signal.SIGTERM, "call")
    assert first not in helpers()


async def test_other_calls_of_an_ended_process_fail_as_terminated(process_runner: Make, toy: Path) -> None:
    asked = asyncio.Event()

    async def never(_: str) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    runner = process_runner(toy, Answering(complete=never))
    other = asyncio.create_task(invoke(runner, "host", "11\n{}"))
    await asked.wait()
    with pytest.raises(Failure):
        await invoke(runner, "sleep", timeout=0.1)
    with pytest.raises(Failure, match="terminated") as ended:
        await other
    assert ended.value.kind is Kind.unavailable


async def test_a_plugin_that_ignores_the_request_to_end_is_ended_by_force(
    process_runner: Make, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "GRACE", 0.2)
    exits = Exits()
    runner = process_runner(hostile, on_exit=exits)
    for id in ("hang_stubbornly", "stop_itself"):
        with pytest.raises(Failure, match="terminated"):
            await invoke(runner, id, timeout=0.2)
        assert (await exits.seen.get()).status == -signal.SIGKILL


@pytest.mark.parametrize(
    ("id", "status", "cause"),
    [
        ("segfault", -signal.SIGSEGV, "SIGSEGV"),
        ("abort", -signal.SIGABRT, "SIGABRT"),
        ("exit", 7, "exit code 7"),
        ("crash_in_thread", -signal.SIGABRT, "SIGABRT"),
    ],
)
async def test_a_crash_is_told_with_its_cause_and_the_next_call_works(
    process_runner: Make, hostile: Path, id: str, status: int, cause: str
) -> None:
    exits = Exits()
    runner = process_runner(hostile, on_exit=exits)
    with pytest.raises(Failure, match=f"terminated: its process ended by {cause}") as crashed:
        await invoke(runner, id)
    assert crashed.value.kind is Kind.unavailable
    exit = await exits.seen.get()
    assert (exit.reason, exit.status, exit.while_) == ("crash", status, "call")
    assert await invoke(runner, "fine", "again") == "again"


async def test_a_crash_while_nobody_calls_is_told_too(process_runner: Make, toy: Path) -> None:
    exits = Exits()
    runner = process_runner(toy, on_exit=exits)
    await runner.start()
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    exit = await exits.seen.get()
    assert (exit.reason, exit.status, exit.while_) == ("crash", -signal.SIGKILL, "idle")
    assert await invoke(runner, "raw", "again") == "again"


async def test_a_crash_while_loading_is_told_as_such(process_runner: Make, compiled: Compiled) -> None:
    exits = Exits()
    runner = process_runner(compiled("hostile", "-DINIT_CRASHES"), on_exit=exits)
    with pytest.raises(Failure, match="SIGABRT"):
        await runner.start()
    assert (await exits.seen.get()).while_ == "load"


async def test_a_plugin_that_never_gets_ready_is_ended(
    process_runner: Make, compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "LOADING", 0.5)
    exits = Exits()
    runner = process_runner(compiled("hostile", "-DINIT_HANGS"), on_exit=exits)
    with pytest.raises(Failure, match="did not finish its start") as late:
        await runner.start()
    assert late.value.kind is Kind.timeout
    assert (await exits.seen.get()).while_ == "load"


@pytest.mark.parametrize(
    ("program", "kind", "why"),
    [
        (
            ["/bin/false"],
            Kind.unavailable,
            "terminated: its process ended by exit code 1|did not start as a helper",
        ),
        (["/bin/sleep", "60"], Kind.timeout, "did not start"),
        (["/nowhere/python"], Kind.unavailable, "No process can be started"),
    ],
)
async def test_a_process_that_does_not_get_to_its_fence_is_a_clear_failure(
    process_runner: Make,
    toy: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: list[str],
    kind: Kind,
    why: str,
) -> None:
    monkeypatch.setattr(child, "LOADING", 0.5)
    monkeypatch.setattr(fences, "command", lambda *_: program)
    runner = process_runner(toy)
    with pytest.raises(Failure, match=why) as failed:
        await runner.start()
    assert failed.value.kind is kind


async def test_who_decides_about_starts_is_asked_before_each(process_runner: Make, hostile: Path) -> None:
    starts = 0

    def before_start() -> None:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise Failure(Kind.forbidden, "in quarantine")

    runner = process_runner(hostile, before_start=before_start)
    with pytest.raises(Failure, match="SIGSEGV"):
        await invoke(runner, "segfault")
    with pytest.raises(Failure, match="in quarantine"):
        await invoke(runner, "fine")
    assert await invoke(runner, "fine", "third") == "third"


async def test_calls_that_come_together_share_one_start(process_runner: Make, toy: Path) -> None:
    starts: list[None] = []
    runner = process_runner(toy, before_start=lambda: starts.append(None))
    assert await asyncio.gather(*(invoke(runner, "raw", str(n)) for n in range(10))) == [
        str(n) for n in range(10)
    ]
    assert len(starts) == 1


async def test_a_plugin_that_becomes_another_one_is_refused(process_runner: Make, compiled: Compiled) -> None:
    runner = process_runner(compiled("hostile", "-DLIES"))
    await runner.start()
    with pytest.raises(Failure, match="terminated"):
        await invoke(runner, "segfault")
    with pytest.raises(Failure, match="says something else of itself") as refused:
        await invoke(runner, "fine")
    assert refused.value.kind is Kind.conflict


async def test_a_caller_that_gives_up_is_free_at_once_and_the_call_goes_on(
    process_runner: Make, toy: Path
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(_: str) -> str:
        asked.set()
        await answered.wait()
        return "{}"

    services = Answering(complete=slowly)
    runner = process_runner(toy, services)
    calling = asyncio.create_task(invoke(runner, "host", "11\n{}"))
    await asked.wait()
    before = runner.pid
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await invoke(runner, "raw", "meanwhile") == "meanwhile"
    answered.set()
    assert runner.pid == before


async def test_stopping_waits_also_for_a_call_whose_caller_gave_up(process_runner: Make, toy: Path) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slowly(_: str) -> str:
        asked.set()
        await answered.wait()
        return "{}"

    services = Answering(complete=slowly)
    runner = process_runner(toy, services)
    calling = asyncio.create_task(invoke(runner, "host", "11\n{}"))
    await asked.wait()
    calling.cancel()
    stopping = asyncio.create_task(runner.stop())
    for _ in range(5):
        await asyncio.sleep(0)
    assert ("config_get", ("destroying",), None) not in services.asked
    answered.set()
    await stopping
    assert ("config_get", ("destroying",), None) in services.asked


async def test_a_helper_that_sends_more_than_fits_is_ended_and_the_host_goes_on(
    process_runner: Make, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "LARGEST", 100_000)
    runner = process_runner(toy)
    assert len(await invoke(runner, "raw", "x" * 99_000)) == 99_000
    with pytest.raises(Failure, match="more than fits one message"):
        await invoke(runner, "raw", "x" * 200_000)
    assert await invoke(runner, "raw", "again") == "again"


async def test_a_call_that_is_too_large_is_refused_and_the_plugin_goes_on(
    process_runner: Make, toy: Path
) -> None:
    services = Answering()
    runner = process_runner(toy, services)
    await runner.start()
    pid = runner.pid
    with pytest.raises(Failure, match="too large"):
        await invoke(runner, "much", f"0 {frames.LARGEST}")
    for slot in (slots.DB_EXEC, slots.COMPLETE_STREAM):
        answer = json.loads(await invoke(runner, "much", f"{slot} {frames.LARGEST}"))
        assert answer["error"] == "request_too_large"
    for slot in (slots.CONFIG_SET, slots.LOG):
        await invoke(runner, "much", f"{slot} {frames.LARGEST}")
    cut = {name: args[1] for name, args, _agent in services.asked if name in ("config_set", "log")}
    assert [len(each or "") for each in cut.values()] == [frames.CUT, frames.CUT]
    assert CONFIG_LARGEST < frames.CUT  # so that what is cut is still dropped
    assert runner.pid == pid


async def test_a_kernel_without_process_descriptors_will_do(
    process_runner: Make, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refused)
    exits = Exits()
    runner = process_runner(toy, on_exit=exits)
    await runner.start()
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    assert (await exits.seen.get()).status == -signal.SIGKILL
    assert await invoke(runner, "raw", "again") == "again"
    await runner.stop()
    assert (await exits.seen.get()).status == 0


async def test_more_calls_than_the_plugin_takes_at_once_wait_for_their_turn(
    process_runner: Make, toy: Path
) -> None:
    runner = process_runner(toy, Answering(complete=lambda text: asyncio.sleep(0, text)))
    await runner.start()
    many = 3 * MOST_LANES
    told = await asyncio.gather(*(invoke(runner, "host", f"11\n{n}") for n in range(many)))
    assert told == [str(n) for n in range(many)]


async def test_a_call_that_waited_too_long_for_its_turn_fails_alone(process_runner: Make, toy: Path) -> None:
    full, answered = asyncio.Event(), asyncio.Event()
    inside = 0

    async def together(_: str) -> str:
        nonlocal inside
        inside += 1
        if inside == MOST_LANES:
            full.set()
        await answered.wait()
        return "{}"

    runner = process_runner(toy, Answering(complete=together))
    await runner.start()
    calls = [asyncio.create_task(invoke(runner, "host", "11\n{}")) for _ in range(MOST_LANES)]
    await full.wait()
    with pytest.raises(Failure, match="was not free") as late:
        await invoke(runner, "raw", timeout=0.1)
    assert late.value.kind is Kind.timeout
    answered.set()
    assert await asyncio.gather(*calls) == ["{}"] * MOST_LANES


async def test_what_was_asked_by_a_process_that_ended_is_dropped(process_runner: Make, toy: Path) -> None:
    asked, dropped = asyncio.Event(), asyncio.Event()

    async def for_ever(_: str) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            dropped.set()
        return ""

    runner = process_runner(toy, Answering(complete=for_ever))
    calling = asyncio.create_task(invoke(runner, "host", "11\n{}"))
    await asked.wait()
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(Failure, match="SIGKILL"):
        await calling
    await dropped.wait()


async def test_an_answer_for_a_process_that_ended_reaches_nobody(process_runner: Make, toy: Path) -> None:
    late: Future[str | None] = Future()
    asked = asyncio.Event()

    def first_late(text: str) -> Future[str | None] | str:
        if asked.is_set():
            return text
        asked.set()
        return late

    runner = process_runner(toy, Answering(file_read=first_late))
    calling = asyncio.create_task(invoke(runner, "host", "16\nfirst"))
    await asked.wait()
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(Failure):
        await calling
    await runner.start()
    late.set_result("late")
    assert await invoke(runner, "host", "16\nsecond") == "second"


async def test_stopping_ends_the_process_and_leaves_no_folder(process_runner: Make, toy: Path) -> None:
    exits = Exits()
    runner = process_runner(toy, on_exit=exits)
    await runner.start()
    assert runner.pid is not None
    scratch = folder_of(runner.pid)
    assert scratch.is_dir()
    await runner.stop()
    exit = await exits.seen.get()
    assert (exit.reason, exit.status, exit.while_) == ("stopped", 0, "idle")
    assert not scratch.exists()


@pytest.mark.parametrize("option", ["-DDESTROY_HANGS", "-DDESTROY_CRASHES"])
async def test_a_plugin_that_cannot_be_destroyed_is_ended_all_the_same(
    process_runner: Make, compiled: Compiled, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(process, "DESTROYING", 0.3)
    runner = process_runner(compiled("hostile", option))
    await runner.start()
    pid = runner.pid
    await runner.stop()
    assert pid not in helpers()


HOST = """
    import asyncio, sys
    from fairlead.plugins.process import ProcessRunner
    from plugins.native_kit import Answering

    async def main():
        runner = ProcessRunner("test.toy", sys.argv[1], Answering(), fence=sys.argv[2], allow=tuple(sys.argv[3:]))
        await runner.start()
        asyncio.create_task(runner.invoke("tool", "hang_stubbornly", "", agent=None, timeout=600))
        child = await runner.invoke("tool", "fork_and_leave", "", agent=None, timeout=10)
        print(runner.pid, child, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.mark.parametrize("fence", ["limits", fence_here().kind])
@pytest.mark.parametrize("allow", [[], ["processes"]], ids=["alone", "with processes"])
async def test_a_host_that_is_killed_leaves_no_process(hostile: Path, fence: str, allow: list[str]) -> None:
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(HOST), str(hostile), fence, *allow),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert host.stdout is not None
    pid, _, child = (await host.stdout.readline()).decode().strip().partition(" ")
    assert int(pid) in helpers()
    host.kill()
    await host.communicate()
    await gone(int(pid))
    assert child.isdigit() is bool(allow)
    if allow:
        await gone(int(child))


async def test_what_a_plugin_started_ends_with_it(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile, allow=("processes",))
    started = int(await invoke(runner, "fork_and_leave"))
    with pytest.raises(Failure):
        await invoke(runner, "segfault")
    await gone(started)


async def test_folders_of_hosts_that_ended_without_a_word_are_removed(
    process_runner: Make, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    left, ours = (
        tmp_path / f"fairlead-plugin-{ended.pid}-abc",
        tmp_path / f"fairlead-plugin-{os.getpid()}-abc",
    )
    left.mkdir()
    ours.mkdir()
    await process_runner(toy).start()
    assert not left.exists()
    assert ours.exists()


async def test_a_deep_folder_that_was_left_behind_keeps_no_plugin_from_starting(
    process_runner: Make, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await ended.wait()
    left = tmp_path / f"fairlead-plugin-{ended.pid}-abc"
    left.mkdir()
    at = os.open(left, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=at)
        at, above = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(above)
    os.close(at)
    await process_runner(toy).start()
    assert not left.exists()
