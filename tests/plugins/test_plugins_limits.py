"""How much a plugin may dispatch: in a minute, at once, and for one agent."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from fairlead.agents.models import ScriptModel, Turn
from fairlead.plugins import slots
from fairlead.plugins.dispatch import MOST_ACTIVE, MOST_OF_AGENT, RATE, Dispatches
from fairlead.plugins.runner import Frame
from fairlead.runtime.clock import Clock
from plugins.bridge_kit import Bridge, bridge_manifest, bridged, macro
from plugins.conftest import Compiled


@pytest.fixture
def library(compiled: Compiled) -> Path:
    return compiled("bridge", macro("MANIFEST", bridge_manifest()))


def other_plugin(bridge: Bridge, most_active: int = MOST_ACTIVE) -> Dispatches:
    return Dispatches(
        bridge.app,
        "test.other",
        warn=lambda *about: None,
        deliver=bridge.plugin.task_event,
        most_active=most_active,
    )


async def dispatched(bridge: Bridge, count: int, agent: str = "ann") -> list[str]:
    """The outcomes of so many dispatches, each run to its end."""
    outcomes = []
    for _ in range(count):
        told = await bridge.dispatch("Go.", agent)
        outcomes.append(told.get("error") or told["status"])
        if "id" in told:
            await bridge.told_all(told["id"])
    return outcomes


async def test_ten_dispatches_in_a_minute_pass_and_the_eleventh_does_not(
    library: Path, tmp_path: Path
) -> None:
    ahead = [0.0]
    clock = Clock(lambda: time.time() + ahead[0])
    async with bridged(library, tmp_path, ScriptModel(["Done."], repeat=True), clock=clock) as bridge:
        assert await dispatched(bridge, RATE + 1) == ["running"] * RATE + ["rate_limit_exceeded"]
        refused = await bridge.dispatch()
        ahead[0] = 61.0
        assert await dispatched(bridge, 1) == ["running"]
    assert refused["error"] == "rate_limit_exceeded"
    assert 0 < refused["retry_after_ms"] <= 60_000


async def test_each_agent_and_each_plugin_has_its_own_ten(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."], repeat=True)) as bridge:
        assert (await dispatched(bridge, RATE + 1))[-1] == "rate_limit_exceeded"
        assert await dispatched(bridge, 1, "bob") == ["running"]
        told = await other_plugin(bridge).dispatch(
            '{"prompt":"Go."}', Frame("test.other", bridge.agent("ann"))
        )
    assert '"status":"running"' in told


async def test_requests_that_are_wrong_use_up_nothing(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."], repeat=True)) as bridge:
        for _ in range(RATE + 5):
            assert (await bridge.host(slots.DISPATCH, {"prompt": ""}))["error"] == "invalid_request"
            assert (await bridge.dispatch("Go.", None))["error"] == "built_in_agent_not_exposable"
        assert await dispatched(bridge, RATE) == ["running"] * RATE


async def test_an_agent_has_five_tasks_at_once_and_what_is_refused_counts(
    library: Path, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    model = ScriptModel(lambda request: Turn("Done.", after=gate))
    async with bridged(library, tmp_path, model) as bridge:
        tasks = [await bridge.dispatch() for _ in range(MOST_OF_AGENT)]
        refused = [(await bridge.dispatch())["error"] for _ in range(RATE - MOST_OF_AGENT)]
        elsewhere = await bridge.dispatch("Go.", "bob")
        last = await bridge.dispatch()
        gate.set()
        for each in (*tasks, elsewhere):
            await bridge.told_all(each["id"])
    assert refused == ["task_limit_reached"] * (RATE - MOST_OF_AGENT)
    assert last["error"] == "rate_limit_exceeded"
    assert elsewhere["status"] == "running"


async def test_a_task_that_ends_makes_room(library: Path, tmp_path: Path) -> None:
    gates = [asyncio.Event() for _ in range(MOST_OF_AGENT)]
    turns = [Turn("Done.", after=gate) for gate in gates]
    async with bridged(library, tmp_path, ScriptModel([*turns, "Done."])) as bridge:
        tasks = [await bridge.dispatch() for _ in range(MOST_OF_AGENT)]
        full = await bridge.dispatch()
        for gate in gates:
            gate.set()
        for each in tasks:
            await bridge.told_all(each["id"])
        assert await dispatched(bridge, 1) == ["running"]
    assert full["error"] == "task_limit_reached"


async def test_all_plugins_together_have_twenty_tasks_at_once(library: Path, tmp_path: Path) -> None:
    assert MOST_ACTIVE == 20
    gate = asyncio.Event()
    model = ScriptModel(lambda request: Turn("Done.", after=gate))
    async with bridged(library, tmp_path, model) as bridge:
        first = [await bridge.dispatch() for _ in range(3)]
        other = other_plugin(bridge, most_active=4)
        frame = Frame("test.other", bridge.agent("bob"))
        mine = await other.dispatch('{"prompt":"Go."}', frame)
        with pytest.raises(Exception, match="4 tasks running") as refused:
            await other.dispatch('{"prompt":"Go."}', frame)
        gate.set()
        for each in first:
            await bridge.told_all(each["id"])
        await other.drained()
    assert '"status":"running"' in mine
    assert getattr(refused.value, "code", "") == "task_limit_reached"


async def test_dispatches_and_requests_are_counted_apart(library: Path, tmp_path: Path) -> None:
    """A plugin that may not dispatch any more may still ask a model."""
    async with bridged(library, tmp_path, ScriptModel(["Done."], repeat=True)) as bridge:
        assert (await dispatched(bridge, RATE + 1))[-1] == "rate_limit_exceeded"
        told = await bridge.host(slots.COMPLETE, {"messages": [{"role": "user", "content": "Hello"}]})
    assert told["choices"][0]["message"]["content"] == "Done."
