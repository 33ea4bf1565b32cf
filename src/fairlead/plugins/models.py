"""What plugins are told of models: which there are, and texts as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.agents.loop import estimates
from fairlead.failures import Failure
from fairlead.failures.host import EmbeddingError, InvalidRequest
from fairlead.plugins.asked import loaded
from fairlead.runtime import App

#: Texts in one request.
MOST_TEXTS: Final = 2048


async def listed(app: App) -> dict[str, Any]:
    """All models, those that chat and those that make embeddings."""
    return {"models": await app.models.list()}


def read_embedding(request: str | None) -> tuple[Mapping[str, Any], str, list[str]]:
    """A request for embeddings: the body, the model's name and the texts. Raises InvalidRequest."""
    body = loaded(request)
    model, given = body.get("model"), body.get("input")
    if model is not None and not isinstance(model, str):
        raise InvalidRequest("model must be a string, or null for the default.", field="model")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
        raise InvalidRequest("input must be a string, or an array of strings only.", field="input")
    if len(texts) > MOST_TEXTS:
        raise InvalidRequest(f"input has {len(texts)} texts; {MOST_TEXTS} at most.", field="input")
    name = (model or "").strip()
    return body, "local" if name == "foundation" else name, texts


async def embedded(app: App, model: str, texts: list[str]) -> dict[str, Any]:
    """Texts as vectors. Raises EmbeddingError."""
    if app.models.names_file(model):
        raise EmbeddingError("There is no such model.")
    try:
        made = await app.models.embed(texts, model or None)
    except Failure as failure:
        raise EmbeddingError(failure.message, cause=failure) from failure
    tokens = sum(estimates.text(each) for each in texts)
    return {
        "model": made.model,
        "data": [
            {"index": at, "embedding": vector, "dimensions": len(vector)}
            for at, vector in enumerate(made.vectors)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
