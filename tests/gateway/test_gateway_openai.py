"""Agents as OpenAI's models, asked with OpenAI's own client, which knows nothing of us."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import beeos_sdk as sdk
import httpx
import openai
import pytest

from fairlead import App
from fairlead.agents.models import loopback
from fairlead.store.statements import Statement
from gateway.site_under_test import OWNER, PATIENCE, SCOPED, STRANGER, Site, add_key

_OPEN: list[openai.OpenAI] = []
_ONCE = Statement.of("UPDATE api_keys SET per_minute = 1 WHERE id = 'k-hasty'")


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def client(site: Site, key: str = OWNER, max_retries: int = 0) -> openai.OpenAI:
    _OPEN.append(
        openai.OpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=max_retries, timeout=PATIENCE)
    )
    return _OPEN[-1]


def ask(site: Site, model: str, *words: str, **more: Any) -> Any:
    """Alternating words of the user and the assistant; the last are the user's."""
    roles = ("user", "assistant")
    messages: Any = [{"role": roles[at % 2], "content": each} for at, each in enumerate(words)]
    return client(site).chat.completions.create(model=model, messages=messages, **more)


def posted(site: Site, body: Any, path: str = "/chat/completions", key: str | None = OWNER) -> httpx.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{site.url}/v1{path}", json=body, headers=headers, timeout=PATIENCE)


def test_the_models_are_the_agents_that_the_caller_may_use(site: Site) -> None:
    listed = client(site).models.list().data
    assert {"echo", "memory", "slow"} <= {each.id for each in listed}
    assert {each.owned_by for each in listed} == {"fairlead"}
    assert [each.id for each in client(site, SCOPED).models.list().data] == ["echo"]
    assert client(site, STRANGER).models.list().data == []
    assert client(site).models.retrieve("echo").id == "echo"


def test_a_completion_is_what_the_agent_says(site: Site) -> None:
    made = ask(site, "echo", "hello")
    (choice,) = made.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "You said: hello")
    assert (choice.finish_reason, made.model, made.object) == ("stop", "echo", "chat.completion")
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens
    assert made._request_id


def test_what_the_client_says_was_said_before_is_what_the_agent_knows(site: Site) -> None:
    made = ask(site, "memory", "one", "Yes?", "two", "Yes?", "three")
    assert made.choices[0].message.content == "one | two | three"
    parts: Any = [{"type": "text", "text": "fo"}, {"type": "text", "text": "ur"}]
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    told = client(site).chat.completions.create(model="memory", messages=messages)
    assert told.choices[0].message.content == "Instructions for this conversation:\nBe brief. | four"


def test_a_stream_brings_the_answer_in_pieces_and_its_usage_last(site: Site) -> None:
    chunks = list(ask(site, "talker", "go", stream=True, stream_options={"include_usage": True}))
    said = [
        each.choices[0].delta.content for each in chunks if each.choices and each.choices[0].delta.content
    ]
    assert said == ["one ", "two ", "three ", "four ", "five"]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert len({each.id for each in chunks}) == 1
    assert all(each.usage is None for each in chunks[:-1])


def test_a_stream_ends_with_done_and_without_usage_unless_it_was_asked_for(site: Site) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "x"}], "stream": True}
    answer = posted(site, body)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text.endswith("data: [DONE]\n\n")
    assert "usage" not in answer.text


def test_an_agents_question_is_its_answer(site: Site) -> None:
    assert ask(site, "asker", "go").choices[0].message.content == "Which?"
    chunks = list(ask(site, "asker", "go", stream=True))
    assert "".join(each.choices[0].delta.content or "" for each in chunks) == "Which?"


@pytest.mark.parametrize(
    ("model", "kind", "status", "code"),
    [
        ("nobody", openai.NotFoundError, 404, "agent_not_found"),
        ("busy", openai.ConflictError, 409, "conflict"),
        ("stumbler", openai.InternalServerError, 504, "service_timeout"),
    ],
)
def test_a_failure_is_told_in_the_shape_that_clients_know(
    site: Site, model: str, kind: type[openai.APIStatusError], status: int, code: str
) -> None:
    with pytest.raises(kind) as caught:
        ask(site, model, "x")
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.message
    assert caught.value.response.headers["x-request-id"]


def test_a_failure_of_the_agents_own_is_not_tried_again_by_the_client(site: Site) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        client(site, max_retries=5).chat.completions.create(
            model="broken", messages=[{"role": "user", "content": "x"}]
        )
    assert caught.value.code == "agent_reply_error"
    assert "on strike" in str(caught.value)
    assert caught.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_a_failure_in_a_stream_is_raised_by_the_client_and_the_stream_still_ends(site: Site) -> None:
    with pytest.raises(openai.APIError, match="on strike"):
        list(ask(site, "broken", "x", stream=True))
    body = {"model": "broken", "messages": [{"role": "user", "content": "x"}], "stream": True}
    assert posted(site, body).text.endswith("data: [DONE]\n\n")


