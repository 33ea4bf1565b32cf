"""`fairlead serve` and `fairlead openapi`."""

from __future__ import annotations

import importlib
import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairlead.failures import Failure, Kind
from fairlead.surfaces.cli.command import Command, Options
from fairlead.surfaces.cli.hints import near_miss, wrong_option
from fairlead.surfaces.cli.spans import DATA_ROW, choose_store
from fairlead.surfaces.cli.worker import CONCURRENCY
from fairlead.surfaces.talking import agents_of

if TYPE_CHECKING:
    import socket

    from fairlead.runtime import App
    from fairlead.surfaces.cli.program import Program
    from fairlead.surfaces.http.app import HttpApp
    from fairlead.surfaces.http.serving import Plan, Way

HOST: Final = "127.0.0.1"
PORT: Final = "8000"
CONSOLE_PORT: Final = "4321"
_LEVELS: Final = ("critical", "error", "warning", "info", "debug")
_INCLUDE: Final = ("--include-private", "--include-local", "--include-destructive")
_SWITCHES: Final = ("--reload", "--access-log", "--worker", "--gateway", "--console", "--no-mcp-sessions")
_VALUED: Final = (
    "--host",
    "--port",
    "--workers",
    "--api-keys",
    "--jwks",
    "--issuer",
    "--audience",
    "--cors",
    "--allowed-host",
    "--root-path",
    "--drain",
    "--log-level",
    "--worker",
    "--console",
    "--data",
    "--mcp",
)
#: Options that an environment variable gives as well.
_VARIABLES: Final = {
    "--host": "FAIRLEAD_HOST",
    "--port": "FAIRLEAD_PORT",
    "--workers": "FAIRLEAD_WORKERS",
    "--api-keys": "FAIRLEAD_KEYS",
}


def _serve(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, (*_SWITCHES, *_INCLUDE), _VALUED)
    given = _given(program, options)
    choose_store(given.get("--data"))
    host = given.get("--host", HOST)
    plan, way = _plan(program, options, given), _way(options, given)
    _require_uvicorn()
    app = program.the_app()
    if "--worker" not in options.on and "--worker" not in given and agents_of(app):
        # What agents are given to do is run where they are served, unless somebody says otherwise.
        plan = plan._replace(worker=int(CONCURRENCY))
    known = plan.api_keys is not None or plan.jwt is not None
    if not known and not _is_loopback(host):
        plan, known = _with_stored_keys(app, plan), True
    from fairlead.surfaces.http.serving import listening, serve

    if not known and "allowed_hosts" not in plan.http:
        plan = plan._replace(http={**plan.http, "allowed_hosts": _names_here(host)})
    if way.workers > 1 or "--no-mcp-sessions" in options.on:
        # A session is known to one process, and the next request may reach another.
        plan = plan._replace(http={**plan.http, "mcp_sessions": False})
    site = plan.site(app)
    if plan.worker:
        program.console.say(f"Tasks are run, too, {plan.worker} at once. They are kept in {app.store.name}.")
    at = listening(host, _whole("--port", given.get("--port", PORT), 0, 65535))
    link = None
    try:
        if _has_console(options, given, way):
            link = _console(program, app, site, at, given.get("--console"))
    except Failure:
        at.close()
        raise
    _announce(program, app, at.getsockname(), known=known, console=link)
    return serve(plan, way, site, at)


def _has_console(options: Options, given: dict[str, str], way: Way) -> bool:
    wanted = "--console" in options.on or "--console" in given
    if wanted and (way.workers > 1 or way.reload):
        raise wrong_option(
            "--console", "is for one process that serves; it goes with neither --workers nor --reload"
        )
    return wanted


def _console(program: Program, app: App, site: HttpApp, served: socket.socket, port: str | None) -> str:
    """Have the console in the same process, at a port of its own that only this machine reaches; gives its link."""
    from fairlead.surfaces.console import Console
    from fairlead.surfaces.console.serving import Alongside, address
    from fairlead.surfaces.http.serving import listening

    user, auth = program.identity
    console = Console(app, user=user, auth=auth, program=program.spelled, address=address(served))
    wanted = _whole("--console", CONSOLE_PORT if port is None else port, 0, 65535)
    at = listening(HOST, wanted, "--console=0")
    site.beside.append(Alongside(console, at))
    return console.link(address(at))


