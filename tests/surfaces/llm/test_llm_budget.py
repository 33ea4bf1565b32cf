"""Results within a budget: still JSON, still the same shape, and honest about what was left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead import App
from fairlead.failures import tool as wire
from fairlead.surfaces.llm.budget import LEAST, fitted

MARK = re.compile(r"\[\.\.\. (\d+) of (\d+) (characters|items|entries) left out \.\.\.\]")

CHARACTERS = st.sampled_from(["x", "ü", '"', "\n", "\x00", "😀", "\ud800"])
TEXTS = st.text(max_size=5) | st.tuples(CHARACTERS, st.integers(0, 3000)).map(lambda both: both[0] * both[1])
#: Six times the largest budget; a list of lists of texts, each many times over, would be of gigabytes.
LONGEST = 30_000


def repeated(item: Any, times: int) -> list[Any]:
    return [item] * min(times, LONGEST // len(json.dumps(item)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**900) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.builds(repeated, inner, st.integers(0, 80))
        | st.dictionaries(st.text(max_size=80), inner, max_size=30)
    ),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(JSON, st.integers(LEAST, 5000))
def test_a_success_fits_its_budget_and_stays_json(result: Any, most: int) -> None:
    envelope = wire.success(result, tool="act")
    text = wire.dumps(fitted(envelope, most))
    assert len(text) <= most
    text.encode()
    assert text.startswith('{"ok":true,')
    told = json.loads(text)
    assert told["tool"] == "act"
    assert "result" in told
    if len(wire.dumps(envelope)) <= most:
        assert told == json.loads(wire.dumps(envelope))
    else:
        assert "left out" in told["warnings"][-1]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(JSON, st.text(max_size=2000), st.integers(LEAST, 3000))
def test_a_failure_fits_its_budget_and_keeps_what_matters(details: Any, message: str, most: int) -> None:
    failure = wire.ExecutionError(message or "It failed.", details={"details": details, "b" * 300: details})
    envelope = wire.render(failure, "act")
    told = json.loads(wire.dumps(fitted(envelope, most)))
    assert len(wire.dumps(fitted(envelope, most))) <= most
    assert told["ok"] is False
    assert (told["kind"], told["retryable"], told["tool"]) == ("execution_error", True, "act")


def shown(result: Any, most: int) -> Any:
    return json.loads(wire.dumps(fitted(wire.success(result), most)))["result"]


def test_a_long_text_keeps_its_beginning_and_its_end_and_counts_the_rest() -> None:
    text = "".join(f"{n:05}" for n in range(2000))
    kept = shown(text, 1000)
    mark = MARK.search(kept)
    assert mark is not None
    head, tail = kept[: mark.start()], kept[mark.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) > len(tail) > 100
    assert int(mark[1]) == len(text) - len(head) - len(tail)
    assert int(mark[2]) == len(text)


def test_a_long_list_keeps_whole_items_from_both_ends() -> None:
    items = [{"id": n, "name": "task"} for n in range(500)]
    kept = shown(items, 2000)
    (at,) = [n for n, item in enumerate(kept) if isinstance(item, str)]
    mark = MARK.fullmatch(kept[at])
    assert mark is not None
    assert kept[:at] == items[:at]
    assert kept[at + 1 :] == items[-(len(kept) - at - 1) :]
    assert int(mark[1]) == len(items) - (len(kept) - 1)


def test_what_is_small_stays_whole_beside_what_is_large() -> None:
    result = {"id": 7, "title": "Write", "body": "x" * 5000, "tags": ["a", "b"], "log": "y" * 5000}
    kept = shown(result, 1500)
    assert {key: kept[key] for key in ("id", "title", "tags")} == {
        "id": 7,
        "title": "Write",
        "tags": ["a", "b"],
    }
    assert MARK.search(kept["body"])
    assert MARK.search(kept["log"])


def test_a_few_long_items_are_each_shown_in_part() -> None:
    kept = shown(["a" * 5000, "b" * 5000, "c"], 1500)
    assert [item[0] for item in kept] == ["a", "b", "c"]


def test_a_wide_object_says_how_many_entries_are_missing() -> None:
    kept = shown({f"key{n:04}": n for n in range(1000)}, 1000)
    mark = MARK.fullmatch(kept["..."])
    assert mark is not None
    assert int(mark[1]) == 1000 - (len(kept) - 1)
    assert kept["key0000"] == 0
    assert kept["key0999"] == 999


def test_a_budget_uses_most_of_its_room() -> None:
    for result in ("x" * 50_000, ["word"] * 20_000, {"a": "x" * 50_000, "b": list(range(20_000))}):
        assert len(wire.dumps(fitted(wire.success(result), 10_000))) > 8_000


async def test_the_executor_keeps_to_its_budget() -> None:
    app = App("long")

    @app.action
    def speak(length: int) -> str:
        """Speak at length."""
        return "a" * length

    tools = app.tools("openai", max_result=600)
    call = {"id": "c", "type": "function", "function": {"name": "speak", "arguments": '{"length": 9000}'}}
    assert len((await tools.execute(call))["content"]) <= 600
    call["function"] = {"name": "speak", "arguments": '{"length": 90}'}
    assert json.loads((await tools.execute(call))["content"])["result"] == "a" * 90


@pytest.mark.parametrize("most", [0, 499, -5, True, "1000", 1.5])
def test_a_budget_without_sense_is_refused(most: Any) -> None:
    with pytest.raises(TypeError):
        App("none").tools("openai", max_result=most)
