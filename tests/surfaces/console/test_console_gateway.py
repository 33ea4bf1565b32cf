"""The console's page about the agents' API: what it tells, what it lets people do, and whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.model import Reply
from fairlead.agents.models.script import ScriptModel
from fairlead.gateway.keys import Keys
from fairlead.store.statements import Statement
from fairlead.surfaces.console import Console
from held import Held

TASK = Statement.of(
    "INSERT INTO gateway_tasks (task, agent, owner, created, open) VALUES (:task, 'mate', 'ann', :now, 1)"
)


def harbour(folder: Path) -> App:
    app = App("harbour", store=f"sqlite:///{folder}/harbour.db")
    model = ScriptModel(lambda request: Reply("Aye."), record=False)
    app.add(Agent("mate", model=model, instructions="Help.", description="Knows the harbour."))
    return app


def elsewhere(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine on a thread: this one has the browser's loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


class Watch:
    """A console, and what it shows."""

    def __init__(self, served: Any, app: App) -> None:
        self.served = served
        self.app = app
        self.keys = Keys(app.store, app.wall)

    def ask(self, question: str = "", body: Any = None, **headers: str) -> Any:
        method = "GET" if body is None else "POST"
        return self.served.send(method, f"/api/gateway{question}", body, **headers)

    async def _submitted(self) -> str:
        task = await self.app.tasks.submit("mate", {"prompt": "hello"})
        return str(task.id)

    def submit(self) -> str:
        id: str = elsewhere(self._submitted)
        self.app.store.write_now(lambda tx: tx.run(TASK, task=id, now=self.app.wall()))
        return id


@pytest.fixture
def watch(serve: Callable[[Any], Any], tmp_path: Path) -> Watch:
    app = harbour(tmp_path)
    made = Console(app)
    served = serve(made)
    served.open(made.link(served.address))
    return Watch(served, app)


@pytest.fixture
def tab(browser: Browser, watch: Watch) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{watch.served.session}')"
    )
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    assert wrong == []
    context.close()


def open_at(tab: Page, watch: Watch, place: str) -> None:
    tab.goto(f"{watch.served.address}/#/{place}")
    tab.wait_for_selector("main article.gateway")


def test_the_console_tells_all_that_goes_on(watch: Watch) -> None:
    id = watch.submit()
    watch.keys.issue_now("ci", owner="ann")
    told = watch.ask().json
    assert told["ok"] is True
    assert [each["id"] for each in told["agents"]] == ["mate"]
    assert [each["task_id"] for each in told["tasks"]] == [id]
    assert [each["name"] for each in told["keys"]] == ["ci"]
    assert told["deliveries"] == told["rates"] == told["audit"] == []
    assert watch.ask("/task", {"id": id}).json["task"]["status"] == "queued"
    assert watch.ask("/task", {"id": "none"}).status == 404


def test_the_console_makes_a_key_once_and_revokes_it(watch: Watch) -> None:
    made = watch.ask("/key", {"name": "ci", "agents": ["mate"], "per_minute": 60, "days": 30}).json["key"]
    assert made["key"].startswith("oag_")
    assert made["expires_at"] is not None
    assert made["key"] not in watch.ask().body.decode()
    assert watch.ask("/revoke", {"id": made["id"]}).json["key"]["status"] == "revoked"
    wrong: list[dict[str, Any]] = [
        {},
        {"name": ""},
        {"name": "x", "days": 0},
        {"name": "x", "agents": "mate"},
        {"name": "x", "hash": "1"},
        {"name": "x", "per_minute": "1"},
    ]
    assert [watch.ask("/key", body).code for body in wrong] == ["VALIDATION_ERROR"] * len(wrong)
    assert len(watch.keys.list_now()) == 1


def test_the_console_knows_whose_the_app_s_agents_are(watch: Watch) -> None:
    watch.app.http(gateway={"owner": "acme"})
    assert [each["owner"] for each in watch.ask().json["agents"]] == ["acme"]
    assert watch.ask("/key", {"name": "ci"}).json["key"]["owner"] == "acme"


def test_whoever_acts_as_somebody_with_less_is_refused(watch: Watch) -> None:
    acting = "%7B%22user%22%3A%7B%22id%22%3A%22bob%22%7D%2C%22auth%22%3Anull%7D"
    for question, body in (("", None), ("/key", {"name": "x"}), ("/revoke", {"id": "x"})):
        assert watch.ask(question, body, fairlead_act_as=acting).status == 403
    assert watch.served.send("GET", "/api/gateway", session=False).status == 401
    assert watch.keys.list_now() == []


def test_the_page_shows_a_task_and_its_timeline(watch: Watch, tab: Page) -> None:
    id = watch.submit()
    open_at(tab, watch, "gateway")
    row = tab.get_by_role("region", name="Live tasks").get_by_role("row").filter(has_text="mate")
    expect(row).to_contain_text("queued")
    row.get_by_role("link").click()
    line = tab.get_by_label("Timeline")
    expect(line).to_contain_text(id)

    async def ended() -> None:
        async with watch.app.tasks.worker():
            await watch.app.tasks.wait(id, 20)

    elsewhere(ended)
    # The page goes on by itself.
    expect(line).to_contain_text("terminal")
    expect(tab.get_by_text("No task is running or waiting.")).to_be_visible()


def test_a_timeline_comes_back_after_one_that_is_not_there(watch: Watch, tab: Page) -> None:
    id = watch.submit()
    line = tab.get_by_label("Timeline")
    for place, told in ((id, id), ("none", "no such task"), (id, id)):
        open_at(tab, watch, f"gateway/tasks/{place}")
        expect(line).to_contain_text(told)


def test_a_timeline_that_comes_late_is_not_shown_for_another_task(watch: Watch, tab: Page) -> None:
    one, two = watch.submit(), watch.submit()
    open_at(tab, watch, "gateway")
    late = Held(tab, "**/gateway/task")
    tab.evaluate(f"location.hash = '#/-/gateway/tasks/{one}'")
    late.asked()
    tab.evaluate(f"location.hash = '#/-/gateway/tasks/{two}'")
    expect(tab.get_by_label("Timeline")).to_contain_text(two)
    tab.evaluate(
        "window.shown = []; const line = document.querySelector('.timeline');"
        "new MutationObserver(() => shown.push(line.textContent)).observe(line, { childList: true })"
    )
    with tab.expect_response("**/gateway/task"):
        late.go()
    # By the time that it is asked for anew, the late answer has been read.
    with tab.expect_request("**/gateway/task"):
        pass
    assert [each for each in tab.evaluate("shown") if one in each] == []


def test_a_key_is_made_once_however_often_one_clicks(watch: Watch, tab: Page) -> None:
    open_at(tab, watch, "gateway/keys")
    tab.get_by_label("Name").fill("ci")
    making = Held(tab, "**/gateway/key")
    tab.get_by_role("button", name="Make a key").dblclick()
    making.asked().go()
    expect(tab.locator(".key-once code")).to_contain_text("oag_")
    tab.get_by_label("Name").fill("two")
    tab.get_by_role("button", name="Make a key").click()
    expect(tab.get_by_role("region", name="Keys")).to_contain_text("two")
    assert [each.name for each in watch.keys.list_now()] == ["ci", "two"]


def test_a_key_is_revoked_by_two_clicks_that_are_meant_whatever_changes_between(
    watch: Watch, tab: Page
) -> None:
    watch.keys.issue_now("ci", owner="ann")
    open_at(tab, watch, "gateway/keys")
    row = tab.get_by_role("region", name="Keys").get_by_role("row").filter(has_text="ci")
    row.get_by_role("button", name="Revoke ci").dblclick()
    expect(row.get_by_role("button", name="Really revoke")).to_be_visible()
    watch.keys.issue_now("another", owner="ann")
    expect(tab.get_by_role("region", name="Keys")).to_contain_text("another")
    assert [each.revoked for each in watch.keys.list_now()] == [None, None]
    row.get_by_role("button", name="Really revoke").click()
    expect(row).to_contain_text("revoked")


def test_a_key_is_made_shown_once_and_revoked_on_the_page(watch: Watch, tab: Page) -> None:
    open_at(tab, watch, "gateway/keys")
    tab.get_by_label("Name").fill("ci")
    tab.get_by_label("Requests a minute").fill("60")
    tab.get_by_role("button", name="Make a key").click()
    shown = tab.locator(".key-once code")
    expect(shown).to_contain_text("oag_")
    assert len(shown.inner_text()) == 68
    row = tab.get_by_role("region", name="Keys").get_by_role("row").filter(has_text="ci")
    expect(row).to_contain_text("active")
    row.get_by_role("button", name="Revoke ci").click()
    row.get_by_role("button", name="Really revoke").click()
    expect(row).to_contain_text("revoked")
    assert watch.keys.list_now()[0].revoked is not None
    tab.reload()
    tab.wait_for_selector("main article.gateway")
    expect(tab.locator(".key-once")).to_be_hidden()


def test_every_tab_opens(watch: Watch, tab: Page) -> None:
    open_at(tab, watch, "gateway")
    for name in ("Agents", "Deliveries", "Keys", "Rates", "Audit", "Tasks"):
        tab.get_by_role("tab", name=name).click()
        expect(tab.get_by_role("tabpanel", name=name)).to_be_visible()
        assert tab.url.endswith(f"#/-/gateway/{name.lower()}")
    tab.get_by_role("tab", name="Agents").click()
    expect(tab.get_by_role("region", name="Agents")).to_contain_text("Knows the harbour.")


def test_an_app_without_agents_has_no_such_page(
    browser: Browser, serve: Callable[[Any], Any], tmp_path: Path
) -> None:
    app = App("plain", store=f"sqlite:///{tmp_path}/plain.db")
    made = Console(app)
    served = serve(made)
    context = browser.new_context()
    page = context.new_page()
    page.goto(made.link(served.address))
    page.wait_for_selector("main article")
    expect(page.get_by_role("link", name="Gateway")).to_be_hidden()
    context.close()
