"""Repairing what has one clear meaning, telling what was repaired, and switching it off."""

from typing import Any, Literal

import pytest

from fairlead import App


def board(preflight: str = "repair") -> App:
    app = App("x", preflight=preflight)

    @app.action
    async def soft(n: int, tags: list[str] | None = None, note: str = "none") -> Any:
        """Take."""
        return [n, tags, note]

    @app.action(preflight="strict")
    async def hard(n: int) -> int:
        """Take strictly."""
        return n

    @app.action(preflight="repair")
    async def mild(n: int) -> int:
        """Take mildly."""
        return n

    return app


async def test_right_input_is_untouched_and_says_nothing() -> None:
    result = await board().invoke("soft", {"n": 5, "tags": ["a"], "note": "5"})
    assert (result.data, result.warnings) == ([5, ["a"], "5"], [])
    assert "warnings" not in result.meta


@pytest.mark.parametrize(
    ("input", "data"),
    [
        ({"n": "5"}, [5, None, "none"]),
        ({"n": "15.0"}, [15, None, "none"]),
        ({"n": 5, "tags": '["a","b"]'}, [5, ["a", "b"], "none"]),
        ({"n": 5, "note": ""}, [5, None, "none"]),
        ({"properties": {"n": 5}}, [5, None, "none"]),
    ],
)
async def test_repaired_input_is_told(input: Any, data: Any) -> None:
    result = await board().invoke("soft", input)
    assert result.failure is None, result.to_dict()
    assert result.data == data
    assert result.warnings
    assert result.meta["warnings"] == result.warnings


async def test_a_warning_echoes_no_value() -> None:
    result = await board().invoke("soft", {"n": "5", "tags": '["hunter2"]'})
    assert result.ok
    assert "hunter2" not in str(result.warnings)


@pytest.mark.parametrize(
    ("app", "action", "ok"),
    [
        ("repair", "soft", True),
        ("repair", "hard", False),
        ("strict", "soft", False),
        ("strict", "mild", True),
    ],
)
async def test_the_switch_is_the_apps_and_the_actions_wins(
    app: Literal["repair", "strict"], action: str, ok: bool
) -> None:
    result = await board(app).invoke(action, {"n": "5"})
    assert result.ok is ok
    if result.failure is not None:
        assert result.failure.code == "VALIDATION_ERROR"


async def test_strict_leaves_empty_strings_alone() -> None:
    assert (await board("strict").invoke("soft", {"n": 5, "note": ""})).data == [5, None, ""]


async def test_the_callers_own_object_is_never_changed() -> None:
    given = {"n": "5", "tags": '["a"]', "note": ""}
    assert (await board().invoke("soft", given)).ok
    assert given == {"n": "5", "tags": '["a"]', "note": ""}


async def test_a_failed_call_tells_what_was_repaired_before_it_failed() -> None:
    app = App("x")

    @app.action
    async def fail(n: int) -> None:
        """Fail."""
        raise ValueError("x")

    result = await app.invoke("fail", {"n": "5"})
    assert not result.ok
    assert result.meta["warnings"]


async def test_what_cannot_be_repaired_is_refused_with_every_issue() -> None:
    result = await board().invoke("soft", {"n": "many", "tags": 5, "extra": 1})
    assert result.failure is not None
    paths = {issue.path for issue in result.failure.issues}
    assert {("n",), ("tags",), ("extra",)} <= paths
