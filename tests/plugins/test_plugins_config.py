"""What plugins are configured with: whose it is, how it is kept, and what is dropped."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fairlead.failures import Failure
from fairlead.plugins import slots
from fairlead.plugins.config import LARGEST, MOST_KEYS, Config
from fairlead.plugins.identity import DEFAULT_AGENT
from fairlead.plugins.warnings import Warnings
from fairlead.store import Secrets, Statement, Store, open_store
from plugins.plugin_host import ANN, BOB, Host


@pytest.fixture
def store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", base64.b64encode(secrets.token_bytes(32)).decode())
    with open_store(url=store_url) as store:
        yield store


@pytest.fixture
async def host(store: Store, tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(store, tmp_path)
    yield host
    await host.close()


def other(host: Host, plugin: str) -> Config:
    return Config(plugin, host.store, lambda: host.secrets, Warnings())


async def test_a_value_that_was_set_is_there_for_the_same_agent_alone(host: Host) -> None:
    await host.ask(slots.CONFIG_SET, "token", "s3cret", agent=ANN)
    assert await host.ask(slots.CONFIG_GET, "token", agent=ANN) == "s3cret"
    assert await host.ask(slots.CONFIG_GET, "token", agent=ANN.lower()) == "s3cret"
    assert await host.ask(slots.CONFIG_GET, "token", agent=BOB) is None


async def test_a_value_is_replaced_and_deleted(host: Host) -> None:
    for value in ("one", "two"):
        await host.ask(slots.CONFIG_SET, "k", value)
    assert await host.ask(slots.CONFIG_GET, "k") == "two"
    await host.ask(slots.CONFIG_DELETE, "k")
    assert await host.ask(slots.CONFIG_GET, "k") is None


async def test_an_empty_value_is_a_value(host: Host) -> None:
    await host.ask(slots.CONFIG_SET, "k", "")
    assert await host.ask(slots.CONFIG_GET, "k") == ""


@pytest.mark.parametrize("agent", [None, DEFAULT_AGENT], ids=["nobody", "the Default agent"])
async def test_without_an_agent_of_its_own_a_call_has_no_configuration(host: Host, agent: str | None) -> None:
    await host.config.save(DEFAULT_AGENT, {"k": "kept"})
    await host.ask(slots.CONFIG_SET, "k", "changed", agent=agent)
    await host.ask(slots.CONFIG_DELETE, "k", agent=agent)
    assert await host.ask(slots.CONFIG_GET, "k", agent=agent) is None
    assert await host.config.value(DEFAULT_AGENT, "k") == "kept"
    await host.ask(slots.CONFIG_GET, "k", agent=agent)
    assert [each.key for each in host.warnings.all()] == [
        f"acme.notes|{name}|no_agent_context" for name in ("config_set", "config_delete", "config_get")
    ]


async def test_a_value_of_one_mebibyte_is_kept_and_a_byte_more_is_dropped(host: Host) -> None:
    assert LARGEST == 1_048_576
    await host.ask(slots.CONFIG_SET, "most", "é" * (LARGEST // 2))
    await host.ask(slots.CONFIG_SET, "more", "é" * (LARGEST // 2) + "a")
    assert await host.ask(slots.CONFIG_GET, "most") == "é" * (LARGEST // 2)
    assert await host.ask(slots.CONFIG_GET, "more") is None
    assert [each.key for each in host.warnings.all()] == ["acme.notes|config_set|too_large|more"]


async def test_the_size_is_looked_at_before_the_agent(host: Host) -> None:
    await host.ask(slots.CONFIG_SET, "more", "a" * (LARGEST + 1), agent=None)
    assert [each.key for each in host.warnings.all()] == ["acme.notes|config_set|too_large|more"]


async def test_a_plugin_cannot_fill_the_store_with_keys(host: Host) -> None:
    insert = Statement.of(
        "INSERT INTO plugin_config (plugin, agent, key, sealed, updated) VALUES (:plugin, :agent, :key, 'x', 0)"
    )
    rows = [{"plugin": "acme.notes", "agent": ANN, "key": f"k{n}"} for n in range(MOST_KEYS)]
    await host.store.write(lambda tx: tx.many(insert, rows))
    await host.ask(slots.CONFIG_SET, "one-more", "v")
    await host.ask(slots.CONFIG_SET, "k1", "replaced")
    assert await host.ask(slots.CONFIG_GET, "one-more") is None
    assert await host.ask(slots.CONFIG_GET, "k1") == "replaced"
    assert [each.key for each in host.warnings.all()] == ["acme.notes|config_set|too_many"]


async def test_plugins_whose_names_begin_alike_see_nothing_of_each_other(host: Host) -> None:
    short, long = other(host, "a"), other(host, "a.b")
    await long.save(ANN, {"c": "of a.b"})
    await short.save(ANN, {"b.c": "of a"})
    assert await short.values(ANN) == {"b.c": "of a"}
    assert await long.values(ANN) == {"c": "of a.b"}


async def test_what_is_in_the_database_does_not_show_a_value(host: Host) -> None:
    await host.ask(slots.CONFIG_SET, "token", "a-very-secret-token")
    row = await host.store.read(lambda tx: tx.one(Statement.of("SELECT sealed FROM plugin_config")))
    assert row is not None
    assert "secret" not in row[0]
    assert row[0].startswith("sealed1.")


async def test_a_value_that_was_put_in_another_s_place_does_not_open(host: Host) -> None:
    await host.ask(slots.CONFIG_SET, "token", "s3cret", agent=ANN)
    move = Statement.of("UPDATE plugin_config SET agent = :agent")
    await host.store.write(lambda tx: tx.run(move, agent=BOB))
    assert await host.ask(slots.CONFIG_GET, "token", agent=BOB) is None
    (line,) = [each for each in await host.lines() if "config_get failed" in each.message]
    assert line.level == 4


async def test_values_outlive_a_rotation_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLEAD_SECRET_KEY", raising=False)
    with open_store(url=f"sqlite:///{tmp_path}/store.db") as store:
        host = Host(store, tmp_path)
        await host.ask(slots.CONFIG_SET, "token", "s3cret")
        assert (tmp_path / "store.secret.key").stat().st_mode & 0o777 == 0o600
        await Secrets(store).rotate()
        assert await Host(store, tmp_path).ask(slots.CONFIG_GET, "token") == "s3cret"
        await host.close()


async def test_an_agent_that_is_gone_leaves_nothing_and_the_others_lose_nothing(host: Host) -> None:
    elsewhere = other(host, "acme.mail")
    for config in (host.config, elsewhere):
        await config.save(ANN, {"a": "1", "b": "2"})
        await config.save(BOB, {"a": "3"})
    assert await host.config.forget_agent(ANN) == 4
    assert await host.config.forget_agent(ANN) == 0
    assert await host.config.values(ANN) == {}
    assert await elsewhere.values(ANN) == {}
    assert await host.config.values(BOB) == {"a": "3"}


async def test_a_plugin_that_is_gone_leaves_nothing(host: Host) -> None:
    elsewhere = other(host, "acme.mail")
    await host.config.save(ANN, {"a": "1"})
    await elsewhere.save(ANN, {"a": "1"})
    assert await host.config.forget_plugin() == 1
    assert await host.config.values(ANN) == {}
    assert await elsewhere.values(ANN) == {"a": "1"}


async def test_the_default_agent_s_values_flow_to_an_agent(host: Host) -> None:
    await host.config.save(DEFAULT_AGENT, {"url": "shared"})
    assert await host.config.merged(ANN) == {"url": "shared"}


async def test_an_agent_s_own_value_wins_over_the_default_agent_s(host: Host) -> None:
    await host.config.save(DEFAULT_AGENT, {"url": "shared", "region": "eu"})
    await host.config.save(ANN, {"url": "own", "token": "t"})
    assert await host.config.merged(ANN) == {"url": "own", "region": "eu", "token": "t"}


async def test_the_default_agent_has_its_own_values_alone(host: Host) -> None:
    await host.config.save(DEFAULT_AGENT, {"url": "shared"})
    assert await host.config.merged(DEFAULT_AGENT) == {"url": "shared"}


async def test_a_required_secret_has_to_be_the_agent_s_own(host: Host) -> None:
    await host.config.save(DEFAULT_AGENT, {"token": "shared"})
    assert await host.config.missing(ANN, ["token", "url"]) == ["token", "url"]
    await host.config.save(ANN, {"token": "own"})
    assert await host.config.missing(ANN, ["token", "url"]) == ["url"]


async def test_what_a_person_enters_is_refused_with_a_reason_when_it_is_too_large(host: Host) -> None:
    with pytest.raises(Failure, match="larger than 1048576 bytes") as caught:
        await host.config.save(ANN, {"token": "a" * (LARGEST + 1)})
    assert caught.value.field == "token"


async def test_a_value_that_is_in_use_does_not_show_in_insights(host: Host) -> None:
    await host.ask(slots.CONFIG_SET, "token", '123456:AAH"dqTcvCH1')
    await host.ask(slots.LOG, "2", 'calling /bot123456:AAH"dqTcvCH1/send')
    await host.ask(slots.LOG_STRUCTURED, "2", "called", '{"url":"/bot123456:AAH\\"dqTcvCH1/send"}')
    plain, structured = await host.lines()
    assert plain.message == "calling /bot[REDACTED]/send"
    assert structured.body == '{"url":"/bot[REDACTED]/send"}'
