"""The MCP server: the actions as tools, with a resource and a prompt of its own.

python server.py
"""

import asyncio

from notebook import Notebook, notes_file

from app import app

server = app.mcp()


@server.resource("notes://all", mime_type="text/plain")
def all_notes() -> str:
    """Every note, one a line."""
    return "\n".join(f"{note['id']}. {note['text']}" for note in Notebook(notes_file()).all())


@server.prompt
def tidy_up(topic: str) -> str:
    """Ask the model to sum up the notes on a topic."""
    return f"Find the notes about {topic} with find_notes, and sum them up in three lines."


if __name__ == "__main__":
    asyncio.run(server.stdio())
