"""From names to models: providers, aliases, defaults, keys."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from fairlead.agents.models import Message, Models, Request, Retries, ScriptModel, Usage
from fairlead.agents.models.prices import Prices
from fairlead.agents.models.providers import PRESETS
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ConfigError
from fairlead.store import KeyInText, Secrets, open_store
from model_servers import Answer, ModelServer, OpenAISpeech, Said

HELLO = Request([Message("user", "Hello")])


def test_a_model_in_code_is_itself() -> None:
    model = ScriptModel(["Hi"])
    assert Models().resolve(model) is model
    assert Models(model).resolve(None) is model
    assert Models(model).resolve("default") is model


@pytest.mark.parametrize("name", [None, "", " ", "default"])
def test_nothing_is_the_default(name: str | None) -> None:
    assert Models("openai/gpt-x", environ={}).resolve(name).name == "openai/gpt-x"
    assert Models(environ={"FAIRLEAD_MODEL": "anthropic/claude-x"}).resolve(name).name == "anthropic/claude-x"


def test_what_the_program_says_comes_before_the_environment() -> None:
    models = Models("openai/gpt-x", environ={"FAIRLEAD_MODEL": "anthropic/claude-x"})
    assert models.resolve().name == "openai/gpt-x"


def test_without_any_model_the_failure_says_three_ways_out(tmp_path: Path) -> None:
    models = Models(folder=tmp_path, environ={"OPENAI_API_KEY": "x"})
    with pytest.raises(Failure) as caught:
        models.resolve()
    assert caught.value.kind is Kind.misconfigured
    for way in ("FAIRLEAD_MODEL=openai/", "fairlead models pull smollm2", "FAIRLEAD_MODEL=local"):
        assert way in caught.value.message


def test_models_that_were_named_once_are_let_go_of_and_what_runs_here_is_not(tmp_path: Path) -> None:
    script = tmp_path / "small.toml"
    script.write_text('[[turn]]\ntext = "Small."\n')
    models = Models(environ={})
    here = models.resolve(f"script/{script}")
    first = weakref.ref(models.resolve("openai/first"))
    for number in range(1500):
        last = models.resolve(f"openai/{number}")
        assert models.resolve(f"openai/{number}") is last
    gc.collect()
    assert first() is None
    assert models.resolve(f"script/{script}") is here


def test_aliases_lead_to_models_by_other_aliases_too() -> None:
    models = Models("quick", aliases={"quick": "small", "small": "openai/gpt-x"}, environ={})
    assert models.resolve("quick").name == "openai/gpt-x"
    assert models.resolve() is models.resolve("small")


def test_aliases_in_a_circle_are_refused() -> None:
    with pytest.raises(Failure) as caught:
        Models(aliases={"a": "b", "b": "a"}, environ={}).resolve("a")
    assert caught.value.kind is Kind.misconfigured


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("opnai/gpt-x", "Did you mean 'openai'?"),
        ("gpt-x", "provider/model"),
        ("quik", "Did you mean 'quick'?"),
        ("openai", "openai/MODEL"),
        ("openai/", "openai/MODEL"),
        ("local/nothing", "fairlead models list"),
        ("local/smollm2", "fairlead models pull smollm2"),
        ("gpt-5", "Did you mean 'openai/gpt-5'?"),
        ("claude-opus-4-5", "Did you mean 'anthropic/claude-opus-4-5'?"),
    ],
)
def test_an_unknown_name_says_what_would_work(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        Models(aliases={"quick": "openai/x"}, folder=tmp_path, environ={}).resolve(name)
    assert said in caught.value.message


def test_a_models_own_name_may_hold_slashes() -> None:
    assert Models(environ={}).resolve("openrouter/meta/llama").name == "openrouter/meta/llama"


@pytest.mark.parametrize(
    "settings",
    [
        {"base": "x"},
        {"kind": "opnai", "base_url": "http://x"},
        {"api_key": "secret-value-1234"},
        {"base_url": ""},
        {"base_url": 5},
        {"base_url": "http://x", "timeout": "long"},
        {},
    ],
)
def test_settings_of_a_provider_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        Models(providers={"acme": settings})
    assert caught.value.kind is Kind.misconfigured
    assert "secret-value" not in caught.value.message


@pytest.mark.parametrize("name", ["local", "script"])
def test_a_provider_cannot_take_a_name_that_has_a_meaning(name: str) -> None:
    with pytest.raises(Failure):
        Models(providers={name: {"base_url": "http://x"}})


async def test_a_key_comes_from_the_secret_store(tmp_path: Path) -> None:
    store = open_store("test", data=tmp_path)
    secrets = Secrets(store, KeyInText("q" * 43 + "="))
    await secrets.set("acme-key", "the-key-in-the-store")
    async with ModelServer(Answer(OpenAISpeech().whole(Said("Hi")))).run() as server:
        models = Models(
            providers={"acme": {"base_url": f"{server.url}/v1", "secret": "acme-key"}},
            secrets=secrets,
            environ={},
        )
        await models.resolve("acme/x").reply(HELLO)
        await models.close()
    store.close()
    assert server.asked[0].headers["authorization"] == "Bearer the-key-in-the-store"


async def test_azure_is_reached_by_its_endpoint_and_key() -> None:
    async with ModelServer(Answer(OpenAISpeech().whole(Said("Hi")))).run() as server:
        environ = {"AZURE_OPENAI_ENDPOINT": f"{server.url}/", "AZURE_OPENAI_API_KEY": "k"}
        models = Models(environ=environ)
        await models.resolve("azure/deployed").reply(HELLO)
        older = Models(providers={"azure": {"api_version": "2024-10-21"}}, environ=environ)
        await older.resolve("azure/deployed").reply(HELLO)
        await models.close()
        await older.close()
    assert server.asked[0].path == "/openai/v1/chat/completions"
    assert server.asked[1].path == "/openai/deployments/deployed/chat/completions?api-version=2024-10-21"
    assert server.asked[1].headers["api-key"] == "k"


async def test_ollama_is_reached_where_its_own_variable_says() -> None:
    async with ModelServer(Answer(OpenAISpeech().whole(Said("Hi")))).run() as server:
        models = Models(environ={"OLLAMA_HOST": server.url.removeprefix("http://")})
        reply = await models.resolve("ollama/llama").reply(HELLO)
        await models.close()
    assert (reply.text, server.asked[0].path) == ("Hi", "/v1/chat/completions")


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://0.0.0.0:11434/v1"),
        ("box.lan", "http://box.lan:11434/v1"),
        ("box.lan:9", "http://box.lan:9/v1"),
        (":9", "http://127.0.0.1:9/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("https://box.lan/", "https://box.lan/v1"),
    ],
)
def test_what_the_variable_of_ollama_leaves_out_is_as_usual(host: str, address: str) -> None:
    assert PRESETS["ollama"].address({"OLLAMA_HOST": host}) == address


@pytest.mark.parametrize("address", ["box.lan:port", "http://[", "http://", "ftp://box.lan"])
async def test_an_address_that_is_none_is_told_with_where_it_stands(address: str) -> None:
    configured = {"rack": {"base_url": address}}
    for models, named in (
        (Models(environ={"OLLAMA_HOST": address}), "ollama/llama"),
        (Models(providers=configured, environ={}), "rack/llama"),
    ):
        with pytest.raises(ConfigError, match=r"in (OLLAMA_HOST|base_url)\."):
            await models.resolve(named).reply(HELLO)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v1", "http://[", "http://:9"])
async def test_a_local_server_that_is_not_there_is_told_with_the_variable_that_names_it(
    tmp_path: Path, address: str
) -> None:
    environ = {"FAIRLEAD_LOCAL_SERVER": address}
    models = Models("local", folder=tmp_path, environ=environ, retries=Retries(attempts=1))
    with pytest.raises(Failure, match="FAIRLEAD_LOCAL_SERVER"):
        await models.resolve().reply(HELLO)


async def test_the_models_of_providers_with_a_key_are_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listing = Answer({"data": [{"id": "chatty"}, {"id": "text-embedding-1"}]})
    async with ModelServer(listing).run() as good, ModelServer(Answer({}, 400)).run() as bad:
        models = Models(
            providers={"good": {"base_url": f"{good.url}/v1"}, "bad": {"base_url": f"{bad.url}/v1"}},
            folder=tmp_path,
            environ={"FAIRLEAD_LOCAL_SERVER": "off"},
        )
        listed = {each["id"]: each for each in await models.list()}
    assert sorted(listed) == ["good/chatty", "good/text-embedding-1", "local/minilm"]
    assert (listed["good/chatty"]["type"], listed["good/text-embedding-1"]["type"]) == ("chat", "embedding")
    assert "bad" in caplog.text


async def test_embeddings_of_a_provider_come_in_the_order_of_the_texts() -> None:
    rows = [{"index": 1, "embedding": [0.5, 1]}, {"index": 0, "embedding": [1, 0]}]
    async with ModelServer(Answer({"data": rows, "usage": {"prompt_tokens": 4}})).run() as server:
        models = Models(
            providers={"acme": {"base_url": f"{server.url}/v1"}}, embedding="acme/vectors", environ={}
        )
        made = await models.embed(["a", "b"])
        await models.close()
    assert made.vectors == [[1.0, 0.0], [0.5, 1.0]]
    assert made.usage.input == 4


@pytest.mark.parametrize(
    "rows", [[], [{"index": 0, "embedding": []}], [{"index": 0, "embedding": ["x"]}], "x"]
)
async def test_broken_embeddings_are_an_api_error(rows: Any) -> None:
    async with ModelServer(Answer({"data": rows})).run() as server:
        models = Models(providers={"acme": {"base_url": f"{server.url}/v1"}}, environ={})
        with pytest.raises(Failure) as caught:
            await models.embed(["a"], "acme/vectors")
        await models.close()
    assert caught.value.code == "api_error"


async def test_a_model_without_embeddings_says_so() -> None:
    with pytest.raises(Failure) as caught:
        await Models().embed(["a"], ScriptModel(["Hi"]))
    assert caught.value.kind is Kind.unsupported


async def test_embeddings_without_a_model_say_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(Failure) as caught:
        await Models(folder=tmp_path, environ={}).embed(["a"])
    assert "fairlead models pull minilm" in caught.value.message


def test_prices_are_by_model_or_by_provider() -> None:
    prices = Prices({"a/x": {"input": 1, "output": 2}, "a/*": {"output": 4}})
    million = Usage(1_000_000, 1_000_000)
    assert prices.cost("a", "x", million) == 3
    assert prices.cost("a", "y", million) == 4
    assert prices.cost("nobody", "knows", million) == 0


def test_published_prices_are_used_where_they_are_installed() -> None:
    assert Prices().cost("openai", "gpt-4o-mini", Usage(1_000_000, 0)) > 0


@pytest.mark.parametrize("given", [{"inputs": 1}, {"input": -1}, {"input": "1"}])
def test_prices_that_make_no_sense_are_refused(given: Any) -> None:
    with pytest.raises(Failure):
        Prices({"a/x": given})


@pytest.mark.parametrize(
    ("model", "manual"),
    [
        ("claude-sonnet-4-5", True),
        ("claude-sonnet-4-5-20250929", True),
        ("claude-opus-4-20250514", True),
        ("claude-3-7-sonnet-latest", True),
        ("claude-opus-4-6", False),
        ("claude-sonnet-5", False),
        ("claude-haiku-5-5", False),
    ],
)
def test_newer_models_of_anthropic_decide_how_long_they_think(model: str, manual: bool) -> None:
    from fairlead.agents.models.anthropic_messages import _MANUAL

    assert bool(_MANUAL.search(model)) is manual
