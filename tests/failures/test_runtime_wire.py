"""The runtime's error object: codes, categories, extras, exit codes, and the tool response."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import _json
from fairlead.failures import Failure, Kind, catalogue, lookup, runtime

CODES = {
    "process_error": "unavailable",
    "validation_error": "invalid",
    "parse_error": "invalid",
    "tool_not_lowerable": "invalid",
    "tool_nesting_error": "invalid",
    "internal_error": "internal",
    "unknown_tool": "not_found",
    "tool_denied": "denied",
    "docstore_not_found": "not_found",
    "docstore_denied": "denied",
    "docstore_invalid": "invalid",
    "docstore_io_error": "unavailable",
    "pipeline_error": "unavailable",
    "load_error": "config",
    "mcp_disconnected": "unavailable",
    "mcp_call_error": "unavailable",
    "mcp_transport_error": "unavailable",
    "config_error": "config",
    "output_extraction_failed": "internal",
    "output_validation_failed": "invalid",
    "max_tokens": "unavailable",
    "api_error": "unavailable",
    "claude_code_error": "unavailable",
}


def test_there_are_the_twenty_three_codes_and_no_more() -> None:
    ours = ["max_tool_calls", "budget_exceeded"]
    assert [entry.code for entry in catalogue("runtime")] == [*CODES, *ours]


@pytest.mark.parametrize("code", ["max_tool_calls", "budget_exceeded"])
def test_a_code_of_our_own_is_a_refusal_that_is_not_tried_again(code: str) -> None:
    failure = lookup("runtime", code)("what happened")
    assert runtime.render(failure)["category"] == "denied"
    assert not runtime.retryable(failure)


@pytest.mark.parametrize(("code", "category"), CODES.items())
def test_a_code_has_the_category_exit_code_and_retry_advice_of_the_contract(code: str, category: str) -> None:
    failure = lookup("runtime", code)("what happened")
    assert runtime.render(failure) == {"error": code, "category": category, "detail": "what happened"}
    assert runtime.exit_code(failure) == (2 if category == "config" else 1)
    assert runtime.retryable(failure) is (category == "unavailable")


def test_the_six_categories_are_the_contract_s() -> None:
    assert set(runtime.CATEGORIES) == {"config", "invalid", "not_found", "denied", "internal", "unavailable"}
    assert set(CODES.values()) == set(runtime.CATEGORIES)


@pytest.mark.parametrize("kind", Kind)
def test_a_foreign_failure_has_category_and_exit_code_too(kind: Kind) -> None:
    failure = Failure(kind, "m")
    told = runtime.render(failure)
    assert told["category"] == CODES[told["error"]]
    assert runtime.exit_code(failure) == (2 if told["category"] == "config" else 1)


def test_members_come_in_order_with_the_extras_last() -> None:
    failure = runtime.UnknownTool("unknown tool", details={"source": "foo", "attempts": 2})
    assert list(runtime.render(failure)) == ["error", "category", "detail", "source", "attempts"]
    assert runtime.dumps(failure) == (
        '{"error":"unknown_tool","category":"not_found","detail":"unknown tool","source":"foo","attempts":2}'
    )


def test_reserved_extras_are_dropped_silently() -> None:
    shadow = {"error": "x", "category": "x", "detail": "x", "source": "foo"}
    told = runtime.render(runtime.ParseError("m", details=shadow))
    assert told == {"error": "parse_error", "category": "invalid", "detail": "m", "source": "foo"}


@given(
    st.dictionaries(st.sampled_from(["error", "category", "detail", "source", "path", "line"]), st.integers())
)
def test_no_extra_changes_the_three_members(extras: dict[str, int]) -> None:
    told = runtime.render(runtime.ParseError("m", details=extras))
    assert (told["error"], told["category"], told["detail"]) == ("parse_error", "invalid", "m")
    assert runtime.parse(told).details == {k: v for k, v in extras.items() if k in ("source", "path", "line")}


def test_a_failed_tool_response_holds_the_error_as_text() -> None:
    response = runtime.tool_response("toolu_1", runtime.UnknownTool("unknown tool: foo"))
    assert response == {
        "id": "toolu_1",
        "content": '{"error":"unknown_tool","category":"not_found","detail":"unknown tool: foo"}',
        "is_error": True,
    }
    assert type(runtime.parse(response)) is runtime.UnknownTool
    assert type(runtime.parse(_json.dumps(response))) is runtime.UnknownTool


@pytest.mark.parametrize(
    ("value", "content"), [("text", '"text"'), ({"a": [1]}, '{"a":[1]}'), (None, "null"), (1.5, "1.5")]
)
def test_a_successful_tool_response_holds_the_value_as_json(value: object, content: str) -> None:
    assert runtime.tool_response("i", value) == {"id": "i", "content": content, "is_error": False}


def test_the_superseded_flat_form_is_read_and_never_produced() -> None:
    failure = runtime.parse({"error": "something went wrong"})
    assert (failure.code, failure.message) == ("internal_error", "something went wrong")
    assert set(runtime.render(failure)) == {"error", "category", "detail"}
    one_word = runtime.parse({"error": "broken"})
    assert (one_word.code, one_word.message) == ("internal_error", "broken")


def test_a_known_code_without_detail_is_read_with_its_default() -> None:
    failure = runtime.parse({"error": "max_tokens"})
    assert (type(failure), failure.message) == (runtime.MaxTokens, runtime.MaxTokens.__doc__)


@pytest.mark.parametrize(("category", "kind"), runtime.CATEGORIES.items())
def test_an_unknown_code_is_kept_and_its_category_gives_the_kind(category: str, kind: Kind) -> None:
    told = {"error": "quite_new", "category": category, "detail": "m", "line": 3}
    failure = runtime.parse(told)
    assert (failure.code, failure.kind, failure.details) == ("quite_new", kind, {"line": 3})
    assert runtime.render(failure) == told


def test_an_unknown_category_is_internal_and_extras_are_kept() -> None:
    failure = runtime.parse({"error": "quite_new", "category": "odd", "detail": "m", "x": [1]})
    assert (failure.kind, failure.details) == (Kind.internal, {"x": [1]})


def test_extracting_and_validating_output_are_in_different_categories() -> None:
    assert runtime.category(runtime.OutputExtractionFailed()) == "internal"
    assert runtime.category(runtime.OutputValidationFailed()) == "invalid"


def test_parsing_and_loading_have_different_exit_codes() -> None:
    assert runtime.exit_code(runtime.ParseError()) == 1
    assert runtime.exit_code(runtime.LoadError()) == runtime.exit_code(runtime.ConfigError()) == 2


def test_retry_advice_follows_the_category_even_against_an_explicit_wish() -> None:
    assert runtime.retryable(runtime.ParseError(retryable=True)) is False
    assert runtime.retryable(runtime.MaxTokens(retryable=False)) is True


def test_an_empty_detail_or_code_never_reaches_the_wire() -> None:
    assert runtime.render(runtime.ParseError(""))["detail"] == runtime.ParseError.__doc__
    with pytest.raises(TypeError):
        type("Odd", (runtime.RuntimeFailure,), {}, code="", kind=Kind.conflict)
