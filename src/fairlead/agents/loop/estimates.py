"""How many tokens texts, messages and tools take: an estimate, the same for every model.

It counts nothing exactly. It never gets smaller when text is added, and it costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead import _json
from fairlead.agents.models.model import Message, ToolSpec

#: Text in the Latin script comes to about this much for a token, whichever the model.
BYTES_PER_TOKEN: Final = 4
#: What a message takes besides its text.
PER_MESSAGE: Final = 4
PER_CALL: Final = 8
PER_IMAGE: Final = 1_200


def text(text: str) -> int:
    """About how many tokens a text takes."""
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)


def message(message: Message) -> int:
    """About how many tokens a message takes, with its calls, thoughts and pictures."""
    tokens = PER_MESSAGE + text(message.content)
    for call in message.calls:
        tokens += PER_CALL + text(call.name) + text(call.arguments)
    if message.reasoning:
        tokens += text(message.reasoning)
    if message.kept:
        tokens += -(-len(_json.encode(dict(message.kept), default=repr)) // BYTES_PER_TOKEN)
    return tokens + PER_IMAGE * len(message.images)


def tools(specs: Iterable[ToolSpec]) -> int:
    """About how many tokens the definitions of tools take."""
    return sum(
        PER_CALL + text(spec.name) + text(spec.description) + text(_json.dumps(spec.parameters))
        for spec in specs
    )
