"""Lint finds what callers would stumble over, says where, and can be told what is meant."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from math import inf
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from fairlead import Action, App, s
from fairlead.actions import DefinitionError
from fairlead.pipelines.apps import action_of
from fairlead.project.lint import lint_actions, sarif
from fairlead.project.rules import RULES, Settings

Number = Annotated[int, "Which one."]


def good(x: Number) -> int:
    """Give the thing back as it is."""
    return x


def undescribed(x: int) -> int:
    """Give the thing back as it is."""
    return x


def unannotated(x: Number):  # type: ignore[no-untyped-def]
    """Give the thing back as it is."""
    return x


def secret(api_key: Annotated[str, "The key."] = "sk-live-0123456789abcdef0123") -> int:
    """Give the thing back as it is."""
    return 1


def misfit(x: Annotated[int, "Which one."] = "one") -> int:  # type: ignore[assignment]
    """Give the thing back as it is."""
    return x


def below(x: Annotated[int, Field(ge=1, description="Which one.")] = 0) -> int:
    """Give the thing back as it is."""
    return x


def action(function: Callable[..., Any] = good, **options: Any) -> Action[..., Any]:
    return Action(function, **options)


NESTED: Any = s.number()
for _ in range(6):
    NESTED = s.object({"a": NESTED})

CASES: list[tuple[str, list[Action[..., Any]]]] = [
    ("DUPLICATE_ACTION", [action(), action()]),
    ("INVALID_NAME", [action(name="a" * 65)]),
    ("WEAK_DESCRIPTION", [action(description="Do.")]),
    ("VAGUE_DESCRIPTION", [action(description="Performs the operation.")]),
    ("VAGUE_DESCRIPTION", [action(name="close_account", description="Close Account.")]),
    ("LONG_DESCRIPTION", [action(description="word " * 300)]),
    ("DESTRUCTIVE_MCP", [action(side_effects="destructive")]),
    ("DESTRUCTIVE_WITHOUT_CONFIRMATION", [action(side_effects="destructive", requires_confirmation=False)]),
    ("UNSPECIFIED_IDEMPOTENCY", [action(side_effects="write")]),
    ("WRITE_WITHOUT_PERMISSION", [action(side_effects="write")]),
    ("NON_OBJECT_INPUT", [action(input=s.number())]),
    ("MISSING_OUTPUT_SCHEMA", [action(unannotated)]),
    ("UNDESCRIBED_PARAMETER", [action(undescribed)]),
    ("CONFUSABLE_NAMES", [action(name="list_task"), action(name="list_tasks")]),
    ("CONFUSABLE_NAMES", [action(name="task_list"), action(name="list_task")]),
    ("CONFUSABLE_NAMES", [action(name="create_user"), action(name="creates_user")]),
    (
        "PROVIDER_SCHEMA",
        [action(lambda value: value, name="deep", description="Go deep into it.", input=NESTED)],
    ),
    ("INVALID_EXAMPLE", [action(docs={"input_example": {"x": "one"}})]),
    ("INVALID_EXAMPLE", [action(docs={"output_example": "one"})]),
    ("INVALID_DEFAULT", [action(misfit)]),
    ("INVALID_DEFAULT", [action(below)]),
    ("SECRET_DEFAULT", [action(secret)]),
    (
        "SECRET_DEFAULT",
        [action(docs={"input_example": {"x": 1}, "output_example": 1}), action(secret, name="b")],
    ),
    ("DEPRECATED_WITHOUT_REPLACEMENT", [action(deprecated=True)]),
]


@pytest.mark.parametrize(("code", "actions"), CASES)
def test_each_rule_finds_what_it_is_for(code: str, actions: list[Action[..., Any]]) -> None:
    report = lint_actions(actions)
    found = [finding for finding in report["findings"] if finding["code"] == code]
    assert found
    assert {finding["level"] for finding in found} == {RULES[code].level}
    assert report["ok"] is not any(finding["level"] == "error" for finding in report["findings"])


def test_every_rule_has_a_case() -> None:
    assert {code for code, _ in CASES} == set(RULES)


def test_a_good_action_has_no_findings() -> None:
    assert lint_actions([action()]) == {"ok": True, "findings": []}


class Berth(BaseModel):
    """Where a ship lies."""

    number: int = 1
    since: date = date(2026, 1, 1)


class Side(Enum):
    """Which side."""

    port = "left"


MISSING: Any = object()


def test_defaults_that_fit_are_no_finding() -> None:
    def berth(
        none: Annotated[int, "."] = None,  # type: ignore[assignment]  # noqa: RUF013
        blank: Annotated[str, Field(min_length=1, description=".")] = "",
        left_out: Annotated[int, "."] = MISSING,
        endless: Annotated[float, "."] = inf,
        whole: Annotated[float, "."] = 1,
        day: Annotated[date, "."] = date(2026, 1, 1),
        side: Annotated[Side, "."] = Side.port,
        place: Annotated[Path, "."] = Path("pier"),
        tags: Annotated[Sequence[str], "."] = (),
        names: Annotated[frozenset[str], "."] = frozenset({"a"}),
        raw: Annotated[bytes, "."] = b"a",
        wait: Annotated[timedelta, "."] = timedelta(seconds=1),
        price: Annotated[Decimal, "."] = Decimal("1.5"),
        key: Annotated[SecretStr, "."] = SecretStr("a"),  # noqa: B008
        at: Annotated[Berth, "."] = Berth(),  # noqa: B008
        styled: int = Field(3, description="."),
    ) -> int:
        """Give a berth to a ship."""
        return 1

    findings = lint_actions([action(berth)])["findings"]
    assert [each for each in findings if each["code"] == "INVALID_DEFAULT"] == []


@pytest.mark.parametrize(
    ("one", "other"), [("create_task", "delete_task"), ("get", "set"), ("open", "opens_door")]
)
def test_names_that_differ_plainly_are_not_confused(one: str, other: str) -> None:
    assert lint_actions([action(name=one), action(name=other)])["findings"] == []


def test_what_is_done_grows_with_the_actions_and_not_with_their_pairs() -> None:
    def steps(count: int) -> int:
        words = [f"act_{number:016b}".replace("0", "on").replace("1", "off") for number in range(count)]
        app, done = [action(name=name) for name in words], 0

        def step(*_: object) -> None:
            nonlocal done
            done += 1

        sys.setprofile(step)
        try:
            lint_actions(app)
        finally:
            sys.setprofile(None)
        return done

    assert steps(400) < 5 * steps(100)


def test_an_app_lints_itself() -> None:
    app = App("app")
    app.add(good, side_effects="write")
    report = app.lint()
    assert report["ok"] is True
    assert [finding["code"] for finding in report["findings"]] == [
        "UNSPECIFIED_IDEMPOTENCY",
        "WRITE_WITHOUT_PERMISSION",
    ]


def test_a_finding_says_where_the_function_is() -> None:
    [finding] = lint_actions([action(undescribed)])["findings"]
    assert (finding["file"], finding["field"]) == (__file__, "x")
    assert finding["line"] == undescribed.__code__.co_firstlineno


def test_a_pipeline_is_held_only_to_what_its_author_can_mend() -> None:
    program = "let main : !{ words: string } -> !string = map(words)"
    piped = action_of(App("piped"), program, "piped", text=True)
    findings = lint_actions([piped])["findings"]
    assert "UNDESCRIBED_PARAMETER" not in [each["code"] for each in findings]
    assert not any("file" in each for each in findings)


def test_a_comment_silences_what_is_meant() -> None:
    def meant(x: int) -> int:  # fairlead: ignore[UNDESCRIBED_PARAMETER]
        """Give the thing back as it is."""
        return x

    def other(x: int) -> int:  # fairlead: ignore[WEAK_DESCRIPTION]
        """Give the thing back as it is."""
        # fairlead: ignore
        return x

    def all_of_it(x: int) -> int:  # fairlead: ignore
        """Do."""
        return x

    codes = [
        [each["code"] for each in lint_actions([action(function)])["findings"]]
        for function in (meant, other, all_of_it)
    ]
    assert codes == [[], ["UNDESCRIBED_PARAMETER"], []]


def test_settings_choose_levels_and_what_is_ignored() -> None:
    chosen = Settings.of({"ignore": ["WEAK_DESCRIPTION"], "levels": {"UNDESCRIBED_PARAMETER": "error"}})
    report = lint_actions([action(undescribed, description="Do.")], chosen)
    assert [(each["code"], each["level"]) for each in report["findings"]] == [
        ("UNDESCRIBED_PARAMETER", "error")
    ]
    assert report["ok"] is False


@pytest.mark.parametrize("wrong", [{"ignore": ["WEEK_DESCRIPTION"]}, {"levels": {"WEAK_DESCRIPTION": "bad"}}])
def test_a_misspelt_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Settings.of(wrong)


def test_sarif_has_the_findings_at_their_lines(tmp_path: Any) -> None:
    report = lint_actions([action(undescribed)])
    [run] = sarif(report, str(tmp_path))["runs"]
    [result] = run["results"]
    assert result["ruleId"] in [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": undescribed.__code__.co_firstlineno}
