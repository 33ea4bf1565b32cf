"""The gateway's envelope, its frames, its sentinels, and what clients of it can bear."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.failures import Failure, Issue, Kind, Origin, catalogue, gateway, lookup

CATALOGUE = [
    ("invalid_json", 400, "JSON", "invalid_request_error"),
    ("invalid_body", 400, "JSON", "validation_error"),
    ("invalid_param", 400, "JSON, SSE", "invalid_request_error"),
    ("missing_param", 400, "JSON", "invalid_request_error"),
    ("unauthorized", 401, "JSON", "authentication_error"),
    ("invalid_token", 401, "JSON", "authentication_error"),
    ("missing_token", 401, "JSON", "authentication_error"),
    ("forbidden", 403, "JSON, SSE", "permission_error"),
    ("agent_not_found", 404, "JSON, SSE", "not_found_error"),
    ("conflict", 409, "JSON, SSE", "conflict_error"),
    ("payload_too_large", 413, "JSON", "invalid_request_error"),
    ("login_rejected", 422, "JSON", "authentication_error"),
    ("rate_limited", 429, "JSON", "rate_limit_error"),
    ("internal_error", 500, "JSON, SSE", "api_error"),
    ("agent_offline", 503, "JSON, SSE", "api_error"),
    ("agent_service_unavailable", 503, "JSON, SSE", "api_error"),
    ("auth_unavailable", 503, "JSON", "api_error"),
    ("auth_transient", 503, "JSON", "api_error"),
    ("refresh_transient", 503, "JSON", "api_error"),
    ("session_unavailable", 503, "JSON", "api_error"),
    ("service_timeout", 504, "JSON, SSE", "api_error"),
]
SENTINELS = [
    ("AgentNotFound", "agent_not_found", 404, None),
    ("TaskNotFound", "agent_not_found", 404, None),
    ("AgentOffline", "agent_service_unavailable", 503, "agent is offline"),
    ("Misconfigured", "agent_service_unavailable", 503, "message service not configured"),
    ("StreamUnavailable", "agent_service_unavailable", 503, "streaming not configured"),
    ("Timeout", "service_timeout", 504, None),
    ("TaskRejected", "conflict", 409, "agent rejected the request"),
    ("TaskClosed", "conflict", 409, "task is already closed"),
    ("Duplicate", "conflict", 409, "duplicate idempotency key"),
    ("PermissionDenied", "forbidden", 403, None),
    ("AnythingElse", "internal_error", 500, None),
]


@pytest.mark.parametrize(("code", "status", "where", "type"), CATALOGUE, ids=[row[0] for row in CATALOGUE])
def test_a_code_has_the_status_place_and_type_of_the_contract(
    code: str, status: int, where: str, type: str
) -> None:
    failure = lookup("gateway", code)()
    assert gateway.http_status(failure) == status
    assert gateway.render(failure)["error"]["type"] == type
    [entry] = [e for e in catalogue("gateway") if e.code == code]
    assert (entry.http_status, entry.where) == (status, where)


def test_an_envelope_is_what_the_page_shows() -> None:
    assert gateway.render(gateway.AgentNotFound()) == {
        "success": False,
        "error": {
            "type": "not_found_error",
            "code": "agent_not_found",
            "message": "Agent not found.",
            "details": {},
        },
    }


def test_request_id_and_parameter_are_told_when_known() -> None:
    error = gateway.render(gateway.InvalidParam("too long", field="deadline_ms"), request_id="req-1")["error"]
    assert (error["request_id"], error["param"]) == ("req-1", "deadline_ms")


@pytest.mark.parametrize("kind", Kind)
def test_every_type_is_one_of_the_eight_and_every_metadata_value_a_string(kind: Kind) -> None:
    failure = Failure(kind, "m", details={"n": 1, "s": "x", "o": {}, "b": True}, expected="e", retry_after=1)
    error = gateway.render(failure)["error"]
    assert error["type"] in gateway.TYPES
    assert all(isinstance(value, str) for value in error["metadata"].values())
    assert error["metadata"]["s"] == "x"
    assert isinstance(error["details"], dict)


@pytest.mark.parametrize(("name", "code", "status", "message"), SENTINELS, ids=[row[0] for row in SENTINELS])
def test_a_sentinel_has_the_code_status_and_message_of_the_table(
    name: str, code: str, status: int, message: str | None
) -> None:
    for spelling in (name, f"ErrInvoker{name}"):
        failure = gateway.sentinel(spelling)
        assert (failure.code, gateway.http_status(failure)) == (code, status)
        if message is not None:
            assert failure.message == message


def test_an_offline_agent_gives_the_other_code_as_the_reason() -> None:
    error = gateway.render(gateway.sentinel("AgentOffline"))["error"]
    assert (error["code"], error["metadata"]["reason"]) == ("agent_service_unavailable", "agent_offline")


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [
        (gateway.RateLimited(retry_after=1.2), 2),
        (gateway.RateLimited(retry_after=0), 1),
        (gateway.RateLimited(retry_after=7200), 60),
        (gateway.AgentOffline(retry_after=3), 3),
        (Failure(Kind.busy, retry_after=5), 5),
        (gateway.RateLimited(), None),
        (gateway.PayloadTooLarge(retry_after=5), None),
        (gateway.Conflict(retry_after=5), None),
        (gateway.ServiceTimeout(retry_after=5), None),
        (gateway.RateLimited(retry_after=float("nan")), None),
    ],
    ids=str,
)
def test_retry_after_is_small_and_whole_and_never_on_a_413(failure: Failure, seconds: int | None) -> None:
    assert gateway.retry_after(failure) == seconds


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("rate_limited", True),
        ("internal_error", True),
        ("agent_offline", True),
        ("agent_service_unavailable", True),
        ("auth_transient", True),
        ("service_timeout", False),
        ("conflict", False),
        ("payload_too_large", False),
        ("agent_reply_error", False),
    ],
)
def test_retry_advice_is_the_contract_s(code: str, again: bool) -> None:
    assert gateway.retryable(lookup("gateway", code)()) is again
    assert gateway.retryable(lookup("gateway", code)(retryable=not again)) is not again


def test_an_error_frame_says_what_the_blocking_call_would_have() -> None:
    assert gateway.error_frame(gateway.sentinel("Timeout")) == {
        "type": "error",
        "code": "service_timeout",
        "status_code": 504,
        "message": "agent invocation timed out",
    }


def test_a_done_frame_mirrors_the_error_frame() -> None:
    assert gateway.done_frame(gateway.sentinel("Timeout"), text="so far", context_id="ch-1") == {
        "type": "done",
        "text": "",
        "context_id": "ch-1",
        "is_error": True,
        "error": "agent invocation timed out",
        "code": "service_timeout",
    }


def test_a_done_frame_of_a_success_has_the_whole_text() -> None:
    assert gateway.done_frame(text="hello", context_id="ch-1") == {
        "type": "done",
        "text": "hello",
        "context_id": "ch-1",
        "is_error": False,
    }


def test_an_agent_s_own_error_is_told_in_done_only() -> None:
    failure = gateway.AgentReplyError("I cannot do that")
    done = gateway.done_frame(failure)
    assert (done["code"], done["text"], done["error"]) == (
        "agent_reply_error",
        "I cannot do that",
        "I cannot do that",
    )
    assert gateway.render(failure)["error"]["code"] == "agent_service_unavailable"
    assert gateway.error_frame(failure)["code"] == "agent_service_unavailable"
    for told in (done, gateway.render(failure), gateway.error_frame(failure)):
        assert type(gateway.parse(told)) is gateway.AgentReplyError


def test_a_reply_that_failed_in_band_is_read_as_the_agent_s_own_error() -> None:
    reply = {"success": True, "data": {"text": "no", "context_id": "c", "is_error": True}}
    failure = gateway.parse(reply)
    assert (failure.code, failure.message) == ("agent_reply_error", "no")


@pytest.mark.parametrize("code", [row[0] for row in CATALOGUE])
def test_frames_are_read_back_as_what_they_told(code: str) -> None:
    failure = lookup("gateway", code)("what happened")
    for frame in (gateway.error_frame(failure), gateway.done_frame(failure)):
        back = gateway.parse(frame)
        assert (type(back), back.code, back.message) == (type(failure), code, "what happened")


def test_a_foreign_failure_keeps_its_origin_in_frames() -> None:
    failure = Failure(Kind.exhausted, "out of tokens")
    for frame in (gateway.error_frame(failure), gateway.done_frame(failure)):
        back = gateway.parse(frame)
        assert (back.kind, back.code) == (Kind.exhausted, "INTERNAL_ERROR")


def test_frames_are_redacted() -> None:
    failure = gateway.Conflict("password=hunter2")
    assert "hunter2" not in str([gateway.error_frame(failure), gateway.done_frame(failure)])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"code": "not_found", "message": "m"}, Kind.not_found),
        ({"code": "conflict.invalid_state", "message": "m"}, Kind.conflict),
        ({"code": "task_rejected", "message": "m"}, Kind.conflict),
        ({"code": "agent_unavailable", "message": "m"}, Kind.unavailable),
        ({"code": "agent_timeout", "message": "m"}, Kind.timeout),
        ({"code": "internal", "message": "m"}, Kind.internal),
        ({"code": "agent_busy", "message": "m"}, Kind.busy),
        ({"code": "device_offline", "message": "m"}, Kind.unavailable),
        ({"code": "insufficient_scope", "message": "m"}, Kind.forbidden),
        ({"code": "OPERATION_NOT_CANCELLABLE", "message": "m", "httpStatus": 409}, Kind.conflict),
        ({"code": "quite_new", "message": "m", "type": "permission_error"}, Kind.forbidden),
        ({"code": "quite_new", "message": "m", "type": "odd"}, Kind.upstream),
        ({"type": "error", "code": "quite_new", "message": "m", "status_code": 504}, Kind.timeout),
    ],
    ids=str,
)
def test_codes_outside_the_catalogue_are_read_and_kept(body: dict[str, Any], kind: Kind) -> None:
    failure = gateway.parse(body)
    assert (failure.kind, failure.code) == (kind, body["code"])


def test_issues_and_origin_travel_in_details_and_metadata() -> None:
    failure = Failure(
        Kind.too_large,
        "m",
        issues=[Issue(("a",), "size", "too big")],
        details={"origin": "mine", "note": "n"},
        origin=Origin("host", "file_too_large"),
    )
    error = gateway.render(failure)["error"]
    assert error["metadata"] == {"note": "n", "origin": "host/file_too_large"}
    back = gateway.parse({"success": False, "error": error})
    assert back.issues == failure.issues
    assert back.origin == Origin("host", "file_too_large")
    assert back.details == {"note": "n"}


def test_prose_in_place_of_an_error_object_is_read_as_the_message() -> None:
    assert gateway.parse({"success": False, "error": "down for repairs"}).message == "down for repairs"
