"""Pages of other origins in a real browser: what they may try against a console that runs on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from fairlead.surfaces.console import Console

PLACE = "/api/actions/whisper/invoke"


@pytest.fixture(scope="module")
def elsewhere(serve: Callable[[Any], Any]) -> Any:
    """A server that gives out a page for attackers. Another port is another origin."""

    async def page(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"content-type", b"text/html")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send(
                {"type": "http.response.body", "body": b"<!doctype html><title>Win a boat</title><p>Hi"}
            )

    return serve(page)


@pytest.fixture(scope="module")
def victim(browser: Browser, console: Any) -> Iterator[BrowserContext]:
    """A browser that has the console open, with its session."""
    context = browser.new_context()
    own = context.new_page()
    own.goto(console.address)
    own.evaluate(f"localStorage.setItem('fairlead:session', '{console.session}')")
    own.reload()
    own.wait_for_selector("main article")
    yield context
    context.close()


@pytest.fixture
def evil(victim: BrowserContext, elsewhere: Any, console: Any) -> Iterator[Page]:
    """The attacker's page in the same browser."""
    page = victim.new_page()
    page.goto(elsewhere.address.replace("127.0.0.1", "localhost"))
    console.app.done.clear()
    yield page
    page.close()


def tried(page: Page, script: str) -> Any:
    return page.evaluate(f"async () => {{ try {{ {script} }} catch (error) {{ return error.name }} }}")


def test_a_text_post_from_another_origin_runs_nothing(evil: Page, console: Any) -> None:
    """The attack that the first library fell to: no preflight, attacker's own auth, a private action."""
    body = '{"input":{},"confirm":true,"auth":{"permissions":["*"]}}'
    for action in ("whisper", "burn_down"):
        for verb in ("invoke", "stream"):
            answer = tried(
                evil,
                f"const answer = await fetch('{console.address}/api/actions/{action}/{verb}', "
                f"{{method: 'POST', mode: 'no-cors', credentials: 'include', body: '{body}'}}); return answer.type",
            )
            assert answer in ("opaque", "TypeError")
    assert console.app.done == []


@pytest.mark.parametrize("header", ["'content-type': 'application/json'", "'fairlead-session': 'x'"])
def test_a_request_that_needs_asking_first_is_not_sent(evil: Page, console: Any, header: str) -> None:
    asked = f"{{method: 'POST', headers: {{{header}}}, body: '{{}}'}}"
    assert tried(evil, f"await fetch('{console.address}{PLACE}', {asked}); return 'read'") == "TypeError"
    assert console.app.done == []


def test_a_form_of_another_origin_runs_nothing(evil: Page, console: Any) -> None:
    evil.evaluate(
        f"""() => {{
            const form = document.createElement('form');
            Object.assign(form, {{method: 'POST', action: '{console.address}{PLACE}', enctype: 'text/plain'}});
            const field = document.createElement('input');
            Object.assign(field, {{name: '{{"input":{{}},"x":"', value: '"}}'}});
            form.append(field);
            document.body.append(form);
            form.submit();
        }}"""
    )
    evil.wait_for_url(f"{console.address}/**")
    expect(evil.locator("body")).to_contain_text("AUTHORIZATION_ERROR")
    assert console.app.done == []


def test_the_page_cannot_be_framed(evil: Page, console: Any) -> None:
    evil.evaluate(
        f"""() => new Promise((done) => {{
            const frame = document.createElement('iframe');
            frame.src = '{console.address}/#/whisper';
            frame.onload = done;
            document.body.append(frame);
        }})"""
    )
    [_, frame] = evil.frames
    assert not frame.url.startswith(console.address)
    expect(evil.frame_locator("iframe").locator("#main")).to_have_count(0)
    assert console.app.done == []


def test_another_origin_cannot_read_what_the_console_tells(evil: Page, console: Any) -> None:
    for path in ("/", "/api/actions", "/assets/app.js"):
        assert tried(evil, f"return (await fetch('{console.address}{path}')).status") == "TypeError"
    script = (
        "return await new Promise((done) => { const script = document.createElement('script'); "
        f"script.src = '{console.address}/assets/theme.js'; script.onload = () => done('ran'); "
        "script.onerror = () => done('blocked'); document.body.append(script) })"
    )
    assert tried(evil, script) == "blocked"


def test_a_window_that_it_opens_is_out_of_its_reach(evil: Page, console: Any) -> None:
    with evil.context.expect_page() as opened:
        evil.evaluate(f"() => {{ window.mine = window.open('{console.address}/#/whisper') }}")
    opened.value.wait_for_selector("main article")
    assert evil.evaluate("window.mine.closed")
    assert opened.value.evaluate("window.opener") is None


def test_a_link_is_used_up_by_the_page_that_opens_it(
    browser: Browser, serve: Callable[[Any], Any], console: Any
) -> None:
    made = Console(console.app)
    served = serve(made)
    link = made.link(served.address)
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("main article")
    assert "token" not in page.url
    again = context.new_page()
    again.goto(link)
    again.wait_for_selector("main article")
    context.close()
    stranger = browser.new_page()
    stranger.goto(link)
    expect(stranger.get_by_role("heading", name="This page needs its link")).to_be_visible()
    expect(stranger.get_by_role("navigation")).to_be_hidden()
    # `serve --console` shows links, too.
    expect(stranger.get_by_role("main")).not_to_contain_text("fairlead dev")
    stranger.close()
