"""The action envelope's `error`: codes, status, exit codes, retry advice, and reading whatever comes back."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import _json
from fairlead.failures import Failure, Issue, Kind, Origin, action, gateway, host, lookup, runtime, tool

CONTRACT = [
    ("VALIDATION_ERROR", 400, 2, False),
    ("OUTPUT_VALIDATION_ERROR", 502, 2, False),
    ("OUTPUT_SERIALIZATION_ERROR", 502, 2, False),
    ("AUTHENTICATION_ERROR", 401, 3, False),
    ("AUTHORIZATION_ERROR", 403, 3, False),
    ("CONFIRMATION_REQUIRED", 409, 3, False),
    ("ACTION_NOT_FOUND", 404, 4, False),
    ("UNSUPPORTED_SURFACE", 405, 4, False),
    ("RATE_LIMITED", 429, 5, True),
    ("CONCURRENCY_LIMIT", 429, 5, True),
    ("EXTERNAL_SERVICE_ERROR", 502, 5, True),
    ("TIMEOUT", 504, 124, True),
    ("CANCELLED", 499, 130, False),
    ("CONFLICT", 409, 1, False),
    ("INTERNAL_ERROR", 500, 1, False),
    ("UNSAFE_ACTION", 403, 1, False),
    ("NOT_FOUND", 404, 4, False),
    ("INVALID_JSON_RUNNER_PAYLOAD", 400, 2, False),
    ("INVALID_JSON_BODY", 400, 2, False),
    ("UNSUPPORTED_MEDIA_TYPE", 415, 4, False),
    ("PAYLOAD_TOO_LARGE", 413, 2, False),
    ("METHOD_NOT_ALLOWED", 405, 4, False),
    ("RESPONSE_TOO_LARGE", 502, 2, False),
    ("HTTP_SERVER_ERROR", 500, 1, False),
    ("DEV_SERVER_ERROR", 500, 1, False),
    ("UNTRUSTED_REMOTE_IDENTITY", 403, 3, False),
    ("TRANSPORT_ERROR", 502, 5, True),
    ("INVALID_RESPONSE", 502, 5, True),
]
ODD: list[Any] = [
    None,
    0,
    True,
    "",
    "plain words",
    b"\xff\xfe",
    "{",
    "[]",
    [],
    {},
    {"error": None},
    {"error": 5},
    {"error": []},
    {"error": {}},
    {"error": "words"},
    {"code": 5, "message": None},
    {"code": "sk-abcdefghijklmnopqrst", "message": "m"},
    {"code": "x" * 1000},
    {"code": "CONFLICT", "issues": "x", "details": 5, "retryAfter": "soon", "origin": 3, "retryable": "no"},
    {"kind": {}, "message": [], "ok": False},
    {"ok": True, "result": {}},
    {"success": True, "data": {}},
    {"type": "done"},
    {"type": {}, "code": "odd", "status_code": [], "metadata": 4, "details": "x"},
    {"error": "x", "category": {}, "detail": 3},
    {"is_error": True, "content": 5},
    {"is_error": True, "content": '{"is_error": true, "content": "x"}'},
    {"origin": {"family": "nowhere", "code": "x"}, "code": "CONFLICT"},
    {"origin": {"family": "tool", "code": "x", "kind": "odd"}, "code": "CONFLICT", "error": "x"},
    object(),
    "[" * 100_000,
]
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NAMES = (
    "error code kind message detail category ok retryable origin issues type status_code is_error content "
    "metadata details param retry_after_ms field data success family path"
)
KEYS = st.sampled_from(NAMES.split())
BODIES = st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON))


@pytest.mark.parametrize(("code", "status", "exit", "retry"), CONTRACT, ids=[row[0] for row in CONTRACT])
def test_status_exit_code_and_retry_advice_follow_the_contract(
    code: str, status: int, exit: int, retry: bool
) -> None:
    failure = lookup("action", code)()
    assert action.http_status(failure) == status
    assert action.exit_code(failure) == exit
    assert action.retryable(failure) is retry


def test_a_plain_failure_renders_four_keys_and_no_more() -> None:
    assert action.render(Failure(Kind.invalid_input, "bad")) == {
        "code": "VALIDATION_ERROR",
        "message": "bad",
        "issues": [],
        "retryable": False,
    }


def test_what_a_failure_knows_besides_is_told_when_present() -> None:
    failure = Failure(
        Kind.invalid_input,
        "bad",
        field="age",
        expected="a number",
        issues=[Issue(("age", 0), "type", "wrong", "number", "string"), Issue((), "odd", "odd")],
        details={"row": 3},
        retry_after=1.5,
        retryable=True,
        origin=Origin("tool", "invalid_args"),
    )
    assert action.render(failure) == {
        "code": "VALIDATION_ERROR",
        "message": "bad",
        "issues": [
            {
                "path": ["age", 0],
                "code": "type",
                "message": "wrong",
                "expected": "number",
                "received": "string",
            },
            {"path": [], "code": "odd", "message": "odd"},
        ],
        "retryable": True,
        "field": "age",
        "expected": "a number",
        "details": {"row": 3},
        "retryAfter": 1.5,
        "origin": {"family": "tool", "code": "invalid_args"},
    }


def test_everything_told_is_read_back() -> None:
    failure = Failure(
        Kind.invalid_input,
        "bad",
        field="age",
        expected="a number",
        issues=[Issue(("age", 0), "type", "wrong", "number", "string")],
        details={"row": 3},
        retry_after=1.5,
        retryable=True,
    )
    for module in (action, tool, host, gateway, runtime):
        back = module.parse(module.render(failure))
        assert (back.field, back.expected, back.issues) == ("age", "a number", failure.issues), module
        assert (back.details, back.retry_after) == ({"row": 3}, 1.5), module
    assert action.parse(action.render(failure)).retryable is True


def test_default_retry_advice_does_not_travel_as_an_explicit_one() -> None:
    failure = action.parse(action.render(Failure(Kind.invalid_input, "bad")))
    assert failure.retryable is None
    assert tool.retryable(failure) is True


def test_a_whole_failed_envelope_and_its_text_are_read() -> None:
    envelope = {"ok": False, "error": action.render(Failure(Kind.conflict, "taken")), "meta": {}}
    for data in (envelope, _json.dumps(envelope), _json.encode(envelope)):
        assert action.parse(data).code == "CONFLICT"


def test_a_thin_envelope_made_outside_the_runtime_is_read() -> None:
    failure = action.parse({"ok": False, "error": {"code": "PAYLOAD_TOO_LARGE", "message": "too much"}})
    assert (failure.kind, failure.message) == (Kind.too_large, "too much")


def test_an_unknown_code_from_a_peer_is_kept() -> None:
    failure = action.parse(
        {"code": "BRAND_NEW", "message": "m", "issues": [{"path": "a.b", "message": "x"}, 5]}
    )
    assert (type(failure), failure.code, failure.kind) == (Failure, "BRAND_NEW", Kind.upstream)
    assert failure.issues == (Issue(("a.b",), "invalid", "x"),)
    assert action.render(failure)["code"] == "BRAND_NEW"


def test_details_json_cannot_hold_are_told_as_text() -> None:
    import datetime
    import decimal

    careless: dict[Any, Any] = {
        "when": datetime.date(2024, 1, 2),
        "price": decimal.Decimal("1.5"),
        "error": ValueError("no"),
        "big": 2**80,
        1: "one",
    }
    told = action.render(Failure(Kind.internal, "m", details=careless))
    assert told["details"] == {
        "when": "2024-01-02",
        "price": "1.5",
        "error": "ValueError: no",
        "big": 2**80,
        "1": "one",
    }
    for more in ({("a", "b"): 1}, {"odd": "\ud800"}):
        told = action.render(Failure(Kind.internal, "m", details=careless | more))
        assert told["details"]["price"] == "1.5"
        assert _json.loads(_json.encode(told))


@pytest.mark.parametrize("data", ODD, ids=[str(n) for n in range(len(ODD))])
@pytest.mark.parametrize(
    "wire", [action, tool, host, gateway, runtime], ids=lambda module: module.__name__[18:]
)
def test_odd_input_of_any_shape_becomes_a_failure(wire: Any, data: Any) -> None:
    failure = wire.parse(data)
    assert isinstance(failure, Failure)
    assert failure.message
    assert failure.code
    assert wire.parse(wire.render(failure)).kind is failure.kind


@given(JSON | BODIES)
def test_no_json_makes_parse_raise(data: Any) -> None:
    for wire in (action, tool, host, gateway, runtime):
        failure = wire.parse(data)
        again = wire.parse(wire.render(failure))
        assert again.kind is failure.kind
        assert _json.encode(wire.render(again))


@given(st.binary() | st.text())
def test_no_text_makes_parse_raise(data: Any) -> None:
    for wire in (action, tool, host, gateway, runtime):
        assert wire.parse(data).message


def test_a_file_that_is_imported_again_has_its_codes_even_when_the_first_import_is_gone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "quota.py"
    file.write_text(
        "from fairlead.failures import Failure, Kind\n"
        "class Spent(Failure, code='spent_twice', kind=Kind.rate_limited):\n    'Spent.'\n"
    )
    for name in ("quota_first", "quota_second"):
        spec = spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
        assert lookup("action", "spent_twice") is module.Spent
        del sys.modules[name]
    with pytest.raises(TypeError, match="spent_twice"):
        type("Other", (Failure,), {}, code="spent_twice", kind=Kind.conflict)
