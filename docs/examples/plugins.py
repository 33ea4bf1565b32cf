"""Plugins: their tools are actions of an app, like any other."""

import asyncio
import tempfile
from pathlib import Path

from fairlead import App

NOTES = Path(__file__).parents[2] / "examples" / "plugins" / "notes_py"

app = App("harbour", store=f"sqlite:///{tempfile.mkdtemp()}/harbour.db")
app.add_plugins()  # all that are installed, now and while the app runs
app.add_plugin(NOTES)  # one that you are working on: a folder, a library or a plugin.py


async def main() -> None:
    async with app:
        await app.invoke("add_py_note", {"title": "Tide", "body": "High at six."})
        told = await app.invoke("list_py_notes", {"words": "six"})
        assert told.data[0]["title"] == "Tide"

    for failed in app.plugins.failed.values():
        print(failed.id, failed.message, failed.way_out)


asyncio.run(main())
