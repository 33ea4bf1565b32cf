"""Getting many actions in at once: dicts, modules, classes, instances, functions and groups."""

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from fairlead import Action, App, Context, action
from fairlead.actions import DefinitionError, Group
from fairlead.actions.catalogue import snake_case


def names(app: App) -> list[str]:
    return [each.name for each in app.actions]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("ping", "ping"),
        ("pingServer", "ping_server"),
        ("getHTTPStatus", "get_http_status"),
        ("HTTPServer", "http_server"),
        ("create-task", "create_task"),
        ("create  task", "create_task"),
        ("already_snake", "already_snake"),
        ("v2Status", "v2_status"),
    ],
)
def test_camel_case_becomes_snake_case(given: str, made: str) -> None:
    assert snake_case(given) == made


async def test_a_dict_of_functions_takes_its_names_from_the_keys() -> None:
    app = App("x")

    async def health() -> str:
        """Say how it goes."""
        return "well"

    app.add({"pingServer": lambda: "pong", "ping": health})
    assert names(app) == ["ping_server", "ping"]
    assert (await app.invoke("ping_server")).data == "pong"
    assert (await app.invoke("ping")).data == "well"


def test_a_function_without_words_is_described_by_its_key() -> None:
    app = App("x")
    app.add({"pingServer": lambda: 1})
    assert app.actions[0].description == "Action pingServer."


async def test_a_dict_of_options_has_its_function_under_run() -> None:
    app = App("x")
    app.add(
        {"createTask": {"run": lambda title: title, "description": "Create.", "side_effects": "write"}},
        permissions=["tasks:write"],
    )
    made = app.actions[0]
    assert (made.name, made.side_effects, made.permissions) == ("create_task", "write", ("tasks:write",))
    assert (await app.invoke("create_task", {"title": "a"}, auth={"permissions": ["*"]})).data == "a"


def test_an_entry_may_name_itself() -> None:
    app = App("x")
    app.add({"anything": {"run": lambda: 1, "description": "D.", "name": "other"}})
    assert names(app) == ["other"]


def test_names_may_be_made_another_way() -> None:
    app = App("x")
    keyed = {
        "createTask": {"run": lambda: 1, "description": "D."},
        "named": {"run": lambda: 2, "description": "D.", "name": "other"},
        "kept": Action(lambda: 3, name="kept_one", description="D."),
        "ping": lambda: 4,
    }
    app.add(keyed, rename=lambda key: f"v2_{key.lower()}")
    assert names(app) == ["v2_createtask", "other", "kept_one", "v2_ping"]

    class Desk:
        def openDrawer(self) -> None:
            """Open it."""

    assert names(App("y", actions=App("z").add([Desk()], rename=str.lower))) == ["opendrawer"]
    made = app.group("desk_").add(Desk, rename=str.lower, side_effects="write")
    assert [(each.name, each.side_effects) for each in made] == [("desk_opendrawer", "write")]


@pytest.mark.parametrize("wrong", ["upper", 3, lambda key: 3, lambda key: "No Name"])
def test_a_way_to_make_names_that_makes_none_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        App("x").add({"ping": lambda: 1}, rename=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"a": 5},
        {"a": None},
        {"a": {"description": "no run"}},
        {5: lambda: 1},
        {"a": {"run": 5}},
        {"a": "text"},
    ],
)
def test_a_dict_of_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError):
        App("x").add(wrong)


def test_an_unknown_option_in_an_entry_is_named() -> None:
    with pytest.raises(DefinitionError, match="side_effects"):
        App("x").add({"a": {"run": lambda: 1, "description": "D.", "side_effect": "write"}})


