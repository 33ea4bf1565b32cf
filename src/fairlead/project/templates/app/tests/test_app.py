"""Promises of the notebook, called the way its callers do."""

from pathlib import Path

import pytest

from app import app
from fairlead.testing import SurfaceDriver, expect_error, expect_ok

WRITER = {"permissions": ["notes:write"]}


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_APP_NOTES", str(tmp_path / "notes.jsonl"))


async def test_a_note_that_was_added_is_found() -> None:
    async with app:
        note = expect_ok(await app.invoke("add_note", {"text": "Buy tea"}, auth=WRITER))
        assert expect_ok(await app.invoke("find_notes", {"word": "TEA"})) == [note]
        assert expect_ok(await app.invoke("read_note", {"id": note["id"]})) == note


async def test_a_note_that_is_not_there_is_told() -> None:
    async with app:
        expect_error(await app.invoke("read_note", {"id": 7}), "NOT_FOUND")


async def test_writing_needs_a_permission(every_surface: SurfaceDriver) -> None:
    async with app:
        told = await every_surface.call(app, "add_note", {"text": "x"})
        assert told.code == "AUTHENTICATION_ERROR"
