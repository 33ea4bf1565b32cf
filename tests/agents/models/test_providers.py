"""Every provider's protocol, against servers on this machine that speak it, and break it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from fairlead import App
from fairlead.agents import Agent, Limits, Policy
from fairlead.agents.models import (
    Delta,
    Image,
    Message,
    Model,
    Models,
    Reply,
    Request,
    Retries,
    Settings,
    ToolCall,
    ToolSpec,
    Usage,
)
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ApiError
from model_servers import (
    SPEECHES,
    Answer,
    AnthropicSpeech,
    HangUp,
    ModelServer,
    OpenAISpeech,
    Said,
    Silence,
    Streamed,
    event,
)
from servers import free_port

KEY = "test-key-Zx81vQ0pLm37Rt"
HELLO = Request([Message("system", "Be kind."), Message("user", "Hello")])
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


@pytest.fixture(params=SPEECHES, ids=lambda speech: str(speech.kind))
def speech(request: pytest.FixtureRequest) -> Any:
    return request.param


class Pauses:
    """Waits that take no time, and are remembered."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)


@asynccontextmanager
async def talking(
    speech: Any,
    *answers: Any,
    pauses: Pauses | None = None,
    environ: dict[str, str] | None = None,
    **retries: Any,
) -> AsyncIterator[tuple[Model, ModelServer]]:
    async with ModelServer(*answers).run() as server:
        base = f"{server.url}/v1" if speech.kind == "openai" else server.url
        models = Models(
            providers={"acme": {"kind": speech.kind, "base_url": base, "api_key_env": "ACME_KEY"}},
            retries=Retries(pause=pauses or Pauses(), chance=lambda: 0.0, **retries),
            environ={"ACME_KEY": KEY} if environ is None else environ,
        )
        try:
            yield models.resolve("acme/m-1"), server
        finally:
            await models.close()


async def whole(model: Model, request: Request) -> Reply:
    return await model.reply(request)


async def streamed(model: Model, request: Request) -> Reply:
    async for each in model.stream(request):
        last = each
    assert isinstance(last, Reply)
    return last


Asking = Callable[[Model, Request], Awaitable[Reply]]
both = pytest.mark.parametrize("ask", [whole, streamed])


def answer(speech: Any, ask: Asking, said: Said) -> Any:
    return Answer(speech.whole(said)) if ask is whole else Streamed(speech.pieces(said))


@both
async def test_an_answer_is_read_with_its_usage(speech: Any, ask: Asking) -> None:
    async with talking(speech, answer(speech, ask, Said("Good day."))) as (model, _):
        reply = await ask(model, HELLO)
    assert (reply.text, reply.calls, reply.stop, reply.model) == ("Good day.", (), "stop", "m-1")
    assert reply.usage == Usage(*speech.counted)


async def test_a_streamed_answer_comes_in_pieces_and_then_whole(speech: Any) -> None:
    said = Said("Good day.", reasoning="They greet.")
    async with talking(speech, Streamed(speech.pieces(said))) as (model, _):
        events = [each async for each in model.stream(HELLO)]
    deltas = [each for each in events[:-1] if isinstance(each, Delta)]
    assert "".join(each.text for each in deltas) == "Good day."
    assert "".join(each.reasoning for each in deltas) == "They greet."
    assert len([each for each in deltas if each.text]) == 2
    last = events[-1]
    assert isinstance(last, Reply)
    assert (last.text, last.reasoning) == ("Good day.", "They greet.")


@both
async def test_several_tool_calls_are_read_in_order(speech: Any, ask: Asking) -> None:
    said = Said("Wait.", calls=(("c1", "add", {"a": 1}), ("c2", "add", {"a": 2})), stop="tool_calls")
    async with talking(speech, answer(speech, ask, said)) as (model, _):
        reply = await ask(model, Request([Message("user", "Add")], [ADD]))
    assert reply.stop == "tool_calls"
    assert [(call.id, call.name, call.arguments.replace(" ", "")) for call in reply.calls] == [
        ("c1", "add", '{"a":1}'),
        ("c2", "add", '{"a":2}'),
    ]


