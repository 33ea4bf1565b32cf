"""What agents are to their callers: what their owners set, and whose they are."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel
from fairlead.gateway.overview import Overview
from gateway.site_under_test import OWNER, PATIENCE, STRANGER, Site, add_keys, build, serving


def test_changes_that_are_made_at_once_are_all_kept(site: Site) -> None:
    with site.raw() as client, ThreadPoolExecutor(2) as both:
        for _ in range(5):
            client.patch("/agents/echo", json={"visibility": "public", "mcpEnabled": True})
            changes = ({"visibility": "private"}, {"mcpEnabled": False})
            made = list(both.map(lambda change: client.patch("/agents/echo", json=change), changes))
            assert [each.status_code for each in made] == [200, 200]
            now = client.get("/agents/echo").json()["data"]
            assert (now["visibility"], now["mcpEnabled"]) == ("private", False)


def test_an_agent_that_is_made_private_while_somebody_looks_it_up_is_private(
    app: App, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, looked, changed = app.store.read, threading.Event(), threading.Event()

    async def slowly(work: Any) -> Any:
        found = await read(work)
        if isinstance(found, tuple) and found[:1] == ("echo",) and not looked.is_set():
            looked.set()
            await asyncio.to_thread(changed.wait, PATIENCE)
        return found

    with site.raw() as owner, site.raw(STRANGER) as stranger, ThreadPoolExecutor(1) as beside:
        owner.patch("/agents/echo", json={"visibility": "public"})
        app.store.ring(["gateway:agents"])
        monkeypatch.setattr(app.store, "read", slowly)
        asked = beside.submit(stranger.post, "/agents/echo/invoke", json={"message": "x"})
        assert looked.wait(PATIENCE)
        assert owner.patch("/agents/echo", json={"visibility": "private"}).status_code == 200
        changed.set()
        assert asked.result().status_code == 200  # it came before
        assert stranger.post("/agents/echo/invoke", json={"message": "x"}).status_code == 404


def test_who_registered_an_id_before_the_app_had_that_agent_has_no_part_in_it(
    store_url: str, tmp_path: Path
) -> None:
    before = build(store_url, tmp_path)
    add_keys(before)
    with serving(before.http()) as url, Site(url, tmp_path).raw(STRANGER) as stranger:
        for name in ("notes", "billing"):
            lease = stranger.post("/runtime/registrations", json={"name": name}).json()["data"]["leaseId"]
            assert stranger.patch(f"/agents/{name}", json={"visibility": "public"}).status_code == 200
    before.store.close()
    app = build(store_url, tmp_path)
    for name in ("billing", "notes"):
        model = ScriptModel(lambda request: "yours", record=False, name=f"script/{name}")
        app.add(Agent(name, model=model, instructions="Help.", loop_tools=False))
    with (
        serving(app.http()) as url,
        Site(url, tmp_path).raw(OWNER) as owner,
        Site(url, tmp_path).raw(STRANGER) as stranger,
    ):
        # Before its owner says anything of it, and after.
        for _ in range(2):
            assert stranger.get("/agents").json()["data"] == []
            assert stranger.get("/agents/billing").status_code == 404
            assert stranger.post("/agents/billing/invoke", json={"message": "x"}).status_code == 404
            assert stranger.patch("/agents/billing", json={"visibility": "public"}).status_code == 404
            told = owner.post("/agents/billing/invoke", json={"message": "x"}).json()["data"]
            assert told["text"] == "yours"
            assert owner.get("/agents/billing").json()["data"]["visibility"] == "private"
            mcp = owner.patch("/agents/billing", json={"mcpEnabled": False}).json()["data"]["mcpEnabled"]
            assert mcp is False
        heard = stranger.post("/runtime/registrations/billing/heartbeat", json={"leaseId": lease})
        assert heard.json()["error"]["details"]["reason"] == "fenced"
        seen = {each["id"]: each for each in asyncio.run(Overview(app, "local").agents())}
        for name in ("billing", "notes"):
            assert (seen[name]["owner"], seen[name]["visibility"]) == ("local", "private")
            assert (seen[name]["instance"], seen[name]["mode"]) == ("local", "in process")
    app.store.close()
