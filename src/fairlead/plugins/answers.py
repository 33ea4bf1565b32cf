"""How the host words what it gives to plugins: JSON with sorted keys, error objects, moments, lists of artifacts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fairlead import _json
from fairlead.failures import Failure
from fairlead.failures import tool as wire
from fairlead.failures.host import SerializationError
from fairlead.tools.artifacts_sharing import shared

SHARING = "share_artifact"


def spelled(answer: Any) -> str:
    """An answer as JSON: compact, keys sorted, slashes as they are. Raises SerializationError."""
    try:
        return _json.dumps(answer, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as exc:
        raise SerializationError(cause=exc) from exc


def error(code: str, message: str, **beside: Any) -> str:
    """An error object, with what goes beside it."""
    return spelled({"error": code, "message": message, **beside})


def moment(seconds: float) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def artifact_in(tool: str, envelope: str) -> dict[str, Any] | None:
    """The artifact that a tool's result says was shared, as plugins are told of it."""
    if tool != SHARING or not wire.is_success(envelope):
        return None
    result = wire.payload(envelope)
    return artifact_of(result.get("text") if isinstance(result, dict) else None)


def artifact_of(text: object) -> dict[str, Any] | None:
    """The artifact that the words of `share_artifact` tell of."""
    if not isinstance(text, str):
        return None
    try:
        about, _ = shared(text)
    except Failure:
        return None
    told: dict[str, Any] = {
        "filename": about.get("filename", ""),
        "mime_type": about.get("mime_type", "application/octet-stream"),
        "size": about.get("file_size", 0),
        "host_path": about.get("host_path", ""),
        "is_directory": bool(about.get("is_directory")),
    }
    if about.get("description"):
        told["description"] = about["description"]
    return told
