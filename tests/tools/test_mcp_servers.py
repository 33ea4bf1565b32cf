"""Remote MCP servers as tools: real servers, over stdio and HTTP, of the newest revision and of the one before."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fairlead import App, Failure, Kind
from fairlead.actions import DefinitionError
from fairlead.failures import runtime as codes
from fairlead.runtime import Signal
from fairlead.store import open_store
from fairlead.store.secrets import Secrets
from fairlead.tools.mcp import ELICIT, Elicitation, McpServer, add_mcp
from model_servers import Answer, ModelServer
from servers import until
from warm import Warm

HERE = Path(__file__).parent
BENCH = str(HERE / "mcp_bench.py")
ODD = [sys.executable, str(HERE / "mcp_odd.py")]
WORKSHOP = HERE.parent / "surfaces" / "mcp" / "workshop.py"
NODE = HERE.parent / "node" / "node_modules"
EVERYTHING = NODE / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
#: The bench as anybody starts it; most tests start it warm.
STDIO = [sys.executable, BENCH, "stdio"]
PATIENCE = 30.0

WAYS = [(transport, mode) for transport in ("stdio", "http") for mode in ("auto", "legacy")]


class Started:
    """How the bench is started. A fixture cannot be asked for by helpers, so it leaves the warm bench here."""

    warm: Warm


@pytest.fixture(autouse=True, scope="module")
def _warm_bench(warm_bench: Warm) -> None:
    Started.warm = warm_bench


def stdio() -> list[str]:
    return Started.warm.command("stdio")


@contextmanager
def serving(*command: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server on a port of its own, and where it is."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            until(lambda: _listens(url), "nobody listens")
            yield url, process
        finally:
            process.kill()


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def bench(transport: str = "stdio", mode: str = "auto", **options: Any) -> AsyncIterator[McpServer]:
    """The bench, connected."""
    if transport == "stdio":
        server = McpServer("bench", stdio(), mode=mode, **options)
        try:
            await server.connect()
            yield server
        finally:
            await server.close()
        return
    with serving(*Started.warm.command("http")) as (url, _):
        server = McpServer("bench", url=url, mode=mode, **options)
        try:
            await server.connect()
            yield server
        finally:
            await server.close()


def app_of(server: McpServer) -> App:
    return App("caller", actions=server.actions)


async def ask(app: App, name: str, input: Mapping[str, Any] | None = None) -> Any:
    return (await app.invoke(name, dict(input or {}), confirm=True)).unwrap()


async def code_of(app: App, name: str, input: Mapping[str, Any] | None = None) -> str:
    """The code, on the runtime's wire, that a call fails with."""
    result = await app.invoke(name, dict(input or {}), confirm=True)
    assert result.failure is not None
    told: str = codes.render(result.failure)["error"]
    return told


# What comes and goes.


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_tools_are_actions_on_every_transport_and_revision(transport: str, mode: str) -> None:
    async with bench(transport, mode) as server:
        app = app_of(server)
        assert await ask(app, "bench_add", {"a": 1}) == {"result": 3}
        # Text where a list belongs is repaired by the remote tool's own schema.
        assert await ask(app, "bench_label", {"tags": '["a", "b"]', "options": {"z": 1}}) == {
            "result": "a/b ['z']"
        }
        assert server.describe()["server"] == "bench"
        assert server.instructions == "Tools for tests."
        assert server.describe()["protocol"].startswith("2026" if mode == "auto" else "2025")


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_what_a_tool_says_meanwhile_reaches_the_caller(transport: str, mode: str) -> None:
    async with bench(transport, mode) as server:
        app = app_of(server)
        told = (await app.invoke("bench_shout", {}, confirm=True)).to_dict()
        assert [(each["level"], each["message"]) for each in told["logs"]] == [("warn", "so loud")]
        picture = (await app.invoke("bench_picture", {}, confirm=True)).to_dict()
        assert [each["mimeType"] for each in picture["artifacts"]] == ["image/png"]
        assert picture["data"]["content"][0]["artifact"] == picture["artifacts"][0]["id"]


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_cancelled_call_is_cancelled_at_the_server(transport: str, mode: str) -> None:
    async with bench(transport, mode) as server:
        app, stop = app_of(server), Signal()
        async with app.stream("bench_hang", {}, confirm=True, signal=stop) as events:
            async for event in events:
                if event["type"] == "progress":
                    assert (event["percent"], event["message"]) == (25.0, "Hanging")
                    stop.cancel()
        async with asyncio.timeout(PATIENCE):
            assert await ask(app, "bench_until_cut_off") == "cut off"


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_tool_that_appears_can_be_called(transport: str, mode: str) -> None:
    async with bench(transport, mode) as server:
        app, seen = App("caller"), asyncio.Event()
        add_mcp(app, server)
        server.watch(lambda actions: seen.set() if len(actions) == 15 else None)
        await ask(app, "bench_grow")
        async with asyncio.timeout(PATIENCE):
            await seen.wait()
        assert await ask(app, "bench_grown") == "grown"


