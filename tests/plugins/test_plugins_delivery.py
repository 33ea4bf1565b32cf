"""What a plugin is told of its configuration: each value once, in order, and again when it has to be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from fairlead.failures.host import ContextUnavailable
from fairlead.plugins import slots
from fairlead.plugins.delivery import (
    PROBE_KEY,
    TUNNEL_KEY,
    Delivery,
    State,
    Tunnel,
    Tunnels,
    is_reconnect,
)
from fairlead.plugins.identity import parsed
from plugins.plugin_host import ANN, BOB, Host

PATIENCE = 20.0


@dataclass(frozen=True)
class Field:
    key: str
    type: str = "text"
    default: str | None = None


FIELDS = (
    Field("token", "secret"),
    Field("limit", "number", "30.0"),
    Field("on", "toggle", "true"),
    Field("state", "status", "shown"),
    Field("hook", "readonly", "shown"),
)


class Plugin:
    """Takes what it is told, and writes it down."""

    def __init__(self, host: Host, fields: tuple[Field, ...] = FIELDS, *, routes: bool = True) -> None:
        self.told: list[tuple[str | None, str, str]] = []
        self.heard = asyncio.Condition()
        #: Holds the callback back while it is not set.
        self.go = asyncio.Event()
        self.go.set()
        self.inside = self.most = 0
        self.fails = False
        self.delivery = Delivery(host.plugin, self.changed, host.config, fields, routes=routes)

    async def changed(self, key: str, value: str, *, agent: str | None) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.go.wait()
        self.inside -= 1
        if self.fails:
            raise ContextUnavailable("terminated")
        async with self.heard:
            self.told.append((agent, key, value))
            self.heard.notify_all()

    async def until(self, *what: tuple[str | None, str, str]) -> None:
        async with asyncio.timeout(PATIENCE), self.heard:
            await self.heard.wait_for(lambda: set(what) <= set(self.told))

    def since(self) -> list[tuple[str | None, str, str]]:
        told, self.told = self.told, []
        return told


@pytest.fixture
async def plugin(host: Host) -> AsyncIterator[Plugin]:
    plugin = Plugin(host)
    yield plugin
    await plugin.delivery.close()


async def test_the_same_pair_for_the_same_agent_is_delivered_once(plugin: Plugin) -> None:
    for _ in range(3):
        await plugin.delivery.push(ANN, {"k": "v"})
    assert plugin.told == [(ANN, "k", "v")]


async def test_another_value_is_delivered_and_so_is_the_first_again(plugin: Plugin) -> None:
    for value in ("v", "w", "v"):
        await plugin.delivery.push(ANN, {"k": value})
    assert [value for _, _, value in plugin.told] == ["v", "w", "v"]


async def test_another_agent_is_told_the_same_value(plugin: Plugin) -> None:
    for agent in (ANN, BOB, None):
        await plugin.delivery.push(agent, {"k": "v"})
    assert plugin.told == [(ANN, "k", "v"), (BOB, "k", "v"), (None, "k", "v")]


async def test_nothing_to_tell_is_no_call(plugin: Plugin) -> None:
    await plugin.delivery.push(ANN, {})
    plugin.delivery.post(ANN, {})
    assert plugin.told == []


async def test_all_keys_of_one_push_are_delivered(plugin: Plugin) -> None:
    await plugin.delivery.push(ANN, {"a": "1", "b": "2", "c": ""})
    assert plugin.told == [(ANN, "a", "1"), (ANN, "b", "2"), (ANN, "c", "")]


async def test_a_forced_value_is_delivered_although_it_is_known(plugin: Plugin) -> None:
    await plugin.delivery.push(ANN, {"k": "v"})
    await plugin.delivery.push(ANN, {"k": "v"}, force=True)
    assert len(plugin.told) == 2


async def test_force_holds_for_one_push(plugin: Plugin) -> None:
    await plugin.delivery.push(ANN, {"k": "v"}, force=True)
    await plugin.delivery.push(ANN, {"k": "v"})
    assert len(plugin.told) == 1


async def test_a_forced_value_is_known_afterwards_and_another_is_news(plugin: Plugin) -> None:
    await plugin.delivery.push(ANN, {"k": "v"}, force=True)
    for _ in range(2):
        await plugin.delivery.push(ANN, {"k": "w"})
    assert [value for _, _, value in plugin.told] == ["v", "w"]


async def test_force_for_one_agent_is_none_for_another(plugin: Plugin) -> None:
    for agent in (ANN, BOB):
        await plugin.delivery.push(agent, {"k": "v"})
    plugin.since()
    await plugin.delivery.push(ANN, {"k": "v"}, force=True)
    await plugin.delivery.push(BOB, {"k": "v"})
    assert plugin.told == [(ANN, "k", "v")]


async def test_a_push_that_is_waited_for_and_one_that_is_not_know_of_each_other(plugin: Plugin) -> None:
    plugin.delivery.post(ANN, {"k": "v"})
    await plugin.delivery.push(ANN, {"k": "v"})
    plugin.delivery.post(ANN, {"k": "w"}, force=True)
    await plugin.until((ANN, "k", "w"))
    assert plugin.told == [(ANN, "k", "v"), (ANN, "k", "w")]


async def test_a_push_returns_when_the_callback_has_returned(plugin: Plugin) -> None:
    plugin.go.clear()
    pushing = asyncio.ensure_future(plugin.delivery.push(ANN, {"k": "v"}))
    await asyncio.sleep(0)
    assert (plugin.inside, pushing.done()) == (1, False)
    plugin.go.set()
    await pushing
    assert plugin.told == [(ANN, "k", "v")]


async def test_a_plugin_without_the_callback_is_told_nothing(host: Host, plugin: Plugin) -> None:
    plugin.delivery.listens = False
    await host.config.save(ANN, {"token": "t"})
    await plugin.delivery.push(ANN, {"k": "v"})
    await plugin.delivery.probe(ANN)
    await plugin.delivery.snapshot(ANN)
    await plugin.delivery.tunnel(ANN, "https://a.example")
    assert plugin.told == []


async def test_one_callback_runs_at_a_time_in_the_order_of_the_pushes(plugin: Plugin) -> None:
    plugin.go.clear()
    for number in range(5):
        plugin.delivery.post(ANN if number % 2 else BOB, {"k": str(number)})
    await asyncio.sleep(0)
    plugin.go.set()
    await plugin.delivery.close()
    assert [value for _, _, value in plugin.told] == list("01234")
    assert plugin.most == 1


async def test_the_probe_is_the_documented_key_with_a_fresh_uuid(plugin: Plugin) -> None:
    assert PROBE_KEY == "__osaurus_abi_probe__"
    for _ in range(2):
        await plugin.delivery.probe(ANN)
    first, second = plugin.told
    assert (first[0], first[1]) == (ANN, PROBE_KEY)
    assert parsed(first[2]) == first[2] != second[2]


async def test_a_value_that_could_not_be_delivered_is_news_the_next_time(plugin: Plugin) -> None:
    plugin.fails = True
    await plugin.delivery.push(ANN, {"k": "v"})
    plugin.fails = False
    await plugin.delivery.push(ANN, {"k": "v"})
    assert plugin.told == [(ANN, "k", "v")]


async def test_a_value_that_could_not_be_delivered_is_one_line_in_the_log(
    plugin: Plugin, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.fails = True
    await plugin.delivery.push(ANN, {"k": "v"})
    assert len(caplog.text.splitlines()) == 1
    assert "'k': terminated" in caplog.text


async def test_a_snapshot_has_what_is_kept_else_the_fields_defaults(host: Host, plugin: Plugin) -> None:
    await host.config.save(ANN, {"token": "t", "undeclared": "x", "on": "false", "state": "x"})
    await plugin.delivery.snapshot(ANN)
    assert dict(each[1:] for each in plugin.told) == {"token": "t", "limit": "30.0", "on": "false"}


async def test_a_field_without_a_value_and_without_a_default_is_not_told(plugin: Plugin) -> None:
    await plugin.delivery.snapshot(ANN)
    assert {key for _, key, _ in plugin.told} == {"limit", "on"}


async def test_what_a_plugin_sets_or_deletes_itself_does_not_come_back(host: Host, plugin: Plugin) -> None:
    await plugin.delivery.snapshot(ANN)
    plugin.since()
    await host.ask(slots.CONFIG_SET, "token", "mine")
    await plugin.delivery.snapshot(ANN)
    await host.ask(slots.CONFIG_DELETE, "token")
    await plugin.delivery.snapshot(ANN)
    assert plugin.told == []


async def test_a_default_does_not_come_back_after_a_plugin_deleted_the_value_itself(
    host: Host, plugin: Plugin
) -> None:
    await plugin.delivery.snapshot(ANN)
    plugin.delivery.follow()
    await asyncio.sleep(0)
    plugin.since()
    for key in ("limit", "token"):
        await host.ask(slots.CONFIG_SET, key, "mine")
        await host.ask(slots.CONFIG_DELETE, key)
    await host.config.save(ANN, {"on": "false"})
    await plugin.until((ANN, "on", "false"))
    await host.config.save(ANN, {"limit": "7", "token": "entered"})
    await plugin.until((ANN, "limit", "7"), (ANN, "token", "entered"))
    assert sorted(plugin.since()) == [(ANN, "limit", "7"), (ANN, "on", "false"), (ANN, "token", "entered")]


async def test_what_a_person_saves_in_another_process_is_delivered(host: Host, plugin: Plugin) -> None:
    await plugin.delivery.snapshot(ANN)
    plugin.delivery.follow()
    await asyncio.sleep(0)
    plugin.since()
    await Host(host.store, host.artifacts.parent).config.save(ANN, {"token": "entered", "undeclared": "x"})
    await plugin.until((ANN, "token", "entered"))
    await host.config.save(ANN, {"token": None})
    await plugin.until((ANN, "token", ""))
    assert plugin.since() == [(ANN, "token", "entered"), (ANN, "token", "")]


async def test_a_new_agent_has_its_snapshot_and_its_tunnel(plugin: Plugin) -> None:
    await plugin.delivery.agent_added(ANN, "https://a.example")
    await plugin.delivery.agent_added(BOB)
    assert {(agent, key) for agent, key, _ in plugin.told} == {
        (ANN, "limit"),
        (ANN, "on"),
        (ANN, TUNNEL_KEY),
        (BOB, "limit"),
        (BOB, "on"),
    }


async def test_a_plugin_that_was_started_again_is_told_everything_again(plugin: Plugin) -> None:
    await plugin.delivery.agent_added(ANN, "https://a.example")
    first = plugin.since()
    await plugin.delivery.restarted()
    assert plugin.since() == first


async def test_what_was_asked_before_the_end_is_told_and_nothing_after_it(plugin: Plugin) -> None:
    plugin.go.clear()
    pushing = asyncio.ensure_future(plugin.delivery.push(ANN, {"k": "before"}))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(plugin.delivery.close())
    await asyncio.sleep(0)
    late = asyncio.ensure_future(plugin.delivery.push(ANN, {"k": "after"}))
    await asyncio.sleep(0)
    assert not closing.done()
    plugin.go.set()
    await asyncio.gather(pushing, closing, late)
    await plugin.delivery.push(ANN, {"k": "later"}, force=True)
    assert plugin.told == [(ANN, "k", "before")]


# Tunnels


async def test_a_tunnel_that_never_was_is_not_told_to_be_down(plugin: Plugin) -> None:
    await plugin.delivery.tunnel(ANN, None)
    await plugin.delivery.tunnel(ANN, "")
    assert plugin.told == []


async def test_a_tunnel_is_told_once_until_it_is_another(plugin: Plugin) -> None:
    for url in ("https://a.example", "https://a.example", "https://b.example"):
        await plugin.delivery.tunnel(ANN, url)
    assert [value for _, _, value in plugin.told] == ["https://a.example", "https://b.example"]


async def test_a_tunnel_that_goes_down_is_told_once_as_an_empty_value(plugin: Plugin) -> None:
    await plugin.delivery.tunnel(ANN, "https://a.example")
    for _ in range(3):
        await plugin.delivery.tunnel(ANN, None)
    assert [value for _, _, value in plugin.told] == ["https://a.example", ""]


async def test_each_agent_and_each_plugin_hears_of_its_own_tunnel(host: Host, plugin: Plugin) -> None:
    other = Plugin(host)
    for each in (plugin, other):
        for agent in (ANN, BOB):
            await each.delivery.tunnel(agent, "https://a.example")
    assert [agent for agent, _, _ in plugin.told] == [agent for agent, _, _ in other.told] == [ANN, BOB]


async def test_a_plugin_without_routes_hears_of_no_tunnel(host: Host) -> None:
    plugin = Plugin(host, routes=False)
    await plugin.delivery.tunnel(ANN, "https://a.example")
    assert plugin.told == []


A, B = Tunnel("connected", "https://a.example"), Tunnel("connected", "https://b.example")


def test_what_is_seen_for_the_first_time_has_not_been_away() -> None:
    assert not is_reconnect(None, A)


@pytest.mark.parametrize("state", ["disconnected", "connecting", "error"])
def test_a_tunnel_that_was_not_connected_and_is_now_is_back(state: State) -> None:
    assert is_reconnect(Tunnel(state), A)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (A, A),
        (A, B),
        (A, Tunnel("disconnected")),
        (Tunnel("connecting"), Tunnel("error")),
        (Tunnel("disconnected"), Tunnel("connected", "")),
    ],
    ids=["stays", "another address", "goes down", "never up", "no address"],
)
def test_nothing_else_is_a_reconnect(before: Tunnel, now: Tunnel) -> None:
    assert not is_reconnect(before, now)


async def test_after_a_reconnect_the_snapshot_and_the_address_are_told_again(
    host: Host, plugin: Plugin
) -> None:
    tunnels = Tunnels(lambda: [plugin.delivery])
    await host.config.save(ANN, {"token": "t"})
    await plugin.delivery.snapshot(ANN)
    await tunnels.observe(ANN, A)
    first = plugin.since()
    await tunnels.observe(ANN, A)
    assert plugin.since() == []
    await tunnels.observe(ANN, Tunnel("connecting"))
    assert (plugin.since(), tunnels.url(ANN)) == ([(ANN, TUNNEL_KEY, "")], None)
    await tunnels.observe(ANN, A)
    assert (plugin.since(), tunnels.url(ANN)) == (first, A.url)
