"""Load for servers: `wrk` for requests, bare sockets for streams.

It knows nothing of what the answers mean, but that they must be answers of success.
"""

import json
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from hosting import JSON, Host, HostError, on_other_cores
from report import micros, millis, percent
from rounds import Timing

WRK = "wrk"
NEEDED = "`wrk` is needed to make the load; on Debian or Ubuntu: apt-get install wrk"
CONNECTIONS = 32

_SCRIPT = """\
wrk.method = "POST"
wrk.body = {body}
{headers}
{each}
function done(summary, latency, requests)
  local errors = summary.errors
  local wrong = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\\n{{"requests": %d, "micros": %d, "p50": %d, "p99": %d, "wrong": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), wrong))
end
"""

#: Where each request has a number of its own.
NUMBER = "<number>"
_EACH = """\
local before, after, number = {before}, {after}, 0
function request()
  number = number + 1
  return wrk.format(nil, nil, nil, before .. number .. after)
end
"""


@dataclass(frozen=True)
class Burst:
    """What a second of requests came to."""

    #: Requests a second.
    rate: float
    #: Seconds.
    p50: float
    p99: float
    #: The server's processor time for one request, in seconds.
    cpu: float


class Requests:
    """The same request again and again, on 32 connections; what stands for a number in it is counted up."""

    def __init__(self, host: Host, body: bytes, headers: Mapping[str, str] = JSON) -> None:
        self.host = host
        self._script = tempfile.NamedTemporaryFile("w", suffix=".lua")  # noqa: SIM115  # wrk reads it each time
        lines = "\n".join(f"wrk.headers[{_lua(name)}] = {_lua(value)}" for name, value in headers.items())
        before, numbered, after = body.decode().partition(NUMBER)
        each = _EACH.format(before=_lua(before), after=_lua(after)) if numbered else ""
        self._script.write(_SCRIPT.format(body=_lua(body.decode()), headers=lines, each=each))
        self._script.flush()

    def burst(self, seconds: int = 1) -> Burst:
        """Raises HostError when an answer is not a success."""
        url = f"http://127.0.0.1:{self.host.port}{self.host.site.path}"
        command = [WRK, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", self._script.name, url]
        before = self.host.cpu()
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=on_other_cores)
        used = self.host.cpu() - before
        if done.returncode:
            raise HostError(done.stderr.strip() or "wrk failed")
        found = json.loads(done.stdout.strip().splitlines()[-1])
        if found["wrong"] or not found["requests"]:
            raise HostError(f"{found['wrong']} of {found['requests']} requests failed")
        rate = found["requests"] / found["micros"] * 1e6
        return Burst(rate, found["p50"] / 1e6, found["p99"] / 1e6, used / found["requests"])


COLUMNS = ("a second", "spread", "p50 ms", "p99 ms", "CPU µs", "memory MB")


@dataclass
class Tally:
    """A server's bursts, turn by turn, and its size after them."""

    seconds: Timing = field(default_factory=Timing)
    bursts: list[Burst] = field(default_factory=list)
    memory: int = 0

    def add(self, burst: Burst) -> None:
        self.seconds.rounds.append(1 / burst.rate)
        self.bursts.append(burst)

    def numbers(self) -> dict[str, float]:
        middle = {
            name: statistics.median(getattr(burst, name) for burst in self.bursts)
            for name in ("p50", "p99", "cpu")
        }
        return {"rate": 1 / self.seconds.median, **middle, "memory": self.memory}

    def cells(self) -> tuple[str, ...]:
        """What stands under `COLUMNS`."""
        found = self.numbers()
        times = millis(found["p50"]), millis(found["p99"]), micros(found["cpu"])
        return f"{found['rate']:,.0f}", percent(self.seconds.spread), *times, f"{self.memory / 1e6:.0f}"


def contest(loads: Sequence[Requests], turns: int) -> dict[str, Tally]:
    """A burst for each in every turn, the first turn to warm up. Tallies by the servers' names."""
    tallies = {requests.host.site.name: Tally() for requests in loads}
    for turn in range(turns + 1):
        print(f"  turn {turn} of {turns}" if turn else "  warming up", file=sys.stderr)
        for requests in loads:
            burst = requests.burst()
            if turn:
                tallies[requests.host.site.name].add(burst)
    for requests in loads:
        tallies[requests.host.site.name].memory = requests.host.resident()
    return tallies


def can_make_requests() -> bool:
    return shutil.which(WRK) is not None


def _lua(text: str) -> str:
    return json.dumps(text)


def read_stream(host: Host, body: bytes, last: int) -> float:
    """Read a stream to its end; gives the seconds it took. Raises HostError unless the last event has this id."""
    buffer = bytearray(1 << 20)
    view = memoryview(buffer)
    tail = b""
    start = time.perf_counter()
    with _opened(host, body) as connection:
        while count := connection.recv_into(view):
            tail = (tail + view[max(0, count - 600) : count].tobytes())[-600:]
            if tail.endswith(b"0\r\n\r\n"):
                break
    taken = time.perf_counter() - start
    if b"id: %d\n" % last not in tail:
        raise HostError(f"the stream ended without its event {last}")
    return taken


def idle_streams(host: Host, body: bytes, count: int) -> float:
    """Open so many streams that say one thing and wait; gives the bytes of memory each has cost."""
    _allow_files(2 * count + 200)
    with ExitStack() as held:
        for _ in range(count // 10):
            _begun(held.enter_context(_opened(host, body)))
        before = host.resident()
        for _ in range(count):
            _begun(held.enter_context(_opened(host, body)))
        return (host.resident() - before) / count


def _opened(host: Host, body: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", host.port), 20)
    head = (
        f"POST {host.site.path} HTTP/1.1\r\nHost: 127.0.0.1:{host.port}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def _begun(connection: socket.socket) -> None:
    """Wait for the first event."""
    got = b""
    while b"id: 1\n" not in got:
        part = connection.recv(65_536)
        if not part:
            raise HostError("a stream ended before its first event")
        got += part


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
