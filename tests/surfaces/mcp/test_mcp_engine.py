"""The server over a two-way pipe, revision by revision. The wire types of the official package judge every message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

from fairlead import App, Context
from fairlead.failures import Failure, Kind
from fairlead.runtime import Runtime
from fairlead.tools.charts import charts

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ALL = (*HANDSHAKE, "2026-07-28")
ENVELOPE = "fairlead/envelope"
Connect = Callable[..., Any]


def told(result: dict[str, Any]) -> Any:
    """What the model is told of a failure."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    return json.loads(result["content"][0]["text"])


@pytest.fixture
def app() -> App:
    app = App("shop", description="A small shop.", version="2.1.0", docs={"summary": "Sells things."})

    @app.action
    async def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @app.action(side_effects="write", idempotency="idempotent", public_metadata={"team": "till"})
    async def order(item: str) -> dict[str, str]:
        """Order an item."""
        return {"ordered": item}

    @app.action(visibility="private")
    async def hidden() -> None:
        """Do what nobody may see."""

    @app.action(visibility="local")
    async def nearby() -> None:
        """Do what only the owner may."""

    @app.action(side_effects="destructive")
    async def burn(name: str) -> str:
        """Burn the shop down."""
        return f"{name} is gone"

    return app


# The handshake


async def test_the_client_gets_the_revision_it_asks_for_or_our_newest(app: App, talk: Connect) -> None:
    for revision in HANDSHAKE:
        await talk(app, revision)
    client = await talk(app)
    for asked in ("1999-01-01", "2026-07-28", None, 7):
        client.revision = "2025-11-25"
        hello = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert (await client.ask("initialize", hello))["protocolVersion"] == "2025-11-25"


async def test_the_server_says_who_it_is_and_what_it_can(app: App, talk: Connect) -> None:
    client = await talk(app)
    said = await client.initialize()
    assert said["serverInfo"] == {"name": "shop", "version": "2.1.0", "title": "shop"}
    assert said["instructions"] == "Sells things."
    assert set(said["capabilities"]) == {"tools", "resources", "prompts", "logging", "completions"}


async def test_a_ping_is_answered_with_nothing(app: App, talk: Connect) -> None:
    for revision in HANDSHAKE:
        assert await (await talk(app, revision)).ask("ping") == {}


