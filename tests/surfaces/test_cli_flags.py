"""What the arguments of an action mean, and which are refused. Numbers are those of the conformance checklist."""

from __future__ import annotations

import enum
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from fairlead import App, s

Cli = Callable[..., Any]


class Level(enum.IntEnum):
    low = 1
    high = 2


class Address(BaseModel):
    city: str
    zipCode: int | None = None


class Tree(BaseModel):
    value: int
    left: Tree | None = None


def break_down(value: str) -> str:
    raise RuntimeError


def app_of(function: Callable[..., Any], **options: Any) -> App:
    app = App("demo")
    options.setdefault("description", "Echo.")
    options.setdefault("name", "echo")
    app.action(**options)(function)
    return app


async def everything(
    title: str = "",
    count: int = 0,
    ratio: float = 0.0,
    urgent: bool = False,
    level: Level = Level.low,
    status: Literal["open", "done"] = "open",
    limit: int | None = 7,
    tags: list[str] = [],  # noqa: B006
    numbers: list[int] = [],  # noqa: B006
    labels: dict[str, int] = {},  # noqa: B006
    address: Address | None = None,
    either: int | str = 0,
    anything: Any = None,
    price: Decimal = Decimal(0),
    dueDate: str = "",
    no_cache: bool = False,
    cache: bool = True,
    tree: Tree | None = None,
) -> dict[str, Any]:
    return {key: value for key, value in locals().items() if key not in ("app",)}


app = app_of(everything)


def given(cli: Cli, *argv: str, **options: Any) -> dict[str, Any]:
    """The fields that the arguments changed, as the action received them."""
    ran = cli(app, "echo", *argv, **options)
    assert ran.code == 0, ran.err
    plain = cli(app, "echo").json["data"]
    return {key: value for key, value in ran.json["data"].items() if value != plain[key]}


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--title", "Write"], {"title": "Write"}),
        (["--title=Write"], {"title": "Write"}),
        (["--title=--dashes"], {"title": "--dashes"}),
        (["--title=a=b"], {"title": "a=b"}),
        (["--title", "-h"], {"title": "-h"}),
        (["--title", "@@home"], {"title": "@home"}),
        (["--count", "-5"], {"count": -5}),
        (["--count", "+5"], {"count": 5}),
        (["--ratio", "1e3"], {"ratio": 1000.0}),
        (["--ratio", ".5"], {"ratio": 0.5}),
        (["--urgent"], {"urgent": True}),
        (["--urgent", "YES"], {"urgent": True}),
        (["--urgent=1"], {"urgent": True}),
        (["--urgent", "--count", "1"], {"urgent": True, "count": 1}),
        (["--cache", "false"], {"cache": False}),
        (["--cache", "0"], {"cache": False}),
        (["--cache", "no"], {"cache": False}),
        (["--no-cache"], {"no_cache": True}),
        (["--level", "2"], {"level": 2}),
        (["--status", "done"], {"status": "done"}),
        (["--limit", "null"], {"limit": None}),
        (["--tags", "a", "--tags", "b"], {"tags": ["a", "b"]}),
        (["--tags", '["a", "b"]', "--tags", "c"], {"tags": ["a", "b", "c"]}),
        (["--tags", "[draft"], {"tags": ["[draft"]}),
        (["--numbers", "1", "--numbers", "2"], {"numbers": [1, 2]}),
        (["--labels", "a=1", "--labels", "b=2"], {"labels": {"a": 1, "b": 2}}),
        (["--labels", '{"a": 1}'], {"labels": {"a": 1}}),
        (["--address", '{"city": "Rome"}'], {"address": {"city": "Rome", "zipCode": None}}),
        (["--address.city", "Rome"], {"address": {"city": "Rome", "zipCode": None}}),
        (["--address.city", "Rome", "--address.zip-code", "1"], {"address": {"city": "Rome", "zipCode": 1}}),
        (
            ["--address.zipCode=1", "--address", '{"city": "Rome"}'],
            {"address": {"city": "Rome", "zipCode": 1}},
        ),
        (
            ["--tree.value", "1", "--tree.left.value", "2"],
            {"tree": {"value": 1, "left": {"value": 2, "left": None}}},
        ),
        (["--either", "5"], {"either": 5}),
        (["--either", "five"], {"either": "five"}),
        (["--either", '"5"'], {"either": "5"}),
        (["--anything", '{"a": [1]}'], {"anything": {"a": [1]}}),
        (["--anything", "words"], {"anything": "words"}),
        (["--price", "0.12345678901234567890"], {"price": "0.12345678901234567890"}),
        (["--price", "1.10"], {"price": "1.10"}),
        (["--dueDate", "x"], {"dueDate": "x"}),
        (["--due-date", "x"], {"dueDate": "x"}),
        (["--due_date", "x"], {"dueDate": "x"}),
        (["--field-title", "x"], {"title": "x"}),
        (["--json", '{"title": "x", "count": 2}'], {"title": "x", "count": 2}),
        (['--json={"title": "x"}'], {"title": "x"}),
    ],
)
def test_flags_give_the_fields_they_name(cli: Cli, argv: list[str], expected: dict[str, Any]) -> None:
    assert given(cli, *argv) == expected


