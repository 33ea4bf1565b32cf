"""Each of the 23 codes comes from a real cause, and stands on the wire exactly as the contract has it."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import App, Failure
from fairlead.agents.models.model import Message, Reply, Request
from fairlead.agents.models.script import ScriptModel
from fairlead.agents.operator import Approval, Clarification, Operator, Verdict
from fairlead.failures import catalogue
from fairlead.failures import runtime as wire
from fairlead.pipelines.apps import load, options_for
from fairlead.pipelines.checking import check_text, require
from fairlead.pipelines.dispatching import Dispatcher
from fairlead.pipelines.host import Host
from fairlead.pipelines.models import ClaudeCode
from fairlead.pipelines.problems import CheckError, Source
from fairlead.pipelines.processes import ports
from fairlead.pipelines.program import Process
from fairlead.pipelines.running import run_all
from fairlead.pipelines.types import INT, JSON
from fairlead.tools.mcp import McpServer
from model_servers import Answer, ModelServer
from pipelines.ladder import STEPS, ladder

Cause = Callable[[Path], Awaitable[Failure]]
CAUSES: dict[str, Cause] = {}
OURS = {"max_tool_calls", "budget_exceeded"}


def code(name: str) -> Callable[[Cause], Cause]:
    def keep(cause: Cause) -> Cause:
        CAUSES[name] = cause
        return cause

    return keep


def processes(text: str, **host: Any) -> dict[str, Process]:
    text += "\nlet main : !int -> !int = id"
    return require(check_text(text, options=options_for(host.get("app"), {}))).processes


async def told(work: Awaitable[Any]) -> Failure:
    with pytest.raises(Failure) as caught:
        await work
    return caught.value


async def tool(text: str, name: str, value: Any, **host: Any) -> Failure:
    """What a tool call comes to, by way of the envelope."""
    dispatcher = Dispatcher(processes(text), Host(**host))
    response = await dispatcher.respond({"id": "toolu_1", "name": name, "input": value})
    assert response["id"] == "toolu_1"
    assert response["is_error"] is True
    return wire.parse(response)


async def library(name: str, value: Any, **host: Any) -> Failure:
    checked = require(check_text("use fs use sys let main : !int -> !int = id"))
    tools = {**checked.modules["Fs"].processes, **checked.modules["Sys"].processes}
    dispatcher = Dispatcher(tools, Host(auto_approve=True, **host))
    return wire.parse(await dispatcher.respond({"id": "1", "name": name, "input": value}))


def made(kind: str) -> Process:
    """A tool over a process that the checker would have refused: what is loaded at run time may be one."""
    source = Source("x", "")
    behind = Process(kind, kind, ports((INT,), "input"), ports((INT,), "output"), source, 0)
    inside = Process("t", "tool", ports((JSON,), "input"), ports((JSON,), "output"), source, 0, bare=True)
    inside.behind = behind
    return inside


async def by_hand(kind: str) -> Failure:
    return wire.parse(
        await Dispatcher({"t": made(kind)}, Host()).respond({"id": "1", "name": "t", "input": 1})
    )


async def agent(*script: Any, settings: str = "", type: str = "int") -> Failure:
    app = App("shop", models=ScriptModel(list(script)))
    text = f'let main : !string -> !{type} = agent {{ model: "default", retry: 0 {settings} }}'
    main = require(check_text(text, options=options_for(app, {}))).main
    assert main is not None
    return await told(run_all(main, ["hi"], Host(app=app)))


@code("process_error")
async def _process_error(tmp_path: Path) -> Failure:
    text = (
        f'let p : !int -> !int = exec {{ cmd: "{sys.executable}", args: ["-c", '
        f'"exit(3)"] }} let t : int -> int = tool {{ process: p }}'
    )
    return await tool(text, "t", 1)


@code("validation_error")
async def _validation_error(tmp_path: Path) -> Failure:
    return await tool("let t : int -> int = map(value + 1)", "t", "text")


@code("parse_error")
async def _parse_error(tmp_path: Path) -> Failure:
    return await tool("let t : int -> int = map(value + 1)", "t", b"{")


@code("tool_not_lowerable")
async def _tool_not_lowerable(tmp_path: Path) -> Failure:
    found = {(await by_hand(kind)).code for kind in ("filter", "merge", "barrier", "project")}
    assert found == {"tool_not_lowerable"}
    return await by_hand("filter")


@code("tool_nesting_error")
async def _tool_nesting_error(tmp_path: Path) -> Failure:
    assert (await by_hand("lower")).code == "tool_nesting_error"
    return await by_hand("tool")


@code("internal_error")
async def _internal_error(tmp_path: Path) -> Failure:
    assert (await by_hand("log")).code == "internal_error"
    return await by_hand("tagger")


@code("unknown_tool")
async def _unknown_tool(tmp_path: Path) -> Failure:
    failure = await tool("let t : int -> int = id", "foo", {})
    assert failure.message == "unknown tool: foo (not found in any MCP server)"
    assert failure.details["source"] == "foo"
    return failure


@code("tool_denied")
async def _tool_denied(tmp_path: Path) -> Failure:
    return await tool(
        "let p : !int -> !int = id let t : int -> int = tool { process: p, approve: true }", "t", 1
    )


@code("docstore_not_found")
async def _docstore_not_found(tmp_path: Path) -> Failure:
    return await library("read", {"path": "nothing.txt"}, docroot=str(tmp_path))


@code("docstore_denied")
async def _docstore_denied(tmp_path: Path) -> Failure:
    assert (await library("read", {"path": "a.txt"})).code == "docstore_denied"
    return await library("read", {"path": "../secret"}, docroot=str(tmp_path))


@code("docstore_invalid")
async def _docstore_invalid(tmp_path: Path) -> Failure:
    return await library("grep", {"pattern": "("}, docroot=str(tmp_path))


@code("docstore_io_error")
async def _docstore_io_error(tmp_path: Path) -> Failure:
    (tmp_path / "folder").mkdir()
    return await library("read", {"path": "folder"}, docroot=str(tmp_path))


@code("pipeline_error")
async def _pipeline_error(tmp_path: Path) -> Failure:
    failing = {"source": "let main : !int -> !number = map(1 / value)", "input": 0}
    assert (await library("call", failing)).code == "pipeline_error"
    return await library("call", {"source": "let main : !int -> !int = filter(false)", "input": 1})


@code("load_error")
async def _load_error(tmp_path: Path) -> Failure:
    (tmp_path / "bad.plumb").write_text("let main : !int -> !string = id")
    assert (
        await library("call", {"file": "none.plumb", "input": 1}, docroot=str(tmp_path))
    ).code == "load_error"
    failure = await library("call", {"file": "bad.plumb", "input": 1}, docroot=str(tmp_path))
    assert (failure.details["line"], failure.details["column"]) == (1, 5)
    return failure


MCP_SERVER = """
import sys, json
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, answer = asked["method"], {}
    if method == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("refuse", "die")]}
    elif method == "tools/call" and asked["params"]["name"] == "die":
        sys.exit(1)
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": "no"}], "isError": True}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


