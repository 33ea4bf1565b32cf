"""Whether a server with models is listening on this machine: a quick look at the usual ports, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead import _json
from fairlead.agents.models.providers import is_address
from fairlead.failures.runtime import ConfigError

#: `off` for none, or the address of one.
VARIABLE: Final = "FAIRLEAD_LOCAL_SERVER"
#: Ports by the provider whose server listens there.
PORTS: Final = {"ollama": 11434, "lmstudio": 1234, "llamacpp": 8080, "vllm": 8000}
_LIMIT: Final = 0.3
_LARGEST: Final = 1 << 20
#: Who owns the models of a gateway, which are agents.
_AGENTS: Final = "fairlead"
#: What is in the name of a model that does not chat.
_NO_CHAT: Final = ("embed", "minilm", "bge-", "rerank", "whisper", "nomic")


@dataclass(frozen=True, slots=True)
class Found:
    """A server that answered."""

    provider: str
    base_url: str
    models: tuple[str, ...]
    window: int | None = None

    @property
    def chat(self) -> str | None:
        """A model that chats, as far as names tell."""
        return next(
            (each for each in self.models if not any(mark in each.lower() for mark in _NO_CHAT)), None
        )


def wished(environ: Mapping[str, str]) -> str | None:
    """The address that the settings name; "off" for none at all; None for a look around.

    Raises:
        Failure: it is neither.
    """
    given = environ.get(VARIABLE, "").strip()
    if given.lower() in ("", "auto", "on"):
        return None
    if given.lower() in ("off", "0", "false", "no"):
        return "off"
    if not is_address(given):
        raise ConfigError(f"{VARIABLE} is neither off nor an address. Expected http://127.0.0.1:PORT/v1")
    return given.rstrip("/")


async def look(ports: Mapping[str, int] = PORTS, limit: float = _LIMIT) -> list[Found]:
    """The servers that list a model, in the order of the ports."""
    answers = await asyncio.gather(*(_ask(name, port, limit) for name, port in ports.items()))
    return [answer for answer in answers if answer is not None and answer.models]


async def _ask(name: str, port: int, limit: float) -> Found | None:
    try:
        async with asyncio.timeout(limit):
            body = await _get(port)
    except (OSError, TimeoutError, ValueError):
        return None
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    # A gateway of agents lists them as models. Whoever looks for a model must not find himself.
    rows = [row for row in rows if isinstance(row, dict) and row.get("owned_by") != _AGENTS]
    listed = [row for row in rows if isinstance(row.get("id"), str)]
    return Found(
        name,
        f"http://127.0.0.1:{port}/v1",
        tuple(row["id"] for row in listed),
        _window(listed[0]) if listed else None,
    )


async def _get(port: int) -> Any:
    """The oldest HTTP: an answer that ends with the connection, and needs no library to be read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n")
        await writer.drain()
        answer = b""
        while (chunk := await reader.read(65536)) and len(answer) < _LARGEST:
            answer += chunk
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200" not in head.partition(b"\r\n")[0]:
        return None
    return _json.loads(body)


def _window(row: Mapping[str, Any]) -> int | None:
    meta = row.get("meta")
    known = meta.get("n_ctx") if isinstance(meta, dict) else row.get("max_model_len")
    return known if isinstance(known, int) and known > 0 else None
