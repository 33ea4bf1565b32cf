"""What the agent does with what a model says. The model follows a script, so no network is needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import SCRIPT, app, keeper

from fairlead.testing import ScriptModel, call, expect_error, expect_ok

WRITER = {"permissions": ["notes:write"]}


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_APP_NOTES", str(tmp_path / "notes.jsonl"))
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))


@pytest.fixture(autouse=True)
def model_as_before() -> Iterator[None]:
    before = keeper.model
    yield
    keeper.model = before


def saying(*script: object) -> ScriptModel:
    """Let the agent's model follow a script; gives the model, which remembers what it was told."""
    keeper.model = model = ScriptModel(script)
    return model


async def test_the_agent_notes_what_it_is_told() -> None:
    saying(call("find_notes", word="tea"), call("add_note", text="Buy tea"), "Noted.")
    async with app:
        assert expect_ok(await app.invoke("keeper", {"prompt": "We need tea."}, auth=WRITER)) == "Noted."
        notes = expect_ok(await app.invoke("find_notes"))
    assert [note["text"] for note in notes] == ["Buy tea"]


async def test_a_wrong_call_is_told_to_the_model_and_not_to_the_caller() -> None:
    model = saying(call("read_note", id=7), "There is no such note.")
    async with app:
        expect_ok(await app.invoke("keeper", {"prompt": "Read note 7."}, auth=WRITER))
    assert '"kind":"not_found"' in model.requests[-1].messages[-1].content


async def test_asking_the_agent_needs_a_permission() -> None:
    async with app:
        expect_error(await app.invoke("keeper", {"prompt": "We need tea."}), "AUTHENTICATION_ERROR")


async def test_a_question_pauses_the_agent_and_the_answer_resumes_it() -> None:
    saying(call("clarify", question="Black or green?"), call("add_note", text="Buy green tea"), "Noted.")
    async with app:
        asked = await app.invoke("keeper", {"prompt": "We need tea.", "conversation": "c1"}, auth=WRITER)
        assert expect_error(asked, "clarify_requested").details["question"] == "Black or green?"
        answered = await app.invoke("keeper", {"prompt": "Green.", "conversation": "c1"}, auth=WRITER)
        assert expect_ok(answered) == "Noted."


async def test_the_script_works_without_any_model() -> None:
    keeper.model = SCRIPT
    async with app:
        said = expect_ok(await app.invoke("keeper", {"prompt": "We need tea."}, auth=WRITER))
    assert "README.md" in said
