"""One way to call an action over every surface, so that a promise is written once and held everywhere.

A surface joins the behaviour suite with one line in `SURFACES`. Drivers translate and judge nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple, Protocol

from fairlead._json import dumps, encode, loads
from fairlead.runtime import App
from fairlead.testing.asgi import request as asgi_request


class Outcome(NamedTuple):
    """What a caller on some surface learns. `exit_code`, `stderr` and `status` are for surfaces that have them."""

    ok: bool
    data: Any
    code: str | None
    message: str | None
    envelope: dict[str, Any]
    exit_code: int | None = None
    stderr: str = ""
    status: int | None = None


class SurfaceDriver(Protocol):
    """Calls an action the way a caller of one surface does; `user` and `auth` are what the host vouches for."""

    @property
    def name(self) -> str: ...

    async def call(
        self,
        app: App,
        action: str,
        input: Any,
        *,
        confirm: bool | str | None = None,
        idempotency_key: str | None = None,
        user: Any = None,
        auth: Any = None,
    ) -> Outcome: ...


class Request(NamedTuple):
    """One call, before it is put into a surface's words."""

    app: App
    action: str
    input: Any
    confirm: bool | str | None
    idempotency_key: str | None
    identity: dict[str, Any]


class Driver(NamedTuple):
    """A surface's name, and the function that calls over it."""

    name: str
    send: Callable[[Request], Awaitable[Outcome]]
    #: A package that the surface's callers have, and not every test has.
    needs: str | None = None

    async def call(
        self,
        app: App,
        action: str,
        input: Any,
        *,
        confirm: bool | str | None = None,
        idempotency_key: str | None = None,
        user: Any = None,
        auth: Any = None,
    ) -> Outcome:
        identity = {"user": user, "auth": auth}
        return await self.send(Request(app, action, input, confirm, idempotency_key, identity))


def outcome(
    envelope: Mapping[str, Any],
    exit_code: int | None = None,
    stderr: str = "",
    status: int | None = None,
) -> Outcome:
    """What an envelope tells."""
    error = envelope.get("error") or {}
    told = (envelope["ok"], envelope.get("data"), error.get("code"), error.get("message"))
    return Outcome(*told, dict(envelope), exit_code, stderr, status)


def run_command(app: App, argv: Sequence[str], **identity: Any) -> tuple[int, str, str]:
    """Run an app's command line in this process; gives its exit code, stdout and stderr.

    It runs a loop of its own: call it from a thread without one.
    """
    from fairlead.surfaces.cli import Console, run

    stdout, stderr = StringIO(), StringIO()
    code: Any = 0
    try:
        run(app, argv, console=Console(StringIO(), stdout, stderr, {}), **identity)
    except SystemExit as exc:
        code = exc.code
    return int(code or 0), stdout.getvalue(), stderr.getvalue()


async def _python(request: Request) -> Outcome:
    result = await request.app.invoke(
        request.action,
        request.input,
        confirm=request.confirm,
        idempotency_key=request.idempotency_key,
        **request.identity,
    )
    return outcome(result.to_dict())


async def _json(request: Request) -> Outcome:
    payload = {"action": request.action, "input": request.input}
    if request.confirm is not None:
        payload["confirm"] = request.confirm
    if request.idempotency_key is not None:
        payload["idempotencyKey"] = request.idempotency_key
    return outcome(await request.app.json_runner(**request.identity).invoke(payload))


async def _cli(request: Request) -> Outcome:
    argv = [request.action, "--json", dumps(request.input), "--output", "json"]
    if request.confirm:
        argv.append("--confirm" if request.confirm is True else f"--confirm={request.confirm}")
    if request.idempotency_key is not None:
        argv.append(f"--idempotency-key={request.idempotency_key}")
    code, stdout, stderr = await asyncio.to_thread(run_command, request.app, argv, **request.identity)
    if not stdout:
        raise AssertionError(f"the command line ended with {code} and printed no envelope:\n{stderr}")
    return outcome(loads(stdout), code, stderr)


#: A remote surface of the suite shows what a local one does, so that promises need no exceptions.
_WIDE: Any = {"include_local": True, "include_destructive": True}


async def _http(request: Request) -> Outcome:
    from fairlead.surfaces.auth import Caller

    caller = Caller(**request.identity)
    asgi = request.app.http(resolve_context=lambda _: caller, **_WIDE)
    body: dict[str, Any] = {"input": request.input}
    if request.confirm is not None:
        body["confirm"] = request.confirm
    headers = {"content-type": "application/json"}
    if request.idempotency_key is not None:
        headers["Idempotency-Key"] = request.idempotency_key
    path = f"/fairlead/actions/{request.action}/invoke"
    answer = await asgi_request(asgi, "POST", path, encode(body), headers)
    return outcome(loads(answer.body), status=answer.status)


