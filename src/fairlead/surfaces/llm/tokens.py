"""How much of a model's context the definitions take: an estimate, without the provider's own counting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from fairlead._json import encode
from fairlead.surfaces.llm.tool import Tool

#: Compact JSON in English comes to about this much for a token, whichever the model.
BYTES_PER_TOKEN: Final = 4


def tokens(value: Any) -> int:
    """About how many tokens a value takes, as JSON."""
    return -(-len(encode(value)) // BYTES_PER_TOKEN)


def measured(format: str, tools: Iterable[Tool], define: Callable[[Tool], Any]) -> dict[str, Any]:
    """The size of each tool's definition, of its parts, and of all together."""
    rows = [_row(tool, define(tool)) for tool in tools]
    return {"format": format, "tokens": sum(row["tokens"] for row in rows), "tools": rows}


def _row(tool: Tool, definition: Any) -> dict[str, Any]:
    return {
        "name": tool.name,
        "tokens": tokens(definition),
        "description": tokens(tool.description),
        "schema": tokens(tool.parameters),
        "strict": tool.strict,
        **({"reason": tool.reason} if tool.reason else {}),
    }
