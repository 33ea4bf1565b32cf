"""A plugin in our own process: what differs from the usual form, which has a process for each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.failures import Failure, Kind
from fairlead.plugins import inprocess
from fairlead.plugins.inprocess import InProcessRunner
from plugins.installed_kit import own_helpers
from plugins.native_kit import ANN, Answering

Make = Callable[..., InProcessRunner]


async def invoke(runner: InProcessRunner, id: str, payload: str = "", timeout: float = 20) -> str:
    return await runner.invoke("tool", id, payload, agent=ANN, timeout=timeout)


async def test_no_process_is_started(in_process_runner: Make, toy: Path) -> None:
    before = own_helpers()
    assert await invoke(in_process_runner(toy), "raw", "here") == "here"
    assert own_helpers() <= before


async def test_a_thread_can_call_without_the_loop(in_process_runner: Make, toy: Path) -> None:
    runner = in_process_runner(toy)
    await runner.start()
    assert await asyncio.to_thread(runner.invoke_now, "tool", "agents", "", agent=ANN) == ANN
    assert await asyncio.to_thread(runner.invoke_now, "tool", "host", "1\nkey", agent=ANN) == "key"
    with pytest.raises(Failure) as failed:
        await asyncio.to_thread(runner.invoke_now, "tool", "null", "", agent=ANN)
    assert failed.value.details == {"null": True}


async def test_a_plugin_that_is_not_started_cannot_be_called_without_the_loop(
    in_process_runner: Make, toy: Path
) -> None:
    with pytest.raises(Failure, match="not started"):
        in_process_runner(toy).invoke_now("tool", "raw", "", agent=None)


async def test_the_loop_s_own_thread_gets_an_error_instead_of_waiting_for_itself(
    in_process_runner: Make, toy: Path
) -> None:
    runner = in_process_runner(toy)
    await runner.start()
    assert "context_unavailable" in runner.invoke_now("tool", "host", "11\n{}", agent=ANN)
    assert runner.invoke_now("tool", "host", "1\nkey", agent=ANN) == "NULL"


async def test_a_call_past_its_time_lets_its_caller_go_and_says_why_it_goes_on(
    in_process_runner: Make, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inprocess, "LEAVING", 0.2)
    services = Answering()
    runner = in_process_runner(toy, services)
    with pytest.raises(Failure, match="cannot be stopped there") as late:
        await invoke(runner, "sleep", timeout=0.2)
    assert late.value.kind is Kind.timeout
    assert await invoke(runner, "raw", "others go on") == "others go on"
    await runner.stop()
    # Not while a call is inside: it would pull the ground from under it.
    assert ("config_get", ("destroying",), None) not in services.asked


async def test_calls_that_never_come_back_do_not_use_up_the_threads(
    in_process_runner: Make, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inprocess, "LEAVING", 0.2)
    runner = in_process_runner(toy)
    await runner.start()
    late = await asyncio.gather(
        *(invoke(runner, "sleep", timeout=0.1) for _ in range(70)), return_exceptions=True
    )
    assert {type(each).__name__ for each in late} == {"HostTimeout"}
    assert await invoke(runner, "raw", "others go on") == "others go on"


async def test_who_asks_after_the_end_hears_that_there_is_no_host_any_more(
    in_process_runner: Make, toy: Path
) -> None:
    async def until_the_end(key: str) -> str:
        await asyncio.Event().wait()
        return key

    services = Answering(config_get=lambda key: until_the_end(key) if key == "until the end" else key)
    runner = in_process_runner(toy, services)
    reader, writer = os.pipe()
    assert await invoke(runner, "ask_after_the_end", str(writer)) == "started"
    await services.until("config_get")
    await runner.stop()
    line = (await asyncio.to_thread(os.read, reader, 4096)).decode()
    os.close(reader)
    os.close(writer)
    assert line.startswith('{"error":"context_unavailable","message":')
    assert line.endswith("} NULL NULL\n")
    assert services.names()[-2:] == ["config_get", "log"]
    assert services.asked[-1][1] == ("2", "destroying")


async def test_two_plugins_in_one_process_are_kept_apart(in_process_runner: Make, toy: Path) -> None:
    ours, theirs = Answering(config_get="ours"), Answering(config_get="theirs")
    first, second = in_process_runner(toy, ours), in_process_runner(toy, theirs)
    assert await invoke(first, "config_probe") == '{"config":"ours"}'
    assert await invoke(second, "config_probe") == '{"config":"theirs"}'
    assert await invoke(first, "threads", "4 1") == "right 0, with an agent 0"
    assert {agent for name, _args, agent in theirs.asked if name == "config_get"} == {ANN}