def test_who_has_no_key_is_told_so_as_an_authentication_error(site: Site) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        client(site, "oag_" + "00" * 32).models.list()
    assert caught.value.code == "invalid_token"
    with pytest.raises(openai.NotFoundError):
        client(site, STRANGER).chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "x"}]
        )


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools"),
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, None),
        ({"stream": "yes"}, "stream"),
        ({"model": 7}, "model"),
    ],
)
def test_what_an_agent_does_not_do_is_refused_with_the_parameter(
    site: Site, more: dict[str, Any], param: str | None
) -> None:
    answer = posted(site, {"model": "echo", "messages": [{"role": "user", "content": "x"}], **more})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert param is None or error["param"] == param
    assert error["type"] in ("invalid_request_error", "validation_error")


def test_a_refusal_says_nothing_of_what_was_sent(site: Site) -> None:
    canary = "canary-7"
    content = [{"type": canary, "text": "x"}]
    for path, body in (
        ("/chat/completions", {"messages": [{"role": "user", "content": content}]}),
        ("/chat/completions", {"messages": [{"role": "user", "content": [{"type": {canary: 1}}]}]}),
        ("/responses", {"input": "x", "previous_response_id": canary}),
    ):
        answer = posted(site, {"model": "echo", **body}, path)
        assert answer.status_code in (400, 404)
        assert canary not in answer.text


@pytest.mark.parametrize(
    ("given", "param"), [({}, "conversation.id"), ({"id": ""}, "conversation.id"), ("", "conversation")]
)
def test_a_conversation_without_an_id_is_refused_and_not_begun_anew(
    site: Site, given: Any, param: str
) -> None:
    answer = posted(site, {"model": "echo", "input": "x", "conversation": given}, "/responses")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_reader_who_leaves_stops_the_agent(site: Site) -> None:
    with ask(site, "slow", "leave", stream=True) as stream:
        next(iter(stream))
        site.seen("begun-leave")
    site.seen("stopped-leave")


def test_a_completion_leaves_a_task_behind(site: Site) -> None:
    id = ask(site, "echo", "kept").id.removeprefix("chatcmpl-")
    task = site.tasks().get_task("echo", f"ch-{id}").data
    assert (task.status, task.result) == ("completed", "You said: kept")


def test_a_response_goes_on_from_the_one_before_and_may_be_gone_on_from_twice(site: Site) -> None:
    responses = client(site).responses
    first = responses.create(model="memory", input="one")
    assert (first.status, first.output_text, first.object) == ("completed", "one", "response")
    second = responses.create(model="memory", input="two", previous_response_id=first.id)
    assert (second.output_text, second.previous_response_id) == ("one | two", first.id)
    third = responses.create(model="memory", input="three", previous_response_id=second.id)
    assert third.output_text == "one | two | three"
    fork = responses.create(model="memory", input="four", previous_response_id=first.id)
    assert fork.output_text == "one | four"
    assert responses.retrieve(third.id).output_text == "one | two | three"


def test_instructions_are_those_of_one_response_and_not_of_the_ones_that_follow(site: Site) -> None:
    responses = client(site).responses
    first = responses.create(model="memory", input="one", instructions="Be kind.")
    second = responses.create(
        model="memory", input="two", instructions="Be brief.", previous_response_id=first.id
    )
    third = responses.create(model="memory", input="three", previous_response_id=second.id)
    assert "Be kind." in first.output_text
    assert "Be kind." not in second.output_text
    assert "Be brief." in second.output_text
    assert third.output_text == "one | two | three"


def test_a_question_is_answered_by_the_response_that_follows(site: Site) -> None:
    responses = client(site).responses
    asked = responses.create(model="asker", input="go")
    assert asked.output_text == "Which?"
    answered = responses.create(model="asker", input="The red one.", previous_response_id=asked.id)
    assert "The red one." in answered.output_text


def test_responses_of_a_conversation_share_what_was_said(site: Site) -> None:
    responses = client(site).responses
    one = responses.create(model="memory", input="one", conversation="talk-1")
    two = responses.create(model="memory", input="two", conversation="talk-1")
    assert (two.output_text, two.conversation and two.conversation.id) == ("one | two", "talk-1")
    three = responses.create(model="memory", input="three", previous_response_id=one.id)
    assert three.output_text == "one | two | three"
    site.agents().update_agent("memory", sdk.UpdateAgentRequest(visibility="public"))
    theirs = client(site, STRANGER).responses.create(model="memory", input="x", conversation="talk-1")
    assert (theirs.output_text, theirs.conversation and theirs.conversation.id) == ("x", "talk-1")