async def _mcp(request: Request) -> Outcome:
    from fairlead.surfaces.mcp.connection import Connection

    answers: asyncio.Queue[Any] = asyncio.Queue()
    connection = Connection(
        request.app.mcp(**_WIDE), lambda data: answers.put_nowait(loads(data)), **request.identity
    )
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    connection.take({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    await answers.get()
    params: dict[str, Any] = {"name": request.action, "arguments": request.input}
    if request.confirm is not None:
        params["confirm"] = request.confirm
    if request.idempotency_key is not None:
        params["_meta"] = {"fairlead/idempotencyKey": request.idempotency_key}
    connection.take({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    answer = await answers.get()
    while "id" not in answer:
        answer = await answers.get()
    await connection.close()
    if "error" in answer:
        # The protocol's own word for a tool that is not there.
        error = {"code": "ACTION_NOT_FOUND", "message": answer["error"]["message"]}
        return outcome({"ok": False, "error": error})
    result = answer["result"]
    envelope = dict(result["_meta"]["fairlead/envelope"])
    if envelope["ok"]:
        data = result["structuredContent"]
        wrapped = _mcp_wraps(request) and list(data) == [
            "result"
        ]  # what has no declared type may be an object
        envelope["data"] = data["result"] if wrapped else data
    return outcome(envelope)


def _mcp_wraps(request: Request) -> bool:
    """Whether this protocol's rule that structured content is an object put the data under `result`."""
    action = request.app.get(request.action)
    output = action.output.output_json_schema if action is not None and action.output is not None else {}
    return output.get("type") != "object"


async def _ai_sdk(request: Request) -> Outcome:
    only = {"only": [request.action]} if "@" in request.action else {}
    tools = request.app.tools("ai-sdk", return_envelope=True, **only, **_WIDE, **request.identity)
    name = request.action.partition("@")[0]
    tool = tools.definitions.get(name)
    if tool is None:
        # A model calls what it was shown; what it makes up is answered by the executor.
        call = {"type": "tool-call", "toolCallId": "1", "toolName": name, "input": request.input}
        told = dumps(await tools.execute(call))
        return outcome({"ok": False, "error": {"code": "ACTION_NOT_FOUND", "message": told}})
    options = {"confirm": request.confirm, "idempotency_key": request.idempotency_key}
    return outcome(await tool["execute"](tools.arguments(name, request.input), **options))


async def _client(request: Request) -> Outcome:
    """Over HTTP, with the client that programs use."""
    import httpx

    from fairlead.surfaces.auth import Caller
    from fairlead.surfaces.client import Client

    caller = Caller(**request.identity)
    asgi = request.app.http(resolve_context=lambda _: caller, **_WIDE)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(asgi)) as http:
        client = Client(url="http://testserver", http=http, retry=False)
        options = {"confirm": request.confirm, "idempotency_key": request.idempotency_key}
        given = {key: value for key, value in options.items() if value is not None}
        call: Any = client.invoke
        reply = await call(request.action, request.input, raw=True, **given)
    return outcome(reply.to_dict())


async def _dev(request: Request) -> Outcome:
    """The way of the console's own page: it trades its token for a session, then calls."""
    token = request.app.new_id()
    console = request.app.console(token=token, **request.identity)
    headers = {"host": "localhost", "content-type": "application/json"}
    session = await asgi_request(console, "POST", "/api/session", encode({"token": token}), headers)
    headers["fairlead-session"] = loads(session.body)["session"]
    body: dict[str, Any] = {"input": request.input}
    if request.confirm is not None:
        body["confirm"] = request.confirm
    if request.idempotency_key is not None:
        body["idempotencyKey"] = request.idempotency_key
    answer = await asgi_request(
        console, "POST", f"/api/actions/{request.action}/invoke", encode(body), headers
    )
    return outcome(loads(answer.body), status=answer.status)


SURFACES: list[SurfaceDriver] = [
    Driver("python", _python),
    Driver("json", _json),
    Driver("cli", _cli),
    Driver("http", _http),
    Driver("client", _client, needs="httpx"),
    Driver("mcp", _mcp),
    Driver("ai-sdk", _ai_sdk),
    Driver("dev", _dev),
]
