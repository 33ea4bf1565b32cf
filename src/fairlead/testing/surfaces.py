"""One way to call an action over every surface, so that a promise is written once and held everywhere.

A surface joins the behaviour suite with one line in `SURFACES`. Drivers translate and judge nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple, Protocol

from fairlead._json import dumps, loads
from fairlead.runtime import App


class Outcome(NamedTuple):
    """What a caller on some surface learns. `exit_code` and `stderr` are for surfaces that have them."""

    ok: bool
    data: Any
    code: str | None
    message: str | None
    envelope: dict[str, Any]
    exit_code: int | None = None
    stderr: str = ""


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


def outcome(envelope: Mapping[str, Any], exit_code: int | None = None, stderr: str = "") -> Outcome:
    """What an envelope tells."""
    error = envelope.get("error") or {}
    told = (envelope["ok"], envelope.get("data"), error.get("code"), error.get("message"))
    return Outcome(*told, dict(envelope), exit_code, stderr)


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


SURFACES: list[SurfaceDriver] = [
    Driver("python", _python),
    Driver("json", _json),
    Driver("cli", _cli),
]
