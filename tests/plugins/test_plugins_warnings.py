"""Warnings for authors of plugins: each once, the last ones kept, and none lost to a plugin that makes many."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from fairlead import App
from fairlead._json import dumps
from fairlead.plugins.dispatch import Dispatches, pinned_names
from fairlead.plugins.warnings import KEPT, MOST_TOLD, UNKNOWN, Warned, Warnings
from plugins.plugin_host import Host


def test_the_same_warning_is_told_once_for_each_plugin_operation_and_reason() -> None:
    told: list[Warned] = []
    warnings = Warnings(told.append)
    for plugin in ("a", "b"):
        for operation in ("dispatch", "complete"):
            for _ in range(3):
                warnings.once(plugin, operation, "agent_override", "words")
    assert [each.key for each in told] == [
        f"{plugin}|{operation}|agent_override" for plugin in "ab" for operation in ("dispatch", "complete")
    ]


def test_the_last_256_are_kept_in_the_order_they_came() -> None:
    assert KEPT == 256
    warnings = Warnings()
    for number in range(KEPT + 10):
        warnings.once("a", "dispatch", f"tool_scope|{number}", "words")
    kept = warnings.all()
    assert (len(kept), kept[0].key, kept[-1].key) == (
        256,
        "a|dispatch|tool_scope|10",
        "a|dispatch|tool_scope|265",
    )


def test_one_that_is_no_longer_kept_is_still_not_told_again() -> None:
    warnings = Warnings()
    for number in range(KEPT + 1):
        warnings.once("a", "x", str(number), "words")
    assert not warnings.once("a", "x", "0", "words")


def test_a_plugin_that_makes_up_reasons_takes_no_more_memory() -> None:
    warnings = Warnings()
    told = sum(
        warnings.once("a", "config_set", f"too_large|{number}", "") for number in range(MOST_TOLD + 50)
    )
    assert told == MOST_TOLD


def test_a_plugin_that_makes_up_reasons_leaves_room_for_the_warnings_of_others() -> None:
    warnings = Warnings()
    for number in range(MOST_TOLD + 1):
        warnings.once("a", "dispatch", f"tool_scope|{number}", "")
    assert warnings.once("b", "dispatch", "agent_override", "words")
    assert [each.text for each in warnings.of("b")] == ["words"]


async def test_a_name_of_any_length_takes_little_room(host: Host) -> None:
    """As `dispatch` has it, before anything else is looked at."""
    name = "x" * 1_000_000
    warn = partial(host.warnings.once, host.plugin)
    tasks = Dispatches(App("demo"), host.plugin, warn=warn, deliver=lambda *_, **__: asyncio.sleep(0))
    tasks.planned(dumps({"prompt": "Go.", "tools": [name]}), host.frame)
    (warned,) = host.warnings.all()
    assert warned.key.startswith(f"{host.plugin}|dispatch|tool_scope|xxx")
    assert len(warned.key) + len(warned.text) < 2000


def test_of_millions_of_names_the_first_are_looked_at() -> None:
    looked: list[str] = []
    names = [str(number) for number in range(100_000)]
    assert pinned_names([*names[:5], "echo", *names], {"echo"}, looked.append) == ["echo"]
    assert len(looked) < 2000


def test_a_plugin_s_warnings_are_found_by_its_id() -> None:
    warnings = Warnings()
    warnings.once("a", "dispatch", "invalid", "one")
    warnings.once("a.b", "dispatch", "invalid", "two")
    assert [each.text for each in warnings.of("a")] == ["one"]


def test_a_key_without_a_bar_belongs_to_nobody_who_is_known() -> None:
    warnings = Warnings()
    warnings.add("odd", "words")
    assert [each.key for each in warnings.of(UNKNOWN)] == ["odd"]


def test_a_warning_is_told_in_one_place(caplog: pytest.LogCaptureFixture) -> None:
    Warnings().once("a", "dispatch", "invalid", "to the program's log")
    Warnings(lambda warned: None).once("a", "dispatch", "invalid", "to insights")
    assert [record.getMessage() for record in caplog.records] == ["a: to the program's log"]


async def test_a_stream_without_a_callback_warns_once(host: Host) -> None:
    for _ in range(2):
        await host.services.stream("{}", host.frame, None)
    assert [each.key for each in host.warnings.of("acme.notes")] == ["acme.notes|complete_stream|null_chunk"]
