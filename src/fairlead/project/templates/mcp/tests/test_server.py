"""The server speaks MCP over its pipe."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def ask(folder: Path, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """Send requests to a server of its own; gives the results in their order."""
    messages = [{"method": "initialize", "params": HELLO}, *({"method": m, "params": p} for m, p in requests)]
    lines = [json.dumps({"jsonrpc": "2.0", "id": i, **each}) for i, each in enumerate(messages)]
    environment = {"MY_APP_NOTES": str(folder / "notes.jsonl"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "server.py"],
        input="\n".join(lines) + "\n",
        env=environment,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines()) if "id" in each}
    return [answers[i]["result"] for i in range(1, len(messages))]


def test_models_see_tools_a_resource_and_a_prompt(tmp_path: Path) -> None:
    tools, resources, prompts = ask(
        tmp_path, ("tools/list", {}), ("resources/list", {}), ("prompts/list", {})
    )
    assert {tool["name"] for tool in tools["tools"]} == {"add_note", "find_notes", "read_note"}
    assert "notes://all" in {resource["uri"] for resource in resources["resources"]}
    assert "tidy_up" in {prompt["name"] for prompt in prompts["prompts"]}


def test_a_tool_is_called(tmp_path: Path) -> None:
    [found] = ask(tmp_path, ("tools/call", {"name": "find_notes", "arguments": {"word": "tea"}}))
    assert found["isError"] is False
