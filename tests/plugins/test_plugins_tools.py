"""A plugin's tools are actions: on every surface, under every rule, and with what only the host adds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents.models import ScriptModel, call
from fairlead.failures import Kind
from fairlead.failures import tool as wire
from fairlead.failures.host import ContextUnavailable
from fairlead.plugins import tools
from fairlead.plugins.config import Config
from fairlead.plugins.identity import DEFAULT_AGENT
from fairlead.plugins.preferences import Preferences
from fairlead.plugins.services import Shared
from fairlead.testing.surfaces import SURFACES, SurfaceDriver
from plugins.bridge_kit import ID, Bridge, bridge_manifest, bridged, macro, tool
from plugins.conftest import Compiled

STRICT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
SAID = tool("said", parameters={"type": "object", "properties": {"words": {"type": "string"}}})
ALONE = [
    tool("alone_one", requirements=["Accessibility"]),
    tool("alone_two", requirements=["AUTOMATION", "other"]),
]


@pytest.fixture
def library(compiled: Compiled) -> Path:
    offered = [
        tool("echo", parameters=STRICT),
        SAID,
        tool("big"),
        tool("null"),
        tool("crash"),
        tool("sleep"),
        tool("whose"),
        tool("said-loudly"),
        *ALONE,
    ]
    return compiled("bridge", macro("MANIFEST", bridge_manifest(tools=offered)))


@pytest.fixture
def careful(compiled: Compiled) -> Path:
    """A plugin whose tools want to be asked for."""
    offered = [
        tool("whose", None),
        tool("echo", "deny"),
        tool("said", "AUTO"),
        tool("big", "ASK"),
        tool("null", "?"),
    ]
    return compiled("bridge", macro("MANIFEST", bridge_manifest(tools=offered)))


async def said(bridge: Bridge, words: str) -> Any:
    """How a call ends to which the plugin says this."""
    return await bridge.app.invoke("said", {"words": words})


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.name)
async def test_a_plugins_tool_can_be_called_on_every_surface(
    library: Path, tmp_path: Path, surface: SurfaceDriver
) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await surface.call(bridge.app, "echo", {"city": "Oslo", "days": 3})
        wrong = await surface.call(bridge.app, "echo", {"days": 3})
    assert told.ok, told.message
    assert told.data == {"city": "Oslo", "days": 3}
    assert not wrong.ok
    assert wrong.code == "VALIDATION_ERROR"


async def test_an_agent_uses_a_plugins_tool(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("echo", city="Oslo", days="3"), "Three days."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["echo"]}}) as bridge:
        result = await bridge.app.invoke("ann", {"prompt": "How long?"})
    assert result.data == "Three days."
    offered = next(each for each in model.requests[0].tools if each.name == "echo")
    assert offered.parameters["required"] == ["city"]
    envelope = json.loads(model.requests[1].messages[-1].content)
    assert envelope["result"] == {"city": "Oslo", "days": 3}


async def test_a_tool_has_the_plugins_words_and_version_and_a_legal_name(
    library: Path, tmp_path: Path
) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        action = bridge.app.get("echo")
        loud = bridge.app.get("said_loudly")
        assert action is not None
        assert loud is not None
        result = await bridge.app.invoke("said_loudly", {})
    assert (action.description, action.version) == ("The tool echo.", "1.2.0")
    assert action.public_metadata["plugin"] == {"plugin": ID, "tool": "echo", "policy": "auto"}
    assert result.failure is not None
    assert result.failure.kind is Kind.unknown_action, "the plugin knows it by the name that it gave"


async def test_slips_are_mended_before_the_plugin_sees_them(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        result = await bridge.app.invoke("echo", {"city": "Oslo", "days": "3"})
        refused = await bridge.app.invoke("echo", {"city": "Oslo", "weeks": 1})
    assert result.data == {"city": "Oslo", "days": 3}
    assert refused.failure is not None
    assert refused.failure.kind is Kind.invalid_input


# What comes back.


async def test_an_envelope_is_read_and_other_text_is_made_one(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        plain = await said(bridge, "Sunny.")
        full = await said(bridge, '{"ok":true,"result":{"n":1},"warnings":["Old data."]}')
        empty = await said(bridge, '{"ok":true,"data":1}')
    assert plain.data == {"text": "Sunny."}
    assert full.data == {"n": 1}
    assert full.warnings == ["Old data."]
    assert empty.ok
    assert empty.data is None


async def test_a_failure_in_an_envelope_keeps_its_kind_and_advice(library: Path, tmp_path: Path) -> None:
    envelope = '{"ok":false,"kind":"not_found","message":"No such city.","retryable":false,"field":"city"}'
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        result = await said(bridge, envelope)
        legacy = await said(bridge, "[TIMEOUT] too slow")
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("not_found", "No such city.")
    assert result.failure.field == "city"
    assert legacy.failure is not None
    assert legacy.failure.kind is Kind.timeout


async def test_an_envelope_is_read_however_the_plugin_spelled_it(library: Path, tmp_path: Path) -> None:
    pretty = '{\n  "kind" : "not_found",\n  "message" : "No such city.",\n  "ok" : false\n}'
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        failed = await said(bridge, pretty)
        full = await said(bridge, '{"result":{"ok":false,"n":1},"ok":true}')
        cut = await said(bridge, '{"ok":true,"result":')
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.message) == ("not_found", "No such city.")
    assert full.data == {"ok": False, "n": 1}
    assert isinstance(cut.failure, wire.ExecutionError)
    assert "no JSON" in cut.failure.message


async def test_a_result_that_is_too_long_is_cut_in_the_middle(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        result = await bridge.app.invoke("big", {})
    assert result.data["kind"] == "truncated_output"
    assert result.data["original_chars"] == 150_000
    assert len(result.data["content"]) < 101_000
    assert result.warnings


async def test_no_answer_is_an_execution_error(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        result = await bridge.app.invoke("null", {})
    assert isinstance(result.failure, wire.ExecutionError)


async def test_a_plugin_that_falls_is_an_execution_error_and_the_next_call_works(
    library: Path, tmp_path: Path
) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        fallen = await bridge.app.invoke("crash", {})
        after = await bridge.app.invoke("echo", {"city": "Oslo"})
    assert isinstance(fallen.failure, wire.ExecutionError)
    assert "terminated" in fallen.failure.message
    assert after.ok


async def test_a_failure_that_only_quotes_the_word_is_not_taken_for_an_ended_process(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*args: Any, **options: Any) -> str:
        raise ContextUnavailable("The plugin 'acme.terminated' takes no more calls.")

    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        monkeypatch.setattr(bridge.plugin, "invoke", refused)
        result = await bridge.app.invoke("echo", {"city": "Oslo"})
    assert isinstance(result.failure, ContextUnavailable)


async def test_a_tool_that_takes_too_long_is_ended_and_the_next_call_works(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tools.LONGEST == 120.0
    monkeypatch.setattr(tools, "LONGEST", 0.5)
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        slow = await bridge.app.invoke("sleep", {})
        after = await bridge.app.invoke("echo", {"city": "Oslo"})
    assert isinstance(slow.failure, wire.Timeout)
    assert wire.retryable(slow.failure)
    assert after.ok


# Who may call.


async def test_a_tool_without_a_policy_asks_and_the_policy_is_read_in_any_case(
    careful: Path, tmp_path: Path
) -> None:
    async with bridged(careful, tmp_path, ScriptModel([])) as bridge:
        asks = {
            action.name: bool(action.requires_confirmation)
            for action in bridge.app.actions
            if action.metadata.get("tool")
        }
        asked = await bridge.app.invoke("whose", {})
        agreed = await bridge.app.invoke("whose", {}, confirm=True)
        plain = await bridge.app.invoke("said", {})
    assert asks == {"whose": True, "echo": False, "said": False, "big": True, "null": True}
    assert asked.failure is not None
    assert asked.failure.kind is Kind.needs_confirmation
    assert agreed.data == DEFAULT_AGENT
    assert plain.ok


async def test_a_denied_tool_is_rejected_even_where_somebody_agrees(careful: Path, tmp_path: Path) -> None:
    async with bridged(careful, tmp_path, ScriptModel([])) as bridge:
        for confirm in (None, True):
            result = await bridge.app.invoke("echo", {}, confirm=confirm)
            assert isinstance(result.failure, wire.Rejected)
            assert f"fairlead plugin policy {ID} echo ask" in result.failure.message


async def test_an_agent_that_nobody_answers_is_declined_a_tool_that_asks(
    careful: Path, tmp_path: Path
) -> None:
    model = ScriptModel([call("whose"), "I may not."])
    async with bridged(careful, tmp_path, model, agents={"ann": {"tools": ["whose"]}}) as bridge:
        result = await bridge.app.invoke("ann", {"prompt": "Who are you?"})
    assert result.data == "I may not."
    assert '"ok":false' in model.requests[1].messages[-1].content


async def test_what_a_person_set_wins_over_the_plugins_policy(careful: Path, tmp_path: Path) -> None:
    def build(app: App) -> None:
        settings = Preferences(app.plugins.layout.home(ID))
        settings.set_policy("whose", "auto")
        settings.set_policy("said", "deny")
        settings.set_policy("echo", "ask")

    async with bridged(careful, tmp_path, ScriptModel([]), build=build) as bridge:
        free = await bridge.app.invoke("whose", {})
        denied = await bridge.app.invoke("said", {})
        asked = await bridge.app.invoke("echo", {})
    assert free.ok
    assert isinstance(denied.failure, wire.Rejected)
    assert asked.failure is not None
    assert asked.failure.kind is Kind.needs_confirmation


def test_a_policy_that_is_none_is_refused(tmp_path: Path) -> None:
    from fairlead import Failure

    with pytest.raises(Failure, match="Did you mean 'auto'"):
        Preferences(tmp_path).set_policy("whose", "autto")


# What only the host adds.


def config_of(bridge: Bridge) -> Config:
    shared = Shared.of(bridge.app)
    return Config(ID, bridge.app.store, shared.secrets, shared.warnings)


async def test_an_agents_call_carries_the_plugins_values_and_a_persons_does_not(
    library: Path, tmp_path: Path
) -> None:
    model = ScriptModel([call("echo", city="Oslo"), "Fine."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["echo"]}, "bob": {}}) as bridge:
        config = config_of(bridge)
        await config.save(DEFAULT_AGENT, {"url": "https://example.org", "token": "default"})
        await config.save(bridge.agent("ann"), {"token": "anns"})
        await config.save(bridge.agent("bob"), {"token": "bobs"})
        await bridge.app.invoke("ann", {"prompt": "Go."})
        person = await bridge.app.invoke("echo", {"city": "Oslo"})
    seen = json.loads(model.requests[1].messages[-1].content)["result"]
    assert seen == {"city": "Oslo", "_secrets": {"url": "https://example.org", "token": "anns"}}
    assert person.data == {"city": "Oslo"}


async def test_an_agents_call_without_values_carries_none(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("echo", city="Oslo"), "Fine."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["echo"]}}) as bridge:
        await bridge.app.invoke("ann", {"prompt": "Go."})
    assert json.loads(model.requests[1].messages[-1].content)["result"] == {"city": "Oslo"}


async def test_a_call_carries_the_folder_that_is_worked_in(library: Path, tmp_path: Path) -> None:
    from fairlead.tools.session import SESSION, Session

    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        token = SESSION.set(Session("s", root=tmp_path))
        try:
            result = await bridge.app.invoke("echo", {"city": "Oslo"})
        finally:
            SESSION.reset(token)
    assert result.data == {"city": "Oslo", "_context": {"working_directory": str(tmp_path)}}


async def test_a_call_is_made_for_the_agent_that_makes_it(library: Path, tmp_path: Path) -> None:
    model = ScriptModel([call("whose"), "Fine."])
    async with bridged(library, tmp_path, model, agents={"ann": {"tools": ["whose"]}}) as bridge:
        await bridge.app.invoke("ann", {"prompt": "Go."})
        person = await bridge.app.invoke("whose", {})
    assert json.loads(model.requests[1].messages[-1].content)["result"] == bridge.agent("ann")
    assert person.data == DEFAULT_AGENT


async def test_tools_that_steer_the_machine_run_one_at_a_time(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        calls = [bridge.app.invoke(name, {}) for name in ("alone_one", "alone_two") * 5]
        results = await asyncio.gather(*calls)
    assert [each.data for each in results] == [1] * 10


async def test_who_gives_up_waiting_does_not_let_others_in_early() -> None:
    from fairlead.plugins.turns import Turns

    turns = Turns()
    order: list[str] = []
    first_is_in, first_may_go = asyncio.Event(), asyncio.Event()

    async def take(name: str, until: asyncio.Event | None = None) -> None:
        async with turns.taken():
            order.append(name)
            first_is_in.set()
            if until is not None:
                await until.wait()

    first = asyncio.ensure_future(take("first", first_may_go))
    await first_is_in.wait()
    second, third = asyncio.ensure_future(take("second")), asyncio.ensure_future(take("third"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait((second,))
    assert order == ["first"]
    first_may_go.set()
    await asyncio.gather(first, third)
    assert order == ["first", "third"]


async def test_however_many_give_up_waiting_the_next_has_its_turn() -> None:
    from fairlead.plugins.turns import Turns

    turns = Turns()

    async def take() -> str:
        async with turns.taken():
            return "done"

    async with turns.taken():
        many = [asyncio.ensure_future(take()) for _ in range(2000)]
        await asyncio.sleep(0)
        for each in many:
            each.cancel()
        await asyncio.wait(many)
        last = asyncio.ensure_future(take())
        await asyncio.sleep(0)
    assert await asyncio.wait_for(last, 20) == "done"
    assert await asyncio.wait_for(take(), 20) == "done"


# Names.


async def test_a_namespace_goes_before_the_names(library: Path, tmp_path: Path) -> None:
    app = App("harbour", store=f"sqlite:///{tmp_path}/store.db")

    @app.action
    def echo() -> str:
        """Ours."""
        return "ours"

    assert app.add_plugin(library) is None
    assert "echo" in app.plugins.failed[ID].message
    other = App("harbour", store=f"sqlite:///{tmp_path}/store.db", actions=[echo])
    plugin = other.add_plugin(library, namespace="weather")
    assert plugin is not None
    async with other:
        theirs = await other.invoke("weather_echo", {"city": "Oslo"})
        ours = await other.invoke("echo")
    assert theirs.data == {"city": "Oslo"}
    assert ours.data == "ours"


def test_parameters_that_are_no_schema_keep_a_plugin_out(compiled: Compiled, tmp_path: Path) -> None:
    broken = tool("echo", parameters={"type": "nonsense"})
    library = compiled("bridge", macro("MANIFEST", bridge_manifest(tools=[broken])))
    app = App("harbour", store=f"sqlite:///{tmp_path}/store.db")
    assert app.add_plugin(library) is None
    assert "echo" in app.plugins.failed[ID].message


async def test_parameters_without_properties_take_any_object(compiled: Compiled, tmp_path: Path) -> None:
    loose = tool("echo", parameters={"type": "object"})
    library = compiled("bridge", macro("MANIFEST", bridge_manifest(tools=[loose, tool("whose")])))
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        assert (await bridge.app.invoke("echo", {"a": [1]})).data == {"a": [1]}
