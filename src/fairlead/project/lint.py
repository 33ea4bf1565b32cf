"""What callers, and models above all, would stumble over in an app's actions.

Each rule is one function with a code. Rules judge the contract that is shown, never the code behind it.

    app.lint()  ->  {"ok": ..., "findings": [{"level", "action", "code", "message", ...}]}

A finding is silenced where it is meant: `# fairlead: ignore[WEAK_DESCRIPTION]` on the line of the decorator or
of `def`, or `ignore = [...]` under `[tool.fairlead.lint]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairlead.project.neighbours import Neighbours
from fairlead.project.rules import RULES, AnyAction, Level, Settings


class Finding(NamedTuple):
    """One thing to mend: what, where, and how."""

    level: Level
    action: str
    code: str
    message: str
    field: str | None = None
    file: str | None = None
    line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        optional = ("field", "file", "line")
        return {
            key: value for key, value in self._asdict().items() if value is not None or key not in optional
        }


def lint_actions(actions: Iterable[AnyAction], settings: Settings = Settings()) -> dict[str, Any]:  # noqa: B008
    """Look at each action by every rule; it is ok when there is no error."""
    listed = list(actions)
    everyone = Neighbours(listed)
    findings = [finding.to_dict() for action in listed for finding in _findings(action, everyone, settings)]
    return {"ok": not any(each["level"] == "error" for each in findings), "findings": findings}


def _findings(action: AnyAction, everyone: Neighbours, settings: Settings) -> Iterator[Finding]:
    place = _place(action)
    silenced = settings.ignore | place.ignored
    for rule in RULES.values():
        if rule.code in silenced or "*" in silenced:
            continue
        level = settings.levels.get(rule.code, rule.level)
        for note in rule.check(action, settings, everyone):
            yield Finding(level, action.name, rule.code, note.message, note.field, place.file, place.line)


class _Place(NamedTuple):
    file: str | None
    line: int | None
    ignored: frozenset[str]


_IGNORE: Final = re.compile(r"#\s*fairlead:\s*ignore(?:\[([\w,\s]*)\])?")


def _place(action: AnyAction) -> _Place:
    """Where the function is written, and what is silenced there. Our own code is no place to mend anything."""
    import inspect

    nowhere = _Place(None, None, frozenset())
    try:
        function = inspect.unwrap(action.function)
        file = inspect.getsourcefile(function)
        lines, first = inspect.getsourcelines(function)
    except (TypeError, OSError, ValueError):
        return nowhere
    if str(getattr(function, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]:
        return nowhere
    return _Place(file, first, frozenset(_ignored(lines)))


def _ignored(lines: list[str]) -> Iterator[str]:
    """Comments count from the first decorator to the end of the signature."""
    for line in lines:
        found = _IGNORE.search(line)
        if found:
            yield from [code.strip() for code in (found[1] or "*").split(",") if code.strip()]
        if line.rstrip().split("#")[0].rstrip().endswith(":") and re.search(r"\bdef\b|\)|->", line):
            return


def sarif(report: Mapping[str, Any], root: str) -> dict[str, Any]:
    """The findings in the form that code hosts show beside the lines."""
    import os

    rules = [
        {"id": rule.code, "shortDescription": {"text": rule.summary}, "help": {"text": rule.summary}}
        for rule in RULES.values()
    ]
    names = {"error": "error", "warning": "warning", "info": "note"}
    results = []
    for each in report["findings"]:
        result: dict[str, Any] = {
            "ruleId": each["code"],
            "level": names[each["level"]],
            "message": {"text": f"{each['action']}: {each['message']}"},
        }
        if each.get("file"):
            uri = os.path.relpath(each["file"], root).replace(os.sep, "/")
            region = {"startLine": each["line"]}
            result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}]
        results.append(result)
    driver = {"name": "fairlead", "rules": rules}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"version": "2.1.0", "$schema": schema, "runs": [{"tool": {"driver": driver}, "results": results}]}


def counts(report: Mapping[str, Any]) -> Counter[str]:
    """How many findings there are of each level."""
    return Counter(each["level"] for each in report["findings"])
