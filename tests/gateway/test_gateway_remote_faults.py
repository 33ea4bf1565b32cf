"""Agents and gateways that are killed, and agents that are stopped: nothing accepted is lost, no end comes twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import pytest
from httpx_sse import connect_sse

from fairlead import App
from gateway import agent_under_test, site_under_test
from gateway.site_under_test import OWNER, PATIENCE, Site, await_server
from servers import free_port
from warm import Warm

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path, warm_python: Warm) -> Iterator[Start]:
    """Start the agent in a process of its own."""
    begun: list[subprocess.Popen[bytes]] = []

    def begin(url: str, mode: str = "push", lease: float = 1.5) -> subprocess.Popen[bytes]:
        begun.append(agent_under_test.process(warm_python, url, OWNER, "far", tmp_path, mode, lease))
        return begun[-1]

    yield begin
    for each in begun:
        killed(each)
        if each.stdout is not None:
            each.stdout.close()


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(PATIENCE)


class Gateway:
    """The site in a process of its own, at an address that stays."""

    def __init__(self, warm: Warm, store: str, folder: Path) -> None:
        self._warm = warm
        self._port = free_port()
        self._store, self._folder = store, folder
        self.url = f"http://127.0.0.1:{self._port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = site_under_test.process(self._warm, "serve", self._store, self._folder, self._port)
        await_server(self.url)

    def kill(self) -> None:
        if self.process is not None:
            killed(self.process)


@pytest.fixture
def gateway(app: App, store_url: str, tmp_path: Path, warm_python: Warm) -> Iterator[Gateway]:
    made = Gateway(warm_python, store_url, tmp_path)
    made.start()
    yield made
    made.kill()


def words(failure: sdk.exceptions.ApiException) -> str:
    assert failure.data is not None
    message: str = failure.data.error.message
    return message


def ends(site: Site, id: str) -> list[dict[str, Any]]:
    """The ends that a task's log has, and a look at its offsets."""
    with site.raw() as client:
        found = client.get(f"/agents/far/tasks/{id}/messages", params={"limit": 500}).json()["data"][
            "messages"
        ]
    offsets = [each["offset"] for each in found]
    assert offsets == sorted(set(offsets))
    return [each for each in found if each.get("stop_reason")]


def test_a_killed_push_agent_leaves_its_turns_as_lost(site: Site, start: Start) -> None:
    agent = start(site.url)
    id = site.create("far", "slow one")
    failures: list[sdk.exceptions.ApiException] = []

    def ask() -> None:
        try:
            site.agents().invoke_agent("far", sdk.InvokeAgentRequest(message="slow two"))
        except sdk.exceptions.ApiException as failure:
            failures.append(failure)

    asking = threading.Thread(target=ask)
    asking.start()
    for name in ("one", "two"):
        site.seen(f"begun-{name}")
    killed(agent)
    asking.join(PATIENCE)
    assert [(each.status, words(each)) for each in failures] == [(503, "agent was lost")]
    ended = site.ended("far", id)
    assert (ended.status, ended.error[:10]) == ("failed", "agent_lost")
    assert [each["stop_reason"] for each in ends(site, id)] == ["agent_lost"]
    with pytest.raises(sdk.exceptions.ServiceException):
        site.create("far", "nobody is there")
    start(site.url)
    assert site.ended("far", site.create("far", "hello")).result == "You said: hello"


def test_the_turn_of_a_killed_queue_agent_is_taken_by_the_next_one(site: Site, start: Start) -> None:
    agent = start(site.url, "queue")
    ids = [site.create("far", f"slow {name}") for name in ("one", "two", "three")]
    site.seen("begun-one-1")
    killed(agent)
    for name in ("one", "two", "three"):
        site.leave(f"go-{name}")
    start(site.url, "queue")
    results = [site.ended("far", id).result for id in ids]
    assert results == ["done one", "done two", "done three"]
    assert sorted((site.folder / "done").read_text().split()) == ["one", "three", "two"]
    assert [len(ends(site, id)) for id in ids] == [1, 1, 1]


