"""Failures in an OpenAPI document: one response for each HTTP status, made from the catalogue of codes."""

from __future__ import annotations

from typing import Any

from fairlead.failures import Entry, catalogue
from fairlead.surfaces.http.openapi_shared import PROBLEM, SCHEMAS, narrowed

_FALLBACK = 500
_LAST = 599


def failure_responses() -> dict[str, dict[str, Any]]:
    """Responses by status, as `components.responses` holds them. Any action may raise any of the codes."""
    by_status: dict[int, list[Entry]] = {}
    for entry in catalogue("action"):
        by_status.setdefault(_status(entry), []).append(entry)
    return {f"Failure{status}": _response(status, by_status[status]) for status in sorted(by_status)}


def failure_references(responses: dict[str, Any]) -> dict[str, Any]:
    """The same for an operation: references by status."""
    return {name.removeprefix("Failure"): {"$ref": f"#/components/responses/{name}"} for name in responses}


def _status(entry: Entry) -> int:
    status = entry.http_status or _FALLBACK
    return status if 400 <= status <= _LAST else _FALLBACK


def _response(status: int, entries: list[Entry]) -> dict[str, Any]:
    code = {"enum": [entry.code for entry in entries]}
    return {
        "description": "\n".join(f"- `{entry.code}`: {entry.message}" for entry in entries),
        "headers": _headers(status),
        "content": {
            "application/json": {
                "schema": narrowed(SCHEMAS["FailureEnvelope"], error=narrowed(SCHEMAS["Error"], code=code)),
                "examples": {_name(entry.code): _example(entry) for entry in entries},
            },
            "application/problem+json": {"schema": narrowed(PROBLEM, code=code, status={"const": status})},
        },
    }


def _headers(status: int) -> dict[str, Any]:
    headers = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
    if status in (401, 403):
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    if status in (429, 500, 502, 503, 504):
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return headers


def _example(entry: Entry) -> dict[str, Any]:
    error: dict[str, Any] = {
        "code": entry.code,
        "message": entry.message,
        "issues": [],
        "retryable": entry.retryable,
    }
    if entry.code == "VALIDATION_ERROR":
        error["issues"] = [{"path": ["title"], "code": "missing", "message": "This is required."}]
    if entry.code == "RATE_LIMITED":
        error["retryAfter"] = 2.5
    if entry.code == "CONFIRMATION_REQUIRED":
        error["details"] = {"confirmation": {"code": "1893456000~k3x~…", "expiresAt": 1893456000}}
    meta = {"surface": "http", "durationMs": 1}
    envelope = {"ok": False, "error": error, "artifacts": [], "logs": [], "meta": meta}
    return {"summary": entry.message, "value": envelope}


def _name(code: str) -> str:
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in code
    )
