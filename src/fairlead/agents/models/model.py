"""What the loop says to a model and hears from it, in no provider's words, and `Model`, which providers implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal

from fairlead.agents.values import value

Role = Literal["system", "user", "assistant", "tool"]
#: Why a reply ended. `length` is the limit of tokens, `filtered` the provider's refusal to show the rest.
Stop = Literal["stop", "tool_calls", "length", "filtered"]
#: What a model that says nothing of its own is taken to hold.
DEFAULT_WINDOW: Final = 128_000


@value(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool. The arguments are the model's own text: nobody has checked it yet."""

    name: str
    arguments: str
    #: Empty where the model gave none.
    id: str = ""


@value(frozen=True, slots=True)
class Image:
    """A picture in a message."""

    data: bytes
    mime_type: str


@value(frozen=True, slots=True)
class Message:
    """One turn of a conversation. A tool's turn names the call that it answers."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    #: Of a tool's turn: the tool. Of another: nothing.
    name: str | None = None
    #: What the model thought before it spoke.
    reasoning: str | None = None
    images: tuple[Image, ...] = ()
    #: What a provider wants back as it was (signatures of thoughts), by provider; nobody else reads it.
    kept: Mapping[str, Any] | None = None


@value(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@value(frozen=True, slots=True)
class Usage:
    """Tokens, and what they cost where the price is known, in US dollars."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        if other is NOTHING or self is NOTHING:
            return self if other is NOTHING else other
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cost + other.cost,
        )

    @property
    def tokens(self) -> int:
        return self.input + self.output


#: What nobody has used.
NOTHING: Final = Usage()


@value(frozen=True, slots=True)
class Settings:
    """How to answer. None leaves it to the model."""

    temperature: float | None = None
    max_tokens: int | None = None
    reasoning: Literal["off", "low", "medium", "high"] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    #: Seconds for one request.
    timeout: float | None = None


#: Everything is left to the model.
AS_IT_LIKES: Final = Settings()


@value(frozen=True, slots=True)
class Request:
    """One step of a conversation, asked of a model."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    #: Whether it may, must or must not call tools, or the name of the one it must call.
    tool_choice: str = "auto"
    #: A JSON Schema that the reply's text has to fit, where the model can be held to one.
    output: Mapping[str, Any] | None = None
    settings: Settings = AS_IT_LIKES


@value(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: Stop = "stop"
    usage: Usage = NOTHING
    reasoning: str | None = None
    #: The model that answered, as the provider calls it.
    model: str = ""
    kept: Mapping[str, Any] | None = None

    def message(self) -> Message:
        """The reply as a turn of the conversation."""
        return Message("assistant", self.text, self.calls, reasoning=self.reasoning, kept=self.kept)


@value(frozen=True, slots=True)
class Delta:
    """A piece of a reply that is being written: some thought, some text, or both."""

    text: str = ""
    reasoning: str = ""


@value(frozen=True, slots=True)
class Embedded:
    """Texts as vectors, in their order."""

    vectors: list[list[float]]
    model: str
    usage: Usage = NOTHING


class Model(ABC):
    """A model that can chat. Its failures are `api_error` and the like, and hold nothing of its key."""

    #: As users name it: `provider/model`.
    name: str
    #: How many tokens it can hold at once.
    window: int = DEFAULT_WINDOW

    @property
    def priced(self) -> bool:
        """Whether its cost is known: where it is not, a limit of cost cannot hold."""
        return True

    @abstractmethod
    async def reply(self, request: Request) -> Reply:
        """Answer, whole. A reply that was cut off by the limit of tokens says so in `stop`.

        Raises:
            Failure: there is no answer to be had.
        """

    @abstractmethod
    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Answer piece by piece; the whole reply comes last. Leaving early ends the request at the provider.

        Raises:
            Failure: there is no answer to be had, or no end of it.
        """

    async def close(self) -> None:  # noqa: B027  # most have nothing to let go of
        """Let go of connections, and of a model that runs here."""
