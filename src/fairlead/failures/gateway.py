"""The gateway family: the codes of the agents' HTTP API, its error envelope and its stream's last frames.

Status and type stand with each code. `agent_reply_error` is told in a `done` frame only.
Headers, request ids and the frames that carry text belong to the gateway itself.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from fairlead.failures import wire
from fairlead.failures.failure import Entry, Failure, register_base
from fairlead.failures.kinds import PIVOT, Kind
from fairlead.failures.redaction import DEFAULT, Redactor

TYPES = (
    "api_error",
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "rate_limit_error",
    "not_found_error",
    "conflict_error",
    "validation_error",
)
LONGEST_RETRY_AFTER = 60
_REQUEST, _AUTH = "invalid_request_error", "authentication_error"
_BOTH = "JSON, SSE"


class GatewayFailure(Failure, family="gateway"):
    """A failure in the gateway family's words."""


register_base(GatewayFailure)


class InvalidJson(GatewayFailure, code="invalid_json", kind=Kind.malformed, http_status=400, type=_REQUEST):
    """The request's body is not JSON."""


class InvalidBody(
    GatewayFailure, code="invalid_body", kind=Kind.invalid_input, http_status=400, type="validation_error"
):
    """The request's body does not fit this operation."""


class InvalidParam(
    GatewayFailure,
    code="invalid_param",
    kind=Kind.invalid_input,
    http_status=400,
    type=_REQUEST,
    where=_BOTH,
):
    """A parameter has a value this operation does not take."""


class MissingParam(
    GatewayFailure, code="missing_param", kind=Kind.invalid_input, http_status=400, type=_REQUEST
):
    """A required parameter is missing."""


class Unauthorized(
    GatewayFailure, code="unauthorized", kind=Kind.unauthenticated, http_status=401, type=_AUTH
):
    """The Authorization header is missing or not valid."""


class InvalidToken(
    GatewayFailure, code="invalid_token", kind=Kind.unauthenticated, http_status=401, type=_AUTH
):
    """The credential could not be verified."""


class MissingToken(
    GatewayFailure, code="missing_token", kind=Kind.unauthenticated, http_status=401, type=_AUTH
):
    """The Authorization header is empty."""


class Forbidden(
    GatewayFailure,
    code="forbidden",
    kind=Kind.forbidden,
    http_status=403,
    type="permission_error",
    where=_BOTH,
):
    """The agent belongs to someone else and is not public."""


class AgentNotFound(
    GatewayFailure,
    code="agent_not_found",
    kind=Kind.not_found,
    http_status=404,
    type="not_found_error",
    where=_BOTH,
):
    """Agent not found."""


class Conflict(
    GatewayFailure,
    code="conflict",
    kind=Kind.conflict,
    http_status=409,
    type="conflict_error",
    where=_BOTH,
):
    """The request does not fit the present state of the agent, task or conversation."""


class PayloadTooLarge(
    GatewayFailure, code="payload_too_large", kind=Kind.too_large, http_status=413, type=_REQUEST
):
    """The request's body is larger than this route takes; upload large content as a file."""


class LoginRejected(
    GatewayFailure, code="login_rejected", kind=Kind.unauthenticated, http_status=422, type=_AUTH
):
    """The login is wrong; a session that exists stays valid."""


class RateLimited(
    GatewayFailure, code="rate_limited", kind=Kind.rate_limited, http_status=429, type="rate_limit_error"
):
    """Too many requests in a short time; wait as long as Retry-After says."""


class InternalError(
    GatewayFailure, code="internal_error", kind=Kind.internal, http_status=500, retryable=True, where=_BOTH
):
    """The gateway failed unexpectedly."""


class AgentOffline(GatewayFailure, code="agent_offline", kind=Kind.unavailable, http_status=503, where=_BOTH):
    """The agent exists but is not connected."""


class AgentServiceUnavailable(
    GatewayFailure, code="agent_service_unavailable", kind=Kind.unavailable, http_status=503, where=_BOTH
):
    """The service that reaches agents is not available."""


class AuthUnavailable(GatewayFailure, code="auth_unavailable", kind=Kind.unavailable, http_status=503):
    """The authentication service cannot be reached; stay logged in and try again."""


class AuthTransient(GatewayFailure, code="auth_transient", kind=Kind.unavailable, http_status=503):
    """Authentication failed for a moment; stay logged in and try again."""


class RefreshTransient(GatewayFailure, code="refresh_transient", kind=Kind.unavailable, http_status=503):
    """The token could not be refreshed just now; stay logged in and try again."""


