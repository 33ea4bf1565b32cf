"""Attacks through the surfaces: hidden actions, impossible numbers, floods, and text that acts on a terminal."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from fairlead import App
from fairlead._json import dumps
from fairlead.surfaces.cli import render
from fairlead.surfaces.cli.console import Console


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def app() -> App:
    app = App("app")

    @app.action
    async def shown(x: int = 0) -> int:
        """Shown."""
        return x

    @app.action(visibility="private", supported_surfaces=["http"])
    async def hidden() -> None:
        """Hidden."""

    return app


async def test_a_private_action_of_another_surface_is_not_told_apart_from_a_missing_one(app: App) -> None:
    runner = app.json_runner()
    envelope = await runner.invoke({"action": "hidden"})
    assert envelope["error"]["code"] == "ACTION_NOT_FOUND"
    assert "http" not in dumps(envelope)


@pytest.mark.parametrize("wait", [10**400, -(10**400), 1e308, float("inf"), float("nan"), 5e-324])
async def test_a_time_limit_beyond_reason_is_an_issue(app: App, wait: Any) -> None:
    runner = app.json_runner()
    payload = {"action": "shown", "timeoutMs": wait}
    envelopes = [await runner.invoke(payload), await asyncio.to_thread(runner.invoke_sync, payload)]
    assert [each["error"]["code"] for each in envelopes] == ["INVALID_JSON_RUNNER_PAYLOAD"] * 2
    assert [each["error"]["issues"][0]["path"] for each in envelopes] == [["timeoutMs"]] * 2


@pytest.mark.parametrize("wait", [10**400, 1e308, 1e-320], ids=["huge", "long", "short"])
def test_a_time_limit_beyond_reason_still_gets_an_envelope(app: App, wait: Any) -> None:
    assert "ok" in app.json_runner().invoke_sync({"action": "shown", "timeoutMs": wait})


async def test_a_flood_of_unknown_members_gets_a_short_answer(app: App) -> None:
    flood = {f"inputs{n}": 1 for n in range(5_000)}
    envelope = await app.json_runner().invoke({"action": "shown", **flood})
    assert len(envelope["error"]["issues"]) <= 200
    assert "5000" in envelope["error"]["issues"][-1]["message"]


async def test_a_very_long_member_is_not_repeated_in_full(app: App) -> None:
    envelope = await app.json_runner().invoke({"action": "shown", "f" * 1_000_000: 1})
    assert envelope["error"]["code"] == "INVALID_JSON_RUNNER_PAYLOAD"
    assert len(dumps(envelope)) < 10_000


async def test_a_very_long_name_is_not_repeated_in_full(app: App) -> None:
    envelope = await app.json_runner().invoke({"action": "f" * 1_000_000})
    assert len(dumps(envelope)) < 10_000


@pytest.mark.parametrize("how", [render.text, render.table, render.for_people])
def test_keys_cannot_steer_the_terminal(how: Any) -> None:
    console = Console(stdout=_Terminal(), stderr=_Terminal(), environ={"NO_COLOR": "1"})
    for mark in ("\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200f"):
        assert mark not in how({f"{mark}]0;owned": mark}, console)
        assert mark not in how([{f"{mark}]0;owned": [mark]}], console)
    assert len(how({"a\nb": 1}, console).splitlines()) == len(how({"ab": 1}, console).splitlines())