@pytest.mark.parametrize(
    ("argv", "path", "code"),
    [
        (["--urgent", "maybe"], "urgent", "invalid_value"),
        (["--urgent="], "urgent", "invalid_value"),
        (["--count", ""], "count", "invalid_value"),
        (["--count", "0x10"], "count", "invalid_value"),
        (["--count", "9" * 5000], "count", "invalid_value"),
        (["--ratio", ""], "ratio", "invalid_value"),
        (["--ratio", "nan"], "ratio", "invalid_value"),
        (["--ratio", "1e999"], "ratio", "invalid_value"),
        (["--level", "3"], "level", "invalid_value"),
        (["--numbers", "[1"], "numbers", "invalid_value"),
        (["--labels", "a"], "labels", "invalid_value"),
        (["--labels", "a=1", "--labels", "a=2"], "labels", "duplicate"),
        (["--address", "{"], "address", "invalid_value"),
        (["--title", "a", "--title", "b"], "title", "duplicate"),
        (["--title", "\udcff"], "title", "invalid_value"),
        (["--title", "@/nowhere/at/all"], "title", "invalid_value"),
        (["--title"], "--title", "missing_value"),
        (["--title", "--urgent"], "--title", "missing_value"),
        (["--no-urgent=1"], "--no-urgent", "unexpected_value"),
        (["--no-title"], "--no-title", "not_boolean"),
        (["--titel", "x"], "--titel", "unknown_flag"),
        (["--no-such"], "--no-such", "unknown_flag"),
        (["--address.street", "x"], "--address.street", "unknown_flag"),
        (["loose"], "argument 1", "unexpected_argument"),
        (["-x"], "argument 1", "unexpected_argument"),
        (["--"], "argument 1", "unexpected_argument"),
        (["--json"], "--json", "missing_value"),
        (["--json", "{"], "--json", "invalid_json"),
        (["--json", ""], "--json", "invalid_json"),
        (["--json="], "--json", "invalid_json"),
        (["--json", "{}", "--title", "x"], "--json", "conflict"),
        (["--json", "{}", "--json", "{}"], "--json", "duplicate"),
        (["--ndjson=yes"], "--ndjson", "unexpected_value"),
        (["--output", "yaml"], "--output", "invalid_value"),
        (["--timeout-ms", "soon"], "--timeout-ms", "invalid_value"),
        (["--timeout-ms", "0"], "--timeout-ms", "invalid_value"),
        (["--timeout-ms", "inf"], "--timeout-ms", "invalid_value"),
        (["--idempotency-key", ""], "--idempotency-key", "invalid_value"),
        (["--confirm="], "--confirm", "invalid_value"),
    ],
)
def test_arguments_that_make_no_sense_end_with_2_and_say_where(
    cli: Cli, argv: list[str], path: str, code: str
) -> None:
    ran = cli(app, "echo", *argv)
    assert ran.code == 2
    assert ran.json["error"]["code"] == "VALIDATION_ERROR"
    assert ran.issues == {path: code}
    assert "echo --help" in ran.err


