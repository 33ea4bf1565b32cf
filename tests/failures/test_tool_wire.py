"""The tool envelope: its two shapes, known by their heads, exceptions, and bounding what a tool said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import _json
from fairlead.failures import Failure, Issue, Kind, action, lookup, tool, wire

DEFAULTS = {
    "invalid_args": True,
    "timeout": True,
    "execution_error": True,
    "unavailable": True,
    "rejected": False,
    "user_denied": False,
    "not_found": False,
    "tool_not_found": False,
}


def test_a_failure_has_the_canonical_keys() -> None:
    failure = tool.InvalidArgs("missing", field="content", expected="text")
    assert tool.render(failure, tool="write") == {
        "ok": False,
        "kind": "invalid_args",
        "message": "missing",
        "field": "content",
        "expected": "text",
        "tool": "write",
        "retryable": True,
    }


def test_a_failure_leaves_out_what_is_not_set() -> None:
    assert set(tool.render(tool.Timeout("slow"))) == {"ok", "kind", "message", "retryable"}


@pytest.mark.parametrize(("kind", "retry"), DEFAULTS.items())
def test_retry_advice_defaults_by_kind(kind: str, retry: bool) -> None:
    assert tool.render(lookup("tool", kind)())["retryable"] is retry


@pytest.mark.parametrize(("kind", "retry"), DEFAULTS.items())
def test_explicit_retry_advice_wins(kind: str, retry: bool) -> None:
    failure = lookup("tool", kind)(retryable=not retry)
    assert tool.render(failure)["retryable"] is not retry
    assert tool.parse(tool.render(failure)).retryable is not retry


def test_free_metadata_stands_beside_and_cannot_shadow_the_seven_keys() -> None:
    shadow = dict.fromkeys(("ok", "kind", "message", "retryable", "field", "expected"), "shadow")
    told = tool.render(tool.ExecutionError("m", details={**shadow, "exit_code": 3}))
    assert told == {"ok": False, "exit_code": 3, "kind": "execution_error", "message": "m", "retryable": True}


def test_a_tool_s_name_survives_the_round_trip() -> None:
    told = tool.render(tool.NotFound("m"), tool="read")
    assert tool.render(tool.parse(told)) == told


def test_a_success_carries_any_result_and_warnings_only_when_there_are_some() -> None:
    assert tool.success({"a": 1}, tool="t") == {"ok": True, "result": {"a": 1}, "tool": "t"}
    assert tool.success() == {"ok": True, "result": None}
    assert tool.success(1, warnings=["slow"])["warnings"] == ["slow"]


def test_a_text_is_a_success_with_a_text() -> None:
    assert tool.text("found", tool="t") == {"ok": True, "result": {"text": "found"}, "tool": "t"}


def test_text_form_has_ok_first_then_sorted_keys_and_plain_slashes() -> None:
    told = tool.dumps(tool.success({"z": "a/b", "a": 1}, tool="t", warnings=["w"]))
    assert told == '{"ok":true,"result":{"a":1,"z":"a/b"},"tool":"t","warnings":["w"]}'
    failed = tool.dumps(tool.render(tool.NotFound("no /tmp/x", field="path"), tool="read"))
    assert failed == (
        '{"ok":false,"field":"path","kind":"not_found","message":"no /tmp/x","retryable":false,"tool":"read"}'
    )
    assert tool.dumps({"ok": True}) == '{"ok":true}'


def test_rendered_keys_are_in_the_order_of_the_text_form() -> None:
    told = tool.render(tool.InvalidArgs("m", field="f", expected="e", details={"z": 1, "a": 2}), tool="t")
    assert list(told) == ["ok", "a", "expected", "field", "kind", "message", "retryable", "tool", "z"]


@pytest.mark.parametrize("said", ['{"ok":false,"kind":"x"}', ' \n{"ok": false}', '{"ok":false,"error":"x"}'])
def test_a_failure_envelope_is_an_error(said: str) -> None:
    assert tool.is_error(said)
    assert not tool.is_success(said)


@pytest.mark.parametrize("said", ['{"ok":true,"result":1}', '\t{"ok": true}', '{"ok":true,"data":1}'])
def test_a_success_envelope_is_a_success(said: str) -> None:
    assert tool.is_success(said)
    assert not tool.is_error(said)


@pytest.mark.parametrize(("said", "kind"), [("[REJECTED] no", "rejected"), (" [TIMEOUT] slow", "timeout")])
def test_legacy_prefixes_are_errors(said: str, kind: str) -> None:
    assert tool.is_error(said)
    assert tool.parse(said).code == kind
    assert tool.parse("[TIMEOUT]").message == tool.Timeout.__doc__


def test_the_legacy_shape_is_an_error() -> None:
    said = '{"error":"timeout","reason":"took too long","retryable":true}'
    assert tool.is_error(said)
    assert tool.message(said) == "took too long"
    assert (tool.parse(said).code, tool.parse(said).message) == ("timeout", "took too long")
    prose = tool.parse('{"error":"it broke","retryable":false}')
    assert (prose.code, prose.message, prose.retryable) == ("execution_error", "it broke", False)


@pytest.mark.parametrize(
    "said", ['{"error":"x"}', '{"status":"ok"}', "[1]", "words", "", '"ok":false', '"ok":true']
)
def test_ordinary_text_and_json_is_neither(said: str) -> None:
    assert not tool.is_error(said)
    assert not tool.is_success(said)


def test_the_first_ok_decides_when_a_result_holds_another() -> None:
    said = '{"ok":true,"result":{"ok":false}}'
    assert tool.is_success(said)
    assert not tool.is_error(said)


def test_large_envelopes_are_known_by_their_head() -> None:
    assert tool.is_error(tool.dumps(tool.render(tool.ExecutionError("x" * 200_000))))
    assert tool.is_success(tool.dumps(tool.text("x" * 200_000)))
    assert tool.is_error('{"ok":false,"message":"' + "x" * 3000), "what follows is not read"


@pytest.mark.parametrize(
    "said",
    [
        '{"ok" : false, "kind":"timeout"}',
        '{\n  "kind" : "not_found",\n  "ok" : false\n}',
        _json.dumps({"kind": "not_found", "message": "x" * 3000, "ok": False}),
        '{"result":{"ok":true},"ok":false}',
        "{" + " " * 3000 + '"ok":false}',
        _json.dumps({"reason": "x" * 3000, "error": "timeout", "retryable": True}),
    ],
)
def test_a_failure_is_known_however_its_envelope_is_spelled(said: str) -> None:
    assert tool.is_error(said)
    assert not tool.is_success(said)


@pytest.mark.parametrize(
    "said",
    [
        '{\n  "result" : {},\n  "ok" : true\n}',
        '{"result":{"ok":false,"n":1},"ok":true}',
        _json.dumps({"a": "x" * 3000, "ok": True}),
    ],
)
def test_a_success_is_known_however_its_envelope_is_spelled(said: str) -> None:
    assert tool.is_success(said)
    assert not tool.is_error(said)


@pytest.mark.parametrize("said", ['{"rows":[{"ok":false}]}', '{"rows":[{"error":"x","retryable":true}]}'])
def test_what_is_inside_of_ordinary_json_does_not_make_it_an_envelope(said: str) -> None:
    assert not tool.is_error(said)
    assert not tool.is_success(said)


def test_payload_is_the_result_of_a_success_and_nothing_else() -> None:
    assert tool.payload('{"ok":true,"result":{"a":1}}') == {"a": 1}
    assert tool.payload('{"ok":true,"data":1}') is None
    assert tool.payload('{"ok":false,"result":1}') is None
    assert tool.payload("words") is None


def test_message_is_the_message_else_the_reason_else_the_text_itself() -> None:
    assert tool.message('{"ok":false,"message":"m"}') == "m"
    assert tool.message('{"ok":false,"reason":"r"}') == "r"
    assert tool.message("just words") == "just words"


@pytest.mark.parametrize(
    ("issue", "said"),
    [
        (Issue(("content",), "missing", "This is required: string.", "string"), "`content` (string)"),
        (
            Issue(("a", 0, "n"), "type", "Expected integer, found string.", "integer"),
            "`a.0.n`: Expected integer",
        ),
        (Issue((), "type", "Expected object, found array.", "object"), "Expected object"),
        (Issue(("path",), "malformed", "The arguments were cut off."), "The arguments were cut off."),
    ],
)
def test_refused_input_is_explained_in_the_message(issue: Issue, said: str) -> None:
    failure = Failure(Kind.invalid_input, wire.INVALID_INPUT, issues=(issue,))
    assert said in tool.render(failure)["message"]
    two = Failure(Kind.invalid_input, wire.INVALID_INPUT, issues=(issue, issue, issue))
    assert "2 more" in tool.render(two)["message"]
    own = Failure(Kind.invalid_input, "The words of whoever raised it.", issues=(issue,))
    assert tool.render(own)["message"] == own.message
    assert action.render(failure)["message"] == wire.INVALID_INPUT


def test_plain_text_is_read_as_a_failed_execution() -> None:
    failure = tool.parse("it broke")
    assert (failure.code, failure.message) == ("execution_error", "it broke")


def test_an_error_envelope_never_suggests_tools() -> None:
    assert not {"suggestions", "suggested_tools"} & set(tool.render(tool.ToolNotFound("no tool x")))


@pytest.mark.parametrize(
    ("raised", "kind", "retry", "field"),
    [
        (tool.InvalidArgs("bad"), "invalid_args", True, None),
        (tool.InvalidArgs("outside the root", field="path"), "invalid_args", True, "path"),
        (FileNotFoundError("gone"), "not_found", False, "path"),
        (NotADirectoryError("gone"), "not_found", False, "path"),
        (OSError("disk"), "execution_error", True, None),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "binary"), "execution_error", False, None),
        (TimeoutError("provider"), "timeout", True, None),
        (tool.Unavailable("not connected", retryable=False), "unavailable", False, None),
        (ConnectionRefusedError("down"), "unavailable", True, None),
        (Failure(Kind.upstream, "the remote tool failed"), "execution_error", True, None),
        (Failure(Kind.timeout, "idle"), "timeout", True, None),
        (Failure(Kind.unavailable, "booting"), "unavailable", True, None),
        (Failure(Kind.refused_by_user, "no"), "user_denied", False, None),
        (Failure(Kind.forbidden, "policy"), "rejected", False, None),
        (ValueError("other"), "execution_error", True, None),
        (asyncio.CancelledError(), "execution_error", False, None),
        (Failure(Kind.cancelled), "execution_error", False, None),
    ],
    ids=str,
)
def test_an_exception_becomes_the_envelope_of_the_contract(
    raised: BaseException, kind: str, retry: bool, field: str | None
) -> None:
    told = tool.render(tool.from_exception(raised))
    assert (told["kind"], told["retryable"], told.get("field")) == (kind, retry, field)


def test_plain_text_is_wrapped_into_a_success() -> None:
    assert _json.loads(tool.normalize("done", tool="t")) == tool.text("done", tool="t")
    assert _json.loads(tool.normalize('{"rows": 3}')) == tool.text('{"rows": 3}')


@pytest.mark.parametrize(
    "said", ['{"ok":true,"result":1}', ' {"ok": false, "kind":"rejected"}', "[REJECTED] no"]
)
def test_an_envelope_passes_untouched(said: str) -> None:
    assert tool.normalize(said, tool="t") == said


def test_a_result_at_the_cap_is_untouched() -> None:
    said = "x" * 100_000
    assert tool.payload(tool.normalize(said)) == {"text": said}


def test_an_oversized_result_is_capped_with_head_and_tail() -> None:
    said = "a" * 100_000 + "b" * 100_000
    told: dict[str, Any] = _json.loads(tool.normalize(said, tool="t"))
    result = told["result"]
    assert (result["kind"], result["truncated"], result["original_chars"]) == (
        "truncated_output",
        True,
        200_000,
    )
    assert result["content"].startswith("a" * 66_666)
    assert result["content"].endswith("b" * 33_334)
    assert "100000 of 200000" in result["content"]
    assert len(result["content"]) < 100_200
    assert told["warnings"]
    assert told["tool"] == "t"


@pytest.mark.parametrize(
    "said", ['"' * 100_000, "\n" * 400_000, "\x01" * 120_000, 'x"' * 60_000 + "y" * 90_000]
)
def test_a_result_is_cut_to_what_it_takes_where_it_is_sent(said: str) -> None:
    told = tool.normalize(said, tool="t")
    assert len(told) < 101_000
    result = tool.payload(told)
    assert (result["kind"], result["original_chars"]) == ("truncated_output", len(said))
    enveloped = tool.normalize(tool.dumps(tool.success({"rows": [said, said]})), tool="t")
    assert len(enveloped) < 101_000


def test_an_oversized_error_stays_an_error() -> None:
    said = tool.dumps(tool.render(tool.InvalidArgs("x" * 150_000)))
    told = _json.loads(tool.normalize(said, tool="t"))
    assert (told["ok"], told["kind"], told["truncated"]) == (False, "execution_error", True)
    assert told["original_chars"] == len(said)
    assert told["content"].startswith('{"ok":false')


def test_the_caps_are_the_contract_s() -> None:
    assert tool.CAPS == {
        "any": 100_000,
        "exec_stdout": 50_000,
        "exec_stderr": 10_000,
        "exec_retry": 20_000,
        "exec_first_attempt": 10_000,
        "shell": 10_000,
        "git_diff": 20_000,
        "file_read": 15_000,
        "search": 12_000,
        "tree": 8_000,
    }


def test_no_cap_is_above_the_one_for_all() -> None:
    assert max(tool.CAPS.values()) == tool.CAPS["any"]


def test_truncation_keeps_two_fifths_of_the_head_by_default() -> None:
    cut = tool.truncate("a" * 50_000 + "b" * 50_000, hint="read the rest from the file")
    assert cut.startswith("a" * 20_000 + "\n")
    assert cut.endswith("\n" + "b" * 30_000)
    assert "read the rest from the file" in cut
    assert tool.truncate("short") == "short"


@given(st.text(max_size=300))
def test_normalising_twice_changes_nothing(said: str) -> None:
    once = tool.normalize(said)
    assert tool.is_error(once) or tool.is_success(once)
    assert tool.normalize(once) == once
