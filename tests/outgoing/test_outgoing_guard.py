"""Where requests may go: every spelling of every address that is nobody's business is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.failures import Failure, Kind
from fairlead.failures.host import DnsFailure, SsrfBlocked
from fairlead.outgoing import Guard
from fairlead.outgoing.addresses import blocked
from fairlead.outgoing.guard import Resolve
from fairlead.outgoing.urls import parse


def names(**known: str | Sequence[str]) -> Resolve:
    """A name server. Dashes are dots; a name that it does not know leads to a public address."""
    table = {name.replace("__", "-").replace("_", "."): each for name, each in known.items()}

    async def resolve(name: str, port: int) -> list[str]:
        found = table.get(name, "93.184.216.34")
        return [found] if isinstance(found, str) else list(found)

    return resolve


async def refused(url: str, guard: Guard | None = None) -> str:
    with pytest.raises(SsrfBlocked) as caught:
        await (guard or Guard(resolve=names())).check(url)
    failure = caught.value
    assert failure.kind is Kind.outside_scope
    assert failure.code == "ssrf_blocked"
    assert failure.message.endswith("(SSRF protection)")
    return failure.message


async def allowed(url: str, guard: Guard | None = None) -> None:
    await (guard or Guard(resolve=names())).check(url)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "api.localhost",
        "deep.api.localhost.",
        "localhost.localdomain",
        "ⓛocalhost",
    ],
)
async def test_localhost_is_refused_however_it_is_spelled(host: str) -> None:
    assert "loopback" in await refused(f"http://{host}/")


async def test_localhost_with_a_port_is_refused() -> None:
    assert "loopback" in await refused("http://localhost:8080/admin")


@pytest.mark.parametrize("host", ["[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]"])
async def test_the_ipv6_loopback_is_refused(host: str) -> None:
    assert "loopback" in await refused(f"http://{host}/")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.255.255.254",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "0177.0.0.1",
        "017700000001",
        "0x7f.0x0.0x0.0x1",
        "１２７.０.０.１",
        "127。0。0。1",
    ],
)
async def test_127_is_refused_however_it_is_spelled(host: str) -> None:
    assert "loopback" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["10.0.0.1", "10.255.255.255", "167772161", "0xa.1"])
async def test_10_is_refused(host: str) -> None:
    assert "RFC1918" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["172.16.0.1", "172.20.1.1", "172.31.255.255"])
async def test_172_16_is_refused(host: str) -> None:
    assert "RFC1918" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["172.15.0.1", "172.32.0.1"])
async def test_172_outside_of_16_to_31_is_allowed(host: str) -> None:
    await allowed(f"http://{host}/")


async def test_192_168_is_refused() -> None:
    assert "RFC1918" in await refused("http://192.168.1.1/")


@pytest.mark.parametrize("host", ["0.0.0.0", "0.1.2.3", "0"])
async def test_0_is_refused(host: str) -> None:
    assert "unspecified" in await refused(f"http://{host}/")


async def test_link_local_ipv4_is_refused() -> None:
    assert "link-local" in await refused("http://169.254.1.1/")


@pytest.mark.parametrize("host", ["[fe80::1]", "[fe81::1]", "[febf:ffff::1]"])
async def test_link_local_ipv6_is_refused(host: str) -> None:
    assert "link-local" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["8.8.8.8", "1.1.1.1", "203.0.113.1"])
async def test_public_ipv4_is_allowed(host: str) -> None:
    await allowed(f"https://{host}/")


@pytest.mark.parametrize("host", ["example.com", "api.example.co.uk", "bücher.example", "a_b.example"])
async def test_public_names_are_allowed(host: str) -> None:
    await allowed(f"https://{host}/")


@pytest.mark.parametrize("host", ["10.example.com", "127.0.0.1.example.com", "localhost.example.com"])
async def test_names_that_look_like_addresses_are_names(host: str) -> None:
    await allowed(f"https://{host}/")


@pytest.mark.parametrize(
    "url", ["data:text/plain,hi", "file:///etc/passwd", "http://", "http:///path", "/x", "x"]
)
async def test_an_address_without_a_host_cannot_be_called(url: str) -> None:
    assert "no host" in await refused(url)


@pytest.mark.parametrize("host", ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]"])
async def test_an_ipv4_mapped_loopback_is_refused(host: str) -> None:
    assert "loopback" in await refused(f"http://{host}/")


async def test_an_ipv4_mapped_10_is_refused() -> None:
    assert "RFC1918" in await refused("http://[::ffff:10.0.0.1]/")


async def test_an_ipv4_mapped_metadata_address_is_refused() -> None:
    assert "metadata" in await refused("http://[::ffff:169.254.169.254]/")


@pytest.mark.parametrize("host", ["[::127.0.0.1]", "[::7f00:1]"])
async def test_an_ipv4_compatible_loopback_is_refused(host: str) -> None:
    assert "loopback" in await refused(f"http://{host}/")


async def test_the_unspecified_ipv6_address_is_refused() -> None:
    assert "unspecified" in await refused("http://[::]/")


@pytest.mark.parametrize("host", ["[fc00::1]", "[fcff::1]", "[fd00::1]", "[fdff:ffff::1]", "[fec0::1]"])
async def test_unique_local_addresses_are_refused(host: str) -> None:
    assert "unique-local" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["ip6-localhost", "ip6-loopback", "IP6-Localhost."])
async def test_the_names_of_the_ipv6_loopback_are_refused(host: str) -> None:
    assert "loopback" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["100.64.0.1", "100.127.255.255"])
async def test_carrier_grade_nat_is_refused(host: str) -> None:
    assert "carrier-grade NAT" in await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["100.63.255.255", "100.128.0.0"])
async def test_beside_carrier_grade_nat_is_allowed(host: str) -> None:
    await allowed(f"http://{host}/")


@pytest.mark.parametrize("host", ["224.0.0.1", "239.255.255.255", "[ff02::1]"])
async def test_multicast_is_refused(host: str) -> None:
    assert "multicast" in await refused(f"http://{host}/")


async def test_after_multicast_is_allowed_and_broadcast_is_not() -> None:
    await allowed("http://240.0.0.1/")
    assert "broadcast" in await refused("http://255.255.255.255/")


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "100.100.100.200"])
async def test_a_refused_metadata_address_says_so(host: str) -> None:
    message = await refused(f"http://{host}/latest/")
    assert "cloud" in message
    assert "metadata" in message


@pytest.mark.parametrize(
    "host",
    [
        "[64:ff9b::7f00:1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:c0a8:101::1]",
        "[2001:0:7f00:1::]",
        "[2001:0:808:808:0:0:f5ff:fffe]",
        "[::ffff:0:127.0.0.1]",
        "[2a00::5efe:10.0.0.1]",
        "[2a00::200:5efe:10.0.0.1]",
    ],
)
async def test_addresses_that_a_translator_leads_inside_are_refused(host: str) -> None:
    await refused(f"http://{host}/")


@pytest.mark.parametrize("host", ["192.0.0.8", "192.88.99.1", "198.18.0.1", "[100::1]", "[5f00::1]"])
async def test_addresses_for_special_uses_are_refused(host: str) -> None:
    assert "special uses" in await refused(f"http://{host}/")


@pytest.mark.parametrize(
    "host", ["[2001:db8::1]", "[2606:4700::1111]", "[64:ff9b::8.8.8.8]", "[2002:808:808::1]"]
)
async def test_public_ipv6_is_allowed(host: str) -> None:
    await allowed(f"https://{host}/")


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.0.0.5", "::1", "fe80::1%eth0", "169.254.169.254"])
async def test_a_name_that_leads_inside_is_refused(inside: str) -> None:
    guard = Guard(resolve=names(evil_example=inside))
    message = await refused("https://evil.example/", guard)
    assert inside not in message


async def test_one_bad_address_of_a_name_is_enough() -> None:
    guard = Guard(resolve=names(mixed_example=["93.184.216.34", "10.0.0.1"]))
    assert "RFC1918" in await refused("https://mixed.example/", guard)


async def test_a_name_without_an_address_is_a_failure_of_dns() -> None:
    with pytest.raises(DnsFailure):
        await Guard(resolve=names(gone_example=[])).check("https://gone.example/")


async def test_a_name_that_nobody_knows_is_a_failure_of_dns() -> None:
    with pytest.raises(DnsFailure):
        await Guard().check("https://no-such-name.invalid/")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "",
        "https://:8080/",
        "gopher://example.com/",
        "http://user@example.com/",
        "http://user:word@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com /",
        "http://exa\nmple.com/",
        "http://example.com\t/",
        "http://127%2e0%2e0%2e1/",
        "http://[fe80::1%25eth0]/",
        "http://[::1/",
        "http://[::1]x/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://example.com:http/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://1.2.3.0x/example",
        "http://-a.example/",
        "http://a..example/",
        "http://" + "a" * 64 + ".example/",
        "http://example.com/\ud800",
        "http://example.com/" + "a" * 9000,
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(url: str) -> None:
    if url == "http://1.2.3.0x/example":  # a system reads it as 1.2.3.0
        assert parse(url).host == "1.2.3.0"
        return
    with pytest.raises(Failure) as caught:
        parse(url)
    assert caught.value.kind is Kind.invalid_input
    assert caught.value.field == "url"


def test_an_address_is_read_into_its_parts() -> None:
    target = parse("HTTPS://Bücher.Example.:8443/a b?q=ü#part".replace(" ", "%20"))
    assert target.origin == ("https", "xn--bcher-kva.example", 8443)
    assert str(target) == "https://xn--bcher-kva.example:8443/a%20b?q=%C3%BC"
    assert str(parse("http://0x7f.1:80")) == "http://127.0.0.1/"
    assert parse("https://[2001:DB8::1]:444/").authority == "[2001:db8::1]:444"


async def test_a_developer_allows_hosts_and_networks_by_name() -> None:
    resolve = names(hooks_corp="10.1.2.3", other_corp="10.9.9.9", a_b_lab="192.168.0.9")
    guard = Guard(allow=["hooks.corp", "*.lab", "10.7.0.0/16", "127.0.0.1"], resolve=resolve)
    for url in (
        "http://hooks.corp/",
        "http://a.b.lab/",
        "http://10.7.1.1/",
        "http://127.1/",
        "http://[::ffff:10.7.0.1]/",
    ):
        await allowed(url, guard)
    for url in ("http://other.corp/", "http://10.8.0.1/", "http://127.0.0.2/", "http://lab/"):
        if url != "http://lab/":
            await refused(url, guard)


async def test_allowing_private_hosts_leaves_metadata_shut() -> None:
    guard = Guard(allow_private=True, resolve=names(localhost="127.0.0.1", trick_corp="169.254.169.254"))
    await allowed("http://localhost:8000/", guard)
    await allowed("http://10.0.0.1/", guard)
    for url in ("http://169.254.169.254/", "http://trick.corp/", "http://0.0.0.0/", "http://224.0.0.1/"):
        await refused(url, guard)
    await allowed("http://169.254.169.254/", Guard(allow=["169.254.169.254"]))


async def test_the_environment_allows_hosts() -> None:
    guard = Guard.from_environ({"FAIRLEAD_ALLOW_PRIVATE_HOSTS": "127.0.0.1, 10.0.0.0/8"})
    await allowed("http://127.0.0.1/", guard)
    await allowed("http://10.2.3.4/", guard)
    await refused("http://192.168.0.1/", guard)
    await allowed("http://192.168.0.1/", Guard.from_environ({"FAIRLEAD_ALLOW_PRIVATE_HOSTS": "*"}))
    await refused("http://127.0.0.1/", Guard.from_environ({}))


def test_what_is_allowed_must_be_a_host_or_a_network() -> None:
    with pytest.raises(Failure) as caught:
        Guard(allow=["http://x/"])
    assert caught.value.kind is Kind.misconfigured


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_the_same_inside_an_ipv6_address(address: object) -> None:
    from ipaddress import IPv4Address, IPv6Address

    assert isinstance(address, IPv4Address)
    number = int(address)
    if number <= 1:
        return
    for outer in (0xFFFF << 32, 0x64FF9B << 96, 0):
        assert blocked(IPv6Address(outer | number)) == blocked(address)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    for url in (text, f"http://{text}/"):
        try:
            target = parse(url)
        except Failure:
            continue
        assert parse(str(target)) == target