def _with_stored_keys(app: App, plan: Plan) -> Plan:
    """The plan for a server that everybody can reach: callers need a key of the store. Raises Failure without one."""
    agents = any("agent" in action.metadata for action in app.catalogue)
    keys = importlib.import_module("fairlead.gateway.keys") if agents else None
    if keys is not None and keys.Keys(app.store, app.wall).any_now():
        return plan._replace(http={**plan.http, "gateway": {"required": True}})
    way = "Make a key with `fairlead keys new NAME`"
    way += ", or give" if agents else " and give the file with --api-keys, or"
    raise Failure(
        Kind.invalid_input,
        f"Without keys or tokens anybody on the network could call the app, so it is served on {HOST} only. "
        f"{way} tokens' keys with --jwks.",
    )


def _given(program: Program, options: Options) -> dict[str, str]:
    environ = program.console.environ
    said = {flag: environ[name] for flag, name in _VARIABLES.items() if environ.get(name)}
    return said | options.values


def _plan(program: Program, options: Options, given: dict[str, str]) -> Plan:
    from fairlead.surfaces.http.serving import Plan
    from fairlead.surfaces.mcp.own import own_server

    http: dict[str, Any] = {flag[2:].replace("-", "_"): True for flag in _INCLUDE if flag in options.on}
    for flag, name in (("--cors", "cors"), ("--allowed-host", "allowed_hosts")):
        if flag in given:
            http[name] = [part.strip() for part in given[flag].split(",") if part.strip()]
    if "--gateway" in options.on:
        http["gateway"] = {}
    jwt = None
    if "--jwks" in given:
        jwt = {"jwks": given["--jwks"]}
        jwt |= {flag[2:]: given[flag] for flag in ("--issuer", "--audience") if flag in given}
    elif "--issuer" in given or "--audience" in given:
        raise wrong_option("--issuer", "needs --jwks: the keys that its tokens are signed with")
    worker = 0
    if "--worker" in options.on or "--worker" in given:
        worker = _whole("--worker", given.get("--worker", CONCURRENCY), 0, 10_000)
    keys = given.get("--api-keys")
    if keys is not None and not os.path.exists(keys):
        way = f"{program.spelled} keys new NAME --file {keys}"
        raise wrong_option("--api-keys", f"there is no file {keys!r}. This makes it, and a key: {way}")
    own = own_server(program, "--mcp", given.get("--mcp"))
    return Plan(program.import_target(), os.getcwd(), keys, jwt, http, worker, own, packaged=program.owned)


def _way(options: Options, given: dict[str, str]) -> Way:
    from fairlead.surfaces.http.serving import Way

    level = given.get("--log-level", "warning")
    if level not in _LEVELS:
        raise wrong_option("--log-level", f"expected one of {', '.join(_LEVELS)}.{near_miss(level, _LEVELS)}")
    workers = _whole("--workers", given.get("--workers", "1"), 1, 1024)
    if workers > 1 and "--reload" in options.on:
        raise wrong_option("--reload", "goes with one worker only")
    root = given.get("--root-path", "").rstrip("/")
    if root and (not root.startswith("/") or root.startswith("//")):
        raise wrong_option("--root-path", "expected a path that begins with a slash, such as /tools")
    access_log = "--access-log" in options.on
    return Way(
        workers,
        "--reload" in options.on,
        _seconds("--drain", given.get("--drain", "10")),
        "info" if access_log and level == "warning" else level,
        access_log,
        root,
    )


def _announce(
    program: Program, app: App, place: tuple[Any, ...], *, known: bool, console: str | None
) -> None:
    host, port = place[:2]
    root = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    say = program.console.say
    say(f"Serving {app.name}. Ctrl-C stops it.")
    if console is not None:
        say(f"  console {console}")
    for what, path in (("actions", "/fairlead/actions"), ("docs", "/docs"), ("MCP", "/mcp")):
        say(f"  {what:8}{root}{path}")
    if agents_of(app):
        say(f"  agents  {root}/api/v1/agents")
    if console is not None:
        say("The console's link works once.")
    if agents_of(app):
        say(f"Whoever asks agents there needs a key: {program.spelled} keys new NAME")
    if not known:
        why = "All else needs none" if agents_of(app) else "There are no keys or tokens"
        say(f"{why}: every caller is anonymous, and only this machine can call.")