def _pieces(*calls: dict[str, Any]) -> Streamed:
    deltas = [{"delta": {"tool_calls": [call]}} for call in calls]
    choices: list[dict[str, Any]] = [*deltas, {"delta": {}, "finish_reason": "tool_calls"}]
    return Streamed([*(event({"choices": [each]}) for each in choices), event("[DONE]")])


def _function(name: str, arguments: str) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("place", [{}, {"index": 0}, {"index": None}])
async def test_calls_that_share_a_place_in_a_stream_are_told_apart_by_their_ids(
    place: dict[str, Any],
) -> None:
    told = _pieces(
        {"id": "c1", **place, **_function("add", '{"a":1}')},
        {"id": "c2", **place, **_function("take", '{"a":')},
        {**place, "function": {"arguments": "2}"}},
    )
    async with talking(OpenAISpeech(), told) as (model, _):
        reply = await streamed(model, HELLO)
    assert reply.calls == (ToolCall("add", '{"a":1}', "c1"), ToolCall("take", '{"a":2}', "c2"))


async def test_a_name_that_comes_with_every_piece_of_a_call_is_one_name() -> None:
    told = _pieces(
        {"index": 0, "id": "c1", **_function("add", '{"a":')},
        {"index": 0, "id": "c1", **_function("add", "1}")},
    )
    async with talking(OpenAISpeech(), told) as (model, _):
        reply = await streamed(model, HELLO)
    assert reply.calls == (ToolCall("add", '{"a":1}', "c1"),)


@both
@pytest.mark.parametrize("stop", ["length", "filtered"])
async def test_an_answer_that_was_cut_off_says_why(speech: Any, ask: Asking, stop: str) -> None:
    async with talking(speech, answer(speech, ask, Said("Good", stop=stop))) as (model, _):
        assert (await ask(model, HELLO)).stop == stop


@both
async def test_an_unknown_reason_for_stopping_is_an_api_error(speech: Any, ask: Asking) -> None:
    async with talking(speech, answer(speech, ask, Said("Good", stop="because"))) as (model, server):
        with pytest.raises(ApiError):
            await ask(model, HELLO)
        assert len(server.asked) == 1


