"""What an action may be declared with: every wrong value is refused at definition time, and near misses are named."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from fairlead import Action, App, action
from fairlead.actions import Concurrency, DefinitionError, Deprecation, RateLimit, Retry
from fairlead.actions.definition import RESERVED_NAMES


async def ping() -> str:
    """Answer."""
    return "pong"


def define(**options: Any) -> Action[..., Any]:
    return Action(ping, **options)


def refusal(**options: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        define(**options)
    return str(caught.value)


def test_defaults_are_those_of_the_contract() -> None:
    made = define()
    assert (made.name, made.title, made.description, made.version) == ("ping", "Ping", "Answer.", "1.0.0")
    assert (made.visibility, made.side_effects, made.idempotency) == ("public", "read", "unspecified")
    assert made.permissions == ()
    assert made.supported_surfaces == ("cli", "json", "http", "mcp", "react", "dev", "ai-sdk")
    assert (made.timeout, made.deadline, made.rate_limit, made.preflight) == (None, None, None, None)
    assert made.retry == Retry(retries=0)
    assert made.concurrency == Concurrency(max=0)
    assert made.requires_confirmation is False
    assert (made.metadata, made.public_metadata, made.docs) == ({}, {}, {})
    assert (made.deprecated, made.deprecation) == (False, None)


@pytest.mark.parametrize(
    "name",
    ["", "Create", "create-task", "create task", "1st", "_x", "ünicode", "a.b", "name\n", "x" + "\u0301"],
)
def test_a_name_is_lower_case_snake_case(name: str) -> None:
    async def function() -> None:
        """Say nothing."""

    function.__name__ = name
    with pytest.raises(DefinitionError):
        Action(function)


@pytest.mark.parametrize("name", [5, b"ping", ["ping"]])
def test_a_name_is_text(name: Any) -> None:
    refusal(name=name)


@pytest.mark.parametrize(
    "name",
    [
        "actions",
        "manifest",
        "diff",
        "docs",
        "build",
        "package",
        "publish",
        "doctor",
        "init",
        "lint",
        "mcp",
        "dev",
        "help",
        "schema",
        "json",
    ],
)
def test_a_reserved_command_name_is_refused(name: str) -> None:
    assert name in RESERVED_NAMES
    assert name in refusal(name=name)


def test_every_reserved_name_is_refused() -> None:
    for name in RESERVED_NAMES:
        refusal(name=name)


@pytest.mark.parametrize(
    ("field", "wrong", "near"),
    [
        ("visibility", "pubic", "public"),
        ("visibility", "Private", "private"),
        ("side_effects", "destuctive", "destructive"),
        ("side_effects", "writes", "write"),
        ("idempotency", "idempotant", "idempotent"),
        ("idempotency", "non-idempotent", "non_idempotent"),
        ("supported_surfaces", ["htp"], "http"),
        ("supported_surfaces", ["ai_sdk"], "ai-sdk"),
        ("preflight", "strikt", "strict"),
    ],
)
def test_a_wrong_word_is_refused_with_the_near_miss(field: str, wrong: Any, near: str) -> None:
    message = refusal(**{field: wrong})
    assert field in message
    assert f"Did you mean {near!r}?" in message


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("side_effect", "side_effects"),
        ("requiresConfirmation", "requires_confirmation"),
        ("timeout_ms", "timeout"),
        ("descripton", "description"),
        ("permission", "permissions"),
        ("supportedSurfaces", "supported_surfaces"),
    ],
)
def test_an_unknown_option_is_refused_with_the_near_miss(option: str, near: str) -> None:
    assert f"Did you mean {near!r}?" in refusal(**{option: 1})


@pytest.mark.parametrize("field", ["visibility", "side_effects", "idempotency", "preflight"])
@pytest.mark.parametrize("wrong", [1, True, ["read"], "nonsense"])
def test_a_closed_set_takes_only_its_own_words(field: str, wrong: Any) -> None:
    assert field in refusal(**{field: wrong})


@pytest.mark.parametrize("field", ["timeout", "deadline"])
@pytest.mark.parametrize("wrong", [0, -1, math.inf, math.nan, "5", True, [5]])
def test_a_time_limit_is_a_positive_number_of_seconds(field: str, wrong: Any) -> None:
    assert field in refusal(**{field: wrong})


@pytest.mark.parametrize("field", ["timeout", "deadline"])
def test_a_time_limit_is_kept_in_seconds(field: str) -> None:
    assert getattr(define(**{field: 2}), field) == 2.0
    assert getattr(define(**{field: None}), field) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, Retry()),
        (False, Retry()),
        (True, Retry(retries=2, delay=0.1)),
        (3, Retry(retries=3)),
        ({"retries": 1, "delay": 0}, Retry(retries=1, delay=0)),
        (
            {"retries": 5, "backoff": "exponential", "max_delay": 1, "jitter": True},
            Retry(5, 0.1, "exponential", 1, True),
        ),
        (Retry(retries=4), Retry(retries=4)),
    ],
)
def test_every_form_of_retry_is_understood(given: Any, kept: Retry) -> None:
    assert define(retry=given).retry == kept


@pytest.mark.parametrize(
    "wrong",
    [
        -1,
        1.5,
        "yes",
        [],
        {"retries": -1},
        {"retries": True},
        {"retries": "2"},
        {"delay": -1},
        {"delay": math.inf},
        {"delay": "1"},
        {"backoff": "quadratic"},
        {"max_delay": -1},
        {"jitter": "yes"},
        {"tries": 3},
    ],
)
def test_a_wrong_retry_is_refused(wrong: Any) -> None:
    assert "retry" in refusal(retry=wrong)


def test_a_misspelt_key_of_retry_is_named() -> None:
    assert "'retries'" in refusal(retry={"retrys": 1})
    assert "'exponential'" in refusal(retry={"backoff": "exponental"})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, Concurrency()),
        (0, Concurrency()),
        (2, Concurrency(max=2)),
        ({"max": 2, "queue": 5, "wait": 1}, Concurrency(2, 5, 1)),
        (Concurrency(3), Concurrency(3)),
    ],
)
def test_every_form_of_concurrency_is_understood(given: Any, kept: Concurrency) -> None:
    assert define(concurrency=given).concurrency == kept


@pytest.mark.parametrize(
    "wrong",
    [-1, 1.5, True, "2", {"max": -1}, {"max": 1, "queue": -1}, {"max": 1, "wait": 0}, {"maximum": 2}],
)
def test_a_wrong_concurrency_is_refused(wrong: Any) -> None:
    assert "concurrency" in refusal(concurrency=wrong)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("10/second", RateLimit(10, 1.0)),
        ("10/s", RateLimit(10, 1.0)),
        ("10 / Minute", RateLimit(10, 60.0)),
        ("3/hour", RateLimit(3, 3600.0)),
        ({"limit": 5, "per": 2}, RateLimit(5, 2)),
        ({"limit": 5, "by": "action"}, RateLimit(5, 60.0, "action")),
        (RateLimit(1), RateLimit(1)),
    ],
)
def test_every_form_of_a_rate_limit_is_understood(given: Any, kept: RateLimit | None) -> None:
    assert define(rate_limit=given).rate_limit == kept


@pytest.mark.parametrize(
    "wrong",
    [
        "10",
        "10/fortnight",
        "0/minute",
        "ten/minute",
        10,
        True,
        {},
        {"per": 60},
        {"limit": 0},
        {"limit": 1, "per": 0},
        {"limit": 1, "by": "user"},
        {"limits": 1},
    ],
)
def test_a_wrong_rate_limit_is_refused(wrong: Any) -> None:
    assert "rate_limit" in refusal(rate_limit=wrong)


@pytest.mark.parametrize("field", ["permissions", "supported_surfaces"])
@pytest.mark.parametrize("wrong", ["cli", 5, [""], [5], [None], None])
def test_a_list_of_names_is_a_list_of_non_empty_strings(field: str, wrong: Any) -> None:
    if field == "supported_surfaces" and wrong is None:
        assert define(supported_surfaces=None).supported_surfaces == define().supported_surfaces
        return
    assert field in refusal(**{field: wrong})


@pytest.mark.parametrize("field", ["metadata", "public_metadata", "docs"])
@pytest.mark.parametrize("wrong", [[], "text", 5, {1: 2}])
def test_metadata_and_docs_are_dicts_with_string_keys(field: str, wrong: Any) -> None:
    assert field in refusal(**{field: wrong})


def test_an_unknown_key_of_docs_is_refused_with_the_near_miss() -> None:
    assert "Did you mean 'when_to_use'?" in refusal(docs={"when_touse": "x"})


@pytest.mark.parametrize("field", ["public_metadata", "docs"])
def test_what_manifests_will_show_must_be_json(field: str) -> None:
    key = "note" if field == "public_metadata" else "input_example"
    assert field in refusal(**{field: {key: object()}})


@pytest.mark.parametrize("wrong", [1, "1.x", "v1", "", "1.0.0.0", None])
def test_a_version_is_digits_and_dots(wrong: Any) -> None:
    assert "version" in refusal(version=wrong)


@pytest.mark.parametrize("version", ["1", "1.2", "1.2.3", "2.0.0-rc.1", "0.0.0-test", "1.0.0+build.5"])
def test_usual_versions_are_taken(version: str) -> None:
    assert define(version=version).version == version


@pytest.mark.parametrize("wrong", [5, "   ", [], {}])
def test_a_title_and_a_description_are_text(wrong: Any) -> None:
    assert "title" in refusal(title=wrong) if wrong else True
    assert "description" in refusal(description=wrong)


def test_a_function_without_any_description_is_refused() -> None:
    async def bare() -> None: ...

    with pytest.raises(DefinitionError, match="description"):
        Action(bare)


@pytest.mark.parametrize("wrong", ["yes", 1, 0, "true", "Token", []])
def test_requires_confirmation_is_a_boolean_or_token(wrong: Any) -> None:
    assert "requires_confirmation" in refusal(requires_confirmation=wrong)


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({}, False),
        ({"side_effects": "write"}, False),
        ({"side_effects": "destructive"}, True),
        ({"side_effects": "destructive", "requires_confirmation": False}, False),
        ({"requires_confirmation": True}, True),
        ({"requires_confirmation": "token"}, "token"),
    ],
)
def test_destructive_actions_need_confirmation_unless_they_say_otherwise(
    options: dict[str, Any], needed: Any
) -> None:
    assert define(**options).requires_confirmation == needed


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, None),
        ({"deprecated": False}, None),
        ({"deprecated": True}, Deprecation()),
        ({"deprecation": "use other"}, Deprecation(message="use other")),
        (
            {"deprecation": {"since": "2.0", "replacement": "other", "remove_after": "3.0"}},
            Deprecation(None, "2.0", "3.0", "other"),
        ),
        ({"deprecated": True, "deprecation": {"message": "m"}}, Deprecation("m")),
        ({"deprecation": Deprecation("m")}, Deprecation("m")),
    ],
)
def test_either_deprecated_or_deprecation_makes_an_action_deprecated(
    options: dict[str, Any], kept: Deprecation | None
) -> None:
    made = define(**options)
    assert made.deprecation == kept
    assert made.deprecated is (kept is not None)


@pytest.mark.parametrize(
    "options",
    [
        {"deprecated": "yes"},
        {"deprecated": 1},
        {"deprecation": 5},
        {"deprecation": True},
        {"deprecation": {"removeAfter": "3"}},
        {"deprecation": {"message": 5}},
    ],
)
def test_a_wrong_deprecation_is_refused(options: dict[str, Any]) -> None:
    assert "deprecat" in refusal(**options)


def test_what_is_not_callable_is_refused() -> None:
    with pytest.raises(DefinitionError):
        Action("ping", name="x", description="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["input", "output"])
@pytest.mark.parametrize("wrong", [object(), {"type": "strin"}, 5])
def test_a_type_that_cannot_be_used_is_refused(field: str, wrong: Any) -> None:
    async def echo(value: Any) -> Any:
        """Give back."""
        return value

    with pytest.raises(DefinitionError, match=field):
        Action(echo, **{field: wrong})


@pytest.mark.parametrize("kind", ["*args", "**kwargs", "positional only"])
def test_parameters_that_callers_cannot_name_are_refused(kind: str) -> None:
    async def star(*args: int) -> None:
        """Take many."""

    async def stars(**kwargs: int) -> None:
        """Take many."""

    async def slash(x: int, /) -> None:
        """Take one."""

    function: Any = {"*args": star, "**kwargs": stars, "positional only": slash}[kind]
    with pytest.raises(DefinitionError):
        Action(function)


def test_the_refusal_names_the_action_and_is_a_type_error() -> None:
    message = refusal(timeout=-1)
    assert "'ping'" in message
    assert issubclass(DefinitionError, TypeError)


def test_an_action_cannot_be_changed() -> None:
    made = define()
    with pytest.raises(DefinitionError):
        made.timeout = 5.0
    with pytest.raises(DefinitionError):
        made.other = 1
    with pytest.raises((DefinitionError, AttributeError)):
        del made.name
    assert made.name == "ping"


def test_what_was_given_can_change_without_changing_the_action() -> None:
    permissions, metadata = ["a"], {"x": 1}
    made = define(permissions=permissions, metadata=metadata)
    permissions.append("b")
    metadata["y"] = 2
    assert (made.permissions, made.metadata) == (("a",), {"x": 1})


async def test_calling_an_action_calls_the_bare_function() -> None:
    @action
    async def double(x: int) -> int:
        """Double a number."""
        return 2 * x

    @action
    def half(x: float) -> float:
        """Halve a number."""
        return x / 2

    assert await double(21) == 42
    assert await double(x=1) == 2
    assert half(5) == 2.5


def test_the_decorator_works_with_and_without_parentheses() -> None:
    app = App("x")

    @app.action
    def one() -> None:
        """One."""

    @app.action()
    def two() -> None:
        """Two."""

    @app.action(name="three", side_effects="write")
    def other() -> None:
        """Three."""

    assert [each.name for each in app.actions] == ["one", "two", "three"]
    assert all(isinstance(each, Action) for each in (one, two, other))


def test_the_repr_names_the_action_and_no_more() -> None:
    assert repr(define(metadata={"password": "hunter2"})) == "Action('ping', version='1.0.0')"


def test_an_action_can_be_made_with_its_types_spelled_out() -> None:
    assert Action[..., Any](ping).name == "ping"


def _called_back(word: str, then: Callable[[int], int]) -> int:
    """Take what no caller can send."""
    return then(len(word))


def _names_a_class(word: str, kind: type[int]) -> int:
    """Take what no caller can send either."""
    return kind(word)


def _gives_functions(word: str) -> list[Callable[[int], int]]:
    """Give what JSON cannot say."""
    return [len(word).__add__]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_called_back, "the input type cannot be used: 'then': JSON has no form for such a value"),
        (_names_a_class, "the input type cannot be used: 'kind': JSON has no form for such a value"),
        (_gives_functions, "the output type cannot be used: JSON has no form for such a value"),
    ],
)
def test_a_type_without_a_json_schema_is_refused_where_it_is_defined(
    function: Callable[..., Any], told: str
) -> None:
    with pytest.raises(DefinitionError, match=told):
        Action(function, name="act")
