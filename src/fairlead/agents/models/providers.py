"""Which services there are to ask, and how each is reached: known ones by name, others from configuration.

It knows addresses and where keys are, and speaks to nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from fairlead.actions.policy import near_miss
from fairlead.failures.runtime import ConfigError

Protocol = Literal["openai", "anthropic", "google"]
_PORT: Final = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class Provider:
    """A service that has models."""

    name: str
    #: Which protocol it speaks: many speak OpenAI's.
    kind: Protocol = "openai"
    #: None is the address that the provider's own library knows.
    base_url: str | None = None
    #: The environment variables that may hold its key; the first that is set counts.
    api_key_env: tuple[str, ...] = ()
    #: The name of a secret in the store, which comes before the environment.
    secret: str | None = None
    #: Whether it refuses who has no key.
    needs_key: bool = True
    #: The environment variable that may hold its address.
    base_url_env: str | None = None
    #: What comes after an address from the environment.
    suffix: str = ""
    #: Azure's older addresses want one.
    api_version: str | None = None
    #: Seconds for one request, where the request does not say.
    timeout: float = 600.0
    #: Tokens that its models hold, where that is known.
    window: int | None = None

    def address(self, environ: Mapping[str, str]) -> str | None:
        """Where it is reached; None is the library's own address."""
        given = environ.get(self.base_url_env, "").strip() if self.base_url_env else ""
        if not given:
            return self.base_url
        plain = (given if "://" in given else self._spelled_out(given)).rstrip("/")
        return plain if plain.endswith(self.suffix) else plain + self.suffix

    def located(self, environ: Mapping[str, str]) -> str | None:
        """`address`, where that is one.

        Raises:
            Failure: what stands there is no address.
        """
        address = self.address(environ)
        if address is None or is_address(address):
            return address
        named = self.base_url_env if address != self.base_url else "base_url"
        raise ConfigError(
            f"The address of the model provider {self.name!r} is none. Expected http://HOST:PORT or https://HOST, "
            f"in {named}."
        )

    def _spelled_out(self, given: str) -> str:
        """The address of a host that is named alone: what is left out is as usual."""
        host, slash, path = given.partition("/")
        usual = urlsplit(self.base_url or "").port
        if host.startswith(":"):
            host = f"127.0.0.1{host}"
        if usual is not None and not _PORT.search(host):
            host = f"{host}:{usual}"
        return f"http://{host}{slash}{path}"


def is_address(text: str) -> bool:
    """Whether somebody can be reached there over HTTP."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


PRESETS: Final[Mapping[str, Provider]] = {
    each.name: each
    for each in (
        Provider("openai", api_key_env=("OPENAI_API_KEY",), base_url_env="OPENAI_BASE_URL"),
        Provider(
            "azure",
            api_key_env=("AZURE_OPENAI_API_KEY",),
            base_url_env="AZURE_OPENAI_ENDPOINT",
            suffix="/openai/v1",
        ),
        Provider(
            "anthropic",
            kind="anthropic",
            api_key_env=("ANTHROPIC_API_KEY",),
            base_url_env="ANTHROPIC_BASE_URL",
            window=200_000,
        ),
        Provider("google", kind="google", api_key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"), window=1_000_000),
        Provider("openrouter", base_url="https://openrouter.ai/api/v1", api_key_env=("OPENROUTER_API_KEY",)),
        Provider(
            "ollama",
            base_url="http://127.0.0.1:11434/v1",
            base_url_env="OLLAMA_HOST",
            suffix="/v1",
            needs_key=False,
        ),
        Provider("lmstudio", base_url="http://127.0.0.1:1234/v1", needs_key=False),
        Provider("llamacpp", base_url="http://127.0.0.1:8080/v1", needs_key=False),
        Provider("vllm", base_url="http://127.0.0.1:8000/v1", api_key_env=("VLLM_API_KEY",), needs_key=False),
    )
}

#: What one may say of a provider in configuration.
KEYS: Final = ("kind", "base_url", "api_key_env", "secret", "api_version", "timeout", "window")


def provider_of(name: str, given: Mapping[str, Any]) -> Provider:
    """A provider from configuration: a known one with changes, or one of the user's own.

    Raises:
        Failure: a key is unknown, or a value makes no sense.
    """
    where = f"The model provider {name!r}"
    for key in given:
        if key == "api_key":
            # A key in a file is soon a key in a repository.
            words = "Name where it is: api_key_env = 'VARIABLE' or secret = 'NAME'"
            raise ConfigError(f"{where} has its key in the configuration. {words}")
        if key not in KEYS:
            raise ConfigError(f"{where} has no setting {key!r}.{near_miss(key, KEYS)}")
    for key in ("base_url", "api_key_env", "secret", "api_version"):
        if key in given and not (isinstance(given[key], str) and given[key]):
            raise ConfigError(f"{where}: {key!r} is not a text.")
    for key in ("timeout", "window"):
        number = given.get(key, 1)
        if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
            raise ConfigError(f"{where}: {key!r} is not a number above 0.")
    known = PRESETS.get(name, Provider(name))
    kind = given.get("kind", known.kind)
    if kind not in get_args(Protocol):
        hint = near_miss(str(kind), get_args(Protocol))
        raise ConfigError(f"{where}: 'kind' is not one of {', '.join(get_args(Protocol))}.{hint}")
    if name not in PRESETS and kind == "openai" and "base_url" not in given:
        raise ConfigError(f"{where} has no address. Say where it is: base_url = 'https://.../v1'")
    named = "api_key_env" in given or "secret" in given
    return Provider(
        name,
        kind=kind,
        base_url=given.get("base_url", known.base_url),
        api_key_env=(given["api_key_env"],) if "api_key_env" in given else known.api_key_env,
        secret=given.get("secret"),
        needs_key=named or (known.needs_key and name in PRESETS and "base_url" not in given),
        base_url_env=None if "base_url" in given else known.base_url_env,
        suffix=known.suffix,
        api_version=given.get("api_version"),
        timeout=float(given.get("timeout", known.timeout)),
        window=int(given["window"]) if "window" in given else known.window,
    )