async def test_a_body_with_missing_fields_is_an_api_error(speech: Any) -> None:
    for body in speech.broken:
        async with talking(speech, Answer(body)) as (model, server):
            with pytest.raises(ApiError):
                await model.reply(HELLO)
            assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"choices": [', b"\xff\xfe"])
async def test_a_body_that_is_not_json_is_an_api_error(speech: Any, body: bytes) -> None:
    async with talking(speech, Answer(body)) as (model, _):
        with pytest.raises(ApiError):
            await model.reply(HELLO)


@both
@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_a_status_that_passes_is_tried_again(speech: Any, ask: Asking, status: int) -> None:
    pauses = Pauses()
    failing = Answer(speech.error("busy"), status)
    good = answer(speech, ask, Said("Good day."))
    async with talking(speech, failing, failing, good, pauses=pauses) as (model, server):
        assert (await ask(model, HELLO)).text == "Good day."
    assert len(server.asked) == 3
    assert pauses.waited[1] > pauses.waited[0] > 0


async def test_a_wished_wait_is_waited(speech: Any) -> None:
    pauses = Pauses()
    busy = Answer(speech.error("slow down"), 429, {"Retry-After": "7"})
    async with talking(speech, busy, Answer(speech.whole(Said("Hi"))), pauses=pauses) as (model, _):
        await model.reply(HELLO)
    assert 7 <= pauses.waited[0] < 8


async def test_a_wait_beyond_the_budget_is_not_waited(speech: Any) -> None:
    busy = Answer(speech.error("slow down"), 429, {"Retry-After": "3600"})
    async with talking(speech, busy) as (model, server):
        with pytest.raises(ApiError) as caught:
            await model.reply(HELLO)
    assert (len(server.asked), caught.value.kind, caught.value.retry_after) == (1, Kind.rate_limited, 3600)


async def test_tries_come_to_an_end(speech: Any) -> None:
    async with talking(speech, Answer(speech.error("no"), 503), attempts=3) as (model, server):
        with pytest.raises(ApiError) as caught:
            await model.reply(HELLO)
    assert len(server.asked) == 3
    assert caught.value.details["status"] == 503
    assert caught.value.details["attempts"] == 3


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_refused_request_is_not_sent_again(speech: Any, status: int) -> None:
    async with talking(speech, Answer(speech.error("no such thing"), status)) as (model, server):
        with pytest.raises(ApiError) as caught:
            await model.reply(HELLO)
    assert (len(server.asked), caught.value.details["status"]) == (1, status)


async def test_a_conversation_that_is_too_long_says_so(speech: Any) -> None:
    body = speech.error("prompt is too long: maximum context length is 10 tokens")
    async with talking(speech, Answer(body, 400)) as (model, _):
        with pytest.raises(ApiError) as caught:
            await model.reply(HELLO)
    assert caught.value.details["reason"] == "context_overflow"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_where_it_is_set(speech: Any, status: int) -> None:
    async with talking(speech, Answer(speech.error("bad key"), status)) as (model, server):
        with pytest.raises(Failure) as caught:
            await model.reply(HELLO)
    assert (len(server.asked), caught.value.kind) == (1, Kind.misconfigured)
    assert "ACME_KEY" in caught.value.message


async def test_a_missing_key_names_where_to_set_it(speech: Any) -> None:
    async with talking(speech, Answer({}), environ={}) as (model, server):
        with pytest.raises(Failure) as caught:
            await model.reply(HELLO)
    assert (server.asked, caught.value.kind) == ([], Kind.misconfigured)
    assert "ACME_KEY" in caught.value.message


async def test_a_missing_library_is_told_by_its_package_before_a_key_is_asked_for(
    speech: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "google.genai" if speech.kind == "google" else speech.kind
    monkeypatch.setitem(sys.modules, module, None)
    async with talking(speech, environ={}) as (model, _):
        with pytest.raises(Failure) as caught:
            await model.reply(HELLO)
    assert caught.value.code == "config_error"
    assert f"{module.replace('.', '-')}: pip install 'fairlead[models]'" in caught.value.message


@both
async def test_a_connection_that_breaks_before_the_answer_is_made_again(speech: Any, ask: Asking) -> None:
    async with talking(speech, HangUp(), answer(speech, ask, Said("Good day."))) as (model, server):
        assert (await ask(model, HELLO)).text == "Good day."
    assert len(server.asked) == 2


@both
async def test_an_address_where_nobody_listens_is_named_with_what_to_do(speech: Any, ask: Asking) -> None:
    port = free_port()
    url = f"http://me:hunter2@127.0.0.1:{port}/v1?token=hunter2"
    acme = {"kind": speech.kind, "base_url": url, "api_key_env": "ACME_KEY"}
    retries = Retries(pause=Pauses(), chance=lambda: 0.0)
    models = Models(providers={"acme": acme}, retries=retries, environ={"ACME_KEY": KEY})
    with pytest.raises(ApiError) as caught:
        await ask(models.resolve("acme/m-1"), HELLO)
    await models.close()
    message = caught.value.message
    assert caught.value.kind is Kind.unavailable
    assert f"http://127.0.0.1:{port} failed: nothing listens there. Start it, or" in message
    assert "hunter2" not in message


async def test_what_sets_the_address_of_a_server_on_this_machine_is_named() -> None:
    models = Models(
        environ={"OLLAMA_HOST": f"127.0.0.1:{free_port()}"},
        retries=Retries(pause=Pauses(), chance=lambda: 0.0),
    )
    with pytest.raises(ApiError, match=r"Start it, or set OLLAMA_HOST to where it is\."):
        await models.resolve("ollama/some").reply(HELLO)
    await models.close()


@both
async def test_a_server_that_is_not_there_is_an_api_error(speech: Any, ask: Asking) -> None:
    async with talking(speech, HangUp()) as (model, server):
        with pytest.raises(ApiError) as caught:
            await ask(model, HELLO)
    assert caught.value.kind is Kind.unavailable
    assert len(server.asked) == 4


@pytest.mark.parametrize("cut", [True, False])
async def test_a_stream_that_breaks_off_is_an_api_error_and_not_tried_again(speech: Any, cut: bool) -> None:
    pieces = speech.pieces(Said("Good day."))
    kept = {"openai": 3, "anthropic": 4, "google": 2}[speech.kind]
    seen: list[Any] = []

    async def watch(model: Model) -> None:
        async for each in model.stream(HELLO):
            seen.append(each)

    async with talking(speech, Streamed(pieces[:kept], cut=cut)) as (model, server):
        with pytest.raises(ApiError):
            await watch(model)
    assert len(server.asked) == 1
    assert seen
    assert not any(isinstance(each, Reply) for each in seen)


async def test_an_error_within_a_stream_is_an_api_error(speech: Any) -> None:
    from model_servers import event

    pieces = [*speech.pieces(Said("Good day."))[:4], event(speech.error("overloaded"), "error")]
    async with talking(speech, Streamed(pieces)) as (model, server):
        with pytest.raises(ApiError):
            await streamed(model, HELLO)
    assert len(server.asked) == 1


async def test_leaving_a_stream_ends_the_request_at_the_provider(speech: Any) -> None:
    pieces = speech.pieces(Said("Good day."))
    async with talking(speech, Streamed([*pieces[:-2], asyncio.Event()])) as (model, server):
        events: Any = model.stream(HELLO)
        await anext(events)
        await events.aclose()
        await asyncio.wait_for(server.left.wait(), 10)


@both
async def test_a_request_that_is_cancelled_ends_at_the_provider(speech: Any, ask: Asking) -> None:
    async with talking(speech, Silence()) as (model, server):
        asking = asyncio.ensure_future(ask(model, HELLO))
        await asyncio.wait_for(server.came.wait(), 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.left.wait(), 10)


@both
async def test_a_server_that_says_nothing_is_left_in_time(speech: Any, ask: Asking) -> None:
    async with talking(speech, Silence()) as (model, _):
        with pytest.raises(ApiError) as caught:
            await ask(model, Request(HELLO.messages, settings=Settings(timeout=0.2)))
    assert caught.value.kind is Kind.timeout


def told_of(failure: BaseException) -> str:
    """Everything that anybody could print of a failure."""
    shown = traceback.TracebackException.from_exception(failure, capture_locals=True)
    # This file's own variables hold the key.
    shown.stack = traceback.StackSummary.from_list(
        [each for each in shown.stack if each.filename != __file__]
    )
    chain = [repr(failure.__cause__), repr(failure.__context__)]
    details = repr(getattr(failure, "details", ""))
    return "\n".join(["".join(shown.format()), str(failure), repr(failure), details, *chain])


@both
@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 429, 500])
async def test_nothing_of_the_key_shows_when_a_server_repeats_it(
    speech: Any, ask: Asking, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    echo = f"Your key {KEY} (Bearer {KEY}), which ends in {KEY[-12:]} and begins with {KEY[:10]}***"
    bodies = [speech.error(echo), echo, {"detail": echo, "choices": [{"finish_reason": echo}]}]
    caplog.set_level(logging.DEBUG)
    for body in bodies:
        async with talking(speech, Answer(body, status, {"x-echo": "none"}), attempts=2) as (model, _):
            with pytest.raises(Failure) as caught:
                await ask(model, HELLO)
            shown = told_of(caught.value) + repr(model) + caplog.text
        assert not any(KEY[at : at + 8] in shown for at in range(len(KEY) - 7))


async def test_what_the_environment_says_to_one_provider_is_said_to_no_other(
    speech: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Gateway-Token: theirs-1234\nX-Team: theirs-5678")
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "theirs-9012")
    async with talking(speech, Answer(speech.whole(Said("Hi")))) as (model, server):
        await model.reply(HELLO)
    assert "theirs" not in str(server.asked[0].headers)


async def test_the_provider_that_the_environment_means_is_told_what_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "ours")
    async with ModelServer(Answer(OpenAISpeech().whole(Said("Hi")))).run() as server:
        models = Models(environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{server.url}/v1"})
        await models.resolve("openai/m-1").reply(HELLO)
        await models.close()
    assert server.asked[0].headers["openai-organization"] == "ours"


async def test_a_failure_of_a_request_has_no_cause_that_holds_the_request(speech: Any) -> None:
    async with talking(speech, Answer(speech.error("no"), 400)) as (model, _):
        with pytest.raises(ApiError) as caught:
            await model.reply(HELLO)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_what_a_provider_wants_back_is_sent_back_as_it_was(speech: Any) -> None:
    said = Said(calls=(("c1", "add", {"a": 1}),), reasoning="Hm.", stop="tool_calls", signature="c2lnbmVk")
    good = Answer(speech.whole(Said("Done.")))
    async with talking(speech, Streamed(speech.pieces(said)), good) as (model, server):
        reply = await streamed(model, Request([Message("user", "Add")], [ADD]))
        result = Message("tool", '{"ok":true}', call_id="c1", name="add")
        await model.reply(Request([Message("user", "Add"), reply.message(), result], [ADD]))
    assert reply.kept is not None
    assert "c2lnbmVk" in repr(server.asked[1].body)


@both
async def test_who_says_nothing_is_told_so_where_a_provider_takes_no_empty_turn(
    speech: Any, ask: Asking
) -> None:
    blank = Request([Message("system", "Be kind."), Message("user", "")])
    async with talking(speech, answer(speech, ask, Said("Good day."))) as (model, server):
        if speech.kind == "openai":
            assert (await ask(model, blank)).text == "Good day."
            return
        with pytest.raises(ApiError, match=r"^Nothing was sent to acme: .* says nothing") as caught:
            await ask(model, blank)
    assert (caught.value.kind, server.asked) == (Kind.invalid_input, [])


@both
async def test_half_a_character_is_told_as_what_cannot_be_sent(speech: Any, ask: Asking) -> None:
    async with talking(speech, answer(speech, ask, Said("Good day."))) as (model, server):
        request = Request([Message("user", "half \ud83d of one")])
        if speech.kind == "google":  # whose library spells it out
            assert (await ask(model, request)).text == "Good day."
            return
        with pytest.raises(ApiError, match=r"^Nothing was sent to acme: .* half of a character") as caught:
            await ask(model, request)
    assert (caught.value.kind, server.asked) == (Kind.invalid_input, [])


async def test_a_picture_is_sent(speech: Any) -> None:
    message = Message("user", "What is it?", images=(Image(b"\x89PNG", "image/png"),))
    async with talking(speech, Answer(speech.whole(Said("A dot.")))) as (model, server):
        await model.reply(Request([message]))
    assert "iVBORw==" in repr(server.asked[0].body)
    assert "image/png" in repr(server.asked[0].body)


CHOICES = {
    ("openai", "auto"): "auto",
    ("openai", "required"): "required",
    ("openai", "none"): "none",
    ("openai", "add"): {"type": "function", "function": {"name": "add"}},
    ("anthropic", "auto"): {"type": "auto"},
    ("anthropic", "required"): {"type": "any"},
    ("anthropic", "none"): {"type": "none"},
    ("anthropic", "add"): {"type": "tool", "name": "add"},
    ("google", "auto"): {"mode": "AUTO"},
    ("google", "required"): {"mode": "ANY"},
    ("google", "none"): {"mode": "NONE"},
    ("google", "add"): {"mode": "ANY", "allowedFunctionNames": ["add"]},
}


@pytest.mark.parametrize("choice", ["auto", "required", "none", "add"])
async def test_whether_tools_are_called_is_told(speech: Any, choice: str) -> None:
    async with talking(speech, Answer(speech.whole(Said("Hi")))) as (model, server):
        await model.reply(Request([Message("user", "Add")], [ADD], choice))
    body = server.asked[0].body
    sent = body["toolConfig"]["functionCallingConfig"] if speech.kind == "google" else body["tool_choice"]
    assert sent == CHOICES[speech.kind, choice]


async def test_a_conversation_with_calls_is_sent_without_tools_in_a_form_that_the_provider_takes(
    speech: Any,
) -> None:
    app = App("sums")

    @app.action
    def add(a: int) -> int:
        """Add."""
        return a

    calling = Answer(speech.whole(Said(calls=(("c1", "add", {"a": 1}),), stop="tool_calls")))
    summary = Answer(speech.whole(Said("One sum is done.")))
    async with talking(speech, calling, summary) as (model, server):
        policy = Policy(limits=Limits(iterations=1), wrap_up=True)
        app.add(Agent("clerk", model=model, tools=[add], policy=policy))
        result = await app.invoke("clerk", {"prompt": "Add."})
    assert result.meta["agent"]["exit"] == "iteration_cap"
    body = server.asked[1].body
    if speech.kind == "anthropic":
        # It refuses a request with `tool_use` that has no tools.
        assert ([each["name"] for each in body["tools"]], body["tool_choice"]) == (["add"], {"type": "none"})
    else:
        assert "tools" not in body


async def test_settings_and_the_form_of_the_output_are_told(speech: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    settings = Settings(temperature=0.5, max_tokens=100, stop=("END",))
    async with talking(speech, Answer(speech.whole(Said('{"n":1}')))) as (model, server):
        await model.reply(Request(HELLO.messages, output=schema, settings=settings))
    body = server.asked[0].body
    if speech.kind == "google":
        config = body["generationConfig"]
        assert (config["temperature"], config["maxOutputTokens"], config["stopSequences"]) == (
            0.5,
            100,
            ["END"],
        )
        assert config["responseMimeType"] == "application/json"
        assert body["systemInstruction"]["parts"][0]["text"] == "Be kind."
    elif speech.kind == "anthropic":
        assert (body["temperature"], body["max_tokens"], body["stop_sequences"]) == (0.5, 100, ["END"])
        closed = {**schema, "additionalProperties": False}
        assert body["output_config"]["format"] == {"type": "json_schema", "schema": closed}
        assert body["system"] == "Be kind."
    else:
        assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.5, 100, ["END"])
        assert body["response_format"]["json_schema"]["schema"] == schema
        assert body["messages"][0] == {"role": "system", "content": "Be kind."}


LETTER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "text": {"type": "string", "maxLength": 80, "default": ""},
        "copies": {"type": "integer", "minimum": 1},
    },
    "required": ["to", "text", "copies"],
}