class SessionUnavailable(GatewayFailure, code="session_unavailable", kind=Kind.unavailable, http_status=503):
    """The session store cannot be reached; try to log in again."""


class ServiceTimeout(
    GatewayFailure,
    code="service_timeout",
    kind=Kind.timeout,
    http_status=504,
    retryable=False,
    where=_BOTH,
):
    """The agent did not answer in time and may still be running; use a task for long work."""


class AgentReplyError(
    GatewayFailure, code="agent_reply_error", kind=Kind.upstream, retryable=False, where="done frame"
):
    """The agent answered with an error of its own."""


_SENTINELS: dict[str, tuple[type[Failure], str | None]] = {
    "AgentNotFound": (AgentNotFound, None),
    "TaskNotFound": (AgentNotFound, None),
    "AgentOffline": (AgentServiceUnavailable, "agent is offline"),
    "Misconfigured": (AgentServiceUnavailable, "message service not configured"),
    "StreamUnavailable": (AgentServiceUnavailable, "streaming not configured"),
    "Timeout": (ServiceTimeout, "agent invocation timed out"),
    "TaskRejected": (Conflict, "agent rejected the request"),
    "TaskClosed": (Conflict, "task is already closed"),
    "Duplicate": (Conflict, "duplicate idempotency key"),
    "PermissionDenied": (Forbidden, None),
}

# Codes outside the catalogue that peers and older documents use. Read, never sent by us.
_HEARD = {
    "not_found": Kind.not_found,
    "task_not_found": Kind.not_found,
    "conflict.invalid_state": Kind.conflict,
    "task_rejected": Kind.conflict,
    "agent_rejected": Kind.conflict,
    "agent_busy": Kind.busy,
    "device_busy": Kind.busy,
    "agent_unavailable": Kind.unavailable,
    "device_offline": Kind.unavailable,
    "control_rate_limit_unavailable": Kind.unavailable,
    "agent_timeout": Kind.timeout,
    "action_unsupported": Kind.unsupported,
    "insufficient_scope": Kind.forbidden,
    "internal": Kind.internal,
}
_BY_STATUS = {
    400: Kind.invalid_input,
    401: Kind.unauthenticated,
    403: Kind.forbidden,
    404: Kind.not_found,
    405: Kind.unsupported,
    408: Kind.timeout,
    409: Kind.conflict,
    413: Kind.too_large,
    422: Kind.invalid_input,
    429: Kind.rate_limited,
    499: Kind.cancelled,
    500: Kind.internal,
    503: Kind.unavailable,
    504: Kind.timeout,
}
_BY_TYPE = {
    "invalid_request_error": Kind.invalid_input,
    "authentication_error": Kind.unauthenticated,
    "permission_error": Kind.forbidden,
    "rate_limit_error": Kind.rate_limited,
    "not_found_error": Kind.not_found,
    "conflict_error": Kind.conflict,
    "validation_error": Kind.invalid_input,
}


def sentinel(name: str) -> Failure:
    """The failure an invoker's sentinel stands for, `ErrInvoker` prefix or not; others are internal."""
    name = name.removeprefix("ErrInvoker")
    cls, message = _SENTINELS.get(name, (InternalError, None))
    details = {"reason": AgentOffline.code} if name == "AgentOffline" else {}
    return cls(message, details=details)


def http_status(failure: Failure) -> int:
    """The HTTP status that tells this failure."""
    status: int | None = wire.fact(failure, "gateway", "http_status")
    return 500 if status is None else status


def retry_after(failure: Failure) -> int | None:
    """The seconds for a Retry-After header, if it should have one: small, whole, where waiting helps."""
    seconds = wire.number(failure.retry_after)
    if seconds is None or http_status(failure) not in (429, 503):
        return None
    return max(1, min(ceil(seconds), LONGEST_RETRY_AFTER))


def retryable(failure: Failure) -> bool:
    """Whether the same request, sent again, may succeed."""
    if failure.retryable is not None:
        return failure.retryable
    stated: bool | None = wire.fact(failure, "gateway", "retryable")
    return PIVOT[failure.kind].retryable if stated is None else stated


