from pathlib import Path

import pytest
from desk4 import app, clerk

from fairlead.testing import ScriptModel, call, expect_ok


async def test_the_clerk_hears_that_a_book_is_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_FILE", str(tmp_path / "desk.json"))
    clerk.model = ScriptModel(
        [call("lend_book", title="Emma"), call("lend_book", title="Emma"), "It is lent."]
    )
    async with app:
        assert expect_ok(await app.invoke("clerk", {"prompt": "Emma, twice."})) == "It is lent."
    assert "The book is lent to somebody else." in clerk.model.requests[-1].messages[-1].content