def _openapi(program: Program, arguments: list[str]) -> int:
    options = Options(arguments, _INCLUDE, ("--out",))
    from fairlead._json import encode
    from fairlead.actions import Exposure
    from fairlead.surfaces.http.openapi import openapi_document

    include: dict[str, Any] = {flag[2:].replace("-", "_"): True for flag in _INCLUDE if flag in options.on}
    document = openapi_document(program.the_app(), exposure=Exposure(**include))
    out = options.values.get("--out")
    if out is None:
        return program.write_json(document)
    try:
        Path(out).write_bytes(encode(document, indent=True) + b"\n")
    except OSError as exc:
        raise wrong_option("--out", f"cannot be written: {exc.strerror}") from exc
    program.console.say(f"Wrote {out}.")
    return 0


def _require_uvicorn() -> None:
    try:
        import uvicorn  # noqa: F401
    except ImportError as exc:
        message = "Serving needs uvicorn, which is not installed: pip install 'fairlead[serve]'."
        raise Failure(Kind.misconfigured, message, cause=exc) from exc


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _names_here(host: str) -> list[str]:
    """What this machine calls itself: a page whose name was made to point here sends its own (DNS rebinding)."""
    from fairlead.surfaces.http.hosts import LOOPBACK

    return [*LOOPBACK, f"[{host}]" if ":" in host else host]


def _whole(flag: str, text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise wrong_option(flag, f"expected a whole number from {least} to {most}")
    return int(text)


def _seconds(flag: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise wrong_option(flag, "expected seconds, from 0 to 3600")
    return seconds


_INCLUDE_ROWS = (
    ("--include-destructive", "Offer destructive actions, too; they still need to be confirmed."),
    ("--include-local", "Offer local actions, too."),
    ("--include-private", "Offer private actions, too."),
)

SERVE = Command(
    "serve [--host HOST] [--port PORT] [--api-keys FILE] [OPTIONS]",
    (
        (
            "--host HOST",
            f"Where to listen; beyond this machine only with keys or tokens. [env: FAIRLEAD_HOST] [default: {HOST}]",
        ),
        ("--port PORT", f"0 takes any that is free. [env: FAIRLEAD_PORT] [default: {PORT}]"),
        (
            "--api-keys FILE",
            "Know callers by the API keys in this file, as `fairlead keys` writes it. [env: FAIRLEAD_KEYS]",
        ),
        ("--jwks FILE", "Know callers by tokens that are signed with one of these keys."),
        ("--issuer TEXT", "Whose tokens count."),
        ("--audience TEXT", "For whom tokens must be meant."),
        ("--workers N", "Processes that serve. [env: FAIRLEAD_WORKERS] [default: 1]"),
        (
            "--worker[=N]",
            f"Run tasks, too, N at once in each process that serves; 0 runs none. "
            f"[default: {CONCURRENCY} where the app has agents, else none]",
        ),
        (
            "--mcp MODULE:NAME",
            "What /mcp serves: a server of your own, such as `server = app.mcp()`. [default: mcp.server]",
        ),
        (
            "--no-mcp-sessions",
            "Answer each request at /mcp by itself, where several servers share it. [default: with --workers]",
        ),
        ("--gateway", "Serve the agents' API, also for an app that has no agents of its own."),
        (
            "--console[=PORT]",
            "Have the browser console in the same process, at a port of its own that only this machine reaches; "
            f"0 takes any that is free. [default: none; {CONSOLE_PORT} without PORT]",
        ),
        DATA_ROW,
        ("--reload", "Start again when a file of the project changes."),
        ("--drain SECONDS", "How long running calls may go on when it stops. [default: 10]"),
        ("--cors ORIGINS", "Pages of these origins may call, separated by commas."),
        ("--allowed-host HOSTS", "Answer only to these names, separated by commas."),
        ("--root-path PATH", "The path that a proxy puts before ours."),
        *_INCLUDE_ROWS,
        ("--log-level LEVEL", f"{', '.join(_LEVELS)}. [default: warning]"),
        ("--access-log", "Log every request."),
    ),
    _serve,
    ("serve", "serve --host 0.0.0.0 --api-keys fairlead-keys.json --workers 4"),
)
OPENAPI = Command(
    "openapi [--out FILE]",
    (("--out FILE", "Write it there instead of printing it."), *_INCLUDE_ROWS),
    _openapi,
    ("openapi --out openapi.json",),
)
