"""A plugin's pages in a real browser: what they can do with their own plugin, and what not with the app beside it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.sync_api import Browser

from fairlead import App
from fairlead.plugins.identity import DEFAULT_AGENT

ID = "test.pages"
PLUGIN = """
from fairlead.plugins.sdk import Plugin, Response, host
plugin = Plugin("test.pages", version="1.0.0")
plugin.web("web", auth="none")

@plugin.route("/api/echo", ["GET", "POST"], auth="none")
def echo(request):
    told = {"query": request.query, "body": request.text, "own": request.headers.get("x-own"), "agent": host.agent}
    return Response(told, headers={"X-Told": "yes", "Access-Control-Allow-Origin": "https://elsewhere.example"})

@plugin.route("/page", auth="none")
def page(request):
    return Response(TRY, headers={"Content-Type": "text/html", "X-Content-Type-Options": "sniff"})

@plugin.route("/paper", auth="none")
def paper(request):
    return Response(b"%PDF-1.4", headers={"Content-Type": "application/pdf"})

@plugin.route("/no-paper", auth="none")
def no_paper(request):
    return Response(TRY, headers={"Content-Type": "application/pdf", "content-type": "text/html"})
"""
#: Tries what a page of the app could do, and says in its title what came of it.
TRY = """<html><head></head><body><script>
async function tried(work) { try { return await work() } catch (error) { return error.name } }
(async () => {
  const post = {method: "POST", headers: {"content-type": "application/json"}, body: '{"input":{"amount":5}}'};
  const told = {
    origin: self.origin,
    action: await tried(async () => (await fetch("/fairlead/actions/transfer/invoke", post)).status),
    form: await tried(async () => (await fetch("/fairlead/actions/transfer/invoke",
      {...post, mode: "no-cors", headers: {"content-type": "text/plain"}})).type),
    read: await tried(async () => (await fetch("/openapi.json")).status),
    kept: await tried(() => localStorage.length),
    worker: await tried(async () => String(await navigator.serviceWorker.register("sw.js"))),
    opened: await tried(() => { const other = open("/healthz"); return other ? typeof other.fetch : "none" }),
    pushed: await tried(() => history.pushState({}, "", "#there") || location.hash),
  };
  const own = window.__osaurus;
  if (own) told.own = await tried(async () => {
    const answer = await own.fetch("/echo?x=1#part", {method: "POST", headers: {"X-Own": "mine"}, body: "hello"});
    return {...await answer.json(), header: answer.headers.get("x-told")};
  });
  document.title = JSON.stringify(told);
})();
</script></body></html>"""


@pytest.fixture
def moved() -> list[int]:
    """What the app's action was called with."""
    return []


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: list[int]) -> App:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    folder = tmp_path / "pages"
    (folder / "web").mkdir(parents=True)
    (folder / "plugin.py").write_text(PLUGIN.replace("TRY", repr(TRY)))
    (folder / "web" / "index.html").write_text(TRY)
    (folder / "web" / "sw.js").write_text("")
    app = App("bank", store=f"sqlite:///{tmp_path}/bank.db")

    @app.action(side_effects="write")
    def transfer(amount: int) -> str:
        """Move money."""
        moved.append(amount)
        return "moved"

    assert app.add_plugin(folder) is not None, app.plugins.failed
    return app


@contextmanager
def served(app: App, **options: Any) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app.http(**options), log_level="critical", loop="asyncio")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


def shown(browser: Browser, url: str) -> dict[str, Any]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("document.title.startsWith('{')", timeout=20_000)
    told: dict[str, Any] = json.loads(page.title())
    context.close()
    return told


CORS = [None, "https://app.example", "*"]


@pytest.mark.parametrize("cors", CORS, ids=["default", "some", "any"])
def test_a_page_reaches_its_own_plugin_and_not_the_app(
    app: App, moved: list[int], browser: Browser, cors: str | None
) -> None:
    options = {} if cors is None else {"cors": cors}
    with served(app, **options) as url:
        told = shown(browser, f"{url}/plugins/{ID}/ui/?osr_agent={DEFAULT_AGENT}")
    own = {"query": {"x": "1"}, "body": "hello", "own": "mine", "agent": DEFAULT_AGENT, "header": "yes"}
    assert told.pop("own") == own
    assert told["origin"] == "null"
    assert told["kept"] == told["worker"] == told["opened"] == "SecurityError"
    assert told["pushed"] == "#there"
    if cors != "*":  # then the developer lets in everybody's pages
        assert (told["action"], told["read"]) == ("TypeError", "TypeError")
        assert moved == []


@pytest.mark.parametrize("path", ["/page", "/no-paper"])
def test_a_page_that_a_route_makes_is_apart_as_well(
    app: App, moved: list[int], browser: Browser, path: str
) -> None:
    with served(app) as url:
        told = shown(browser, f"{url}/plugins/{ID}{path}?osr_agent={DEFAULT_AGENT}")
    assert (told["origin"], told["action"], told["kept"]) == ("null", "TypeError", "SecurityError")
    assert moved == []


def test_whatever_a_plugin_sends_says_that_it_is_apart(app: App) -> None:
    with served(app) as url, httpx.Client(base_url=f"{url}/plugins/{ID}") as client:
        client.headers["x-osaurus-agent-id"] = DEFAULT_AGENT
        for path in ("/ui/", "/ui/sw.js", "/api/echo", "/page", "/no-paper", "/paper", "/nothing"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff", path
            policy = headers.get("content-security-policy", "")
            # Browsers show no PDF that is apart.
            assert policy.startswith("sandbox ") == (path != "/paper"), path
            assert "allow-same-origin" not in policy


@pytest.mark.parametrize("cors", CORS, ids=["default", "some", "any"])
def test_who_shows_no_token_of_a_page_is_as_any_other_page(app: App, cors: str | None) -> None:
    options = {} if cors is None else {"cors": cors}
    before = {None: "*", "*": "*"}.get(cors)
    with served(app, **options) as url, httpx.Client(base_url=f"{url}/plugins/{ID}") as client:
        agent = {"x-osaurus-agent-id": DEFAULT_AGENT}
        page = client.get("/ui/", headers={**agent, "origin": "https://evil.example"})
        token = page.text.partition("osr_page=")[2][:32]
        asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-own"}
        for query, origin, leave in (
            (f"?osr_page={token}", "null", "null"),
            ("?osr_page=" + "0" * 32, "null", before),
            ("?osr_page=%C3%A9", "null", before),
            ("", "null", before),
            (f"?osr_page={token}", "https://evil.example", before),
        ):
            asked = client.options(f"/api/echo{query}", headers={**asks, "origin": origin})
            assert asked.headers.get("access-control-allow-origin") == leave, (query, origin)
            named = "x-own" in asked.headers.get("access-control-allow-headers", "")
            assert named == (leave == "null")
        other = client.options(
            f"{url}/plugins/test.other/x?osr_page={token}", headers={**asks, "origin": "null"}
        )
    # A page of another origin cannot read the token, unless the developer lets it read everything.
    assert page.headers.get("access-control-allow-origin") == ("*" if cors == "*" else None)
    assert other.headers.get("access-control-allow-origin") == before
