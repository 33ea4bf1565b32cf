"""What models there are: one list of all that can be named, in the shape that plugins are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fairlead.agents.models.loopback import look, wished
from fairlead.agents.models.providers import Provider
from fairlead.agents.models.weights import Weights
from fairlead.failures import Failure

_LOG: Final = logging.getLogger("fairlead.models")
#: Seconds for a provider to list its models.
_LIMIT: Final = 10.0
_EMBEDDINGS: Final = ("embed", "minilm", "bge-", "e5-", "gte-")
#: The embedding model that anybody can get, listed whether it is here or not.
_MINILM: Final = {"name": "minilm", "dimensions": 384, "context_window": 512}


async def listed(
    weights: Weights,
    providers: Iterable[Provider],
    make: Callable[[Provider], Any],
    environ: Mapping[str, str],
) -> list[dict[str, Any]]:
    """All models: those here first, then by provider. A provider that fails is left out, and logged."""
    here = [_weight(each.describe()) for each in weights.list()]
    if not any(each["type"] == "embedding" for each in here):
        here.append(_weight({**_MINILM, "type": "embedding"}))
    servers = await look() if wished(environ) is None else []
    found = await asyncio.gather(*(_asked(each, make) for each in providers))
    beside = [entry(server.provider, name, server.window) for server in servers for name in server.models]
    known = {each["id"] for each in here}
    return [
        *here,
        *(each for each in (*beside, *(one for many in found for one in many)) if _new(each, known)),
    ]


def entry(provider: str, name: str, window: int | None = None) -> dict[str, Any]:
    """A model of a provider; what it can do is told by its name, because few providers say it."""
    embedding = any(mark in name.lower() for mark in _EMBEDDINGS)
    told: dict[str, Any] = {
        "id": f"{provider}/{name}",
        "name": name,
        "provider": provider,
        "type": "embedding" if embedding else "chat",
        "capabilities": ["embedding"] if embedding else ["chat", "tool_calling"],
    }
    if window is not None:
        told["context_window"] = window
    return told


def _weight(about: Mapping[str, Any]) -> dict[str, Any]:
    told = entry("local", about["name"], about["context_window"])
    embedding = about["type"] == "embedding"
    told["type"] = about["type"]
    told["capabilities"] = ["embedding"] if embedding else ["chat", "tool_calling"]
    if embedding:
        told["dimensions"] = about["dimensions"]
    return told


def _new(each: Mapping[str, Any], known: set[str]) -> bool:
    if each["id"] in known:
        return False
    known.add(each["id"])
    return True


async def _asked(provider: Provider, make: Callable[[Provider], Any]) -> list[dict[str, Any]]:
    model = make(provider)
    try:
        async with asyncio.timeout(_LIMIT):
            return [entry(provider.name, name, provider.window) for name in sorted(await model.models())]
    except (Failure, TimeoutError) as failure:
        _LOG.warning(
            "The models of %s cannot be listed: %s", provider.name, str(failure) or "no answer in time"
        )
        return []
    finally:
        await model.close()
