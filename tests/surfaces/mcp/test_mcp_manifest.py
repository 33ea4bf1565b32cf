"""The manifest: the tools that a client would be shown, with the app's public words about them."""

from __future__ import annotations

from typing import Any

from fairlead import App, Runtime, action
from fairlead.actions import Exposure
from fairlead.surfaces.mcp.manifest import mcp_manifest

app = App(
    "shop", attribution={"text": "By the shop", "vendor": "Shop Ltd", "docs_url": "https://shop.example"}
)


@app.action(public_metadata={"category": "orders"}, metadata={"owner": "nobody may know"})
def find_order(id: int) -> dict[str, int]:
    """Find an order."""
    return {"id": id}


@app.action(side_effects="destructive", permissions=["orders:write"], idempotency="idempotent")
def drop_order(id: int) -> None:
    """Drop an order."""


@app.action(visibility="local")
def open_drawer() -> None:
    """Open the drawer of this till."""


@app.action(visibility="private")
def audit() -> None:
    """Look at the books."""


@app.action(supported_surfaces=["cli"])
def repaint() -> None:
    """Repaint the terminal."""


def names(**include: Any) -> list[str]:
    return [tool["name"] for tool in mcp_manifest(app, Exposure(**include))["tools"]]


def test_80_a_tool_is_told_with_its_schemas_annotations_and_metadata() -> None:
    (tool,) = mcp_manifest(app)["tools"]
    assert (tool["name"], tool["title"], tool["description"]) == (
        "find_order",
        "Find Order",
        "Find an order.",
    )
    assert tool["inputSchema"]["properties"] == {"id": {"type": "integer"}}
    assert tool["inputSchema"]["required"] == ["id"]
    assert tool["outputSchema"]["type"] == "object"
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["metadata"] == {
        "category": "orders",
        "attribution": mcp_manifest(app)["attribution"],
        "visibility": "public",
        "sideEffects": "read",
        "requiresConfirmation": False,
        "idempotency": "unspecified",
        "permissions": [],
    }


def test_85_public_metadata_is_shown_and_internal_metadata_is_not() -> None:
    told = repr(mcp_manifest(app, Exposure(True, True, True)))
    assert "orders" in told
    assert "nobody may know" not in told


def test_86_attribution_stands_at_the_top_and_at_each_tool() -> None:
    told = mcp_manifest(app)
    assert told["attribution"] == {
        "text": "By the shop",
        "vendor": "Shop Ltd",
        "docsUrl": "https://shop.example",
    }
    assert all(tool["metadata"]["attribution"] == told["attribution"] for tool in told["tools"])


def test_an_app_without_attribution_has_none_in_its_manifest() -> None:
    assert mcp_manifest(App("plain")) == {"tools": []}


def test_122_destructive_actions_are_hidden_unless_included() -> None:
    assert names() == ["find_order"]
    assert names(include_destructive=True) == ["find_order", "drop_order"]


def test_123_local_and_private_actions_are_hidden_unless_included() -> None:
    assert names(include_local=True) == ["find_order", "open_drawer"]
    assert names(include_private=True) == ["find_order", "audit"]


def test_a_filter_has_the_last_word() -> None:
    assert names(include_local=True, filter=lambda each: each.name.startswith("open")) == ["open_drawer"]


def test_81_a_bare_runtime_has_a_manifest() -> None:
    @action
    def ping() -> str:
        """Answer."""
        return "pong"

    assert [tool["name"] for tool in mcp_manifest(Runtime([ping]))["tools"]] == ["ping"]


async def test_it_tells_what_a_connection_lists() -> None:
    sent: list[bytes] = []
    from fairlead._json import loads
    from fairlead.surfaces.mcp.connection import Connection

    server = app.mcp(include_destructive=True)
    Connection(server, sent.append).take({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    listed = loads(sent[0])["result"]["tools"]
    for tool in listed:
        (tool["metadata"],) = tool.pop("_meta").values()
    assert mcp_manifest(app, server.exposure)["tools"] == listed


def test_what_is_done_to_a_manifest_stays_in_it() -> None:
    mcp_manifest(app)["tools"][0]["inputSchema"]["properties"].clear()
    assert mcp_manifest(app)["tools"][0]["inputSchema"]["properties"] == {"id": {"type": "integer"}}