def test_a_killed_gateway_is_waited_for_and_the_turn_goes_on(
    gateway: Gateway, tmp_path: Path, start: Start
) -> None:
    site = Site(gateway.url, tmp_path)
    start(site.url)
    ids = [site.create("far", f"slow {name}") for name in ("one", "two")]
    for name in ("one", "two"):
        site.seen(f"begun-{name}")
    gateway.kill()
    site.leave("go-one")
    gateway.start()
    site.leave("go-two")
    assert [site.ended("far", id).result for id in ids] == ["done one", "done two"]
    assert sorted((tmp_path / "done").read_text().split()) == ["one", "two"]
    assert [len(ends(site, id)) for id in ids] == [1, 1]


async def test_an_agent_says_in_one_line_that_it_waits_for_its_gateway(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def ask() -> str:
        request = sdk.InvokeAgentRequest(message="hello")
        return str(Site(gateway.url, tmp_path).agents().invoke_agent("far", request).data.text)

    async with agent_under_test.worker(gateway.url, OWNER, "far", tmp_path):
        assert gateway.process is not None
        gateway.process.terminate()
        await asyncio.to_thread(gateway.process.wait, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while not caplog.records:  # noqa: ASYNC110  # the log tells nobody
                await asyncio.sleep(agent_under_test.LOOK)
        await asyncio.to_thread(gateway.start)
        assert await asyncio.to_thread(ask) == "You said: hello"
    told = [each for each in caplog.records if each.name == "fairlead"]
    assert all("waits for its gateway" in each.message for each in told)
    assert [line for each in told for line in caplog.handler.format(each).splitlines()[1:]] == []


def test_work_survives_the_deaths_of_all_who_do_it(gateway: Gateway, tmp_path: Path, start: Start) -> None:
    site = Site(gateway.url, tmp_path)
    agent = start(site.url, "queue")
    names = [f"n{at}" for at in range(6)]
    ids = [site.create("far", f"slow {name}") for name in names]
    site.seen("begun-n0")
    killed(agent)
    gateway.kill()
    gateway.start()
    agent = start(site.url, "queue")
    for name in names[:3]:
        site.leave(f"go-{name}")
    site.seen("begun-n3")
    gateway.kill()
    killed(agent)
    for name in names[3:]:
        site.leave(f"go-{name}")
    gateway.start()
    start(site.url, "queue")
    assert [site.ended("far", id).result for id in ids] == [f"done {name}" for name in names]
    assert [len(ends(site, id)) for id in ids] == [1] * 6


@pytest.mark.parametrize("bus", ["database", "nats"])
def test_an_agent_at_one_gateway_serves_the_callers_of_another(
    bus: str,
    store_url: str,
    tmp_path: Path,
    start: Start,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if bus == "nats":
        monkeypatch.setenv("FAIRLEAD_BUS_URL", request.getfixturevalue("nats").url)
    other: Gateway = request.getfixturevalue("gateway")
    site: Site = request.getfixturevalue("site")
    start(other.url)
    with (
        site.raw() as client,
        connect_sse(
            client,
            "POST",
            "/agents/far/invoke",
            json={"message": "stream s1"},
            headers={"Accept": "text/event-stream"},
        ) as source,
    ):
        frames = source.iter_sse()
        assert [next(frames).json()["text"] for _ in range(2)] == ["Hmm.", "one "]
        site.leave("go-s1")
        assert [each.json()["text"] for each in frames] == ["two", "one two"]
    id = site.create("far", "slow c1")
    site.seen("begun-c1")
    site.tasks().cancel_task("far", id)
    site.seen("stopped-c1")
    id = site.create("far", "ask")
    site.until("far", id, "agent.input_required")
    for word in ("red", "yes"):
        while site.tasks().get_task("far", id).data.status != "input_required":
            pass
        site.tasks().continue_task("far", id, sdk.ContinueTaskRequest(input=word))
    assert site.ended("far", id).result == "red, yes"


def test_a_stopped_agent_ends_what_it_has_and_takes_no_more(site: Site, start: Start) -> None:
    agent = start(site.url)
    id = site.create("far", "slow one")
    site.seen("begun-one")
    agent.send_signal(signal.SIGTERM)
    with site.raw() as client:
        while client.post("/agents/far/tasks", json={"message": "hello"}).status_code != 503:
            pass
    assert agent.poll() is None
    site.leave("go-one")
    assert agent.wait(PATIENCE) == 0
    assert site.ended("far", id).result == "done one"
