"""`Result`: how a call ended. `to_dict()` is the envelope that every surface translates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.failures import Failure
from fairlead.failures import action as wire
from fairlead.runtime.context import Context, Unasked, shown


class Result:
    """Data or a failure, with what the call said on the way."""

    # The runtime makes it and fills it in: without an `__init__`, that takes half as long.
    __slots__ = ("_call", "_id", "_name", "data", "duration", "failure", "ok")

    ok: bool
    data: Any
    failure: Failure | None
    #: Seconds.
    duration: float
    #: Where nobody has asked for the context, what it is made of.
    _call: Context | Unasked
    #: The id, where nobody has asked for more.
    _id: str | None
    #: What was asked for, where there is no action of that name.
    _name: str | None

    @property
    def _context(self) -> Context:
        context = self._call
        if not isinstance(context, Context):
            context = self._call = context.context(self._id)
        return context

    @property
    def _quiet(self) -> bool:
        """Whether there is nothing to tell beside the data, as for most calls."""
        context = self._call
        return not isinstance(context, Context) or not (
            context._notes is not None
            or context._artifacts is not None
            or context.warnings
            or context.chunks
            or context.replayed
            or context.told_meta
        )

    @property
    def action(self) -> str:
        """The action's name, as it was asked for when it is unknown."""
        return self._name if self._name is not None else self._context.action.name

    @property
    def invocation_id(self) -> str:
        call = self._call
        if isinstance(call, Context):
            return call.invocation_id
        if self._id is None:
            self._id = call.runtime.new_id()
        return self._id

    @property
    def surface(self) -> str:
        return self._context.surface

    @property
    def replayed(self) -> bool:
        """Whether this is the kept result of an earlier call with the same idempotency key."""
        return self._context.replayed

    @property
    def warnings(self) -> list[str]:
        """What was read as what, where the input had slips that could be mended."""
        return self._context.warnings

    @property
    def logs(self) -> list[dict[str, Any]]:
        return self._context.told()

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        return list(self._context._artifacts or ())

    @property
    def told_meta(self) -> Mapping[str, Any]:
        """What the action itself told beside its result, redacted: a part of `meta`, without the cost of the rest."""
        context = self._context
        return shown(context.told_meta, context._runtime.redactor) if context.told_meta else {}

    @property
    def meta(self) -> dict[str, Any]:
        context = self._context
        meta: dict[str, Any] = {"action": self.action}
        meta |= {"invocationId": _text(context.invocation_id), "surface": _text(context.surface)}
        meta["durationMs"] = round(self.duration * 1000)
        if self.replayed:
            meta["idempotent"] = "replayed"
        if context.warnings:
            meta["warnings"] = list(context.warnings)
        if context.chunks:
            meta["chunks"] = context.chunks
        return {**meta, **self.told_meta} if context.told_meta else meta

    def to_dict(self) -> dict[str, Any]:
        """The envelope."""
        told = {"artifacts": self.artifacts, "logs": self.logs, "meta": self.meta}
        if self.failure is None:
            return {"ok": True, "data": self.data, **told}
        return {"ok": False, "error": wire.render(self.failure), **told}

    def unwrap(self) -> Any:
        """The data, or the failure raised; a traceback shows its issues."""
        if self.failure is None:
            return self.data
        if not hasattr(self.failure, "__notes__"):
            for issue in self.failure.issues:
                self.failure.add_note(f"{'.'.join(map(str, issue.path)) or 'input'}: {issue.message}")
        raise self.failure

    def __repr__(self) -> str:
        how = "ok" if self.failure is None else self.failure.code
        return f"Result({self.action!r}, {how})"


def _text(given: object) -> str:
    """What a caller gave, as text that can be written down."""
    return str(given).encode(errors="replace").decode()
