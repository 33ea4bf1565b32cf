"""Fairlead's gateway, as `fairlead serve` serves it: agents that follow a script, a plain action, and a worker.

The store is where BENCH_STORE says, or a file that nobody needs afterwards.
"""

import asyncio
import gc
import hashlib
import os
import tempfile
import time

from fairlead import App
from fairlead.agents import Agent
from fairlead.agents.models.model import Reply, Request
from fairlead.agents.models.script import ScriptModel, Turn
from fairlead.store.statements import Statement

KEY = "oag_" + "be" * 32
_KEY = Statement.of(
    "INSERT INTO api_keys (id, hash, prefix, name, owner, per_minute, permissions, created) "
    "VALUES ('bench', :hash, 'oag_', 'bench', 'local', 1000000000, '[]', 0) ON CONFLICT DO NOTHING"
)

app = App("bench", store=os.environ.get("BENCH_STORE") or f"sqlite:///{tempfile.mkdtemp()}/gateway.db")
_go = asyncio.Event()


def _echo(request: Request) -> Reply:
    return Reply(request.messages[-1].content)


def _timed(request: Request) -> Turn:
    """Say when it began to speak."""
    now = repr(time.monotonic())
    return Turn(now, pieces=(now,))


async def _held(request: Request) -> Reply:
    await _go.wait()
    return Reply("done")


for name, script in (("echo", _echo), ("timed", _timed), ("held", _held)):
    model = ScriptModel(script, record=False)
    app.add(Agent(name, model=model, instructions="Answer.", loop_tools=False))


@app.action(side_effects="read")
async def say(text: str) -> str:
    """Say it again."""
    return text


@app.action(side_effects="write")
async def release() -> None:
    """Let go whoever is held."""
    _go.set()


def _known(token: str) -> None:
    hashed = hashlib.sha256(token.encode()).hexdigest()
    app.store.write_now(lambda tx: tx.run(_KEY, hash=hashed))


_known(KEY)
#: Serves, and runs no task.
site = app.http()
# As `fairlead serve` does once an app is loaded: what stays is not looked through for garbage again and again.
gc.freeze()


def working_site() -> object:
    """Serves, and runs tasks too."""
    served = app.http()
    served.beside.append(app.tasks.worker(concurrency=200))
    return served
