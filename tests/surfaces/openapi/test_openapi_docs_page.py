"""The docs page in a real browser: it shows what there is, calls it, and lets nothing of the data act."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    expect,
)

from fairlead import App
from fairlead.surfaces.auth import ApiKeys

ATTACK = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """A tab for all that need no other: to make one takes longer than most tests."""
    page = browser.new_page()
    page.set_default_timeout(10_000)
    return page


@pytest.fixture
def visit(browser: Browser, tab: Page) -> Iterator[Callable[..., Page]]:
    """Open a server's docs anew; the page may complain of nothing, and talk to nobody else."""
    complaints: list[str] = []
    pages: list[Page] = []
    seen: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        # Chromium tells every answer above 399 as an error; that is the server's to say.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            complaints.append(message.text)

    def watched(asked: Request) -> None:
        if not asked.url.startswith((*seen, "data:")):
            complaints.append(asked.url)

    def failed(error: Error) -> None:
        complaints.append(str(error))

    def listen(page: Page) -> None:
        page.on("console", heard)
        page.on("pageerror", failed)
        page.on("request", watched)

    def open_page(url: str, place: str = "", **options: Any) -> Page:
        page = tab
        if options:
            page = browser.new_page(**options)
            page.set_default_timeout(10_000)
            pages.append(page)
            listen(page)
        page.goto("about:blank")  # to another place on the same page one goes without loading it
        seen[:] = [url]
        page.goto(f"{url}/docs{place}")
        page.wait_for_selector("main h1")
        return page

    listen(tab)
    yield open_page
    for page in pages:
        page.close()
    tab.goto("about:blank")
    tab.remove_listener("console", heard)
    tab.remove_listener("pageerror", failed)
    tab.remove_listener("request", watched)
    assert complaints == []


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def answer_of(page: Page) -> str:
    page.wait_for_selector(".head .state.good, .head .state.bad")
    return page.inner_text(".head .state")


def test_all_actions_are_listed_and_can_be_searched(visit: Callable[..., Page], broad_url: str) -> None:
    page = visit(broad_url)
    expect(page).to_have_title("broad")
    assert page.locator("#list a.read, #list a.write, #list a.destructive").count() == 12
    page.keyboard.press("/")
    page.keyboard.type("tree back")
    assert page.locator("#list a").all_inner_texts() == ["grow_tree"]
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("Grow Tree")
    expect(page.locator("#list a[aria-current]")).to_have_text("grow_tree")


def test_an_action_is_called_with_a_key_that_stays_in_memory(
    visit: Callable[..., Page], broad_url: str, key: str
) -> None:
    page = visit(broad_url, "#/run_job")
    button(page, "Send").click()
    assert answer_of(page).startswith("401")
    page.fill("#key", key)
    button(page, "Send").click()
    expect(page.locator(".head .state")).to_have_text(re.compile("^200"))
    assert '"data": 1' in page.inner_text(".try pre")
    assert key not in page.content()
    assert key not in page.url
    assert (
        page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        == '[{},{},""]'
    )
    page.reload()
    assert page.input_value("#key") == ""


def test_a_stream_is_followed_to_its_result(visit: Callable[..., Page], broad_url: str, key: str) -> None:
    page = visit(broad_url, "#/run_job")
    page.fill("#key", key)
    page.fill("textarea", '{"steps": 3}')
    button(page, "Stream").click()
    assert answer_of(page) == "Done"
    told = page.inner_text(".try pre")
    assert [told.count(f'"type": "{kind}"') >= 1 for kind in ("log", "progress", "artifact", "result")] == [
        True
    ] * 4


def test_a_running_call_can_be_cancelled(visit: Callable[..., Page], serve: Callable[..., str]) -> None:
    app = App("slow")

    @app.action
    async def wait_long() -> None:
        """Wait for a long time."""
        import asyncio

        await asyncio.Event().wait()

    page = visit(serve(app), "#/wait_long")
    button(page, "Send").click()
    button(page, "Cancel").click()
    assert answer_of(page) == "Cancelled"


def test_input_that_is_not_json_is_not_sent(visit: Callable[..., Page], broad_url: str) -> None:
    page = visit(broad_url, "#/anything")
    page.fill("textarea", "{")
    expect(page.locator("main [role=alert]")).to_have_text(re.compile("Not JSON"))
    expect(button(page, "Send")).to_be_disabled()
    page.fill("textarea", '{"value": [1]}')
    page.press("textarea", "Control+Enter")
    assert answer_of(page).startswith("200")


def test_a_destructive_action_asks_for_a_confirmation(
    visit: Callable[..., Page], broad_url: str, key: str
) -> None:
    page = visit(broad_url, "#/drop_all")
    page.fill("#key", key)
    button(page, "Send").click()
    assert answer_of(page).startswith("409")
    page.check("#confirm")
    assert '"confirm":true' in page.inner_text("main > .card pre")
    button(page, "Send").click()
    expect(page.locator(".head .state")).to_have_text(re.compile("^200"))