def test_a_response_is_its_callers_and_its_agents(site: Site) -> None:
    first = client(site).responses.create(model="echo", input="mine")
    with pytest.raises(openai.NotFoundError):
        client(site, STRANGER).responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError):
        client(site).responses.create(model="memory", input="x", previous_response_id=first.id)
    with pytest.raises(openai.NotFoundError):
        client(site).responses.create(model="echo", input="x", previous_response_id="resp_none")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_is_told_again_as_it_was_given(site: Site, streamed: bool) -> None:
    def created(**more: Any) -> dict[str, Any]:
        asked = {
            "model": "echo",
            "input": "hi",
            "metadata": {"order": "7"},
            "instructions": "Be kind.",
            **more,
        }
        if not streamed:
            return dict(client(site).responses.create(**asked).model_dump())
        with client(site).responses.stream(**asked) as stream:
            return dict(stream.get_final_response().model_dump())

    def told(id: str) -> dict[str, Any]:
        return dict(client(site).responses.retrieve(id).model_dump())

    def plain(response: dict[str, Any]) -> dict[str, Any]:
        # The client's own reading of a stream adds what it parsed.
        content = [{"text": each["content"][0]["text"]} for each in response["output"]]
        return {**response, "output": content}

    first = created()
    assert first["usage"] is not None
    assert plain(told(first["id"])) == plain(first)
    after = created(previous_response_id=first["id"])
    assert after["previous_response_id"] == first["id"]
    assert plain(told(after["id"])) == plain(after)
    talking = created(conversation="talk-2")
    assert told(talking["id"])["conversation"] == {"id": "talk-2"}
    assert plain(told(talking["id"])) == plain(talking)


def test_a_response_that_is_not_to_be_stored_is_not(site: Site) -> None:
    made = client(site).responses.create(model="echo", input="secret", store=False)
    assert made.output_text == "You said: secret"
    with pytest.raises(openai.NotFoundError):
        client(site).responses.retrieve(made.id)


def test_a_response_in_a_stream_tells_of_itself_in_order(site: Site) -> None:
    events = list(client(site).responses.create(model="talker", input="go", stream=True))
    kinds = [each.type for each in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [each.sequence_number for each in events] == list(range(len(events)))
    assert [each.delta for each in events if each.type == "response.output_text.delta"] == [
        "one ",
        "two ",
        "three ",
        "four ",
        "five",
    ]
    with client(site).responses.stream(model="talker", input="go") as stream:
        assert stream.get_final_response().output_text == "one two three four five"


def test_a_response_that_fails_in_a_stream_says_so_and_ends(site: Site) -> None:
    *_, last = client(site).responses.create(model="broken", input="x", stream=True)
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert "on strike" in last.response.error.message


def test_a_gateway_is_not_taken_for_a_server_with_models(site: Site) -> None:
    port = urlsplit(site.url).port
    assert port is not None
    assert asyncio.run(loopback.look({"vllm": port}, PATIENCE)) == []


def test_a_body_that_is_too_long_or_not_json_is_refused_in_the_same_shape(site: Site) -> None:
    headers = {"Authorization": f"Bearer {OWNER}", "Content-Type": "application/json"}
    url = f"{site.url}/v1/chat/completions"
    answer = httpx.post(url, content=b"{" * 2_000_000, headers=headers, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    answer = httpx.post(url, content=b"{", headers=headers, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")


def test_who_asks_too_often_is_told_how_long_to_wait_in_each_protocol(app: App, site: Site) -> None:
    hasty = "oag_" + "12" * 32
    add_key(app, hasty, "k-hasty", "local")
    app.store.write_now(lambda tx: tx.run(_ONCE))
    assert client(site, hasty).models.list().data
    with pytest.raises(openai.RateLimitError) as caught:
        client(site, hasty).models.list()
    assert caught.value.code == "rate_limited"
    assert int(caught.value.response.headers["retry-after"]) > 0
    headers = {"Authorization": f"Bearer {hasty}"}
    for path in ("/a2a/echo", "/agents/echo/mcp"):
        answers = [httpx.post(site.url + path, json={}, headers=headers, timeout=PATIENCE) for _ in range(2)]
        assert answers[1].status_code == 429
        assert answers[1].json()["error"]["data"]["code"] == "rate_limited"
        assert int(answers[1].headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/models/%00", "/responses/resp_%00"])
def test_ids_that_no_database_knows_are_refused(site: Site, path: str) -> None:
    answer = httpx.get(f"{site.url}/v1{path}", headers={"Authorization": f"Bearer {OWNER}"}, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_param")
    body = {"model": "a\0b", "messages": [{"role": "user", "content": "x"}]}
    assert posted(site, body).status_code == 400
