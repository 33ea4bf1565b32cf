"""The gateway: what asking an agent costs beside a plain action, tasks that are created, and streams that stay open."""

import http.client
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import load
from environments import GATEWAY
from hosting import JSON, Host, HostError, Site
from load import Requests, Tally, contest
from queueing import Queue, Servers, toilers
from report import Section, percent, times
from rounds import Failures, Pace, Timing

KEY = "oag_" + "be" * 32
TOLD = {**JSON, "Authorization": f"Bearer {KEY}"}
SITE, WORKING = "servers.gateway:site", "servers.gateway:working_site"
PLAIN, AGENT = "plain action", "echo agent"
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
INVOKE = "/api/v1/agents/{}/invoke"
TASKS = "/api/v1/agents/{}/tasks"

#: Tasks that a bare loop inserts in one turn.
COUNT = 200
#: Streams whose first frame is timed.
FIRST = 200
CLIENTS = 2000
#: Tasks that they watch.
WATCHED = 50
LARGEST_KIB = 60
#: Milliseconds within which the first piece should be with the client.
SOON = 2

WHAT = f"""\
An agent that follows a script, asked over HTTP with a key, in the gateway's default setup: keys, rates, the audit log
and the record that every call leaves are on.
"Of it" is the rate as a part of the plain action's or the bare loop's: the plain action says the same words through
`/fairlead/actions`, without a key; the bare loops are those of the tasks' section, one insert after the other, each
on disk before the next.
"The engine" is `Tasks.submit` in a loop.
Calls are made by `wrk -t1 -c{load.CONNECTIONS}`, tasks are created by as many callers; nobody runs them meanwhile.
"First frame" is from the moment the model's script has its first words to the moment a client on the same machine
has the first frame of the stream.
"Clients" are {CLIENTS:,} streams of the events of {WATCHED} tasks that are held in one process that serves and works;
in the end the tasks are let go, and every client must see the end of its own."""

COLUMNS = ("work", "by", "figure", "spread", "of it", "p50 ms", "p99 ms", "CPU µs")


