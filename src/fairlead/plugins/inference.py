"""`Inference`: the model calls of one plugin, two at once at most, always as the agent that is bound to the call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Final, TypeVar

from fairlead.actions import Action
from fairlead.plugins import answers, models, slots
from fairlead.plugins.asked import Asked, claims_of, read_completion
from fairlead.plugins.completion import Chunk, Completion, Scene
from fairlead.plugins.identity import agent_of
from fairlead.plugins.runner import Frame
from fairlead.runtime import App

T = TypeVar("T")

MAX_INFLIGHT: Final = 2
#: Says something once: which call, why, and the words.
Warn = Callable[[str, str, str], object]
#: What a plugin wants models to be told, for an agent's id.
Instructions = Callable[[str | None], str]
_BUSY: Final = "This plugin has two model calls running already. Wait for one of them to end."


class Inference:
    """What `complete`, `complete_stream`, `complete_cancel`, `embed` and `list_models` do for one plugin."""

    def __init__(
        self,
        app: App,
        plugin: str,
        *,
        warn: Warn,
        instructions: Instructions = lambda agent: "",
        tools: Callable[[], Mapping[str, Action[..., Any]]] = dict,
    ) -> None:
        self._app = app
        self._plugin = plugin
        self._warn = warn
        self._instructions = instructions
        self._tools = tools
        self._inflight = 0
        self._streams: dict[str, list[Completion]] = {}

    def call(self, slot: int, args: tuple[str | None, ...], frame: Frame) -> Awaitable[str | None] | None:
        """The answer of one of the slots that are not streamed."""
        if slot == slots.COMPLETE:
            return self.complete(args[0], frame)
        if slot == slots.EMBED:
            return self.embed(args[0], frame)
        if slot == slots.LIST_MODELS:
            return self.list_models()
        assert slot == slots.COMPLETE_CANCEL
        self.cancel(args[0])
        return None

    async def complete(self, request: str | None, frame: Frame) -> str:
        """Answer a chat, whole."""
        asked = read_completion(request)
        self._looked_at("complete", asked.claims, frame)
        completion = Completion(self._scene(frame), asked, None, streamed=False)
        with self._slot() as free:
            return await _apart(completion.answer()) if free else _busy()

    async def stream(self, request: str | None, frame: Frame, chunk: Chunk | None) -> str:
        """Answer a chat piece by piece; gives the whole of it, too."""
        asked = read_completion(request)
        self._looked_at("complete_stream", asked.claims, frame)
        completion = Completion(self._scene(frame), asked, chunk, streamed=True)
        with self._slot() as free, self._registered(asked, completion):
            return await _apart(completion.answer()) if free else _busy()

    def cancel(self, stream: str | None) -> None:
        """End a stream that runs. One that has not begun, or has ended, is left alone."""
        for each in self._streams.get((stream or "").strip(), ()):
            each.stop()

    async def embed(self, request: str | None, frame: Frame) -> str:
        """Texts as vectors."""
        body, model, texts = models.read_embedding(request)
        self._looked_at("embed", claims_of(body), frame)
        with self._slot() as free:
            if not free:
                return _busy()
            return answers.spelled(await _apart(models.embedded(self._app, model, texts)))

    async def list_models(self) -> str:
        """All models that can be named."""
        return answers.spelled(await _apart(models.listed(self._app)))

    def _scene(self, frame: Frame) -> Scene:
        told = self._instructions(frame.agent)
        return Scene(self._app, self._plugin, agent_of(self._app, frame.agent), told, dict(self._tools()))

    def _looked_at(self, op: str, claims: tuple[str, ...], frame: Frame) -> None:
        """Tell the plugin's author, once, what a call cannot have."""
        if claims:
            self._warn(op, "agent_override", override_words(op, claims))
        if frame.agent is None:
            self._warn(op, "no_agent_context", unbound_words(op))

    @contextmanager
    def _slot(self) -> Iterator[bool]:
        free = self._inflight < MAX_INFLIGHT
        self._inflight += free
        try:
            yield free
        finally:
            self._inflight = max(0, self._inflight - free)

    @contextmanager
    def _registered(self, asked: Asked, completion: Completion) -> Iterator[None]:
        if asked.stream is None:
            yield
            return
        running = self._streams.setdefault(asked.stream, [])
        running.append(completion)
        try:
            yield
        finally:
            running.remove(completion)
            if not running:
                del self._streams[asked.stream]


def override_words(op: str, claims: tuple[str, ...]) -> str:
    """What is said of a request that names an agent."""
    named = " and ".join(claims)
    return f"{op} was sent {named}, which is ignored: the agent is the one that the plugin was called for."


def unbound_words(op: str) -> str:
    """What is said of a call that no agent is bound to."""
    return f"{op} was called outside a call of the host's: no agent is bound to it, and it has nothing of an agent."


def _busy() -> str:
    return answers.error("plugin_busy", _BUSY, max_inflight=MAX_INFLIGHT)


async def _apart(work: Coroutine[Any, Any, T]) -> T:
    """Do the work in a context of its own: whose call the plugin is in does not matter to it."""
    return await asyncio.get_running_loop().create_task(work, context=Context())
