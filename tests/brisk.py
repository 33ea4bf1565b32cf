"""What others do at length in every test, and what says nothing of ours: done once, or sooner."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from fairlead.store import Store, opening

#: How much sooner uvicorn looks again whether all is done, when it ends.
SOONER = 20

#: Opens a store, and makes its tables.
anew = opening.open_at


def hurry() -> None:
    """For this process and those that it starts."""
    # Else every process of every test compiles all of Fairlead, and pytest all of the tests.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A test that serves waits for one look whether it shall end, and for another whether all is done.
    uvicorn = import_module("uvicorn.server")
    vars(uvicorn)["asyncio"] = _Sooner()
    uvicorn.Server.should_exit = property(_shall_end, _tell)
    uvicorn.Server.main_loop = _serve
    # Nothing but the tests of the store is about how tables are made, and those make them.
    vars(opening)["open_at"] = made
    # Reading the certificates of the world takes as long as a whole test, for each client.
    for name in ("httpx", "httpx2"):
        transport = vars(import_module(f"{name}._transports.default"))
        transport["create_ssl_context"] = _kept(transport["create_ssl_context"])


class _Sooner:
    """asyncio with shorter sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SOONER)


def _shall_end(server: Any) -> bool:
    return bool(vars(server).get("_shall_end"))


def _tell(server: Any, end: bool) -> None:
    vars(server)["_shall_end"] = end
    if end and (wake := vars(server).get("_wake")):
        with suppress(RuntimeError):  # it has ended
            wake()


async def _serve(server: Any) -> None:
    """Serve until it is told to end; left to itself a server looks for that, ten times a second."""
    told = asyncio.Event()
    server._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, told.set)
    for tick in count():
        if await server.on_tick(tick):
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), 0.1)


def made(place: Path | str, *, migrate: bool = True) -> Store:
    """Open a store; a file that is not there yet is the copy of one that has its tables, which takes a quarter."""
    if migrate and isinstance(place, Path) and place.parent.is_dir() and not os.path.lexists(place):
        with open(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(_tables())
    return anew(place, migrate=migrate)


@cache
def _tables() -> bytes:
    """A database without a row."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        anew(file).close()
        return file.read_bytes()


def _kept(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    """The context of those who ask for nothing special is made once; those who do get their own."""

    @cache
    def usual(trust_env: bool, *_: str | None) -> ssl.SSLContext:
        return create(trust_env=trust_env)

    def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert:
            return create(verify=verify, cert=cert, trust_env=trust_env)
        return usual(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    return context