async def test_requests_before_the_handshake_are_served(app: App) -> None:
    sent: list[Any] = []
    from fairlead.surfaces.mcp import Connection

    connection = Connection(app.mcp(), lambda data: sent.append(json.loads(data)))
    connection.take({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert [tool["name"] for tool in sent[0]["result"]["tools"]] == ["add", "order"]


async def test_a_runtime_without_a_name_is_served_as_well(talk: Connect) -> None:
    app = App("x")

    @app.action
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    from fairlead.surfaces.mcp import Server

    client = await talk(Server(Runtime([add])))
    assert [tool["name"] for tool in (await client.ask("tools/list"))["tools"]] == ["add"]
    assert (await client.call("add", {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}


# Tools


@pytest.mark.parametrize("revision", ALL)
async def test_tools_are_listed_in_the_words_of_the_revision(app: App, talk: Connect, revision: str) -> None:
    client = await talk(app, revision)
    add, order = (await client.ask("tools/list"))["tools"]
    assert add["inputSchema"]["type"] == "object"
    assert add["description"] == "Add two numbers."
    assert ("annotations" in add) is (revision >= "2025-03-26")
    assert ("title" in add) is ("outputSchema" in add) is ("_meta" in add) is (revision >= "2025-06-18")
    if revision >= "2025-06-18":
        wrapped = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
        assert add["outputSchema"] == ({"type": "integer"} if revision == "2026-07-28" else wrapped)
        assert order["_meta"]["fairlead/metadata"] == {
            "team": "till",
            "visibility": "public",
            "sideEffects": "write",
            "requiresConfirmation": False,
            "idempotency": "idempotent",
            "permissions": [],
        }


async def test_annotations_follow_from_side_effects_and_idempotency(app: App, talk: Connect) -> None:
    client = await talk(app.mcp(include_destructive=True))
    hints = {tool["name"]: tool["annotations"] for tool in (await client.ask("tools/list"))["tools"]}
    assert [hints["add"][key] for key in ("readOnlyHint", "destructiveHint", "idempotentHint")] == [
        True,
        False,
        True,
    ]
    assert [hints["order"][key] for key in ("readOnlyHint", "destructiveHint", "idempotentHint")] == [
        False,
        False,
        True,
    ]
    assert [hints["burn"][key] for key in ("readOnlyHint", "destructiveHint", "idempotentHint")] == [
        False,
        True,
        False,
    ]
    assert hints["add"]["openWorldHint"] is True


async def test_attribution_is_told_with_every_tool(talk: Connect) -> None:
    app = App("a", attribution={"text": "By us", "docs_url": "https://example.com/docs"})
    app.add({"ping": lambda: "pong"})
    listed = (await (await talk(app)).ask("tools/list"))["tools"][0]
    attribution = listed["_meta"]["fairlead/metadata"]["attribution"]
    assert attribution == {"text": "By us", "docsUrl": "https://example.com/docs"}


@pytest.mark.parametrize("name", ["hidden", "nearby", "burn", "nothing", "Add", ""])
async def test_a_tool_that_is_not_shown_is_unknown(app: App, talk: Connect, name: str) -> None:
    client = await talk(app)
    assert [tool["name"] for tool in (await client.ask("tools/list"))["tools"]] == ["add", "order"]
    with pytest.raises(Exception) as refused:
        await client.call(name)
    assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_what_is_included_is_listed_and_can_be_called(app: App, talk: Connect) -> None:
    client = await talk(app.mcp(include_private=True, include_local=True, include_destructive=True))
    listed = {tool["name"] for tool in (await client.ask("tools/list"))["tools"]}
    assert listed == {"add", "order", "hidden", "nearby", "burn"}
    assert (await client.call("hidden"))["isError"] is False


async def test_a_tool_may_be_named_with_its_version_or_with_hyphens(talk: Connect) -> None:
    app = App("v")
    app.action(name="say_it", version="1.0.0")(_says("one"))
    app.action(name="say_it", version="2.0.0")(_says("two"))
    client = await talk(app)
    said = [await client.call(name) for name in ("say_it", "say-it", "say_it@1.0.0", "say_it@2.0.0")]
    assert [result["content"][0]["text"] for result in said] == ["two", "two", "one", "two"]


def _says(word: str) -> Callable[[], Any]:
    async def say() -> str:
        """Say a word."""
        return word

    return say


@pytest.mark.parametrize("revision", ALL)
async def test_a_result_is_data_with_a_text_beside_it(app: App, talk: Connect, revision: str) -> None:
    client = await talk(app, revision)
    number = await client.call("add", {"a": 2, "b": 3})
    thing = await client.call("order", {"item": "a lamp"})
    assert number["content"] == [{"type": "text", "text": "5"}]
    assert thing["content"] == [{"type": "text", "text": '{"ordered":"a lamp"}'}]
    if revision < "2025-06-18":
        assert "structuredContent" not in number
        assert "structuredContent" not in thing
    else:
        assert number["structuredContent"] == (5 if revision == "2026-07-28" else {"result": 5})
        assert thing["structuredContent"] == {"ordered": "a lamp"}
    envelope = number["_meta"][ENVELOPE]
    assert (envelope["ok"], envelope["artifacts"], envelope["logs"]) == (True, [], [])
    assert envelope["meta"]["action"] == "add"
    assert envelope["meta"]["surface"] == "mcp"


async def test_data_that_may_be_no_object_is_always_wrapped_where_objects_are_due(talk: Connect) -> None:
    app = App("w")

    @app.action
    async def maybe(yes: bool) -> dict[str, int] | None:
        """Give something or nothing."""
        return {"n": 1} if yes else None

    client = await talk(app)
    assert (await client.call("maybe", {"yes": True}))["structuredContent"] == {"result": {"n": 1}}
    assert (await client.call("maybe", {"yes": False}))["structuredContent"] == {"result": None}
    assert (await client.call("maybe", {"yes": False}))["content"][0]["text"] == "null"


async def test_a_root_that_is_no_object_can_be_given_bare_or_wrapped(talk: Connect) -> None:
    app = App("roots")

    @app.action(input={"type": ["null", "array"], "items": {"type": "integer"}})
    async def total(input: list[int] | None) -> int:
        """Add up."""
        return -1 if input is None else sum(input)

    client = await talk(app)
    schema = (await client.ask("tools/list"))["tools"][0]["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["input"]
    arguments: Any
    for arguments in (None, {"input": None}):
        said = await client.ask("tools/call", {"name": "total", "arguments": arguments})
        assert said["structuredContent"] == {"result": -1}
    for arguments in ([1, 2], {"input": [1, 2]}):
        said = await client.ask("tools/call", {"name": "total", "arguments": arguments})
        assert said["structuredContent"] == {"result": 3}


async def test_slips_in_arguments_are_mended_and_told(app: App, talk: Connect) -> None:
    said = await (await talk(app)).call("add", {"a": "2", "b": 3})
    assert said["structuredContent"] == {"result": 5}
    assert said["_meta"][ENVELOPE]["meta"]["warnings"]


async def test_integers_of_any_size_survive(app: App, talk: Connect) -> None:
    said = await (await talk(app)).call("add", {"a": 10**30, "b": 0})
    assert said["structuredContent"] == {"result": 10**30}


async def test_an_action_that_yields_gives_all_of_it(talk: Connect) -> None:
    app = App("stream")

    @app.action
    async def count(ctx: Context, to: int) -> AsyncIterator[int]:
        """Count."""
        for n in range(to):
            ctx.logger.debug("one more")
            yield n

    for client in (await talk(app), await talk(app, "2026-07-28")):
        for to in (3, 0):
            said = await client.call("count", {"to": to})
            assert json.loads(said["content"][0]["text"]) == list(range(to))


# Failures


async def test_a_failure_is_told_in_the_tool_envelope(talk: Connect) -> None:
    app = App("f")

    @app.action
    async def busy() -> None:
        """Never have time."""
        raise Failure(Kind.rate_limited, "Too often. password=hunter2", retry_after=3)

    for revision in ALL:
        said = await (await talk(app, revision)).call("busy")
        envelope = told(said)
        assert (envelope["ok"], envelope["kind"], envelope["retryable"]) == (False, "unavailable", True)
        assert envelope["tool"] == "busy"
        assert said["_meta"][ENVELOPE]["error"]["code"] == "RATE_LIMITED"
        assert "hunter2" not in json.dumps(said)


async def test_wrong_arguments_are_told_in_band_without_repeating_them(app: App, talk: Connect) -> None:
    client = await talk(app)
    for arguments in ({}, {"a": "s3cr3t-value"}, {"a": 1, "z": 2}, 7, [1], "x"):
        said = await client.ask("tools/call", {"name": "add", "arguments": arguments})
        assert told(said)["kind"] == "invalid_args"
        assert "s3cr3t-value" not in json.dumps(said)


async def test_an_exception_is_told_redacted_and_the_connection_lives(talk: Connect) -> None:
    app = App("boom")

    @app.action
    async def boom() -> None:
        """Break."""
        raise RuntimeError("connect postgres://bob:pa55w0rd@db failed")

    client = await talk(app)
    said = await client.call("boom")
    assert told(said)["kind"] == "execution_error"
    assert "pa55w0rd" not in json.dumps(said)
    assert await client.ask("ping") == {}


def _has_no_words(schema: dict[str, Any]) -> None:
    raise ValueError("no words")


async def test_an_action_that_cannot_be_described_is_named_and_the_server_lives(talk: Connect) -> None:
    app = App("broken")

    @app.action
    async def broken(x: Annotated[str, Field(json_schema_extra=_has_no_words)]) -> None:
        """Take what nobody can describe."""

    client = await talk(app)
    with pytest.raises(Exception, match="broken") as refused:
        await client.ask("tools/list")
    assert refused.value.code == -32603  # type: ignore[attr-defined]
    assert await client.ask("ping") == {}


# Concurrency, cancellation


async def test_calls_run_side_by_side(talk: Connect) -> None:
    app = App("c")
    met = asyncio.Barrier(3)

    @app.action
    async def meet() -> str:
        """Wait for the others."""
        await met.wait()
        return "met"

    client = await talk(app)
    said = await asyncio.gather(*(client.call("meet") for _ in range(3)))
    assert [result["content"][0]["text"] for result in said] == ["met"] * 3


async def test_a_cancelled_call_stops_and_is_not_answered(talk: Connect) -> None:
    app = App("c")
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.action
    async def sleep() -> None:
        """Sleep."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    client = await talk(app)
    answer = client.send("tools/call", {"name": "sleep"})
    await started.wait()
    client.tell("notifications/cancelled", {"requestId": 99})
    client.tell("notifications/cancelled", {"requestId": 2, "reason": "enough"})
    await asyncio.wait_for(stopped.wait(), 5)
    await client.connection.finish()
    assert await client.ask("ping") == {}
    assert not answer.done()


async def test_a_call_that_is_cancelled_in_the_same_breath_does_nothing(talk: Connect, app: App) -> None:
    ran = False

    @app.action
    async def run() -> None:
        """Run."""
        nonlocal ran
        await asyncio.sleep(0)
        ran = True

    client = await talk(app)
    answer = client.send("tools/call", {"name": "run"})
    client.tell("notifications/cancelled", {"requestId": 2})
    await client.connection.finish()
    assert not ran
    assert not answer.done()
    assert (await client.call("run"))["isError"] is False


async def test_more_requests_than_are_allowed_at_once_are_refused_in_band(talk: Connect) -> None:
    app = App("c")
    go = asyncio.Event()

    @app.action
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "done"

    client = await talk(app.mcp(max_requests=2))
    running = [client.send("tools/call", {"name": "wait"}) for _ in range(2)]
    assert told(await client.call("wait"))["kind"] == "unavailable"
    assert await client.ask("ping") == {}
    go.set()
    assert [(await each)["isError"] for each in running] == [False, False]
    assert (await client.call("wait"))["isError"] is False


async def test_an_id_that_is_in_use_is_refused(talk: Connect, app: App) -> None:
    go = asyncio.Event()

    @app.action
    async def wait() -> None:
        """Wait."""
        await go.wait()

    client = await talk(app)
    client.send("tools/call", {"name": "wait"})
    heard: list[Any] = []
    client._answered = heard.append
    client.connection.take({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add"}})
    assert [message["error"]["code"] for message in heard] == [-32600]
    go.set()


async def test_close_stops_what_runs(talk: Connect) -> None:
    app = App("c")
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.action
    async def sleep() -> None:
        """Sleep."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    client = await talk(app)
    client.send("tools/call", {"name": "sleep"})
    await started.wait()
    await client.connection.close()
    assert stopped.is_set()


async def test_finish_waits_for_calls_and_not_for_those_who_listen(talk: Connect) -> None:
    app = App("c")
    go = asyncio.Event()

    @app.action
    async def wait() -> None:
        """Wait."""
        await go.wait()

    client = await talk(app, "2026-07-28")
    client.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    answer = client.send("tools/call", {"name": "wait"})
    finishing = asyncio.ensure_future(client.connection.finish())
    await client.until(lambda: client.heard)
    assert not finishing.done()
    go.set()
    await asyncio.wait_for(finishing, 5)
    assert answer.done()


# What is said on the way


async def test_progress_is_told_by_token_and_always_rises(talk: Connect) -> None:
    app = App("p")

    @app.action
    async def work(ctx: Context) -> None:
        """Work."""
        for percent in (0, 10, 10, 5, None, 90.5):
            await ctx.progress.report("going on", percent)

    for revision in ALL:
        client = await talk(app, revision)
        await client.call("work")
        assert client.of("notifications/progress") == []
        await client.call("work", _meta={"progressToken": "t-1"})
        reports = client.of("notifications/progress")
        values = [report["progress"] for report in reports]
        assert [report["progressToken"] for report in reports] == ["t-1"] * 6
        assert values[:2] == [0, 10]
        assert values[-1] == 90.5
        assert values == sorted(set(values))
        assert [report.get("total") for report in reports] == [100, 100, 100, 100, None, 100]


async def test_progress_from_a_thread_is_told_too(talk: Connect) -> None:
    app = App("p")

    @app.action
    def work(ctx: Context) -> str:
        """Work on a thread."""
        for n in range(1500):
            ctx.progress.report(percent=n / 15)
        return "done"

    client = await talk(app)
    said = await client.call("work", _meta={"progressToken": 1})
    assert said["structuredContent"] == {"result": "done"}
    assert len(client.of("notifications/progress")) == 1500


@pytest.mark.parametrize(
    ("level", "heard"),
    [("debug", 4), ("info", 3), ("notice", 2), ("warning", 2), ("error", 1), ("critical", 0)],
)
async def test_logs_are_told_from_the_level_that_was_set(talk: Connect, level: str, heard: int) -> None:
    app = _talkative()
    for revision in HANDSHAKE:
        client = await talk(app, revision)
        await client.ask("logging/setLevel", {"level": level})
        await client.call("speak")
        assert len(client.of("notifications/message")) == heard
    client = await talk(app, "2026-07-28")
    await client.call("speak", _meta={"io.modelcontextprotocol/logLevel": level})
    assert len(client.of("notifications/message")) == heard


async def test_without_a_level_sessions_hear_info_and_stateless_clients_nothing(talk: Connect) -> None:
    client = await talk(_talkative())
    await client.call("speak")
    logs = client.of("notifications/message")
    assert [log["level"] for log in logs] == ["info", "warning", "error"]
    assert logs[0] == {"level": "info", "logger": "speak", "data": "an info"}
    assert logs[1]["data"] == {"message": "a warning", "fields": {"password": "[REDACTED]", "n": 1}}
    client = await talk(_talkative(), "2026-07-28")
    await client.call("speak")
    assert client.heard == []


@pytest.mark.parametrize("level", ["warn", "loud", None, 3, {}])
async def test_a_level_that_is_none_is_refused(talk: Connect, app: App, level: Any) -> None:
    client = await talk(app)
    with pytest.raises(Exception) as refused:
        await client.ask("logging/setLevel", {"level": level})
    assert refused.value.code == -32602  # type: ignore[attr-defined]


def _talkative() -> App:
    app = App("t")

    @app.action
    async def speak(ctx: Context) -> None:
        """Say things."""
        ctx.logger.debug("a detail")
        ctx.logger.info("an info")
        ctx.logger.warn("a warning", password="hunter2", n=1)
        ctx.logger.error("an error")

    return app


async def test_a_client_that_reads_slowly_holds_back_an_action_that_waits() -> None:
    from fairlead.surfaces.mcp import Connection

    app = App("slow")
    said = 0

    @app.action
    async def flood(ctx: Context) -> None:
        """Say very much."""
        nonlocal said
        for n in range(100_000):
            await ctx.logger.info("word")
            said = n

    room = asyncio.Event()
    connection = Connection(app.mcp(), lambda data: room.wait())  # type: ignore[arg-type,return-value]
    connection.take({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flood"}})
    for _ in range(5000):
        await asyncio.sleep(0)
    assert 0 < said < 5000
    await connection.close()


# Confirmation


async def test_without_a_way_to_ask_the_failure_carries_the_token(app: App, talk: Connect) -> None:
    client = await talk(app.mcp(include_destructive=True))
    said = await client.call("burn", {"name": "shop"})
    envelope = told(said)
    assert said["_meta"][ENVELOPE]["error"]["code"] == "CONFIRMATION_REQUIRED"
    token = envelope["confirmation"]["code"]
    assert said["_meta"]["fairlead/confirmation"]["code"] == token
    for confirmed in ({"confirm": token}, {"confirm": True}, {"_meta": {"fairlead/confirm": True}}):
        assert (await client.call("burn", {"name": "shop"}, **confirmed))["isError"] is False
    assert told(await client.call("burn", {"name": "shop"}, confirm=token))["kind"] == "rejected"


@pytest.mark.parametrize("confirm", ["yes", False, 1, {}, [], None])
async def test_only_true_or_the_token_confirms(app: App, talk: Connect, confirm: Any) -> None:
    client = await talk(app.mcp(include_destructive=True))
    said = await client.call("burn", {"name": "shop"}, confirm=confirm)
    assert said["_meta"][ENVELOPE]["error"]["code"] == "CONFIRMATION_REQUIRED"
    said = await client.call("burn", {"name": "shop"}, _meta={"fairlead/confirm": confirm})
    assert said["_meta"][ENVELOPE]["error"]["code"] == "CONFIRMATION_REQUIRED"


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_person_is_asked_where_the_client_can_ask(app: App, talk: Connect, revision: str) -> None:
    client = await talk(app.mcp(include_destructive=True), revision, capabilities={"elicitation": {}})
    client.says["elicitation/create"] = lambda params: {"result": {"action": "accept", "content": {}}}
    said = await client.call("burn", {"name": "shop"})
    assert said["structuredContent"] == {"result": "shop is gone"}
    question = client.asked[0]["params"]["message"]
    assert "Burn the shop down." in question
    assert "This cannot be undone." in question
    assert "name: shop" in question


@pytest.mark.parametrize("answer", ["decline", "cancel"])
async def test_what_a_person_refuses_is_not_done(app: App, talk: Connect, answer: str) -> None:
    client = await talk(app.mcp(include_destructive=True), capabilities={"elicitation": {"form": {}}})
    client.says["elicitation/create"] = lambda params: {"result": {"action": answer}}
    said = await client.call("burn", {"name": "shop"})
    assert told(said)["kind"] == "user_denied"
    assert said["_meta"][ENVELOPE]["error"]["code"] == "AUTHORIZATION_ERROR"


@pytest.mark.parametrize("answer", [{"error": {"code": -1, "message": "no"}}, {"result": {}}, {"result": 7}])
async def test_an_answer_that_is_none_confirms_nothing(app: App, talk: Connect, answer: Any) -> None:
    client = await talk(app.mcp(include_destructive=True), capabilities={"elicitation": {}})
    client.says["elicitation/create"] = lambda params: answer
    said = await client.call("burn", {"name": "shop"})
    assert said["_meta"][ENVELOPE]["error"]["code"] == "CONFIRMATION_REQUIRED"


async def test_secrets_in_arguments_are_not_shown_to_who_is_asked(talk: Connect) -> None:
    app = App("s")

    @app.action(requires_confirmation="token", side_effects="write")
    async def log_in(user: str, password: str) -> str:
        """Log in."""
        return f"{user} is in"

    client = await talk(app, capabilities={"elicitation": {}})
    client.says["elicitation/create"] = lambda params: {"result": {"action": "accept"}}
    said = await client.call("log_in", {"user": "ann", "password": "hunter2"}, confirm=True)
    assert said["structuredContent"] == {"result": "ann is in"}
    assert "hunter2" not in json.dumps(client.asked)


async def test_a_client_of_a_revision_without_questions_is_not_asked(app: App, talk: Connect) -> None:
    client = await talk(app.mcp(include_destructive=True), "2025-03-26", capabilities={"elicitation": {}})
    assert told(await client.call("burn", {"name": "shop"}))["kind"] == "rejected"
    assert client.asked == []


# Idempotency, identity, metadata


async def test_a_key_makes_a_repeated_call_give_the_first_result(talk: Connect) -> None:
    app = App("k")
    runs = 0

    @app.action(side_effects="write")
    async def charge(amount: int) -> int:
        """Charge."""
        nonlocal runs
        runs += 1
        return amount

    client = await talk(app)
    keyed = {"_meta": {"fairlead/idempotencyKey": "k-1"}}
    first = await client.call("charge", {"amount": 5}, **keyed)
    again = await client.call("charge", {"amount": 5}, **keyed)
    assert (first["structuredContent"], again["structuredContent"], runs) == ({"result": 5}, {"result": 5}, 1)
    assert again["_meta"][ENVELOPE]["meta"]["idempotent"] == "replayed"
    other = await client.call("charge", {"amount": 6}, **keyed)
    assert other["_meta"][ENVELOPE]["error"]["code"] == "CONFLICT"


@pytest.mark.parametrize("key", ["", 7, [], {"a": 1}, True])
async def test_a_key_that_is_none_is_refused_in_band(app: App, talk: Connect, key: Any) -> None:
    said = await (await talk(app)).call("order", {"item": "x"}, _meta={"fairlead/idempotencyKey": key})
    assert told(said)["field"] == "_meta.fairlead/idempotencyKey"


async def test_identity_is_the_edges_and_metadata_comes_along(talk: Connect) -> None:
    app = App("m")

    @app.action
    async def who(ctx: Context) -> dict[str, Any]:
        """Say who calls."""
        return {"user": ctx.user, "auth": ctx.auth, "metadata": dict(ctx.metadata)}

    client = await talk(app, user={"id": "u1"}, auth={"scopes": ["a"]}, metadata={"edge": True})
    meta = {"traceparent": "00-1", "edge": False, "user": "mallory"}
    said = (await client.call("who", _meta=meta, user={"id": "mallory"}, auth={"scopes": ["*"]}))[
        "structuredContent"
    ]
    assert said["user"] == {"id": "u1"}
    assert said["auth"] == {"scopes": ["a"]}
    assert said["metadata"] == {"traceparent": "00-1", "edge": True, "user": "mallory"}


async def test_declared_permissions_are_enforced(talk: Connect) -> None:
    app = App("m")
    app.add({"pay": lambda: "paid"}, permissions=["till:pay"])
    assert told(await (await talk(app)).call("pay"))["kind"] == "rejected"
    client = await talk(app, auth={"permissions": ["till:*"]})
    assert (await client.call("pay"))["isError"] is False


# Pages, changes, batches


async def test_lists_come_in_pages(talk: Connect) -> None:
    app = App("pages")
    app.add({f"tool_{n}": _says("x") for n in range(5)})
    server = app.mcp(page_size=2)
    for revision in ALL:
        client = await talk(server, revision)
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await client.ask("tools/list", dict(cursor))
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert names == [f"tool_{n}" for n in range(5)]


async def test_a_cursor_that_does_not_fit_is_refused(talk: Connect) -> None:
    app = App("pages")
    app.add({f"tool_{n}": _says("x") for n in range(5)})
    client = await talk(app.mcp(page_size=2))
    good = (await client.ask("tools/list"))["nextCursor"]
    for method, cursor in (
        ("tools/list", "x"),
        ("tools/list", ""),
        ("tools/list", 7),
        ("tools/list", good + "A"),
        ("tools/list", "é"),
        ("resources/list", good),
    ):
        with pytest.raises(Exception) as refused:
            await client.ask(method, {"cursor": cursor})
        assert refused.value.code == -32602  # type: ignore[attr-defined]
    assert len((await client.ask("tools/list", {"cursor": good}))["tools"]) == 2
    app.add({"one_more": _says("x")})
    with pytest.raises(Exception) as refused:
        await client.ask("tools/list", {"cursor": good})
    assert refused.value.code == -32602  # type: ignore[attr-defined]


async def test_clients_hear_of_new_tools(app: App, talk: Connect) -> None:
    clients = [await talk(app, revision) for revision in HANDSHAKE]
    app.add({"later": _says("here")})
    for client in clients:
        await client.until(
            lambda c=client: "notifications/tools/list_changed" in [m["method"] for m in c.heard]
        )
        assert "later" in [tool["name"] for tool in (await client.ask("tools/list"))["tools"]]


async def test_new_tools_are_listed_to_clients_that_were_there_before(talk: Connect) -> None:
    app = App("grows")
    server = app.mcp()
    client = await talk(server)
    assert (await client.ask("tools/list"))["tools"] == []
    app.add({"later": _says("here")})
    await client.until(lambda: client.of("notifications/tools/list_changed"))
    assert [tool["name"] for tool in (await client.ask("tools/list"))["tools"]] == ["later"]
    assert (await client.call("later"))["content"][0]["text"] == "here"


async def test_batches_are_answered_in_the_revision_that_has_them(app: App, talk: Connect) -> None:
    client = await talk(app, "2025-03-26")
    sent: list[Any] = []
    client.connection._send = lambda data: sent.append(json.loads(data))
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
    client.connection.take(
        [
            {**call, "id": "a"},
            {"jsonrpc": "2.0", "method": "notifications/whatever"},
            {"jsonrpc": "2.0", "id": "b", "method": "ping"},
            {"jsonrpc": "2.0", "id": "c", "method": "initialize"},
            7,
        ]
    )
    await client.connection.finish()
    answers = sent[0]
    assert [answer["id"] for answer in answers] == ["a", "b", "c", None]
    assert answers[0]["result"]["content"][0]["text"] == "2"
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, None, -32600, -32600]
    client.connection.take([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    client.connection.take([])
    client.connection.take([call] * 101)
    await client.connection.finish()
    assert [answer["error"]["code"] for answer in sent[1:]] == [-32600, -32600]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_batches_are_refused_elsewhere(app: App, talk: Connect, revision: str) -> None:
    client = await talk(app, revision)
    sent: list[Any] = []
    client.connection._send = lambda data: sent.append(json.loads(data))
    client.connection.take([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
    assert [(answer["id"], answer["error"]["code"]) for answer in sent] == [(None, -32600)]


# What is no message


@pytest.mark.parametrize(
    ("message", "id", "code"),
    [
        (None, None, -32600),
        ("hello", None, -32600),
        (7, None, -32600),
        ({}, None, -32600),
        ({"jsonrpc": "1.0", "id": 3, "method": "ping"}, 3, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 4, "method": 7}, 4, -32600),
        ({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": [1]}, 5, -32602),
        ({"jsonrpc": "2.0", "id": 6, "method": "no/such"}, 6, -32601),
        ({"jsonrpc": "2.0", "id": "x", "method": "server/discover"}, "x", -32601),
        ({"jsonrpc": "2.0", "id": 8, "method": "tools/call"}, 8, -32602),
        ({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": ["add"]}}, 9, -32602),
    ],
)
async def test_what_is_no_request_is_answered_with_an_error(
    app: App, message: Any, id: Any, code: int
) -> None:
    from fairlead.surfaces.mcp import Connection

    sent: list[Any] = []
    connection = Connection(app.mcp(), lambda data: sent.append(json.loads(data)))
    connection.take(message)
    await connection.finish()
    assert [(answer["id"], answer["error"]["code"]) for answer in sent] == [(id, code)]


async def test_notifications_and_stray_answers_are_never_answered(app: App) -> None:
    from fairlead.surfaces.mcp import Connection

    sent: list[Any] = []
    connection = Connection(app.mcp(), sent.append)
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "add"}},
        {"jsonrpc": "2.0", "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": [], "error": {}},
    ):
        connection.take(message)
    await connection.finish()
    assert sent == []


@pytest.mark.parametrize("revision", ALL)
async def test_what_is_not_for_models_is_not_in_a_result(talk: Connect, revision: str) -> None:
    app = App("desk")
    app.add(charts())
    client = await talk(app, revision)
    said = await client.call("render_chart", {"kind": "bar", "series": [{"values": [1]}]})
    assert json.loads(said["content"][0]["text"]).keys() >= {"kind", "text", "artifact"}
    assert "svg" not in json.loads(said["content"][0]["text"])
    assert "svg" not in said.get("structuredContent", {})
