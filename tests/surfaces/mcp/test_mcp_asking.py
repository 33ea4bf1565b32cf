"""Asking the client: the person, the model, the roots. While the action waits, or between one round and the next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from fairlead import App, Context
from fairlead.runtime import Clock
from fairlead.store import Statement
from fairlead.surfaces.mcp import Client, Elicit, Roots, Sample, Server, client_of

NEWEST = "2026-07-28"
EVERYTHING: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
Connect = Callable[..., Any]


class Choice(BaseModel):
    colour: Literal["red", "blue"]
    times: int = 1


def behind(ctx: Context) -> Client:
    client = client_of(ctx)
    assert client is not None
    return client


def asking(clock: Clock | None = None, secret: bytes | None = None, store: str | None = None) -> App:
    app = App("asks", clock=clock, confirmation_secret=secret, store=store)

    @app.action
    async def choose(ctx: Context) -> str:
        """Let somebody choose."""
        answer = await behind(ctx).elicit("Which colour?", Choice)
        return f"{answer.content.colour} x{answer.content.times}" if answer.accepted else answer.action

    @app.action
    async def think(ctx: Context) -> str:
        """Let the model think."""
        return (await behind(ctx).sample("Think.", max_tokens=9, system="Be brief.")).text

    @app.action
    async def places(ctx: Context) -> list[str]:
        """Where the client works."""
        return [root["uri"] for root in await behind(ctx).roots()]

    @app.action
    async def all_at_once(ctx: Context) -> dict[str, Any]:
        """Ask three things."""
        answers = await behind(ctx).ask(c=Elicit("Which?", Choice), t=Sample("Think."), r=Roots())
        return {"c": answers["c"].content.colour, "t": answers["t"].text, "r": len(answers["r"])}

    @app.action
    async def twice(ctx: Context) -> list[str]:
        """Ask twice, one after the other."""
        client = behind(ctx)
        first = await client.elicit("First?", Choice)
        second = await client.elicit("Second?", Choice)
        return [first.content.colour, second.content.colour]

    @app.action(side_effects="destructive")
    async def wipe(ctx: Context, disk: str) -> str:
        """Wipe a disk."""
        wiped.append(disk)
        return f"{disk} is empty"

    @app.action(side_effects="destructive")
    async def wipe_some(ctx: Context) -> str:
        """Wipe what is chosen."""
        answer = await behind(ctx).elicit("Which?", Choice)
        wiped.append(answer.content.colour)
        return "done"

    wiped: list[str] = []
    app.wiped = wiped  # type: ignore[attr-defined]
    return app


SAYS: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"colour": "red", "times": 2}},
    "sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hm."}},
    "roots/list": {"roots": [{"uri": "file:///a"}]},
}


def answered(result: dict[str, Any], **instead: Any) -> dict[str, Any]:
    """The parameters with which a client comes back."""
    assert result["resultType"] == "input_required"
    given = {key: SAYS[asked["method"]] for key, asked in result["inputRequests"].items()}
    return {"inputResponses": {**given, **instead}, "requestState": result["requestState"]}


async def test_a_call_that_came_another_way_has_no_client() -> None:
    app = App("x")

    @app.action
    async def who(ctx: Context) -> bool:
        """Say whether there is a client."""
        return client_of(ctx) is None

    assert (await app.invoke("who")).data is True


async def test_the_client_says_what_it_is(talk: Connect) -> None:
    app = App("x")

    @app.action
    async def about(ctx: Context) -> dict[str, Any]:
        """Say what the client is."""
        client = behind(ctx)
        can = {name: client.can(name) for name in ("elicitation", "elicitation.url", "sampling", "roots")}
        return {
            "revision": client.revision,
            "info": dict(client.info),
            "can": can,
            "said": dict(client.capabilities),
        }

    said = (await (await talk(app, capabilities={"elicitation": {"url": {}}, "roots": {}})).call("about"))[
        "structuredContent"
    ]
    assert said["revision"] == "2025-11-25"
    assert said["info"] == {"name": "test", "version": "1"}
    assert said["can"] == {"elicitation": False, "elicitation.url": True, "sampling": False, "roots": True}
    said = (await (await talk(app, NEWEST, capabilities=EVERYTHING)).call("about"))["structuredContent"]
    assert said["can"] == {"elicitation": True, "elicitation.url": False, "sampling": True, "roots": True}


async def test_of_what_a_client_says_a_session_keeps_little(talk: Connect) -> None:
    app = App("x")

    @app.action
    async def about(ctx: Context) -> dict[str, Any]:
        """Say what the client is."""
        client = behind(ctx)
        return {
            "info": dict(client.info),
            "said": dict(client.capabilities),
            "can": client.can("elicitation.url"),
        }

    crowd: dict[str, Any] = {f"x{number}": {"y": {}} for number in range(10_000)}
    crowd |= {"extensions": {"z" * 10_000: {}}, "elicitation": {"url": {"deep": [{}] * 10_000}}}
    crowd |= {"roots": {"listChanged": True, "more": "z" * 10_000}}
    info = {"name": "n" * 10_000, "version": "1", "icons": [{}] * 10_000, "title": ["t"] * 10_000}
    client = await talk(app)
    await client.ask(
        "initialize", {"protocolVersion": "2025-11-25", "capabilities": crowd, "clientInfo": info}
    )
    kept = (await client.call("about"))["structuredContent"]
    assert kept["info"] == {"name": "n" * 200, "version": "1"}
    assert kept["said"]["elicitation"] == {"url": {}}
    assert kept["said"]["roots"] == {"listChanged": True}
    assert kept["can"] is True
    assert len(json.dumps(kept["said"])) < 4_000


# While the action waits


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_session_is_asked_while_the_action_waits(talk: Connect, revision: str) -> None:
    client = await talk(asking(), revision, capabilities=EVERYTHING)
    for method, said in SAYS.items():
        client.says[method] = lambda params, said=said: {"result": said}
    texts = [
        (await client.call(name))["content"][0]["text"]
        for name in ("choose", "think", "places", "all_at_once")
    ]
    assert texts == ["red x2", "Hm.", '["file:///a"]', '{"c":"red","t":"Hm.","r":1}']
    question = client.asked[0]["params"]
    assert question["message"] == "Which colour?"
    assert question["requestedSchema"]["properties"]["colour"]["enum"] == ["red", "blue"]
    assert client.asked[1]["params"]["systemPrompt"] == "Be brief."


class Finish(Enum):
    oil = "oil"
    wax = "wax"


class Order(BaseModel):
    finish: Finish | None = None
    boards: Annotated[int, Field(ge=1)] | None = None
    until: date | None = None
    number: UUID | None = None
    urgent: bool = False


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", NEWEST])
async def test_a_form_has_only_fields_that_the_protocol_knows(talk: Connect, revision: str) -> None:
    from mcp_types._v2025_11_25 import PrimitiveSchemaDefinition

    app = App("x")

    @app.action
    async def order(ctx: Context) -> str:
        """Ask for an order."""
        given = (await behind(ctx).elicit("What?", Order)).content
        return f"{given.finish} {given.boards} {given.urgent}"

    client = await talk(app, revision, capabilities=EVERYTHING)
    accepted = {"action": "accept", "content": {"boards": 2}}
    client.says["elicitation/create"] = lambda params: {"result": accepted}
    said = await client.call("order")
    if revision == NEWEST:
        [asked] = said["inputRequests"].values()
        form = asked["params"]["requestedSchema"]
    else:
        form = client.asked[0]["params"]["requestedSchema"]
        assert said["content"][0]["text"] == "None 2 False"
    for field in form["properties"].values():
        TypeAdapter[Any](PrimitiveSchemaDefinition).validate_python(field)
    assert form["properties"]["boards"] == {"type": "integer", "minimum": 1}
    assert form["properties"]["finish"] == {"type": "string", "enum": ["oil", "wax"]}


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ({"error": {"code": -1, "message": "no"}}, "execution_error"),
        ({"result": {"action": "accept", "content": {"colour": "green"}}}, "execution_error"),
        ({"result": {"action": "accept"}}, "execution_error"),
        ({"result": {"action": "perhaps"}}, "execution_error"),
        ({"result": None}, "execution_error"),
        ({"result": [1]}, "execution_error"),
    ],
)
async def test_an_answer_that_does_not_fit_is_a_failure(talk: Connect, says: Any, kind: str) -> None:
    client = await talk(asking(), capabilities=EVERYTHING)
    client.says["elicitation/create"] = lambda params: says
    said = await client.call("choose")
    assert json.loads(said["content"][0]["text"])["kind"] == kind
    assert "green" not in json.dumps(said)


@pytest.mark.parametrize("name", ["choose", "think", "places"])
async def test_what_a_session_cannot_do_is_told_in_band(talk: Connect, name: str) -> None:
    client = await talk(asking())
    said = await client.call(name)
    assert said["_meta"]["fairlead/envelope"]["error"]["code"] == "UNSUPPORTED_SURFACE"
    assert client.asked == []


async def test_a_question_is_taken_back_when_its_call_is_cancelled(talk: Connect) -> None:
    client = await talk(asking(), capabilities=EVERYTHING)
    client.send("tools/call", {"name": "choose"})
    await client.until(lambda: client.asked)
    client.tell("notifications/cancelled", {"requestId": 2})
    await client.until(lambda: client.of("notifications/cancelled"))
    assert client.of("notifications/cancelled") == [{"requestId": client.asked[0]["id"]}]
    client.connection.take({"jsonrpc": "2.0", "id": client.asked[0]["id"], "result": {}})
    assert await client.ask("ping") == {}


async def test_a_page_is_offered_to_clients_that_can_open_one(talk: Connect) -> None:
    app = App("x")

    @app.action
    async def sign_in(ctx: Context) -> str:
        """Sign in elsewhere."""
        return (await behind(ctx).elicit("Sign in", url="https://example.com/in")).action

    client = await talk(app, capabilities={"elicitation": {"url": {}}})
    client.says["elicitation/create"] = lambda params: {"result": {"action": "accept"}}
    assert (await client.call("sign_in"))["content"][0]["text"] == "accept"
    assert client.asked[0]["params"]["mode"] == "url"
    client = await talk(app, NEWEST, capabilities={"elicitation": {"url": {}}})
    asked = (await client.call("sign_in"))["inputRequests"]["elicitation_1"]["params"]
    assert asked == {"mode": "url", "message": "Sign in", "url": "https://example.com/in"}


# Between one round and the next


@pytest.mark.parametrize("name", ["choose", "think", "places", "all_at_once"])
async def test_a_stateless_call_ends_with_its_questions_and_goes_on_with_the_answers(
    talk: Connect, name: str
) -> None:
    client = await talk(asking(), NEWEST, capabilities=EVERYTHING)
    asked = await client.call(name)
    said = await client.call(name, **answered(asked))
    expected = {
        "choose": "red x2",
        "think": "Hm.",
        "places": '["file:///a"]',
        "all_at_once": '{"c":"red","t":"Hm.","r":1}',
    }
    assert said["content"][0]["text"] == expected[name]


async def test_answers_of_earlier_rounds_are_carried_along(talk: Connect) -> None:
    client = await talk(asking(), NEWEST, capabilities=EVERYTHING)
    first = await client.call("twice")
    assert list(first["inputRequests"]) == ["elicitation_1"]
    second = await client.call("twice", **answered(first))
    assert list(second["inputRequests"]) == ["elicitation_2"]
    blue = {"action": "accept", "content": {"colour": "blue"}}
    said = await client.call("twice", **answered(second, elicitation_2=blue))
    assert said["structuredContent"] == ["red", "blue"]


@pytest.mark.parametrize(
    "answer",
    [{}, {"action": "perhaps"}, {"action": "accept"}, {"action": "accept", "content": {"colour": "green"}}],
)
async def test_what_is_missing_or_does_not_fit_is_asked_again(talk: Connect, answer: Any) -> None:
    client = await talk(asking(), NEWEST, capabilities=EVERYTHING)
    asked = await client.call("choose")
    again = await client.call("choose", **answered(asked, elicitation_1=answer))
    assert again["inputRequests"] == asked["inputRequests"]
    said = await client.call("choose", **answered(again, something_else=SAYS["roots/list"]))
    assert said["content"][0]["text"] == "red x2"


@pytest.mark.parametrize("responses", ["x", 7, [], {"elicitation_1": "x"}, {"elicitation_1": None}])
async def test_answers_that_are_no_objects_are_refused(talk: Connect, responses: Any) -> None:
    client = await talk(asking(), NEWEST, capabilities=EVERYTHING)
    with pytest.raises(Exception) as refused:
        await client.call("choose", inputResponses=responses)
    assert refused.value.code == -32602  # type: ignore[attr-defined]


@pytest.mark.parametrize("revision", ["2025-11-25", NEWEST])
async def test_no_argument_can_forge_a_line_of_what_a_person_is_asked(talk: Connect, revision: str) -> None:
    client = await talk(asking().mcp(include_destructive=True), revision, capabilities=EVERYTHING)
    client.says["elicitation/create"] = lambda params: {"result": {"action": "decline"}}
    said = await client.call("wipe", {"disk": "all\ndisk: scratch\rGo ahead?\u2028\u202e"})
    asked = client.asked[0] if revision != NEWEST else said["inputRequests"]["fairlead/confirm"]
    _, disk, ending = asked["params"]["message"].split("\n")
    assert (disk.isprintable(), ending) == (True, "Go ahead?")


@pytest.mark.parametrize("shared", [True, False])
async def test_state_is_good_in_another_process_that_has_the_same_secret(talk: Connect, shared: bool) -> None:
    one, other = (asking(secret=b"x" * 32 if shared else None) for _ in range(2))
    asked = await (await talk(one, NEWEST, capabilities=EVERYTHING)).call("choose")
    client = await talk(other, NEWEST, capabilities=EVERYTHING)
    if shared:
        assert (await client.call("choose", **answered(asked)))["content"][0]["text"] == "red x2"
    else:
        with pytest.raises(Exception) as refused:
            await client.call("choose", **answered(asked))
        assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_state_is_good_for_its_own_request_and_caller_only(talk: Connect) -> None:
    server = asking().mcp(include_destructive=True)
    client = await talk(server, NEWEST, capabilities=EVERYTHING, user="ann")
    other = await talk(server, NEWEST, capabilities=EVERYTHING, user="bob")
    asked = await client.call("wipe", {"disk": "a"})
    back = answered(asked)
    for wrong in (
        client.call("wipe", {"disk": "b"}, **back),
        client.call("choose", **back),
        other.call("wipe", {"disk": "a"}, **back),
        client.call("wipe", {"disk": "a"}, **{**back, "requestState": back["requestState"] + "x"}),
        client.call("wipe", {"disk": "a"}, **{**back, "requestState": "x"}),
        client.call("wipe", {"disk": "a"}, **{**back, "requestState": 7}),
        client.call("wipe", {"disk": "a"}, **{**back, "requestState": "é.é"}),
        client.call("wipe", {"disk": "a"}, **{**back, "requestState": ""}),
    ):
        with pytest.raises(Exception) as refused:
            await wrong
        assert refused.value.code == -32602  # type: ignore[attr-defined]
    assert server.app.wiped == []  # type: ignore[attr-defined]


async def test_state_expires(talk: Connect) -> None:
    now = 1000.0
    client = await talk(asking(Clock(wall=lambda: now)), NEWEST, capabilities=EVERYTHING)
    asked = await client.call("choose")
    now += 601
    with pytest.raises(Exception) as refused:
        await client.call("choose", **answered(asked))
    assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_servers_that_share_a_secret_take_each_others_state(talk: Connect) -> None:
    secret = b"0123456789abcdef"
    one = await talk(asking().mcp(state_secret=secret), NEWEST, capabilities=EVERYTHING)
    two = await talk(asking().mcp(state_secret=secret), NEWEST, capabilities=EVERYTHING)
    said = await two.call("choose", **answered(await one.call("choose")))
    assert said["content"][0]["text"] == "red x2"


@pytest.mark.parametrize(
    ("name", "needed"), [("choose", "elicitation"), ("think", "sampling"), ("places", "roots")]
)
async def test_what_a_stateless_client_cannot_do_is_an_error_that_names_it(
    talk: Connect, name: str, needed: str
) -> None:
    client = await talk(asking(), NEWEST)
    with pytest.raises(Exception) as refused:
        await client.call(name)
    assert refused.value.code == -32021  # type: ignore[attr-defined]
    assert refused.value.data == {"requiredCapabilities": {needed: {}}}  # type: ignore[attr-defined]


async def test_prompts_and_resources_may_ask_too(talk: Connect) -> None:
    server: Server = App("x").mcp()

    @server.prompt
    async def write(ctx: Context) -> str:
        """Write about a colour."""
        return f"Write about {(await behind(ctx).elicit('Which?', Choice)).content.colour}."

    @server.resource("x://asks")
    async def asks(ctx: Context) -> str:
        """Ask first."""
        return str((await behind(ctx).elicit("Which?", Choice)).content.colour)

    client = await talk(server, NEWEST, capabilities=EVERYTHING)
    for method, params in (("prompts/get", {"name": "write"}), ("resources/read", {"uri": "x://asks"})):
        asked = await client.ask(method, params)
        said = await client.ask(method, {**params, **answered(asked)})
        assert "red" in json.dumps(said)
    with pytest.raises(Exception) as refused:
        await (await talk(server, NEWEST)).ask("prompts/get", {"name": "write"})
    assert refused.value.code == -32021  # type: ignore[attr-defined]


# Confirmation in rounds


async def test_a_stateless_call_is_confirmed_in_the_next_round_and_only_once(talk: Connect) -> None:
    app = asking()
    client = await talk(app.mcp(include_destructive=True), NEWEST, capabilities=EVERYTHING)
    asked = await client.call("wipe", {"disk": "a"})
    assert asked["inputRequests"]["fairlead/confirm"]["method"] == "elicitation/create"
    back = answered(asked)
    assert (await client.call("wipe", {"disk": "a"}, **back))["structuredContent"] == "a is empty"
    again = await client.call("wipe", {"disk": "a"}, **back)
    assert again.get("isError") or again["resultType"] == "input_required"
    assert app.wiped == ["a"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("answer", ["decline", "cancel"])
async def test_what_is_refused_between_rounds_is_not_done(talk: Connect, answer: str) -> None:
    app = asking()
    client = await talk(app.mcp(include_destructive=True), NEWEST, capabilities=EVERYTHING)
    asked = await client.call("wipe", {"disk": "a"})
    said = await client.call(
        "wipe", {"disk": "a"}, **answered(asked, **{"fairlead/confirm": {"action": answer}})
    )
    assert json.loads(said["content"][0]["text"])["kind"] == "user_denied"
    assert app.wiped == []  # type: ignore[attr-defined]


async def test_a_yes_without_having_been_asked_confirms_nothing(talk: Connect) -> None:
    app = asking()
    client = await talk(app.mcp(include_destructive=True), NEWEST, capabilities=EVERYTHING)
    said = await client.call("wipe", {"disk": "a"}, inputResponses={"fairlead/confirm": {"action": "accept"}})
    assert said["resultType"] == "input_required"
    assert app.wiped == []  # type: ignore[attr-defined]


async def test_a_confirmed_call_may_still_ask_and_then_runs_once(talk: Connect) -> None:
    app = asking()
    client = await talk(app.mcp(include_destructive=True), NEWEST, capabilities=EVERYTHING)
    first = await client.call("wipe_some")
    second = await client.call("wipe_some", **answered(first))
    assert list(second["inputRequests"]) == ["elicitation_1"]
    back = answered(second)
    assert (await client.call("wipe_some", **back))["structuredContent"] == "done"
    with pytest.raises(Exception) as refused:
        await client.call("wipe_some", **back)
    assert refused.value.code == -32602  # type: ignore[attr-defined]
    assert app.wiped == ["red"]  # type: ignore[attr-defined]


async def test_of_servers_that_share_a_secret_one_runs_what_was_confirmed(
    talk: Connect, store_url: str
) -> None:
    apps = [asking(secret=b"0123456789abcdef", store=store_url) for _ in range(2)]
    one, two = [
        await talk(app.mcp(include_destructive=True), NEWEST, capabilities=EVERYTHING) for app in apps
    ]
    asked = await one.call("wipe", {"disk": "a"})
    assert (await one.call("wipe", {"disk": "a"}, **answered(asked)))["structuredContent"] == "a is empty"
    again = await two.call("wipe", {"disk": "a"}, **answered(asked))
    assert again.get("isError") or again["resultType"] == "input_required"

    back = answered(await one.call("wipe_some", **answered(await one.call("wipe_some"))))
    assert (await one.call("wipe_some", **back))["structuredContent"] == "done"
    with pytest.raises(Exception) as refused:
        await two.call("wipe_some", **back)
    assert refused.value.code == -32602  # type: ignore[attr-defined]
    assert [app.wiped for app in apps] == [["a", "red"], []]  # type: ignore[attr-defined]


async def test_a_client_is_not_told_where_the_store_is_that_cannot_be_written(
    talk: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = asking(secret=b"0123456789abcdef", store=f"sqlite:///{tmp_path}/asks.db")
    client = await talk(app.mcp(include_destructive=True), NEWEST, capabilities=EVERYTHING)
    back = answered(await client.call("wipe_some", **answered(await client.call("wipe_some"))))
    await app.store.write(lambda tx: tx.run(Statement.of("DROP TABLE idempotency")))
    with pytest.raises(Exception) as refused:
        await client.call("wipe_some", **back)
    assert refused.value.code == -32603  # type: ignore[attr-defined]
    assert str(tmp_path) not in str(refused.value)
    assert str(tmp_path) in caplog.text
    assert app.wiped == []  # type: ignore[attr-defined]


async def test_without_a_way_to_ask_the_stateless_failure_carries_the_token(talk: Connect) -> None:
    client = await talk(asking().mcp(include_destructive=True), NEWEST)
    said = await client.call("wipe", {"disk": "a"})
    token = said["_meta"]["fairlead/confirmation"]["code"]
    assert (await client.call("wipe", {"disk": "a"}, _meta={"fairlead/confirm": token}))["structuredContent"]


# Stateless discovery and listening


async def test_discover_says_what_initialize_would(talk: Connect) -> None:
    said = await (await talk(asking(), NEWEST)).ask("server/discover")
    assert said["supportedVersions"][0] == NEWEST
    assert said["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "asks", "version": "0.1.0"}
    assert said["cacheScope"] in ("public", "private")
    assert said["ttlMs"] >= 0


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"]
)
async def test_what_stateless_clients_have_not_is_no_method(talk: Connect, method: str) -> None:
    with pytest.raises(Exception) as refused:
        await (await talk(asking(), NEWEST)).ask(method)
    assert refused.value.code == -32601  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"io.modelcontextprotocol/protocolVersion": "1999-01-01"}, -32022),
        ({"io.modelcontextprotocol/protocolVersion": "2025-11-25"}, -32022),
        ({"io.modelcontextprotocol/protocolVersion": 7}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": None}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": []}, -32602),
        ({"io.modelcontextprotocol/logLevel": "loud"}, -32602),
    ],
)
async def test_a_request_that_describes_its_client_wrongly_is_refused(
    talk: Connect, meta: Any, code: int
) -> None:
    client = await talk(asking(), NEWEST)
    with pytest.raises(Exception) as refused:
        await client.ask("tools/list", {"_meta": meta})
    assert refused.value.code == code  # type: ignore[attr-defined]
    if code == -32022:
        assert NEWEST in refused.value.data["supported"]  # type: ignore[attr-defined]


async def test_who_listens_hears_what_was_asked_for_and_nothing_else(talk: Connect) -> None:
    app = App("x")
    server: Server = app.mcp()
    client = await talk(server, NEWEST)
    client.send(
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x://a"]}},
    )
    client.send("subscriptions/listen", {"notifications": {"promptsListChanged": True, "somethingNew": True}})
    await client.until(lambda: len(client.heard) == 2)
    tag = "io.modelcontextprotocol/subscriptionId"
    assert client.of("notifications/subscriptions/acknowledged") == [
        {"_meta": {tag: 1}, "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x://a"]}},
        {"_meta": {tag: 2}, "notifications": {"promptsListChanged": True}},
    ]
    app.add({"later": lambda: 1})
    server.updated("x://a")
    server.updated("x://b")
    await client.until(lambda: len(client.heard) >= 5)
    assert client.of("notifications/tools/list_changed") == [{"_meta": {tag: 1}}]
    assert client.of("notifications/resources/updated") == [{"_meta": {tag: 1}, "uri": "x://a"}]
    assert client.of("notifications/prompts/list_changed") == [{"_meta": {tag: 2}}]
    client.tell("notifications/cancelled", {"requestId": 1})
    await asyncio.sleep(0)
    app.add({"later_still": lambda: 1})
    await client.until(lambda: len(client.of("notifications/prompts/list_changed")) == 2)
    assert len(client.of("notifications/tools/list_changed")) == 1
    await client.connection.close()
    assert not server.subscriptions


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": 7},
        {"notifications": {"resourceSubscriptions": [7]}},
        {"notifications": {"resourceSubscriptions": ["x://" + "a" * 16_384]}},
    ],
)
async def test_a_filter_that_is_none_is_refused(talk: Connect, params: Any) -> None:
    with pytest.raises(Exception) as refused:
        await (await talk(asking(), NEWEST)).ask("subscriptions/listen", params)
    assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_both_eras_are_served_over_one_connection(talk: Connect) -> None:
    client = await talk(asking())
    client.revision = NEWEST
    assert (await client.ask("tools/list"))["resultType"] == "complete"
    client.revision = "2025-11-25"
    assert "resultType" not in await client.ask("tools/list")
