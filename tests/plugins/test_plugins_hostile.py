"""A plugin that breaks, hangs, leaks, lies and floods: the host survives, says what happened, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins.child import Exit
from fairlead.plugins.process import Limits, ProcessRunner
from plugins.conftest import Compiled
from plugins.native_kit import Answering

Make = Callable[..., ProcessRunner]


@pytest.fixture
def hostile(compiled: Compiled) -> Path:
    return compiled("hostile")


async def invoke(runner: ProcessRunner, id: str, payload: str = "", timeout: float = 20) -> str:
    return await runner.invoke("tool", id, payload, agent=None, timeout=timeout)


@pytest.mark.parametrize(
    "id",
    [
        "segfault",
        "abort",
        "exit",
        "overflow",
        "free_twice",
        "free_twice_by_host",
        "free_foreign",
        "bad_string",
        "crash_in_thread",
    ],
)
async def test_whatever_breaks_ends_the_plugin_alone_with_a_clear_failure(
    process_runner: Make, hostile: Path, id: str
) -> None:
    exits: list[Exit] = []
    runner = process_runner(hostile, on_exit=exits.append)
    with pytest.raises(Failure) as broken:
        await invoke(runner, id)
    assert broken.value.kind is Kind.unavailable
    assert "The plugin 'test.toy' was terminated: its process ended by" in broken.value.message
    assert "The next call starts it again." in broken.value.message
    assert [exit.reason for exit in exits] == ["crash"]
    assert await invoke(runner, "fine", "still here") == "still here"


async def test_what_a_plugin_said_last_is_kept(process_runner: Make, hostile: Path) -> None:
    exits: list[Exit] = []
    runner = process_runner(hostile, on_exit=exits.append)
    with pytest.raises(Failure):
        await invoke(runner, "free_foreign")
    assert "invalid pointer" in exits[0].last_words


@pytest.mark.parametrize("after", [4080, 4090, 65_530])
async def test_a_secret_where_the_last_words_are_cut_is_not_told_by_half(
    process_runner: Make, hostile: Path, after: int
) -> None:
    exits: list[Exit] = []
    runner = process_runner(hostile, on_exit=exits.append)
    secret = "sk-" + "abcdefgh" * 4
    with pytest.raises(Failure):
        await invoke(runner, "say_and_fall", f"{secret}\n{'.' * after}")
    assert exits[0].last_words.endswith("....")
    assert "abcdefgh" not in exits[0].last_words
    assert len(exits[0].last_words) <= 4096


@pytest.mark.parametrize("id", ["hang", "spin", "log_without_end", "print_without_end"])
async def test_a_hang_ends_at_the_deadline(process_runner: Make, hostile: Path, id: str) -> None:
    runner = process_runner(hostile)
    with pytest.raises(Failure, match="terminated") as late:
        await invoke(runner, id, timeout=0.3)
    assert late.value.kind is Kind.timeout
    assert await invoke(runner, "fine", "still here") == "still here"


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("write_rubbish", "more than fits one message|cannot be read|else than a lane"),
        ("claim_too_much", "more than fits one message|else than a lane"),
        ("ask_for_nothing", "something that no host has|else than a lane"),
        ("hang_up", "closed its connection"),
    ],
)
async def test_a_plugin_that_breaks_the_protocol_is_ended(
    process_runner: Make, hostile: Path, id: str, why: str
) -> None:
    runner = process_runner(hostile)
    with pytest.raises(Failure, match=why) as broken:
        await invoke(runner, id)
    assert broken.value.kind is Kind.unavailable
    assert "terminated" in broken.value.message
    assert await invoke(runner, "fine", "still here") == "still here"


async def test_a_plugin_that_asks_without_end_and_reads_nothing_is_ended(
    process_runner: Make, hostile: Path
) -> None:
    runner = process_runner(hostile)
    with pytest.raises(Failure, match="terminated"):
        await invoke(runner, "ask_without_end")
    assert await invoke(runner, "fine", "still here") == "still here"


async def test_a_plugin_that_meddles_with_its_pipes_cannot_make_the_host_wait(
    process_runner: Make, hostile: Path
) -> None:
    """A host that waited for a pipe would not come back from this test."""
    runner = process_runner(hostile)
    for _ in range(3):
        with contextlib.suppress(Failure):  # its answers are lost, which is its own loss
            await invoke(runner, "meddle", timeout=0.5)
            await invoke(runner, "fine", timeout=0.5)
    assert await invoke(process_runner(hostile), "fine", "still here") == "still here"


async def test_an_answer_where_nothing_was_asked_ends_the_plugin(process_runner: Make, hostile: Path) -> None:
    exits: asyncio.Queue[Exit] = asyncio.Queue()
    runner = process_runner(hostile, on_exit=exits.put_nowait)
    try:
        await invoke(runner, "answer_twice")
    except Failure as broken:
        assert broken.kind is Kind.unavailable  # noqa: PT017  # it may be found out before the answer is told
    assert (await exits.get()).reason == "crash"
    assert await invoke(runner, "fine", "still here") == "still here"


async def test_a_plugin_may_call_from_many_threads_at_once(process_runner: Make, hostile: Path) -> None:
    services = Answering()
    runner = process_runner(hostile, services)
    assert await invoke(runner, "call_from_threads") == "called"
    await services.until("log", 50 * 200)
    assert services.names().count("config_get") == 50 * 200


async def test_a_plugin_that_prints_without_end_holds_up_nobody(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile)
    assert await invoke(runner, "print") == "printed"


async def test_a_manifest_that_changes_is_found_out(process_runner: Make, compiled: Compiled) -> None:
    runner = process_runner(compiled("hostile", "-DLIES"))
    await runner.start()
    with pytest.raises(Failure):
        await invoke(runner, "abort")
    with pytest.raises(Failure, match="says something else of itself"):
        await runner.start()


async def test_a_plugin_without_memory_does_not_take_the_host_s(process_runner: Make, hostile: Path) -> None:
    runner = process_runner(hostile, limits=Limits(data=128 * 1024**2))
    for _ in range(3):
        try:
            assert int(await invoke(runner, "use_up_memory")) <= 128
        except Failure as ended:
            assert ended.kind is Kind.unavailable  # noqa: PT017  # an interpreter without memory may end as well
    assert await invoke(process_runner(hostile), "fine", "still here") == "still here"


async def test_breaking_again_and_again_leaves_nothing_behind_in_the_host(
    process_runner: Make, hostile: Path
) -> None:
    runner = process_runner(hostile)

    async def round() -> tuple[int, int, int]:
        for id in ("segfault", "write_rubbish", "abort"):
            with pytest.raises(Failure):
                await invoke(runner, id)
        await invoke(runner, "fine")
        for child in tuple(runner._alive):
            if child.over is not None:
                await child.exited
        gc.collect()
        # The loop's own pool grows to its bound when it likes.
        threads = [each for each in threading.enumerate() if not each.name.startswith("asyncio_")]
        return len(os.listdir("/proc/self/fd")), len(threads), len(runner._alive)

    files, threads, alive = await round()
    for _ in range(2):
        now = await round()
        assert now == (files, min(now[1], threads), alive)  # a thread of another test may end
