"""`embed` and `list_models` of a plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead.agents.models import Delta, Embedded, Model, Models, Reply, Request, Usage
from fairlead.failures.runtime import ApiError
from fairlead.plugins import slots
from plugins.bridge_kit import ID, bridge_manifest, bridged, macro
from plugins.conftest import Compiled


class Measuring(Model):
    """A model whose vectors are the lengths of texts."""

    name = "script/measure"

    async def reply(self, request: Request) -> Reply:
        raise NotImplementedError

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        raise NotImplementedError
        yield

    async def embed(self, texts: Sequence[str]) -> Embedded:
        if "fail" in texts:
            raise ApiError("The model is away.")
        return Embedded([[float(len(text)), 0.5] for text in texts], self.name, Usage())


class Measured(Models):
    """Models of which the one for embeddings is the measuring one."""

    async def embed(self, texts: Sequence[str], model: str | Model | None = None) -> Embedded:
        return await super().embed(texts, Measuring() if model in (None, "measure") else model)


@pytest.fixture
def library(compiled: Compiled) -> Path:
    return compiled("bridge", macro("MANIFEST", bridge_manifest()))


async def embedded(library: Path, tmp_path: Path, body: Any) -> tuple[dict[str, Any], list[str]]:
    async with bridged(library, tmp_path, Measured(environ={}, folder=tmp_path)) as bridge:  # type: ignore[arg-type]
        return await bridge.host(slots.EMBED, body), bridge.warnings()


async def test_a_text_becomes_a_vector(library: Path, tmp_path: Path) -> None:
    told, _ = await embedded(library, tmp_path, {"input": "four"})
    assert told == {
        "model": "script/measure",
        "data": [{"index": 0, "embedding": [4.0, 0.5], "dimensions": 2}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


async def test_many_texts_become_vectors_in_their_order(library: Path, tmp_path: Path) -> None:
    told, _ = await embedded(library, tmp_path, {"model": "measure", "input": ["a", "bb", "ccc"]})
    assert [(each["index"], each["embedding"][0]) for each in told["data"]] == [(0, 1.0), (1, 2.0), (2, 3.0)]


@pytest.mark.parametrize(
    "body",
    [
        "nothing",
        {},
        {"input": 7},
        {"input": []},
        {"input": ["a", 7]},
        {"input": None},
        {"model": 7, "input": "a"},
    ],
)
async def test_what_are_no_texts_is_refused(library: Path, tmp_path: Path, body: Any) -> None:
    told, _ = await embedded(library, tmp_path, body)
    assert told["error"] == "invalid_request"


async def test_a_model_that_fails_is_an_embedding_error(library: Path, tmp_path: Path) -> None:
    told, _ = await embedded(library, tmp_path, {"input": ["fail"]})
    assert told == {"error": "embedding_error", "message": "The model is away."}


async def test_a_model_that_is_not_there_is_an_embedding_error(library: Path, tmp_path: Path) -> None:
    told, _ = await embedded(library, tmp_path, {"model": "local", "input": "a"})
    assert told["error"] == "embedding_error"
    assert "fairlead models pull" in told["message"]


async def test_an_agent_in_the_request_is_ignored_and_warned_of(library: Path, tmp_path: Path) -> None:
    told, warned = await embedded(library, tmp_path, {"input": "a", "agent_id": "x", "agent_address": "y"})
    assert told["data"]
    assert warned == [f"{ID}|embed|agent_override"]


async def test_models_are_listed_and_one_makes_embeddings_on_this_machine(
    library: Path, tmp_path: Path
) -> None:
    environ = {"FAIRLEAD_LOCAL": "none"}
    async with bridged(library, tmp_path, Models(environ=environ, folder=tmp_path)) as bridge:  # type: ignore[arg-type]
        told = await bridge.host(slots.LIST_MODELS)
    (embedding,) = [
        each for each in told["models"] if each["type"] == "embedding" and each["provider"] == "local"
    ]
    assert embedding["capabilities"] == ["embedding"]
    assert embedding["dimensions"] > 0
    assert embedding["context_window"] > 0
    for each in told["models"]:
        assert {"id", "name", "provider", "type", "capabilities"} <= set(each)
        assert each["type"] in ("chat", "embedding")
