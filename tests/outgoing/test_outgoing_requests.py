"""Requests that go out: to the address that was checked, within their limits, and along redirects as far as wanted."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.failures import Failure, Kind
from fairlead.failures.host import (
    ConnectionRefused,
    ConnectionTimeout,
    InvalidResponse,
    RequestTooLarge,
    ResponseTooLarge,
    SsrfBlocked,
    TlsError,
    TooManyRedirects,
)
from fairlead.outgoing import Guard, Outgoing
from outgoing.receiver import Got, Receiver, reply
from servers import free_port

HERE = Guard(allow_private=True)


async def test_a_request_arrives_as_it_was_given() -> None:
    async with Receiver(lambda got: reply(201, b"made", x_note="yes")) as server:
        url = f"{server.url}/a%20b?q=1"
        received = await Outgoing(HERE).send("post", url, headers={"X-Mine": "1"}, body=b"{}")
    (got,) = server.got
    assert (got.method, got.path, got.body) == ("POST", "/a%20b?q=1", b"{}")
    assert got.headers["host"] == f"127.0.0.1:{server.port}"
    assert got.headers["x-mine"] == "1"
    assert got.headers["accept-encoding"] == "identity"
    assert (received.status, received.body, received.header("X-Note")) == (201, b"made", "yes")
    assert received.url == url


async def test_nothing_is_sent_to_an_address_that_may_not_be_called() -> None:
    async with Receiver() as server:
        with pytest.raises(SsrfBlocked, match="loopback"):
            await Outgoing(Guard()).send("GET", server.url)
        assert server.got == []


async def test_a_name_is_called_at_the_address_that_was_checked() -> None:
    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with Receiver() as server:
        guard = Guard(allow=["hooks.test"], resolve=resolve)
        await Outgoing(guard).send("GET", f"http://hooks.test:{server.port}/")
        assert server.got[0].headers["host"] == f"hooks.test:{server.port}"


async def test_a_name_is_resolved_once_and_the_socket_goes_to_what_was_checked() -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def resolve(name: str, port: int) -> list[str]:
        return answers.pop(0)

    async with Receiver() as server:
        outgoing = Outgoing(Guard(allow=["127.0.0.1"], resolve=resolve))
        await outgoing.send("GET", f"http://moves.example:{server.port}/")
        assert answers == [["10.0.0.1"]]
        with pytest.raises(SsrfBlocked, match="RFC1918"):
            await outgoing.send("GET", f"http://moves.example:{server.port}/")
        assert len(server.got) == 1


async def test_another_address_of_a_name_is_tried_when_one_refuses() -> None:
    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with Receiver() as server:
        guard = Guard(allow=["two.test"], resolve=resolve)
        received = await Outgoing(guard).send("GET", f"http://two.test:{server.port}/")
    assert received.status == 200


async def test_tls_keeps_the_name_and_trusts_no_other(tmp_path: Path) -> None:
    server_side, client_side = certificate("hooks.test", tmp_path)

    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    guard = Guard(allow=["*.test"], resolve=resolve)
    outgoing = Outgoing(guard, verify=client_side)
    async with Receiver(tls=server_side) as server:
        received = await outgoing.send("GET", f"https://hooks.test:{server.port}/")
        assert received.status == 200
        assert server.got[0].sni == "hooks.test"
        with pytest.raises(TlsError):
            await outgoing.send("GET", f"https://other.test:{server.port}/")
        with pytest.raises(TlsError):
            await Outgoing(guard).send("GET", f"https://hooks.test:{server.port}/")


async def test_a_redirect_is_an_answer_unless_it_is_to_be_followed() -> None:
    async with Receiver(lambda got: reply(302, location="http://169.254.169.254/")) as server:
        received = await Outgoing(HERE).send("GET", server.url)
    assert (received.status, received.header("location")) == (302, "http://169.254.169.254/")


async def test_a_redirect_to_loopback_is_refused() -> None:
    async with Receiver() as inside, Receiver(lambda got: reply(302, location=inside.url)) as server:
        guard = Guard(allow=["127.0.0.1"], resolve=_localhost)
        where = inside.url.replace("127.0.0.1", "127.0.0.2")
        server.answer = lambda got: reply(302, location=where)
        with pytest.raises(SsrfBlocked, match="loopback"):
            await Outgoing(guard).send("GET", server.url, redirects=5)
        assert inside.got == []


async def test_a_redirect_to_cloud_metadata_is_refused() -> None:
    async with Receiver(lambda got: reply(301, location="http://169.254.169.254/latest/")) as server:
        with pytest.raises(SsrfBlocked, match="metadata"):
            await Outgoing(HERE).send("GET", server.url, redirects=5)


async def test_a_relative_redirect_is_followed_with_its_credentials() -> None:
    def answer(got: Got) -> bytes:
        return reply(302, location="../there?x=1") if got.path == "/a/b" else reply(200, b"here")

    async with Receiver(answer) as server:
        received = await Outgoing(HERE).send(
            "GET", f"{server.url}/a/b", headers={"Authorization": "Bearer t", "Cookie": "c=1"}, redirects=20
        )
    assert received.body == b"here"
    assert received.url == f"{server.url}/there?x=1"
    assert server.got[1].headers["authorization"] == "Bearer t"
    assert server.got[1].headers["cookie"] == "c=1"


async def test_credentials_are_dropped_when_a_redirect_leads_to_another_origin() -> None:
    async with Receiver() as other, Receiver(lambda got: reply(307, location=other.url)) as server:
        names = "Authorization Proxy-Authorization Cookie X-API-Key Api-Key X-Auth-Token X-Agent-API-Key"
        given = dict.fromkeys([*names.split(), "PRIVATE-TOKEN", "Ocp-Apim-Subscription-Key"], "t-secret")
        given |= {"X-Odd": "Bearer t-secret", "X-Mine": "1", "Idempotency-Key": "2"}
        await Outgoing(HERE).send("GET", server.url, headers=given, redirects=1)
    assert all("t-secret" in server.got[0].headers[name.lower()] for name in list(given)[:-2])
    headers = other.got[0].headers
    assert not [name for name, value in headers.items() if "t-secret" in value]
    assert (headers["x-mine"], headers["idempotency-key"]) == ("1", "2")


async def test_credentials_go_along_where_a_redirect_stays_with_its_origin() -> None:
    async with Receiver(_moves(307)) as server:
        await Outgoing(HERE).send("GET", server.url, headers={"X-API-Key": "t-secret"}, redirects=1)
    assert [got.headers["x-api-key"] for got in server.got] == ["t-secret", "t-secret"]


async def test_credentials_are_dropped_when_a_redirect_leaves_tls(tmp_path: Path) -> None:
    server_side, client_side = certificate("hooks.test", tmp_path)
    guard = Guard(allow=["hooks.test"], resolve=_localhost)
    async with Receiver() as plain, Receiver(tls=server_side) as server:
        server.answer = lambda got: reply(302, location=f"http://hooks.test:{plain.port}/")
        await Outgoing(guard, verify=client_side).send(
            "GET", f"https://hooks.test:{server.port}/", headers={"Authorization": "Bearer t"}, redirects=1
        )
    assert "authorization" not in plain.got[0].headers


@pytest.mark.parametrize("status", [301, 302, 303])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_after_301_302_and_303_another_method_becomes_get_without_its_body(
    status: int, method: str
) -> None:
    async with Receiver(_moves(status)) as server:
        await Outgoing(HERE).send(
            method, server.url, headers={"Content-Type": "text/plain"}, body=b"hi", redirects=1
        )
    got = server.got[1]
    assert (got.method, got.body) == ("GET", b"")
    assert "content-type" not in got.headers
    assert "content-length" not in got.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_get_and_head_stay_what_they_are(method: str) -> None:
    async with Receiver(_moves(302)) as server:
        await Outgoing(HERE).send(method, server.url, redirects=1)
    assert server.got[1].method == method


@pytest.mark.parametrize("status", [307, 308])
async def test_after_307_and_308_the_same_request_is_made_again(status: int) -> None:
    async with Receiver(_moves(status)) as server:
        await Outgoing(HERE).send(
            "POST", server.url, headers={"Content-Type": "text/plain"}, body=b"hi", redirects=1
        )
    got = server.got[1]
    assert (got.method, got.body, got.headers["content-type"]) == ("POST", b"hi", "text/plain")


async def test_too_many_redirects_are_a_failure() -> None:
    async with Receiver(lambda got: reply(302, location="/again")) as server:
        with pytest.raises(TooManyRedirects):
            await Outgoing(HERE).send("GET", server.url, redirects=20)
        assert len(server.got) == 21


async def test_a_server_that_does_not_answer_is_left_after_the_time_limit() -> None:
    async with Receiver() as server:
        server.go.clear()
        with pytest.raises(ConnectionTimeout):
            await Outgoing(HERE).send("GET", server.url, timeout=0.2)


async def test_a_name_server_that_does_not_answer_is_left_after_the_time_limit() -> None:
    async def resolve(name: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(ConnectionTimeout):
        await Outgoing(Guard(resolve=resolve)).send("GET", "http://slow.example/", timeout=0.1)


async def test_a_large_answer_is_left_while_it_is_read() -> None:
    async with Receiver(lambda got: reply(200, bytes(200_000))) as server:
        with pytest.raises(ResponseTooLarge):
            await Outgoing(HERE, largest=100_000).send("GET", server.url)
        assert (await Outgoing(HERE, largest=200_000).send("GET", server.url)).body == bytes(200_000)
        assert (await Outgoing(HERE, largest=10).send("GET", server.url, read=False)).status == 200
        with pytest.raises(RequestTooLarge):
            await Outgoing(HERE, largest=10).send("POST", server.url, body=bytes(11))


async def test_a_compressed_answer_is_not_unpacked() -> None:
    async with Receiver(lambda got: reply(200, b"\x1f\x8b junk", content_encoding="gzip")) as server:
        assert (await Outgoing(HERE).send("GET", server.url)).body == b"\x1f\x8b junk"


async def test_a_port_where_nobody_listens_refuses() -> None:
    with pytest.raises(ConnectionRefused):
        await Outgoing(HERE).send("GET", f"http://127.0.0.1:{free_port()}/")


async def test_an_answer_that_is_no_http_is_told_as_such() -> None:
    async with Receiver(lambda got: b"what?\r\n\r\n") as server:
        with pytest.raises(InvalidResponse):
            await Outgoing(HERE).send("GET", server.url)


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GET", {"X-A": "1\r\nX-B: 2"}), ("GET", {"X A": "1"}), ("G ET", {}), ("GET", {"X-A": "\ud800"})],
)
async def test_headers_and_methods_cannot_smuggle(method: str, headers: dict[str, str]) -> None:
    async with Receiver() as server:
        with pytest.raises(Failure) as caught:
            await Outgoing(HERE).send(method, server.url, headers=headers)
        assert caught.value.kind is Kind.invalid_input
        assert server.got == []


async def test_a_host_header_is_ours_to_say() -> None:
    async with Receiver() as server:
        await Outgoing(HERE).send("GET", server.url, headers={"Host": "internal", "Content-Length": "99"})
        assert server.got[0].headers["host"] == f"127.0.0.1:{server.port}"


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver() as proxy, Receiver() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        await Outgoing(HERE).send("GET", server.url)
        assert proxy.got == []
        assert len(server.got) == 1


async def test_a_proxy_that_was_asked_for_is_used_after_the_check() -> None:
    async with Receiver() as proxy:
        outgoing = Outgoing(Guard(resolve=_public), proxy=proxy.url)
        await outgoing.send("GET", "http://example.com/x")
        assert proxy.got[0].path == "http://example.com/x"
        with pytest.raises(SsrfBlocked):
            await outgoing.send("GET", "http://10.0.0.1/")
        assert len(proxy.got) == 1


async def test_clients_of_httpx_are_guarded_by_the_transport_redirects_too() -> None:
    async with Receiver(lambda got: reply(302, location="http://169.254.169.254/")) as server:
        async with httpx.AsyncClient(transport=HERE.transport(), follow_redirects=True) as client:
            with pytest.raises(SsrfBlocked, match="metadata"):
                await client.get(server.url)
        async with httpx.AsyncClient(transport=Guard().transport()) as client:
            with pytest.raises(SsrfBlocked, match="loopback"):
                await client.get(server.url)
    assert len(server.got) == 1


async def test_connections_are_closed() -> None:
    async with Receiver() as server:
        outgoing = Outgoing(HERE)
        await outgoing.send("GET", server.url)
        await outgoing.close()
        assert (await outgoing.send("GET", server.url)).status == 200
        await outgoing.close()


def _moves(status: int):  # type: ignore[no-untyped-def]
    def answer(got: Got) -> bytes:
        return reply() if got.path == "/there" else reply(status, location="/there")

    return answer


async def _localhost(name: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def _public(name: str, port: int) -> list[str]:
    return ["93.184.216.34"]


def certificate(name: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A certificate of a name: for the server, and for a client that trusts it alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("192.0.2.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    client = ssl.create_default_context(cafile=str(file))
    return server, client
