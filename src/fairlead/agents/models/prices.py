"""What tokens cost, in US dollars: by configuration, else as the `genai-prices` package knows, else nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from fairlead.actions.policy import near_miss
from fairlead.agents.models.model import Usage
from fairlead.failures.runtime import ConfigError

#: Prices are for a million tokens.
KEYS: Final = ("input", "output", "cache_read", "cache_write")
_MILLION: Final = 1_000_000


class Prices:
    """Prices by `provider/model`, or by `provider/*` for all others of a provider."""

    def __init__(self, given: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._given = {name: _checked(name, prices) for name, prices in (given or {}).items()}

    def cost(self, provider: str, model: str, usage: Usage) -> float:
        """What so many tokens cost; 0 where no price is known."""
        given = self._given.get(f"{provider}/{model}", self._given.get(f"{provider}/*"))
        if given is not None:
            return _sum(given, usage)
        return (_published(provider, model, usage) or 0.0) if usage.tokens else 0.0

    def known(self, provider: str, model: str) -> bool:
        """Whether there is a price, so that a cost of 0 means nothing was to be paid."""
        if f"{provider}/{model}" in self._given or f"{provider}/*" in self._given:
            return True
        return _published(provider, model, Usage(input=1)) is not None


def _checked(name: str, prices: Mapping[str, Any]) -> Mapping[str, float]:
    for key, value in prices.items():
        if key not in KEYS:
            raise ConfigError(f"The prices of {name!r} have no key {key!r}.{near_miss(key, KEYS)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ConfigError(
                f"The prices of {name!r}: {key!r} is not a number of dollars for a million tokens."
            )
    return dict(prices)


def _sum(prices: Mapping[str, float], usage: Usage) -> float:
    ordinary = prices.get("input", 0.0)
    fresh = max(usage.input - usage.cache_read - usage.cache_write, 0)
    cost = (
        fresh * ordinary
        + usage.cache_read * prices.get("cache_read", ordinary)
        + usage.cache_write * prices.get("cache_write", ordinary)
        + usage.output * prices.get("output", 0.0)
    )
    return cost / _MILLION


def _published(provider: str, model: str, usage: Usage) -> float | None:
    library = _library()
    if library is None:
        return None
    counted = library.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return float(library.calc_price(counted, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None


@cache
def _library() -> Any:
    try:
        import genai_prices
    except ImportError:
        return None
    return genai_prices
