"""What goes on, for pages that show it: each owner sees what is theirs, and an admin all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.gateway.keys import Keys
from fairlead.store.statements import Statement
from gateway.site_under_test import Site, build, serving, working


class Desk:
    """A server with a worker, two owners and an admin."""

    def __init__(self, url: str, app: App, folder: Path) -> None:
        self.app = app
        self.site = Site(url, folder)
        self.keys = Keys(app.store, app.wall)
        self.ann, self.ann_key = self.keys.issue_now("ann's", owner="local", per_minute=100)
        self.bob, _ = self.keys.issue_now("bob's", owner="bob")
        self.root, _ = self.keys.issue_now("root", owner="root", permissions=["admin"])

    def get(self, path: str, key: str, status: int = 200) -> Any:
        with self.site.raw(key) as client:
            answer = client.get(f"/admin/{path}")
        assert answer.status_code == status, answer.text
        return answer.json()["data"] if status == 200 else answer.json()["error"]["code"]

    def create(self, agent: str, message: str, key: str | None = None) -> str:
        with self.site.raw(key or self.ann) as client:
            answer = client.post(f"/agents/{agent}/tasks", json={"message": message})
        assert answer.status_code == 202, answer.text
        id: str = answer.json()["data"]["task_id"]
        return id


@pytest.fixture
def desk(store_url: str, tmp_path: Path) -> Iterator[Desk]:
    app = build(store_url, tmp_path)
    with serving(app.http()) as url, working(app):
        yield Desk(url, app, tmp_path)
    app.store.close()


def test_agents_are_told_with_their_owner_and_visibility(desk: Desk) -> None:
    with desk.site.raw(desk.ann) as client:
        client.patch("/agents/echo", json={"visibility": "public"})
    agents = {each["id"]: each for each in desk.get("agents", desk.root)["agents"]}
    assert (agents["echo"]["visibility"], agents["memory"]["visibility"]) == ("public", "private")
    assert agents["echo"]["online"] is True
    assert len(desk.get("agents", desk.ann)["agents"]) == len(agents)
    assert desk.get("agents", desk.bob)["agents"] == []
    scoped, _ = desk.keys.issue_now("scoped", owner="local", agents=["echo"])
    assert [each["id"] for each in desk.get("agents", scoped)["agents"]] == ["echo"]


def test_a_live_task_is_told_with_its_timeline(desk: Desk) -> None:
    id = desk.create("slow", "w1")
    desk.site.seen("begun-w1")
    (live,) = desk.get("tasks", desk.root)["tasks"]
    assert (live["task_id"], live["agent_id"], live["owner"], live["status"]) == (
        id,
        "slow",
        "local",
        "running",
    )
    assert desk.get(f"tasks/{id}", desk.ann)["events"][0]["type"] == "started"
    desk.site.leave("go-w1")
    desk.site.ended("slow", id, desk.ann)
    assert desk.get("tasks", desk.root)["tasks"] == []
    told = desk.get(f"tasks/{id}", desk.root)
    assert told["status"] == "completed"
    assert told["events"][-1]["type"] == "terminal"
    offsets = [each["offset"] for each in told["events"]]
    assert offsets == sorted(set(offsets))
    assert "done w1" not in str(told)  # who looks after the gateway need not read along
    assert [each["task_id"] for each in desk.get("tasks?state=all", desk.root)["tasks"]] == [id]


def test_an_invoke_is_a_task_that_has_ended(desk: Desk) -> None:
    with desk.site.raw(desk.ann) as client:
        id = client.post("/agents/echo/invoke", json={"message": "hi"}).json()["data"]["context_id"]
        client.get(f"/agents/echo/tasks/{id}")  # which waits until it is written
    told = desk.get(f"tasks/{id}", desk.root)
    assert (told["kind"], told["status"]) == ("invoke", "completed")
    assert [each["type"] for each in told["events"]] == ["started", "terminal"]


def test_a_key_for_one_agent_is_shown_whole_pages_of_it(desk: Desk) -> None:
    scoped, _ = desk.keys.issue_now("scoped", owner="local", agents=["echo"])
    with desk.site.raw(desk.ann) as client:
        for agent, times in (("echo", 5), ("memory", 12)):
            for _ in range(times):
                assert client.post(f"/agents/{agent}/invoke", json={"message": "x"}).status_code == 200
        client.get("/tasks?state=all")  # it waits for what is about to be written
    tasks = desk.get("tasks?state=all&limit=3", scoped)["tasks"]
    assert [each["agent_id"] for each in tasks] == ["echo"] * 3
    lines: list[str] = []
    before: str | None = ""
    while before is not None:
        page = desk.get(f"audit?limit=2&before={before}", scoped)
        assert {each["agent"] for each in page["lines"]} <= {"echo"}
        lines += [each["id"] for each in page["lines"]]
        before = page["next_before"]
    assert len(set(lines)) == len(lines) == 5
    assert len(desk.get("audit", desk.ann)["lines"]) == 17


def test_a_strangers_task_is_as_unknown_as_none(desk: Desk) -> None:
    id = desk.create("echo", "hi")
    assert desk.get(f"tasks/{id}", desk.bob, 404) == "agent_not_found"
    assert desk.get("tasks/nothing", desk.root, 404) == "agent_not_found"
    assert desk.get("tasks?state=all", desk.bob)["tasks"] == []
    scoped, _ = desk.keys.issue_now("scoped", owner="local", agents=["memory"])
    assert desk.get(f"tasks/{id}", scoped, 404) == "agent_not_found"
    assert desk.get("tasks?state=all", scoped)["tasks"] == []


def test_deliveries_are_told_without_their_address_and_payload(desk: Desk) -> None:
    id = desk.create("echo", "hi")
    add = Statement.of(
        "INSERT INTO webhook_deliveries (id, webhook, task, number, renderer, payload, status, attempts, response, "
        "error, due, waiting, created, host) VALUES ('d1', 'w1', :task, 1, 'openapi', 'the payload', 'dead_letter', "
        "6, 500, 'http_status: 500', 1, 0, 1, 'hooks.example.com')"
    )
    hook = Statement.of(
        "INSERT INTO task_webhooks (id, task, url, renderer, created, seen, state, run, open) "
        "VALUES ('w1', :task, 'https://hooks.example.com/secret-path?token=1', 'openapi', 1, 9, 'completed', 1, 0)"
    )
    desk.app.store.write_now(lambda tx: (tx.run(hook, task=id), tx.run(add, task=id)))
    (told,) = desk.get("deliveries", desk.root)["deliveries"]
    assert (told["delivery_id"], told["status"], told["host"]) == ("d1", "dead_letter", "hooks.example.com")
    assert told["agent_id"] == "echo"
    assert "secret-path" not in str(told)
    assert "payload" not in str(told)
    assert desk.get("deliveries", desk.ann)["deliveries"] == [told]
    assert desk.get("deliveries", desk.bob)["deliveries"] == []
    for agent, seen in (("echo", [told]), ("memory", [])):
        scoped, _ = desk.keys.issue_now(agent, owner="local", agents=[agent])
        assert desk.get("deliveries", scoped)["deliveries"] == seen


def test_rates_tell_how_often_keys_were_used(desk: Desk) -> None:
    with desk.site.raw(desk.ann) as client:
        for _ in range(3):
            client.get("/agents")
    told = desk.get("rates", desk.ann)
    rate = next(each for each in told["rates"] if each["endpoint"] == "listAgents")
    assert (rate["key"], rate["lately"], rate["last_hour"], rate["limited"]) == ("ann's", 3, 3, 0)
    assert rate["rate_limit_per_minute"] == 100
    assert "process" not in told
    assert desk.get("rates", desk.root)["process"]["in_flight"] == 1
    assert all(each["owner"] == "bob" for each in desk.get("rates", desk.bob)["rates"])


def test_keys_are_told_by_owner(desk: Desk) -> None:
    assert [each["name"] for each in desk.get("keys", desk.ann)["keys"]] == ["ann's"]
    assert len(desk.get("keys", desk.root)["keys"]) == 3
    assert desk.ann not in str(desk.get("keys", desk.root))


@pytest.mark.parametrize(
    "path", ["tasks?state=running", "tasks?limit=0", "audit?since=x", "audit?before=%27"]
)
def test_a_wrong_question_is_refused(desk: Desk, path: str) -> None:
    assert desk.get(path, desk.root, 400) == "invalid_param"


def test_what_no_database_can_keep_is_asked_for_in_vain(desk: Desk) -> None:
    with desk.site.raw(desk.root) as client:
        assert client.get("/api-keys?owner=%00").status_code in (200, 400)
        for path in ("/admin/tasks/%00", "/admin/audit?before=%00", "/admin/audit?since=%00"):
            answer = client.get(path)
            assert answer.status_code in (400, 404)
            assert "store" not in answer.text
        assert client.delete("/api-keys/%00").status_code in (400, 404)
        body = {"name": "a\x00b"}
        assert client.post("/api-keys", json=body).status_code == 400
        body = {"filename": "a\x00b", "content_type": "text/plain"}
        assert client.post("/files/presign-upload", json=body).status_code == 400
        assert client.get("/files/%00").status_code in (400, 404)
