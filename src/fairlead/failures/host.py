"""The host family: the codes plugins see from the host's callbacks, and the `{"error", "message"}` envelope.

`insights_status` is the number the host's own log shows for a code. The callbacks belong elsewhere.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from fairlead.failures import wire
from fairlead.failures.failure import Entry, Failure, lookup, register_base
from fairlead.failures.kinds import PIVOT, Kind
from fairlead.failures.redaction import DEFAULT, Redactor

RESERVED = ("error", "message", "retry_after_ms")
# The host counts calls in a sliding window of a minute.
WINDOW_MS = 60_000
# What every reader of JSON can hold as a whole number.
_LONGEST_WAIT_MS = 2**53


class HostFailure(Failure, family="host"):
    """A failure in the host family's words."""


register_base(HostFailure)


class InvalidRequest(HostFailure, code="invalid_request", kind=Kind.malformed, http_status=400):
    """The request is not the JSON this callback takes."""


class InvalidTaskId(HostFailure, code="invalid_task_id", kind=Kind.invalid_input, http_status=400):
    """The task id is not a UUID."""


class Unauthorized(HostFailure, code="unauthorized", kind=Kind.unauthenticated, http_status=401):
    """The credentials are missing or not valid."""


class Forbidden(HostFailure, code="forbidden", kind=Kind.forbidden, http_status=403):
    """This exists, but the plugin may not have it."""


class AccessDenied(HostFailure, code="access_denied", kind=Kind.outside_scope, http_status=403):
    """The path is outside what plugins may read."""


class NotFound(HostFailure, code="not_found", kind=Kind.not_found, http_status=404):
    """There is no such task, record or file, or it belongs to another plugin."""


class RateLimitExceeded(HostFailure, code="rate_limit_exceeded", kind=Kind.rate_limited, http_status=429):
    """The plugin has used up its calls for this minute."""


class PluginBusy(HostFailure, code="plugin_busy", kind=Kind.busy, http_status=429):
    """The plugin has as many model calls running as it may have at once."""


class TaskLimitReached(HostFailure, code="task_limit_reached", kind=Kind.busy, http_status=429):
    """The host runs as many tasks as it may run at once."""


class NotSupported(HostFailure, code="not_supported", kind=Kind.unsupported, http_status=501):
    """This slot is reserved, or what it did has been retired."""


class ContextUnavailable(HostFailure, code="context_unavailable", kind=Kind.unavailable):
    """The call came from a thread that belongs to no plugin the host knows."""


class MaxIterationsReached(HostFailure, code="max_iterations_reached", kind=Kind.exhausted):
    """The completion used up its iterations without an answer."""


class Cancelled(HostFailure, code="cancelled", kind=Kind.cancelled):
    """The streaming completion was cancelled."""


class SerializationError(HostFailure, code="serialization_error", kind=Kind.unserializable):
    """The answer could not be written as JSON."""


class InferenceError(HostFailure, code="inference_error", kind=Kind.upstream):
    """The model, or the service behind it, failed."""


class FileTooLarge(HostFailure, code="file_too_large", kind=Kind.too_large):
    """The file is larger than a plugin may read at once."""


class HostTimeout(HostFailure, code="host_timeout", kind=Kind.timeout):
    """The host did not finish the call in the time it had."""


class ContextOverflow(HostFailure, code="context_overflow", kind=Kind.exhausted):
    """The conversation no longer fits the model's context."""


class ClarifyRequested(HostFailure, code="clarify_requested", kind=Kind.needs_confirmation):
    """The agent needs an answer from a person before it can go on."""


class EmbeddingError(HostFailure, code="embedding_error", kind=Kind.upstream):
    """The embedding model failed."""


class BuiltInAgentNotExposable(HostFailure, code="built_in_agent_not_exposable", kind=Kind.forbidden):
    """The built-in default agent cannot be used by a plugin; bind an agent of your own."""


class MissingAgentContext(HostFailure, code="missing_agent_context", kind=Kind.misconfigured):
    """The call needs an agent, and none is bound to it."""


class ConsentRequired(HostFailure, code="consent_required", kind=Kind.needs_confirmation, http_status=401):
    """The user has not agreed to this plugin being loaded."""


class SsrfBlocked(HostFailure, code="ssrf_blocked", kind=Kind.outside_scope):
    """The address is on a private or local network, which plugins may not reach."""


class RequestTooLarge(HostFailure, code="request_too_large", kind=Kind.too_large):
    """The request's body is larger than the host sends."""


class ResponseTooLarge(HostFailure, code="response_too_large", kind=Kind.too_large):
    """The response's body is larger than the host takes."""


class DatabaseError(HostFailure, code="database_error", kind=Kind.invalid_input):
    """The plugin's database refused the statement, or could not be opened."""


class ReadError(HostFailure, code="read_error", kind=Kind.unavailable):
    """The file exists but could not be read."""


class ConnectionTimeout(HostFailure, code="connection_timeout", kind=Kind.timeout):
    """The server did not answer in time."""


class ConnectionRefused(HostFailure, code="connection_refused", kind=Kind.unavailable):
    """The server refused the connection."""


class DnsFailure(HostFailure, code="dns_failure", kind=Kind.unavailable):
    """The server's name could not be resolved."""


class TlsError(HostFailure, code="tls_error", kind=Kind.upstream):
    """No secure connection could be made: the certificate or the handshake failed."""


class TooManyRedirects(HostFailure, code="too_many_redirects", kind=Kind.upstream):
    """The server redirected more often than the host follows."""


class NetworkError(HostFailure, code="network_error", kind=Kind.unavailable):
    """The network failed during the request."""


class InvalidResponse(HostFailure, code="invalid_response", kind=Kind.upstream):
    """The server's answer is not HTTP the host can read."""


def insights_status(failure: Failure) -> int:
    """The status the host's log shows: a code's own, else 500."""
    stated: int | None = lookup("host", wire.word(failure, "host")).facts.get("http_status")
    return 500 if stated is None else stated


def render(failure: Failure, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The error envelope, redacted; a wait is told in milliseconds."""
    shown, code = redactor.failure(failure), wire.word(failure, "host")
    beside = wire.extras(shown, "host", code, RESERVED)
    if (seconds := beside.pop("retry_after", None)) is not None:
        beside["retry_after_ms"] = ceil(min(seconds * 1000, _LONGEST_WAIT_MS))
    elif code == RateLimitExceeded.code:
        beside["retry_after_ms"] = WINDOW_MS
    return {"error": code, "message": shown.message, **beside}


def parse(data: Any) -> Failure:
    """The failure in an error envelope, or in its JSON text; `error` may hold prose. Never raises."""
    sent = wire.load(data)
    error = wire.members(sent)
    code, said = wire.code_of(error.get("error")), wire.text(error.get("error"))
    message = wire.text(error.get("message"))
    if said is None and message is None:
        return wire.unreadable("host", sent)
    attributes = wire.read_extras(error, RESERVED)
    if (wait := wire.number(error.get("retry_after_ms"))) is not None:
        attributes["retry_after"] = wait / 1000
    return wire.receive(
        "host",
        code or PIVOT[Kind.upstream].host,
        carried=error.get("origin"),
        message=message or (said if code is None else None),
        **attributes,
    )


def entry(cls: type[Failure]) -> Entry:
    """What the catalogue says of a code of this family."""
    one = wire.sample(cls)
    return wire.entry(cls, http=insights_status(one), exit=None, retry=PIVOT[cls.kind].retryable)
