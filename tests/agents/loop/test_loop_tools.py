"""`todo`, `complete` and `clarify`, called through an app as a model's calls are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead import App
from fairlead.failures import Failure
from fairlead.tools.loop import boxes, loop_tools, pending_items
from fairlead.tools.session import SESSION, Session

SUMMARY = "The two files were merged, and all tests pass."


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session("conversation")
    token = SESSION.set(session)
    yield session
    SESSION.reset(token)


@pytest.fixture
def app() -> App:
    app = App("loop")
    for action in loop_tools():
        app.add(action)
    return app


async def told(app: App, name: str, **input: Any) -> tuple[dict[str, Any], list[str]]:
    result = await app.invoke(name, input)
    assert result.failure is None
    return result.data, result.warnings


async def refused(app: App, name: str, **input: Any) -> Failure:
    result = await app.invoke(name, input)
    assert result.failure is not None
    return result.failure


# todo


async def test_a_list_takes_the_place_of_the_one_before(app: App, session: Session) -> None:
    await told(app, "todo", markdown="- [ ] a")
    data, warnings = await told(app, "todo", markdown="- [x] a\n  - [X] b\n- [ ] c")
    assert session.todo == "- [x] a\n  - [X] b\n- [ ] c"
    assert (data["done"], data["total"], warnings) == (2, 3, [])
    assert "2 of 3" in data["text"]


async def test_a_list_needs_a_conversation(app: App) -> None:
    assert (await refused(app, "todo", markdown="- [ ] a")).code == "unavailable"


@pytest.mark.parametrize("markdown", ["", "  \n "])
async def test_a_blank_list_is_refused(app: App, session: Session, markdown: str) -> None:
    failure = await refused(app, "todo", markdown=markdown)
    assert (failure.code, failure.field) == ("invalid_args", "markdown")
    assert session.todo is None


async def test_a_list_without_boxes_is_kept_with_a_warning(app: App, session: Session) -> None:
    _, warnings = await told(app, "todo", markdown="1. a\n2. b")
    assert session.todo == "1. a\n2. b"
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("- [ ] a", (0, 1)),
        ("- [x] a", (1, 1)),
        ("- [X] a", (1, 1)),
        ("      - [ ] six", (0, 1)),
        ("       - [ ] seven", (0, 0)),
        ("- [ ]", (0, 1)),
        ("- [y] a", (0, 0)),
        ("-[ ] a", (0, 0)),
        ("text - [ ] a", (0, 0)),
        ("- [x](link)", (0, 0)),
    ],
)
def test_boxes_are_counted_as_the_contract_has_them(line: str, counted: tuple[int, int]) -> None:
    assert boxes(line) == counted


def test_open_items_are_counted_and_no_list_has_none() -> None:
    assert pending_items("- [ ] a\n- [x] b\n- [ ] c") == 2
    assert pending_items(None) == 0


# complete


async def test_a_summary_is_trimmed_and_handed_on(app: App) -> None:
    assert await told(app, "complete", summary=f"  {SUMMARY}\n") == (
        {"summary": SUMMARY, "text": SUMMARY},
        [],
    )


@pytest.mark.parametrize("word", ["done", "complete", "completed", "ok", "okay", "looks good", "all good"])
@pytest.mark.parametrize("dot", ["", "."])
async def test_a_placeholder_is_no_summary(app: App, word: str, dot: str) -> None:
    failure = await refused(app, "complete", summary=f" {word.title()}{dot} ")
    assert (failure.code, failure.field) == ("invalid_args", "summary")
    assert "says nothing" in failure.message


@pytest.mark.parametrize("word", ["fine", "finished", "Finished."])
async def test_another_placeholder_is_no_summary_either(app: App, word: str) -> None:
    assert "says nothing" in (await refused(app, "complete", summary=word)).message


@pytest.mark.parametrize(("length", "accepted"), [(29, False), (30, True)])
async def test_a_summary_has_thirty_characters(app: App, length: int, accepted: bool) -> None:
    result = await app.invoke("complete", {"summary": "x" * length + " " * 9})
    assert result.ok is accepted


async def test_open_items_are_a_warning_at_the_end(app: App, session: Session) -> None:
    session.todo = "- [x] a\n- [ ] b"
    _, warnings = await told(app, "complete", summary=SUMMARY)
    assert warnings == ["The todo list still has 1 item open."]
    session.todo = "- [x] a"
    assert (await told(app, "complete", summary=SUMMARY))[1] == []


# clarify


async def test_a_free_question_has_no_options(app: App) -> None:
    data, _ = await told(app, "clarify", question=" Which one? ")
    assert data == {"text": "Awaiting user response.", "question": "Which one?", "allow_multiple": False}


async def test_options_are_trimmed_and_each_is_there_once(app: App) -> None:
    data, _ = await told(app, "clarify", question="Which?", options=[" Red", "blue ", "RED", "", "Blue"])
    assert data["options"] == ["Red", "blue"]
    assert data["allow_multiple"] is False


async def test_several_may_be_chosen_where_there_are_options(app: App) -> None:
    data, _ = await told(app, "clarify", question="Which?", options=["a", "b"], allowMultiple=True)
    assert data["allow_multiple"] is True


@pytest.mark.parametrize("options", [None, [], [" "]])
async def test_several_cannot_be_chosen_without_options(app: App, options: list[str] | None) -> None:
    data, _ = await told(app, "clarify", question="Which?", options=options, allowMultiple=True)
    assert data["allow_multiple"] is False
    assert "options" not in data


@pytest.mark.parametrize("options", [list("abcdefg"), ["x" * 81]])
async def test_too_many_or_too_long_options_are_refused(app: App, options: list[str]) -> None:
    failure = await refused(app, "clarify", question="Which?", options=options)
    assert (failure.code, failure.field) == ("invalid_args", "options")


async def test_six_options_of_eighty_characters_are_shown(app: App) -> None:
    options = [letter * 80 for letter in "abcdef"]
    data, _ = await told(app, "clarify", question="Which?", options=[*options, options[0].upper()])
    assert data["options"] == options


async def test_a_blank_question_is_refused(app: App) -> None:
    failure = await refused(app, "clarify", question="  ")
    assert failure.field == "question"


# What holds for every built-in


@pytest.mark.parametrize("name", ["todo", "complete", "clarify"])
async def test_unknown_keys_and_missing_ones_are_refused(app: App, session: Session, name: str) -> None:
    required = {"todo": "markdown", "complete": "summary", "clarify": "question"}[name]
    empty = await app.invoke(name, {})
    assert [issue.path for issue in empty.failure.issues] == [(required,)] if empty.failure else False
    unknown = await app.invoke(name, {required: f"- [ ] {SUMMARY}", "unknown_key": 1})
    assert (
        [issue.path for issue in unknown.failure.issues] == [("unknown_key",)] if unknown.failure else False
    )
    assert (await app.invoke(name, {required: f"- [ ] {SUMMARY}"})).ok


async def test_string_encoded_and_wrapped_arguments_are_understood(app: App) -> None:
    wrapped = {"properties": {"question": "Which?", "options": '["a", "b"]', "allowMultiple": "yes"}}
    data, _ = await told(app, "clarify", **wrapped)
    assert (data["options"], data["allow_multiple"]) == (["a", "b"], True)
