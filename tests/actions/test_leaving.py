"""Actions that leave an app again, as those of a plugin do."""

from __future__ import annotations

from fairlead import Action, App


def greeting(words: str, version: str = "1.0.0") -> Action[..., str]:
    def greet() -> str:
        """Greet."""
        return words

    return Action(greet, version=version)


async def test_an_action_that_left_is_not_found_by_any_name() -> None:
    app = App("demo")
    old = greeting("hello")
    app.add(old)
    assert (await app.invoke("greet")).data == "hello"
    assert (await app.invoke("greet@1.0.0")).data == "hello"
    app.catalogue.remove_all([old])
    assert app.actions == []
    for name in ("greet", "greet@1.0.0"):
        failure = (await app.invoke(name)).failure
        assert failure is not None
        assert failure.code == "ACTION_NOT_FOUND"


async def test_its_name_is_free_for_another() -> None:
    app = App("demo")
    old, new = greeting("hello"), greeting("good day")
    app.add(old)
    await app.invoke("greet")
    app.catalogue.remove_all([old])
    app.add(new)
    assert (await app.invoke("greet")).data == "good day"


async def test_of_several_versions_the_newest_that_is_left_is_found() -> None:
    app = App("demo")
    versions = [greeting(version, version) for version in ("1.0.0", "1.10.0", "1.9.0")]
    for each in versions:
        app.add(each)
    app.catalogue.remove_all([versions[1]])
    assert (await app.invoke("greet")).data == "1.9.0"


def test_one_that_is_not_there_is_left_alone_and_every_change_has_a_number() -> None:
    app = App("demo")
    mine, other = greeting("a"), greeting("b")
    app.add(mine)
    before = app.catalogue.revision
    app.catalogue.remove_all([other])
    assert app.catalogue.revision == before
    app.catalogue.remove_all([mine])
    assert app.catalogue.revision != before
