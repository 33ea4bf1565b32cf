"""How large the tools are, how to make them smaller, and the command that shows both."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from fairlead import App
from fairlead.surfaces.llm.formats import FORMATS
from fairlead.surfaces.llm.trim import shortened, trimmed

LONG = "Search the catalogue. It knows every book there is. Ask for a title or for an author, not for both."
app = App("library")


@app.action(description=LONG)
def search(
    title: Annotated[str, Field(description=LONG, examples=["Emma"], title="Title of the book")] = "",
    limit: Annotated[int, Field(ge=1)] = 5,
    author: str | None = None,
) -> list[str]:
    return [title]


@app.action
def lend(book: int, extra: dict[str, int]) -> None:
    """Lend a book."""


class Ran(Protocol):
    code: int
    out: str
    err: str
    json: Any


Cli = Callable[..., Ran]


def search_tool(**options: Any) -> dict[str, Any]:
    function: dict[str, Any] = app.tools("openai", only=["search"], **options).definitions[0]["function"]
    return function


def test_a_report_has_each_tool_and_the_total() -> None:
    report = app.tools("openai").report()
    assert [row["name"] for row in report["tools"]] == ["search", "lend"]
    assert report["tokens"] == sum(row["tokens"] for row in report["tools"])
    for row, definition in zip(report["tools"], app.tools("openai").definitions, strict=True):
        size = len(json.dumps(definition, separators=(",", ":")))
        assert size / 4 <= row["tokens"] < size / 4 + 1
        assert row["strict"] is True


def test_a_report_says_why_a_tool_is_not_strict() -> None:
    rows = {row["name"]: row for row in app.tools("anthropic").report()["tools"]}
    assert rows["search"]["strict"] is True
    assert "reason" not in rows["search"]
    assert rows["lend"]["strict"] is False
    assert "any keys" in rows["lend"]["reason"]


def test_trimming_cuts_descriptions_at_a_sentence_and_drops_what_a_model_can_do_without() -> None:
    whole, trimmed = search_tool(), search_tool(trim=60)
    assert trimmed["description"] == "Search the catalogue. It knows every book there is."
    told = trimmed["parameters"]["properties"]
    assert told["title"] == {"type": ["string", "null"], "description": trimmed["description"]}
    assert told["limit"] == {"type": ["integer", "null"], "minimum": 1}
    assert told["author"] == {"type": ["string", "null"]}
    assert whole["parameters"]["properties"]["limit"]["description"] == "(default: 5)"
    assert app.tools("openai", trim=60).report()["tokens"] < app.tools("openai").report()["tokens"]


@pytest.mark.parametrize("format", FORMATS)
def test_trimmed_tools_take_the_same_calls(format: str) -> None:
    for input in ({"title": "Emma"}, {"author": None, "limit": 3}, {}):
        assert app.tools(format, trim=20).arguments("search", input) == app.tools(format).arguments(
            "search", input
        )


def test_unused_definitions_are_removed_and_used_ones_stay() -> None:
    document = {
        "type": "object",
        "title": "T",
        "properties": {"a": {"$ref": "#/$defs/A"}, "title": {"type": "string", "default": "x"}},
        "$defs": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"type": "integer", "examples": [1]},
            "C": {"$ref": "#/$defs/A"},
        },
    }
    smaller = trimmed(document, 10)
    assert list(smaller["$defs"]) == ["A", "B"]
    assert smaller["properties"] == {"a": {"$ref": "#/$defs/A"}, "title": {"type": "string"}}
    assert smaller["$defs"]["B"] == {"type": "integer"}
    assert "title" not in smaller
    assert "$defs" not in trimmed({"type": "object", "$defs": {"A": {}}}, 10)
    jsonschema_rs.validator_for(smaller)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab .!?\n"), max_size=60), st.integers(1, 40))
def test_a_shortened_text_is_a_beginning_within_its_length(text: str, longest: int) -> None:
    short = shortened(text, longest)
    assert len(short) <= longest
    assert text.startswith(short.removesuffix("…"))
    if len(text) <= longest:
        assert short == text


@pytest.mark.parametrize("trim", [0, -1, True, "5"])
def test_a_trim_without_sense_is_refused(trim: Any) -> None:
    with pytest.raises(TypeError, match="trim"):
        app.tools("openai", trim=trim)


@pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "gemini"])
def test_the_command_prints_the_definitions(cli: Cli, format: str) -> None:
    ran = cli(app, "tools", "--format", format)
    assert ran.code == 0
    assert ran.json == app.tools(format).definitions


def test_the_command_prints_ai_sdk_tools_without_what_is_no_data(cli: Cli) -> None:
    ran = cli(app, "tools", "--format", "ai-sdk", "--json")
    assert list(ran.json["lend"]) == ["description", "inputSchema", "metadata"]


def test_a_format_that_is_given_as_a_name_is_told_where_it_goes(cli: Cli) -> None:
    for format in ("openai", "ai-sdk"):
        ran = cli(app, "tools", format)
        assert ran.code == 2
        assert f"A format is given as --format {format}." in ran.err
    assert "--format" not in cli(app, "tools", "lemd").err


def test_the_command_takes_names_strictness_and_trimming(cli: Cli) -> None:
    ran = cli(app, "tools", "lend", "--no-strict")
    assert [tool["function"]["name"] for tool in ran.json] == ["lend"]
    assert ran.json[0]["function"]["strict"] is False
    assert cli(app, "tools", "search", "--trim", "60", "--strict").json[0]["function"] == search_tool(trim=60)


def test_the_command_prints_the_report_for_people_and_for_programs(cli: Cli) -> None:
    ran = cli(app, "tools", "--report", "--format", "anthropic")
    assert ran.code == 0
    total = app.tools("anthropic").report()["tokens"]
    assert f"2 tools, about {total} tokens as anthropic." in ran.out
    assert "search" in ran.out
    assert cli(app, "tools", "--report", "--json").json == app.tools("openai").report()
    assert "0 tools" in cli(App("none"), "tools", "--report").out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--format", "antropic"], "anthropic"),
        (["--trim", "many"], "whole number"),
        (["--trim", "0"], "whole number"),
        (["serch"], "search"),
        (["--strict", "--no-strict"], "--strict"),
        (["--reprot"], "--report"),
    ],
)
def test_arguments_that_make_no_sense_end_with_2_and_say_what_would(
    cli: Cli, arguments: list[str], hint: str
) -> None:
    ran = cli(app, "tools", *arguments)
    assert ran.code == 2
    assert hint in ran.err