def test_the_curl_command_is_the_call(visit: Callable[..., Page], broad_url: str, key: str) -> None:
    import subprocess

    page = visit(broad_url, "#/anything")
    page.fill("textarea", """{"value": "it's $HOME"}""")
    command = page.inner_text("main > .card pre")
    ran = subprocess.run(
        ["sh", "-c", command], env={"KEY": key, "PATH": "/usr/bin:/bin"}, capture_output=True, check=True
    )
    assert b'"data":"it\'s $HOME"' in ran.stdout


def test_shapes_that_hold_themselves_open_as_far_as_one_likes(
    visit: Callable[..., Page], broad_url: str
) -> None:
    page = visit(broad_url, "#/grow_tree")
    card = page.locator(".card", has=page.locator("h2", has_text="Input"))
    before = card.locator("li").count()
    for _ in range(3):
        card.locator("details:not([open]) > summary").last.click()
    assert card.locator("li").count() > before + 3


def test_types_that_hold_nothing_but_themselves_are_shown(
    visit: Callable[..., Page], serve: Callable[..., str]
) -> None:
    nested = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/nested"}}]}
    pair = {"type": "array", "prefixItems": [{"$ref": "#/$defs/term"}] * 2, "minItems": 2, "maxItems": 2}
    app = App("trees")

    @app.action(
        input={
            "type": "object",
            "properties": {
                "nested": {"$ref": "#/$defs/nested"},
                "term": {"$ref": "#/$defs/term"},
                "gone": False,
            },
            "required": ["nested", "term"],
            "$defs": {"nested": nested, "term": {"anyOf": [pair, {"type": "integer"}]}},
        }
    )
    async def grow(input: Any) -> Any:
        """Give it back."""
        return input

    page = visit(serve(app), "#/grow")
    types = page.locator(".fields .type").all_inner_texts()
    assert types[0].startswith("integer | array of ")
    assert types[2] == "nothing"
    page.fill("textarea", '{"nested": [1, [2]], "term": [1, [2, 3]]}')
    button(page, "Send").click()
    assert answer_of(page).startswith("200")


def test_nothing_that_a_document_or_an_answer_says_can_act(
    visit: Callable[..., Page], serve: Callable[..., str]
) -> None:
    app = App(f"a {ATTACK}", description=ATTACK, docs={"summary": ATTACK})

    @app.action(
        title=ATTACK, description=ATTACK, docs={"usage_notes": ATTACK, "input_example": {"a": ATTACK}}
    )
    def echo(a: str = ATTACK) -> str:
        """Say it again."""
        return a

    page = visit(serve(app))
    for place in ("#/", "#/echo", "#/?failures", f"#/{ATTACK}"):
        page.goto(page.url.partition("#")[0] + place)
    page.goto(page.url.partition("#")[0] + "#/echo")
    button(page, "Send").click()
    assert answer_of(page).startswith("200")
    assert page.locator("img, main script, nav script").count() == 0
    assert page.evaluate("window.hacked") is None


def test_the_policy_forbids_what_the_page_does_not_need(browser: Browser, broad_url: str) -> None:
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(f"{broad_url}/docs")
    page.wait_for_selector("main h1")
    page.evaluate(
        """async () => {
            const [script, image] = [document.createElement("script"), new Image()];
            script.textContent = "window.hacked = 1";
            image.src = "http://127.0.0.1:9/x.png";
            document.body.append(script, image);
            await fetch("http://127.0.0.1:9/").catch(() => {});
        }"""
    )
    assert page.evaluate("window.hacked") is None
    assert sum("Content Security Policy" in text for text in refused) >= 3
    page.close()


def test_the_page_fits_a_narrow_screen_and_both_schemes(visit: Callable[..., Page], broad_url: str) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page = visit(broad_url, "#/fill_form", viewport={"width": 360, "height": 740}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        expect(page.locator("#side")).to_be_hidden()
        page.click("#menu")
        page.click("#list a >> text=nothing")
        expect(page.locator("main h1")).to_have_text("Nothing")
        expect(page.locator("#side")).to_be_hidden()
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.click("#theme")
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_the_page_works_where_the_app_is_mounted(
    visit: Callable[..., Page], serve_asgi: Callable[..., str]
) -> None:
    app = App("mounted")

    @app.action
    def ping() -> str:
        """Say something."""
        return "pong"

    inner = app.http()

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/tools/"):
            await inner({**scope, "root_path": "/tools"}, receive, send)

    page = visit(f"{serve_asgi(outer)}/tools", "#/ping")
    button(page, "Send").click()
    assert answer_of(page).startswith("200")


def test_the_page_needs_no_other_file(broad_url: str) -> None:
    page = httpx.get(f"{broad_url}/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert len(page.content) < 60_000
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", page.text) == []
    again = httpx.get(f"{broad_url}/docs", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304


def test_there_is_no_field_for_a_key_where_none_is_taken(
    visit: Callable[..., Page], serve: Callable[..., str]
) -> None:
    assert visit(serve(App("open"))).locator("#key").count() == 0
    keys = ApiKeys({"k" * 20: {"name": "x"}})
    assert visit(serve(App("closed"), resolve_context=keys)).locator("#key").count() == 1
