"""The first delivery: the probe, then the values of each agent, then the tunnel; and what follows when it fails."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.plugins.finding import build
from fairlead.plugins.identity import DEFAULT_AGENT, agent_uuid
from fairlead.plugins.layout import Layout
from fairlead.plugins.quarantine import Quarantine
from plugins.installed_kit import ID, compiled_loader, macro, manifest, said
from plugins.native_kit import SOURCES, compile_c

CONFIG = {
    "config": {
        "sections": [
            {
                "title": "S",
                "fields": [
                    {"key": "interval", "type": "number", "label": "I", "default": 30},
                    {"key": "token", "type": "secret", "label": "T"},
                    {"key": "shown", "type": "readonly", "label": "R", "default": "x"},
                ],
            }
        ]
    }
}
ROUTE = {"routes": [{"id": "r", "path": "/r", "methods": ["GET"], "auth": "none"}]}


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("FAIRLEAD_PUBLIC_URL", raising=False)
    return Layout.of()


@pytest.fixture
def quarantine(layout: Layout) -> Quarantine:
    return Quarantine(layout.root, build())


def loader(folder: Path, *options: str, **capabilities: Any) -> Path:
    library = compiled_loader(folder / "project", *options, tools=["work"], capabilities=capabilities)
    told = manifest(tools=["work"], capabilities=capabilities)
    (library.parent / "manifest.json").write_text(json.dumps(told))
    return library.parent


def with_agent(app: App) -> str:
    @app.agent(model="script")
    def keeper(prompt: str) -> str:
        """Keep."""
        return prompt

    return agent_uuid(app.name, "keeper")


async def delivered(app: App) -> list[str]:
    """What the plugin was told, after all of it was told."""
    plugin = app.plugins.get(ID)
    assert plugin is not None
    await plugin.delivered()
    return [line for line in await said(app) if "=" in line]


async def test_the_probe_is_the_first_thing_told_with_the_default_agent_where_there_is_none(
    tmp_path: Path,
) -> None:
    app = App("demo")
    app.add_plugin(loader(tmp_path))
    async with app:
        assert (await app.invoke("work", {})).ok
        assert await delivered(app) == [f"__osaurus_abi_probe__=a UUID for {DEFAULT_AGENT}"]


async def test_the_probe_is_made_for_the_first_agent_and_the_values_for_each(tmp_path: Path) -> None:
    app = App("demo")
    agent = with_agent(app)
    app.add_plugin(loader(tmp_path, **CONFIG))
    async with app:
        assert (await app.invoke("work", {})).ok
        told = await delivered(app)
    assert told == [f"__osaurus_abi_probe__=a UUID for {agent}", f"interval=30.0 for {agent}"]


def toy(folder: Path) -> Path:
    """A plugin that says what it was told so far."""
    about = macro("MANIFEST", manifest(tools=["seen"], capabilities=CONFIG))
    return compile_c(SOURCES / "toy.c", folder / "toy.so", about)


async def test_the_values_are_told_before_the_first_call(tmp_path: Path) -> None:
    app = App("demo")
    agent = with_agent(app)
    plugin = app.add_plugin(toy(tmp_path))
    assert plugin is not None
    async with app:
        seen = await plugin.invoke("tool", "seen", "{}", agent=agent, timeout=5)
    assert f"config interval=30.0@{agent};" in seen


async def test_a_call_that_a_plugin_causes_while_it_takes_its_first_value_is_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins.process import ProcessRunner

    made: list[str] = []
    tell = ProcessRunner.config_changed

    async def calling(self: ProcessRunner, key: str, value: str, **more: Any) -> None:
        if key == "interval":
            assert plugin is not None
            made.append(await plugin.invoke("tool", "seen", "{}", agent=None, timeout=5))
        await tell(self, key, value, **more)

    monkeypatch.setattr(ProcessRunner, "config_changed", calling)
    app = App("demo")
    with_agent(app)
    plugin = app.add_plugin(toy(tmp_path))
    assert plugin is not None
    async with app:
        seen = await plugin.invoke("tool", "seen", "{}", agent=None, timeout=5)
    assert ["interval" in each for each in (*made, seen)] == [False, True]


async def test_a_first_call_does_not_wait_for_a_value_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins.process import ProcessRunner

    taken = asyncio.Event()
    tell = ProcessRunner.config_changed

    async def slow(self: ProcessRunner, key: str, value: str, **more: Any) -> None:
        if key == "interval":
            await taken.wait()
        await tell(self, key, value, **more)

    monkeypatch.setattr(ProcessRunner, "config_changed", slow)
    monkeypatch.setattr("fairlead.plugins.plugin.FIRST_VALUES", 0.05)
    app = App("demo")
    plugin = app.add_plugin(toy(tmp_path))
    assert plugin is not None
    async with app:
        assert "interval" not in await plugin.invoke("tool", "seen", "{}", agent=None, timeout=5)
        taken.set()
        await plugin.delivered()
        assert "interval" in await plugin.invoke("tool", "seen", "{}", agent=None, timeout=5)


async def test_a_value_that_is_kept_wins_over_the_default(tmp_path: Path) -> None:
    from fairlead.plugins.config import Config
    from fairlead.plugins.services import Shared

    app = App("demo")
    agent = with_agent(app)
    app.add_plugin(loader(tmp_path, **CONFIG))
    shared = Shared.of(app)
    config = Config(ID, app.store, shared.secrets, shared.warnings)
    await config.save(agent, {"interval": "5", "undeclared": "x"})
    async with app:
        assert (await app.invoke("work", {})).ok
        told = await delivered(app)
    assert told[1:] == [f"interval=5 for {agent}"]


async def test_a_plugin_with_routes_is_told_where_it_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_PUBLIC_URL", "https://x.example")
    app = App("demo")
    app.add_plugin(loader(tmp_path, **ROUTE))
    async with app:
        assert (await app.invoke("work", {})).ok
        assert (await delivered(app))[1:] == [f"tunnel_url=https://x.example for {DEFAULT_AGENT}"]


async def test_a_plugin_without_routes_hears_of_no_tunnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_PUBLIC_URL", "https://x.example")
    app = App("demo")
    app.add_plugin(loader(tmp_path))
    async with app:
        assert (await app.invoke("work", {})).ok
        assert len(await delivered(app)) == 1


async def test_a_tunnel_that_comes_goes_and_comes_back_is_told_with_all_values_again(tmp_path: Path) -> None:
    app = App("demo")
    agent = with_agent(app)
    app.add_plugin(loader(tmp_path, **CONFIG, **ROUTE))
    async with app:
        assert (await app.invoke("work", {})).ok
        before = await delivered(app)
        for url in ("https://x.example", None, "https://x.example"):
            await app.plugins.tunnel(url)
        after = (await delivered(app))[len(before) :]
    assert after == [
        f"tunnel_url=https://x.example for {agent}",
        f"tunnel_url= for {agent}",
        f"interval=30.0 for {agent}",
        f"tunnel_url=https://x.example for {agent}",
    ]


async def test_a_plugin_that_falls_at_the_probe_is_in_quarantine_at_once(
    tmp_path: Path, quarantine: Quarantine, layout: Layout
) -> None:
    app = App("demo")
    app.add_plugin(loader(tmp_path, "-DFALLS_AT_THE_PROBE"))
    async with app:
        first = await app.invoke("work", {})
        assert first.failure is not None
        assert "table of the host's functions" in first.failure.message
        row = quarantine.find(ID)
        assert row is not None
        assert row.version == "1.0.0"
        second = await app.invoke("work", {})
        assert second.failure is not None
        assert "quarantine" in second.failure.message
    assert not (layout.root / ".currently_loading").exists()


async def test_the_mark_is_on_disk_during_the_probe_and_gone_before_the_values(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins.process import ProcessRunner

    seen: list[tuple[str, bool]] = []
    tell = ProcessRunner.config_changed

    async def looking(self: ProcessRunner, key: str, value: str, **more: Any) -> None:
        seen.append((key, (layout.root / ".currently_loading").exists()))
        await tell(self, key, value, **more)

    monkeypatch.setattr(ProcessRunner, "config_changed", looking)
    app = App("demo")
    with_agent(app)
    app.add_plugin(loader(tmp_path, **CONFIG))
    async with app:
        assert (await app.invoke("work", {})).ok
        await delivered(app)
    assert seen == [("__osaurus_abi_probe__", True), ("interval", False)]


async def test_a_plugin_of_the_first_version_is_not_probed(tmp_path: Path) -> None:
    library = compile_c(
        SOURCES / "toy.c", tmp_path / "toy.so", "-DV1", macro("MANIFEST", manifest(tools=["seen"]))
    )
    app = App("demo")
    plugin = app.add_plugin(library)
    assert plugin is not None
    async with app:
        await plugin.start()
        assert await plugin.invoke("tool", "seen", "{}", agent=None, timeout=5) == ""


async def test_a_plugin_that_was_started_again_is_told_everything_again(tmp_path: Path) -> None:
    app = App("demo")
    agent = with_agent(app)
    folder = compiled_loader(tmp_path / "project", tools=["work", "fall"], capabilities=CONFIG).parent
    app.add_plugin(folder)
    async with app:
        assert (await app.invoke("work", {})).ok
        first = await delivered(app)
        assert not (await app.invoke("fall", {})).ok
        assert (await app.invoke("work", {})).ok
        assert (await delivered(app))[len(first) :] == [
            f"__osaurus_abi_probe__=a UUID for {agent}",
            f"interval=30.0 for {agent}",
        ]


async def test_an_agent_that_is_new_has_its_values_told(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(loader(tmp_path, **CONFIG))
    async with app:
        assert (await app.invoke("work", {})).ok
        before = await delivered(app)
        agent = with_agent(app)
        assert (await app.invoke("work", {})).ok
        assert (await delivered(app))[len(before) :] == [f"interval=30.0 for {agent}"]


async def test_a_call_that_comes_before_word_of_the_end_still_leads_to_a_whole_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.plugins.plugin import Plugin

    app = App("demo")
    agent = with_agent(app)
    folder = compiled_loader(tmp_path / "project", tools=["work", "fall"], capabilities=CONFIG).parent
    plugin = app.add_plugin(folder)
    assert plugin is not None
    exited: list[Any] = []
    late = Plugin._exited
    monkeypatch.setattr(Plugin, "_exited", lambda _, each: exited.append(each))
    async with app:
        assert (await app.invoke("work", {})).ok
        first = await delivered(app)
        assert not (await app.invoke("fall", {})).ok
        assert plugin.started
        assert (await app.invoke("work", {})).ok
        await plugin.start()
        for each in exited:
            late(plugin, each)
        assert plugin.started
        assert (await delivered(app))[len(first) :] == [
            f"__osaurus_abi_probe__=a UUID for {agent}",
            f"interval=30.0 for {agent}",
        ]


async def test_waking_starts_those_that_wait_for_requests_or_settings(tmp_path: Path) -> None:
    app = App("demo")
    plugin = app.add_plugin(loader(tmp_path, **ROUTE))
    assert plugin is not None
    async with app:
        assert not plugin.started
        await app.plugins.wake()
        await plugin.start()
        assert [line for line in await said(app) if line == "init"] == ["init"]


async def test_many_first_calls_at_once_start_one_process(tmp_path: Path) -> None:
    app = App("demo")
    app.add_plugin(loader(tmp_path))
    async with app:
        results = await asyncio.gather(*(app.invoke("work", {}) for _ in range(10)))
        assert all(result.ok for result in results)
        assert [line for line in await said(app) if line == "init"] == ["init"]


async def test_a_first_caller_who_gives_up_does_not_end_the_start_for_others(tmp_path: Path) -> None:
    app = App("demo")
    plugin = app.add_plugin(loader(tmp_path))
    assert plugin is not None
    async with app:
        first = asyncio.ensure_future(plugin.start())
        second = asyncio.ensure_future(plugin.start())
        await asyncio.wait([first], timeout=0)
        first.cancel()
        await second
        assert plugin.started
