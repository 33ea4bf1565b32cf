"""my-app with an agent: a model that uses the actions of app.py."""

import os
from pathlib import Path

from app import app
from fairlead.agents import Agent, Limits, Policy

#: Plays the model until one is named.
SCRIPT = f"script/{Path(__file__).with_name('keeper.toml')}"

keeper = Agent(
    "keeper",
    model=os.environ.get("FAIRLEAD_MODEL") or SCRIPT,
    description="Keep notes for people who say in words what to remember.",
    instructions="""
        You keep a notebook for the person you talk with.
        Look for a note before you add one: nothing is noted twice.
        When you do not know what is meant, ask with clarify.
        Say in one or two sentences what you did.
    """,
    tools=["add_note", "find_notes", "read_note"],
    permissions=["notes:write"],
    policy=Policy(limits=Limits(iterations=12)),
)
app.add(keeper)

if __name__ == "__main__":
    app.cli()