def test_every_mistake_is_told_at_once(cli: Cli) -> None:
    ran = cli(app, "echo", "--count", "x", "--ratio", "y", "--titel", "z")
    assert ran.issues == {"count": "invalid_value", "ratio": "invalid_value", "--titel": "unknown_flag"}


def test_flags_that_cannot_be_read_and_values_that_do_not_fit_are_told_together(cli: Cli) -> None:
    shape = {
        "taskId": s.string().min(3),
        "when": s.string().datetime(),
        "site": s.string().url(),
        "urgent": s.boolean().optional(),
        "count": s.number().optional(),
    }
    app = app_of(lambda given: given, input=s.object(shape))
    argv = ["--task-id", "x", "--when", "yesterday", "--urgent", "maybe", "--count", "y", "--output", "yaml"]
    ran = cli(app, "echo", *argv)
    assert (ran.code, set(ran.issues)) == (2, {"taskId", "when", "site", "urgent", "count", "--output"})
    assert all(
        f"\n  {flag}: " in ran.err for flag in ("--task-id", "--when", "--site", "--urgent", "--count")
    )
    whole = cli(app, "echo", "--json", '{"taskId": "x"}', "--output", "yaml")
    assert set(whole.issues) == {"taskId", "when", "site", "--output"}


@pytest.mark.parametrize(
    ("argv", "wrong"),
    [
        (["--count", "x"], {"count", "address"}),
        (["--count"], {"--count", "address"}),
        (["--cuont", "3"], {"--cuont", "address"}),
        (["--no-count"], {"--no-count", "address"}),
        (["count=3"], {"argument 1", "address"}),
        (["--zzz", "3"], {"--zzz", "count", "address"}),
        (["--count", "1", "--address.zip-code", "x"], {"address.zipCode", "address.city"}),
        (["--count", "1", "--address", "{"], {"address"}),
        (["--json", "{"], {"--json"}),
        (["--json"], {"--json"}),
        (["--json", "{}", "--count", "1"], {"--json"}),
    ],
)
def test_one_slip_is_told_once(cli: Cli, argv: list[str], wrong: set[str]) -> None:
    async def send(count: int, address: Address) -> None: ...

    assert set(cli(app_of(send), "echo", *argv).issues) == wrong


def test_fields_that_a_batch_gives_are_not_missed(cli: Cli) -> None:
    async def send(count: int) -> None: ...

    ran = cli(app_of(send), "run", "--batch", "-", "--json", "echo", "--timeout-ms", "soon")
    assert set(ran.issues) == {"--timeout-ms"}


def test_a_check_of_the_app_that_breaks_does_not_hide_what_is_wrong_with_the_flags(cli: Cli) -> None:
    async def send(name: Annotated[str, AfterValidator(break_down)], count: int) -> None: ...

    assert cli(app_of(send), "echo", "--name", "a", "--count", "x").issues == {"count": "invalid_value"}


def test_an_unknown_flag_names_the_near_miss(cli: Cli) -> None:
    assert "'--title'" in cli(app, "echo", "--titel", "x").err
    assert "'--address.city'" in cli(app, "echo", "--address.citty", "x").err


def test_a_word_that_is_a_field_is_answered_with_its_flag(cli: Cli) -> None:
    assert "--title" in cli(app, "echo", "title=x").err


@pytest.mark.parametrize(
    "argv", [["--count", "s3cret"], ["--titel=s3cret"], ["s3cret"], ["--title", "@s3cret"]]
)
def test_rejected_values_are_not_repeated(cli: Cli, argv: list[str]) -> None:
    ran = cli(app, "echo", *argv)
    assert ran.code == 2
    assert "s3cret" not in ran.out + ran.err


