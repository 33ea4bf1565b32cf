"""The console's pictures of pipelines, in a real browser: what flows is seen while it does, and what fails, where."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fairlead import App, Failure, Kind
from fairlead.pipelines.apps import add_pipeline
from fairlead.surfaces.console import Console
from held import Held

TEXT = """(* Orders are checked and packed. *)
let main : !{ item: string, count: int } -> !string = plumb(input, output) {
  budget { calls: 5, time: 60 } {
    input ; filter(count > 0) ; map({ item: item }) ; action pack ; output
  }
}
"""


@pytest.fixture
def served(tmp_path: Path, serve: Callable[[Any], Any]) -> Iterator[Any]:
    app = App("harbour", store=f"sqlite:///{tmp_path}/harbour.db")
    begun, go = threading.Event(), threading.Event()

    @app.action(side_effects="write")
    async def pack(item: str) -> str:
        """Pack an item."""
        begun.set()
        await asyncio.to_thread(go.wait)
        if item == "anvil":
            raise Failure(Kind.unavailable, "It is too heavy.")
        return f"{item} is packed"

    (tmp_path / "order.plumb").write_text(TEXT)
    add_pipeline(app, tmp_path / "order.plumb")
    made = Console(app)
    served = serve(made)
    served.begun, served.go = begun, go
    served.open(made.link(served.address))
    yield served
    go.set()


@pytest.fixture
def tab(browser: Browser, served: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{served.session}')"
    )
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.goto(f"{served.address}/#/")
    yield page
    assert wrong == []
    context.close()


def called(tab: Page, item: str) -> Page:
    """Call the pipeline from another tab of the same browser."""
    other = tab.context.new_page()
    other.goto(tab.url.split("#")[0] + "#/order")
    other.get_by_role("textbox", name="item").fill(item)
    other.get_by_role("textbox", name="count").fill("1")
    other.get_by_role("button", name="Run").first.click()
    return other


def test_a_pipeline_is_drawn_and_its_messages_are_seen_as_they_flow(tab: Page, served: Any) -> None:
    tab.get_by_role("link", name="Pipelines").click()
    picture = tab.get_by_role("img", name="The pipeline order")
    expect(picture).to_contain_text("filter(count > 0)")
    expect(tab.get_by_role("status").filter(has_text="not been called")).to_be_visible()
    called(tab, "rope")
    assert served.begun.wait(10)
    expect(picture.locator("g.busy")).to_contain_text("pack")
    expect(tab.locator("article [role=status]")).to_have_text("running")
    assert picture.locator("g", has_text="filter").locator(".live-count").text_content() == "1"
    served.go.set()
    expect(tab.locator("article [role=status]")).to_have_text("done")
    expect(picture.locator("g.busy")).to_have_count(0)
    expect(picture.locator("g", has_text="output").locator(".live-count")).to_have_text("1")
    expect(tab.locator(".budgets")).to_contain_text("calls: 1 of 5 calls")


def test_who_has_gone_on_is_not_taken_back_to_the_only_pipeline(tab: Page, served: Any) -> None:
    listed = Held(tab, "**/api/pipelines")
    tab.get_by_role("link", name="Pipelines").click()
    listed.asked()
    tab.get_by_role("link", name="History").click()
    expect(tab.get_by_role("heading", name="History")).to_be_visible()
    with tab.expect_response("**/api/pipelines"):
        listed.go()
    tab.get_by_role("link", name="Failures").click()
    tab.go_back()
    expect(tab.get_by_role("heading", name="History")).to_be_visible()


def test_what_fails_is_shown_on_its_node(tab: Page, served: Any) -> None:
    served.go.set()
    tab.goto(f"{served.address}/#/pipelines/order")
    called(tab, "anvil")
    failed = tab.get_by_role("img", name="The pipeline order").locator("g.failed")
    expect(failed).to_have_count(1)
    expect(failed).to_contain_text("pack")
    expect(tab.get_by_role("alert").filter(has_text="It is too heavy.")).to_be_visible()


def test_a_call_that_is_cancelled_is_not_shown_as_done(tab: Page, served: Any) -> None:
    tab.goto(f"{served.address}/#/pipelines/order")
    state = tab.locator("article [role=status]")
    other = called(tab, "rope")
    assert served.begun.wait(10)
    expect(state).to_have_text("running")
    other.get_by_role("button", name="Cancel").click()
    expect(state).to_have_text("stopped")
    expect(tab.locator("g.busy")).to_have_count(0)
