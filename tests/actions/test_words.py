"""Titles, descriptions and versions."""

import functools

import pytest

from fairlead import Action, App
from fairlead.actions import DefinitionError


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("ping", "Ping"),
        ("create_task", "Create Task"),
        ("get_http_status", "Get Http Status"),
        ("a__b_", "A B"),
    ],
)
def test_the_title_is_made_from_the_name(name: str, title: str) -> None:
    async def function() -> None:
        """Do."""

    assert Action(function, name=name).title == title


def test_a_given_title_wins() -> None:
    async def ping() -> None:
        """Do."""

    assert Action(ping, title="Are you there?").title == "Are you there?"


def test_the_description_is_the_first_paragraph_in_one_line() -> None:
    async def create() -> None:
        """Create a task
        on the board.

        Args: none to speak of.
        """

    assert Action(create).description == "Create a task on the board."


def test_a_given_description_wins_over_the_docstring() -> None:
    async def create() -> None:
        """Internal notes."""

    assert Action(create, description="  Create a task.  ").description == "Create a task."


def test_a_partial_is_described_by_the_function_it_wraps() -> None:
    async def greet(greeting: str, name: str) -> str:
        """Greet someone."""
        return f"{greeting} {name}"

    assert Action(functools.partial(greet, "Hello"), name="hello").description == "Greet someone."


def test_a_partial_of_an_undescribed_function_is_refused() -> None:
    async def greet(name: str) -> str:
        return name

    with pytest.raises(DefinitionError, match="description"):
        Action(functools.partial(greet), name="hello")


async def one() -> int:
    """Old."""
    return 1


async def two() -> int:
    """New."""
    return 2


async def test_versions_of_a_name_stand_side_by_side() -> None:
    app = App("x")
    app.add(one, name="count", version="1.9.0")
    app.add(two, name="count", version="1.10.0")
    assert (await app.invoke("count")).data == 2
    assert (await app.invoke("count@1.9.0")).data == 1
    assert (await app.invoke("count@1.10.0")).data == 2
    assert (await app.invoke("count@3.0.0")).failure is not None
    assert [each.version for each in app.actions] == ["1.10.0"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2.0.0-rc.2", "2.0.0-rc.10"),
        ("2.0.0-rc.1", "2"),
        ("2.0.0-1", "2.0.0-alpha"),
        ("2.0.0-beta", "2.0.0-beta.1"),
    ],
)
def test_versions_before_a_release_are_told_apart_as_semver_does(older: str, newer: str) -> None:
    for versions in ((older, newer), (newer, older)):
        app = App("app")
        for version in versions:
            app.add(lambda: None, name="act", description="Act on a thing.", version=version)
        assert [each.version for each in app.actions] == [newer]


async def test_the_newest_version_answers_whichever_came_first() -> None:
    app = App("x")
    app.add(two, name="count", version="2.0.0")
    app.add(one, name="count", version="1.0.0")
    assert (await app.invoke("count")).data == 2


async def test_a_version_added_after_a_call_is_used_from_then_on() -> None:
    app = App("x")
    app.add(one, name="count", version="1.0.0")
    assert (await app.invoke("count")).data == 1
    app.add(two, name="count", version="2.0.0")
    assert (await app.invoke("count")).data == 2


async def test_a_release_is_newer_than_its_pre_releases() -> None:
    app = App("x")
    app.add(two, name="count", version="2.0.0")
    app.add(one, name="count", version="2.0.0-rc.1")
    assert (await app.invoke("count")).data == 2


def test_the_same_name_and_version_twice_is_refused() -> None:
    app = App("x")
    app.add(one, name="count")
    with pytest.raises(DefinitionError, match="count"):
        app.add(two, name="count")


async def test_versions_of_the_same_number_of_parts_or_not_compare_by_value() -> None:
    app = App("x")
    app.add(one, name="count", version="1.0")
    app.add(two, name="count", version="1.0.1")
    assert (await app.invoke("count")).data == 2