def test_values_come_from_files_and_stdin(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("line one\nline two\n")
    assert given(cli, "--title", f"@{file}") == {"title": "line one\nline two\n"}
    assert given(cli, "--title", "-", stdin="typed\n") == {"title": "typed\n"}
    assert given(cli, "--count", "-", stdin="12\n") == {"count": 12}
    assert given(cli, "--json", "-", stdin='{"count": 3}') == {"count": 3}
    file.write_text('{"city": "Rome"}')
    assert given(cli, "--address", f"@{file}") == {"address": {"city": "Rome", "zipCode": None}}


def test_stdin_can_be_read_by_one_value_only(cli: Cli) -> None:
    ran = cli(app, "echo", "--title", "-", "--dueDate", "-", stdin="x")
    assert ran.issues == {"dueDate": "invalid_value"}


def test_fields_named_like_flags_of_the_call_are_reachable(cli: Cli) -> None:
    async def echo(
        json: str, schema: str, confirm: bool, output: str, timeout_ms: int, help: str, idempotency_key: str
    ) -> list[Any]:
        return [json, schema, confirm, output, timeout_ms, help, idempotency_key]

    argv = ["--field-json", "a", "--field-schema", "b", "--field-confirm", "--field-output", "c"]
    argv += ["--field-timeout-ms", "5", "--field_help", "d", "--field-idempotency-key", "e"]
    ran = cli(app_of(echo), "echo", *argv)
    assert ran.json["data"] == ["a", "b", True, "c", 5, "d", "e"]


def test_spellings_shared_by_two_fields_mean_neither(cli: Cli) -> None:
    async def echo(dueDate: int = 0, due_date: int = 0) -> list[int]:
        return [dueDate, due_date]

    both = app_of(echo)
    assert cli(both, "echo", "--dueDate", "1", "--due_date", "2").json["data"] == [1, 2]
    assert cli(both, "echo", "--due-date", "1").issues == {"--due-date": "unknown_flag"}


def test_boolean_whose_negation_is_another_field_is_set_by_word(cli: Cli) -> None:
    assert given(cli, "--cache", "false", "--no-cache", "true") == {"cache": False, "no_cache": True}


def test_a_null_root_and_a_list_root_come_by_json(cli: Cli) -> None:
    async def echo(value: Any) -> Any:
        return value

    nothing = app_of(echo, input={"type": ["null", "array"]})
    assert cli(nothing, "echo", "--json", "null").json["data"] is None
    assert cli(nothing, "echo", "--json", "[1]").json["data"] == [1]
    assert "--json" in cli(nothing, "echo", "--value", "1").err


def test_79_numbers_are_read_as_numbers(cli: Cli) -> None:
    async def add(a: Annotated[int, Field()], b: int) -> int:
        return a + b

    ran = cli(app_of(add, name="add"), "add", "--a", "5", "--b", "7")
    assert (ran.code, ran.json["data"], ran.err) == (0, 12, "")


def test_a_short_flag_and_its_value_are_one_slip(cli: Cli) -> None:
    app = App("short")

    @app.action
    async def go(n: int) -> int:
        """Go."""
        return n

    ran = cli(app, "go", "-n", "5")
    assert ran.issues == {"argument 1": "unexpected_argument"}
    assert "--n" in ran.err


@pytest.mark.parametrize(
    ("argv", "pair"),
    [
        (["--pair", "1", "--pair", "b"], [1, "b"]),
        (["--pair", "1", "--pair", "5"], [1, "5"]),
        (["--pair", "[1]", "--pair", "5"], [1, "5"]),
        (["--pair", '[1, "b"]'], [1, "b"]),
    ],
)
def test_each_flag_of_a_tuple_is_read_by_the_type_of_its_own_item(
    cli: Cli, argv: list[str], pair: list[Any]
) -> None:
    async def echo(pair: tuple[int, str]) -> Any:
        return pair

    assert cli(app_of(echo), "echo", *argv).json["data"] == pair


def test_help_tells_the_objects_of_a_union_apart_by_what_they_need(cli: Cli) -> None:
    async def plant(what: Address | Tree) -> None: ...

    told = " ".join(cli(app_of(plant), "echo", "--help").out.split())
    assert "A JSON object with city or a JSON object with value." in told
    assert "a JSON object with city or" in cli(app_of(plant), "echo", "--what", "3").err