async def remote(*names: str) -> Failure:
    server = McpServer("odd", [sys.executable, "-c", MCP_SERVER], prefix="", mode="legacy")
    try:
        await server.connect()
        dispatcher = Dispatcher({}, Host(auto_approve=True), servers=(server,))
        for name in names:
            response = await dispatcher.respond({"id": "1", "name": name, "input": {}})
        return wire.parse(response)
    finally:
        await server.close()


@code("mcp_call_error")
async def _mcp_call_error(tmp_path: Path) -> Failure:
    return await remote("refuse")


@code("mcp_transport_error")
async def _mcp_transport_error(tmp_path: Path) -> Failure:
    return await remote("die")


@code("mcp_disconnected")
async def _mcp_disconnected(tmp_path: Path) -> Failure:
    return await remote("die", "refuse")


@code("config_error")
async def _config_error(tmp_path: Path) -> Failure:
    (tmp_path / "bad.plumb").write_text("let main : !int -> !string = id")
    with pytest.raises(CheckError) as caught:
        load(tmp_path / "bad.plumb")
    return caught.value.failure


@code("output_extraction_failed")
async def _output_extraction_failed(tmp_path: Path) -> Failure:
    return await agent("nothing", "nothing", settings=", max_retries: 1", type="{ a: int }")


@code("output_validation_failed")
async def _output_validation_failed(tmp_path: Path) -> Failure:
    return await agent('{"b": 1}', '{"b": 1}', settings=", max_retries: 1", type="{ a: int }")


@code("max_tokens")
async def _max_tokens(tmp_path: Path) -> Failure:
    return await agent(Reply("half of", stop="length"))


