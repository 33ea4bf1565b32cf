"""What a plugin is told of its tasks: nine kinds of events, in order, one end each, whatever happens to the host."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Context
from fairlead.agents import Limits, Policy
from fairlead.agents.models import ScriptModel, Turn, Usage, call
from fairlead.failures.runtime import ApiError
from fairlead.plugins import events, sessions, slots
from fairlead.plugins.plugin import Plugin
from fairlead.tasks.states import State
from fairlead.tools.artifacts import Artifacts
from fairlead.tools.artifacts_sharing import sharing
from plugins.bridge_kit import (
    ASK,
    CANCELLED,
    COMPLETED,
    FAILED,
    ID,
    bridge_manifest,
    bridged,
    content,
    macro,
    tool,
)
from plugins.conftest import Compiled

STARTED, ACTIVITY, PROGRESS, CLARIFICATION, OUTPUT, DRAFT = 0, 1, 2, 3, 7, 8
TERMINAL = {COMPLETED, FAILED, CANCELLED}


@pytest.fixture
def library(compiled: Compiled) -> Path:
    return compiled("bridge", macro("MANIFEST", bridge_manifest(tools=[ASK, tool("echo")])))


def numbers(told: list[tuple[int, dict[str, Any]]]) -> list[int]:
    return [number for number, _ in told]


def test_events_have_the_numbers_of_the_header() -> None:
    found = (
        events.STARTED,
        events.ACTIVITY,
        events.PROGRESS,
        events.CLARIFICATION,
        events.COMPLETED,
        events.FAILED,
        events.CANCELLED,
        events.OUTPUT,
        events.DRAFT,
    )
    assert found == tuple(range(9))
    assert slots.TASK_EVENTS[events.DRAFT] == "DRAFT"


@pytest.mark.parametrize("in_process", [False, True])
async def test_a_task_starts_and_completes(
    library: Path, tmp_path: Path, store_url: str, in_process: bool
) -> None:
    model = ScriptModel(["All done."])
    async with bridged(library, tmp_path, model, store=store_url, in_process=in_process) as bridge:
        told = await bridge.dispatch(title="Plants")
        seen = await bridge.told_all(told["id"])
    assert seen == [
        (STARTED, {"status": "running", "title": "Plants"}),
        (
            COMPLETED,
            {
                "success": True,
                "summary": "Chat completed",
                "title": "Plants",
                "session_id": told["id"],
                "output": "All done.",
            },
        ),
    ]


async def test_a_task_without_a_title_is_a_chat(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."])) as bridge:
        told = await bridge.dispatch()
        assert (await bridge.told_all(told["id"]))[0][1]["title"] == "Chat"


async def test_a_task_that_fails_says_why(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([ApiError("The model is away.")])) as bridge:
        told = await bridge.dispatch()
        seen = await bridge.told_all(told["id"])
    assert numbers(seen) == [STARTED, FAILED]
    assert seen[-1][1]["success"] is False
    assert "The model is away." in seen[-1][1]["summary"]
    assert seen[-1][1]["session_id"] == told["id"]


async def test_a_cancelled_task_is_told_with_its_title_alone(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn("never", after=asyncio.Event())])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch(title="Plants")
        await model.asked()
        await bridge.host(slots.DISPATCH_CANCEL, told["id"])
        seen = await bridge.told_all(told["id"])
    assert seen[-1] == (CANCELLED, {"title": "Plants"})
    assert sum(number in TERMINAL for number in numbers(seen)) == 1


async def test_a_task_that_has_used_up_what_it_may_is_cancelled(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([Turn(calls=(call("echo", at=1),), usage=Usage(100, 100))] * 2)
    agents = {"ann": {"tools": ["echo"], "policy": Policy(limits=Limits(tokens=150))}}
    async with bridged(library, tmp_path, model, agents=agents) as bridge:
        told = await bridge.dispatch()
        seen = await bridge.told_all(told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"])
    assert seen[-1] == (CANCELLED, {"title": "Chat"})
    assert state["status"] == "cancelled"


async def test_a_task_that_is_cancelled_while_it_completes_has_one_end(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."] * 5)) as bridge:
        for _ in range(5):
            told = await bridge.dispatch()
            await bridge.host(slots.DISPATCH_CANCEL, told["id"])
            seen = await bridge.told_all(told["id"])
            assert sum(number in TERMINAL for number in numbers(seen)) == 1


def add_tools(app: App) -> None:
    @app.action
    async def work(ctx: Context) -> str:
        """Work, and tell of it."""
        ctx.progress.report("Half of it", 50)
        assert ctx.task is not None
        ctx.task.output("A first piece.")
        ctx.task.activity("success", "It went well", "very")
        return "worked"


async def test_tools_progress_and_output_are_told_as_they_come(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("work"), "Done."])
    async with bridged(
        library, tmp_path, model, build=add_tools, agents={"ann": {"tools": ["work"]}}
    ) as bridge:
        told = await bridge.dispatch(title="Work")
        seen = await bridge.told_all(told["id"])
    by_number = {number: payload for number, payload in seen if number != ACTIVITY}
    first, *others = [payload for number, payload in seen if number == ACTIVITY]
    assert numbers(seen)[0] == STARTED
    assert numbers(seen)[-1] == COMPLETED
    assert first.pop("timestamp").endswith("Z")
    assert first == {"kind": "tool", "title": "Tool", "detail": "work"}
    assert by_number[PROGRESS] == {"progress": 0.5, "current_step": "Half of it", "title": "Work"}
    assert by_number[OUTPUT] == {"text": "A first piece.", "title": "Work"}
    assert [{**each, "timestamp": ""} for each in others] == [
        {"kind": "success", "title": "It went well", "detail": "very", "timestamp": ""}
    ]


async def test_every_call_of_a_tool_is_an_activity(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([[call("echo", at=1), call("echo", at=2)], call("echo", at=3), "Done."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["echo"]}}) as bridge:
        told = await bridge.dispatch()
        seen = await bridge.told_all(told["id"])
    assert numbers(seen) == [STARTED, ACTIVITY, ACTIVITY, ACTIVITY, COMPLETED]


async def test_shared_artifacts_are_told_with_the_end(library: Path, tmp_path: Path) -> None:
    def build(app: App) -> None:
        app.add(sharing(Artifacts(app.store, tmp_path / "artifacts")))

    model = ScriptModel([call("share_artifact", content="Hi", filename="hi.txt"), "Done."])
    async with bridged(
        library, tmp_path, model, build=build, agents={"ann": {"tools": ["share_artifact"]}}
    ) as bridge:
        told = await bridge.dispatch()
        seen = await bridge.told_all(told["id"])
    (artifact,) = seen[-1][1]["artifacts"]
    assert artifact["filename"] == "hi.txt"
    assert content(artifact["host_path"]) == "Hi"


async def test_the_summary_of_the_agent_is_not_the_events(library: Path, tmp_path: Path) -> None:
    summary = "All the plants were watered, even the cactus."
    async with bridged(library, tmp_path, ScriptModel([call("complete", summary=summary)])) as bridge:
        told = await bridge.dispatch()
        seen = await bridge.told_all(told["id"])
    assert seen[-1][1]["summary"] == "Chat completed"
    assert seen[-1][1]["output"] == summary


async def test_a_free_question_has_no_options_and_no_end_follows_it(
    library: Path, tmp_path: Path, store_url: str
) -> None:
    model = ScriptModel([call("clarify", question="Which one?"), "The red one, then."])
    async with bridged(library, tmp_path, model, store=store_url) as bridge:
        told = await bridge.dispatch()
        paused = await bridge.until(CLARIFICATION, told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"])
        await bridge.host(slots.DISPATCH_INTERRUPT, told["id"], "red")
        seen = await bridge.told_all(told["id"])
    assert paused[-1] == (CLARIFICATION, {"question": "Which one?", "allow_multiple": False})
    assert not TERMINAL & set(numbers(paused))
    assert state["status"] == "running"
    assert numbers(seen)[-1] == COMPLETED
    assert numbers(seen).count(CLARIFICATION) == 1
    assert seen[-1][1]["output"] == "The red one, then."
    assert "red" in model.requests[-1].messages[-1].content


@pytest.mark.parametrize("several", [True, False])
async def test_a_choice_has_its_options(library: Path, tmp_path: Path, several: bool) -> None:
    asked = call("clarify", question="Which?", options=["red", "blue"], allowMultiple=several)
    model = ScriptModel([asked, "Fine."])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch()
        paused = await bridge.until(CLARIFICATION, told["id"])
        await bridge.host(slots.DISPATCH_INTERRUPT, told["id"], "neither")
        seen = await bridge.told_all(told["id"])
    assert paused[-1][1] == {"question": "Which?", "allow_multiple": several, "options": ["red", "blue"]}
    assert numbers(seen)[-1] == COMPLETED
    assert "neither" in model.requests[-1].messages[-1].content


async def test_a_paused_task_is_stopped_by_an_interrupt_without_words(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("clarify", question="Which one?")])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch()
        await bridge.until(CLARIFICATION, told["id"])
        await bridge.host(slots.DISPATCH_INTERRUPT, told["id"], None)
        seen = await bridge.told_all(told["id"])
    assert numbers(seen)[-1] == COMPLETED


async def test_a_plugin_cannot_agree_for_a_person_to_the_use_of_a_tool(library: Path, tmp_path: Path) -> None:
    launched: list[str] = []

    def build(app: App) -> None:
        @app.action(requires_confirmation=True, side_effects="write")
        def launch() -> str:
            """Launch it."""
            launched.append("it")
            return "launched"

    model = ScriptModel([call("launch"), "Later."])
    async with bridged(
        library, tmp_path, model, build=build, agents={"ann": {"tools": ["launch"]}}
    ) as bridge:
        told = await bridge.dispatch(session_id="s")
        paused = await bridge.until(CLARIFICATION, told["id"])
        await bridge.host(slots.DISPATCH_INTERRUPT, told["id"], "approve")
        seen = await bridge.told_all(told["id"])
        again = await bridge.dispatch("Go on.", session_id="s")
        await bridge.told_all(again["id"])
    assert paused[-1][1]["options"] == ["approve", "deny"]
    assert numbers(seen)[-1] == COMPLETED
    assert launched == []
    assert [each.content for each in model.requests[-1].messages if each.role == "user"][-2:] == [
        "approve",
        "Go on.",
    ]


async def test_events_come_with_the_agent_and_under_the_tasks_id(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."] * 2)) as bridge:
        anns, bobs = await bridge.dispatch("Go.", "ann"), await bridge.dispatch("Go.", "bob")
        for each in (anns, bobs):
            await bridge.told_all(each["id"])
        lines = await bridge.lines()
    assert {(task, agent) for _, task, agent, _ in lines} == {
        (anns["id"], bridge.agent("ann")),
        (bobs["id"], bridge.agent("bob")),
    }


async def test_a_plugin_that_waits_for_its_task_inside_a_call_hears_of_it_after_the_dispatch(
    library: Path, tmp_path: Path
) -> None:
    """An agent's tool dispatches, and the task ends before the tool's agent does."""
    lines = f"{slots.DISPATCH}\n" + json.dumps({"prompt": "Inner."})

    def script(request: Any) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return "Outer done."
        return "Inner done." if last.content == "Inner." else call("ask", lines=lines)

    model = ScriptModel(script)
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["ask"]}}) as bridge:
        result = await bridge.app.invoke("ann", {"prompt": "Outer."})
        tool_said = next(
            each.content for asked in model.requests for each in asked.messages if each.role == "tool"
        )
        task = json.loads(json.loads(tool_said)["result"])["id"]
        seen = await bridge.told_all(task)
    assert result.data == "Outer done."
    assert seen[-1][1]["output"] == "Inner done."


@pytest.mark.parametrize("in_process", [False, True])
async def test_no_event_comes_before_the_dispatch_has_returned(
    library: Path, tmp_path: Path, in_process: bool
) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."] * 16), in_process=in_process) as bridge:
        for agent in ("ann", "bob"):
            for _ in range(8):
                told = await bridge.dispatch("Go.", agent)
                await bridge.told_all(told["id"])
        kinds = {line[0] for line in await bridge.lines()}
    assert kinds == {"0", str(COMPLETED)}


async def test_nothing_is_told_of_a_task_before_its_dispatch_is_answered(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[bool] = []
    tell = Plugin.task_event

    async def telling(plugin: Plugin, *args: Any, **options: Any) -> None:
        told_when.append(bool(answered))
        await tell(plugin, *args, **options)

    told_when: list[bool] = []
    monkeypatch.setattr(Plugin, "task_event", telling)
    async with bridged(library, tmp_path, ScriptModel(["Done."])) as bridge:
        store, found = bridge.app.store, bridge.app.tasks.workers

        async def workers() -> Any:
            """Asked for when the task is entered: now all who could tell of it look, and have time to."""
            for _ in range(50):
                await store.write(lambda tx: tx.tell(sessions.plugin_topic(ID)))
            answered.append(True)
            return await found()

        monkeypatch.setattr(bridge.app.tasks, "workers", workers)
        await bridge.told_all((await bridge.dispatch())["id"])
    assert told_when == [True, True]


async def test_a_plugin_that_falls_at_an_event_still_hears_the_others(
    compiled: Compiled, tmp_path: Path
) -> None:
    library = compiled("bridge", macro("MANIFEST", bridge_manifest(tools=[tool("echo")])), "-DCRASH_AT=1")
    model = ScriptModel([call("echo", at=1), "Done."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["echo"]}}) as bridge:
        told = await bridge.dispatch()
        seen = await bridge.told_all(told["id"])
    assert numbers(seen)[-1] == COMPLETED


async def test_events_that_a_plugin_has_no_ear_for_are_no_trouble(compiled: Compiled, tmp_path: Path) -> None:
    library = compiled("bridge", macro("MANIFEST", bridge_manifest()), "-DBARE")
    async with bridged(library, tmp_path, ScriptModel(["Done."])) as bridge:
        told = await bridge.dispatch()
        assert await bridge.told_all(told["id"]) == []
        assert (await bridge.host(slots.TASK_STATUS, told["id"]))["status"] == "completed"


async def test_what_was_not_told_before_a_reload_is_told_after_it(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("Done.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch()
        await bridge.until(STARTED, told["id"])
        await model.asked()
        await bridge.plugin.unload()
        gate.set()
        await bridge.app.tasks.wait(told["id"].lower(), timeout=30)
        await bridge.plugin.start()
        seen = await bridge.told_all(told["id"])
    assert numbers(seen) == [COMPLETED]


HOST = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from fairlead.agents.models import ScriptModel, Turn
from fairlead.plugins import dispatch, events
from plugins.bridge_kit import bridged

events.LEASE = dispatch.LEASE = 1.0

async def main():
    model = ScriptModel([Turn("never", after=asyncio.Event())])
    async with bridged({library!r}, {folder!r}, model, worker=False) as bridge:
        async with bridge.app.tasks.worker(lease=1.0):
            told = await bridge.dispatch("Water the plants.", title="Plants")
            await bridge.until(0, told["id"])
            await model.asked()
            print(told["id"], flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


def started(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


async def test_events_go_on_after_the_host_was_killed(library: Path, tmp_path: Path) -> None:
    """The first host dispatches and is killed; the second runs the task, and tells the plugin how it ended."""
    tests = str(Path(__file__).parent.parent)
    program = HOST.format(tests=tests, library=str(library), folder=str(tmp_path))
    with started(program) as host:
        assert host.stdout is not None
        try:
            task = (await asyncio.to_thread(host.stdout.readline)).strip()
        finally:
            host.send_signal(signal.SIGKILL)
    async with (
        bridged(library, tmp_path, ScriptModel(["Done."]), worker=False) as bridge,
        bridge.app.tasks.worker(lease=1.0, look=0.2),
    ):
        await bridge.plugin.start()
        seen = await bridge.told_all(task)
        ended = await bridge.app.tasks.get(task.lower())
    assert numbers(seen) == [COMPLETED]
    assert seen[0][1]["title"] == "Plants"
    assert seen[0][1]["output"] == "Done."
    assert ended.state is State.completed


async def test_two_hosts_tell_a_plugin_each_thing_once(library: Path, tmp_path: Path) -> None:
    async with (
        bridged(library, tmp_path, ScriptModel(["Done."] * 3)) as one,
        bridged(library, tmp_path, ScriptModel(["Done."] * 3), worker=False) as two,
    ):
        await two.plugin.start()
        ids = [(await one.dispatch())["id"] for _ in range(3)]
        told: list[Any] = []
        for id in ids:
            await one.told_all(id)
            told += [*await one.seen(id), *await two.seen(id)]
    assert sorted(numbers(told)) == sorted([STARTED, COMPLETED] * 3)
