"""Clients that nobody here wrote, against real servers: each does the same things and tells what it saw."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult, ElicitResult, TextContent, TextResourceContents

from warm import Warm

ROOT = Path(__file__).parents[3]
NODE = ROOT / "tests" / "node"
WORKSHOP = Path(__file__).with_name("workshop.py")
TASKBOARD = ROOT / "examples" / "taskboard" / "app.py"
PATIENCE = 30.0

#: What every client sees, whichever its revision and transport.
SEEN = {
    "server": "workshop",
    "instructions": "Tools for every job.",
    "add": {"structured": {"total": 42}, "texts": ['{"total":42}'], "isError": False},
    "greet": ["Hello, Ann."],
    "everything": {"name": "oak", "branches": [{"name": "axe", "branches": []}]},
    "whatever": {"deep": [1, None, "é☃"]},
    "picture": ["image"],
    "fail": (True, "not_found"),
    "invalid": (True, "invalid_args"),
    "unknown": -32602,
    "progress": [[25, 100, "Planing"], [50, 100, "Planing"], [75, 100, "Planing"], [100, 100, "Planing"]],
    "cancelled": True,
    "running": 0,
    "painted": ["red"],
    "burned": ["the chair is ashes"],
    "asked": ["Which colour?", "Burn: Burn something for good. This cannot be undone."],
    "resources": ["fairlead://manifest", "fairlead://guide"],
    "guide": True,
    "prompts": ["add"],
    "prompt": 1,
    "three": [3, 4, 5],
}
SMOOTH = {"message": "It is smooth.", "fields": {"strokes": 4}}


@pytest.fixture(scope="module")
def command(warm_path: str) -> Callable[..., list[str]]:
    """What serves an app over stdio."""
    fairlead = str(shutil.which("fairlead", path=warm_path))
    return lambda app, *options: [fairlead, "--app", str(app), "mcp", "--stdio", *options]


@pytest.fixture(scope="module")
def url(warm_python: Warm) -> Iterator[str]:
    """Where the workshop is served over HTTP."""
    with subprocess.Popen(warm_python.command(str(WORKSHOP)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


# The official Python client.


class Scenario:
    """What the TypeScript clients do in mcp_scenario.mjs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.logged: list[Any] = []
        self.client: Client

    async def run(self, server: Any, mode: str) -> dict[str, Any]:
        async def logs(params: Any) -> None:
            self.logged.append(params.data)

        options: dict[str, Any] = {"elicitation_callback": self.answer, "logging_callback": logs}
        async with Client(server, mode=mode, **options) as self.client:
            return await self.report()

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        fields = params.requested_schema.get("properties", {})
        return ElicitResult(action="accept", content={"colour": "red"} if "colour" in fields else {})

    async def call(self, tool: str, /, *, heard: Any = None, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments, progress_callback=heard)

    async def report(self) -> dict[str, Any]:
        client = self.client
        added = await self.call("add", a=40)
        everything = await self.call(
            "everything", boards=[{"wood": "oak", "length": 2.5}], cut={"at": 1.5, "by": "axe"}
        )
        failed, invalid = await self.call("fail", how="expected"), await self.call("add", a="many")
        resources = (await client.list_resources()).resources
        (guide,) = (await client.read_resource(str(resources[1].uri))).contents
        prompts = (await client.list_prompts()).prompts
        told = {
            "server": client.server_info and client.server_info.name,
            "instructions": client.instructions,
            "revision": client.protocol_version,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "add": {"structured": added.structured_content, "texts": texts(added), "isError": added.is_error},
            "greet": texts(await self.call("greet", name="Ann")),
            "everything": everything.structured_content,
            "whatever": (await self.call("whatever", value={"deep": [1, None, "é☃"]})).structured_content,
            "picture": texts(await self.call("picture")),
            "fail": (failed.is_error, json.loads(texts(failed)[0])["kind"]),
            "invalid": (invalid.is_error, json.loads(texts(invalid)[0])["kind"]),
            "unknown": await self.unknown(),
            "progress": await self.progress(),
            "cancelled": await self.cancelled(),
            "running": (await self.waiting())["running"],
            "painted": texts(await self.call("paint")),
            "burned": texts(await self.call("burn", what="the chair")),
            "asked": [message.split("\n")[0] for message in self.asked],
            "resources": [str(each.uri) for each in resources],
            "guide": isinstance(guide, TextResourceContents) and "add" in guide.text,
            "prompts": [each.name for each in prompts],
            "prompt": len((await client.get_prompt(prompts[0].name, {})).messages),
        }
        three = await asyncio.gather(*(self.call("add", a=number) for number in (1, 2, 3)))
        return {**told, "three": [each.structured_content["total"] for each in three], "logged": self.logged}

    async def unknown(self) -> int | None:
        try:
            await self.call("ad")
        except MCPError as error:
            return error.error.code
        return None

    async def progress(self) -> list[list[Any]]:
        seen: list[list[Any]] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            seen.append([round(progress), total, message])
            await self.call("go_on")

        await self.call("plane", heard=heard, strokes=4)
        return seen

    async def cancelled(self) -> bool:
        before = (await self.waiting())["stopped"]
        call = asyncio.create_task(self.call("wait"))
        async with asyncio.timeout(PATIENCE):
            while not (await self.waiting())["running"]:
                pass
            call.cancel()
            while (await self.waiting())["stopped"] == before:
                pass
        return call.cancelled()

    async def waiting(self) -> dict[str, int]:
        told: dict[str, int] = (await self.call("waiting")).structured_content
        return told


