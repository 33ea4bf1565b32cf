"""What plugins log: levels, payloads, what is kept of it, and what happens when there is too much."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fairlead._json import dumps
from fairlead.plugins import slots
from fairlead.plugins.logs import LONGEST, LONGEST_BODY, MOST_WAITING, TOPIC, Insights, Wanted
from fairlead.store import Store, open_store
from plugins.plugin_host import ANN, Host


@pytest.fixture
def store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(secrets.token_bytes(32)).decode())
    with open_store(url=store_url) as store:
        yield store


@pytest.fixture
async def host(store: Store, tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(store, tmp_path)
    yield host
    await host.close()


@pytest.mark.parametrize(
    ("level", "name", "status"),
    [
        ("0", "TRACE", 200),
        ("1", "DEBUG", 200),
        ("2", "INFO", 200),
        ("3", "WARN", 299),
        ("4", "ERROR", 500),
        ("5", "LOG", 200),
        ("-7", "LOG", 200),
        ("odd", "LOG", 200),
    ],
)
async def test_a_level_has_its_name_and_its_status(host: Host, level: str, name: str, status: int) -> None:
    await host.ask(slots.LOG, level, "started")
    (line,) = await host.lines()
    assert (line.title, line.status) == (f"LOG [{name}] started", status)
    assert (line.plugin, line.agent) == ("acme.notes", ANN)
    assert line.to_dict()["level"] == name


async def test_a_line_may_come_from_nobody(host: Host) -> None:
    await host.ask(slots.LOG, "2", "started", agent=None)
    assert [line.agent for line in await host.lines()] == [None]


async def test_a_payload_is_the_body_of_its_line(host: Host) -> None:
    await host.ask(slots.LOG_STRUCTURED, "2", "Webhook registered", '{"event":"hook","http":{"status":200}}')
    (line,) = await host.lines()
    assert line.title == "LOG [INFO] Webhook registered"
    assert line.body == '{"event":"hook","http":{"status":200}}'
    assert line.to_dict()["fields"] == {"event": "hook", "http.status": "200"}


async def test_without_a_payload_it_is_a_plain_line(host: Host) -> None:
    await host.ask(slots.LOG, "2", "same")
    await host.ask(slots.LOG_STRUCTURED, "2", "same", None)
    plain, structured = await host.lines()
    assert plain._replace(id="", at=0) == structured._replace(id="", at=0)
    assert plain.body == "same"


@pytest.mark.parametrize("payload", ["not json", "[1, 2]", '"text"', "{", "", "5"])
async def test_a_payload_is_not_judged(host: Host, payload: str) -> None:
    await host.ask(slots.LOG_STRUCTURED, "2", "odd", payload)
    (line,) = await host.lines()
    assert line.message == "odd"
    assert line.to_dict()["fields"] == {}


async def test_secrets_are_hidden_in_words_and_in_fields(host: Host) -> None:
    await host.ask(slots.LOG, "2", "password=hunter2 failed")
    await host.ask(slots.LOG_STRUCTURED, "2", "tried", '{"api_key": "abcdef", "user": "ann"}')
    plain, structured = await host.lines()
    assert plain.message == "password=[REDACTED] failed"
    assert structured.to_dict()["fields"] == {"api_key": "[REDACTED]", "user": "ann"}
    assert await host.insights.page(Wanted(text="hunter2")) == []
    assert await host.insights.page(Wanted(text="abcdef")) == []


async def test_lines_have_the_order_in_which_they_came(store: Store, tmp_path: Path) -> None:
    insights = Insights(store, clock=lambda: 1_700_000_000.0)
    host = Host(store, tmp_path, insights=insights)
    for number in range(50):
        await host.ask(slots.LOG, "2", str(number))
    assert [line.message for line in await host.lines()] == [str(number) for number in range(50)]
    await host.close()


async def test_a_long_line_is_cut(host: Host) -> None:
    await host.ask(slots.LOG_STRUCTURED, "2", "é" * (LONGEST + 10), "x" * (LONGEST_BODY + 10))
    (line,) = await host.lines()
    assert (len(line.message), len(line.body)) == (LONGEST, LONGEST_BODY)


@pytest.mark.parametrize("after", [0, 1, 20, 39, 5000, 3_000_000])
async def test_a_secret_where_a_line_is_cut_is_hidden_whole(host: Host, after: int) -> None:
    secret = "tango-walrus-orchid-harbour-7741-velvet"
    host.insights.hide(host.plugin, secret)
    key = "sk-ant-api03-" + "Ab1" * 30
    for start in (1, 10, len(secret)):
        for word in (secret, key):
            words = [" " * (longest - start) + word + " " * after for longest in (LONGEST, LONGEST_BODY)]
            await host.ask(slots.LOG_STRUCTURED, "2", *words)
    for line in await host.lines():
        assert len(line.message) <= LONGEST
        assert len(line.body) <= LONGEST_BODY
        assert {"[REDACTED]".startswith(each.strip()) for each in (line.message, line.body)} == {True}


async def test_what_is_hidden_brings_no_half_of_another_secret_into_a_line(host: Host) -> None:
    secret, other = "tango-" * 1000, "walrus-orchid-harbour-7741"
    for each in (secret, other):
        host.insights.hide(host.plugin, each)
    await host.ask(slots.LOG, "2", secret + (other + " ") * 1000)
    (line,) = await host.lines()
    assert "walrus" not in line.message


async def test_characters_that_no_database_keeps_are_replaced(host: Host) -> None:
    await host.ask(slots.LOG_STRUCTURED, "2", "half \ud800", dumps({"zero": "a\x00b"}))
    (line,) = await host.lines()
    assert line.message == "half ?"


async def test_a_plugin_that_logs_too_much_loses_lines_and_is_told_how_many(
    store: Store, tmp_path: Path
) -> None:
    insights = Insights(store)
    loud, quiet = (Host(store, tmp_path, plugin, insights=insights) for plugin in ("loud", "quiet"))
    # As a plugin in a hurry does: nobody writes meanwhile.
    with insights._writing:
        for number in range(MOST_WAITING + 25):
            loud.services.call(slots.LOG, ("2", str(number)), loud.frame)
        quiet.services.call(slots.LOG, ("2", "still heard"), quiet.frame)
    insights.flush()
    assert await insights.plugins() == {"loud": MOST_WAITING + 1, "quiet": 1}
    newest, *_ = await insights.page(Wanted(plugin="loud"), most=1)
    assert newest.message.startswith("25 lines were lost")
    assert newest.level == 3
    await loud.close()


async def test_old_lines_and_those_beyond_the_most_are_forgotten(store: Store, tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    insights = Insights(store, clock=lambda: now[0], kept=5, kept_for=3600)
    host = Host(store, tmp_path, insights=insights)
    await host.ask(slots.LOG, "2", "old")
    insights.flush()
    now[0] += 4000
    for number in range(4):
        await host.ask(slots.LOG, "2", f"new {number}")
    assert [line.message for line in await host.lines()] == [f"new {number}" for number in range(4)]
    now[0] += 100
    for number in range(4, 9):
        await host.ask(slots.LOG, "2", f"new {number}")
    assert [line.message for line in await host.lines()] == [f"new {number}" for number in range(4, 9)]
    await host.close()


async def test_lines_reach_the_program_s_own_log_too(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="fairlead.plugins"):
        await host.ask(slots.LOG, "1", "password=hunter2")
        await host.ask(slots.LOG, "4", "broken\n\x1b[2J")
        await host.lines()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "acme.notes: password=[REDACTED]"),
        ("ERROR", r"acme.notes: broken\x0a\x1b[2J"),
    ]


async def test_lines_are_written_without_being_asked_for(host: Host) -> None:
    with host.store.listening(TOPIC) as bell:
        await host.ask(slots.LOG, "2", "by itself")
        async with asyncio.timeout(20):
            while not (lines := await host.insights.page()):
                await bell.rung()
    assert [line.message for line in lines] == ["by itself"]


async def test_a_line_after_the_store_was_closed_is_no_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        insights = Insights(store)
    insights.log("p", None, 2, "too late")
    await asyncio.to_thread(insights.close)
    assert caplog.records == []
