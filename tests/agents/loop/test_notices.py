"""What the loop tells a model beside the conversation: when, and where it stands."""

from __future__ import annotations

import pytest

from fairlead.agents.loop import notices
from fairlead.agents.loop.notices import PREFIX, Staleness, place
from fairlead.agents.models.model import Message, ToolCall

RESULT = Message("tool", '{"ok":true,"result":1}', call_id="call_1", name="add")
CALLED = Message("assistant", calls=(ToolCall("add", "{}", "call_1"),))


def test_every_notice_says_that_it_comes_from_the_system() -> None:
    told = [notices.EMPTY_TURN, notices.DEDUPE, notices.WRAP_UP, notices.stale_todo(2), notices.budget(1)]
    told += [notices.failed_again("f", 2), notices.circle("f", 3), notices.unknown_thing("f")]
    told += [
        notices.unknown_path(None, False),
        notices.unknown_path(".", False),
        notices.unknown_path(".", True),
    ]
    told += [notices.listing(kind) for kind in ("emptyListing", "partialListing", "populatedListing")]
    assert all(each is not None and each.startswith(f"{PREFIX} ") for each in told)


@pytest.mark.parametrize(("remaining", "told"), [(-1, False), (0, False), (1, True), (3, True), (4, False)])
def test_the_budget_is_told_when_it_is_nearly_used_up(remaining: int, told: bool) -> None:
    assert (notices.budget(remaining) is not None) is told


def test_the_budget_is_told_from_another_threshold() -> None:
    assert notices.budget(5, threshold=5) is not None
    assert notices.budget(1, threshold=0) is None


def test_a_list_that_was_not_touched_for_four_iterations_is_told_of_once_a_window() -> None:
    staleness = Staleness()
    told = [staleness.after(touched=False, pending=2) for _ in range(8)]
    assert [each is not None for each in told] == [False, False, False, True] * 2
    assert told[3] == notices.stale_todo(2)


def test_touching_the_list_begins_the_window_anew() -> None:
    staleness = Staleness()
    touched = [False, False, True, False, False, False]
    assert [staleness.after(touched=each, pending=1) for each in touched] == [None] * 6


def test_a_list_without_open_items_is_never_told_of() -> None:
    staleness = Staleness()
    assert [staleness.after(touched=False, pending=0) for _ in range(9)] == [None] * 9


def test_a_failure_that_is_repeated_is_told_of_more_and_more_firmly() -> None:
    assert "failed 2 times" in notices.failed_again("file_edit", 2)
    assert "Stop repeating it" not in notices.failed_again("file_edit", 2)
    assert "Stop repeating it" in notices.failed_again("file_edit", 3)


def test_after_a_result_notices_stand_at_the_end_of_a_copy_of_it() -> None:
    messages = [Message("user", "Add."), CALLED, RESULT]
    placed = place(messages, ["[System Notice] one", "[System Notice] two"])
    assert placed[:2] == messages[:2]
    assert placed[2].content == f"{RESULT.content}\n\n[System Notice] one\n[System Notice] two"
    assert (placed[2].role, placed[2].call_id, placed[2].name) == ("tool", "call_1", "add")
    assert messages[2] is RESULT
    assert len(placed) == 3


def test_a_call_has_one_result_with_or_without_notices() -> None:
    placed = place([CALLED, RESULT], [notices.DEDUPE])
    assert [message.call_id for message in placed if message.role == "tool"] == ["call_1"]


def test_after_the_models_own_turn_notices_are_one_user_message() -> None:
    messages = [Message("user", "Hi"), Message("assistant", "")]
    assert place(messages, ["a", "b"]) == [*messages, Message("user", "a\nb")]
    assert place([], ["a"]) == [Message("user", "a")]


def test_after_a_users_message_notices_do_not_make_a_second_one() -> None:
    assert place([Message("user", "Hi")], ["a"]) == [Message("user", "Hi\n\na")]
    assert place([Message("user", "")], ["a"]) == [Message("user", "a")]


def test_without_notices_the_messages_are_the_conversation() -> None:
    messages = [CALLED, RESULT]
    placed = place(messages, [])
    assert placed == messages
    assert placed is not messages
