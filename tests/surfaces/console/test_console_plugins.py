"""The console's page of plugins, in a real browser: what is loaded, what is not and why, and another try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fairlead import App
from fairlead.plugins.finding import build
from fairlead.plugins.layout import Layout
from fairlead.plugins.quarantine import Quarantine
from fairlead.surfaces.console import Console
from plugins.installed_kit import ID, compiled_loader, install_from


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    return Layout.of()


@pytest.fixture
def fallen(layout: Layout, tmp_path: Path, serve: Callable[[Any], Any]) -> Any:
    """The console of an app with a plugin in quarantine, and one that has no library."""
    more = {"name": "Loader", "description": "Loads."}
    install_from(compiled_loader(tmp_path / "project", tools=["work"], **more))
    Quarantine(layout.root, build()).put(ID, "1.0.0", "It fell at the first value it was given.")
    layout.version_folder("test.empty", "2.0.0").mkdir(parents=True)
    app = App("harbour")
    app.add_plugins()
    made = Console(app)
    served = serve(made)
    served.app = app
    served.open(made.link(served.address))
    return served


@pytest.fixture
def tab(browser: Browser, fallen: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1100, "height": 700}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.add_init_script(
        f"if (origin !== 'null') localStorage.setItem('fairlead:session', '{fallen.session}')"
    )
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{fallen.address}/#/")
    yield page
    assert wrong == []
    context.close()


def test_a_plugin_that_is_not_loaded_shows_its_reason_and_a_way_out(tab: Page) -> None:
    tab.get_by_role("link", name="Plugins").click()
    card = tab.get_by_role("region", name=ID)
    expect(card).to_contain_text("It fell at the first value it was given.")
    expect(card).to_contain_text(f"fairlead plugin retry {ID}")
    expect(tab.get_by_role("region", name="test.empty")).to_contain_text("no library")


def test_another_try_loads_it_and_its_tools_are_there(tab: Page, fallen: Any) -> None:
    tab.goto(f"{fallen.address}/#/plugins")
    card = tab.get_by_role("region", name=ID)
    card.get_by_role("button", name="Try again").click()
    expect(card).to_contain_text("ready")
    expect(card).to_contain_text("work")
    expect(card.get_by_role("button", name="Reload")).to_be_visible()
    assert fallen.app.get("work") is not None


def test_another_try_that_fails_is_not_told_as_done(tab: Page, fallen: Any) -> None:
    tab.goto(f"{fallen.address}/#/plugins")
    tab.get_by_role("region", name="test.empty").get_by_role("button", name="Try again").click()
    expect(tab.get_by_text("test.empty is not loaded: ")).to_be_visible()


def test_the_page_s_questions_are_for_its_session_only(fallen: Any) -> None:
    assert fallen.send("GET", "/api/plugins", session=False).status == 401
    assert fallen.send("POST", "/api/plugins/retry", {"id": ID}, session=False).status == 401
    assert fallen.send("GET", "/api/plugins/retry").status == 404
    told = fallen.send("GET", "/api/plugins").json["plugins"]
    assert [(each["id"], each["reason"]) for each in told] == [
        ("test.empty", "no_library"),
        (ID, "quarantined"),
    ]
    assert fallen.send("POST", "/api/plugins/reload", {"id": "unknown"}).status == 404


def test_an_app_without_plugins_has_no_such_page(serve: Callable[[Any], Any]) -> None:
    made = Console(App("plain"))
    served = serve(made)
    served.open(made.link(served.address))
    assert served.send("GET", "/api/actions").json["about"]["plugins"] is False
