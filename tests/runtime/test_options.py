"""A runtime that is set up wrongly says so at once, not at the first call."""

from typing import Any

import pytest

from fairlead import App, Failure
from fairlead.actions import DefinitionError


@pytest.mark.parametrize(
    "options",
    [
        {"confirmation_secret": "text"},
        {"confirmation_secret": b"short"},
        {"confirmation_ttl": 0},
        {"grace": -1},
        {"grace": "1"},
        {"middleware": ["no function"]},
        {"middleware": "no function"},
        {"middleware": 5},
        {"permission_checker": "allow"},
        {"hooks": {"on_invocation_begin": print}},
        {"redact": 5},
        {"preflight": "srtict"},
        {"services_": {}},
    ],
)
def test_a_wrong_option_is_refused_at_definition(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        App("x", **options)


def test_a_near_miss_of_any_option_is_named() -> None:
    with pytest.raises(DefinitionError, match="'services'"):
        App("x", servces={})  # type: ignore[call-arg]


@pytest.mark.parametrize(("given", "near"), [("desc", "description"), ("perm", "permission_checker")])
def test_the_beginning_of_an_option_is_a_near_miss(given: str, near: str) -> None:
    with pytest.raises(DefinitionError, match=f"Did you mean '{near}'"):
        App("x", **{given: "Tell of it."})  # type: ignore[arg-type]


async def test_a_raised_failure_shows_its_issues_in_a_traceback() -> None:
    app = App("x")

    @app.action
    async def act(n: int) -> int:
        """Act."""
        return n

    with pytest.raises(Failure) as raised:
        (await app.invoke("act", {"n": "many"})).unwrap()
    assert any(note.startswith("n: ") for note in raised.value.__notes__)


def test_an_option_of_a_call_that_does_not_exist_is_refused_with_the_near_miss() -> None:
    with pytest.raises(TypeError, match="Did you mean 'timeout'"):
        App("x").invoke("add", {}, timeuot=1)  # type: ignore[call-arg, unused-coroutine]
