"""`dispatch` of a plugin and the calls about its tasks, on the app's durable tasks."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from fairlead import Action, App, Context
from fairlead.agents.models import ScriptModel, Turn, call
from fairlead.plugins import dispatched, sessions, slots, status
from fairlead.plugins.dispatch import pinned_names
from fairlead.plugins.identity import DEFAULT_AGENT
from fairlead.runtime.clock import Clock
from fairlead.tools.artifacts import Artifacts
from fairlead.tools.artifacts_sharing import sharing
from fairlead.tools.charts import render_chart
from fairlead.tools.documents import documents
from fairlead.tools.files import files
from fairlead.tools.openapi import add_openapi
from fairlead.tools.sandbox import sandbox
from fairlead.tools.shell import shell
from plugins.bridge_kit import ASK, CANCELLED, COMPLETED, ID, Bridge, bridge_manifest, bridged, macro, tool
from plugins.conftest import Compiled

UNKNOWN = "99999999-9999-4999-8999-999999999999"


@pytest.fixture
def library(compiled: Compiled) -> Path:
    manifest = bridge_manifest(instructions="Be brief.", tools=[ASK, tool("echo"), tool("reply")])
    return compiled("bridge", macro("MANIFEST", manifest))


def said(model: ScriptModel, at: int = -1) -> list[str]:
    return [each.content for each in model.requests[at].messages if each.role != "system"]


async def test_a_dispatch_comes_back_at_once_and_its_task_runs(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("Done it.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch("Water the plants.", title="Plants")
        running = await bridge.host(slots.TASK_STATUS, told["id"])
        gate.set()
        await bridge.told_all(told["id"])
        done = await bridge.host(slots.TASK_STATUS, told["id"])
    assert told["status"] == "running"
    assert set(told) == {"id", "status"}
    assert str(uuid.UUID(told["id"])).upper() == told["id"]
    assert running["status"] == "running"
    assert running["title"] == "Plants"
    assert done == {
        "id": told["id"],
        "title": "Plants",
        "status": "completed",
        "success": True,
        "summary": "Chat completed",
        "session_id": told["id"],
        "output": "Done it.",
    }
    assert said(model) == ["Water the plants."]
    assert model.requests[0].messages[0].content == "You are ann.\n\nBe brief."


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("not json", "Missing required field: prompt"),
        ("[]", "Missing required field: prompt"),
        ({"title": "x"}, "Missing required field: prompt"),
        ({"prompt": 7}, "Missing required field: prompt"),
        ({"prompt": ""}, "Prompt is empty"),
        ({"prompt": " \n "}, "Prompt is empty"),
    ],
)
async def test_without_a_prompt_nothing_is_dispatched(
    library: Path, tmp_path: Path, body: Any, words: str
) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await bridge.host(slots.DISPATCH, body)
        unbound = await bridge.host(slots.DISPATCH, body, agent=None)
    assert told == {"error": "invalid_request", "message": words}
    assert unbound == told


@pytest.mark.parametrize("agent", [None, DEFAULT_AGENT])
async def test_without_an_agent_of_the_app_nothing_is_dispatched(
    library: Path, tmp_path: Path, agent: str | None
) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        named = {"agent_id": bridge.agent("ann"), "agent_address": "ann"}
        for more in ({}, named):
            told = await bridge.dispatch("Go.", agent, **more)
            assert told["error"] == "built_in_agent_not_exposable"
            assert DEFAULT_AGENT in told["message"]
            assert "plugin/planDispatch" in told["message"]


async def test_an_agent_that_is_gone_takes_no_tasks(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await bridge.dispatch("Go.", UNKNOWN)
    assert told["error"] == "missing_agent_context"


async def test_the_bound_agent_runs_the_task_whatever_the_request_names(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel(["1", "2", "3", "4"])
    async with bridged(library, tmp_path, model) as bridge:
        bob = bridge.agent("bob")
        for claim in (
            {},
            {"agent_id": bob},
            {"agent_address": "bob"},
            {"agent_id": bob, "agent_address": "bob"},
        ):
            told = await bridge.dispatch("Go.", "ann", **claim)
            await bridge.told_all(told["id"])
        assert bridge.warnings() == [f"{ID}|dispatch|agent_override"]
    assert all(each.messages[0].content.startswith("You are ann.") for each in model.requests)


async def test_an_id_that_is_a_uuid_is_used_and_another_is_not(library: Path, tmp_path: Path) -> None:
    wanted = str(uuid.uuid4())
    async with bridged(library, tmp_path, ScriptModel(["1", "2", "3"])) as bridge:
        told = await bridge.dispatch("Go.", id=wanted)
        other = await bridge.dispatch("Go.", id="no uuid")
        again = await bridge.dispatch("Go.", id=wanted)
    assert told["id"] == wanted.upper()
    assert str(uuid.UUID(other["id"])).upper() == other["id"]
    assert again["id"] not in (told["id"], other["id"])


async def test_what_the_task_is_for_is_kept_with_it(library: Path, tmp_path: Path) -> None:
    bookmark = base64.b64encode(b"/home/ann").decode()
    async with bridged(library, tmp_path, ScriptModel(["1", "2"])) as bridge:
        told = await bridge.dispatch("Go.", session_id="chat-1", folder_bookmark=bookmark, mode="work")
        task = await bridge.app.tasks.get(told["id"].lower())
        plain = await bridge.dispatch("Go.", folder_bookmark="!!!")
        other = await bridge.app.tasks.get(plain["id"].lower())
        session = await bridge.app.store.read(lambda tx: sessions.session_of(tx, told["id"]))
    assert task.metadata["plugin"] == {
        "plugin": ID,
        "agent": bridge.agent("ann"),
        "session": told["id"],
        "folder_bookmark": bookmark,
    }
    assert task.title == "Chat"
    assert "folder_bookmark" not in other.metadata["plugin"]
    assert session is not None
    assert session.key == "chat-1"


async def test_a_session_is_gone_on_with_under_its_first_id(
    library: Path, tmp_path: Path, store_url: str
) -> None:
    model = ScriptModel(["One.", "Two.", "Bob's."])
    async with bridged(library, tmp_path, model, store=store_url) as bridge:
        first = await bridge.dispatch("Hello.", session_id="chat-1")
        await bridge.told_all(first["id"])
        second = await bridge.dispatch("And then?", session_id="chat-1")
        told = await bridge.told_all(first["id"])
        bobs = await bridge.dispatch("And then?", "bob", session_id="chat-1")
        await bridge.told_all(bobs["id"])
    assert second["id"] == first["id"]
    assert bobs["id"] != first["id"]
    assert said(model, 1) == ["Hello.", "One.", "And then?"]
    assert said(model, 2) == ["And then?"]
    assert [number for number, _ in told] == [0, COMPLETED, 0, COMPLETED]
    assert told[-1][1]["output"] == "Two."


async def test_a_session_that_a_task_still_runs_is_left_to_it(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("One.", after=gate), Turn("Two.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        first = await bridge.dispatch("Hello.", session_id="chat-1")
        second = await bridge.dispatch("Hello again.", session_id="chat-1")
        gate.set()
        await bridge.told_all(first["id"])
        await bridge.told_all(second["id"])
    assert second["id"] != first["id"]
    assert sorted(said(model, at)[-1] for at in (0, 1)) == ["Hello again.", "Hello."]


async def test_of_two_that_go_on_with_a_session_at_once_one_begins_another(
    library: Path, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    model = ScriptModel(lambda request: Turn("Done.", after=None if len(model.requests) == 1 else gate))
    async with bridged(library, tmp_path, model) as bridge:
        first = await bridge.dispatch(session_id="s")
        await bridge.told_all(first["id"])
        both = await asyncio.gather(*(bridge.dispatch(session_id="s") for _ in range(3)))
        gate.set()
        for each in both:
            await bridge.told_all(each["id"])
    assert len({each["id"] for each in both}) == 3
    assert first["id"] in {each["id"] for each in both}


async def test_names_of_any_length_and_content_are_kept_apart(
    library: Path, tmp_path: Path, store_url: str
) -> None:
    names = ["x" * 5000, "x" * 5001, "a\x00b", "\u2028 é"]
    async with bridged(library, tmp_path, ScriptModel(["1"] * 8), store=store_url) as bridge:
        ids = []
        for _ in range(2):
            for name in names:
                told = await bridge.dispatch("Go.\x00", session_id=name, title="t\x00" + "t" * 500)
                ids.append(told["id"])
                await bridge.told_all(told["id"])
        state = await bridge.host(slots.TASK_STATUS, ids[0])
    assert len(set(ids)) == 4
    assert ids[:4] == ids[4:]
    assert len(state["title"]) == 200


async def test_a_failed_task_says_why(library: Path, tmp_path: Path) -> None:
    from fairlead.failures.runtime import ApiError

    model = ScriptModel([ApiError("The model is away.")])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch()
        await bridge.told_all(told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"])
    assert state["status"] == "failed"
    assert state["success"] is False
    assert "The model is away." in state["summary"]
    assert state["session_id"] == told["id"]


async def test_a_cancelled_task_is_known_for_fifteen_seconds(library: Path, tmp_path: Path) -> None:
    ahead = [0.0]
    clock = Clock(lambda: time.time() + ahead[0])
    model = ScriptModel([Turn("never", after=asyncio.Event())])
    async with bridged(library, tmp_path, model, clock=clock) as bridge:
        told = await bridge.dispatch()
        await model.asked()
        await bridge.host(slots.DISPATCH_CANCEL, told["id"])
        events = await bridge.told_all(told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"].lower())
        ahead[0] = status.GONE + 2
        gone = await bridge.host(slots.TASK_STATUS, told["id"])
    assert [number for number, _ in events] == [0, CANCELLED]
    assert state == {"id": told["id"], "title": "Chat", "status": "cancelled"}
    assert gone["error"] == "not_found"


async def test_a_task_is_looked_at_only_by_its_plugin(library: Path, tmp_path: Path) -> None:
    from fairlead.plugins.dispatch import Dispatches
    from fairlead.plugins.runner import Frame

    warned: list[tuple[str, str]] = []
    gate = asyncio.Event()
    model = ScriptModel([Turn("Mine.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch()
        await model.asked()
        other = Dispatches(
            bridge.app,
            "test.other",
            warn=lambda op, reason, text: warned.append((op, reason)),
            deliver=bridge.plugin.task_event,
        )
        frame = Frame("test.other", bridge.agent("ann"))
        with pytest.raises(Exception, match="no task") as found:
            await other.call(slots.TASK_STATUS, (told["id"],), frame)
        for slot in (slots.DISPATCH_CANCEL, slots.SEND_DRAFT, slots.DISPATCH_INTERRUPT):
            await other.call(slot, (told["id"], "{}"), frame)
        assert await other.call(slots.LIST_ACTIVE_TASKS, (), frame) == '{"tasks":[]}'
        gate.set()
        events = await bridge.told_all(told["id"])
    assert getattr(found.value, "code", "") == "not_found"
    assert [number for number, _ in events] == [0, COMPLETED]
    assert warned == [
        ("dispatch_cancel", "unowned"),
        ("send_draft", "unowned"),
        ("dispatch_interrupt", "unowned"),
    ]


async def test_what_is_no_task_is_told_apart_and_warned_of_once(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        invalid = await bridge.host(slots.TASK_STATUS, "no uuid")
        unknown = await bridge.host(slots.TASK_STATUS, UNKNOWN)
        for _ in range(2):
            await bridge.host(slots.DISPATCH_CANCEL, "no uuid")
            await bridge.host(slots.SEND_DRAFT, UNKNOWN, "{}")
            await bridge.host(slots.DISPATCH_INTERRUPT, "no uuid", None)
        warned = bridge.warnings()
    assert invalid["error"] == "invalid_task_id"
    assert unknown["error"] == "not_found"
    assert sorted(warned) == [
        f"{ID}|dispatch_cancel|invalid",
        f"{ID}|dispatch_interrupt|invalid",
        f"{ID}|send_draft|unowned",
    ]


async def test_active_tasks_are_listed_running_and_paused_ones(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()

    def script(request: Any) -> Any:
        prompt = request.messages[-1].content
        if prompt == "ask":
            return call("clarify", question="Which one?")
        return Turn("Done.", after=gate) if prompt == "wait" else "Done."

    async with bridged(library, tmp_path, ScriptModel(script)) as bridge:
        asking, waiting, done = [await bridge.dispatch(prompt) for prompt in ("ask", "wait", "go")]
        await bridge.told_all(done["id"])
        await bridge.until(3, asking["id"])
        active = await bridge.host(slots.LIST_ACTIVE_TASKS)
        gate.set()
        await bridge.told_all(waiting["id"])
        left = await bridge.host(slots.LIST_ACTIVE_TASKS)
    assert [each["id"] for each in active["tasks"]] == [asking["id"], waiting["id"]]
    assert [each["status"] for each in active["tasks"]] == ["running", "running"]
    assert [each["id"] for each in left["tasks"]] == [asking["id"]]


def add_tools(app: App) -> None:
    @app.action
    async def step(word: str, ctx: Context) -> str:
        """Take a step."""
        ctx.progress.report(f"At {word}", 50)
        return word


async def test_a_running_task_tells_what_it_does(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel(
        [call("step", word="one"), Turn("Halfway there.", pieces=("Halfway ", "there."), after=gate)]
    )
    agents = {"ann": {"tools": ["step"]}}
    async with bridged(library, tmp_path, model, build=add_tools, agents=agents) as bridge:
        told = await bridge.dispatch(title="Steps")
        await model.asked(2)
        await bridge.until(1, told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"])
        gate.set()
        await bridge.told_all(told["id"])
    assert state["status"] == "running"
    assert state["title"] == "Steps"
    assert state["current_step"] == "step"
    assert state["activity"][0] | {"timestamp": ""} == {
        "kind": "tool_call",
        "title": "Tool",
        "detail": "step",
        "timestamp": "",
    }
    assert state["activity"][0]["timestamp"].endswith("Z")


async def test_what_a_task_said_last_is_told_while_a_tool_runs_until_there_is_more(
    library: Path, tmp_path: Path
) -> None:
    inside, gate, more = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def build(app: App) -> None:
        @app.action
        async def nap() -> str:
            """Nap."""
            inside.set()
            await gate.wait()
            return "rested"

    model = ScriptModel([Turn("Let me look.", (call("nap"),)), Turn("I saw it.", after=more)])
    async with bridged(library, tmp_path, model, build=build, agents={"ann": {"tools": ["nap"]}}) as bridge:
        told = await bridge.dispatch()
        await inside.wait()
        await bridge.until(1, told["id"])
        outputs = [(await bridge.host(slots.TASK_STATUS, told["id"]))["output"]]
        gate.set()
        await model.asked(2)
        outputs.append((await bridge.host(slots.TASK_STATUS, told["id"]))["output"])
        more.set()
        await bridge.told_all(told["id"])
        outputs.append((await bridge.host(slots.TASK_STATUS, told["id"]))["output"])
    assert outputs == ["Let me look.", "Let me look.", "I saw it."]


async def test_what_repeats_itself_is_told_once_and_the_last_twenty_are_told(
    library: Path, tmp_path: Path
) -> None:
    gate = asyncio.Event()

    def build(app: App) -> None:
        @app.action
        async def walk(ctx: Context) -> str:
            """Walk."""
            assert ctx.task is not None
            for at in range(60):
                ctx.task.activity("info", f"Step {at // 2}")
            return "walked"

    model = ScriptModel([call("walk"), Turn("Done.", after=gate)])
    async with bridged(library, tmp_path, model, build=build, agents={"ann": {"tools": ["walk"]}}) as bridge:
        told = await bridge.dispatch()
        await model.asked(2)
        await bridge.until(1, told["id"], times=61)
        state = await bridge.host(slots.TASK_STATUS, told["id"])
        gate.set()
    steps = [each["title"] for each in state["activity"] if each["kind"] == "info"]
    assert len(state["activity"]) == 20
    assert steps == [f"Step {at}" for at in range(30 - len(steps), 30)]


async def test_a_draft_is_kept_with_its_task_and_told(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("Done.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch(title="Letter")
        await model.asked()
        await bridge.host(slots.SEND_DRAFT, told["id"], {"text": "Dear", "parse_mode": "HTML"})
        await bridge.until(8, told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"])
        await bridge.host(slots.SEND_DRAFT, told["id"], "no object")
        await bridge.until(8, told["id"], times=2)
        gate.set()
        events = await bridge.told_all(told["id"])
        await bridge.host(slots.SEND_DRAFT, told["id"], {"text": "too late"})
    drafts = [payload for number, payload in events if number == 8]
    assert drafts == [
        {"title": "Letter", "draft": {"text": "Dear", "parse_mode": "HTML"}},
        {"title": "Letter"},
    ]
    assert state["draft"] == {"text": "Dear", "parse_mode": "HTML"}
    assert [number for number, _ in events][-1] == COMPLETED


def on_disk(folder: Path) -> bytes:
    """All that the store has written."""
    return b"".join(each.read_bytes() for each in folder.glob("store.db*") if each.is_file())


async def test_what_a_plugin_shows_of_a_task_is_redacted(library: Path, tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptModel([Turn("Done.", after=gate)])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch(title="Letter, password=canary-1")
        await model.asked()
        draft = {"text": "Dear, token=canary-2", "password": "canary-3", "parts": [{"api_key": "canary-4"}]}
        await bridge.host(slots.SEND_DRAFT, told["id"], draft)
        await bridge.until(8, told["id"])
        state = await bridge.host(slots.TASK_STATUS, told["id"])
        gate.set()
        await bridge.told_all(told["id"])
    assert state["title"].startswith("Letter, password=")
    assert state["draft"]["text"].startswith("Dear, ")
    kept = on_disk(tmp_path)
    assert b"Dear, token=" in kept
    assert b"canary-" not in kept + str(state).encode()


async def interrupted(bridge: Bridge, model: ScriptModel, message: str | None) -> list[str]:
    """What the next run of the session sees after an interrupt."""
    told = await bridge.dispatch("Count to ten.", session_id="chat")
    await model.asked()
    await bridge.host(slots.DISPATCH_INTERRUPT, told["id"], message)
    events = await bridge.told_all(told["id"])
    assert [number for number, _ in events] == [0, COMPLETED]
    assert events[-1][1]["summary"] == "Chat completed"
    assert events[-1][1]["success"] is True
    again = await bridge.dispatch("Go on.", session_id="chat")
    assert again["id"] == told["id"]
    await bridge.told_all(told["id"])
    return said(model)


async def test_an_interrupt_stops_the_task_and_its_words_are_the_last_turn(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel([Turn("never", after=asyncio.Event()), "Fine."])
    async with bridged(library, tmp_path, model) as bridge:
        heard = await interrupted(bridge, model, "  Stop, count sheep.  ")
    assert heard == ["Count to ten.", "Stop, count sheep.", "Go on."]


@pytest.mark.parametrize("message", [None, "   "])
async def test_an_interrupt_without_words_adds_none(
    library: Path, tmp_path: Path, message: str | None
) -> None:
    model = ScriptModel([Turn("never", after=asyncio.Event()), "Fine."])
    async with bridged(library, tmp_path, model) as bridge:
        assert await interrupted(bridge, model, message) == ["Count to ten.", "Go on."]


async def test_an_interrupt_of_a_task_that_waits_for_its_turn_is_heard(library: Path, tmp_path: Path) -> None:
    model = ScriptModel(["Fine."])
    async with bridged(library, tmp_path, model, worker=False) as bridge:
        hold = bridge.app.tasks.worker(concurrency=1)
        told = await held_back(bridge, "Count.")
        await bridge.host(slots.DISPATCH_INTERRUPT, told["id"], "Never mind.")
        async with hold:
            events = await bridge.told_all(told["id"])
            again = await bridge.dispatch("Go on.", session_id="chat")
            await bridge.told_all(again["id"])
    assert [number for number, _ in events] == [0, COMPLETED]
    assert said(model) == ["Count.", "Never mind.", "Go on."]


async def held_back(bridge: Bridge, prompt: str) -> dict[str, Any]:
    """A task that no worker has taken: the host thinks that somebody is there to take it."""
    from fairlead.tasks.bus import Presence

    app = bridge.app
    await app.tasks.bus.present(Presence("elsewhere", app.tasks.queue, app.wall(), 0, 1))
    return await bridge.dispatch(prompt, session_id="chat")


async def test_where_no_worker_is_the_host_runs_its_tasks_itself(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel(["Done."]), worker=False) as bridge:
        told = await bridge.dispatch()
        events = await bridge.told_all(told["id"])
    assert events[-1][1]["output"] == "Done."


async def test_the_chats_of_a_plugin_that_is_taken_away_are_forgotten_and_its_tasks_ended(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel([Turn("never", after=asyncio.Event())])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch()
        await model.asked()
        ended = await sessions.forget(bridge.app.store, ID, bridge.app.wall())
        task = await bridge.app.tasks.wait(told["id"].lower(), timeout=30)
        state = await bridge.host(slots.TASK_STATUS, told["id"])
    assert ended == 1
    assert task.state.value == "canceled"
    assert state["error"] == "not_found"


# Pinned tools.

ALLOWED = {"reply", "reply_photo", "share_artifact"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["reply_photo", "reply"], ["reply_photo", "reply"]),
        (["reply", "reply", "reply"], ["reply"]),
        (["", "  ", "reply"], ["reply"]),
        (["  reply \n"], ["reply"]),
        ([7, None, {"name": "reply"}, "reply"], ["reply"]),
        (["reply", "rm_rf", "share_artifact"], ["reply", "share_artifact"]),
        ([], []),
        (None, []),
        ("reply", []),
        ({"reply": True}, []),
    ],
)
def test_names_of_tools_are_trimmed_kept_in_order_and_only_allowed_ones(given: Any, kept: list[str]) -> None:
    assert pinned_names(given, ALLOWED, lambda name: None) == kept


def test_where_nothing_is_allowed_nothing_is_pinned() -> None:
    assert pinned_names(["reply"], set(), lambda name: None) == []


async def test_pinned_tools_are_offered_from_the_first_turn_and_add_up(library: Path, tmp_path: Path) -> None:
    def build(app: App) -> None:
        add_tools(app)
        app.add(sharing(Artifacts(app.store, tmp_path / "artifacts")))

    model = ScriptModel(["1", "2", "3"])
    async with bridged(library, tmp_path, model, build=build, agents={"ann": {"tools": ["step"]}}) as bridge:
        first = await bridge.dispatch(session_id="s", tools=["reply", "share_artifact", "add_user", " echo "])
        await bridge.told_all(first["id"])
        second = await bridge.dispatch(session_id="s", tools=["ask"])
        await bridge.told_all(second["id"])
        other = await bridge.dispatch()
        await bridge.told_all(other["id"])
    own = {"todo", "complete", "clarify", "step"}
    offered = [{spec.name for spec in each.tools} for each in model.requests]
    assert offered == [
        own | {"reply", "share_artifact", "echo"},
        own | {"reply", "share_artifact", "echo", "ask"},
        own,
    ]


async def test_charts_and_memory_can_be_pinned_where_the_app_has_neither(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel(
        ["The tide is at six.", "The tide, for bob.", call("search_memory", query="tide"), "Found."]
    )
    async with bridged(library, tmp_path, model) as bridge:
        for agent in ("ann", "bob"):
            told = await bridge.dispatch(agent=agent)
            await bridge.told_all(told["id"])
        told = await bridge.dispatch(tools=["render_chart", "search_memory", "share_artifact"])
        await bridge.told_all(told["id"])
        warned = bridge.warnings()
    assert {"render_chart", "search_memory"} <= {spec.name for spec in model.requests[2].tools}
    found = json.loads(model.requests[3].messages[-1].content)["result"]
    assert "The tide is at six." in str(found)
    assert "bob" not in str(found)
    assert warned == [
        f"{ID}|dispatch|tool_scope|share_artifact"
    ]  # it writes: the app says where, and whether


async def test_a_built_in_tool_that_the_app_keeps_to_itself_cannot_be_pinned(
    library: Path, tmp_path: Path
) -> None:
    def build(app: App) -> None:
        app.add(Action(render_chart, side_effects="read", visibility="private"))

    model = ScriptModel(["1"])
    async with bridged(library, tmp_path, model, build=build) as bridge:
        told = await bridge.dispatch(tools=["render_chart"])
        await bridge.told_all(told["id"])
    assert "render_chart" not in {spec.name for spec in model.requests[0].tools}


async def test_a_name_that_is_not_allowed_is_warned_of_once_each_and_fails_nothing(
    library: Path, tmp_path: Path
) -> None:
    async with bridged(library, tmp_path, ScriptModel(["1", "2", "3"]), build=add_tools) as bridge:
        for tools in (["step", "reply"], ["step", "file_write"], "nonsense"):
            told = await bridge.dispatch(tools=tools)
            assert told["status"] == "running"
            await bridge.told_all(told["id"])
        warned = bridge.warnings()
    assert warned == [f"{ID}|dispatch|tool_scope|step", f"{ID}|dispatch|tool_scope|file_write"]


async def test_tools_that_write_or_run_commands_cannot_be_pinned_whatever_their_names(
    library: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()

    def build(app: App) -> None:
        for tools in (files(work), sandbox(work), shell(work), documents(work, prefix="doc_", exec=True)):
            app.add(tools)

    model = ScriptModel(["1"])
    async with bridged(library, tmp_path, model, build=build, agents={"ann": {"tools": []}}) as bridge:
        names = [each.name for each in bridge.app.catalogue if each.metadata.get("plugin") is None]
        told = await bridge.dispatch(tools=[name for name in names if name not in ("ann", "bob")])
        await bridge.told_all(told["id"])
    offered = {spec.name for spec in model.requests[0].tools} - {"todo", "complete", "clarify"}
    assert offered == {"file_read", "file_search", "doc_read", "doc_grep", "doc_list"}


async def test_tools_of_other_servers_are_not_built_in_and_cannot_be_pinned(
    library: Path, tmp_path: Path
) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Harbour", "version": "1"},
        "servers": [{"url": "https://harbour.example"}],
        "paths": {"/ships": {"get": {"operationId": "ships", "responses": {"200": {"description": "All."}}}}},
    }
    model = ScriptModel(["1"])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": []}}) as bridge:
        (ships,) = add_openapi(bridge.app, document).actions
        told = await bridge.dispatch(tools=[each.name for each in bridge.app.catalogue])
        await bridge.told_all(told["id"])
    assert ships.side_effects == "read"
    assert ships.name not in {spec.name for spec in model.requests[0].tools}


async def test_a_pinned_tool_of_the_plugin_is_called_for_the_tasks_agent(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel([call("ask", lines=f"{slots.GET_ACTIVE_AGENT_ID}"), "Done."])
    async with bridged(library, tmp_path, model) as bridge:
        told = await bridge.dispatch(tools=["ask"])
        await bridge.told_all(told["id"])
        assert bridge.agent("ann") in model.requests[1].messages[-1].content


async def test_no_surface_shows_or_calls_the_action_that_runs_tasks(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        app = bridge.app
        for surface in ("http", "mcp", "cli", "ai-sdk", "json"):
            assert dispatched.NAME not in [each.name for each in app.list_actions(surface)]
        result = await app.invoke(dispatched.NAME, {}, surface="http")
    assert not result.ok
