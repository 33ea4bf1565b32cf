"""The small model for real: llama.cpp in this process, with the weights that `make test` gets once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agents.models import (
    Delta,
    Message,
    Models,
    Reply,
    Request,
    Settings,
    ToolCall,
    ToolSpec,
    Weights,
)
from fairlead.agents.models.engine import Tuning, hold, release
from fairlead.agents.models.local import LocalModel
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ApiError
from model_servers import Answer, ModelServer, OpenAISpeech, Said

FOLDER = Path(os.environ.get("FAIRLEAD_MODELS") or Path(__file__).parents[3] / ".venv" / "models")
ALONE = {"FAIRLEAD_LOCAL_SERVER": "off", "FAIRLEAD_LOCAL_THREADS": "1"}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"$ref": "#/$defs/Unit"}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"Unit": {"enum": ["celsius", "fahrenheit"]}},
}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
TOOLS = [
    ToolSpec("weather", "Tell the weather of a city.", CITY),
    ToolSpec("add", "Add two numbers.", NUMBERS),
]
#: A form that takes minutes to fill.
LONG = Request(
    [Message("user", "Count.")],
    output={"type": "array", "items": {"type": "integer"}, "minItems": 3000},
    settings=Settings(max_tokens=8000),
)
SHORT = Settings(max_tokens=12, temperature=0.0)


@pytest.fixture(autouse=True, scope="module")
def _weights_are_here() -> Iterator[None]:
    missing = [name for name in ("smollm2", "minilm") if not (FOLDER / f"{name}.gguf").exists()]
    if missing:
        pytest.fail(f"{', '.join(missing)} not in {FOLDER}. Get them: fairlead models pull smollm2 minilm")
    # Held for all tests of this file, so that each does not load them again.
    held = [hold(Weights(FOLDER).get(name), Tuning.of(ALONE)) for name in ("smollm2", "minilm")]
    yield
    for engine in held:
        release(engine)


@pytest.fixture
async def models() -> AsyncIterator[Models]:
    models = Models("local", folder=FOLDER, environ=ALONE)
    yield models
    await models.close()


def asking(words: str, **more: Any) -> Request:
    return Request([Message("user", words)], **{"settings": SHORT, **more})


async def test_the_small_model_chats(models: Models) -> None:
    reply = await models.resolve("local/smollm2").reply(asking("Say hello."))
    assert reply.text.strip()
    assert reply.model == "local/smollm2"
    assert reply.usage.input > 0
    assert 0 < reply.usage.output <= 12


async def test_the_default_is_the_local_model_when_weights_are_here() -> None:
    models = Models(folder=FOLDER, environ=ALONE)
    reply = await models.resolve(None).reply(asking("Say hello."))
    assert reply.model == "local/smollm2"
    await models.close()


async def test_the_small_model_streams(models: Models) -> None:
    events = [each async for each in models.resolve("local/smollm2").stream(asking("Count to ten."))]
    deltas = [each for each in events if isinstance(each, Delta)]
    last = events[-1]
    assert isinstance(last, Reply)
    assert len(deltas) > 5
    assert "".join(each.text for each in deltas) == last.text


async def test_a_limit_of_tokens_shows_in_the_reply(models: Models) -> None:
    request = asking("Tell a long story.", settings=Settings(max_tokens=3))
    assert (await models.resolve("local/smollm2").reply(request)).stop == "length"


async def test_leaving_a_stream_stops_the_small_model(models: Models) -> None:
    model: Any = models.resolve("local/smollm2")
    events = model.stream(LONG)
    await anext(events)
    await events.aclose()
    # It has one place: the next answer comes only because the first was given up.
    reply = await asyncio.wait_for(model.reply(asking("Say hello.")), 30)
    assert reply.text


async def test_a_cancelled_request_stops_the_small_model(models: Models) -> None:
    model = models.resolve("local/smollm2")
    assert isinstance(model, LocalModel)
    _, client = await model._ready()
    root = str(client.base_url).removesuffix("/v1/")

    async def busy() -> bool:
        slots = await client.get(f"{root}/slots", cast_to=object)
        return any(slot["is_processing"] for slot in slots)

    long = asyncio.create_task(model.reply(LONG))
    async with asyncio.timeout(30):
        while not await busy():
            pass
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        while await busy():
            pass


@pytest.mark.parametrize(
    ("words", "name", "expected"),
    [
        ("What is the weather in Paris?", "weather", {"city": "Paris"}),
        ("What is 17 plus 25?", "add", {"a": 17, "b": 25}),
    ],
)
async def test_the_small_model_calls_the_right_tool_when_it_must(
    models: Models, words: str, name: str, expected: dict[str, Any]
) -> None:
    reply = await models.resolve("local/smollm2").reply(
        asking(words, tools=TOOLS, tool_choice="required", settings=Settings(max_tokens=100))
    )
    assert reply.stop == "tool_calls"
    assert [call.name for call in reply.calls] == [name]
    arguments = json.loads(reply.calls[0].arguments)
    assert {key: arguments[key] for key in expected} == expected


async def test_a_call_that_is_streamed_shows_no_text(models: Models) -> None:
    request = asking("What is 17 plus 25?", tools=TOOLS, tool_choice="add", settings=Settings(max_tokens=100))
    events = [each async for each in models.resolve("local/smollm2").stream(request)]
    assert [type(each) for each in events] == [Reply]
    last = events[0]
    assert isinstance(last, Reply)
    assert json.loads(last.calls[0].arguments) == {"a": 17, "b": 25}


async def test_the_small_model_may_answer_in_words(models: Models) -> None:
    reply = await models.resolve("local/smollm2").reply(asking("Hello!", tools=TOOLS))
    assert reply.calls or reply.text


async def test_results_of_tools_go_back_to_the_small_model(models: Models) -> None:
    turns = [
        Message("system", "You are kind."),
        Message("user", "What is 17 plus 25?"),
        Message("assistant", "", (ToolCall("add", '{"a":17,"b":25}', "1"),)),
        Message("tool", '{"ok":true,"result":42}', call_id="1", name="add"),
    ]
    reply = await models.resolve("local/smollm2").reply(Request(turns, TOOLS, "none", settings=SHORT))
    assert reply.text
    assert not reply.calls


async def test_the_small_model_writes_json_of_the_asked_form(models: Models) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    request = asking("Tom is 3 years old.", output=schema, settings=Settings(max_tokens=100))
    reply = await models.resolve("local/smollm2").reply(request)
    assert json.loads(reply.text) == {"name": "Tom", "age": 3}
    events = [each async for each in models.resolve("local/smollm2").stream(request)]
    assert "".join(each.text for each in events if isinstance(each, Delta)) == reply.text


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "pattern": "^(?!foo)[a-z]+$"},
        {"type": "string", "format": "weird"},
        {"$ref": "#/$defs/missing"},
        {"type": "weird"},
        {"enum": []},
        {"not": {"type": "string"}},
    ],
)
async def test_a_schema_that_no_grammar_can_say_still_gives_a_call(
    models: Models, part: dict[str, Any]
) -> None:
    tool = ToolSpec(
        "note", "Note something.", {"type": "object", "properties": {"x": part}, "required": ["x"]}
    )
    request = asking("Note: hi", tools=[tool], tool_choice="required", settings=Settings(max_tokens=40))
    reply = await models.resolve("local/smollm2").reply(request)
    assert reply.calls or (reply.stop == "length" and reply.text.startswith('{"tool": "note"'))


async def test_related_texts_have_related_vectors(models: Models) -> None:
    texts = ["A man is eating food.", "Someone is having a meal.", "The stock market fell today."]
    made = await models.embed(texts)
    first, second, third = made.vectors
    assert [len(each) for each in made.vectors] == [384, 384, 384]
    assert made.model == "local/minilm"
    assert all(abs(dot(each, each) - 1) < 1e-3 for each in made.vectors)
    assert dot(first, second) > 0.6
    assert abs(dot(first, third)) < 0.2


async def test_a_text_that_is_too_long_is_embedded_by_its_beginning(models: Models) -> None:
    made = await models.embed(["word " * 5000, "", "x" * 3000])
    assert [len(each) for each in made.vectors] == [384, 384, 384]


async def test_no_texts_are_no_vectors(models: Models) -> None:
    assert (await models.embed([])).vectors == []


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_weights_are_loaded_once_for_all_who_use_them(models: Models) -> None:
    others = Models(folder=FOLDER, environ=ALONE)
    one, two = models.resolve("local/smollm2"), others.resolve("local/smollm2")
    assert isinstance(one, LocalModel)
    assert isinstance(two, LocalModel)
    await asyncio.gather(one.reply(asking("Hi")), two.reply(asking("Hi")))
    assert one._engine is two._engine
    await others.close()
    assert (await one.reply(asking("Hi"))).text


async def test_a_model_that_was_closed_can_be_used_again() -> None:
    models = Models(folder=FOLDER, environ={**ALONE, "FAIRLEAD_LOCAL_CONTEXT": "512"})
    model = models.resolve("local/smollm2")
    await model.reply(asking("Hi"))
    await model.close()
    assert (await model.reply(asking("Hi"))).text
    await models.close()


async def test_leaving_while_weights_are_loaded_leaves_nothing_behind() -> None:
    from fairlead.agents.models import engine

    models = Models(folder=FOLDER, environ={**ALONE, "FAIRLEAD_LOCAL_CONTEXT": "256"})
    loading = asyncio.create_task(models.resolve("local/smollm2").reply(asking("Hi")))
    await asyncio.wait({loading}, timeout=0.05)
    loading.cancel()
    await asyncio.wait({loading})
    await models.close()
    assert not any(tuning.context == 256 for _, _, tuning, _ in engine._seats)


FREED_AT_ONCE = """
import os, sys
from pathlib import Path
from fairlead.agents.models import Weights
from fairlead.agents.models.engine import Tuning, hold, release

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # each thread waits for the others
for _ in range(6):
    release(hold(Weights(Path(sys.argv[1])).get("minilm"), Tuning(context=256)))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no choice of processors here")
