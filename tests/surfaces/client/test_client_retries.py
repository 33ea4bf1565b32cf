"""When a client sends a call again, and when it does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from itertools import count
from types import ModuleType
from typing import Any

import pytest

from fairlead import Failure, Kind
from fairlead.actions import Retry
from fairlead.failures import action as wire
from fairlead.surfaces.client import Call, Client, Reply, SyncClient, Unreachable

SOON = {"retries": 3, "delay": 0.001}
marks = (f"mark {number}" for number in count())


class Peer:
    """A transport that tells these failures first, and remembers the calls."""

    retry = Retry(retries=2, delay=0.001)

    def __init__(self, *failures: Failure) -> None:
        self._failures = list(failures)
        self.calls: list[Call] = []
        self.times: list[float] = []

    async def invoke(self, call: Call) -> Reply[Any]:
        self._note(call)
        if not self._failures:
            return Reply({"ok": True, "data": len(self.calls)})
        failure = self._failures.pop(0)
        if isinstance(failure, wire.TransportError):
            raise failure
        return Reply({"ok": False, "error": wire.render(failure)})

    async def stream(self, call: Call) -> AsyncGenerator[Any, None]:
        self._note(call)
        if self._failures:
            raise self._failures.pop(0)
        yield {"type": "result", "envelope": {"ok": True, "data": len(self.calls)}}

    async def aclose(self) -> None: ...

    def _note(self, call: Call) -> None:
        self.calls.append(call)
        self.times.append(asyncio.get_running_loop().time())


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_call_is_sent_again_where_its_failure_says_that_may_help(kind: Kind) -> None:
    peer = Peer(Failure(kind))
    client = Client(transport=peer)
    if wire.retryable(Failure(kind)):
        assert await client.sail() == 2
    else:
        with pytest.raises(Failure):
            await client.sail()
        assert len(peer.calls) == 1


async def test_the_envelopes_own_word_counts_for_more_than_its_code() -> None:
    assert await Client(transport=Peer(Failure(Kind.internal, retryable=True))).sail() == 2
    with pytest.raises(Failure):
        await Client(transport=Peer(Failure(Kind.timeout, retryable=False))).sail()


async def test_what_was_never_sent_is_sent_again_and_what_may_have_been_is_not() -> None:
    assert await Client(transport=Peer(Unreachable(), Unreachable())).sail() == 3
    peer = Peer(wire.TransportError())
    with pytest.raises(wire.TransportError):
        await Client(transport=peer).sail()
    assert len(peer.calls) == 1


async def test_all_attempts_of_a_call_have_one_key_and_two_calls_have_two() -> None:
    peer = Peer(Failure(Kind.busy))
    client = Client(transport=peer)
    await client.sail()
    await client.sail()
    first, again, second = (call.idempotency_key for call in peer.calls)
    assert first == again
    assert first is not None
    assert second not in (None, first)
    await client.sail({}, idempotency_key="mine")
    assert peer.calls[-1].idempotency_key == "mine"


@pytest.mark.parametrize("off", [False, 0, Retry()])
async def test_retries_can_be_switched_off(off: Any) -> None:
    for client, options in ((Client(transport=Peer(Failure(Kind.busy)), retry=off), {}),
                            (Client(transport=Peer(Failure(Kind.busy))), {"retry": off})):  # fmt: skip
        reply = await client.sail({}, raw=True, **options)
        assert reply.failure is not None
        assert client.transport.calls[0].idempotency_key is None  # type: ignore[attr-defined]
        assert len(client.transport.calls) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("retry", "attempts"), [(None, 3), (True, 3), (1, 2), ({"retries": 4}, 5), (Retry(0), 1)]
)
async def test_retries_end(retry: Any, attempts: int) -> None:
    peer = Peer(*[Failure(Kind.busy)] * 9)
    reply = await Client(transport=peer, retry=retry).sail({}, raw=True)
    assert reply.failure is not None
    assert reply.failure.code == "CONCURRENCY_LIMIT"
    assert len(peer.calls) == attempts


async def test_pauses_are_as_long_as_the_failure_asks() -> None:
    peer = Peer(Failure(Kind.rate_limited, retry_after=0.05))
    await Client(transport=peer).sail()
    assert peer.times[1] - peer.times[0] >= 0.05


async def test_pauses_double_up_to_a_bound() -> None:
    peer = Peer(*[Failure(Kind.busy)] * 4)
    policy = {"retries": 4, "delay": 0.01, "backoff": "exponential", "max_delay": 0.03, "jitter": False}
    await Client(transport=peer, retry=policy).sail()
    pauses = [after - before for before, after in zip(peer.times, peer.times[1:], strict=False)]
    for pause, least in zip(pauses, (0.01, 0.02, 0.03, 0.03), strict=True):
        assert pause >= least


async def test_nobody_is_held_for_longer_than_the_longest_pause() -> None:
    peer = Peer(Failure(Kind.rate_limited, retry_after=60))
    with pytest.raises(wire.RateLimited) as raised:
        await Client(transport=peer, retry={"max_delay": 1}).sail()
    assert raised.value.retry_after == 60


async def test_a_deadline_bounds_all_attempts() -> None:
    peer = Peer(*[Failure(Kind.busy, retry_after=0.1)] * 99)
    client = Client(transport=peer, retry=99, deadline=0.3)
    reply = await client.sail({}, raw=True)
    assert reply.failure is not None
    assert 1 < len(peer.calls) <= 3
    left = [call.deadline for call in peer.calls if call.deadline is not None]
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < left[0] <= 0.3


async def test_a_cancel_ends_the_pause() -> None:
    peer = Peer(Failure(Kind.busy, retry_after=9))
    task = asyncio.ensure_future(Client(transport=peer).sail())
    while not peer.calls:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(peer.calls) == 1


async def test_a_stream_is_begun_again_only_if_it_was_never_sent() -> None:
    peer = Peer(Unreachable())
    events = [event async for event in Client(transport=peer).stream("sail")]
    assert events[-1]["envelope"]["data"] == 2
    # A key would make the server keep every chunk.
    assert peer.calls[0].idempotency_key is None
    for client in (
        Client(transport=Peer(wire.TransportError())),
        Client(transport=Peer(Unreachable()), retry=0),
    ):
        with pytest.raises(wire.TransportError):
            await anext(client.stream("sail"))


async def test_in_process_the_runtimes_own_policy_is_enough(harbour: ModuleType) -> None:
    client = Client(runtime=harbour.app)
    mark = next(marks)
    with pytest.raises(wire.ExternalServiceError):
        await client.signal_station(mark=mark)
    assert harbour.runs[mark] == 1
    assert await client.signal_station({"mark": mark, "failures": 3}, retry=SOON) == 4


async def test_over_http_a_retried_write_is_done_once_more_and_a_lost_one_once(
    harbour: ModuleType, harbour_url: str, scripted: Any
) -> None:
    async with Client(url=harbour_url, retry=SOON) as client:
        mark = next(marks)
        assert await client.signal_station({"mark": mark, "failures": 2}) == 3
        mark = next(marks)
        with pytest.raises(wire.InternalError):
            await client.signal_station({"mark": mark, "kind": "internal"})
        assert harbour.runs[mark] == 1
        reply = await client.add_boat({"boat": {"name": "Once"}}, idempotency_key="k1", raw=True)
        again = await client.add_boat({"boat": {"name": "Once"}}, idempotency_key="k1", raw=True)
        assert (reply.replayed, again.replayed) == (False, True)
        assert harbour.runs["add Once"] == 1


async def test_over_http_retry_after_is_kept(harbour_url: str) -> None:
    async with Client(url=harbour_url, retry=False) as client:
        reply = await client.signal_station(
            {"mark": next(marks), "kind": "rate_limited", "retry_after": 7}, raw=True
        )
    assert reply.failure is not None
    assert reply.failure.retry_after == 7


async def test_a_server_that_comes_up_late_is_found(scripted: Any) -> None:
    async with scripted() as gone:
        pass
    port = int(gone.url.rpartition(":")[2])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"ok": True, "data": "up"}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()
        writer.close()

    async with Client(url=gone.url, retry={"retries": 50, "delay": 0.01, "max_delay": 0.01}) as client:
        call = asyncio.ensure_future(client.sail())
        await asyncio.sleep(0.05)  # some attempts fail meanwhile
        assert not call.done()
        async with await asyncio.start_server(answer, "127.0.0.1", port):
            assert await asyncio.wait_for(call, 5) == "up"


def test_a_sync_client_retries_too() -> None:
    with SyncClient(transport=Peer(Unreachable(), Failure(Kind.busy))) as client:
        assert client.sail() == 3
