"""Names, help and the built-in commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from fairlead import Action, App, Failure, Kind

Cli = Callable[..., Any]

CODES = ["action", "tool", "host", "gateway", "runtime"]


def shop() -> App:
    app = App(
        "shop",
        description="Sell things.",
        attribution={"text": "Powered by Fairlead", "vendor": "Acme", "docs_url": "https://docs.example"},
    )

    @app.action(
        side_effects="write", permissions=["orders:write"], docs={"input_example": {"item": "two words"}}
    )
    async def place_order(
        item: Annotated[str, Field(description="What to buy.")],
        amount: Annotated[int, Field(ge=1, le=9)] = 2,
        speed: Literal["slow", "fast"] = "slow",
        gift: bool = False,
    ) -> str:
        """Place an order."""
        return item

    @app.action(version="2.0.0")
    async def price() -> int:
        """Tell the price."""
        return 2

    app.action(name="price", version="1.0.0", description="Tell the old price.")(lambda: 1)

    @app.action(deprecation={"since": "1.2", "replacement": "place_order", "message": "Too slow."})
    async def old_order() -> None:
        """Order the old way."""

    @app.action(visibility="local")
    async def local_one() -> str:
        """Stay here."""
        return "local"

    @app.action(visibility="private")
    async def secret_one() -> str:
        """Hide."""
        return "private"

    @app.action(supported_surfaces=["http"])
    async def web_only() -> None:
        """Serve the web."""

    return app


@pytest.mark.parametrize("name", ["place-order", "place_order", "place-order@1.0.0", "place_order@1.0.0"])
def test_an_action_is_called_by_either_spelling_of_its_name(cli: Cli, name: str) -> None:
    assert cli(shop(), name, "--item", "tea").json["data"] == "tea"


def test_versions_of_an_action_can_be_named(cli: Cli) -> None:
    assert cli(shop(), "price").json["data"] == 2
    assert cli(shop(), "price@1.0.0").json["data"] == 1


def test_hints_and_help_of_an_older_version_lead_to_that_version(cli: Cli) -> None:
    app = App("shop", description="Sell things.")

    @app.action(version="2.0.0")
    async def sweep_up(room: str) -> str:
        """Sweep."""
        return "swept"

    @app.action(name="sweep_up", version="1.0.0-rc-1", side_effects="destructive")
    async def burn_down(room: str) -> str:
        """Burn it down."""
        return "burnt"

    old = "sweep-up@1.0.0-rc-1"
    assert f"'shop {old} ...'" in cli(app, old, "--room", "x").err
    assert f"'shop run {old} ...'" in cli(app, "run", old, "--room", "x", "--detach").err
    wrong = cli(app, old, "--rom", "x")
    assert f"'shop {old} --help'" in wrong.err
    assert wrong.json["meta"]["action"] == "sweep_up"
    assert f"'shop {old} --help'" in cli(app, old, "--json", "[]").err
    page = cli(app, old, "--help").out
    assert f"Usage: shop {old} --room" in page
    assert f"\n  shop {old} --room text --confirm" in page
    assert "Usage: shop sweep-up --room" in cli(app, "sweep_up@2.0.0", "--help").out


@pytest.mark.parametrize("name", ["place-ordr", "nonsense", "secret-one", "secret_one@1.0.0", "price@9.0.0"])
def test_unknown_and_private_names_end_with_4(cli: Cli, name: str) -> None:
    ran = cli(shop(), name)
    assert ran.code == 4
    assert ran.json["error"]["code"] == "ACTION_NOT_FOUND"


def test_an_unknown_name_gets_the_near_miss_but_never_a_private_one(cli: Cli) -> None:
    assert "'place-order'" in cli(shop(), "place-ordr").err
    assert "'version'" in cli(shop(), "versoin").err
    assert "secret-one" not in cli(shop(), "secret-on").err


def test_an_action_of_other_surfaces_is_refused_without_naming_them(cli: Cli) -> None:
    ran = cli(shop(), "web-only")
    assert (ran.code, ran.json["error"]["code"]) == (4, "UNSUPPORTED_SURFACE")
    assert "http" not in ran.out + ran.err
    assert "'web-only'" not in cli(shop(), "web-onl").err


def test_a_very_long_name_is_cut(cli: Cli) -> None:
    ran = cli(shop(), "f" * 100_000)
    assert (ran.code, len(ran.out + ran.err) < 2_000) == (4, True)


def test_local_actions_are_there_for_people_on_this_machine(cli: Cli) -> None:
    assert cli(shop(), "local-one").json["data"] == "local"


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_what_is_there(cli: Cli, argv: list[str]) -> None:
    ran = cli(shop(), *argv)
    assert (ran.code, ran.err) == (0, "")
    for text in (
        "shop 0.1.0: Sell things.",
        "Actions:",
        "place-order",
        "local-one",
        "Calls and tasks:",
        "errors",
    ):
        assert text in ran.out
    for text in ("Powered by Fairlead", "Vendor: Acme", "Docs: https://docs.example", "--completion"):
        assert text in ran.out
    for text in ("secret-one", "web-only", "--app"):
        assert text not in ran.out


def test_help_shows_each_command_once_under_a_heading(cli: Cli) -> None:
    from fairlead.surfaces.cli.builtin import BUILTINS

    page = cli(shop(), "--help").out.partition("Calls and tasks:")[2]
    shown = re.findall(r"^  ([a-z]+)  ", page, re.MULTILINE)
    assert sorted(shown) == sorted(BUILTINS)


@pytest.mark.parametrize(
    "argv",
    [["place-order", "--help"], ["place-order", "-h"], ["help", "place_order"], ["--help", "place-order"]],
)
def test_an_actions_help_tells_its_flags_effects_and_an_example(cli: Cli, argv: list[str]) -> None:
    ran = cli(shop(), *argv)
    assert ran.code == 0
    for text in ("Place an order.", "Changes data.", "orders:write", "What to buy. [required]"):
        assert text in ran.out
    for text in ("1 to 9. [default: 2]", "--speed slow|fast", "--[no-]gift", "--idempotency-key"):
        assert text in ran.out
    assert "shop place-order --item 'two words'" in ran.out


def test_help_says_what_is_deprecated_and_what_to_use_instead(cli: Cli) -> None:
    ran = cli(shop(), "old-order", "--help")
    assert "Deprecated since 1.2. Too slow. Use place-order instead." in ran.out
    assert "[deprecated]" in cli(shop(), "--help").out


def test_help_is_not_shown_for_a_value_that_looks_like_it(cli: Cli) -> None:
    assert cli(shop(), "place-order", "--item", "-h").json["data"] == "-h"
    assert cli(shop(), "place-order", "--item=--help").json["data"] == "--help"


@pytest.mark.parametrize("name", ["actions", "manifest", "errors", "json", "version", "help"])
def test_every_built_in_command_has_a_page(cli: Cli, name: str) -> None:
    page = cli(shop(), name, "--help")
    assert page.code == 0
    assert f"Usage: shop {name}" in page.out
    assert cli(shop(), "help", name).out == page.out


def test_the_example_of_every_action_runs(cli: Cli) -> None:
    import shlex

    app = shop()
    for action in app.list_actions("cli"):
        page = cli(app, action.command_name, "--help").out
        example = page.rsplit("Example:\n  shop ", 1)[1]
        assert cli(app, *shlex.split(example)).code == 0


ODD: list[Any] = [
    {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    {"type": "string"},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]},
    {"type": "object", "properties": {"pair": {"$ref": "#/$defs/Pair"}}, "required": ["pair"],
     "$defs": {"Pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2}}},
    {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["code"]},
    {},
]  # fmt: skip


@pytest.mark.parametrize("schema", ODD)
def test_the_example_of_an_odd_input_runs_or_is_left_out(cli: Cli, schema: Any) -> None:
    import shlex

    def take(input: Any) -> Any:
        """Take it."""
        return input

    app = App("shop", actions=[Action(take, input=schema)])
    _, heading, example = cli(app, "take", "--help").out.partition("Example:\n  shop ")
    assert not heading or cli(app, *shlex.split(example)).code == 0


def test_schema_prints_the_input_schema(cli: Cli) -> None:
    ran = cli(shop(), "place-order", "--schema")
    assert ran.code == 0
    assert ran.json["required"] == ["item"]


def test_actions_gives_a_table_to_people_and_the_manifest_to_programs(cli: Cli) -> None:
    app = shop()
    listed = cli(app, "actions").json
    assert [each["commandName"] for each in listed] == ["place-order", "price", "old-order", "local-one"]
    assert listed == app.action_manifest("cli")
    assert cli(app, "actions", "--json", tty=True).json == listed
    table = cli(app, "actions", tty=True, env={"NO_COLOR": "1"}).out
    assert table.splitlines()[1].split() == ["place-order", "write", "Place", "an", "order."]
    assert cli(app, "actions", "--output", "table").out.startswith("action")


def test_126_manifest_gives_the_app_as_json(cli: Cli) -> None:
    told = cli(shop(), "manifest").json
    assert told["name"] == "shop"
    assert told["attribution"]["text"] == "Powered by Fairlead"
    assert "secret_one" not in [each["name"] for each in told["actions"]]


def test_errors_lists_every_code_of_every_family(cli: Cli) -> None:
    entries = cli(shop(), "errors", "--json").json
    assert {each["family"] for each in entries} == set(CODES)
    assert "CONFLICT" in cli(shop(), "errors").out


def test_errors_explains_one_code_whatever_its_case(cli: Cli) -> None:
    ran = cli(shop(), "errors", "timeout")
    assert ran.code == 0
    assert "exit code 124" in ran.out
    entry = next(
        each for each in cli(shop(), "errors", "TIMEOUT", "--json").json if each["family"] == "action"
    )
    assert (entry["httpStatus"], entry["exitCode"], entry["retryable"]) == (504, 124, True)


def test_errors_can_be_limited_to_a_family(cli: Cli) -> None:
    assert {each["family"] for each in cli(shop(), "errors", "--family", "tool", "--json").json} == {"tool"}
    assert cli(shop(), "errors", "--family", "tol").code == 2


def test_errors_knows_the_codes_of_the_app(cli: Cli) -> None:
    class OutOfTea(Failure, code="out_of_tea", kind=Kind.unavailable):
        """There is no tea."""

    assert "There is no tea." in cli(shop(), "errors", "out_of_tea").out


def test_an_unknown_code_ends_with_4_and_the_near_miss(cli: Cli) -> None:
    ran = cli(shop(), "errors", "TIMEOT")
    assert ran.code == 4
    assert "'TIMEOUT'" in ran.err


def test_version_names_the_dependencies(cli: Cli) -> None:
    assert cli(shop(), "version", "--json").json.keys() == {
        "fairlead",
        "python",
        "pydantic",
        "orjson",
        "click",
    }
    assert cli(shop(), "--version").out == cli(shop(), "version").out


@pytest.mark.parametrize(
    "argv",
    [["--halp"], ["actions", "--jsn"], ["actions", "extra"], ["errors", "--family"], ["--completion", "csh"]],
)
def test_wrong_options_of_the_program_end_with_2(cli: Cli, argv: list[str]) -> None:
    assert cli(shop(), *argv).code == 2


@pytest.mark.parametrize(
    "argv",
    [
        ["errors", "TIMEOT"],
        ["lint", "--nope"],
        ["diff", "nope.json"],
        ["doctor", "--cwd", "/nowhere"],
        ["keys", "list", "--nope"],
        ["tools", "--nope"],
        ["worker", "--lease", "0s"],
        ["insights", "list", "--nope"],
        ["store", "nope"],
    ],
)
def test_a_command_that_was_asked_for_json_is_refused_in_json(cli: Cli, argv: list[str]) -> None:
    ran = cli(shop(), *argv, "--json")
    assert ran.code in (2, 4)
    assert ran.json["error"]["code"] in ran.err


def test_help_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom fairlead.surfaces.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert not {"click", "pydantic", "asyncio", "fairlead.actions", "fairlead.runtime"} & set(
        done.stderr.split()
    )


def test_a_call_starts_without_click(tmp_path: Path) -> None:
    source = "from fairlead import App\napp = App('x')\n@app.action\nasync def go(): 'Go.'\n"
    source += (
        "try:\n    app.cli(['go'])\nexcept SystemExit:\n    import sys\n    sys.exit('click' in sys.modules)"
    )
    (tmp_path / "app.py").write_text(source)
    assert subprocess.run([sys.executable, "app.py"], capture_output=True, cwd=tmp_path).returncode == 0


def test_98_one_app_drives_manifest_cli_and_json_runner(cli: Cli) -> None:
    app = shop()
    payload = {"action": "place_order", "input": {"item": "tea"}}
    told = app.json_runner(auth={"permissions": ["orders:write"]}).invoke_sync(payload)
    assert told["data"] == cli(app, "place-order", "--json", '{"item": "tea"}').json["data"] == "tea"
    assert app.manifest()["actions"]