def test_weights_that_are_freed_as_soon_as_they_are_loaded_do_not_hold_up_the_process() -> None:
    """The engine waited for a loop that had missed its end, with the lock without which no Python runs."""
    done = subprocess.run([sys.executable, "-c", FREED_AT_ONCE, str(FOLDER)], timeout=50)
    assert done.returncode == 0


async def test_nobody_else_on_the_machine_can_use_it(models: Models) -> None:
    model = models.resolve("local/smollm2")
    await model.reply(asking("Hi"))
    assert isinstance(model, LocalModel)
    assert model._engine is not None
    others = Models(providers={"other": {"kind": "openai", "base_url": model._engine.base_url}}, environ={})
    with pytest.raises(Failure) as caught:
        await others.resolve("other/x").reply(asking("Hi"))
    assert caught.value.details["status"] == 401
    await others.close()


async def test_the_openai_protocol_works_with_the_real_server_of_llama_cpp(models: Models) -> None:
    model = models.resolve("local/smollm2")
    await model.reply(asking("Hi"))
    assert isinstance(model, LocalModel)
    assert model._engine is not None
    mine = {"kind": "openai", "base_url": model._engine.base_url, "api_key_env": "MINE"}
    others = Models(providers={"real": mine}, environ={"MINE": model._engine.key.reveal()})
    real = others.resolve("real/any")
    reply = await real.reply(asking("Say hello."))
    assert reply.text
    assert reply.usage.input > 0
    events = [each async for each in real.stream(asking("Say hello."))]
    assert isinstance(events[-1], Reply)
    assert events[-1].usage.output > 0
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    written = await real.reply(asking("Give 7.", output=schema, settings=Settings(max_tokens=50)))
    assert isinstance(json.loads(written.text)["n"], int)
    with pytest.raises(ApiError) as caught:
        await real.reply(asking("word " * 20000))
    assert caught.value.details["reason"] == "context_overflow"
    await others.close()