def render(failure: Failure, request_id: str | None = None, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The whole error envelope, redacted."""
    shown, code = redactor.failure(failure), _code(failure)
    error: dict[str, Any] = {"type": _type(failure), "code": code, "message": shown.message}
    if request_id is not None:
        error["request_id"] = request_id
    if shown.field is not None:
        error["param"] = shown.field
    error["details"] = details = _details(shown)
    if metadata := _metadata(shown, code, details):
        error["metadata"] = metadata
    return {"success": False, "error": error}


def error_frame(failure: Failure, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The stream's `error` frame: what the blocking call would have answered."""
    code = _code(failure)
    frame: dict[str, Any] = {
        "type": "error",
        "code": code,
        "status_code": http_status(failure),
        "message": redactor.text(failure.message),
    }
    return _with_origin(frame, failure, code)


def done_frame(
    failure: Failure | None = None,
    *,
    text: str = "",
    context_id: str | None = None,
    redactor: Redactor = DEFAULT,
) -> dict[str, Any]:
    """The stream's last frame: the whole reply, or how it failed."""
    frame: dict[str, Any] = {"type": "done", "text": text}
    if context_id is not None:
        frame["context_id"] = context_id
    frame["is_error"] = failure is not None
    if failure is None:
        return frame
    code, message = wire.word(failure, "gateway"), redactor.text(failure.message)
    # The agent's own explanation is its text; of a broken transport there is none.
    frame["text"] = message if code == AgentReplyError.code else ""
    frame["error"], frame["code"] = message, code
    return _with_origin(frame, failure, code)


def parse(data: Any) -> Failure:
    """The failure in an envelope, an `error` or `done` frame, or the JSON text of either. Never raises."""
    sent = wire.load(data)
    body = wire.members(sent)
    if isinstance(body.get("error"), dict):
        body = body["error"]
    reply = wire.members(body.get("data"))
    if reply.get("is_error") is True:
        return AgentReplyError(wire.text(reply.get("text")))
    done = body.get("type") == "done"
    message = wire.text(body.get("error") if done else body.get("message", body.get("error")))
    code = wire.code_of(body.get("code"))
    if code is None and (message is None or body.get("is_error") is False):
        return wire.unreadable("gateway", sent)
    metadata = wire.members(body.get("metadata"))
    details = {**metadata, **wire.members(body.get("details"))}
    carried = body.get("origin") or _read_origin(details.pop("origin", None))
    return wire.receive(
        "gateway",
        code or PIVOT[Kind.upstream].gateway,
        carried=carried,
        hint=_hint(code, body),
        message=message,
        field=wire.text(body.get("param")),
        expected=wire.text(details.pop("expected", None)),
        issues=wire.read_issues(details.pop("issues", None)),
        retry_after=wire.number(details.pop("retry_after", None)),
        details=details,
    )


def entry(cls: type[Failure]) -> Entry:
    """What the catalogue says of a code of this family."""
    one = wire.sample(cls)
    http = None if cls is AgentReplyError else http_status(one)
    where = str(cls.facts.get("where", "JSON"))
    return wire.entry(cls, http=http, exit=None, retry=retryable(one), where=where)


def _code(failure: Failure) -> str:
    code = wire.word(failure, "gateway")
    return PIVOT[failure.kind].gateway if code == AgentReplyError.code else code


def _type(failure: Failure) -> str:
    return wire.fact(failure, "gateway", "type") or "api_error"


def _details(shown: Failure) -> dict[str, Any]:
    beside = {key: value for key, value in wire.plain(shown.details).items() if key not in wire.OURS}
    if shown.expected is not None:
        beside["expected"] = shown.expected
    if shown.issues:
        beside["issues"] = wire.issues(shown)
    if (seconds := wire.number(shown.retry_after)) is not None:
        beside["retry_after"] = seconds
    return beside


def _metadata(shown: Failure, code: str, details: dict[str, Any]) -> dict[str, str]:
    """What clients read, which is text only: the details that are, and the origin."""
    told = {key: value for key, value in details.items() if isinstance(value, str)}
    carried = wire.origin(shown, "gateway", code)
    if carried is not None:
        told["origin"] = "/".join(carried.values())
    return told


def _read_origin(told: Any) -> dict[str, str] | None:
    if not isinstance(told, str):
        return None
    return dict(zip(("family", "code", "kind"), told.split("/"), strict=False))


def _with_origin(frame: dict[str, Any], failure: Failure, code: str) -> dict[str, Any]:
    if (carried := wire.origin(failure, "gateway", code)) is not None:
        frame["origin"] = carried
    return frame


def _hint(code: str | None, body: dict[str, Any]) -> Kind | None:
    if code in _HEARD:
        return _HEARD[code]
    status = body.get("status_code", body.get("httpStatus"))
    by_status = _BY_STATUS.get(status) if isinstance(status, int) else None
    type = body.get("type")
    return by_status or (_BY_TYPE.get(type) if isinstance(type, str) else None)
