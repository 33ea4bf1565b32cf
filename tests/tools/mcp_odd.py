"""An MCP server that does what servers should not, over stdio. It is written by hand: no library would do this."""

from __future__ import annotations

import json
import sys
from typing import Any

OPEN: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: list[dict[str, Any]] = [
    {"name": "Get-User.Name", "inputSchema": OPEN},
    {"name": "get_user_name", "description": "The same, but for its name.", "inputSchema": OPEN},
    {"name": "é☃", "inputSchema": OPEN},
    {"name": "lie", "inputSchema": OPEN, "outputSchema": {"type": "object", "required": ["truth"]}},
    {"name": "mumble", "inputSchema": OPEN, "outputSchema": {"type": "object", "$ref": "http://x.test/y"}},
    {"name": "outside", "inputSchema": {"type": "object", "$ref": "http://x.test/y"}},
    {"name": "refuse", "inputSchema": OPEN},
    {"name": "babble", "inputSchema": OPEN},
    {"name": "links", "inputSchema": OPEN},
    {"name": "long", "description": "x" * 50_000, "inputSchema": OPEN},
    {"name": "n" * 100, "inputSchema": OPEN},
]
if "twice" in sys.argv:
    TOOLS = [{"name": "twin", "description": words, "inputSchema": OPEN} for words in ("One.", "Another.")]
if "misshapen" in sys.argv:
    TOOLS = [{"name": "misshapen", "inputSchema": {"type": "string"}}]
if "restless" in sys.argv:
    TOOLS = [{"name": "stir", "inputSchema": OPEN}, {"name": "count", "inputSchema": OPEN}]
if "loud" in sys.argv:
    print("Welcome! The token is hunter22.", flush=True)
LISTED: list[int] = []
LINKS = [
    {"type": "text", "text": "See:"},
    {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "description": "A file."},
    {"type": "resource", "resource": {"uri": "note:1", "text": "words"}},
    {"type": "resource", "resource": {"uri": "x://y/b.bin", "blob": "AAE=", "mimeType": "application/x-b"}},
    {"type": "audio", "data": "not base64!", "mimeType": "audio/wav"},
]
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
RESULTS: dict[str, Any] = {
    "lie": {"content": [], "structuredContent": {"fiction": 1}},
    "links": {"content": LINKS},
    "babble": {"content": "not a list"},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "odd\x1b[2J", "version": "0"}
        return {
            "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        }
    if method == "tools/list":
        LISTED.append(1)
        if "moody" in sys.argv:
            whims = ({"name": "whim", "description": f"No. {len(LISTED)}."}, {"name": f"fad{len(LISTED)}"})
            return {
                "result": {"tools": [{"inputSchema": OPEN, **each} for each in ({"name": "stir"}, *whims)]}
            }
        # One tool a page.
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(TOOLS) else {}
        return {"result": {"tools": [TOOLS[at]], **more}}
    if method == "tools/call" and params["name"] == "refuse":
        # The code that also stands for a closed connection.
        return {"error": {"code": -32000, "message": "not today"}}
    if method == "tools/call" and params["name"] == "stir":
        print(*[json.dumps(CHANGED)] * 300, sep="\n")
    if method == "tools/call" and params["name"] == "count":
        return {"result": {"content": [{"type": "text", "text": str(len(LISTED))}]}}
    if method == "tools/call":
        said = [{"type": "text", "text": params["name"]}]
        return {"result": RESULTS.get(params["name"], {"content": said})}
    return {"error": {"code": -32601, "message": "no such method"}}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        reply = {"jsonrpc": "2.0", "id": asked["id"], **answer(asked["method"], asked.get("params") or {})}
        print(json.dumps(reply), flush=True)
