"""The canary in the browser console: what its page is told, shows, keeps and says."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from attack.canary import CANARY, aviary, files_in, leaks
from fairlead.surfaces.console import Console
from gateway.site_under_test import serving, working


class Watched:
    """A page, and all that was seen on it and went to it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self._address = address
        self.places: dict[str, str] = {}
        page.on("console", lambda said: self._add("console", said.text))
        page.on("pageerror", lambda error: self._add("error", str(error)))
        page.on("response", self._answered)

    def visit(self, place: str) -> None:
        self.page.goto(f"{self._address}/#/{place}")
        self.page.wait_for_selector("main")

    def look(self) -> None:
        """Take in what stands on the page, on every tab of it, but not in the editor where it was typed."""
        self._add("page", self._text())
        for number in range(self.page.get_by_role("tab").count()):
            tab = self.page.get_by_role("tab").nth(number)
            if tab.is_visible():
                tab.click()
                self._add(f"tab {tab.inner_text()}", self._text())

    def _text(self) -> str:
        hide = "for (const each of document.querySelectorAll('textarea')) each.parentElement.style.visibility"
        self.page.evaluate(f"{hide} = 'hidden'")
        text = self.page.inner_text("body")
        self.page.evaluate(f"{hide} = ''")
        return text

    def call(self, action: str, input: Any, confirm: bool = False) -> None:
        """Call an action by its page, as a person does."""
        self.visit(action)
        page = self.page
        page.get_by_role("textbox", name="Input as JSON").fill(json.dumps(input))
        page.get_by_role("button", name="Run", exact=False).first.click()
        if confirm:
            self._add("question", page.get_by_role("dialog").inner_text())
            page.get_by_role("dialog").get_by_role("button").last.click()
        shown = page.get_by_role("region", name="Outcome", exact=True)
        expect(shown).not_to_have_attribute("data-state", "none")
        expect(shown).not_to_have_attribute("data-state", "running")
        self.look()

    def keep(self) -> None:
        kept = "JSON.stringify({...localStorage, ...sessionStorage}) + location.href + document.cookie"
        self._add("storage", self.page.evaluate(kept))

    def _add(self, what: str, text: str) -> None:
        self.places[f"{len(self.places)} {what} at {self.page.url.partition('#')[2]}"] = text

    def _answered(self, response: Any) -> None:
        if "/api/" in response.url:
            try:
                self._add(f"answer of {response.url}", response.text())
            except Exception as gone:  # a stream that was left
                self._add(f"answer of {response.url}", str(gone))


@pytest.mark.timeout(120)
def test_a_secret_is_found_in_nothing_that_the_console_shows_or_keeps(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    browser: Browser,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    app = aviary(tmp_path)
    console = Console(app, program="aviary")
    with working(app), serving(console) as url:
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.goto(console.link(url))
        page.wait_for_selector("main")
        watched = Watched(page, url)
        given = {"user": "ann", "password": CANARY, "pin": CANARY}
        watched.call("login", given, confirm=True)
        watched.call("keep", {"user": "ann", "api_key": CANARY, "pin": CANARY})
        watched.call("login", {**given, "user": 1, "password": [CANARY]}, confirm=True)
        for place in ("history", "gateway", "gateway/tasks", "insights", "pipelines", "plugins", "failures"):
            watched.visit(place)
            watched.look()
        watched.keep()
        page.close()
    app.store.close()
    out, err = capfd.readouterr()
    places = {**watched.places, "stdout": out, "stderr": err, "logs": caplog.text, **files_in(tmp_path)}
    assert any("/invoke" in place or "/stream" in place for place in places)
    assert leaks(places) == {}
