"""Calls as data: what a host program reads from somewhere goes in, an envelope comes out."""

import asyncio

from fairlead import App

app = App("notes", description="Keep notes.")
notes: list[str] = []


@app.action(side_effects="write", permissions=["notes:write"])
async def add_note(text: str) -> int:
    """Add a note, and say how many there are."""
    notes.append(text)
    return len(notes)


async def main() -> None:
    # The host program says who is calling. A payload cannot.
    runner = app.json_runner(user="ada", auth={"permissions": ["notes:write"]})

    envelope = await runner.invoke({"action": "add_note", "input": {"text": "Buy rope"}})
    assert envelope["ok"]
    assert envelope["data"] == 1
    assert envelope["meta"]["surface"] == "json"

    envelope = await runner.invoke({"action": "add_note", "input": {"txt": "Buy rope"}})
    assert envelope["error"]["code"] == "VALIDATION_ERROR"

    envelope = await runner.invoke("add_note")
    assert envelope["error"]["code"] == "INVALID_JSON_RUNNER_PAYLOAD"


asyncio.run(main())
