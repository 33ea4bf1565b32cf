"""`Reply`: how a call ended, as a client hears it, with the words of the runtime's own `Result`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

from fairlead.failures import Failure
from fairlead.failures import action as wire

R = TypeVar("R")


class Reply(Generic[R]):
    """An envelope, read. Raises InvalidResponse for what is none.

    `data` has the action's own type where the call named the action by its object, else it is plain JSON.
    """

    __slots__ = ("_envelope", "data", "failure", "ok")

    data: R

    def __init__(self, envelope: Any, cause: Failure | None = None) -> None:
        if not isinstance(envelope, dict) or not isinstance(envelope.get("ok"), bool):
            raise wire.InvalidResponse("The answer is JSON, but not an envelope: it has no boolean 'ok'.")
        self._envelope = envelope
        self.ok: bool = envelope["ok"]
        self.failure = None if self.ok else wire.parse(envelope)
        if self.failure is not None:
            self.failure.__cause__ = cause
        self.data = cast("R", envelope.get("data"))

    @property
    def logs(self) -> list[dict[str, Any]]:
        return self._listed("logs")

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        return self._listed("artifacts")

    @property
    def meta(self) -> dict[str, Any]:
        meta = self._envelope.get("meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def replayed(self) -> bool:
        """Whether this is the kept result of an earlier call with the same idempotency key."""
        return self.meta.get("idempotent") == "replayed"

    def to_dict(self) -> dict[str, Any]:
        """The envelope, as it came."""
        return self._envelope

    def unwrap(self) -> R:
        """The data, or the failure raised; a traceback shows its issues."""
        if self.failure is None:
            return self.data
        if not hasattr(self.failure, "__notes__"):
            for issue in self.failure.issues:
                self.failure.add_note(f"{'.'.join(map(str, issue.path)) or 'input'}: {issue.message}")
        raise self.failure

    def _listed(self, name: str) -> list[dict[str, Any]]:
        found = self._envelope.get(name)
        return found if isinstance(found, list) else []

    def __repr__(self) -> str:
        how = "ok" if self.failure is None else self.failure.code
        return f"Reply({self.meta.get('action')!r}, {how})"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of a `Retry-After` header; a date there is as good as nothing."""
    given = headers.get("retry-after", "").strip()
    return float(given) if given.isascii() and given.isdigit() else None
