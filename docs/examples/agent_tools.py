"""Built-in tools: files, commands, documents, artifacts and charts, for agents and all other callers."""

import asyncio
import json
import tempfile
from pathlib import Path

from fairlead import App
from fairlead.agents import Agent
from fairlead.testing import ScriptModel, call
from fairlead.tools.artifacts import Artifacts
from fairlead.tools.artifacts_sharing import sharing
from fairlead.tools.charts import charts
from fairlead.tools.documents import documents
from fairlead.tools.files import files
from fairlead.tools.sandbox import sandbox
from fairlead.tools.shell import shell

place = tempfile.TemporaryDirectory()
folder = Path(place.name)
(folder / "notes.md").write_text("# Notes\n\nBuy tea.\n")

app = App("desk")
app.add(files(folder))
app.add(sandbox(folder))
app.add(sharing(Artifacts(app.store), root=folder))
app.add(charts())
app.add(documents(folder, prefix="doc_"))

writing = ScriptModel(
    [
        call("file_read", path="notes.md"),
        call("file_edit", path="notes.md", old="Buy tea.", new="Buy tea and salt."),
        [call("file_search", query="salt"), call("file_read", path="../secret")],
        call("share_artifact", path="notes.md"),
        "The notes are shared.",
    ]
)
app.add(
    Agent(
        "writer",
        model=writing,
        instructions="You keep notes.",
        tools=["file_read", "file_edit", "file_search", "share_artifact"],
    )
)


async def files_and_artifacts() -> None:
    result = await app.invoke("writer", {"prompt": "Add salt, and give me the notes."})
    assert result.data == "The notes are shared."
    assert result.artifacts[0]["name"] == "notes.md"

    read, edited, found, refused, _ = [
        json.loads(message.content) for message in writing.requests[-1].messages if message.role == "tool"
    ]
    assert read["result"]["kind"] == "file"
    assert edited["result"] == {"path": "notes.md", "replacements": 1, "lines": [3]}
    assert found["result"]["entries"] == [{"path": "notes.md", "line": 3, "text": "Buy tea and salt."}]
    assert refused["ok"] is False


async def commands() -> None:
    result = await app.invoke("sandbox_exec", {"command": "wc -l < notes.md"}, confirm=True)
    assert result.data["exit_code"] == 0
    assert result.data["stdout"].strip() == "3"


async def unconfined() -> None:
    [shell_run] = shell(folder)
    assert shell_run.requires_confirmation
    result = await app.invoke(shell_run, {"command": "false | cat"}, confirm=True)
    assert result.data["exit_code"] == 1


async def kept_documents() -> None:
    result = await app.invoke("doc_grep", {"pattern": "tea"})
    assert result.data[0]["path"] == "notes.md"
    result = await app.invoke("doc_read", {"path": "../secret"})
    assert result.failure.code == "docstore_denied"


async def drawn() -> None:
    tea = {"kind": "bar", "title": "Tea", "labels": ["May", "June"], "series": [{"values": [3, 5]}]}
    result = await app.invoke("render_chart", tea)
    assert result.data["svg"].startswith("<svg")
    assert result.artifacts[0]["name"] == "tea.svg"


async def main() -> None:
    await files_and_artifacts()
    await commands()
    await unconfined()
    await kept_documents()
    await drawn()


asyncio.run(main())
place.cleanup()
