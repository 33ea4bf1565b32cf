"""An MCP server that does what servers should not. It is written by hand: no library would do this."""

from __future__ import annotations

import json
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
if "spoiled" in sys.argv:
    TOOLS = [
        {"name": "good", "inputSchema": OPEN},
        {"name": "bad", "inputSchema": "none"},
        {"inputSchema": OPEN},
        *({"name": name, "inputSchema": OPEN} for name in ("cut", "latin", "mute")),
    ]
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
    "cut": {"content": [{"type": "text", "text": "\\ud83d \ud83d\ude00 \ud83d"}]},
    "latin": {"content": [{"type": "text", "text": "caf\xe9"}]},
    "mute": "",
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


def reply(asked: dict[str, Any]) -> bytes:
    told = {"jsonrpc": "2.0", "id": asked["id"], **answer(asked["method"], asked.get("params") or {})}
    return json.dumps(told).encode().replace(rb"caf\u00e9", b"caf\xe9")


class Odd(BaseHTTPRequestHandler):
    """The same over HTTP; what a tool gives comes as an event, in two pieces."""

    def do_GET(self) -> None:
        self.send_error(405)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = reply(asked) if "id" in asked else b""
        event = asked["method"] == "tools/call"
        gzip = zlib.compressobj(wbits=31) if "gzip" in sys.argv else None
        self.send_response(200 if said else 202)
        self.send_header("Content-Type", "text/event-stream" if event else "application/json")
        if gzip and said:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        said = b"event: message\ndata: " + said + b"\n\n" if event else said
        at = said.find(b"\\ud83d") + 3
        for piece in (said[:at], said[at:]):
            self.wfile.write(gzip.compress(piece) + gzip.flush(zlib.Z_SYNC_FLUSH) if gzip and said else piece)
            self.wfile.flush()


if "http" in sys.argv:
    web = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    print(f"http://127.0.0.1:{web.server_port}/", flush=True)
    web.serve_forever()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        sys.stdout.buffer.write(reply(asked) + b"\n")
        sys.stdout.buffer.flush()