async def test_weights_for_embeddings_do_not_chat(models: Models) -> None:
    with pytest.raises(Failure) as caught:
        await models.resolve("local/minilm").reply(asking("Hi"))
    assert caught.value.kind is Kind.unsupported
    with pytest.raises(Failure) as caught:
        await models.embed(["x"], "local/smollm2")
    assert caught.value.kind is Kind.unsupported


async def test_damaged_weights_are_a_failure(tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes((FOLDER / "smollm2.gguf").read_bytes()[:4_000_000])
    models = Models(folder=tmp_path, environ=ALONE)
    with pytest.raises(Failure) as caught:
        await models.resolve("local/cut").reply(asking("Hi"))
    assert caught.value.kind is Kind.unavailable
    await models.close()


async def test_the_event_loop_goes_on_while_weights_are_loaded() -> None:
    models = Models(folder=FOLDER, environ={**ALONE, "FAIRLEAD_LOCAL_CONTEXT": "1024"})
    loading = asyncio.create_task(models.resolve("local/smollm2").reply(asking("Hi")))
    turns = 0
    while not loading.done():
        turns += 1
        await asyncio.wait({loading}, timeout=0.01)
    assert turns > 3
    assert (await loading).text
    await models.close()


def test_llama_cpp_says_nothing_of_its_own_on_stderr() -> None:
    code = (
        "import asyncio\n"
        "from fairlead.agents.models import Message, Models, Request, Settings\n"
        f"models = Models('local/smollm2', folder={str(FOLDER)!r})\n"
        "request = Request([Message('user', 'Hi')], settings=Settings(max_tokens=3))\n"
        "print(asyncio.run(models.resolve().reply(request)).model)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "local/smollm2\n", "")


async def test_a_server_that_the_settings_name_is_used_before_weights() -> None:
    speech = OpenAISpeech()
    listed = Answer({"data": [{"id": "nomic-embed-text"}, {"id": "llama"}]})
    async with ModelServer(listed, Answer(speech.whole(Said("From the server.")))).run() as server:
        models = Models("local", folder=FOLDER, environ={"FAIRLEAD_LOCAL_SERVER": f"{server.url}/v1"})
        reply = await models.resolve().reply(asking("Hi"))
        await models.close()
    assert reply.text == "From the server."
    assert server.asked[1].body["model"] == "llama"


async def test_a_server_on_a_usual_port_is_found_and_others_are_not() -> None:
    from fairlead.agents.models.loopback import look

    listed = Answer({"data": [{"id": "llama", "meta": {"n_ctx": 4096}}]})
    async with ModelServer(listed).run() as server, ModelServer(Answer(b"<html>")).run() as web:
        ports = {
            "ollama": int(web.url.rpartition(":")[2]),
            "llamacpp": int(server.url.rpartition(":")[2]),
            "vllm": 1,
        }
        found = await look(ports, limit=5.0)
    assert [(each.provider, each.chat, each.window) for each in found] == [("llamacpp", "llama", 4096)]


async def test_local_without_a_server_and_weights_says_what_to_do(tmp_path: Path) -> None:
    models = Models("local", folder=tmp_path, environ=ALONE)
    with pytest.raises(Failure) as caught:
        await models.resolve().reply(asking("Hi"))
    assert caught.value.kind is Kind.misconfigured
    assert "fairlead models pull smollm2" in caught.value.message


async def test_the_list_has_the_shape_that_plugins_are_told() -> None:
    listed = await Models(folder=FOLDER, environ=ALONE).list()
    assert {each["id"]: each for each in listed}["local/minilm"] == {
        "id": "local/minilm",
        "name": "minilm",
        "provider": "local",
        "type": "embedding",
        "capabilities": ["embedding"],
        "dimensions": 384,
        "context_window": 512,
    }
    chat = next(each for each in listed if each["id"] == "local/smollm2")
    assert (chat["type"], chat["capabilities"], chat["context_window"]) == (
        "chat",
        ["chat", "tool_calling"],
        8192,
    )


def test_weights_of_ones_own_come_before_those_that_were_pulled(tmp_path: Path) -> None:
    weights = Weights(tmp_path)
    weights.add(FOLDER / "smollm2.gguf", "mine")
    weights.add(FOLDER / "smollm2.gguf", "smollm2")
    picked = weights.pick("chat")
    assert picked is not None
    assert picked.name == "mine"
