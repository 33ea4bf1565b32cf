"""Insights: lines are found by what they are and what they say, followed as they come, and shown on a terminal."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.plugins.logs import MOST_LISTED, Insights, Line, Wanted, level_of
from fairlead.store import Store, open_store
from fairlead.surfaces.cli import run
from fairlead.surfaces.cli.console import Console
from plugins.plugin_host import ANN, BOB

PATIENCE = 30.0
NOW = 1_700_000_000.0


@pytest.fixture
def store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(secrets.token_bytes(32)).decode())
    with open_store(url=store_url) as store:
        yield store


@pytest.fixture
async def insights(store: Store) -> AsyncIterator[Insights]:
    insights = Insights(store)
    yield insights
    await asyncio.to_thread(insights.close)


def fill(insights: Insights) -> None:
    insights.log(
        "acme.notes", ANN, 2, "Webhook registered", '{"event":"hook","status":200,"http":{"code":20}}'
    )
    insights.log("acme.notes", BOB, 3, "Slow answer: 100% of a_b", '{"event":"slow","status":2001}')
    insights.log("acme.mail", ANN, 4, "Mailbox is FULL")
    insights.call("acme.mail", None, "POST /host-api/dispatch", 202, None, 1.5)
    insights.flush()


async def found(insights: Insights, **wanted: Any) -> list[str]:
    return [line.message for line in reversed(await insights.page(Wanted(**wanted)))]


NOTES = ["Webhook registered", "Slow answer: 100% of a_b"]
MAIL = ["Mailbox is FULL", "/host-api/dispatch"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, NOTES + MAIL),
        ({"plugin": "acme.notes"}, NOTES),
        ({"plugin": "acme"}, []),
        ({"agent": ANN}, [NOTES[0], MAIL[0]]),
        ({"level": 3}, [NOTES[1], MAIL[0]]),
        ({"level": 4}, [MAIL[0]]),
        ({"text": "webhook"}, [NOTES[0]]),
        ({"text": "full MAILBOX"}, [MAIL[0]]),
        ({"text": '"is full"'}, [MAIL[0]]),
        ({"text": '"full is"'}, []),
        ({"text": "event=hook"}, [NOTES[0]]),
        ({"text": "EVENT=Hook"}, [NOTES[0]]),
        ({"text": "status=200"}, [NOTES[0]]),
        ({"text": "status=20"}, []),
        ({"text": "http.code=20"}, [NOTES[0]]),
        ({"text": "100%"}, [NOTES[1]]),
        ({"text": "a_b"}, [NOTES[1]]),
        ({"text": "axb"}, []),
        ({"text": "dispatch", "plugin": "acme.mail"}, [MAIL[1]]),
        ({"text": "plugin=acme.mail"}, MAIL),
        ({"text": "'; DROP TABLE insights; --"}, []),
        ({"since": 4_000_000_000.0}, []),
    ],
)
async def test_lines_are_found_by_what_they_are_and_what_they_say(
    insights: Insights, wanted: dict[str, Any], expected: list[str]
) -> None:
    fill(insights)
    assert await found(insights, **wanted) == expected


async def test_pages_go_on_where_the_last_one_ended(insights: Insights) -> None:
    for number in range(7):
        insights.log("p", None, 2, str(number))
    insights.flush()
    first = await insights.page(most=3)
    second = await insights.page(most=3, before=first[-1].id)
    third = await insights.page(most=3, before=second[-1].id)
    assert [line.message for line in (*first, *second, *third)] == list("6543210")


async def test_a_line_as_json_has_its_time_its_level_and_its_fields(insights: Insights) -> None:
    fill(insights)
    line = (await insights.page(Wanted(text="webhook")))[0].to_dict()
    assert set(line) == {
        "id",
        "time",
        "plugin",
        "agent",
        "level",
        "method",
        "message",
        "status",
        "body",
        "took_ms",
        "title",
        "fields",
    }
    assert line["time"].endswith("Z")
    assert (line["level"], line["title"]) == ("INFO", "LOG [INFO] Webhook registered")


def test_levels_have_names() -> None:
    assert [level_of(name) for name in ("trace", "Debug", "INFO", "warn", "error", "odd")] == [
        0,
        1,
        2,
        3,
        4,
        None,
    ]


async def test_the_lines_of_a_plugin_can_be_forgotten(insights: Insights) -> None:
    fill(insights)
    insights.log("acme.notes", None, 2, "not written yet")
    assert await insights.forget("acme.notes") == 3
    assert await insights.plugins() == {"acme.mail": 2}


# Following


async def taken(lines: AsyncIterator[Line], count: int) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        return [(await anext(lines)).message for _ in range(count)]


async def test_followers_get_the_newest_lines_and_then_each_new_one(store: Store, insights: Insights) -> None:
    fill(insights)
    other = Insights(store)
    async with aclosing(insights.follow(first=2)) as lines:  # type: ignore[type-var]
        assert await taken(lines, 2) == MAIL
        insights.log("p", None, 2, "here")
        assert await taken(lines, 1) == ["here"]
        other.log("p", None, 2, "from another process")
        assert await taken(lines, 1) == ["from another process"]
    await asyncio.to_thread(other.close)


async def test_a_follower_misses_no_line_that_comes_a_moment_late(store: Store, insights: Insights) -> None:
    late = Insights(store, clock=lambda: NOW - 2)
    on_time = Insights(store, clock=lambda: NOW)
    on_time.log("p", None, 2, "first")
    on_time.flush()
    async with aclosing(insights.follow(first=1)) as lines:  # type: ignore[type-var]
        assert await taken(lines, 1) == ["first"]
        late.log("p", None, 2, "late")
        late.flush()
        assert await taken(lines, 1) == ["late"]
        on_time.log("p", None, 2, "next")
        on_time.flush()
        assert await taken(lines, 1) == ["next"]
    for each in (late, on_time):
        await asyncio.to_thread(each.close)


async def test_a_follower_gets_every_line_of_a_burst_in_order(insights: Insights) -> None:
    count = MOST_LISTED + 500
    async with aclosing(insights.follow(Wanted(plugin="p"), first=1)) as lines:  # type: ignore[type-var]
        insights.log("p", None, 2, "0")
        insights.flush()
        assert await taken(lines, 1) == ["0"]
        for number in range(1, count):
            insights.log("p", None, 2, str(number))
        assert await taken(lines, count - 1) == [str(number) for number in range(1, count)]


async def test_a_follower_gets_what_is_wanted_alone(insights: Insights) -> None:
    async with aclosing(insights.follow(Wanted(level=3, text="event=slow"), first=10)) as lines:  # type: ignore[type-var]
        fill(insights)
        assert await taken(lines, 1) == [NOTES[1]]
        fill(insights)
        assert await taken(lines, 1) == [NOTES[1]]


# The command line


class Terminal:
    """`fairlead insights` for an app whose plugins have left the lines above."""

    def __init__(self, folder: Path) -> None:
        self.app = App("desk", store=f"sqlite:///{folder}/desk.db")
        self.insights = Insights(self.app.store)
        fill(self.insights)
        self.said = io.StringIO()

    def __call__(self, *argv: str, tty: bool = False) -> tuple[int, str]:
        out = io.StringIO()
        if tty:
            out.isatty = lambda: True  # type: ignore[method-assign]
        with pytest.raises(SystemExit) as exit:
            run(self.app, ("insights", *argv), console=Console(io.StringIO(), out, self.said, {}))
        assert isinstance(exit.value.code, int)
        return exit.value.code, out.getvalue()

    def messages(self, *argv: str) -> list[str]:
        code, out = self(*argv)
        assert code == 0
        return [line["message"] for line in json.loads(out)]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.insights.close()
    terminal.app.store.close()


def test_the_command_lists_and_searches(terminal: Terminal) -> None:
    assert terminal.messages() == terminal.messages("list", "--json") == NOTES + MAIL
    assert terminal.messages("--plugin", "acme.mail") == MAIL
    assert terminal.messages("--level", "warn") == [NOTES[1], MAIL[0]]
    assert terminal.messages("--agent", BOB.lower()) == [NOTES[1]]
    assert terminal.messages("--since", "1h", "--limit", "1") == [MAIL[1]]
    assert terminal.messages("--since", "2999-01-01") == []
    assert terminal.messages("search", "event=hook") == [NOTES[0]]
    assert terminal.messages("search", "mailbox", "full", "--json") == [MAIL[0]]
    assert terminal.messages("search", "is full") == [MAIL[0]]
    assert terminal.messages("search", "full is") == []


def test_people_see_a_line_for_each(terminal: Terminal) -> None:
    terminal.insights.log("odd", None, 4, "\x1b[2J\nclear")
    terminal.insights.flush()
    code, out = terminal(tty=True)
    assert code == 0
    assert len(out.splitlines()) == 5
    assert "Webhook registered" in out
    assert "event=hook" in out
    assert "POST /host-api/dispatch" in out
    assert "\x1b[2J" not in out


def test_nothing_found_is_said(terminal: Terminal) -> None:
    assert terminal("search", "nowhere", tty=True) == (0, "")
    assert "Nothing was found." in terminal.said.getvalue()


@pytest.mark.parametrize(
    "argv",
    [
        ("--level", "loud"),
        ("--since", "soon"),
        ("--limit", "0"),
        ("search",),
        ("serch", "x"),
        ("list", "x"),
        ("--odd",),
    ],
)
def test_what_makes_no_sense_is_a_mistake_with_a_way_out(terminal: Terminal, argv: tuple[str, ...]) -> None:
    code, out = terminal(*argv)
    assert (code, out) == (2, "")
    assert terminal.said.getvalue().strip()


def test_following_prints_an_object_a_line_until_it_is_stopped(tmp_path: Path) -> None:
    with open_store(data=tmp_path) as store:
        insights = Insights(store)
        fill(insights)
        environ = {**os.environ, "FAIRLEAD_DATA": str(tmp_path)}
        command = [sys.executable, "-m", "fairlead", "insights", "follow", "--plugin", "acme.mail"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environ, cwd=tmp_path
        ) as process:
            assert process.stdout is not None
            assert [json.loads(process.stdout.readline())["message"] for _ in range(2)] == MAIL
            insights.log("acme.mail", None, 2, "and then")
            assert json.loads(process.stdout.readline())["message"] == "and then"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        insights.close()
