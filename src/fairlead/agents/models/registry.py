"""`Models`: from a name to a model. It knows names and settings; how a model is asked is the models' own matter."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairlead.actions.policy import near_miss
from fairlead.agents.models.model import Embedded, Model
from fairlead.agents.models.providers import PRESETS, Provider, provider_of
from fairlead.agents.models.retrying import Retries
from fairlead.failures import Failure, Kind
from fairlead.failures.runtime import ConfigError

if TYPE_CHECKING:
    from fairlead.agents.models.prices import Prices
    from fairlead.agents.models.weights import Weights
    from fairlead.store import Secrets

#: The model that is meant where none is named.
VARIABLE: Final = "FAIRLEAD_MODEL"
#: The same for embeddings.
EMBEDDING_VARIABLE: Final = "FAIRLEAD_EMBEDDING_MODEL"

_DEFAULTS: Final = ("", "default")
#: Models as they are listed.
Listing = list[dict[str, Any]]

_OUR_OWN: Final = ("local", "script")
#: Models that are kept.
_MOST: Final = 1000
#: How the names of providers' models begin, for those who leave the provider out.
_BEGINNINGS: Final = {
    "openai": ("gpt-", "chatgpt", "o1", "o3", "o4", "text-embedding-"),
    "anthropic": ("claude",),
    "google": ("gemini", "gemma"),
}


class Models:
    """The models of a program, by name.

    `provider/model` is a model of a provider; `local` is a server on this machine, or else weights that run in this
    process; `local/NAME` is such weights by their name; `script/PATH` plays a written conversation; an alias stands
    for another name; nothing, "" or "default" is the default.
    """

    def __init__(
        self,
        default: str | Model | None = None,
        *,
        aliases: Mapping[str, str] | None = None,
        providers: Mapping[str, Mapping[str, Any]] | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
        embedding: str | None = None,
        secrets: Secrets | Callable[[], Secrets] | None = None,
        retries: Retries | None = None,
        folder: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._default = default
        self._aliases = dict(aliases or {})
        self._providers = {
            **PRESETS,
            **{name: provider_of(name, given) for name, given in (providers or {}).items()},
        }
        self._configured = tuple(providers or ())
        self._given_prices = dict(prices or {})
        self._embedding = embedding
        self._secrets = secrets
        self._own_retries = retries is not None
        self._retries = retries or Retries()
        self._folder = folder
        self._environ = os.environ if environ is None else environ
        self._made: dict[str, Model] = {}
        self._prices: Prices | None = None
        for reserved in _OUR_OWN:
            if reserved in self._configured:
                raise ConfigError(
                    f"A model provider cannot be called {reserved!r}: that name has a meaning here."
                )

    def resolve(self, name: str | Model | None = None, *, foreign: bool = False) -> Model:
        """The model of a name. Nobody is asked yet, so a wrong key or model shows when it is used.

        A `foreign` name comes from a caller or a plugin: it opens no file of this machine, unless an alias leads there.

        Raises:
            Failure: no provider or file has this name, or nothing is the default.
        """
        if foreign and isinstance(name, str) and self.names_file(name):
            raise Failure(Kind.not_found, "There is no such model.")
        if name is not None and not isinstance(name, str):
            return name
        full = self._full(name)
        if isinstance(full, Model):
            return full
        model = self._made.get(full)
        if model is None:
            model = self._made[full] = self._make(full)
            if len(self._made) > _MOST:
                self._forget_one()
        return model

    def _forget_one(self) -> None:
        """Let go of the oldest model of a provider: others may choose any name. What runs here is never one of many."""
        oldest = next((name for name in self._made if name.partition("/")[0] in self._providers), None)
        if oldest is not None:
            del self._made[oldest]

    def names_file(self, name: str) -> bool:
        """Whether a name stands for a file of this machine, without an alias that leads there."""
        spelled = name.strip()
        return spelled.partition("/")[0].rstrip() == "script" and spelled not in self._aliases

    def portable(self, name: str | Model | None = None) -> str | None:
        """The full name by which another process finds the same model; None where one has to be in this process.

        Raises:
            Failure: nothing is the default.
        """
        full = self._full(name)
        configured = self._configured or self._given_prices or self._folder or self._own_retries
        here = isinstance(full, Model) or configured or self._environ is not os.environ
        return None if here else str(full)

    def _full(self, name: str | Model | None) -> str | Model:
        if isinstance(name, Model):
            return name
        spelled = (name or "").strip()
        if spelled in _DEFAULTS and spelled not in self._aliases:
            if isinstance(self._default, Model):
                return self._default
            spelled = self._default_name()
        return self._unaliased(spelled)

    async def close(self) -> None:
        """Let go of every model that was made."""
        made, self._made = list(self._made.values()), {}
        for model in made:
            await model.close()

    def _default_name(self) -> str:
        named = self._default or self._environ.get(VARIABLE, "").strip()
        if isinstance(named, str) and named:
            return named
        if self.weights().pick("chat") is not None:
            return "local"
        raise ConfigError(
            "No model is configured. Three ways out: name one of a provider, such as "
            f"{VARIABLE}=openai/gpt-5-mini with its key in OPENAI_API_KEY; get a small one that runs here: "
            f"fairlead models pull smollm2; or use a server on this machine (Ollama, LM Studio): {VARIABLE}=local"
        )

    def _unaliased(self, name: str) -> str:
        seen = [name]
        while name in self._aliases:
            name = self._aliases[name].strip()
            if name in seen:
                raise ConfigError(f"Model aliases go in a circle: {' -> '.join([*seen, name])}.")
            if name in _DEFAULTS and name not in self._aliases:
                name = self._default_name()
            seen.append(name)
        return name

    def _make(self, full: str) -> Model:
        provider, slash, model = full.partition("/")
        if provider == "script" and model:
            from fairlead.agents.models.script_file import read_script

            return read_script(Path(model), full)
        if provider == "local" and (model or not slash):
            return self._local(model)
        if not slash or not model:
            raise self._unknown(full)
        if provider not in self._providers:
            raise self._unknown(full)
        return self._remote(self._providers[provider], model)

    def _unknown(self, full: str) -> Failure:
        provider, slash, model = full.partition("/")
        names = [*self._providers, *_OUR_OWN]
        if provider in names and not model:
            return ConfigError(f"The model {full!r} names a provider only. Expected {provider}/MODEL.")
        if not slash:
            hint = near_miss(full, [*self._aliases, "local", "default"]) or self._whose(full)
            words = f"No model is called {full!r}.{hint} Expected provider/model, local, or an alias"
        else:
            words = f"No model provider is called {provider!r}.{near_miss(provider, names)} There are"
        known = ", ".join(sorted(names) if slash else sorted(self._aliases))
        return Failure(Kind.not_found, f"{words}{': ' if known else ''}{known}.")

    def _whose(self, model: str) -> str:
        """Which provider has models that are called like this, as a hint."""
        begun = ((start, name) for name, starts in _BEGINNINGS.items() for start in starts)
        name = next((name for start, name in begun if model.lower().startswith(start)), None)
        return f" Did you mean {f'{name}/{model}'!r}?" if name in self._providers else ""

    def weights(self) -> Weights:
        """The weights on this machine."""
        from fairlead.agents.models.weights import Weights

        return Weights(self._folder, self._environ)

    def _local(self, name: str) -> Model:
        from fairlead.agents.models.local import AnyLocal, LocalModel

        if name:
            return LocalModel(self.weights().get(name), self._environ, self._retries)
        return AnyLocal(
            self.weights(),
            self._environ,
            make=self._remote,
            weighed=lambda weight: self.resolve(f"local/{weight}"),
        )

    def _remote(self, provider: Provider, model: str) -> Model:
        from fairlead.agents.models.keys import KeySource
        from fairlead.agents.models.prices import Prices

        if self._prices is None:
            self._prices = Prices(self._given_prices)
        model_of: Callable[..., Model] = _adapter(provider.kind)
        return model_of(
            provider,
            model,
            KeySource(provider, self._environ, self._secrets),
            environ=self._environ,
            retries=self._retries,
            prices=self._prices,
        )

    async def embed(self, texts: Sequence[str], model: str | Model | None = None) -> Embedded:
        """Texts as vectors. Without a model: the configured one, else weights for embeddings that are here.

        Raises:
            Failure: there is no such model, it makes no embeddings, or it fails.
        """
        chosen = self.resolve(model if isinstance(model, Model) else self._embedding_name(model))
        embed = getattr(chosen, "embed", None)
        if embed is None:
            raise Failure(Kind.unsupported, f"The model {chosen.name!r} makes no embeddings.")
        made: Embedded = await embed(texts)
        return made

    def _embedding_name(self, named: str | None) -> str:
        name = (named or "").strip()
        if name not in (*_DEFAULTS, "local"):
            return name
        configured = self._embedding or self._environ.get(EMBEDDING_VARIABLE, "").strip()
        if configured and name != "local":
            return configured
        here = self.weights().pick("embedding")
        if here is not None:
            return f"local/{here.name}"
        raise ConfigError(
            "No model for embeddings is configured. Get a small one that runs here: fairlead models pull minilm. "
            f"Or name one of a provider: {EMBEDDING_VARIABLE}=openai/text-embedding-3-small"
        )

    async def list(self) -> Listing:
        """What can be named: weights here, servers on this machine, and the models of providers that have a key."""
        from fairlead.agents.models.listing import listed

        return await listed(
            self.weights(), self._reachable(), lambda provider: self._remote(provider, ""), self._environ
        )

    def _reachable(self) -> Sequence[Provider]:
        """Providers of the configuration, and those whose key is there."""

        def has_key(provider: Provider) -> bool:
            return any(self._environ.get(name, "").strip() for name in provider.api_key_env)

        return [each for name, each in self._providers.items() if name in self._configured or has_key(each)]


def _adapter(kind: str) -> Any:
    if kind == "anthropic":
        from fairlead.agents.models.anthropic_messages import AnthropicModel

        return AnthropicModel
    if kind == "google":
        from fairlead.agents.models.google_genai import GoogleModel

        return GoogleModel
    from fairlead.agents.models.openai_chat import OpenAIModel

    return OpenAIModel