@code("api_error")
async def _api_error(tmp_path: Path) -> Failure:
    assert (await agent(Reply("", stop="filtered"))).code == "api_error"
    async with ModelServer(Answer({"error": {"message": "broken"}}, 500)).run() as server:
        text = (
            f'let main : !string -> !string = agent {{ provider: "openai", '
            f'model: "x", endpoint: "{server.url}/v1", retry: 0 }}'
        )
        main = require(check_text(text)).main
        assert main is not None
        environ = {**os.environ, "OPENAI_API_KEY": "sk-test"}
        return await told(run_all(main, ["hi"], Host(environ=environ)))


@code("claude_code_error")
async def _claude_code_error(tmp_path: Path) -> Failure:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    main = require(
        check_text('let main : !string -> !string = agent { provider: "claude_code", model: "x" }')
    ).main
    assert main is not None
    environ = {**os.environ, "FAIRLEAD_CLAUDE_CODE": str(program)}
    return await told(run_all(main, ["hi"], Host(environ=environ)))


async def failed(settings: str, **environ: str) -> tuple[str, Any]:
    """The code and the source of what an agent named `asker` fails with."""
    agent = f"let asker : !string -> !string = agent {{ retry: 0, {settings} }}"
    main = require(
        check_text(f"{agent} let main : !string -> !string = plumb(i, o) {{ i ; asker ; o }}")
    ).main
    assert main is not None
    error = wire.render(await told(run_all(main, ["hi"], Host(environ={**os.environ, **environ}))))
    return error["error"], error.get("source")


@pytest.mark.parametrize(("status", "code"), [(500, "api_error"), (401, "config_error")])
async def test_a_model_that_fails_is_named_by_its_agent(status: int, code: str) -> None:
    async with ModelServer(Answer({"error": {"message": "broken"}}, status)).run() as server:
        settings = f'provider: "openai", model: "x", endpoint: "{server.url}/v1"'
        assert await failed(settings, OPENAI_API_KEY="sk-test") == (code, "asker")