async def test_anthropic_is_told_the_form_of_the_output_in_words_that_it_takes() -> None:
    from anthropic.lib._parse._transform import transform_schema

    speech = next(each for each in SPEECHES if each.kind == "anthropic")
    async with talking(speech, Answer(speech.whole(Said("{}")))) as (model, server):
        await model.reply(replace(HELLO, output=LETTER))
    schema = server.asked[0].body["output_config"]["format"]["schema"]
    assert transform_schema(deepcopy(schema)) == schema
    assert set(schema["properties"]) == set(LETTER["properties"])


async def test_a_form_that_anthropic_has_no_words_for_is_told_in_ours() -> None:
    counts = {"type": "object", "additionalProperties": {"type": "integer"}}
    speech = next(each for each in SPEECHES if each.kind == "anthropic")
    async with talking(speech, Answer(speech.whole(Said("{}")))) as (model, server):
        await model.reply(replace(HELLO, output=counts))
    body = server.asked[0].body
    assert "output_config" not in body
    assert body["system"].startswith("Be kind.")
    assert json.dumps(counts, separators=(",", ":")) in body["system"]


@pytest.mark.parametrize(
    ("output", "strict"),
    [
        ({"type": "array", "items": {"type": "integer"}}, None),
        ({"anyOf": [{"type": "object", "properties": {}}, {"type": "null"}]}, None),
        (LETTER, False),
        ({**LETTER, "additionalProperties": False}, False),
        (
            {
                "type": "object",
                "properties": {"n": {"type": "integer", "minimum": 1}},
                "required": ["n"],
                "additionalProperties": False,
            },
            True,
        ),
    ],
)
async def test_openai_is_held_to_a_form_only_as_far_as_it_takes_it(
    output: dict[str, Any], strict: bool | None
) -> None:
    async with ModelServer(Answer(OpenAISpeech().whole(Said("[]")))).run() as server:
        models = Models(environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{server.url}/v1"})
        await models.resolve("openai/m-1").reply(replace(HELLO, output=output))
        await models.close()
    body = server.asked[0].body
    if strict is None:
        assert "response_format" not in body
        assert [message["role"] for message in body["messages"]] == ["system", "system", "user"]
        assert json.dumps(output, separators=(",", ":")) in body["messages"][1]["content"]
    else:
        assert body["response_format"]["json_schema"]["strict"] is strict


@pytest.mark.parametrize("effort", ["off", "low", "high"])
async def test_how_much_to_think_is_told(speech: Any, effort: Any) -> None:
    async with talking(speech, Answer(speech.whole(Said("Hi")))) as (model, server):
        await model.reply(Request(HELLO.messages, settings=Settings(reasoning=effort)))
    body = server.asked[0].body
    if speech.kind == "openai":
        assert body["reasoning_effort"] == ("none" if effort == "off" else effort)
    elif speech.kind == "anthropic":
        assert ("thinking" in body) == (effort != "off")
    else:
        # The library writes it in its own spelling, which the service reads as well.
        thinking = body["generationConfig"]["thinkingConfig"]
        assert thinking.get("includeThoughts", thinking.get("include_thoughts")) == (effort != "off")


async def test_results_of_a_batch_follow_the_calls_they_answer(speech: Any) -> None:
    calls = (ToolCall("add", '{"a":1}', "c1"), ToolCall("add", "not json", "c2"))
    turns = [
        Message("user", "Add"),
        Message("assistant", "", calls),
        Message("tool", '{"ok":true}', call_id="c1", name="add"),
        Message("tool", '{"ok":false}', call_id="c2", name="add"),
        Message("user", "And?"),
    ]
    async with talking(speech, Answer(speech.whole(Said("Hi")))) as (model, server):
        await model.reply(Request(turns, [ADD]))
    body = server.asked[0].body
    if speech.kind == "openai":
        assert [each["role"] for each in body["messages"]] == ["user", "assistant", "tool", "tool", "user"]
        assert [each.get("tool_call_id") for each in body["messages"][2:4]] == ["c1", "c2"]
    elif speech.kind == "anthropic":
        assert [each["role"] for each in body["messages"]] == ["user", "assistant", "user"]
        results = body["messages"][2]["content"]
        assert [each.get("tool_use_id") for each in results[:2]] == ["c1", "c2"]
        assert [each.get("is_error", False) for each in results[:2]] == [False, True]
    else:
        assert [each["role"] for each in body["contents"]] == ["user", "model", "user"]
        assert [each["functionResponse"]["id"] for each in body["contents"][2]["parts"][:2]] == ["c1", "c2"]


async def test_what_comes_with_calls_goes_back_with_them_where_a_server_gives_no_ids() -> None:
    app = App("sums")

    @app.action
    def add(a: int) -> int:
        """Add."""
        return a

    told = _pieces(
        *({"index": at, "extra_content": {"seal": at}, **_function("add", f'{{"a":{at}}}')} for at in (1, 2))
    )
    end = Streamed(OpenAISpeech().pieces(Said("Done.")))
    async with talking(OpenAISpeech(), told, end) as (model, server):
        app.add(Agent("clerk", model=model, tools=[add]))
        async for _ in app.stream("clerk", {"prompt": "Add."}):
            pass
    (turn,) = (each for each in server.asked[1].body["messages"] if each["role"] == "assistant")
    assert [call["extra_content"] for call in turn["tool_calls"]] == [{"seal": 1}, {"seal": 2}]


async def test_a_character_that_is_cut_between_two_pieces_is_whole() -> None:
    deltas = [{"content": "Hi \ud83d"}, {"content": "\ude00, \ud83d and"}, {"content": " bye \ud83d"}]
    choices = [*({"delta": each} for each in deltas), {"delta": {}, "finish_reason": "stop"}]
    told = Streamed([*(event({"choices": [each]}) for each in choices), event("[DONE]")])
    async with talking(OpenAISpeech(), told) as (model, _):
        *pieces, reply = [each async for each in model.stream(HELLO)]
    assert [each.text for each in pieces] == ["Hi ", "\U0001f600, \ufffd and", " bye "]
    assert isinstance(reply, Reply)
    assert reply.text == "Hi \U0001f600, \ufffd and bye \ufffd"


@both
async def test_half_a_character_in_what_a_model_thought_or_called_ends_no_conversation(
    speech: Any, ask: Asking
) -> None:
    calls = (("c\ud83d1", "a\ud83dd", {"a": "\ud83d"}),)
    said = Said(calls=calls, reasoning="Hm \ud83d.", stop="tool_calls", signature="c2lnbmVk")
    if speech.kind == "openai":
        said = replace(said, signature="c2ln\ud83dbmVk")
    async with talking(speech, answer(speech, ask, said), answer(speech, ask, Said("Done."))) as (model, _):
        reply = await ask(model, Request([Message("user", "Add")], [ADD]))
        result = Message("tool", "3", call_id=reply.calls[0].id, name=reply.calls[0].name)
        again = Request([Message("user", "Add"), reply.message(), result], [ADD])
        assert (await ask(model, again)).text == "Done."


async def test_thoughts_that_are_cut_within_a_character_go_back_whole() -> None:
    begin, *others = AnthropicSpeech().pieces(Said("Hi", reasoning="X", signature="s"))
    cut = [{"type": "thinking_delta", "thinking": half} for half in ("Hm \ud83d", "\ude00.")]
    pieces = [
        event({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
        for delta in cut
    ]
    at = next(at for at, piece in enumerate(others) if b"thinking_delta" in piece)
    told = Streamed([begin, *others[:at], *pieces, *others[at + 1 :]])
    async with talking(AnthropicSpeech(), told, Answer(AnthropicSpeech().whole(Said("Hi")))) as (
        model,
        server,
    ):
        reply = await streamed(model, HELLO)
        await model.reply(Request([*HELLO.messages, reply.message(), Message("user", "And?")]))
    thought = server.asked[1].body["messages"][1]["content"][0]
    assert (thought["thinking"], thought["signature"]) == ("Hm \U0001f600.", "s")


async def test_pictures_of_tools_stand_behind_all_results_of_a_turn() -> None:
    picture = Image(b"PNG", "image/png")
    calls = (ToolCall("draw", "{}", "c1"), ToolCall("draw", "{}", "c2"))
    results = [Message("tool", "Drawn.", call_id=each.id, name="draw", images=(picture,)) for each in calls]
    for more in ([], [Message("user", "And?")]):
        request = Request([Message("user", "Draw."), Message("assistant", calls=calls), *results, *more])
        async with talking(OpenAISpeech(), Answer(OpenAISpeech().whole(Said("Hi")))) as (model, server):
            await model.reply(request)
        sent = server.asked[0].body["messages"][2:]
        assert [message["role"] for message in sent] == [
            "tool",
            "tool",
            "user",
            *(each.role for each in more),
        ]
        assert [part["type"] for part in sent[2]["content"]] == ["image_url", "image_url"]


async def test_prices_of_the_configuration_make_the_cost(speech: Any) -> None:
    async with ModelServer(Answer(speech.whole(Said("Hi")))).run() as server:
        base = f"{server.url}/v1" if speech.kind == "openai" else server.url
        models = Models(
            providers={"acme": {"kind": speech.kind, "base_url": base}},
            prices={"acme/m-1": {"input": 10.0, "cache_read": 1.0, "output": 100.0}},
            environ={"OPENAI_API_KEY": "other", "ANTHROPIC_API_KEY": "other", "GEMINI_API_KEY": "other"},
        )
        reply = await models.resolve("acme/m-1").reply(HELLO)
        await models.close()
    written = speech.counted[3]
    assert reply.usage.cost == pytest.approx(((12 - written) * 10 + written * 10 + 8 * 1 + 5 * 100) / 1e6)
    # A provider of one's own is not given the key of another.
    assert "other" not in repr(server.asked[0].headers)
