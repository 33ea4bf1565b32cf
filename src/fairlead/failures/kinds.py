"""What can go wrong, in 23 words, and the word each wire has for it.

`PIVOT` is the one table through which a failure of one family is told in another's words.
It knows words and numbers only; what a code means in full stands with the code, in its family's module.
"""

# ruff: noqa: E501 (the pivot is a table)

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What went wrong, whoever is told."""

    malformed = "malformed"
    invalid_input = "invalid_input"
    invalid_output = "invalid_output"
    unserializable = "unserializable"
    unauthenticated = "unauthenticated"
    forbidden = "forbidden"
    outside_scope = "outside_scope"
    needs_confirmation = "needs_confirmation"
    refused_by_user = "refused_by_user"
    unknown_action = "unknown_action"
    not_found = "not_found"
    unsupported = "unsupported"
    conflict = "conflict"
    too_large = "too_large"
    rate_limited = "rate_limited"
    busy = "busy"
    timeout = "timeout"
    cancelled = "cancelled"
    upstream = "upstream"
    unavailable = "unavailable"
    exhausted = "exhausted"
    misconfigured = "misconfigured"
    internal = "internal"


class Words(NamedTuple):
    """One row of the pivot: the word on each wire, and what follows from the kind on two of them."""

    action: str
    http_status: int
    exit_code: int
    retryable: bool
    tool: str
    host: str
    gateway: str
    runtime: str
    category: str

    def on(self, family: str) -> str:
        """The word this kind has on a family's wire."""
        word: str = getattr(self, family)
        return word


# fmt: off
PIVOT: dict[Kind, Words] = {
    #                                action code           HTTP exit again?  tool kind         host code               gateway code                 runtime code          category
    Kind.malformed:          Words("VALIDATION_ERROR",           400, 2, False, "invalid_args",    "invalid_request",        "invalid_json",              "parse_error",        "invalid"),
    Kind.invalid_input:      Words("VALIDATION_ERROR",           400, 2, False, "invalid_args",    "invalid_request",        "invalid_body",              "validation_error",   "invalid"),
    Kind.invalid_output:     Words("OUTPUT_VALIDATION_ERROR",    502, 2, False, "execution_error", "serialization_error",    "internal_error",            "validation_error",   "invalid"),
    Kind.unserializable:     Words("OUTPUT_SERIALIZATION_ERROR", 502, 2, False, "execution_error", "serialization_error",    "internal_error",            "internal_error",     "internal"),
    Kind.unauthenticated:    Words("AUTHENTICATION_ERROR",       401, 3, False, "rejected",        "unauthorized",           "unauthorized",              "tool_denied",        "denied"),
    Kind.forbidden:          Words("AUTHORIZATION_ERROR",        403, 3, False, "rejected",        "forbidden",              "forbidden",                 "tool_denied",        "denied"),
    Kind.outside_scope:      Words("AUTHORIZATION_ERROR",        403, 3, False, "rejected",        "access_denied",          "forbidden",                 "docstore_denied",    "denied"),
    Kind.needs_confirmation: Words("CONFIRMATION_REQUIRED",      409, 3, False, "rejected",        "forbidden",              "conflict",                  "tool_denied",        "denied"),
    Kind.refused_by_user:    Words("AUTHORIZATION_ERROR",        403, 3, False, "user_denied",     "forbidden",              "forbidden",                 "tool_denied",        "denied"),
    Kind.unknown_action:     Words("ACTION_NOT_FOUND",           404, 4, False, "tool_not_found",  "not_found",              "agent_not_found",           "unknown_tool",       "not_found"),
    Kind.not_found:          Words("NOT_FOUND",                  404, 4, False, "not_found",       "not_found",              "agent_not_found",           "docstore_not_found", "not_found"),
    Kind.unsupported:        Words("UNSUPPORTED_SURFACE",        405, 4, False, "unavailable",     "not_supported",          "invalid_param",             "tool_not_lowerable", "invalid"),
    Kind.conflict:           Words("CONFLICT",                   409, 1, False, "rejected",        "invalid_request",        "conflict",                  "validation_error",   "invalid"),
    Kind.too_large:          Words("PAYLOAD_TOO_LARGE",          413, 2, False, "invalid_args",    "file_too_large",         "payload_too_large",         "validation_error",   "invalid"),
    Kind.rate_limited:       Words("RATE_LIMITED",               429, 5, True,  "unavailable",     "rate_limit_exceeded",    "rate_limited",              "api_error",          "unavailable"),
    Kind.busy:               Words("CONCURRENCY_LIMIT",          429, 5, True,  "unavailable",     "plugin_busy",            "rate_limited",              "process_error",      "unavailable"),
    Kind.timeout:            Words("TIMEOUT",                    504, 124, True, "timeout",        "host_timeout",           "service_timeout",           "process_error",      "unavailable"),
    Kind.cancelled:          Words("CANCELLED",                  499, 130, False, "execution_error", "cancelled",            "conflict",                  "process_error",      "unavailable"),
    Kind.upstream:           Words("EXTERNAL_SERVICE_ERROR",     502, 5, True,  "execution_error", "inference_error",        "agent_service_unavailable", "api_error",          "unavailable"),
    Kind.unavailable:        Words("EXTERNAL_SERVICE_ERROR",     502, 5, True,  "unavailable",     "context_unavailable",    "agent_service_unavailable", "mcp_disconnected",   "unavailable"),
    Kind.exhausted:          Words("INTERNAL_ERROR",             500, 1, False, "execution_error", "max_iterations_reached", "internal_error",            "max_tokens",         "unavailable"),
    Kind.misconfigured:      Words("INTERNAL_ERROR",             500, 1, False, "unavailable",     "context_unavailable",    "agent_service_unavailable", "config_error",       "config"),
    Kind.internal:           Words("INTERNAL_ERROR",             500, 1, False, "execution_error", "inference_error",        "internal_error",            "internal_error",     "internal"),
}
# fmt: on
