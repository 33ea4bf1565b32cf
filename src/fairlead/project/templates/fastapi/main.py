"""The host: a FastAPI app with pages of its own, and the actions beside them.

fairlead keys new me --permissions 'notes:*'
uvicorn main:host --reload
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app import app
from fairlead.surfaces.auth import ApiKeys

#: Who is calling follows from the key that a request carries, never from its body.
KEYS = os.environ.get("MY_APP_KEYS", "fairlead-keys.json")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """The app's services live as long as the host."""
    async with app:
        yield


host = FastAPI(title="my-app", lifespan=lifespan)


@host.get("/")
async def home() -> dict[str, str]:
    """A page of the host's own."""
    return {"actions": "/api/fairlead/actions", "docs": "/api/docs", "mcp": "/api/mcp"}


host.mount("/api", app.http(resolve_context=ApiKeys(KEYS)))
