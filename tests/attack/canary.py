"""One secret that is put wherever secrets go in, and where it is looked for."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from fairlead import App, Context
from fairlead.agents import Agent
from fairlead.agents.models.model import Request
from fairlead.agents.models.script import ScriptModel, call

CANARY = "canary7f3a9c51e2"


def _spellings() -> list[str]:
    """As it is, and as bytes are spelled for a wire; in base64 by where it falls."""
    plain = CANARY.encode()
    shifted = [base64.b64encode(b"." * shift + plain).decode()[4 * (shift > 0) : -4] for shift in range(3)]
    return [CANARY, CANARY[::-1], plain.hex(), *shifted]


_FOUND = re.compile(f".{{0,60}}(?:{'|'.join(map(re.escape, _spellings()))}).{{0,20}}", re.S)


def leaks(places: Mapping[str, str]) -> dict[str, list[str]]:
    """Where the canary is, with some words around it."""
    found = {place: _FOUND.findall(text)[:3] for place, text in places.items()}
    return {place: seen for place, seen in found.items() if seen}


def files_in(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its name there."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes().decode("latin-1") for path in files}


def aviary(folder: Path) -> App:
    """An app that is careless with what it is given."""
    model = ScriptModel(script, record=False)
    app = App("aviary", store=f"sqlite:///{folder}/store.db", models=model)

    @app.action(side_effects="write", requires_confirmation=True)
    async def login(user: str, password: str, pin: SecretStr, ctx: Context) -> None:
        """Log in, badly."""
        await ctx.logger.info(
            "Logging in", password=password, headers={"authorization": f"Bearer {password}"}
        )
        raise RuntimeError(f"could not log in: password={password} at https://{user}:{password}@db.example/")

    @app.action(side_effects="write")
    async def keep(user: str, api_key: str, pin: SecretStr, ctx: Context) -> str:
        """Take a key, and tell what was done with it."""
        await ctx.progress.report(f"token={api_key}", 50)
        await ctx.logger.warn(f"api_key={api_key}")
        return user

    @app.action(side_effects="write")
    async def note(password: str) -> None:
        """Take a secret that only its name tells."""

    app.add(Agent("helper", model=model, instructions="Help.", tools=["keep"]))
    return app


def script(asked: Request) -> Any:
    """A model that was told the secret, and gives it to a tool."""
    last = asked.messages[-1]
    return "It failed." if last.role == "tool" else call("keep", user="ann", api_key=CANARY, pin=CANARY)
