"""Models on this machine: `local/NAME` runs weights in this process, `local` is whatever is here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from fairlead.agents.models import constraint
from fairlead.agents.models.engine import CONTEXT, Engine, Tuning, hold, release
from fairlead.agents.models.faults import Desk, items, members
from fairlead.agents.models.keys import Key, KeySource
from fairlead.agents.models.loopback import VARIABLE, Found, look, wished
from fairlead.agents.models.model import Delta, Embedded, Model, Reply, Request
from fairlead.agents.models.openai_chat import OpenAIModel
from fairlead.agents.models.providers import Provider
from fairlead.agents.models.remote import Reader
from fairlead.agents.models.retrying import Fault, Retries
from fairlead.agents.models.weights import Weight, Weights
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ApiError, ConfigError

#: Tokens of an answer where nobody says how many: small models do not always find an end.
_LIMIT: Final = 1_024
#: Why a request is worth another try with a looser grammar.
_UNBOUND: Final = "grammar_not_followed"
#: The server that the settings name.
_NAMED: Final = "local-server"
#: A text so short has no more tokens than the smallest model for embeddings takes.
_SHORT: Final = 500


class LocalModel(OpenAIModel):
    """Weights that run in this process. They are loaded when they are first used."""

    def __init__(self, weight: Weight, environ: Mapping[str, str], retries: Retries | None = None) -> None:
        provider = Provider("local", needs_key=False)
        source = KeySource(provider, {})
        super().__init__(provider, weight.name, source, environ={}, retries=retries)
        self.weight = weight
        self._tuning = Tuning.of(environ)
        self.window = min(self._tuning.context, weight.about.window or CONTEXT)
        self._engine: Engine | None = None
        self._loading: asyncio.Task[Engine] | None = None
        #: Grammars that llama.cpp refused: schemas can say more than it understands.
        self._refused: set[str] = set()

    async def reply(self, request: Request) -> Reply:
        # Streamed, because llama.cpp does not see that somebody left who waits for an answer as a whole.
        events = [event async for event in self.stream(request)]
        assert isinstance(events[-1], Reply)
        return events[-1]

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        self._fits(request)
        said = False
        try:
            async with aclosing(super().stream(request)) as events:
                async for event in events:
                    said = True
                    yield event
            return
        except ApiError as failure:
            if said or not self._loosened(failure, request):
                raise
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event

    async def embed(self, texts: Sequence[str]) -> Embedded:
        if not self.weight.about.embedding:
            words = f"The weights {self.weight.name!r} chat, and make no embeddings."
            raise Failure(Kind.unsupported, f"{words} Get some that do: fairlead models pull minilm")
        return await super().embed(texts)

    async def close(self) -> None:
        await super().close()
        if self._loading is not None:
            # Somebody left while it was loaded.
            await asyncio.wait({self._loading})
            self._engine = self._loaded()
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(release, engine)

    async def _ready(self) -> tuple[Desk, Any]:
        if self._engine is None:
            if self._loading is None:
                self._loading = asyncio.create_task(asyncio.to_thread(hold, self.weight, self._tuning))
            loading = self._loading
            # Who leaves early does not take the weights from those who wait, too.
            await asyncio.wait({loading})
            self._loaded()
            self._engine = loading.result()
        return await super()._ready()

    def _loaded(self) -> Engine | None:
        """What was loaded; nothing, and room for another try, when that failed."""
        loading, self._loading = self._loading, None
        if loading is None or loading.cancelled() or loading.exception() is not None:
            return None
        return loading.result()

    def _connect(self, key: Key, base_url: str | None) -> Any:
        assert self._engine is not None
        return super()._connect(self._engine.key, self._engine.base_url)

    def _body(self, request: Request) -> dict[str, Any]:
        settings = request.settings
        limited = replace(
            settings, max_tokens=min(settings.max_tokens or _LIMIT, self.window), reasoning=None
        )
        plain = Request(constraint.told(request), settings=limited)
        body = super()._body(plain)
        form = self._form(request)
        if form is not None:
            body["grammar"] = form
            # Where the form counts, the likeliest word is the best.
            body.setdefault("temperature", 0.0)
        return body

    def _form(self, request: Request) -> str | None:
        form = constraint.grammar(request)
        return constraint.grammar(request, loose=True) if form in self._refused else form

    def _loosened(self, failure: ApiError, request: Request) -> bool:
        """Whether a looser grammar is worth another try."""
        form = constraint.grammar(request)
        if failure.details.get("reason") != _UNBOUND or form is None or form in self._refused:
            return False
        self._refused.add(form)
        return True

    def _reader(self, request: Request) -> Reader:
        return constraint.CallReader(_Naming(super()._reader(request), self._named), request)

    def _translated(self, desk: Desk, exc: Exception) -> Fault:
        fault = super()._translated(desk, exc)
        status = fault.failure.details.get("status")
        overflow = "reason" in fault.failure.details
        if isinstance(exc, constraint.Unbound) or (status == 400 and not overflow):
            fault.failure.details["reason"] = _UNBOUND
        return fault

    def _named(self, reply: Reply) -> Reply:
        # llama.cpp calls the model by its file.
        return replace(reply, model=self.name)

    async def _embed(self, client: Any, texts: list[str]) -> Embedded:
        fitting = [await self._cut(client, text) for text in texts]
        return replace(await super()._embed(client, fitting), model=self.name)

    async def _cut(self, client: Any, text: str) -> Any:
        """A text, or the tokens of its beginning where all of it does not fit."""
        if not text.strip():
            return " "
        if len(text) <= _SHORT:
            return text
        asked = {"content": text[: 16 * self.window], "add_special": True}
        root = str(client.base_url).removesuffix("/").removesuffix("/v1")
        answer = members(await client.post(f"{root}/tokenize", cast_to=object, body=asked), "the answer")
        tokens = items(answer.get("tokens"), "tokens")
        return text if len(tokens) <= self.window else tokens[: self.window - 1] + tokens[-1:]

    def _fits(self, request: Request) -> None:
        if self.weight.about.embedding:
            words = f"The weights {self.weight.name!r} make embeddings, and do not chat."
            raise Failure(Kind.unsupported, f"{words} Get some that do: fairlead models pull smollm2")
        if any(message.images for message in request.messages):
            raise Failure(
                Kind.unsupported, f"The model {self.name!r} sees no pictures. Choose one that does."
            )


class _Naming:
    def __init__(self, inner: Reader, named: Callable[[Reply], Reply]) -> None:
        self._inner = inner
        self._named = named

    def feed(self, event: Any) -> Delta | None:
        return self._inner.feed(event)

    def whole(self) -> Reply:
        return self._named(self._inner.whole())


def _provider(found: Found) -> Provider:
    return Provider(
        found.provider,
        base_url=found.base_url,
        needs_key=False,
        base_url_env=VARIABLE if found.provider == _NAMED else None,
        window=found.window or CONTEXT,
    )


class AnyLocal(Model):
    """`local`: a server on this machine if one is listening, else weights that are here."""

    name = "local"

    def __init__(
        self,
        weights: Weights,
        environ: Mapping[str, str],
        *,
        make: Callable[[Provider, str], Model],
        weighed: Callable[[str], Model],
    ) -> None:
        self._weights = weights
        self._environ = environ
        self._make = make
        self._weighed = weighed
        self._chosen: Model | None = None
        self._choosing = asyncio.Lock()
        here = weights.pick("chat")
        # A server's window is known when it is asked; until then, what most servers hold at least.
        self.window = min(Tuning.of(environ).context, here.about.window if here else CONTEXT)

    async def reply(self, request: Request) -> Reply:
        chosen = await self._choose()
        try:
            return await chosen.reply(request)
        except ApiError as failure:
            self._forget(failure)
            raise

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply, None]:
        chosen = await self._choose()
        try:
            # Every model's stream is a generator; who leaves it ends the request.
            async with aclosing(
                cast("AsyncGenerator[Delta | Reply, None]", chosen.stream(request))
            ) as events:
                async for event in events:
                    yield event
        except ApiError as failure:
            self._forget(failure)
            raise

    async def close(self) -> None:
        chosen, self._chosen = self._chosen, None
        if chosen is not None and not isinstance(chosen, LocalModel):
            await chosen.close()

    async def _choose(self) -> Model:
        async with self._choosing:
            if self._chosen is None:
                self._chosen = await self._server() or self._here()
                self.window = self._chosen.window
            return self._chosen

    async def _server(self) -> Model | None:
        address = wished(self._environ)
        if address == "off":
            return None
        if address is not None:
            return await self._named(address)
        found = next((each for each in await look() if each.chat), None)
        return self._served(found) if found is not None else None

    async def _named(self, address: str) -> Model:
        """The server that the settings name, which has to answer."""
        asked: Any = self._make(_provider(Found(_NAMED, address, ())), "default")
        names = await asked.models()
        found = Found(_NAMED, address, tuple(names))
        if found.chat is None:
            raise ConfigError(f"The server at {address} has no model that chats.")
        return self._served(found)

    def _served(self, found: Found) -> Model:
        return self._make(_provider(found), found.chat or "")

    def _here(self) -> Model:
        weight = self._weights.pick("chat")
        if weight is None:
            raise ConfigError(
                "There is no local model: no server listens on this machine, and there are no weights. Start one "
                "(Ollama, LM Studio, llama.cpp, vLLM), or get weights: fairlead models pull smollm2"
            )
        return self._weighed(weight.name)

    def _forget(self, failure: Failure) -> None:
        """A server that is gone may come back elsewhere; the next request looks again."""
        if failure.kind is Kind.unavailable and not isinstance(self._chosen, LocalModel):
            self._chosen = None
