"""Plugins that handle artifacts hear of each that is shared, whoever shares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents.models import ScriptModel, call
from fairlead.plugins.identity import DEFAULT_AGENT
from fairlead.tools.artifacts import Artifacts
from fairlead.tools.artifacts_sharing import sharing
from plugins.bridge_kit import Bridge, bridge_manifest, bridged, content, macro
from plugins.conftest import Compiled


@pytest.fixture
def library(compiled: Compiled) -> Path:
    return compiled("bridge", macro("MANIFEST", bridge_manifest(artifact_handler=True)))


def with_sharing(folder: Path) -> Any:
    def build(app: App) -> None:
        app.add(sharing(Artifacts(app.store, folder / "artifacts"), root=folder))

    return build


async def heard(bridge: Bridge) -> list[tuple[str, dict[str, Any]]]:
    lines = await bridge.lines()
    return [(agent, json.loads(payload)) for kind, _, agent, payload in lines if kind == "artifact"]


async def test_a_handler_hears_of_what_is_shared(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([]), build=with_sharing(tmp_path)) as bridge:
        given = {"content": "Hi", "filename": "hi.txt", "description": "A word."}
        assert (await bridge.app.invoke("share_artifact", given)).ok
        ((agent, told),) = await heard(bridge)
    assert agent == DEFAULT_AGENT
    assert content(told.pop("host_path")) == "Hi"
    assert told == {
        "filename": "hi.txt",
        "mime_type": "text/plain",
        "size": 2,
        "is_directory": False,
        "description": "A word.",
    }


async def test_what_an_agent_shares_is_told_for_that_agent(library: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("a")
    model = ScriptModel([call("share_artifact", path="out"), "Done."])
    agents = {"ann": {"tools": ["share_artifact"]}}
    async with bridged(library, tmp_path, model, build=with_sharing(tmp_path), agents=agents) as bridge:
        await bridge.app.invoke("ann", {"prompt": "Share it."})
        ((agent, told),) = await heard(bridge)
    assert agent == bridge.agent("ann")
    assert (told["filename"], told["is_directory"]) == ("out", True)
    assert "description" not in told


async def test_what_is_not_shared_is_not_told(library: Path, tmp_path: Path) -> None:
    async with bridged(library, tmp_path, ScriptModel([]), build=with_sharing(tmp_path)) as bridge:
        assert not (await bridge.app.invoke("share_artifact", {"path": "nothing.txt"})).ok
        assert await heard(bridge) == []


async def test_a_plugin_that_handles_none_is_not_called(compiled: Compiled, tmp_path: Path) -> None:
    library = compiled("bridge", macro("MANIFEST", bridge_manifest()))
    async with bridged(library, tmp_path, ScriptModel([]), build=with_sharing(tmp_path)) as bridge:
        assert (await bridge.app.invoke("share_artifact", {"content": "Hi", "filename": "hi.txt"})).ok
        assert not bridge.plugin.started
        assert await heard(bridge) == []


async def test_a_handler_that_is_not_well_spoils_nothing(compiled: Compiled, tmp_path: Path) -> None:
    """A plugin of the first version has no way to hear of artifacts."""
    library = compiled("bridge", macro("MANIFEST", bridge_manifest(artifact_handler=True)), "-DV1")
    async with bridged(library, tmp_path, ScriptModel([]), build=with_sharing(tmp_path)) as bridge:
        result = await bridge.app.invoke("share_artifact", {"content": "Hi", "filename": "hi.txt"})
    assert result.ok
