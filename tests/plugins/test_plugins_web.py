"""A plugin's own pages: where they are, what is in them, and what nobody gets to see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.agents.models import ScriptModel
from fairlead.plugins.web import mime_type, mounted
from fairlead.surfaces.auth import ApiKeys
from fairlead.surfaces.auth.keyfile import KeyFile
from plugins.bridge_kit import ID, bridge_manifest, bridged, fetch, macro
from plugins.conftest import Compiled

INDEX = "<html><head><title>Hi</title></HEAD><body>Welcome</body></html>"


def web(**more: Any) -> dict[str, Any]:
    return {"static_dir": "web", "entry": "index.html", "mount": "/ui", "auth": "none", **more}


def plugin(compiled: Compiled, folder: Path, **more: Any) -> Path:
    """A plugin with pages, in a folder of its own."""
    routes = [{"id": "echo", "path": "/api/echo", "methods": ["GET"], "auth": "none"}]
    routes.append({"id": "near", "path": "/ui-other", "methods": ["GET"], "auth": "none"})
    manifest = bridge_manifest(web=web(**more), routes=routes if more.get("mount") != "/" else [])
    library = folder / "bridge.so"
    folder.mkdir(exist_ok=True)
    library.write_bytes(compiled("bridge", macro("MANIFEST", manifest)).read_bytes())
    pages = folder / "web"
    pages.mkdir(exist_ok=True)
    (pages / "index.html").write_text(INDEX)
    (pages / "app.js").write_text("let x = '</head>';")
    (pages / "style.css").write_text("body {}")
    (pages / "sub").mkdir(exist_ok=True)
    (pages / "sub" / "page.htm").write_text("<p>No head</p>")
    return library


def at(path: str) -> str:
    return f"/plugins/{ID}{path}"


async def test_files_are_served_with_their_types(compiled: Compiled, tmp_path: Path) -> None:
    library = plugin(compiled, tmp_path / "p")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        served, agent = bridge.app.http(), bridge.agent()
        script = await fetch(served, "GET", at("/ui/app.js"), agent=agent)
        style = await fetch(served, "GET", at("/ui/style.css"), agent=agent)
        head = await fetch(served, "HEAD", at("/ui/style.css"), agent=agent)
        posted = await fetch(served, "POST", at("/ui/style.css"), agent=agent)
    assert (script.status, script.body) == (200, b"let x = '</head>';")
    assert script.headers["content-type"].startswith("application/javascript")
    assert style.headers["content-type"].startswith("text/css")
    assert style.headers["cache-control"] == "public, max-age=3600"
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "7")
    assert posted.status == 405


async def test_pages_are_told_where_they_are(compiled: Compiled, tmp_path: Path) -> None:
    library = plugin(compiled, tmp_path / "p")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        served, agent = bridge.app.http(), bridge.agent()
        index = (await fetch(served, "GET", at("/ui/"), agent=agent)).body.decode()
        headless = (await fetch(served, "GET", at("/ui/sub/page.htm"), agent=agent)).body.decode()
        named = await fetch(served, "GET", at("/ui/"), agent=agent, host="localhost:8000")
    assert b'"baseUrl":"http://localhost:8000/plugins/' in named.body
    script = re.search(r"<script>.*</script>", index)
    assert script is not None
    assert index.replace(script[0], "") == INDEX
    assert index.index("<script>") < index.index("</HEAD>")
    told = re.search(r"var o=(\{.*?\});", script[0])
    assert told is not None
    url = f"http://127.0.0.1:8000/plugins/{ID}"
    assert json.loads(told[1]) == {"pluginId": ID, "baseUrl": url, "apiUrl": f"{url}/api", "agentId": agent}
    assert "window.__osaurus=o" in script[0]
    assert "o.fetch=" in script[0]
    assert headless.startswith("<script>")
    assert headless.endswith("<p>No head</p>")


async def test_a_path_that_is_no_file_is_the_entry_page(compiled: Compiled, tmp_path: Path) -> None:
    library = plugin(compiled, tmp_path / "p")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        served, agent = bridge.app.http(), bridge.agent()
        for path in ("/ui", "/ui/", "/ui/settings/deep", "/ui/sub", "/ui/no.js"):
            told = await fetch(served, "GET", at(path), agent=agent)
            assert b"Welcome" in told.body, path
            assert told.headers["content-type"].startswith("text/html")
        (tmp_path / "p" / "web" / "index.html").unlink()
        assert (await fetch(served, "GET", at("/ui/"), agent=agent)).status == 404


async def test_what_leads_out_of_the_folder_is_refused(compiled: Compiled, tmp_path: Path) -> None:
    library = plugin(compiled, tmp_path / "p")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    pages = tmp_path / "p" / "web"
    (pages / "link.txt").symlink_to(secret)
    (pages / "folder").symlink_to(tmp_path)
    (pages / "within.txt").symlink_to(pages / "style.css")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        served, agent = bridge.app.http(), bridge.agent()
        for path in ("/ui/link.txt", "/ui/folder/secret.txt", "/ui//etc/passwd"):
            told = await fetch(served, "GET", at(path), agent=agent)
            assert told.status in (200, 403)
            assert b"secret" not in told.body
            assert b"root:" not in told.body
        assert (await fetch(served, "GET", at("/ui/link.txt"), agent=agent)).status == 403
        assert (await fetch(served, "GET", at("/ui/folder/secret.txt"), agent=agent)).status == 403
        for path in ("/ui/../secret.txt", "/ui/%2e%2e/secret.txt", "/ui/..%2fsecret.txt", "/ui/%00"):
            assert (await fetch(served, "GET", at(path), agent=agent)).status == 400
        assert (await fetch(served, "GET", at("/ui/within.txt"), agent=agent)).body == b"body {}"


async def test_a_folder_outside_the_plugin_serves_nothing(compiled: Compiled, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("outside")
    library = plugin(compiled, tmp_path / "p", static_dir="..")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await fetch(bridge.app.http(), "GET", at("/ui/"), agent=bridge.agent())
    assert told.status == 403


async def test_a_mount_takes_whole_segments_only(compiled: Compiled, tmp_path: Path) -> None:
    library = plugin(compiled, tmp_path / "p")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        served, agent = bridge.app.http(), bridge.agent()
        near = await fetch(served, "GET", at("/ui-other"), agent=agent)
        route = await fetch(served, "GET", at("/api/echo"), agent=agent)
    assert near.json()["route_id"] == "near"
    assert route.json()["route_id"] == "echo"


@pytest.mark.parametrize("mount", ["ui", "/ui", "/ui/", "ui/"])
def test_a_mount_is_the_same_however_it_is_spelled(mount: str) -> None:
    assert [mounted(path, mount) for path in ("/ui", "/ui/", "/ui/a/b", "/uix", "/x")] == [
        "",
        "",
        "a/b",
        None,
        None,
    ]


def test_a_mount_at_the_root_takes_everything() -> None:
    assert [mounted(path, "/") for path in ("/", "/a", "/a/b")] == ["", "a", "a/b"]


async def test_a_site_at_the_root_is_served(compiled: Compiled, tmp_path: Path) -> None:
    library = plugin(compiled, tmp_path / "p", mount="/")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        told = await fetch(bridge.app.http(), "GET", at("/style.css"), agent=bridge.agent())
    assert told.body == b"body {}"


async def test_pages_of_the_owner_need_a_key(compiled: Compiled, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    token, _ = KeyFile(keys).issue("ann", now=0.0)
    library = plugin(compiled, tmp_path / "p", auth="owner")
    async with bridged(library, tmp_path, ScriptModel([])) as bridge:
        served, agent = bridge.app.http(resolve_context=ApiKeys(keys)), bridge.agent()
        without = await fetch(served, "GET", at("/ui/"), agent=agent)
        right = await fetch(
            served, "GET", at("/ui/"), agent=agent, headers={"Authorization": f"Bearer {token}"}
        )
    assert (without.status, right.status) == (401, 200)


async def test_pages_are_seen_from_outside_only_where_they_are_exposed(
    compiled: Compiled, tmp_path: Path
) -> None:
    outside: Any = {"client": ("203.0.113.5", 1), "host": "relay.example"}
    for exposed, status in ((False, 404), (True, 200)):
        library = plugin(compiled, tmp_path / f"p{exposed}", tunnel_exposed=exposed)
        async with bridged(library, tmp_path, ScriptModel([])) as bridge:
            bridge.app.plugins.tunnel_url = "https://relay.example"
            told = await fetch(bridge.app.http(), "GET", at("/ui/"), agent=bridge.agent(), **outside)
        assert told.status == status
    assert b"https://relay.example/plugins/" in told.body


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("a.html", "text/html; charset=utf-8"),
        ("a.HTM", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "application/javascript; charset=utf-8"),
        ("a.mjs", "application/javascript; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.map", "application/json"),
        ("a.png", "image/png"),
        ("a.jpeg", "image/jpeg"),
        ("a.svg", "image/svg+xml"),
        ("a.webp", "image/webp"),
        ("a.ico", "image/x-icon"),
        ("a.woff2", "font/woff2"),
        ("a.ttf", "font/ttf"),
        ("a.wasm", "application/wasm"),
        ("a.xml", "application/xml"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.tar.gz", "application/octet-stream"),
        ("html", "application/octet-stream"),
    ],
)
def test_a_file_has_the_type_of_its_ending(name: str, type: str) -> None:
    assert mime_type(name) == type