def make_module(source: str) -> ModuleType:
    module = ModuleType("made_up_actions")
    sys.modules[module.__name__] = module
    try:
        exec(source, module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module


def test_a_module_offers_its_own_public_functions_and_actions() -> None:
    module = make_module(
        "from fairlead import action\n"
        "from os.path import join\n"
        "from json import dumps\n"
        "def createTask(title: str) -> str:\n    'Create a task.'\n    return title\n"
        "async def list_tasks() -> list[str]:\n    'List.'\n    return []\n"
        "@action(side_effects='destructive')\ndef clear() -> None:\n    'Clear.'\n"
        "def _private() -> None:\n    'No.'\n"
        "class Helper:\n    pass\n"
        "NUMBER = 5\n"
    )
    app = App("x")
    app.add(module)
    assert names(app) == ["create_task", "list_tasks", "clear"]
    found = app.get("clear")
    assert found is not None
    assert found.side_effects == "destructive"


async def test_a_class_is_made_and_offers_its_public_methods() -> None:
    app = App("x")
    app.add(type("Plain", (), {"ping": lambda self: "pong", "_no": lambda self: 1}))
    assert names(app) == ["ping"]
    assert (await app.invoke("ping")).data == "pong"


class Bound:
    """A board of tasks."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def addTask(self, title: str, ctx: Context) -> str:
        """Add a task."""
        return f"{self.name}: {title}"

    def count(self) -> int:
        """Count the tasks."""
        return 0

    @staticmethod
    def plain() -> int:
        """One."""
        return 1

    @classmethod
    def kind(cls) -> str:
        """Say the kind."""
        return cls.__name__


async def test_an_instance_offers_its_methods_bound() -> None:
    app = App("x")
    app.add(Bound("mine"))
    assert (await app.invoke("add_task", {"title": "a"})).data == "mine: a"
    assert (await app.invoke("count")).data == 0
    assert (await app.invoke("kind")).data == "Bound"
    assert (await app.invoke("plain")).data == 1


def test_a_property_is_not_read_while_registering() -> None:
    class Lazy:
        def ping(self) -> str:
            """Ping."""
            return "pong"

        @property
        def connection(self) -> Any:
            raise AssertionError("read")

    app = App("x")
    app.add(Lazy())
    assert names(app) == ["ping"]


async def test_inherited_methods_are_offered_too() -> None:
    class Base:
        def ping(self) -> str:
            """Ping."""
            return "pong"

    class Derived(Base):
        def pong(self) -> str:
            """Pong."""
            return "ping"

    app = App("x")
    app.add(Derived())
    assert sorted(names(app)) == ["ping", "pong"]


async def test_a_decorated_method_is_bound_to_its_instance() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = 41

        @action(side_effects="write")
        async def bump(self, by: int = 1) -> int:
            """Count up."""
            self.n += by
            return self.n

    app = App("x")
    app.add(Counter())
    found = app.get("bump")
    assert found is not None
    assert found.side_effects == "write"
    assert list(found.input.json_schema["properties"]) == ["by"]
    assert (await app.invoke("bump", {"by": 1})).data == 42


def test_a_class_that_needs_arguments_says_so() -> None:
    with pytest.raises(DefinitionError, match="instance"):
        App("x").add(Bound)


def test_something_without_functions_is_refused() -> None:
    for empty in (object(), 5, "text", type("Empty", (), {})):
        with pytest.raises(DefinitionError):
            App("x").add(empty)


def test_a_function_and_an_action_are_added_as_they_are() -> None:
    async def ping() -> str:
        """Ping."""
        return "pong"

    made = Action(ping, name="other")
    app = App("x")
    assert [each.name for each in app.add(ping)] == ["ping"]
    assert app.add(made) == [made]
    assert names(app) == ["ping", "other"]


async def test_a_partial_is_added_like_a_function() -> None:
    app = App("x")
    app.add(functools.partial(lambda a, b: [a, b], 1), name="pair", description="Pair.")
    assert (await app.invoke("pair", {"b": 2})).data == [1, 2]


def test_nothing_is_added_when_one_is_wrong() -> None:
    app = App("x")
    app.add({"taken": lambda: 1})
    with pytest.raises(DefinitionError):
        app.add({"fine": lambda: 1, "not fine": 5})
    with pytest.raises(DefinitionError):
        app.add({"fine": lambda: 1, "taken": lambda: 2})
    assert names(app) == ["taken"]


def test_an_app_takes_actions_at_birth_and_refuses_duplicates() -> None:
    async def ping() -> str:
        """Ping."""
        return "pong"

    assert names(App("x", actions=[Action(ping)])) == ["ping"]
    with pytest.raises(DefinitionError, match="ping"):
        App("x", actions=[Action(ping), Action(ping)])


def by_decorator(group: Group) -> None:
    @group.action
    async def create() -> None:
        """Create."""


def by_options(group: Group) -> None:
    @group.action(name="create")
    async def other() -> None:
        """Create."""


def by_dict(group: Group) -> None:
    group.add({"create": lambda: None})


@pytest.mark.parametrize("add", [by_decorator, by_options, by_dict], ids=lambda add: add.__name__)
def test_a_group_shares_a_prefix_and_defaults(add: Callable[[Group], None]) -> None:
    app = App("x")
    add(app.group("tasks_", side_effects="write", permissions=["tasks:write"]))
    made = app.actions[0]
    assert (made.name, made.side_effects, made.permissions) == ("tasks_create", "write", ("tasks:write",))


def test_an_action_of_a_group_may_differ_from_its_defaults() -> None:
    app = App("x")
    tasks = app.group(side_effects="write")

    @tasks.action(side_effects="read")
    async def show() -> None:
        """Show."""

    assert show.side_effects == "read"


def test_groups_nest() -> None:
    app = App("x")
    inner = app.group("a_", visibility="local").group("b_", side_effects="write")

    @inner.action
    async def c() -> None:
        """C."""

    assert (c.name, c.visibility, c.side_effects) == ("a_b_c", "local", "write")


def test_wrong_defaults_of_a_group_are_refused_when_used() -> None:
    app = App("x")
    with pytest.raises(DefinitionError, match="write"):
        app.group(side_effects="writes").add({"a": lambda: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"servces": {}}, {"permission_cheker": None}, {"attribution": {"txt": "x"}}, {"docs": {"sumary": "x"}}],
)
def test_an_app_refuses_unknown_options(options: Any) -> None:
    with pytest.raises(TypeError):
        App("x", **options)


@pytest.mark.parametrize("name", ["", "  ", 5, None])
def test_an_app_needs_a_name(name: Any) -> None:
    with pytest.raises(DefinitionError):
        App(name)


def test_hooks_and_preflight_of_an_app_are_checked() -> None:
    with pytest.raises(DefinitionError, match="on_invocation_start"):
        App("x", hooks={"on_invocation_strat": print})
    with pytest.raises(DefinitionError):
        App("x", hooks={"on_invocation_end": "text"})  # type: ignore[dict-item]
    with pytest.raises(DefinitionError, match="strict"):
        App("x", preflight="strikt")
    with pytest.raises(DefinitionError, match="placeholder"):
        App("x", redact={"placeholdr": "x"})
    with pytest.raises(DefinitionError):
        App("x", redact=5)  # type: ignore[arg-type]


async def test_a_function_that_is_given_with_options_has_them() -> None:
    app = App("x")

    def kill() -> str:
        """End it."""
        return "ended"

    made = app.action(
        kill, name="stop", side_effects="destructive", visibility="private", permissions=["a:b"]
    )
    assert (made.name, made.side_effects, made.visibility) == ("stop", "destructive", "private")
    assert made.permissions == ("a:b",)
    assert not (await app.invoke("stop")).ok
    assert app.group("all_").action(kill, visibility="local").visibility == "local"
    assert action(kill, name="other").name == "other"


def test_a_method_is_no_action_without_its_instance() -> None:
    app = App("x")
    with pytest.raises(DefinitionError, match=r"method of Crew.*app.add\(Crew"):

        class Crew:
            @app.action
            def hail(self, word: str) -> str:
                """Hail."""
                return word

    assert names(app) == []


@pytest.mark.parametrize("given", ["hail", 1, {"name": "hail"}])
def test_what_is_no_function_is_told_how_options_are_given(given: Any) -> None:
    with pytest.raises(DefinitionError, match=r"is not callable; give a function, and options by keyword"):
        App("x").action(given)