def texts(result: CallToolResult) -> list[str]:
    return [block.text if isinstance(block, TextContent) else block.type for block in result.content]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_official_python_client_can_do_everything(
    url: str, command: Callable[..., list[str]], transport: str, mode: str
) -> None:
    first, *rest = command(WORKSHOP, "--include-destructive")
    server = url if transport == "http" else StdioServerParameters(command=first, args=rest)
    told = await Scenario().run(server, mode)
    assert told.pop("revision") == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert told.pop("tools") == TOOLS
    assert told.pop("logged") == ([SMOOTH] if mode == "legacy" else [])  # who wants logs says so since then
    assert told == SEEN


TOOLS = (
    "add everything greet count nothing whatever plane go_on fail picture carve wait waiting burn paint".split()  # noqa: SIM905
)


# The TypeScript clients.


def node(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    found = Path(sys.executable).with_name("node")
    binary = str(found) if found.exists() else shutil.which("node") or "node"
    return subprocess.run(
        [binary, *arguments], capture_output=True, text=True, timeout=PATIENCE + 20, cwd=NODE, **settings
    )


@pytest.mark.parametrize("script", ["mcp_sdk_1.mjs", "mcp_client_2.mjs"])
def test_the_typescript_clients_can_do_everything(
    url: str, command: Callable[..., list[str]], script: str
) -> None:
    target = {"command": command(WORKSHOP, "--include-destructive"), "url": url}
    done = node(script, json.dumps(target))
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert len(reports) == (2 if script == "mcp_sdk_1.mjs" else 4)
    for connection, told in reports.items():
        assert told.pop("tools") == TOOLS
        assert told.pop("titles") == [name.replace("_", " ").title() for name in TOOLS]
        assert told.pop("logged") == ([] if "stateless" in connection else [SMOOTH])
        assert judged(told) == SEEN, connection


def judged(told: dict[str, Any]) -> dict[str, Any]:
    """A report in the words of the Python client's."""
    return {
        **told,
        "server": told["server"]["name"],
        "fail": (told["fail"]["isError"], told["fail"]["text"]["kind"]),
        "invalid": (told["invalid"]["isError"], told["invalid"]["text"]["kind"]),
        "unknown": told["unknown"]["code"],
        "cancelled": "answered" not in told["cancelled"],
        "asked": [message.split("\n")[0] for message in told["asked"]],
    }


# The inspector.


def inspect(target: list[str], *options: str, home: Path) -> subprocess.CompletedProcess[str]:
    cli = str(NODE / "node_modules" / ".bin" / "mcp-inspector")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "HOME": str(home), "PATH": path, "TASKBOARD_DB": str(home / "board.sqlite")}
    return node(cli, "--cli", *target, *options, env=environ)


@pytest.mark.parametrize("app", [WORKSHOP, TASKBOARD], ids=["workshop", "taskboard"])
def test_the_inspector_finds_nothing_wrong_with_the_schemas(
    app: Path, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    target = command(app, "--include-destructive")
    done = inspect(target, "--method", "tools/list", "--strict", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "problem" not in done.stderr
    assert len(json.loads(done.stdout)["tools"]) > 5


def test_the_inspector_finds_nothing_wrong_over_http(url: str, tmp_path: Path) -> None:
    done = inspect([url, "--transport", "http"], "--method", "tools/list", "--strict", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == TOOLS


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_calls_a_tool(
    url: str, command: Callable[..., list[str]], tmp_path: Path, transport: str
) -> None:
    target = command(WORKSHOP) if transport == "stdio" else [url, "--transport", "http"]
    options = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=40"]
    done = inspect(target, *options, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["structuredContent"] == {"total": 42}
