"""The host's error envelope and the status its log shows."""

from __future__ import annotations

import pytest

from fairlead.failures import Failure, Kind, catalogue, host, lookup

STATUS = {
    "invalid_request": 400,
    "invalid_task_id": 400,
    "unauthorized": 401,
    "consent_required": 401,
    "forbidden": 403,
    "access_denied": 403,
    "not_found": 404,
    "rate_limit_exceeded": 429,
    "plugin_busy": 429,
    "task_limit_reached": 429,
    "not_supported": 501,
}
SEED = (
    "invalid_request invalid_task_id unauthorized forbidden access_denied not_found rate_limit_exceeded "
    "plugin_busy task_limit_reached not_supported context_unavailable max_iterations_reached cancelled "
    "serialization_error inference_error file_too_large"
)
LATER = (
    "host_timeout context_overflow clarify_requested embedding_error built_in_agent_not_exposable "
    "missing_agent_context ssrf_blocked request_too_large response_too_large database_error read_error "
    "consent_required connection_timeout connection_refused dns_failure tls_error too_many_redirects "
    "network_error invalid_response"
)


def test_the_host_has_the_sixteen_codes_and_the_later_ones() -> None:
    assert [entry.code for entry in catalogue("host")][:16] == SEED.split()
    assert {entry.code for entry in catalogue("host")} == {*SEED.split(), *LATER.split()}


@pytest.mark.parametrize("code", [*SEED.split(), *LATER.split()])
def test_the_log_s_status_follows_the_code(code: str) -> None:
    assert host.insights_status(lookup("host", code)()) == STATUS.get(code, 500)


def test_a_foreign_failure_has_the_status_of_the_word_it_is_told_by() -> None:
    assert host.insights_status(Failure(Kind.rate_limited)) == 429
    assert host.insights_status(Failure(Kind.timeout)) == 500


def test_an_error_is_a_code_a_message_and_what_stands_beside() -> None:
    failure = host.Cancelled(
        "stopped", details={"stream_id": "s", "partial_content": "so far", "error": "shadow"}
    )
    assert host.render(failure) == {
        "error": "cancelled",
        "message": "stopped",
        "stream_id": "s",
        "partial_content": "so far",
    }


def test_a_rate_limit_says_how_many_milliseconds_to_wait() -> None:
    assert host.render(host.RateLimitExceeded("slow down", retry_after=1.25))["retry_after_ms"] == 1250
    assert host.render(host.RateLimitExceeded("slow down"))["retry_after_ms"] == 60_000
    assert host.parse({"error": "rate_limit_exceeded", "retry_after_ms": 60000}).retry_after == 60


def test_a_bare_code_is_read_with_its_default_message() -> None:
    failure = host.parse({"error": "not_found"})
    assert (type(failure), failure.message) == (host.NotFound, host.NotFound.__doc__)


def test_bare_text_as_the_database_gives_it_is_read_as_the_message() -> None:
    failure = host.parse('{"error":"no such table: tasks"}')
    assert (failure.kind, failure.message) == (Kind.upstream, "no such table: tasks")


def test_an_unknown_code_is_kept() -> None:
    failure = host.parse({"error": "quite_new", "message": "m", "extra": 1})
    assert (failure.code, failure.kind, failure.details) == ("quite_new", Kind.upstream, {"extra": 1})
    assert host.render(failure) == {"error": "quite_new", "message": "m", "extra": 1}