async def test_a_coding_agent_or_a_server_of_tools_that_fails_is_named_by_its_agent(tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    coding = 'provider: "claude_code", model: "x"'
    assert await failed(coding, FAIRLEAD_CLAUDE_CODE=nothing) == ("claude_code_error", "asker")
    served = f'provider: "eliza", model: "doctor", mcp: [{{ name: "files", command: "{nothing}" }}]'
    assert await failed(served) == ("mcp_transport_error", "asker")


async def test_what_a_coding_agent_costs_counts_for_the_budget(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    answer = '{"result": "done", "usage": {"input_tokens": 5}, "total_cost_usd": 0.75}'
    program.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{answer}'\n")
    program.chmod(0o755)
    model = ClaudeCode("x", str(program), dict(os.environ))
    reply = await model.reply(Request((Message("user", "hi"),)))
    assert (reply.text, reply.usage.input, reply.usage.cost) == ("done", 5, 0.75)


@pytest.mark.parametrize("name", CAUSES)
async def test_a_code_comes_from_a_real_cause_and_is_exact_on_the_wire(name: str, tmp_path: Path) -> None:
    failure = await CAUSES[name](tmp_path)
    entry = next(each for each in catalogue("runtime") if each.code == name)
    error = json.loads(wire.dumps(failure))
    assert list(error)[:3] == ["error", "category", "detail"]
    assert (error["error"], error["category"]) == (name, entry.where)
    assert error["detail"]
    assert (wire.exit_code(failure), wire.retryable(failure)) == (entry.exit_code, entry.retryable)


def test_every_code_of_the_contract_has_a_cause_here() -> None:
    assert set(CAUSES) == {each.code for each in catalogue("runtime")} - OURS


async def test_a_definition_that_does_not_parse_is_a_parse_error_and_one_that_does_not_check_a_load_error() -> (
    None
):
    assert (await library("call", {"source": "let let", "input": 1})).code == "parse_error"
    assert (
        await library("call", {"source": "let main : !int -> !string = id", "input": 1})
    ).code == "load_error"


async def test_a_successful_response_holds_the_value_as_text() -> None:
    dispatcher = Dispatcher(
        processes("let t : int -> (int, int) = copy let d : int -> unit = discard"), Host()
    )
    assert await dispatcher.respond({"id": "a", "name": "t", "input": 1}) == {
        "id": "a",
        "content": "[1,1]",
        "is_error": False,
    }
    assert (await dispatcher.respond({"id": "b", "name": "d", "input": 1}))["content"] == "null"


async def test_pipelines_that_call_each_other_without_end_are_stopped() -> None:
    assert (
        await library("call", {"source": "let main : !int -> !int = id", "input": 1}, depth=8)
    ).code == "pipeline_error"


async def called(value: Any, **host: Any) -> Failure:
    """What a model is told that calls a pipeline, with nobody to ask unless the host says so."""
    tools = require(check_text("use sys let main : !int -> !int = id")).modules["Sys"].processes
    response = await Dispatcher(tools, Host(**host)).respond({"id": "1", "name": "call", "input": value})
    assert response["is_error"], response
    return wire.parse(response)


async def test_a_model_cannot_run_a_program_by_way_of_a_pipeline_without_the_operator(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f'let main : !json -> !json = exec {{ cmd: "touch", args: ["{mark}"] }}'
    failure = await called({"source": source, "input": 1}, docroot=str(tmp_path))
    assert failure.code == "tool_denied"
    assert not mark.exists()


DISK = [
    {
        "source": 'let main : !int -> !string = agent { provider: "eliza", model: "doctor", prompts: ["PLACE"] }'
    },
    {"source": "use ./PLACE let main : !int -> !int = id"},
    {"source": "use there let main : !int -> !int = id"},
    {"file": "PLACE.plumb"},
    {"file": "../there.plumb"},
]


@pytest.mark.parametrize("value", DISK)
@pytest.mark.parametrize("place", ["there", "nowhere"])
async def test_what_is_on_the_disk_is_not_told_before_the_operators_yes(
    value: dict[str, Any], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "documents"
    for folder in (tmp_path, root):
        folder.mkdir(exist_ok=True)
        (folder / "there.plumb").write_text("secret words of a note")
    (tmp_path / "there").write_text("a prompt")
    given = {key: each.replace("PLACE", place) for key, each in value.items()}
    if "prompts" in given.get("source", ""):
        given["source"] = given["source"].replace(place, str(tmp_path / place))
    refusals = set()
    for host in ({}, {"operator": Nobody()}):
        failure = await called({**given, "input": 1}, docroot=str(root), **host)
        refusals.add((failure.code, failure.message))
    assert refusals == {
        ("tool_denied", "The tool 'call' needs the operator's yes, and no operator is there."),
        ("tool_denied", "The operator declined the tool 'call': no"),
    }


async def test_a_text_finds_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.plumb").write_text("secret words of a note")
    (tmp_path / "prompt.md").write_text("a prompt")
    source = 'use ./there let main : !int -> !string = agent { model: "script/x", prompts: ["./prompt.md"] }'
    failure = await called({"source": source, "input": 1}, auto_approve=True)
    assert failure.code == "load_error"
    assert "secret" not in wire.dumps(failure)
    assert {each["rule"] for each in failure.details["problems"]} == {"unknown", "config"}


class Nobody(Operator):
    """Says no to everything."""

    async def approve(self, ask: Approval) -> Verdict:
        return Verdict(False, "no")

    async def clarify(self, ask: Clarification) -> None:
        return None


async def test_a_call_without_a_pipeline_is_told_what_it_lacks() -> None:
    for value in ({"input": 1}, {"input": 1, "file": ""}):
        failure = await called(value, auto_approve=True)
        assert failure.code == "validation_error"
        assert "`source`" in failure.message


async def test_who_has_no_folder_of_documents_is_told_how_to_give_one() -> None:
    for failure in (
        await library("read", {"path": "a.txt"}, docroot=None),
        await called({"file": "a.plumb", "input": 1}, auto_approve=True),
    ):
        assert failure.code == "docstore_denied"
        assert "--docroot" in failure.message


async def test_a_run_goes_on_while_a_called_pipeline_is_checked() -> None:
    source = "\n".join(f"let f{each} : !int -> !int = map(value + {each})" for each in range(1000))
    moments = 0

    async def count() -> None:
        nonlocal moments
        while True:
            await asyncio.sleep(0)
            moments += 1

    counting = asyncio.create_task(count())
    failure = await called({"source": source, "input": 1}, auto_approve=True)
    counting.cancel()
    assert failure.code == "load_error"
    assert moments > 10


async def test_who_is_asked_for_a_called_pipeline_sees_all_that_will_run(tmp_path: Path) -> None:
    main, help = (
        "use ./help let main : !number -> !number = Help.twice",
        "let twice : !number -> !number = map({})",
    )
    (tmp_path / "a.plumb").write_text(main)
    (tmp_path / "help.plumb").write_text(help.format("value * 2"))
    asked: list[Approval] = []

    async def approve(approval: Approval) -> Verdict:
        asked.append(approval)
        (tmp_path / "help.plumb").write_text(help.format("value * 1000"))
        return Verdict(True)

    tools = require(check_text("use sys let main : !int -> !int = id")).modules["Sys"].processes
    dispatcher = Dispatcher(tools, Host(docroot=str(tmp_path)), ask=approve)
    assert await dispatcher.call("call", {"file": "a.plumb", "input": 2}) == 4
    assert [each.input for each in asked] == [
        {
            "file": "a.plumb",
            "input": 2,
            "source": main,
            "modules": {str(tmp_path / "help.plumb"): help.format("value * 2")},
        }
    ]


async def test_who_is_asked_sees_each_module_once_however_many_ways_lead_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.plumb").write_text(ladder(tmp_path))
    shown: list[str] = []

    async def approve(approval: Approval) -> Verdict:
        shown.extend(approval.input["modules"])
        return Verdict(True)

    tools = require(check_text("use sys let main : !int -> !int = id")).modules["Sys"].processes
    dispatcher = Dispatcher(tools, Host(docroot=str(tmp_path)), ask=approve)
    assert await dispatcher.call("call", {"file": "a.plumb", "input": 2}) == 2
    assert sorted(shown) == sorted(
        str(tmp_path / f"{side}{step}.plumb") for side in "ab" for step in range(STEPS)
    )


async def test_a_called_pipeline_cannot_waive_the_operators_yes_to_its_own_tools(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    run = {"name": "run", "arguments": {"cmd": "touch", "args": [str(tmp_path / "mark")]}}
    script.write_text(json.dumps({"turn": [{"calls": [run]}, {"text": "done"}]}))
    source = (
        'let run : { cmd: string, args?: [string] } -> json = tool { builtin: "exec", approve: false }\n'
        f'let main : !string -> !string = agent {{ provider: "script", model: "{script}", tools: [run] }}'
    )
    asked: list[str] = []

    class Wary(Operator):
        async def approve(self, ask: Approval) -> Verdict:
            asked.append(ask.tool)
            return Verdict(ask.tool == "call")

        async def clarify(self, ask: Clarification) -> None:
            return None

    tools = require(check_text("use sys let main : !int -> !int = id")).modules["Sys"].processes
    host = Host(docroot=str(tmp_path), operator=Wary())
    await Dispatcher(tools, host).call("call", {"source": source, "input": "go"})
    assert asked == ["call", "run"]
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("file", ["/etc/hostname", "../secret.plumb", "in/../../secret.plumb", "link.plumb"])
async def test_a_pipeline_is_called_from_the_documents_only(tmp_path: Path, file: str) -> None:
    root = tmp_path / "documents"
    (root / "in").mkdir(parents=True)
    (tmp_path / "secret.plumb").write_text("root:x:0:0")
    (root / "link.plumb").symlink_to(tmp_path / "secret.plumb")
    failure = await called({"file": file, "input": 1}, docroot=str(root), auto_approve=True)
    assert failure.code == "docstore_denied"
    assert "root:x" not in wire.dumps(failure)
    failure = await called({"file": file, "input": 1}, auto_approve=True)
    assert failure.code == "docstore_denied"


async def test_a_called_file_that_is_no_program_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "notes.plumb").write_text("type A = int secret words of a note")
    (tmp_path / "bytes.plumb").write_bytes(b"\xff\xfe")
    failure = await called({"file": "notes.plumb", "input": 1}, docroot=str(tmp_path), auto_approve=True)
    assert failure.code == "load_error"
    assert "words of a note" not in wire.dumps(failure)
    failure = await called({"file": "bytes.plumb", "input": 1}, docroot=str(tmp_path), auto_approve=True)
    assert failure.code == "load_error"


async def test_a_called_file_uses_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "help.plumb").write_text("let twice : !number -> !number = map(value * 2)")
    (tmp_path / "in" / "a.plumb").write_text("use ./help let main : !number -> !number = Help.twice")
    tools = require(check_text("use sys let main : !int -> !int = id")).modules["Sys"].processes
    dispatcher = Dispatcher(tools, Host(docroot=str(tmp_path), auto_approve=True))
    assert await dispatcher.call("call", {"file": "in/a.plumb", "input": 2}) == 4
