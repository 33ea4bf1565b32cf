"""An action over HTTP: a second of load for each server in turn."""

import json

import load
from environments import WEB
from hosting import Host, Site, hosts
from load import Requests, Tally, contest
from report import Section, times
from rounds import Failures, Pace
from task import MARK, TOO_SHORT, VALID

OURS = "fairlead"
BARE = "bare ASGI function"
FASTAPI = "FastAPI"
#: For information: BlackSheep's compiled parts with none of its binding.
BY_HAND = "BlackSheep, validated by hand"

SITES = [
    Site(BARE, "servers.bare:invoke", "/", package="uvicorn"),
    Site(OURS, "servers.fairlead:site", "/fairlead/actions/create_task/invoke", package="fairlead"),
    Site("Starlette, validated by hand", "servers.starlette:site", "/invoke", WEB, "starlette"),
    Site("BlackSheep", "servers.blacksheep:site", "/invoke", WEB, "blacksheep"),
    Site(BY_HAND, "servers.blacksheep:site", "/by-hand", WEB, "blacksheep"),
    Site("Robyn, validated by hand", "servers.robyn:site", "/invoke", WEB, "robyn"),
    Site("Litestar", "servers.litestar:site", "/invoke", WEB, "litestar"),
    Site(FASTAPI, "servers.fastapi:site", "/invoke", WEB, "fastapi"),
]

WHAT = f"""\
The action of the first section, asked for by `wrk -t1 -c{load.CONNECTIONS}`: a JSON body in, validated, the function
called, its result validated and written as JSON.
Every server is one worker on one core, the load is made on the others; each gets one second in every turn.
All but Robyn, which has its own, run on uvicorn with uvloop and httptools.
Fairlead answers with its whole envelope, through the whole runtime; the bare function and those validated by hand
go from the body's bytes to the answer's with pydantic's compiled adapters.
"CPU" is the processor time of the server for one request, "memory" its resident set after the load."""


def measure(pace: Pace, failures: Failures) -> Section:
    columns = ("server", "version", "of bare", *load.COLUMNS)
    section = Section("http", "HTTP", WHAT, columns)
    with hosts(SITES, failures) as running:
        right = [host for host in running if _does_the_job(host, failures)]
        results = contest([Requests(host, _body(host, VALID)) for host in right], pace.bursts)
    for host in right:
        found = results[host.site.name]
        part = times(results[BARE].seconds.cost(found.seconds)) if BARE in results else "-"
        section.rows.append((host.site.name, host.version, part, *found.cells()))
        section.numbers[host.site.name] = found.numbers()
    _judge(section, results)
    return section


def _body(host: Host, arguments: dict[str, object]) -> bytes:
    return json.dumps({"input": arguments} if host.site.name == OURS else arguments).encode()


def _does_the_job(host: Host, failures: Failures) -> bool:
    """Whether it answers what is right, and refuses what is wrong."""
    right, _, body = host.ask(_body(host, VALID))
    wrong, _, _ = host.ask(_body(host, TOO_SHORT))
    if right == 200 and str(MARK).encode() in body and 400 <= wrong < 500:
        return True
    failures.add(
        host.site.name, f"it answered {right} where it should succeed and {wrong} where it should not"
    )
    return False


def _judge(section: Section, results: dict[str, Tally]) -> None:
    if OURS not in results:
        return
    ours = results[OURS].seconds
    if BARE in results:
        part = results[BARE].seconds.cost(ours)
        section.require(f"at least 0.7 of the {BARE}", times(part), part >= 0.7)
    if FASTAPI in results:
        ratio = results[FASTAPI].seconds.cost(ours)
        section.require(f"at least twice {FASTAPI}", times(ratio), ratio >= 2)
    for name, found in results.items():
        if name not in (OURS, BARE, FASTAPI, BY_HAND):
            ratio = found.seconds.cost(ours)
            section.require(f"ahead of {name}", times(ratio), ratio > 1)
