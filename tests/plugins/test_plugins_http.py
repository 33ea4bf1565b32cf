"""`http_request`: what is sent and what comes back, where it may not go, along redirects, and how often."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead._json import dumps
from fairlead.outgoing import Guard
from fairlead.outgoing.requests import LARGEST
from fairlead.plugins import http as plugin_http
from fairlead.plugins import slots
from fairlead.plugins.http import ANONYMOUS, LONGEST_MS, PER_MINUTE, TIMEOUT_MS, read
from fairlead.plugins.limits import Window
from fairlead.store import Store, open_store
from outgoing.receiver import Got, Receiver, reply
from plugins.plugin_host import ANN, BOB, Host
from servers import free_port

Make = Callable[..., Host]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        yield store


@pytest.fixture
async def make(store: Store, tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Host] = []

    def one(plugin: str = "acme.notes", **options: Any) -> Host:
        made.append(Host(store, tmp_path, plugin, **options))
        return made[-1]

    yield one
    for each in made:
        await each.close()


async def nowhere(name: str, port: int) -> list[str]:
    """A name server that knows no public name to be private, and none to be reached."""
    return ["192.0.2.1"]


async def here(name: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def asked(url: str, method: str = "GET", **more: Any) -> str:
    return dumps({"method": method, "url": url, **more})


def near() -> Guard:
    """Lets names of .test lead to this machine, and nothing else that is private be called."""
    return Guard(allow=["*.test"], resolve=here)


async def fetch(host: Host, url: str, method: str = "GET", **more: Any) -> Any:
    return await host.told(slots.HTTP_REQUEST, asked(url, method, **more))


# What is sent, and what comes back


async def test_a_request_arrives_and_its_answer_comes_back(make: Make) -> None:
    async with Receiver(
        lambda got: reply(201, "früh".encode(), X_Note="a", Content_Type="text/plain")
    ) as server:
        told = await fetch(
            make(guard=near()),
            f"http://api.test:{server.port}/v1?q=1",
            "post",
            headers={"X-Mine": "1"},
            body='{"a":1}',
        )
    (got,) = server.got
    assert (got.method, got.path, got.body, got.headers["x-mine"]) == ("POST", "/v1?q=1", b'{"a":1}', "1")
    assert (told["status"], told["body"], told["body_encoding"]) == (201, "früh", "utf8")
    assert told["headers"]["x-note"] == "a"
    assert isinstance(told["elapsed_ms"], int)
    assert set(told) == {"status", "headers", "body", "body_encoding", "elapsed_ms"}


async def test_headers_of_the_same_name_are_joined(make: Make) -> None:
    answer = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with Receiver(lambda got: answer) as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/")
    assert told["headers"]["x-a"] == "1, 2"


async def test_an_answer_that_is_no_text_comes_as_base64(make: Make) -> None:
    async with Receiver(lambda got: reply(200, b"\xff\x00\x80")) as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/")
    assert (told["body"], told["body_encoding"]) == ("/wCA", "base64")


async def test_a_body_may_be_sent_as_base64(make: Make) -> None:
    async with Receiver() as server:
        host, url = make(guard=near()), f"http://api.test:{server.port}/"
        await fetch(host, url, "POST", body=base64.b64encode(b"\xff\x00").decode(), body_encoding="base64")
        await fetch(host, url, "POST", body="not base64!", body_encoding="base64")
    assert [got.body for got in server.got] == [b"\xff\x00", b""]


async def test_headers_that_are_not_all_texts_are_left_out_altogether(make: Make) -> None:
    async with Receiver() as server:
        await fetch(make(guard=near()), f"http://api.test:{server.port}/", headers={"X-A": "1", "X-B": 2})
    assert "x-a" not in server.got[0].headers


async def test_the_user_agent_says_whose_request_it_is(make: Make) -> None:
    async with Receiver() as server:
        host, url = make(guard=near()), f"http://api.test:{server.port}/"
        await fetch(host, url)
        await fetch(host, url, headers={"user-agent": "Notes/2"})
    plain, own = (got.headers["user-agent"] for got in server.got)
    assert plain.startswith("Fairlead/")
    assert plain.endswith(" Plugin/acme.notes")
    assert own == f"Notes/2 {plain}"


async def test_an_error_of_the_server_is_an_answer(make: Make) -> None:
    async with Receiver(lambda got: reply(503, b"later")) as server:
        host = make(guard=near())
        told = await fetch(host, f"http://api.test:{server.port}/x?token=abcdef")
        (line,) = await host.lines()
    assert (told["status"], told["body"]) == (503, "later")
    assert line.title == f"GET /host-api/http → http://api.test:{server.port}/x?token=[REDACTED]"
    assert line.status == 503


@pytest.mark.parametrize(
    "request_json",
    [
        "not json",
        "[]",
        "{}",
        '{"method":"GET"}',
        '{"url":"https://a.example"}',
        '{"method":1,"url":"https://a.example"}',
        '{"method":"GET","url":5}',
        '{"method":"GET","url":""}',
        '{"method":"GET","url":"ftp://a.example/"}',
        '{"method":"GET","url":"https://user:pass@a.example/"}',
        '{"method":"GET","url":"https://a b.example/"}',
        '{"method":"G ET","url":"https://a.example/"}',
        '{"method":"GET\\r\\nX: y","url":"https://a.example/"}',
    ],
)
async def test_what_is_no_request_is_refused(make: Make, request_json: str) -> None:
    host = make(guard=Guard(resolve=nowhere))
    assert (await host.told(slots.HTTP_REQUEST, request_json))["error"] == "invalid_request"


async def test_a_header_cannot_smuggle_another(make: Make) -> None:
    async with Receiver() as server:
        told = await fetch(
            make(guard=near()), f"http://api.test:{server.port}/", headers={"X-A": "1\r\nX-B: 2"}
        )
        assert server.got == []
    assert told["error"] == "invalid_request"


@pytest.mark.parametrize(
    "value",
    ["s3cr3t\n", "s3cr3t\r\nX-B: 2", " s3cr3t", "s3cr3t ä", "s3cr3t\x00", "s3cr3t\x01"],
)
async def test_a_header_that_cannot_be_sent_is_named_and_its_value_shown_nowhere(
    make: Make, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = make(guard=near())
    async with Receiver() as server:
        told = await fetch(host, f"http://api.test:{server.port}/", headers={"X-Api-Key": value})
        assert server.got == []
    assert told["error"] == "invalid_request"
    assert "'X-Api-Key'" in told["message"]
    shown = [told["message"], caplog.text, *(str(line) for line in await host.lines())]
    assert not [each for each in shown if "3cr3t" in each]


async def test_a_name_that_no_header_can_have_is_not_shown(make: Make) -> None:
    told = await fetch(make(guard=near()), "http://api.test/", headers={"Authorization: s3cr3t\n": ""})
    assert told["error"] == "invalid_request"
    assert "s3cr3t" not in told["message"]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, TIMEOUT_MS / 1000),
        (5000, 5.0),
        (10**9, LONGEST_MS / 1000),
        (0, 30.0),
        (-1, 30.0),
        ("fast", 30.0),
        (True, 30.0),
    ],
)
def test_the_time_of_a_request_is_30_seconds_and_at_most_300(given: Any, seconds: float) -> None:
    assert (TIMEOUT_MS, LONGEST_MS) == (30_000, 300_000)
    more = {} if given is None else {"timeout_ms": given}
    assert read(asked("https://a.example", **more)).seconds == seconds


# What goes wrong on the way


async def test_a_server_that_is_not_there_refuses_the_connection(make: Make) -> None:
    told = await fetch(make(guard=near()), f"http://api.test:{free_port()}/")
    assert told["error"] == "connection_refused"
    assert isinstance(told["elapsed_ms"], int)


async def test_a_server_that_does_not_answer_is_a_timeout(make: Make) -> None:
    async with Receiver() as server:
        host, url = make(guard=near()), f"http://api.test:{server.port}/"
        await fetch(host, url)
        server.go.clear()
        asking = asyncio.ensure_future(fetch(host, url, timeout_ms=300))
        await server.count(2)
        told = await asking
    assert told["error"] == "connection_timeout"


async def test_a_name_that_nobody_knows_is_a_dns_failure(make: Make) -> None:
    async def unknown(name: str, port: int) -> list[str]:
        return []

    told = await fetch(make(guard=Guard(resolve=unknown)), "https://nowhere.example/")
    assert told["error"] == "dns_failure"


async def test_a_server_without_tls_is_a_tls_error(make: Make) -> None:
    ended = asyncio.Event()

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 mail.example ready\r\n")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        told = await fetch(make(guard=near()), f"https://api.test:{port}/")
        await ended.wait()
    assert told["error"] == "tls_error"


async def test_an_answer_that_is_not_http_is_invalid(make: Make) -> None:
    async with Receiver(lambda got: b"SSH-2.0-OpenSSH\r\n\r\n") as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/")
    assert told["error"] == "invalid_response"


async def test_an_answer_that_is_too_large_is_refused(make: Make) -> None:
    assert LARGEST == 50_000_000
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    async with Receiver(lambda got: head + b"x" * (LARGEST + 1)) as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/")
    assert told["error"] == "response_too_large"


async def test_a_request_that_is_too_large_is_not_sent(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_http, "LARGEST", 1000)
    async with Receiver() as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/", "POST", body="x" * 1001)
        assert server.got == []
    assert told["error"] == "request_too_large"


# Where it may not go


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://localhost/", "loopback"),
        ("http://localhost:8080/", "loopback"),
        ("http://LOCALHOST./", "loopback"),
        ("http://api.localhost/", "loopback"),
        ("http://ip6-localhost/", "loopback"),
        ("http://ip6-loopback/", "loopback"),
        ("http://[::1]/", "loopback"),
        ("http://[0:0:0:0:0:0:0:1]/", "loopback"),
        ("http://127.0.0.1/", "loopback"),
        ("http://127.255.255.255/", "loopback"),
        ("http://127.1/", "loopback"),
        ("http://2130706433/", "loopback"),
        ("http://0x7f000001/", "loopback"),
        ("http://0177.0.0.1/", "loopback"),
        ("http://10.0.0.1/", "RFC1918"),
        ("http://172.16.0.1/", "RFC1918"),
        ("http://172.31.255.255/", "RFC1918"),
        ("http://192.168.1.1/", "RFC1918"),
        ("http://0.0.0.0/", "unspecified"),
        ("http://0.1.2.3/", "unspecified"),
        ("http://169.254.0.1/", "link-local"),
        ("http://169.254.169.254/latest/meta-data", "metadata"),
        ("http://[fe80::1]/", "link-local"),
        ("http://[fe81::1]/", "link-local"),
        ("http://[febf::1]/", "link-local"),
        ("http://[fc00::1]/", "unique-local"),
        ("http://[fd12:3456::1]/", "unique-local"),
        ("http://[::]/", "unspecified"),
        ("http://[::ffff:127.0.0.1]/", "loopback"),
        ("http://[::ffff:7f00:1]/", "loopback"),
        ("http://[::ffff:10.0.0.1]/", "RFC1918"),
        ("http://[::ffff:169.254.169.254]/", "metadata"),
        ("http://[::10.0.0.1]/", "RFC1918"),
        ("http://[64:ff9b::7f00:1]/", "loopback"),
        ("http://[2002:7f00:1::]/", "loopback"),
        ("http://[ff02::1]/", "multicast"),
        ("http://100.64.0.1/", "carrier-grade"),
        ("http://100.127.255.255/", "carrier-grade"),
        ("http://224.0.0.1/", "multicast"),
        ("http://239.255.255.255/", "multicast"),
        ("http://255.255.255.255/", "broadcast"),
        ("data:text/plain,hello", "no host"),
    ],
)
async def test_what_is_not_public_is_blocked_in_every_spelling(make: Make, url: str, word: str) -> None:
    told = await fetch(make(guard=Guard(resolve=nowhere)), url)
    assert told["error"] == "ssrf_blocked", told
    assert word in told["message"]
    assert told["message"].endswith("(SSRF protection)")


@pytest.mark.parametrize(
    "host",
    [
        "8.8.8.8",
        "1.1.1.1",
        "203.0.113.1",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "240.0.0.1",
        "[2001:db8::1]",
        "example.com",
        "10.example.com",
        "127.0.0.1.example.com",
    ],
)
def test_what_is_public_passes_the_check_of_its_text(host: str) -> None:
    Guard(resolve=nowhere).screen(host)


async def test_a_public_name_that_leads_inside_is_blocked_and_nothing_is_sent(make: Make) -> None:
    async with Receiver() as server:
        told = await fetch(make(guard=Guard(resolve=here)), f"http://rebind.example:{server.port}/")
        assert server.got == []
    assert told["error"] == "ssrf_blocked"


async def test_a_name_that_leads_inside_at_its_second_look_is_not_looked_at_twice(make: Make) -> None:
    looks: list[str] = []

    async def rebinding(name: str, port: int) -> list[str]:
        looks.append(name)
        return ["192.0.2.1"] if len(looks) == 1 else ["127.0.0.1"]

    async with Receiver() as server:
        told = await fetch(
            make(guard=Guard(resolve=rebinding)), f"http://rebind.example:{server.port}/", timeout_ms=100
        )
        assert server.got == []
    assert told["error"] in ("connection_timeout", "connection_refused", "network_error")
    assert looks == ["rebind.example"]


# Redirects


def leading(*steps: str) -> Callable[[Got], bytes]:
    """Answers each path `/n` with a redirect to step n, and the rest with what it got."""

    def answer(got: Got) -> bytes:
        number = int(got.path.strip("/") or 0) if got.path.strip("/").isdigit() else 0
        return reply(302, Location=steps[number]) if number < len(steps) else reply(200, b"end")

    return answer


@pytest.mark.parametrize(
    ("location", "word"),
    [
        ("http://127.0.0.1/", "loopback"),
        ("http://localhost/", "loopback"),
        ("http://169.254.169.254/latest", "metadata"),
        ("//10.0.0.1/", "RFC1918"),
    ],
)
async def test_a_redirect_to_the_inside_is_blocked(make: Make, location: str, word: str) -> None:
    async with Receiver(lambda got: reply(302, Location=location)) as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/")
    assert told["error"] == "ssrf_blocked"
    assert word in told["message"]
    assert len(server.got) == 1


async def test_a_relative_redirect_is_followed_with_its_credentials(make: Make) -> None:
    async with Receiver(lambda got: reply(200) if got.path == "/b" else reply(302, Location="/b")) as server:
        await fetch(
            make(guard=near()),
            f"http://api.test:{server.port}/a",
            headers={"Authorization": "Bearer x", "Cookie": "a=b"},
        )
    assert [got.headers.get("authorization") for got in server.got] == ["Bearer x", "Bearer x"]


async def test_another_origin_does_not_get_the_credentials(make: Make) -> None:
    async with Receiver() as other, Receiver() as server:
        server.answer = lambda got: reply(307, Location=f"http://other.test:{other.port}/")
        await fetch(
            make(guard=near()),
            f"http://api.test:{server.port}/",
            "POST",
            headers={"Authorization": "Bearer x", "cookie": "a=b", "X-Mine": "1"},
            body="kept",
        )
    (got,) = other.got
    assert (got.headers.get("authorization"), got.headers.get("cookie")) == (None, None)
    assert (got.method, got.body, got.headers["x-mine"]) == ("POST", b"kept", "1")


@pytest.mark.parametrize(
    ("status", "method"),
    [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")],
)
async def test_a_redirect_keeps_the_method_or_makes_it_a_get(make: Make, status: int, method: str) -> None:
    async with Receiver(
        lambda got: reply(200) if got.path == "/b" else reply(status, Location="/b")
    ) as server:
        await fetch(
            make(guard=near()),
            f"http://api.test:{server.port}/a",
            "POST",
            body="x",
            headers={"Content-Type": "text/x"},
        )
    last = server.got[-1]
    kept = method == "POST"
    assert last.method == method
    assert (last.body, last.headers.get("content-type")) == ((b"x", "text/x") if kept else (b"", None))


async def test_a_redirect_is_the_answer_when_it_is_not_to_be_followed(make: Make) -> None:
    async with Receiver(lambda got: reply(302, Location="/b")) as server:
        told = await fetch(make(guard=near()), f"http://api.test:{server.port}/", follow_redirects=False)
    assert (told["status"], told["headers"]["location"]) == (302, "/b")


async def test_twenty_redirects_are_followed_and_one_more_is_too_many(make: Make) -> None:
    host = make(guard=near())
    async with Receiver(leading(*(f"/{number + 1}" for number in range(20)))) as server:
        assert (await fetch(host, f"http://api.test:{server.port}/0"))["status"] == 200
    async with Receiver(leading(*(f"/{number + 1}" for number in range(21)))) as server:
        assert (await fetch(host, f"http://api.test:{server.port}/0"))["error"] == "too_many_redirects"


# How often


def test_sixty_requests_in_sixty_seconds_are_the_default() -> None:
    assert (PER_MINUTE, Window(PER_MINUTE).seconds) == (60, 60.0)
    assert ANONYMOUS == "ffffffff-ffff-ffff-ffff-fffffffffff0"


async def test_the_sixty_first_request_of_a_minute_is_refused_until_the_window_has_slid(make: Make) -> None:
    now = [0.0]
    host = make(guard=near(), window=Window(PER_MINUTE, clock=lambda: now[0]))
    async with Receiver() as server:
        url = f"http://api.test:{server.port}/"
        for number in range(60):
            now[0] = float(number)
            assert (await fetch(host, url))["status"] == 200
        told = await fetch(host, url)
        assert (told["error"], told["retry_after_ms"]) == ("rate_limit_exceeded", 60_000)
        now[0] = 60.0
        assert (await fetch(host, url))["status"] == 200
        assert (await fetch(host, url))["error"] == "rate_limit_exceeded"
        assert len(server.got) == 61


async def test_agents_and_plugins_and_nobody_are_counted_apart(make: Make) -> None:
    window = Window(1)
    async with Receiver() as server:
        text = asked(f"http://api.test:{server.port}/")
        for plugin in ("a", "b"):
            host = make(plugin, guard=near(), window=window)
            for agent in (ANN, BOB, None):
                assert (await host.told(slots.HTTP_REQUEST, text, agent=agent)).get("status") == 200
                told = await host.told(slots.HTTP_REQUEST, text, agent=agent)
                assert told["error"] == "rate_limit_exceeded"


async def test_what_is_refused_and_what_is_redirected_is_not_counted(make: Make) -> None:
    host = make(guard=near(), window=Window(2))
    async with Receiver(leading("/1", "/2", "/3")) as server:
        for url in ("http://127.0.0.1/", "nonsense"):
            assert "error" in await fetch(host, url)
        for _ in range(2):
            assert (await fetch(host, f"http://api.test:{server.port}/0"))["status"] == 200


async def test_a_plugin_has_eight_requests_on_their_way_at_most(make: Make) -> None:
    host = make(guard=near())
    async with Receiver() as server:
        server.go.clear()
        asking = [asyncio.ensure_future(fetch(host, f"http://api.test:{server.port}/")) for _ in range(12)]
        await server.count(8)
        server.go.set()
        assert [(await each)["status"] for each in asking] == [200] * 12
    assert server.most == 8
