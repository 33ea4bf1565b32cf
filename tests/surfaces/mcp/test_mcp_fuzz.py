"""Whatever comes in, the server lives and answers with messages, or not at all."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_types.jsonrpc import jsonrpc_message_adapter

from fairlead import App, Context
from fairlead.surfaces.mcp import Connection, McpEndpoint, Server, client_of
from fairlead.surfaces.mcp.methods import SESSION_ERA, STATELESS_ERA

SECRET = "hunter2-hunter2"
METHODS = sorted(
    {
        *SESSION_ERA.at_once,
        *SESSION_ERA.in_time,
        *STATELESS_ERA.at_once,
        "initialize",
        "resources/subscribe",
        "resources/unsubscribe",
        "notifications/cancelled",
        "notifications/initialized",
    }
)


def make() -> Server:
    app = App("fuzz", docs={"summary": "Anything goes."})

    @app.action(docs={"usage_notes": ["Take care"]})
    async def add(ctx: Context, a: int, b: int = 1) -> int:
        """Add."""
        ctx.logger.info("adding")
        return a + b

    @app.action(side_effects="destructive")
    async def burn(ctx: Context, what: Any = None) -> Any:
        """Burn, or fail with a secret."""
        raise RuntimeError(f"password={SECRET}")

    @app.action
    async def ask(ctx: Context) -> Any:
        """Ask the client."""
        client = client_of(ctx)
        assert client is not None
        return (await client.elicit("Well?")).action

    server: Server = app.mcp(include_destructive=True)

    @server.resource("x://{id}")
    def thing(id: int) -> str:
        """A thing."""
        return str(id)

    @server.prompt
    def write(about: str) -> str:
        """Write."""
        return about

    return server


SERVER = make()

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
NAMES = (
    "add",
    "burn",
    "ask",
    "write",
    "x://1",
    "x://a",
    "fairlead://guide",
    "fairlead://artifacts/a/b",
    "debug",
    "",
)
words = st.sampled_from(NAMES)
refs = st.fixed_dictionaries(
    {"type": st.sampled_from(["ref/prompt", "ref/resource"])}, optional={"name": words}
)
odd_headers = st.sampled_from(["accept", "origin", "mcp-session-id", "last-event-id", "mcp-name"])
metas: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.just("2026-07-28") | json_values,
        "io.modelcontextprotocol/clientCapabilities": st.just({"elicitation": {}}) | json_values,
        "io.modelcontextprotocol/logLevel": st.just("debug") | json_values,
        "progressToken": json_values,
        "fairlead/confirm": json_values,
        "fairlead/idempotencyKey": json_values,
    },
)
params: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "name": words | json_values,
        "uri": words | json_values,
        "arguments": st.fixed_dictionaries({}, optional={"a": json_values, "b": json_values}) | json_values,
        "_meta": metas | json_values,
        "cursor": json_values,
        "confirm": json_values,
        "level": words | json_values,
        "ref": refs | json_values,
        "argument": st.fixed_dictionaries({"name": words}, optional={"value": json_values}) | json_values,
        "requestState": json_values,
        "inputResponses": json_values,
        "protocolVersion": st.sampled_from(["2024-11-05", "2025-03-26", "2025-06-18"]) | json_values,
        "capabilities": st.just({"elicitation": {}}) | json_values,
        "clientInfo": json_values,
        "requestId": st.integers(0, 9) | json_values,
        "notifications": json_values,
    },
)
messages = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(METHODS)},
    optional={"id": st.integers(0, 9) | json_values, "params": params | json_values},
)
anything = messages | json_values | st.lists(messages | json_values, max_size=4)


def check(data: bytes) -> None:
    """What is sent is a message, or a batch of them, and tells no secret."""
    assert SECRET not in data.decode()
    said = json.loads(data)
    for message in said if isinstance(said, list) else [said]:
        jsonrpc_message_adapter.validate_python(message)


@given(st.lists(anything, max_size=8))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_message_kills_a_connection(taken: list[Any]) -> None:
    async def run() -> None:
        sent: list[bytes] = []
        connection = Connection(SERVER, sent.append)
        for message in taken:
            connection.take(json.loads(json.dumps(message)))
        for _ in range(3):
            await asyncio.sleep(0)
        connection.take({"jsonrpc": "2.0", "id": "last", "method": "ping"})
        assert json.loads(sent[-1]) == {"jsonrpc": "2.0", "id": "last", "result": {}}
        await connection.close()
        assert not SERVER.subscriptions
        for data in sent:
            check(data)

    asyncio.run(run())


@given(
    anything,
    st.sampled_from(["2026-07-28", "2025-11-25", "2025-03-26", "x", ""]),
    st.sampled_from(METHODS),
    words,
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_body_makes_the_endpoint_fail(body: Any, version: str, method: str, name: str) -> None:
    async def run() -> None:
        endpoint = SERVER.http()
        headers = {"host": "localhost", "content-type": "application/json", "mcp-protocol-version": version}
        headers |= {"mcp-method": method, "mcp-name": name}
        first = await asgi(endpoint, "POST", headers, json.dumps(body).encode())
        session = first[1].get("mcp-session-id")
        if session is not None:
            await asgi(endpoint, "POST", headers | {"mcp-session-id": session}, json.dumps(body).encode())
        await endpoint.close()

    asyncio.run(run())


@given(st.binary(max_size=60), st.dictionaries(odd_headers, st.binary(max_size=20), max_size=3))
@settings(max_examples=100, deadline=None)
def test_no_bytes_make_the_endpoint_fail(body: bytes, odd: dict[str, bytes]) -> None:
    async def run() -> None:
        endpoint = SERVER.http()
        for method in ("POST", "GET", "DELETE"):
            await asgi(
                endpoint, method, {"host": "localhost", "content-type": "application/json", **odd}, body
            )
        await endpoint.close()

    asyncio.run(run())


async def asgi(
    endpoint: McpEndpoint, method: str, headers: dict[str, Any], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """One request, whose client goes away when it has heard nothing for a moment."""
    sent: list[dict[str, Any]] = []
    given = False
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [
        (key.encode(), value if isinstance(value, bytes) else value.encode())
        for key, value in headers.items()
    ]
    scope = {"type": "http", "method": method, "path": "/mcp", "headers": raw, "scheme": "http"}
    serving = asyncio.ensure_future(endpoint(scope, receive, send))
    await asyncio.wait((serving,), timeout=0.03)
    gone.set()
    await asyncio.wait_for(serving, 5)
    if not sent:
        return 0, {}, b""
    status: int = sent[0]["status"]
    assert status < 500, sent
    said = b"".join(message.get("body", b"") for message in sent[1:])
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    if told.get("content-type") == "application/json":
        check(said)
    for data in re.findall(rb"^data: (.+)$", said, re.MULTILINE):
        check(data)
    return status, told, said
