"""Who did what: lines that are written behind, kept in bounds, and hold nothing secret; and what `/metrics` counts."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead import App
from fairlead.gateway.audit import Audit
from fairlead.gateway.call import Caller
from fairlead.gateway.keys import Keys
from fairlead.store import Store, open_store
from fairlead.store.statements import Statement
from fairlead.surfaces.cli.console import Console
from fairlead.testing import FixedClock
from gateway.site_under_test import Site, build, serving


class Desk:
    """A server, with a caller and an admin."""

    def __init__(self, url: str, app: App, folder: Path) -> None:
        self.url = url
        self.app = app
        self.site = Site(url, folder)
        self.keys = Keys(app.store, app.wall)
        self.token, self.key = self.keys.issue_now("ann's", owner="local")
        self.bob, _ = self.keys.issue_now("bob's", owner="bob")
        self.root, _ = self.keys.issue_now("root", owner="root", permissions=["admin"])

    def post(self, path: str, body: Any, key: str | None = None, **headers: str) -> httpx.Response:
        with self.site.raw(key or self.token) as client:
            return client.post(path, json=body, headers=headers)

    def get(self, path: str, key: str | None = None) -> Any:
        with self.site.raw(key or self.root) as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def lines(self, key: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/admin/audit", key)["lines"]
        return found

    def metrics(self, key: str | None = None) -> dict[str, float]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        text = httpx.get(f"{self.url}/metrics", headers=headers).text
        rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in rows}


@pytest.fixture
def desk(store_url: str, tmp_path: Path) -> Iterator[Desk]:
    app = build(store_url, tmp_path)
    with serving(app.http()) as url:
        yield Desk(url, app, tmp_path)
    app.store.close()


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store("audit", url=store_url) as opened:
        yield opened


def test_what_changes_something_is_written_down(desk: Desk) -> None:
    desk.post("/agents/echo/invoke", {"message": "a secret word"}, **{"X-Request-Id": "req-1"})
    made = desk.post("/agents/echo/tasks", {"message": "another secret"}).json()["data"]["task_id"]
    (task, invoke) = desk.lines()
    assert (invoke["endpoint"], invoke["agent"], invoke["status"]) == ("invokeAgent", "echo", 200)
    assert (invoke["owner"], invoke["key_id"], invoke["request_id"]) == ("local", desk.key.id, "req-1")
    assert invoke["address"] == "127.0.0.1"
    assert (task["endpoint"], task["status"], task["target"]) == ("createTask", 202, made)
    spelled = json.dumps(desk.lines())
    assert "secret" not in spelled
    assert desk.token[4:] not in spelled


def test_what_only_looks_is_not_but_what_is_refused_is(desk: Desk) -> None:
    desk.get("/agents", desk.token)
    with desk.site.raw("oag_" + "0" * 64) as client:
        client.get("/agents")
    (line,) = desk.lines()
    assert (line["endpoint"], line["status"], line["owner"], line["key_id"]) == ("listAgents", 401, "", "")


def test_an_owner_sees_their_own_lines_and_an_admin_all(desk: Desk) -> None:
    desk.post("/agents/echo/invoke", {"message": "hi"})
    desk.post("/agents/echo/invoke", {"message": "hi"}, desk.bob)
    assert [each["owner"] for each in desk.lines(desk.token)] == ["local"]
    assert [each["status"] for each in desk.lines(desk.bob)] == [404]
    assert len(desk.lines()) == 2


def test_lines_are_read_page_by_page(desk: Desk) -> None:
    for _ in range(5):
        desk.post("/agents/echo/invoke", {"message": "hi"})
    seen, before = [], ""
    while True:
        page = desk.get(f"/admin/audit?limit=2{before}")
        seen += [each["id"] for each in page["lines"]]
        if page["next_before"] is None:
            break
        before = f"&before={page['next_before']}"
    assert len(seen) == len(set(seen)) == 5
    assert seen == sorted(seen, reverse=True)
    assert desk.get("/admin/audit?since=2999-01-01T00:00:00Z")["lines"] == []


def test_lines_that_wait_are_written_when_the_server_stops(store_url: str, tmp_path: Path) -> None:
    app = build(store_url, tmp_path)
    with serving(app.http()) as url:
        desk = Desk(url, app, tmp_path)
        desk.post("/agents/echo/invoke", {"message": "hi"})
    with open_store("audit", url=store_url) as store:
        assert [each.endpoint for each in Audit(store, app.wall).page_now()] == ["invokeAgent"]
    again = build(store_url, tmp_path)
    assert Keys(again.store).list_now()[0].used is not None
    again.store.close()


def test_lines_are_kept_in_bounds(store: Store) -> None:
    clock = FixedClock()
    caller = Caller("ann", "k1")

    async def noted(kept: Audit, count: int) -> None:
        for _ in range(count):
            kept.note(caller, "POST", "invokeAgent", 200)
        await kept.flush()

    asyncio.run(noted(Audit(store, clock.time, kept=100, kept_for=1000.0), 10))
    clock.move(500)
    asyncio.run(noted(Audit(store, clock.time, kept=100, kept_for=1000.0), 10))
    audit = Audit(store, clock.time, kept=100, kept_for=1000.0)
    assert len(audit.page_now()) == 20
    clock.move(600)
    asyncio.run(noted(Audit(store, clock.time, kept=100, kept_for=1000.0), 1))
    assert len(audit.page_now()) == 11  # the oldest ten are past their time
    asyncio.run(noted(Audit(store, clock.time, kept=5, kept_for=1000.0), 1))
    assert 5 <= len(audit.page_now()) <= 6


def test_lines_are_found_in_a_database_that_orders_texts_as_a_language_does(lettered_url: str) -> None:
    async def noted(audit: Audit) -> None:
        audit.note(Caller("ann", "k1"), "POST", "invokeAgent", 200)
        await audit.flush()

    with open_store(url=lettered_url) as store:
        audit = Audit(store, FixedClock().time)
        asyncio.run(noted(audit))
        assert [line.owner for line in audit.page_now()] == ["ann"]


def test_many_lines_are_written_before_there_is_no_room(store: Store) -> None:
    audit = Audit(store, FixedClock().time)

    async def noted() -> None:
        for number in range(12_000):
            audit.note(Caller("ann", "k1"), "POST", "invokeAgent", 200, request_id=str(number))
            if number % 100 == 0:
                await asyncio.sleep(0)
        await audit.flush()

    asyncio.run(noted())
    count = store.read_now(lambda tx: tx.one(Statement.of("SELECT count(*) FROM gateway_audit")))
    assert count is not None
    assert count[0] + audit.lost == 12_000
    assert count[0] >= 10_000


def test_usage_counts_what_is_written_down_and_what_only_looks(store: Store) -> None:
    clock = FixedClock()
    audit = Audit(store, clock.time)
    ann = Caller("ann", "k1")

    async def used() -> list[dict[str, Any]]:
        for status in (200, 429, 200):
            audit.note(ann, "POST", "invokeAgent", status)
        clock.move(300)
        audit.note(ann, "POST", "invokeAgent", 200)
        audit.note(ann, "GET", "invokeAgent", 200)
        audit.note(None, "POST", "invokeAgent", 401)
        await audit.flush()
        return await audit.usage()

    (told,) = asyncio.run(used())
    assert (told["owner"], told["key_id"], told["endpoint"]) == ("ann", "k1", "invokeAgent")
    assert (told["lately"], told["last_hour"], told["limited"]) == (2, 5, 1)
    assert len(audit.page_now()) == 5


def test_strangers_cannot_fill_the_log(store: Store) -> None:
    audit = Audit(store, FixedClock().time)

    async def flood() -> None:
        for _ in range(500):
            audit.note(None, "POST", "invokeAgent", 401)
        audit.note(Caller("ann", "k1"), "POST", "invokeAgent", 200)
        await audit.flush()

    asyncio.run(flood())
    lines = audit.page_now(most=1000)
    assert len(lines) == 101
    assert sum(each.owner == "ann" for each in lines) == 1
    assert audit.lost == 400


def test_a_store_that_is_away_for_a_moment_loses_no_line(tmp_path: Path) -> None:
    store = open_store("audit", url=f"sqlite:///{tmp_path}/a.db")
    audit = Audit(store, FixedClock().time)

    async def away() -> None:
        audit.note(Caller("ann"), "POST", "invokeAgent", 200)
        store.close()
        await audit.flush()

    asyncio.run(away())
    with open_store("audit", url=f"sqlite:///{tmp_path}/a.db") as again:
        audit._store = again
        asyncio.run(audit.flush())
        assert len(audit.page_now()) == 1


def test_the_command_line_shows_the_log(desk: Desk) -> None:
    from fairlead.surfaces.cli import run

    desk.post("/agents/echo/invoke", {"message": "hi"})
    desk.lines()

    def audit(*argv: str, tty: bool = False) -> tuple[int, str]:
        out = io.StringIO()
        if tty:
            out.isatty = lambda: True  # type: ignore[method-assign]
        with pytest.raises(SystemExit) as exit:
            run(desk.app, ("audit", *argv), console=Console(io.StringIO(), out, io.StringIO(), {}))
        assert isinstance(exit.value.code, int)
        return exit.value.code, out.getvalue()

    code, out = audit("--since", "1h", "--json")
    assert (code, [each["endpoint"] for each in json.loads(out)]) == (0, ["invokeAgent"])
    assert json.loads(audit("--owner", "nobody")[1]) == []
    assert json.loads(audit("--since", "2999-01-01")[1]) == []
    assert "invokeAgent" in audit(tty=True)[1]
    assert audit("--since", "soon")[0] == 2


def test_metrics_count_requests_turns_and_what_waits(desk: Desk) -> None:
    for agent in ("echo", "broken", "nobody"):
        desk.post(f"/agents/{agent}/invoke", {"message": "hi"})
    with desk.site.raw(desk.token) as client:
        client.post("/agents/echo/invoke", json={"message": "hi"}, headers={"Accept": "text/event-stream"})
        client.get("/nothing/here")
    desk.post("/agents/echo/tasks", {"message": "hi"})
    told = desk.metrics()
    name = "fairlead_gateway_requests_total"
    assert told[f'{name}{{endpoint="invokeAgent",status="200"}}'] == 3
    assert told[f'{name}{{endpoint="invokeAgent",status="404"}}'] == 1
    assert told[f'{name}{{endpoint="none",status="404"}}'] == 1
    assert told['fairlead_gateway_request_duration_seconds_count{endpoint="invokeAgent"}'] == 4
    assert told['fairlead_gateway_turns_total{agent="echo",outcome="ok"}'] == 2
    assert told['fairlead_gateway_turns_total{agent="broken",outcome="agent_reply_error"}'] == 1
    assert told["fairlead_gateway_requests_in_flight"] == 0
    assert told["fairlead_gateway_streams_open"] == 0
    assert told['fairlead_tasks{state="queued"}'] == 1
    assert sum(value for key, value in told.items() if key.startswith("fairlead_queue_length")) == 1
    assert told["fairlead_gateway_audit_lost_total"] == 0


def test_metrics_name_the_agents_that_a_key_may_know_of(desk: Desk) -> None:
    for agent in ("echo", "broken"):
        desk.post(f"/agents/{agent}/invoke", {"message": "hi"})
    httpx.post(
        f"{desk.url}/fairlead/actions/echo/invoke",
        json={"input": {"message": "hi"}},
        headers={"Authorization": f"Bearer {desk.token}"},
    )
    with desk.site.raw(desk.bob) as client:
        assert client.post("/runtime/registrations", json={"name": "far", "mode": "queue"}).status_code < 300
    desk.post("/agents/far/tasks", {"message": "hi"}, desk.bob)
    queue, turns = "fairlead_queue_length", "fairlead_gateway_turns_total"
    ann, bob, root = desk.metrics(desk.token), desk.metrics(desk.bob), desk.metrics(desk.root)
    # Bob's is his, and the app's are not; what others do is counted all the same.
    assert not [name for name in bob if "echo" in name or "broken" in name]
    assert sum(value for name, value in bob.items() if name.startswith(turns)) == 2
    assert bob[f'{queue}{{queue="agent:far"}}'] == 1
    assert not [name for name in ann if "far" in name]
    assert ann[f'{queue}{{queue="agent:OTHER"}}'] == 1
    assert ann[f'{turns}{{agent="echo",outcome="ok"}}'] == 1
    assert root[f'{queue}{{queue="agent:far"}}'] == 1
    assert root[f'{turns}{{agent="echo",outcome="ok"}}'] == 1


def test_a_stream_is_counted_while_it_is_open(desk: Desk) -> None:
    with (
        desk.site.raw(desk.token) as client,
        client.stream(
            "POST",
            "/agents/slow/invoke",
            json={"message": "w1"},
            headers={"Accept": "text/event-stream"},
        ) as answer,
    ):
        desk.site.seen("begun-w1")
        assert desk.metrics()["fairlead_gateway_streams_open"] == 1
        desk.site.leave("go-w1")
        assert "done" in answer.read().decode()
