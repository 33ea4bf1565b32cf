"""What agents are to their callers: what their owners set, and whose they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from gateway.site_under_test import Site


def test_changes_that_are_made_at_once_are_all_kept(site: Site) -> None:
    with site.raw() as client, ThreadPoolExecutor(2) as both:
        for _ in range(5):
            client.patch("/agents/echo", json={"visibility": "public", "mcpEnabled": True})
            changes = ({"visibility": "private"}, {"mcpEnabled": False})
            made = list(both.map(lambda change: client.patch("/agents/echo", json=change), changes))
            assert [each.status_code for each in made] == [200, 200]
            now = client.get("/agents/echo").json()["data"]
            assert (now["visibility"], now["mcpEnabled"]) == ("private", False)
