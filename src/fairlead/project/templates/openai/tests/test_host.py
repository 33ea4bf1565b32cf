"""The host runs what the model asks for, and tells it what came of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from host import ask


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_APP_NOTES", str(tmp_path / "notes.jsonl"))


def calling(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


async def test_the_model_hears_what_its_calls_gave() -> None:
    heard: list[Any] = []

    async def model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        assert {tool["function"]["name"] for tool in tools} >= {"add_note", "find_notes"}
        if messages[-1]["role"] == "user":
            return calling("add_note", '{"text": "Buy tea",}')
        heard.append(json.loads(messages[-1]["content"]))
        return {"role": "assistant", "content": "Noted."}

    assert await ask("Note: buy tea", model) == "Noted."
    assert heard[0]["ok"] is True


async def test_a_wrong_call_is_told_to_the_model_and_not_raised() -> None:
    heard: list[Any] = []

    async def model(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        if messages[-1]["role"] == "user":
            return calling("add_note", "{}")
        heard.append(json.loads(messages[-1]["content"]))
        return {"role": "assistant", "content": "I cannot."}

    assert await ask("Note nothing", model) == "I cannot."
    assert heard[0]["kind"] == "invalid_args"
