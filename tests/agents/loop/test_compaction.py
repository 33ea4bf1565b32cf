"""A conversation that is made to fit: what goes first, what stays, and that nothing changes twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import _json
from fairlead.agents.loop import estimates
from fairlead.agents.loop.compaction import LEFT_OUT, Compaction, Fitted
from fairlead.agents.models.model import Image, Message, ToolCall, ToolSpec
from fairlead.failures import tool


def user(text: str = "Do it.") -> Message:
    return Message("user", text)


def said(text: str = "It is done.") -> Message:
    return Message("assistant", text)


def turn(number: int, content: str, name: str = "shell_run", arguments: str = "{}") -> list[Message]:
    id = f"call_{number}"
    called = Message("assistant", calls=(ToolCall(name, arguments, id),))
    return [called, Message("tool", content, call_id=id, name=name)]


def output(size: int, mark: str = "x") -> str:
    return tool.dumps(tool.text(mark * size))


def listing(path: str, count: int) -> str:
    entries = [{"name": f"f{n}", "path": f"{path}/f{n}", "type": "file"} for n in range(count)]
    told = {"kind": "listing", "path": path, "entries": entries, "entry_count": count, "truncated": False}
    return tool.dumps(tool.success(told))


def read(path: str, lines: int) -> str:
    told = {"kind": "file", "path": path, "text": "line\n" * lines, "total_lines": lines}
    return tool.dumps(tool.success(told))


def room(tokens: int, **more: Any) -> Compaction:
    """A window with this much room for the conversation."""
    window = int(tokens / 0.85 / 0.75) + 8
    compaction = Compaction(window, max_tokens=window, **more)
    assert abs(compaction.budget - tokens) < 12
    return compaction


def parted(messages: Sequence[Message]) -> list[str]:
    """Ids of calls without a result, and of results without a call."""
    called = {call.id for message in messages for call in message.calls}
    answered = {message.call_id for message in messages if message.role == "tool"}
    return sorted(str(each) for each in called ^ answered)


# The room there is


def test_a_response_takes_at_most_a_quarter_of_what_may_be_used() -> None:
    assert Compaction(128_000).budget == 108_800 - 4_096
    assert Compaction(4_096).budget == 3_481 - 870
    assert Compaction(128_000, max_tokens=1_000).budget == 107_800
    assert Compaction(128_000, max_tokens=90_000).budget == 108_800 - 27_200


def test_the_system_prompt_and_the_tools_are_reserved() -> None:
    compaction = Compaction(128_000, system=1_000, tools=2_000)
    assert compaction.budget == 108_800 - 4_096 - 3_000
    compaction.reserve(system=0, tools=200_000)
    assert compaction.budget == 0


def test_a_provider_that_counts_more_makes_room_smaller_and_never_larger() -> None:
    compaction = Compaction(128_000)
    before = compaction.budget
    compaction.measured(1_000, 1_250)
    assert compaction.budget == int(before / 1.25)
    compaction.measured(1_000, 500)
    compaction.measured(0, 500)
    assert compaction.budget == int(before / 1.25)
    compaction.measured(1, 1_000_000)
    assert compaction.budget == before // 2


@given(st.text(), st.text())
def test_an_estimate_never_shrinks_when_text_is_added(one: str, other: str) -> None:
    assert estimates.text(one) <= estimates.text(one + other)
    assert estimates.message(user(one)) <= estimates.message(user(one + other))


def test_an_estimate_counts_calls_thoughts_pictures_and_what_is_kept() -> None:
    plain = estimates.message(said("a"))
    assert estimates.message(Message("assistant", "a", (ToolCall("f", "{}"),))) > plain
    assert estimates.message(Message("assistant", "a", reasoning="because")) > plain
    assert estimates.message(Message("assistant", "a", kept={"x": {"signature": "s" * 400}})) > plain + 90
    assert estimates.message(Message("user", "a", images=(Image(b"", "image/png"),))) > plain + 1_000
    assert estimates.tools([ToolSpec("f", "Does it.", {"type": "object"})]) > 8


# What goes first


def test_what_fits_is_left_alone() -> None:
    messages = [user(), *turn(1, output(100)), said()]
    fitted = Compaction(128_000).fit(messages)
    assert fitted == Fitted(messages, sum(map(estimates.message, messages)), over=False)
    assert fitted.messages is not messages


def test_old_listings_are_collapsed_before_anything_else() -> None:
    old = [*turn(1, output(3_000)), *turn(2, listing("Desktop", 100))]
    messages = [user(), *old, *(m for n in range(3, 6) for m in turn(n, output(400)))]
    total = sum(map(estimates.message, messages))
    fitted = room(total - 300).fit(messages)
    assert fitted.messages[2].content == messages[2].content
    assert "100 entries in Desktop" in fitted.messages[4].content
    assert tool.is_success(fitted.messages[4].content)
    assert len(fitted.messages) == len(messages)


def test_old_results_are_shortened_next() -> None:
    messages = [user(), *turn(1, read("logs/a.txt", 2_000)), *turn(2, output(9_000, "y"))]
    messages += [*turn(3, tool.dumps(tool.render(tool.ExecutionError("e" * 9_000)))), *turn(4, "z" * 9_000)]
    messages += [m for n in range(5, 8) for m in turn(n, output(100))]
    shown = room(1_000).fit(messages).messages
    assert len(shown) == len(messages)
    assert "logs/a.txt" in shown[2].content
    assert "2000 lines" in shown[2].content
    assert "re-read the file" in shown[2].content
    assert "line\\nline" not in shown[2].content
    assert "8760 more characters" in shown[4].content
    assert tool.is_error(shown[6].content)
    assert tool.parse(shown[6].content).code == "execution_error"
    assert tool.is_success(shown[8].content)
    assert all(len(message.content) < 600 for message in shown)


def test_short_results_are_untouched() -> None:
    messages = [user(), *turn(1, output(20)), *turn(2, output(9_000))]
    messages += [m for n in range(3, 6) for m in turn(n, output(20))]
    assert room(1_000).fit(messages).messages[1:3] == messages[1:3]


def test_long_arguments_of_old_calls_are_shortened_and_stay_json() -> None:
    arguments = _json.dumps(
        {"path": "a.py", "content": "x" * 9_000, "lines": list(range(900)), "force": True}
    )
    messages = [user(), *turn(1, output(20), "file_write", arguments), *turn(2, "ok", "x", "{broken" * 900)]
    messages += [m for n in range(3, 6) for m in turn(n, output(20))]
    shown = room(1_000).fit(messages).messages
    told = _json.loads(shown[1].calls[0].arguments)
    assert (told["path"], told["force"]) == ("a.py", True)
    assert told["content"].startswith("xxx")
    assert len(shown[1].calls[0].arguments) < 1_000
    assert _json.loads(shown[3].calls[0].arguments)


def test_what_a_provider_wants_back_is_not_shortened() -> None:
    kept = Message("assistant", "w" * 900, (ToolCall("f", "{}", "call_1"),), kept={"anthropic": ["signed"]})
    messages = [user(), kept, Message("tool", output(9_000), call_id="call_1"), *turn(2, output(20))]
    messages += [m for n in range(3, 6) for m in turn(n, output(20))]
    assert room(1_000).fit(messages).messages[1] == kept


def test_old_turns_with_tools_are_left_out_at_last_and_the_first_message_says_so() -> None:
    messages = [user("Task"), *(m for n in range(60) for m in turn(n, output(500)))]
    fitted = room(1_500).fit(messages)
    assert not fitted.over
    assert fitted.messages[0] == user(f"Task\n\n{LEFT_OUT}")
    assert fitted.messages[-6:] == messages[-6:]
    assert fitted.messages[1].role == "assistant"
    assert parted(fitted.messages) == []


def test_old_exchanges_go_whole_so_that_users_and_model_take_turns() -> None:
    messages: list[Message] = []
    for number in range(80):
        messages += [user(f"Question {number}"), *turn(number, output(300)), said(f"Answer {number}. " * 20)]
    messages.append(user("The last question"))
    fitted = room(1_000).fit(messages)
    roles = [message.role for message in fitted.messages if message.role != "tool" and not message.calls]
    assert all(one != other for one, other in pairwise(roles))
    assert fitted.messages[0].content.startswith("Question 0")
    assert fitted.messages[-1] == messages[-1]
    assert not fitted.over


# What stays


def test_the_first_message_and_the_last_three_turns_stay_as_they_are() -> None:
    messages = [user("u" * 2_000), *(m for n in range(40) for m in turn(n, output(900)))]
    fitted = room(2_000).fit(messages)
    assert fitted.messages[0].content.startswith("u" * 2_000)
    assert fitted.messages[-6:] == messages[-6:]


def test_the_message_that_is_being_worked_on_stays() -> None:
    messages = [user("First"), said("a" * 3_000), user("Now this")]
    messages += [m for n in range(40) for m in turn(n, output(900))]
    assert user("Now this") in room(1_200).fit(messages).messages


def test_how_many_turns_stay_can_be_less_for_a_small_window() -> None:
    messages = [user(), *(m for n in range(9) for m in turn(n, output(3_000)))]
    assert room(1_600).fit(messages).over
    fitted = room(1_600, turns_kept=1).fit(messages)
    assert not fitted.over
    assert fitted.messages[-2:] == messages[-2:]


def test_a_conversation_whose_protected_part_is_too_long_is_over() -> None:
    assert room(100).fit([user("x" * 1_000)]).over
    messages = [user(), *(m for n in range(3) for m in turn(n, output(3_000)))]
    assert room(1_000).fit(messages).over


def test_system_messages_stay() -> None:
    system = Message("system", "Be kind. " * 100)
    messages = [system, user(), *(m for n in range(40) for m in turn(n, output(900)))]
    shown = room(1_500).fit(messages).messages
    assert shown[0] == system
    assert shown[1].content.endswith(LEFT_OUT)


def test_results_of_one_turn_stay_together() -> None:
    calls = tuple(ToolCall("f", "{}", f"c{n}") for n in range(3))
    batch = [Message("assistant", calls=calls), *(Message("tool", output(500), call_id=c.id) for c in calls)]
    messages = [user(), *batch, *(m for n in range(40) for m in turn(n, output(500)))]
    shown = room(1_200).fit(messages).messages
    assert parted(shown) == []


# Nothing changes twice


def test_a_conversation_that_goes_on_differently_is_followed() -> None:
    compaction = room(1_500)
    messages = [user(), *(m for n in range(60) for m in turn(n, output(500)))]
    before = compaction.fit([*messages, said("{broken"), user("Correct that.")]).messages
    after = compaction.fit([*messages, said("{}")]).messages
    assert after[:-1] == before[:-2]
    assert compaction.fit([user("Another")]).messages == [user("Another")]


def test_a_conversation_that_was_read_from_a_store_is_the_same_conversation() -> None:
    def messages() -> list[Message]:
        return [user(), *(m for n in range(60) for m in turn(n, output(500)))]

    compaction = room(1_500)
    assert compaction.fit(messages()).messages == compaction.fit(messages()).messages


def test_it_makes_more_room_than_it_needs_and_rests() -> None:
    compaction = room(4_000)
    messages, changes, before = [user()], 0, [user()]
    for number in range(200):
        messages += turn(number, output(400))
        shown = compaction.fit(messages).messages
        changes += shown[: len(before)] != before
        before = shown
    assert changes < 40


contents = st.one_of(
    st.integers(0, 4_000).map(output),
    st.integers(0, 60).map(lambda count: listing("Desktop", count)),
    st.integers(0, 600).map(lambda lines: read("a.txt", lines)),
    st.text(max_size=80),
)
steps = st.one_of(
    st.lists(contents, min_size=1, max_size=3).map(lambda results: ("tools", results)),
    st.integers(0, 3_000).map(lambda size: ("exchange", size)),
)


def grown(messages: list[Message], number: int, step: tuple[str, Any]) -> None:
    kind, more = step
    if kind == "exchange":
        messages += [said(f"Answer {number}. " + "a" * more), user(f"Question {number}")]
        return
    calls = tuple(ToolCall("f", "{}", f"c{number}_{n}") for n in range(len(more)))
    messages.append(Message("assistant", f"Turn {number}", calls))
    messages += [Message("tool", text, call_id=call.id) for call, text in zip(calls, more, strict=True)]


def key(message: Message) -> str:
    """What names a message whatever became of it."""
    named = message.call_id or "".join(call.id for call in message.calls)
    return named or message.content.partition("\n")[0].partition(".")[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=1, max_size=25), st.integers(300, 6_000))
def test_whatever_is_said_it_fits_or_is_over_and_nothing_comes_back_or_changes_twice(
    taken: list[tuple[str, Any]], tokens: int
) -> None:
    compaction = room(tokens)
    messages = [user("The task")]
    forms: dict[str, str] = {}
    gone: set[str] = set()
    for number, step in enumerate(taken):
        grown(messages, number, step)
        fitted = compaction.fit(messages)
        originals = {key(message): message.content for message in messages}
        assert fitted.over == (fitted.tokens > compaction.budget)
        assert fitted.tokens == sum(map(estimates.message, fitted.messages))
        assert parted(fitted.messages) == []
        shown = {key(message): message.content for message in fitted.messages}
        assert not gone & set(shown)
        gone |= set(originals) - set(shown)
        for name, content in shown.items():
            if content != originals[name]:
                assert forms.setdefault(name, content) == content
            else:
                assert name not in forms
        assert fitted.messages[0].content.startswith("The task")
        assert compaction.fit(messages) == fitted


def test_a_long_run_is_linear() -> None:
    def seconds(turns: int) -> float:
        compaction, messages = Compaction(16_000), [user()]
        new = [turn(number, output(900)) for number in range(turns)]
        started = time.process_time()
        for each in new:
            messages += each
            compaction.fit(messages)
        return time.process_time() - started

    seconds(50)
    short = min(seconds(300) for _ in range(3))
    long = min(seconds(3_000) for _ in range(2))
    assert long < short * 10 * 4


@pytest.mark.parametrize("messages", [[], [said("Hello")], [Message("tool", "x" * 900, call_id="c")]])
def test_an_odd_conversation_is_no_trouble(messages: list[Message]) -> None:
    compaction = room(50)
    assert compaction.fit(messages).messages == messages
    assert compaction.fit([*messages, *turn(1, output(9_000)), *turn(2, output(9_000))]).over
