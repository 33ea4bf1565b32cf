"""The protocol of agents that run elsewhere, call by call: leases, fences, deliveries, and what is closed when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import beeos_sdk as sdk
import httpx
import psycopg
import pytest

from fairlead import App, agents
from fairlead.agents.models.script import ScriptModel
from fairlead.gateway.agents import own_agents
from fairlead.gateway.registration import CONFIRMED, SLACK
from fairlead.gateway.remote_reaper import reap
from fairlead.tasks import ledger
from gateway.site_under_test import OWNER, PATIENCE, SCOPED, STRANGER, Site, add_keys, build, serving
from servers import until

LEASE = 30.0
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
AUTH = {"Authorization": f"Bearer {OWNER}"}


class Agent:
    """One registration, spoken for by hand."""

    def __init__(self, client: httpx.Client, name: str = "far", **about: Any) -> None:
        self._client = client
        self._at = f"/runtime/registrations/{name}"
        answer = client.post("/runtime/registrations", json={"name": name, "leaseSeconds": LEASE, **about})
        assert answer.status_code == 201, answer.text
        self.told = answer.json()["data"]

    def call(self, path: str, **body: Any) -> httpx.Response:
        return self._client.post(f"{self._at}/{path}", json={"leaseId": self.told["leaseId"], **body})

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.call(path, **body)
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["data"]
        return data

    def read(self, **body: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("deliveries/read", **{"blockMs": 0, **body})["deliveries"]
        return found

    def say(self, delivery: str, batch: str, text: str) -> dict[str, Any]:
        return self.ask(f"deliveries/{delivery}/say", batch=batch, events=[{"type": "delta", "text": text}])

    def reply(self, delivery: str, text: str) -> dict[str, Any]:
        return self.ask(f"deliveries/{delivery}/reply", status="completed", text=text)


@pytest.fixture
def client(site: Site) -> Iterator[httpx.Client]:
    with site.raw() as made:
        yield made


def status(site: Site, id: str, agent: str = "far") -> tuple[str, str | None]:
    task = site.tasks().get_task(agent, id).data
    return task.status, task.error


def test_a_registration_has_a_lease_that_heartbeats_renew(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    assert {key: agent.told[key] for key in ("status", "agentId", "epoch", "leaseSeconds")} == {
        "status": "active", "agentId": "far", "epoch": 1, "leaseSeconds": LEASE,
    }  # fmt: skip
    assert agent.told["heartbeatIntervalMs"] == 10_000
    assert agent.ask("heartbeat")["status"] == "renewed"
    assert agent.ask("unregister")["status"] == "offline"
    assert client.post("/agents/far/tasks", json={"message": "x"}).status_code == 503


def test_a_newer_registration_fences_the_older_and_no_late_word_counts(
    site: Site, client: httpx.Client
) -> None:
    old = Agent(client, mode="queue")
    id = site.create("far", "hello")
    [first] = old.read()
    old.ask("deliveries/ack", deliveries=[first["deliveryId"]])
    old.say(first["deliveryId"], "1", "early ")
    new = Agent(client, mode="queue")
    assert new.told["epoch"] == 2
    for path, body in (
        ("heartbeat", {}),
        ("deliveries/read", {"blockMs": 0}),
        ("deliveries/renew", {"deliveries": [first["deliveryId"]]}),
        (f"deliveries/{first['deliveryId']}/say", {"batch": "2", "events": []}),
        (f"deliveries/{first['deliveryId']}/reply", {"status": "completed", "text": "late"}),
        ("unregister", {}),
    ):
        refused = old.call(path, **body)
        assert (refused.status_code, refused.json()["error"]["metadata"]["reason"]) == (409, "fenced"), path
    [again] = new.read()
    assert (again["taskId"], again["attempt"], again["redelivered"]) == (id, 2, True)
    # Its predecessor's delivery is not the newer one's to end, either.
    assert new.reply(first["deliveryId"], "wrong")["stopped"][0]["reason"] == "lost"
    assert new.reply(again["deliveryId"], "right") == {"status": "accepted", "stopped": []}
    assert site.ended("far", id).result == "right"


def test_a_word_that_is_said_twice_counts_once(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    id = site.create("far", "hello")
    [task] = agent.read()
    for _ in range(2):
        assert agent.say(task["deliveryId"], "1", "one ")["status"] == "accepted"
    agent.say(task["deliveryId"], "2", "two")
    for _ in range(2):
        assert agent.reply(task["deliveryId"], "one two")["status"] == "accepted"
    found = client.get(f"/agents/far/tasks/{id}/messages", params={"include_deltas": "true"}).json()["data"]
    pieces = [each["payload"]["text"] for each in found["messages"] if each["type"] == "agent_reply_delta"]
    assert pieces == ["one ", "two"]
    assert [each["type"] for each in found["messages"]].count("agent_reply") == 1


def test_what_is_cancelled_is_told_with_the_next_word(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    ids = [site.create("far", str(at)) for at in range(4)]
    tasks = {each["taskId"]: each["deliveryId"] for each in agent.read(maxCount=4)}
    for id in ids:
        site.tasks().cancel_task("far", id)
    one, two, three, four = (tasks[id] for id in ids)
    assert agent.say(one, "1", "x")["stopped"] == [{"deliveryId": one, "reason": "canceled"}]
    renewed = agent.ask("deliveries/renew", deliveries=[two])
    assert (renewed["renewed"], renewed["stopped"]) == ([], [{"deliveryId": two, "reason": "canceled"}])
    told = agent.ask("deliveries/read", holding=[three], blockMs=60_000)
    assert told["stopped"] == [{"deliveryId": three, "reason": "canceled"}]
    assert agent.reply(four, "late") == {
        "status": "stopped", "stopped": [{"deliveryId": four, "reason": "canceled"}],
    }  # fmt: skip
    assert {status(site, id)[0] for id in ids} == {"canceled"}


def test_a_delivery_whose_answer_was_lost_is_in_the_next_read(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    site.create("far", "hello")
    [lost] = agent.read(holding=[])
    [found] = agent.read(holding=[])
    assert (found["deliveryId"], found["redelivered"]) == (lost["deliveryId"], True)
    assert agent.read(holding=[found["deliveryId"]]) == []


def test_a_reader_who_hung_up_takes_nothing(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    asked = {"leaseId": agent.told["leaseId"], "blockMs": 60_000}
    with pytest.raises(httpx.ReadTimeout), site.raw() as hasty:
        hasty.post("/runtime/registrations/far/deliveries/read", json=asked, timeout=0.3)
    id = site.create("far", "hello")
    [task] = agent.read(blockMs=5000)
    assert (task["taskId"], task["attempt"]) == (id, 1)


def test_a_gateway_that_is_about_to_stop_sends_its_readers_elsewhere(app: App) -> None:
    http = app.http()
    with (
        serving(http) as url,
        httpx.Client(base_url=f"{url}/api/v1", headers=AUTH, timeout=PATIENCE) as client,
    ):
        agent = Agent(client)
        threading.Timer(0.1, lambda: setattr(http, "draining", True)).start()
        assert agent.read(blockMs=60_000) == []
        refused = agent.call("deliveries/read", blockMs=60_000)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_what_is_released_is_taken_again_and_was_no_attempt(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    id = site.create("far", "hello")
    [first] = agent.read()
    agent.ask("deliveries/release", deliveries=[first["deliveryId"]])
    [second] = agent.read()
    assert (second["taskId"], second["attempt"]) == (id, 1)
    agent.ask("unregister")
    [third] = Agent(client).read()
    assert (third["taskId"], third["attempt"]) == (id, 1)


def test_an_agent_that_is_removed_is_not_there_any_more(site: Site, client: httpx.Client) -> None:
    agent = Agent(client, mode="queue")
    site.create("far", "hello")
    assert agent.ask("unregister", remove=True)["status"] == "removed"
    assert client.get("/agents/far").status_code == 404
    assert agent.call("heartbeat").status_code == 409
    assert Agent(client).told["epoch"] == 1
    assert agent.call("heartbeat").status_code == 409


def test_a_read_that_still_waits_when_its_registration_ends_takes_nothing(
    site: Site, client: httpx.Client
) -> None:
    agent = Agent(client, mode="queue")
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(agent.call, "deliveries/read", blockMs=30_000)
        agent.ask("unregister")
        id = site.create("far", "hello")
        refused = reading.result(PATIENCE)
    assert (refused.status_code, refused.json()["error"]["metadata"]["reason"]) == (409, "fenced")
    assert agent.call("deliveries/read", blockMs=0).status_code == 409
    assert status(site, id)[0] == "queued"


def test_a_word_that_crosses_the_end_of_its_registration_does_not_renew_it(
    postgres_url: str, tmp_path: Path
) -> None:
    app = build(postgres_url, tmp_path)
    add_keys(app)
    with (
        closing(app.store),
        serving(app.http()) as url,
        Site(url, tmp_path).raw() as client,
        closing(psycopg.connect(postgres_url)) as holder,
        closing(psycopg.connect(postgres_url, autocommit=True)) as observer,
        ThreadPoolExecutor(2) as beside,
    ):
        agent = Agent(client)
        holder.execute("SELECT 1 FROM agents FOR UPDATE")
        asked = []
        # Both are stopped in the middle, and go on in this order.
        for word in ("unregister", "heartbeat"):
            asked.append(beside.submit(agent.call, word))
            until(lambda: observer.execute(_WAITING).fetchone() == (len(asked),), f"{word} does not wait")
        holder.rollback()
        assert [each.result(PATIENCE).status_code for each in asked] == [200, 409]
        offline = client.post("/agents/far/invoke", json={"message": "hello", "timeout_ms": 100})
        assert (offline.status_code, offline.json()["error"]["message"]) == (503, "agent is offline")


def test_others_cannot_speak_for_an_agent(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    lease = {"leaseId": agent.told["leaseId"]}
    with site.raw(STRANGER) as stranger, site.raw(None) as nobody:
        assert stranger.post("/runtime/registrations/far/heartbeat", json=lease).status_code == 409
        assert nobody.post("/runtime/registrations/far/heartbeat", json=lease).status_code == 401


def test_words_that_make_no_sense_are_refused(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    site.create("far", "hello")
    [task] = agent.read()
    at = f"deliveries/{task['deliveryId']}"
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("heartbeat", {"leaseId": None}),
        ("heartbeat", {"leaseId": "x"}),
        ("deliveries/read", {"maxCount": -1}),
        ("deliveries/read", {"blockMs": "long"}),
        ("deliveries/read", {"holding": ["x"]}),
        ("deliveries/ack", {"deliveries": "all"}),
        (f"{at}/say", {"events": []}),
        (f"{at}/say", {"batch": "1", "events": [{"type": "shout"}]}),
        (f"{at}/say", {"batch": "1", "events": [{"type": "delta", "text": 1}]}),
        (f"{at}/reply", {"status": "done"}),
        (f"{at}/reply", {"status": "input_required"}),
        (f"{at}/reply", {"status": "input_required", "question": "?", "options": [1]}),
    ]
    assert [agent.call(path, **body).status_code for path, body in wrong] == [400] * len(wrong)
    assert agent.reply(task["deliveryId"], "fine")["status"] == "accepted"


def test_names_that_no_database_keeps_are_refused(site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    site.create("far", "hello")
    [task] = agent.read()
    wrong = [f"{task['deliveryId']}\x00", "\x00.1", "0.0.1"]
    assert [agent.call("deliveries/ack", deliveries=[each]).status_code for each in wrong] == [400] * 3
    assert client.post("/runtime/registrations/%00/heartbeat", json={"leaseId": "1-x"}).status_code == 400
    assert agent.call("heartbeat", leaseId="1-\x00").status_code == 400
    assert agent.call("heartbeat", leaseId="1-x").status_code == 409
    assert agent.reply(task["deliveryId"], "fine")["status"] == "accepted"


def reaped(app: App, after: float, quiet: float = 1000.0) -> int:
    own = own_agents(app)
    closed: int = app.store.write_now(lambda tx: reap(tx, app.wall() + after, quiet, own))
    return closed


def test_a_turn_of_a_lost_agent_is_closed_when_its_lease_has_ended(
    app: App, site: Site, client: httpx.Client
) -> None:
    agent = Agent(client)
    id = site.create("far", "hello")
    [task] = agent.read()
    agent.ask("deliveries/ack", deliveries=[task["deliveryId"]])
    assert reaped(app, LEASE - 5) == 0
    assert reaped(app, LEASE + 5, quiet=LEASE - 1) == 0, (
        "nobody could renew while nobody was there to hear it"
    )
    assert reaped(app, LEASE + 5) == 1
    ended, words = status(site, id)
    assert ended == "failed"
    assert words is not None
    assert words.startswith("agent_lost")
    assert agent.reply(task["deliveryId"], "late")["stopped"][0]["reason"] == "failed"
    last = client.get(f"/agents/far/tasks/{id}/messages").json()["data"]["messages"][-1]
    assert (last["type"], last["stop_reason"]) == ("agent_reply_error", "agent_lost")


def test_a_delivery_that_was_never_confirmed_is_no_attempt(
    app: App, site: Site, client: httpx.Client
) -> None:
    agent = Agent(client)
    id = site.create("far", "hello")
    agent.read()
    assert reaped(app, CONFIRMED + 1) == 1
    task = app.store.read_now(lambda tx: ledger.find(tx, id))
    assert task is not None
    assert (task.state, task.worker, task.attempt) == ("running", None, 0)


def test_what_a_push_agent_never_took_is_closed_when_it_stays_away(
    app: App, site: Site, client: httpx.Client
) -> None:
    agent = Agent(client)
    waiting = Agent(client, "line", mode="queue")
    ids = site.create("far", "hello"), site.create("line", "hello")
    agent.ask("unregister")
    waiting.ask("unregister")
    assert reaped(app, LEASE - 5) == 0, "it may come back"
    assert reaped(app, LEASE + 5) == 1
    assert (status(site, ids[0])[0], status(site, ids[1], "line")[0]) == ("failed", "queued")


@pytest.mark.parametrize("mode", ["queue", "push"])
def test_what_waits_for_an_agent_whose_id_the_app_took_over_is_closed(
    app: App, site: Site, client: httpx.Client, mode: str
) -> None:
    agent = Agent(client, "line", mode=mode)
    id = site.create("line", "hello")
    app.add(agents.Agent("line", model=ScriptModel(["Hello."]), instructions="You answer.").action)
    assert reaped(app, LEASE - 5) == 0, "whoever runs it may still take it"
    agent.ask("unregister")
    site.agents().update_agent("line", sdk.UpdateAgentRequest(visibility="public"))
    assert reaped(app, LEASE + 5, quiet=LEASE - 1) == 0
    assert reaped(app, LEASE + 5) == 1
    ended, words = status(site, id, "line")
    assert (ended, str(words).partition(":")[0]) == ("failed", "agent_lost")


def test_the_engine_itself_says_that_the_agent_was_lost(app: App, site: Site, client: httpx.Client) -> None:
    agent = Agent(client)
    id = site.create("far", "hello")
    [task] = agent.read()
    agent.ask("deliveries/ack", deliveries=[task["deliveryId"]])
    later = app.wall() + LEASE + SLACK + 5
    assert app.store.write_now(lambda tx: ledger.recover(tx, later, 1.0)) == 1
    assert str(status(site, id)[1]).startswith("agent_lost")


def test_a_key_for_some_agents_registers_those_alone(site: Site) -> None:
    with site.raw(SCOPED) as client:
        assert client.post("/runtime/registrations", json={"name": "far"}).status_code == 403
