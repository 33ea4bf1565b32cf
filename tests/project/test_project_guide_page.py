"""The guide's page names every setting, every rule, every template and every target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.project import doctor
from fairlead.project.bundle import TARGETS
from fairlead.project.config import settings_schema
from fairlead.project.init import TEMPLATES
from fairlead.project.rules import RULES

PAGE = Path(__file__).parents[2].joinpath("docs/guides/project.md").read_text("utf-8")


def settings(schema: Mapping[str, Any], place: str = "") -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        inside = list(settings(member, f"{place}{name}."))
        yield from inside or [f"{place}{name}"]


@pytest.mark.parametrize("name", sorted(settings(settings_schema())))
def test_every_setting_is_in_the_guide(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_every_rule_is_in_the_guide_as_it_is(rule: Any) -> None:
    assert f"| `{rule.code}` | {rule.level} | {rule.summary} |" in PAGE


def test_every_check_of_doctor_is_in_the_guide_with_its_level() -> None:
    source = Path(doctor.__file__).read_text("utf-8")
    checks = re.findall(r'Check\(\s*"(info|warning)",\s*"([A-Z_]+)"', source)
    assert len(checks) >= 20
    assert [code for level, code in checks if f"| `{code}` | {level} |" not in PAGE] == []


@pytest.mark.parametrize("word", [*TEMPLATES, *TARGETS])
def test_templates_and_targets_are_in_the_guide(word: str) -> None:
    assert word in PAGE


def test_the_schema_of_the_settings_is_printed(run: Any) -> None:
    assert json.loads(run("doctor", "--schema").stdout) == settings_schema()
