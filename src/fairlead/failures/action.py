"""The action family: the codes of the runtime, its surfaces and its client, and the envelope's `error`.

HTTP status, exit code and retry advice follow from the kind; a code states its own where the contract does.
The envelope around the error (data, logs, meta) belongs to the runtime.
"""

from __future__ import annotations

from typing import Any

from fairlead.failures import wire
from fairlead.failures.failure import Entry, Failure
from fairlead.failures.kinds import PIVOT, Kind
from fairlead.failures.redaction import DEFAULT, Redactor


class ActionNotFound(Failure, code="ACTION_NOT_FOUND", kind=Kind.unknown_action):
    """There is no action of this name."""


class ValidationError(Failure, code="VALIDATION_ERROR", kind=Kind.invalid_input):
    """The input does not fit the action's schema."""


class OutputValidationError(Failure, code="OUTPUT_VALIDATION_ERROR", kind=Kind.invalid_output):
    """The action returned something its output schema does not allow."""


class OutputSerializationError(Failure, code="OUTPUT_SERIALIZATION_ERROR", kind=Kind.unserializable):
    """The action returned something JSON cannot hold."""


class AuthenticationError(Failure, code="AUTHENTICATION_ERROR", kind=Kind.unauthenticated):
    """The caller has not said who they are, or it could not be verified."""


class AuthorizationError(Failure, code="AUTHORIZATION_ERROR", kind=Kind.forbidden):
    """The caller may not do this."""


class RateLimited(Failure, code="RATE_LIMITED", kind=Kind.rate_limited):
    """Too many calls in a short time; wait, then send the same again."""


class Timeout(Failure, code="TIMEOUT", kind=Kind.timeout):
    """The action did not finish in the time it had."""


class Cancelled(Failure, code="CANCELLED", kind=Kind.cancelled):
    """The call was cancelled before it finished."""


class Conflict(Failure, code="CONFLICT", kind=Kind.conflict):
    """The call does not fit the present state, which something else has changed or holds."""


class ExternalServiceError(Failure, code="EXTERNAL_SERVICE_ERROR", kind=Kind.upstream):
    """A service the action depends on failed."""


class InternalError(Failure, code="INTERNAL_ERROR", kind=Kind.internal):
    """The action failed in a way it did not foresee."""


class UnsupportedSurface(Failure, code="UNSUPPORTED_SURFACE", kind=Kind.unsupported):
    """The action is not offered on this surface."""


class UnsafeAction(Failure, code="UNSAFE_ACTION", kind=Kind.forbidden, exit_code=1):
    """The action is held to be unsafe here and was not run."""


class ConfirmationRequired(Failure, code="CONFIRMATION_REQUIRED", kind=Kind.needs_confirmation):
    """The action needs to be confirmed before it runs; call it again with the confirmation."""


class ConcurrencyLimit(Failure, code="CONCURRENCY_LIMIT", kind=Kind.busy):
    """As many calls of this action as are allowed at once are running already."""


class NotFound(Failure, code="NOT_FOUND", kind=Kind.not_found):
    """What was asked for does not exist, or is not visible to the caller."""


class InvalidJsonRunnerPayload(Failure, code="INVALID_JSON_RUNNER_PAYLOAD", kind=Kind.malformed):
    """The JSON runner takes an object that names an action."""


class InvalidJsonBody(Failure, code="INVALID_JSON_BODY", kind=Kind.malformed):
    """The request's body is not JSON."""


class UnsupportedMediaType(Failure, code="UNSUPPORTED_MEDIA_TYPE", kind=Kind.unsupported, http_status=415):
    """The request's content type is not one this surface reads; send application/json."""


class PayloadTooLarge(Failure, code="PAYLOAD_TOO_LARGE", kind=Kind.too_large):
    """The request is larger than this surface takes."""


class MethodNotAllowed(Failure, code="METHOD_NOT_ALLOWED", kind=Kind.unsupported):
    """This address does not take the request's method; the Allow header lists those it takes."""


class ResponseTooLarge(Failure, code="RESPONSE_TOO_LARGE", kind=Kind.unserializable):
    """The answer is larger than this surface sends; ask for less at a time."""


class HttpServerError(Failure, code="HTTP_SERVER_ERROR", kind=Kind.internal):
    """The HTTP surface failed before the action could answer."""


class DevServerError(Failure, code="DEV_SERVER_ERROR", kind=Kind.internal):
    """The development console failed before the action could answer."""


class UntrustedRemoteIdentity(Failure, code="UNTRUSTED_REMOTE_IDENTITY", kind=Kind.forbidden):
    """A remote call cannot carry the caller's identity; let the server find it from the credentials."""


class TransportError(Failure, code="TRANSPORT_ERROR", kind=Kind.unavailable):
    """The server could not be reached, or the connection broke."""


class InvalidResponse(Failure, code="INVALID_RESPONSE", kind=Kind.upstream):
    """The server answered with something that is not an envelope."""


def http_status(failure: Failure) -> int:
    """The HTTP status that tells this failure."""
    status: int | None = wire.fact(failure, "action", "http_status")
    return PIVOT[failure.kind].http_status if status is None else status


def exit_code(failure: Failure) -> int:
    """The exit code of a command that ends with this failure."""
    code: int | None = wire.fact(failure, "action", "exit_code")
    return PIVOT[failure.kind].exit_code if code is None else code


def retryable(failure: Failure) -> bool:
    """Whether the same call, sent again, may succeed."""
    return _default_retryable(failure) if failure.retryable is None else failure.retryable


def render(failure: Failure, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The `error` of a failed envelope, redacted."""
    shown, code = redactor.failure(failure), wire.word(failure, "action")
    error: dict[str, Any] = {
        "code": code,
        "message": shown.message,
        "issues": wire.issues(shown),
        "retryable": retryable(failure),
    }
    if shown.field is not None:
        error["field"] = shown.field
    if shown.expected is not None:
        error["expected"] = shown.expected
    if shown.details:
        error["details"] = wire.plain(shown.details)
    if (seconds := wire.number(failure.retry_after)) is not None:
        error["retryAfter"] = seconds
    if (carried := wire.origin(failure, "action", code)) is not None:
        error["origin"] = carried
    return error


def parse(data: Any) -> Failure:
    """The failure in an `error`, in a whole failed envelope, or in the JSON text of either. Never raises."""
    sent = wire.load(data)
    error = wire.members(sent)
    if isinstance(error.get("error"), dict):
        error = error["error"]
    code, message = wire.code_of(error.get("code")), wire.text(error.get("message"))
    if code is None and message is None:
        return wire.unreadable("action", sent)
    failure = wire.receive(
        "action",
        code or PIVOT[Kind.upstream].action,
        carried=error.get("origin"),
        message=message,
        field=wire.text(error.get("field")),
        expected=wire.text(error.get("expected")),
        issues=wire.read_issues(error.get("issues")),
        details=wire.members(error.get("details")),
        retry_after=wire.number(error.get("retryAfter")),
    )
    failure.retryable = wire.flag(error.get("retryable"), _default_retryable(failure))
    return failure


def entry(cls: type[Failure]) -> Entry:
    """What the catalogue says of a code of this family."""
    one = wire.sample(cls)
    return wire.entry(cls, http=http_status(one), exit=exit_code(one), retry=retryable(one))


def _default_retryable(failure: Failure) -> bool:
    stated: bool | None = wire.fact(failure, "action", "retryable")
    return PIVOT[failure.kind].retryable if stated is None else stated
