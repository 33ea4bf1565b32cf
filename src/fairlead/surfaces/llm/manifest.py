"""The combined manifest: one app's tools for the formats that programs ask for together."""

from __future__ import annotations

from typing import Any

from fairlead.runtime import Runtime
from fairlead.surfaces.llm.tools import Tools


def function_calling_manifest(app: Runtime, **options: Any) -> dict[str, Any]:
    """What an app offers to models, with each tool's metadata beside its definition.

    Options are those of `Tools`. Providers refuse the extra member: send them `Tools(...).definitions`.
    """
    chat = Tools(app, "openai", **options)
    responses = Tools(app, "openai-responses", **options)
    return {
        **({"attribution": chat.attribution} if chat.attribution else {}),
        "openaiChatTools": _described(chat),
        "openaiResponsesTools": _described(responses),
        "aiSdkTools": chat.names,
    }


def _described(tools: Tools) -> list[dict[str, Any]]:
    return [
        {**definition, "metadata": tools.metadata[name]}
        for name, definition in zip(tools.names, tools.definitions, strict=True)
    ]