# What goes wrong.


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_tool_that_fails_is_an_mcp_call_error_with_its_words(transport: str, mode: str) -> None:
    async with bench(transport, mode) as server:
        app = app_of(server)
        result = await app.invoke("bench_fail", {"why": "the glue is dry"}, confirm=True)
        assert isinstance(result.failure, codes.McpCallError)
        assert "the glue is dry" in result.failure.message
        assert result.failure.details == {"server": "bench", "tool": "fail"}
        assert server.status == "connected"


@pytest.mark.parametrize(("transport", "mode"), WAYS)
async def test_a_server_killed_in_a_call_is_a_transport_error_and_then_disconnected(
    transport: str, mode: str
) -> None:
    async with bench(transport, mode) as server:
        app = app_of(server)
        process = (await ask(app, "bench_pid"))["result"]
        failure: Failure | None = None
        async with app.stream("bench_hang", {}, confirm=True) as events:
            async for event in events:
                if event["type"] == "progress":
                    os.kill(process, signal.SIGKILL)
            failure = (await events.result()).error if hasattr(events, "result") else None
        assert failure is None or isinstance(failure, codes.McpTransportError)
        assert [await code_of(app, "bench_add", {"a": 1}) for _ in range(2)] == ["mcp_disconnected"] * 2
        assert server.status == "dead"


async def test_what_the_server_wrote_last_is_told_when_it_dies() -> None:
    async with bench() as server:
        result = await app_of(server).invoke("bench_die", {}, confirm=True)
        assert isinstance(result.failure, codes.McpTransportError)
        assert "the bench breaks" in result.failure.message


async def test_all_calls_under_way_are_told_of_the_break() -> None:
    async with bench() as server:
        app = app_of(server)
        hanging = [asyncio.create_task(code_of(app, "bench_hang")) for _ in range(5)]
        async with app.stream("bench_hang", {}, confirm=True) as events:
            async for event in events:
                if event["type"] == "progress":
                    hanging.append(asyncio.create_task(code_of(app, "bench_die")))
        async with asyncio.timeout(PATIENCE):
            told = await asyncio.gather(*hanging)
        assert set(told) == {"mcp_transport_error"}


async def test_reconnecting_once_starts_the_server_anew_and_clears_the_mark_once() -> None:
    async with bench(reconnect=1) as server:
        app = app_of(server)
        first = await ask(app, "bench_pid")
        assert await code_of(app, "bench_die") == "mcp_transport_error"
        assert await ask(app, "bench_pid") != first
        assert await code_of(app, "bench_die") == "mcp_transport_error"
        assert await code_of(app, "bench_pid") == "mcp_disconnected"
        await server.restart()
        assert await ask(app, "bench_add", {"a": 1}) == {"result": 3}


async def test_a_command_that_is_not_there_is_a_transport_error_that_names_it() -> None:
    server = McpServer("gone", ["/no/such/program"])
    with pytest.raises(codes.McpTransportError, match="/no/such/program"):
        await server.connect()
    with pytest.raises(codes.McpDisconnected):
        await server.connect()
    assert server.status == "dead"
    await server.close()