def measure(pace: Pace, failures: Failures) -> Section:
    section = Section("gateway", "The gateway", WHAT, COLUMNS)
    with Servers() as servers:
        for part in (_invoke, _create, _first, _clients):
            began = time.perf_counter()
            try:
                part(section, servers, pace)
            except Exception as reason:
                failures.add(f"fairlead gateway, {part.__name__[1:]}", reason)
            print(f"  {part.__name__[1:]}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return section


@contextmanager
def _serving(name: str, target: str, path: str, store: str) -> Iterator[Host]:
    GATEWAY.ensure()
    # A process that is started takes it along.
    os.environ["BENCH_STORE"] = store
    host = Host(Site(name, target, path, GATEWAY, "fairlead"))
    try:
        yield host
    finally:
        host.close()


# Asking and waiting for the answer.


def _invoke(section: Section, servers: Servers, pace: Pace) -> None:
    action = "/fairlead/actions/say/invoke"
    store = f"sqlite:///{servers.file('gateway')}"
    with (
        _serving(PLAIN, SITE, action, "") as plain,
        _serving(AGENT, SITE, INVOKE.format("echo"), store) as agent,
    ):
        asked, said = b'{"input":{"text":"hello"}}', b'{"message":"hello"}'
        _right(plain, asked, JSON, b'"data":"hello"')
        _right(agent, said, TOLD, b'"text":"hello"')
        found = contest([Requests(plain, asked), Requests(agent, said, TOLD)], pace.bursts)
    _add_rates(section, "blocking calls a second", found)
    part = found[PLAIN].seconds.cost(found[AGENT].seconds)
    section.require(f"a blocking call of an {AGENT}: at least 0.4 of a {PLAIN}", times(part), part >= 0.4)


def _right(host: Host, body: bytes, headers: dict[str, str], wanted: bytes) -> None:
    status, _, answer = host.ask(body, headers)
    if status >= 300 or wanted not in answer:
        raise HostError(f"it answered {status}: {answer[:200]!r}")


def _add_rates(section: Section, work: str, found: dict[str, Tally]) -> None:
    for name, tally in found.items():
        part = "" if name == PLAIN else times(found[PLAIN].seconds.cost(tally.seconds))
        rate, spread, *answered, _ = tally.cells()
        section.rows.append((work, name, rate, spread, part, *answered))
        section.numbers[f"{work}: {name}"] = tally.numbers()


def _row(*cells: str) -> tuple[str, ...]:
    """What is not said of it is left empty."""
    return (*cells, *[""] * (len(COLUMNS) - len(cells)))


# Creating tasks.


def _create(section: Section, servers: Servers, pace: Pace) -> None:
    forms = {
        SQLITE: (
            f"sqlite:///{servers.file('creating')}",
            f"sqlite:///{servers.file('engine')}",
            Queue("bare loop", "queues.bare:Sqlite", (servers.file("bare"),)),
        ),
        POSTGRES: (
            servers.database("creating"),
            servers.database("engine"),
            Queue("bare loop", "queues.bare:Postgres", (servers.database("bare"),)),
        ),
    }
    for form, (store, engines, queue) in forms.items():
        bare, own, many, single = Timing(), Timing(), Tally(), Timing()
        body = b'{"message":"hello"}'
        with (
            toilers([queue, Queue("engine", "queues.fairlead:Fairlead", (engines,))]) as (loop, engine),
            _serving(AGENT, SITE, TASKS.format("echo"), store) as host,
        ):
            _right(host, body, TOLD, b'"queued"')
            requests = Requests(host, body, TOLD)
            for turn in range(pace.bursts + 1):
                print(f"  {form}: turn {turn} of {pace.bursts}", file=sys.stderr)
                seconds = loop.ask("submit", COUNT) / COUNT
                submitted = engine.ask("submit", COUNT) / COUNT
                burst, single_seconds = requests.burst(), _one_by_one(host, body, COUNT)
                if turn:  # the first is to warm up
                    bare.rounds.append(seconds)
                    own.rounds.append(submitted)
                    many.add(burst)
                    single.rounds.append(single_seconds)
        work = f"{form}, tasks created a second"
        alone = {"bare loop": bare, "the engine, no HTTP": own, "one caller": single}
        for name, timing in alone.items():
            part = "" if timing is bare else times(bare.cost(timing))
            rate = f"{1 / timing.median:,.0f}"
            section.rows.append(_row(work, name, rate, percent(timing.spread), part))
        ratio = bare.cost(many.seconds)
        rate, spread, *answered, _ = many.cells()
        section.rows.append((work, f"{load.CONNECTIONS} callers", rate, spread, times(ratio), *answered))
        section.numbers[f"{form}: create"] = {
            **{name: 1 / timing.median for name, timing in alone.items()},
            "callers": 1 / many.seconds.median,
        }
        section.require(f"{form}: tasks created: at least 0.5 of the bare loop", times(ratio), ratio >= 0.5)


def _one_by_one(host: Host, body: bytes, count: int) -> float:
    """Seconds for one request, each after the other on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=20)
    try:
        start = time.perf_counter()
        for _ in range(count):
            connection.request("POST", host.site.path, body, TOLD)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 202:
                raise HostError(f"a task was answered {answer.status}")
        return (time.perf_counter() - start) / count
    finally:
        connection.close()


# The first frame.


def _first(section: Section, servers: Servers, pace: Pace) -> None:
    store = f"sqlite:///{servers.file('gateway')}"
    with _serving(AGENT, SITE, INVOKE.format("timed"), store) as host:
        for _ in range(20):
            _until_first(host)
        timing = Timing([_until_first(host) for _ in range(FIRST // 4 if pace.quick else FIRST)])
    median = f"{timing.median * 1000:.2f}"
    section.rows.append(_row("first frame, ms", AGENT, median, percent(timing.spread)))
    section.numbers["first frame"] = timing.median
    promise = f"the first frame is with the client within {SOON} ms of the agent's first words (median)"
    section.require(promise, f"{median} ms", timing.median * 1000 < SOON)


def _until_first(host: Host) -> float:
    """Seconds between an agent's first words and their arrival. The words say when they were said."""
    got = b""
    with _opened(host, "POST", host.site.path, b'{"message":"now"}') as connection:
        while part := connection.recv(65_536):
            now = time.monotonic()
            got += part
            for line in got.split(b"\n")[:-1]:
                if b'"delta"' in line:
                    return now - float(json.loads(line.removeprefix(b"data: "))["text"])
    raise HostError(f"a stream ended before its first words: {got[-200:]!r}")


# Streams that stay open.


def _clients(section: Section, servers: Servers, pace: Pace) -> None:
    _allow_files(2 * CLIENTS + 200)
    store = f"sqlite:///{servers.file('clients')}"
    with _serving("fairlead", WORKING, TASKS.format("held"), store) as host, ExitStack() as held:
        ids = [_created(host) for _ in range(WATCHED)]
        paths = [f"{host.site.path}/{id}/events" for id in ids]
        opened = [
            _begun(held.enter_context(_opened(host, "GET", paths[number % WATCHED])))
            for number in range(CLIENTS // 10)
        ]
        before = host.resident()
        opened += [
            _begun(held.enter_context(_opened(host, "GET", paths[number % WATCHED])))
            for number in range(CLIENTS)
        ]
        size = (host.resident() - before) / CLIENTS / 1024
        began = time.perf_counter()
        host.ask(b'{"input":{}}', path="/fairlead/actions/release/invoke")
        whole = sum(_ended(each) for each in opened)
        taken = time.perf_counter() - began
    section.rows.append(_row(f"{CLIENTS:,} clients, KiB each", "fairlead", f"{size:.1f}"))
    section.rows.append(_row(f"{CLIENTS:,} clients told the end, s", "fairlead", f"{taken:.2f}"))
    section.numbers["clients"] = {"kib": size, "whole": whole, "opened": len(opened), "seconds": taken}
    promise = f"a client of {CLIENTS:,} that watch: under {LARGEST_KIB} KiB"
    section.require(promise, f"{size:.1f} KiB", 0 < size < LARGEST_KIB)
    dropped = len(opened) - whole
    section.require(f"{CLIENTS:,} clients: none is dropped", f"{dropped} dropped", not dropped)


def _created(host: Host) -> str:
    status, _, answer = host.ask(b'{"message":"wait"}', TOLD)
    if status != 202:
        raise HostError(f"a task was answered {status}: {answer[:200]!r}")
    id: str = json.loads(answer)["data"]["task_id"]
    return id


def _opened(host: Host, method: str, path: str, body: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", host.port), 30)
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{host.port}", "Accept: text/event-stream"]
    lines += [f"{name}: {value}" for name, value in TOLD.items()]
    lines += [f"Content-Length: {len(body)}"] if body else []
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


def _begun(connection: socket.socket) -> socket.socket:
    """Wait for the first message."""
    got = b""
    while b"id: 1\n" not in got:
        part = connection.recv(65_536)
        if not part:
            raise HostError(f"a stream ended before its first message: {got[-200:]!r}")
        got += part
    return connection


def _ended(connection: socket.socket) -> bool:
    """Whether a stream comes to its end, with the task's."""
    got = b""
    try:
        while not got.endswith(b"0\r\n\r\n"):
            part = connection.recv(65_536)
            if not part:
                return False
            got += part
    except OSError:
        return False
    return b'"state":"completed"' in got and b"task_terminal" in got


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
