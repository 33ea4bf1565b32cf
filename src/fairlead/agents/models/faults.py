"""From what a provider's library raises, or a provider sends, to a failure. No provider's library is known here."""

from __future__ import annotations

import email.utils
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from fairlead.agents.models.keys import Key, KeySource
from fairlead.agents.models.providers import Provider
from fairlead.agents.models.retrying import Fault
from fairlead.failures import Kind
from fairlead.failures.runtime import ApiError, ConfigError

#: Statuses after which the same request may succeed. 529 is Anthropic's "overloaded".
_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_OVERFLOW: Final = (
    "context_length_exceeded",
    "exceed_context_size",
    "prompt is too long",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "exceeds the available context size",
)


class Desk:
    """Whose faults they are: the provider and where it is, the model, and the key that must not show."""

    def __init__(
        self, whose: Provider, model: str, key: Key, source: KeySource, environ: Mapping[str, str]
    ) -> None:
        self.provider = whose.name
        self._whose = whose
        self._environ = environ
        self.model = model
        self.key = key
        self.source = source

    def status(self, status: int, said: str, headers: Mapping[str, str] | None = None) -> Fault:
        """The provider answered with a status that is no success."""
        wait = retry_after(headers or {})
        if status in (401, 403):
            # What it says about a key may hold the key, so none of it is shown.
            words = f"{self.provider} refused the key for the model {self.model!r} (status {status})."
            return Fault(ConfigError(f"{words} {self.source.way_out()}", details={"status": status}))
        words = self.key.hide(said)
        if status == 404:
            words = words or f"it knows no model {self.model!r}"
        details: dict[str, Any] = {"status": status, "provider": self.provider, "model": self.model}
        if any(mark in said.lower() for mark in _OVERFLOW):
            details["reason"] = "context_overflow"
        message = f"{self.provider} answered with status {status}{f': {words}' if words else ''}"
        kind = Kind.rate_limited if status == 429 else Kind.upstream
        failure = ApiError(kind, _ended(message), details=details, retry_after=wait)
        # A status that is retried has a reason that passes; a quota that is used up does not.
        spent = status == 429 and "insufficient_quota" in said
        return Fault(failure, again=status in _AGAIN and not spent, wait=wait)

    def lost(self, exc: BaseException) -> Fault:
        """No connection, or no longer one. Nothing of the exception shows but what kind it is."""
        causes = list(_causes(exc))
        reason, way_out = type(exc.__cause__ or exc).__name__, ""
        if any(isinstance(each, ConnectionRefusedError) for each in causes):
            reason, way_out = "nothing listens there", f" {self._elsewhere('Start it')}"
        elif any(isinstance(each, socket.gaierror) for each in causes):
            reason = "the name of the machine is not known here"
            way_out = f" {self._elsewhere('Look at the network')}"
        message = f"The connection to {self.provider}{self._where()} failed: {reason}.{way_out}"
        return Fault(
            ApiError(Kind.unavailable, message, details={"provider": self.provider, "model": self.model}),
            again=True,
        )

    def _where(self) -> str:
        """The machine and the port: what else is in an address may be a secret."""
        parts = urlsplit(self._whose.address(self._environ) or "")
        if not parts.netloc:
            return ""
        return " at " + self.key.hide(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")

    def _elsewhere(self, first: str) -> str:
        if self._whose.base_url_env is not None:
            return f"{first}, or set {self._whose.base_url_env} to where it is."
        return f"{first}, or name another base_url in the configuration of {self.provider!r}."

    def late(self) -> Fault:
        """It took too long."""
        words = f"{self.provider} did not answer in time for the model {self.model!r}."
        return Fault(
            ApiError(Kind.timeout, words, details={"provider": self.provider, "model": self.model}),
            again=True,
        )

    def unreadable(self, why: str) -> Fault:
        """The answer is not what the protocol says. Asking again would be asking for the same."""
        words = f"{self.provider} sent an answer that cannot be used: {self.key.hide(why)}"
        return Fault(ApiError(_ended(words), details={"provider": self.provider, "model": self.model}))

    def unsendable(self, why: str) -> Fault:
        """The request cannot be written down, so that the provider has not seen it."""
        details = {"provider": self.provider, "model": self.model}
        return Fault(
            ApiError(Kind.invalid_input, f"Nothing was sent to {self.provider}: {why}.", details=details)
        )

    def __repr__(self) -> str:
        return f"Desk({self.provider!r}, {self.model!r})"


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """An exception of a library, and what lies behind it."""
    yield exc
    # Some libraries raise their own word for it `from None`.
    if (behind := exc.__cause__ or exc.__context__) is not None:
        yield from _causes(behind)
    for each in exc.exceptions if isinstance(exc, BaseExceptionGroup) else ():
        yield from _causes(each)


class Unsendable(Exception):
    """A request that the protocol has no form for. It says why, and nothing of the content."""


class Unreadable(Exception):
    """A part of an answer is missing or of the wrong kind. It says where, and nothing of the content."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `Retry-After` or its finer cousin."""
    precise = headers.get("retry-after-ms")
    given = headers.get("retry-after")
    try:
        if precise is not None:
            return _sane(float(precise) / 1000)
        return None if given is None else _sane(float(given))
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(given or "")
        return _sane(moment.timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _sane(seconds: float) -> float | None:
    return max(seconds, 0.0) if -1e6 < seconds < 1e6 else None


def said_in(body: Any) -> str:
    """What the body of an error says, in the shapes that providers use: a text, a message, a code."""
    if isinstance(body, str):
        return body
    if not isinstance(body, Mapping):
        return ""
    error = body.get("error", body)
    if isinstance(error, str):
        return error
    if not isinstance(error, Mapping):
        return ""
    parts = [error.get("message"), error.get("code"), error.get("type"), error.get("status")]
    words = [part for part in parts if isinstance(part, str)]
    return f"{words[0]} ({', '.join(dict.fromkeys(words[1:]))})" if len(words) > 1 else "".join(words)


def _ended(message: str) -> str:
    return message if message.endswith((".", "!", "?", "...")) else f"{message}."


def members(value: Any, where: str) -> dict[str, Any]:
    """An object, as the protocol promises one there."""
    if not isinstance(value, dict):
        wrong(where, "an object", value)
    return value


def items(value: Any, where: str) -> list[Any]:
    """A list; nothing is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        wrong(where, "a list", value)
    return value


def text(value: Any, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        wrong(where, "a text", value)
    return value


def maybe_text(value: Any, where: str) -> str:
    """A text; nothing is an empty one."""
    return "" if value is None else text(value, where)


def count(value: Any) -> int:
    """A number of tokens; what is none is 0, because nobody's answer hangs on it."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def spoken(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turns of a conversation, for a protocol that wants one at least. Raises Unsendable."""
    if not turns:
        raise Unsendable("what is asked says nothing. Write a text that is not blank")
    return turns


def wrong(where: str, expected: str, value: Any) -> NoReturn:
    """Say what was expected, and what kind of thing was found."""
    found = "nothing" if value is None else type(value).__name__
    raise Unreadable(f"{where} is {found}, expected {expected}")
