"""MCP over Streamable HTTP: calls of a tool in a session."""

import json

import load
from environments import MCP
from hosting import JSON, Host, Site, hosts
from load import NUMBER, Requests, Tally, contest
from piping import INITIALIZE, INITIALIZED, REVISION, call_of
from report import Section, times
from rounds import Failures, Pace
from task import MARK, VALID

OURS = "fairlead"
FLOOR = "JSON-RPC over ASGI, no protocol"

SITES = [
    Site(FLOOR, "servers.bare:rpc", "/mcp", package="uvicorn"),
    Site(OURS, "servers.fairlead:site", "/mcp", package="fairlead"),
    Site("mcp", "servers.tools:official_site", "/mcp", MCP, "mcp"),
    Site("fastmcp", "servers.tools:fastmcp_site", "/mcp", MCP, "fastmcp"),
]

WHAT = f"""\
`tools/call` of the shared task at `/mcp`, in a session that was opened before, by `wrk -t1 -c{load.CONNECTIONS}`.
All answer with plain JSON, on uvicorn with uvloop and httptools, one worker on one core.
The floor reads the message, validates the arguments, calls, validates the result and writes the answer."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("server", "version", "of floor", *load.COLUMNS)
    section = Section("mcp-http", "MCP over HTTP", WHAT, columns)
    with hosts(SITES, failures) as running:
        loads = [made for host in running if (made := _session(host, failures))]
        results = contest(loads, pace.bursts)
    for host in running:
        if found := results.get(host.site.name):
            part = times(results[FLOOR].seconds.cost(found.seconds)) if FLOOR in results else "-"
            section.rows.append((host.site.name, host.version, part, *found.cells()))
            section.numbers[host.site.name] = found.numbers()
    _judge(section, results)
    return section


def _session(host: Host, failures: Failures) -> Requests | None:
    """Calls in a session of their own; none if the server does not do the job."""
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    if host.site.name != FLOOR:
        _, answered, _ = host.ask(json.dumps(INITIALIZE).encode(), headers)
        headers["MCP-Protocol-Version"] = REVISION
        if "mcp-session-id" in answered:
            headers["Mcp-Session-Id"] = answered["mcp-session-id"]
        host.ask(json.dumps(INITIALIZED).encode(), headers)
    status, _, body = host.ask(json.dumps(call_of(1, VALID)).encode(), headers)
    if status == 200 and str(MARK).encode() in body:
        # No two calls that run at once may have the same id.
        numbered = json.dumps(call_of(NUMBER, VALID)).replace(f'"{NUMBER}"', NUMBER)
        return Requests(host, numbered.encode(), headers)
    failures.add(host.site.name, f"it answered a call with {status}")
    return None


def _judge(section: Section, results: dict[str, Tally]) -> None:
    if OURS not in results:
        return
    ours = results[OURS].seconds
    if FLOOR in results:
        part = results[FLOOR].seconds.cost(ours)
        section.require("at least 0.6 of the floor", times(part), part >= 0.6)
    for peer in ("mcp", "fastmcp"):
        if peer in results:
            ratio = results[peer].seconds.cost(ours)
            section.require(f"at least 8 times as many calls as {peer}", times(ratio), ratio >= 8)
