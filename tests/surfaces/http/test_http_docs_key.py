"""The docs page of a server that takes no strangers, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from playwright.sync_api import Browser, expect

from fairlead.surfaces.auth import ApiKeys

KEY = "a-key-that-nobody-guesses"


def test_the_docs_ask_for_a_key_before_they_tell_anything(
    open_site: Callable[..., httpx.Client], browser: Browser
) -> None:
    url = open_site(resolve_context=ApiKeys({KEY: {"name": "ann"}}, required=True)).base_url
    page = browser.new_page()
    page.set_default_timeout(10_000)
    page.goto(f"{url}docs" if str(url).endswith("/") else f"{url}/docs")
    expect(page.get_by_text("known callers only")).to_be_visible()
    assert "Berth ships" not in page.content()
    page.fill("#key", KEY)
    page.press("#key", "Enter")
    expect(page).to_have_title("harbour")
    assert page.locator("#list a").count() > 3