async def test_a_missing_sdk_is_no_fault_of_the_server_and_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = McpServer("bench", [sys.executable, "-c", ""])
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "mcp", None)
        with pytest.raises(codes.ConfigError, match=r"pip install 'fairlead\[mcp\]'") as caught:
            await server.connect()
    assert not caught.value.retryable
    with pytest.raises(codes.McpTransportError):  # installed meanwhile, it is asked
        await server.connect()
    await server.close()


async def test_a_program_that_is_no_server_is_told_with_what_it_wrote() -> None:
    program = "import sys; sys.stderr.write('no licence\\n'); sys.exit(3)"
    server = McpServer("other", [sys.executable, "-c", program])
    with pytest.raises(codes.McpTransportError):
        await server.connect()
    await server.close()


@pytest.mark.parametrize("given", ["${DOCK_TOKEN}", "tok-9f8e7d6c5b4a"])
async def test_what_a_server_repeats_of_its_secrets_is_not_told(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("DOCK_TOKEN", "tok-9f8e7d6c5b4a")
    program = "import os, sys; sys.exit(f'{os.environ[\"TOKEN\"]} and {sys.argv[1]} are refused')"
    command = [sys.executable, "-c", program, "${DOCK_TOKEN}"]
    server = McpServer("dock", command, env={"TOKEN": given})
    with pytest.raises(codes.McpTransportError) as raised:
        await server.connect()
    await server.close()
    assert raised.value.details["stderr"] == ["*** and *** are refused"]
    assert "tok-9f8e7d6c5b4a" not in raised.value.message


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    server = McpServer("silent", [sys.executable, "-c", "import sys; sys.stdin.read()"], connect_timeout=0.5)
    with pytest.raises(codes.McpTransportError, match=r"within 0\.5 seconds"):
        await server.connect()
    await server.close()


async def test_a_port_where_nobody_listens_is_a_transport_error() -> None:
    server = McpServer("nobody", url="http://127.0.0.1:9/mcp")
    with pytest.raises(codes.McpTransportError):
        await server.connect()
    await server.close()


@pytest.mark.parametrize("status", [401, 500])
async def test_the_status_with_which_a_server_refuses_is_told(status: int) -> None:
    async with ModelServer(Answer({"error": "no"}, status)).run() as refusing:
        server = McpServer("closed", url=f"{refusing.url}/mcp")
        with pytest.raises(codes.McpTransportError, match=f"status {status}"):
            await server.connect()
        await server.close()


async def test_a_time_limit_ends_the_call_and_not_the_server() -> None:
    async with bench(timeout=0.3) as server:
        app = app_of(server)
        result = await app.invoke("bench_hang", {}, confirm=True)
        assert result.failure is not None
        assert result.failure.kind is Kind.timeout
        assert await ask(app, "bench_until_cut_off") == "cut off"


# Servers that do what they should not.


@pytest.fixture
async def odd() -> AsyncIterator[McpServer]:
    server = McpServer("odd", ODD)
    await server.connect()
    yield server
    await server.close()


async def test_names_become_legal_and_unique_in_the_order_of_the_list(odd: McpServer) -> None:
    names = [action.name for action in odd.actions]
    assert names[:3] == ["odd_get_user_name", "odd_get_user_name_2", "odd"]
    assert all(len(name) <= 64 for name in names)
    assert max(map(len, names)) == 64
    assert await ask(app_of(odd), "odd_get_user_name_2") == "get_user_name"


async def test_a_tool_whose_schema_leaves_the_document_is_left_out_and_said_to_be(odd: McpServer) -> None:
    assert list(odd.left_out) == ["outside"]
    assert "outside it" in odd.left_out["outside"]


async def test_a_tool_with_a_bad_output_schema_is_there_without_it(odd: McpServer) -> None:
    assert await ask(app_of(odd), "odd_mumble") == "mumble"


async def test_output_that_breaks_the_servers_own_promise_is_refused(odd: McpServer) -> None:
    result = await app_of(odd).invoke("odd_lie", {}, confirm=True)
    assert result.failure is not None
    assert result.failure.kind is Kind.invalid_output


async def test_a_result_that_is_none_is_told_as_the_servers_fault_and_the_server_lives(
    odd: McpServer,
) -> None:
    app = app_of(odd)
    result = await app.invoke("odd_babble", {}, confirm=True)
    assert result.failure is not None
    assert result.failure.kind is Kind.invalid_output
    assert await ask(app, "odd_mumble") == "mumble"


async def test_a_list_of_tools_that_is_none_is_told_as_the_servers_fault() -> None:
    server = McpServer("odd", [*ODD, "misshapen"])
    with pytest.raises(Failure) as raised:
        await server.connect()
    await server.close()
    assert raised.value.kind is Kind.invalid_output
    assert "string" not in raised.value.message


@asynccontextmanager
async def spoiled(transport: str) -> AsyncIterator[McpServer]:
    """A server of whose tools and answers some cannot be read."""
    with ExitStack() as stack:
        where: Any = {"command": [*ODD, "spoiled"]}
        if transport != "stdio":
            url, process = stack.enter_context(serving(*ODD, "spoiled", *transport.split()))
            stack.callback(process.kill)
            where = {"url": url}
        server = McpServer("odd", **where, mode="legacy", timeout=PATIENCE)
        try:
            yield server
        finally:
            await server.close()


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_tool_that_is_none_costs_no_other_and_the_log_has_which_it_is(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with spoiled(transport) as server:
        app = App("caller")
        add_mcp(app, server)
        await server.connect()
        assert await ask(app, "odd_good") == "good"
    assert set(server.left_out) == {"bad", "?"}
    told = [each.getMessage() for each in caplog.records if each.name == "fairlead.mcp.odd"]
    assert any("'bad'" in each and "inputSchema" in each for each in told)


@pytest.mark.parametrize("transport", ["stdio", "http", "http gzip"])
async def test_a_text_that_utf8_cannot_carry_is_read_and_the_server_heard_on(transport: str) -> None:
    async with spoiled(transport) as server:
        app = App("caller", actions=await server.connect())
        assert await ask(app, "odd_cut") == "\\ud83d \U0001f600 \ufffd"
        assert await ask(app, "odd_latin") == "caf\ufffd"
        assert await ask(app, "odd_good") == "good"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_answer_that_is_none_ends_the_call_at_once_and_not_the_server(transport: str) -> None:
    async with spoiled(transport) as server:
        app = App("caller", actions=await server.connect())
        assert await code_of(app, "odd_mute") == "mcp_call_error"
        assert await ask(app, "odd_good") == "good"


async def test_a_tool_that_is_listed_twice_is_one_tool_and_the_same_each_time() -> None:
    server = McpServer("odd", [*ODD, "twice"])
    versions = [[tool.version for tool in await connect()] for connect in (server.connect, server.restart)]
    await server.close()
    assert versions == [["1.0.0"], ["1.0.0"]]


async def test_tools_that_change_all_the_time_are_read_once_for_many_changes() -> None:
    server = McpServer("odd", [*ODD, "restless"], trust=True)
    app = App("calm", actions=await server.connect())
    read = asyncio.Event()
    server.watch(lambda _: read.set())
    read.clear()
    (await app.invoke("odd_stir", {})).unwrap()
    async with asyncio.timeout(PATIENCE):
        await read.wait()
    assert int((await app.invoke("odd_count", {})).unwrap()) < 20
    await server.close()


async def test_an_app_has_the_tools_that_its_server_has_now_and_no_others() -> None:
    server, app, read = McpServer("odd", [*ODD, "moody"], trust=True), App("host"), asyncio.Event()
    add_mcp(app, server)
    assert [tool.version for tool in await server.connect()] == ["1.0.0"] * 3
    server.watch(lambda _: read.set())
    for _ in range(3):
        read.clear()
        (await app.invoke("odd_stir", {})).unwrap()
        async with asyncio.timeout(PATIENCE):
            await read.wait()
    await server.close()
    stir, whim, fad = server.actions
    assert set(map(id, app.catalogue.versions())) == {id(stir), id(whim), id(fad)}
    assert app.catalogue.names() == ["odd_stir", "odd_whim", fad.name]
    assert (stir.version, fad.name == "odd_fad1") == ("1.0.0", False)
    assert int(whim.version.removeprefix("1.0.")) >= 3
    assert (await app.invoke("odd_fad1", {})).failure is not None


async def test_a_tool_that_comes_back_is_newer_than_the_one_that_was_gone() -> None:
    server, app = McpServer("odd", [*ODD, "twice"]), App("host")
    add_mcp(app, server)
    (first,) = await server.connect()
    server.command = (*ODD, "restless")
    await server.restart()
    assert app.catalogue.names() == ["odd_stir", "odd_count"]
    server.command = (*ODD, "twice")
    (again,) = await server.restart()
    await server.close()
    assert (first.name, first.version) == ("odd_twin", "1.0.0")
    assert (again.name, again.version) == ("odd_twin", "1.0.1")
    assert app.catalogue.versions() == [again]


async def test_an_error_with_the_code_of_a_closed_connection_does_not_close_it(odd: McpServer) -> None:
    app = app_of(odd)
    assert await code_of(app, "odd_refuse") == "mcp_call_error"
    assert await ask(app, "odd_mumble") == "mumble"


async def test_links_and_files_are_told_and_kept(odd: McpServer) -> None:
    told = (await app_of(odd).invoke("odd_links", {}, confirm=True)).to_dict()
    assert told["data"]["text"] == "See:"
    kinds = [each["type"] for each in told["data"]["content"]]
    assert kinds == ["link", "resource", "resource", "audio"]
    assert told["data"]["content"][1]["text"] == "words"
    assert [each["type"] for each in told["artifacts"]] == ["link", "resource"]


async def test_a_long_description_is_cut(odd: McpServer) -> None:
    action = next(each for each in odd.actions if each.name == "odd_long")
    assert len(action.description) < 4_100


# Who is believed.


async def test_tools_of_a_stranger_need_confirmation_whatever_they_say() -> None:
    async with bench() as server:
        effects = {each.name: (each.side_effects, each.requires_confirmation) for each in server.actions}
        assert effects["bench_pid"] == ("write", True)
        assert effects["bench_wipe"] == ("destructive", True)
        refused = await app_of(server).invoke("bench_pid", {})
        assert refused.failure is not None
        assert refused.failure.kind is Kind.needs_confirmation


async def test_tools_of_a_trusted_server_are_believed() -> None:
    async with bench(trust=True) as server:
        effects = {each.name: (each.side_effects, each.requires_confirmation) for each in server.actions}
        assert effects["bench_pid"] == ("read", False)
        assert effects["bench_add"] == ("write", False)
        assert effects["bench_wipe"] == ("destructive", True)


async def test_only_the_wanted_tools_are_taken_under_the_wanted_prefix() -> None:
    async with bench(include=("a*", "pid"), prefix="") as server:
        assert [each.name for each in server.actions] == ["pid", "add", "ask"]


# Secrets.


async def test_secrets_reach_the_server_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_PLAIN", "from outside")
    store = open_store(url=f"sqlite:///{tmp_path}/app.db")
    app = App("keeper", store=store)
    await Secrets(store).set("token", "s3cret-value")
    env = {"TOKEN": "secret:token", "PLAIN": "${BENCH_PLAIN}", "OTHER": "${BENCH_NONE:-default}"}
    server = add_mcp(app, McpServer("bench", stdio(), env=env))
    async with app:
        await server.connect()
        assert await ask(app, "bench_env", {"name": "TOKEN"}) == "s3cret-value"
        assert await ask(app, "bench_env", {"name": "PLAIN"}) == "from outside"
        assert await ask(app, "bench_env", {"name": "OTHER"}) == "default"
        failed = await app.invoke("bench_fail", {"why": "s3cret-value is wrong"}, confirm=True)
        assert failed.failure is not None
        assert "s3cret-value" not in failed.failure.message
        assert "s3cret" not in str(server.describe())
    assert server.describe()["env"] == {
        "TOKEN": "secret:token",
        "PLAIN": "${BENCH_PLAIN}",
        "OTHER": env["OTHER"],
    }
    store.close()


async def test_headers_may_be_secrets() -> None:
    async with bench(
        "http", headers={"X-Key": "secret:key"}, secrets=lambda name: f"value of {name}"
    ) as server:
        assert await ask(app_of(server), "bench_header", {"name": "x-key"}) == "value of key"
        assert server.describe()["headers"] == {"X-Key": "secret:key"}


async def test_a_secret_that_is_not_there_is_told_and_can_be_put_right() -> None:
    kept: dict[str, str] = {}

    def lookup(name: str) -> str:
        if name not in kept:
            raise Failure(Kind.not_found, f"There is no secret {name!r}.")
        return kept[name]

    server = McpServer("bench", stdio(), env={"TOKEN": "secret:token"}, secrets=lookup)
    with pytest.raises(Failure) as raised:
        await server.connect()
    assert raised.value.kind is Kind.not_found
    kept["token"] = "now"
    assert await server.connect()
    await server.close()


async def test_without_a_store_a_reference_to_a_secret_is_refused_with_a_way_out() -> None:
    server = McpServer("bench", STDIO, env={"TOKEN": "secret:token"})
    with pytest.raises(Failure, match="secrets="):
        await server.connect()


# In an app.


async def test_a_dead_server_does_not_break_the_start_of_its_app() -> None:
    app = App("host")

    @app.action
    async def hello() -> str:
        """Say hello."""
        return "hello"

    server = add_mcp(app, McpServer("gone", ["/no/such/program"]), connect=True)
    async with app:
        assert await ask(app, "hello") == "hello"
        assert server.status == "dead"
        assert isinstance(server.problem, codes.McpTransportError)


async def test_a_server_of_an_app_starts_with_it_and_ends_with_it() -> None:
    app = App("host")
    server = add_mcp(app, McpServer("bench", STDIO, trust=True), connect=True)
    async with app:
        process = (await ask(app, "bench_pid"))["result"]
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert server.status == "new"
    # The action is still there: a call starts what it needs.
    async with app:
        assert (await ask(app, "bench_pid"))["result"] != process


async def test_no_tool_takes_the_place_of_an_action_even_when_it_changes() -> None:
    app = App("host")

    @app.action
    async def add() -> str:
        """Not the bench's."""
        return "ours"

    async with bench(prefix="", trust=True) as server:
        add_mcp(app, server)
        assert "prefix" in server.left_out["add"]
        assert await ask(app, "add") == "ours"
        assert "result" in await ask(app, "pid")


def test_each_event_loop_has_a_connection_of_its_own() -> None:
    server = McpServer("bench", stdio())

    async def once() -> Any:
        await server.connect()
        try:
            return await ask(app_of(server), "bench_add", {"a": 5})
        finally:
            await server.close()

    assert [asyncio.run(once()) for _ in range(2)] == [{"result": 7}] * 2


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_many_calls_share_a_connection_and_get_their_own_answers(transport: str) -> None:
    async with bench(transport) as server:
        app = app_of(server)
        told = await asyncio.gather(*(ask(app, "bench_add", {"a": number}) for number in range(100)))
        assert [each["result"] for each in told] == [number + 2 for number in range(100)]


async def test_many_who_need_a_server_at_once_start_it_once() -> None:
    server = McpServer("bench", stdio())
    try:
        await asyncio.gather(*(server.connect() for _ in range(5)))
        app = app_of(server)
        assert len({(await ask(app, "bench_pid"))["result"] for _ in range(3)}) == 1
    finally:
        await server.close()


# Questions of the server.


async def _blue(asked: Elicitation) -> Mapping[str, Any] | None:
    assert asked.message == "Which colour?"
    return {"colour": "blue"}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_question_is_answered_by_whoever_runs_the_conversation(transport: str) -> None:
    async with bench(transport, "legacy") as server:
        app = app_of(server)
        assert await ask(app, "bench_ask") == "decline"
        token = ELICIT.set(_blue)
        try:
            assert await ask(app, "bench_ask") == "blue"
        finally:
            ELICIT.reset(token)


async def test_a_question_asked_while_others_work_reaches_nobody_else() -> None:
    async with bench("stdio", "legacy", elicit=_blue) as server:
        app = app_of(server)
        async with app.stream("bench_hang", {}, confirm=True) as events:
            async for event in events:
                if event["type"] == "progress":
                    assert await ask(app, "bench_ask") == "decline"
                    break


# Our own server, and another's.


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_our_own_app_is_a_server_like_any_other(warm_path: str, mode: str) -> None:
    fairlead = str(shutil.which("fairlead", path=warm_path))
    command = [fairlead, "--app", str(WORKSHOP), "mcp", "--stdio"]
    server = McpServer("workshop", command, mode=mode, trust=True, elicit=_blue)
    await server.connect()
    try:
        app = app_of(server)
        assert await ask(app, "workshop_add", {"a": 40}) == {"total": 42}
        # Before 2026 structured content had to be an object.
        assert await ask(app, "workshop_nothing") == (None if mode == "auto" else {"result": None})
        said = [await ask(app, "workshop_greet", {"name": "Ann"}), await ask(app, "workshop_paint")]
        plain = ["Hello, Ann.", "blue"]
        assert said == (plain if mode == "auto" else [{"result": each} for each in plain])
        failed = await app.invoke("workshop_fail", {"how": "expected"})
        assert isinstance(failed.failure, codes.McpCallError)
        wrong = await app.invoke("workshop_add", {"a": "many"})
        assert wrong.failure is not None
        assert wrong.failure.kind is Kind.invalid_input
    finally:
        await server.close()


async def test_our_own_app_over_http(warm_python: Warm) -> None:
    with serving(*warm_python.command(str(WORKSHOP))) as (url, process):
        server = McpServer("workshop", url=url, trust=True, elicit=_blue)
        await server.connect()
        app = app_of(server)
        assert await ask(app, "workshop_add", {"a": 40}) == {"total": 42}
        assert await ask(app, "workshop_paint") == "blue"
        process.kill()
        until(lambda: not _listens(url), "the server that was killed listens")
        assert await code_of(app, "workshop_add", {"a": 1}) == "mcp_transport_error"
        assert await code_of(app, "workshop_add", {"a": 1}) == "mcp_disconnected"
        await server.close()


@pytest.mark.skipif(not EVERYTHING.is_file(), reason="run `npm ci` in tests/node for this")
async def test_the_reference_server_of_the_protocols_authors() -> None:
    server = McpServer("everything", ["node", str(EVERYTHING), "stdio"], trust=True)
    await server.connect()
    try:
        app = app_of(server)
        assert await ask(app, "everything_echo", {"message": "hi"}) == "Echo: hi"
        assert await ask(app, "everything_get_sum", {"a": 2, "b": 40}) == "The sum of 2 and 40 is 42."
        image = (await app.invoke("everything_get_tiny_image", {})).to_dict()
        assert [each["mimeType"] for each in image["artifacts"]] == ["image/png"]
        weather = await ask(app, "everything_get_structured_content", {"location": "Chicago"})
        assert set(weather) == {"temperature", "conditions", "humidity"}
        steps: list[Any] = []
        operation = {"duration": 0.2, "steps": 2}
        async with app.stream("everything_trigger_long_running_operation", operation) as events:
            async for event in events:
                steps += [event["percent"]] if event["type"] == "progress" else []
        assert steps == [50.0, 100.0]
    finally:
        await server.close()


# What cannot be.


@pytest.mark.parametrize(
    "options",
    [
        {"command": ["x"], "url": "http://x.test"},
        {},
        {"url": "ftp://x.test"},
        {"url": "http://"},
        {"command": "one text"},
    ],
)
def test_a_server_that_cannot_be_is_refused_when_it_is_defined(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        McpServer("x", **options)


def test_nothing_secret_is_in_what_is_shown_of_a_url() -> None:
    server = McpServer(
        "x", url="https://me:pass@x.test/mcp?key=1#frag", headers={"Authorization": "Bearer abc"}
    )
    shown = str(server.describe())
    assert "pass" not in shown
    assert "key=1" not in shown
    assert "abc" not in shown
