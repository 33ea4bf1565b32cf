"""What is wrong with a program: where, by which rule, and what would work. All of it is told, not only the first."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fairlead.failures import Issue
from fairlead.failures.runtime import ConfigError, LoadError, ParseError, RuntimeFailure

#: The checker's rules, in the order of the language reference.
RULES: Final = {
    "syntax": "The text is not a program.",
    "duplicate": "A type, binding, port or field is named twice.",
    "unknown": "A type, binding, module, port or field is not there.",
    "recursive": "A type is defined as itself, with no record or array between, or leads too deep into others.",
    "overlap": "Variants of a sum can hold the same value.",
    "stream": "A stream stands where data is described.",
    "signature": "The signature does not suit the process.",
    "mismatch": "What comes out does not fit what goes in.",
    "arity": "The number of ports or arguments is not right.",
    "unused": "A port of a plumb is never used.",
    "main": "There is no main, or it is not a stream process.",
    "expression": "An expression is not of the type that is needed.",
    "project": "The index is out of range, or the input is no product.",
    "tool": "The process cannot be a tool.",
    "config": "A setting is unknown, missing, or of the wrong type.",
    "cycle": "Modules use each other in a circle.",
    "channel": "Nobody writes to a channel, or nobody reads it.",
    "linear": "A protocol channel is not used exactly once, in order.",
    "constraint": "An action asks for more than types can say.",
}

#: The name of what was given as text and is in no file.
TEXT: Final = "<text>"
#: So much of a line is shown.
_WIDEST: Final = 160

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, with the line it is on."""

    rule: str
    message: str
    hint: str
    file: str
    line: int
    column: int
    text: str
    severity: Severity = "error"

    def shown(self) -> str:
        """The problem as people read it: place, fact, the line, a mark under the column, and the way out."""
        head = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"
        number = str(self.line)
        gutter = " " * len(number)
        text, column = self._window()
        mark = "".join("\t" if char == "\t" else " " for char in text[: column - 1]) + "^"
        lines = [head, f"{number} | {text}", f"{gutter} | {mark}"]
        return "\n".join([*lines, *([f"{gutter} = {self.hint}"] if self.hint else [])])

    def _window(self) -> tuple[str, int]:
        """The part of a long line that is shown, and the column within it."""
        if len(self.text) <= _WIDEST:
            return self.text, self.column
        start = max(0, self.column - _WIDEST // 2)
        text = self.text[start : start + _WIDEST]
        return f"...{text}..." if start else f"{text}...", self.column - start + (3 if start else 0)

    def to_dict(self) -> dict[str, Any]:
        """The problem as JSON."""
        told = {"rule": self.rule, "severity": self.severity, "message": self.message, "hint": self.hint}
        return {**told, "file": self.file, "line": self.line, "column": self.column, "text": self.text}


@dataclass(slots=True)
class Source:
    """A text and where it came from; knows the line and column of an offset."""

    file: str
    text: str
    _starts: list[int] = field(default_factory=list)

    @property
    def folder(self) -> str | None:
        """Where what stands beside it is; None for a text, which has nothing beside it."""
        return None if self.file == TEXT else os.path.dirname(self.file)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        if not self._starts:
            self._starts = [0]
            for index, char in enumerate(self.text):
                if char == "\n":
                    self._starts.append(index + 1)
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, without its end."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")


class Problems:
    """What was found so far, each thing once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._known: set[tuple[str, int, int, str]] = set()

    def add(
        self,
        source: Source,
        offset: int,
        rule: str,
        message: str,
        hint: str = "",
        severity: Severity = "error",
    ) -> None:
        """Note a problem at an offset of a source."""
        assert rule in RULES, rule
        line, column = source.place(min(offset, len(source.text)))
        key = (source.file, line, column, message)
        if key in self._known:
            return
        self._known.add(key)
        text = source.line(line)
        self.found.append(Problem(rule, message, hint, source.file, line, column, text, severity))

    @property
    def errors(self) -> list[Problem]:
        """Those that keep the program from running, in the order of the text."""
        return sorted((each for each in self.found if each.severity == "error"), key=_order)

    @property
    def warnings(self) -> list[Problem]:
        """Those that do not."""
        return sorted((each for each in self.found if each.severity == "warning"), key=_order)

    def failure(self, kind: type[RuntimeFailure] = ConfigError) -> RuntimeFailure:
        """The errors as one failure, whose extras name the first place."""
        return failure_of(self.errors, kind)


def failure_of(errors: list[Problem], kind: type[RuntimeFailure] = ConfigError) -> RuntimeFailure:
    """The failure that a list of errors stands for."""
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    where = {"file": first.file, "line": first.line, "column": first.column}
    issues = [Issue((each.file, each.line, each.column), each.rule, each.message) for each in errors]
    said = f"{first.file}:{first.line}:{first.column}: {first.message}{more}"
    details = {**where, "problems": [each.to_dict() for each in errors]}
    return kind(said, issues=issues, details=details)


class CheckError(Exception):
    """A program that does not check. `problems` lists everything; `failure` is what wires tell."""

    def __init__(self, problems: list[Problem], kind: type[RuntimeFailure] = ConfigError) -> None:
        self.problems = problems
        self.failure = failure_of(problems, kind)
        super().__init__("\n".join(each.shown() for each in problems))

    @property
    def code(self) -> str:
        """The code of the failure."""
        return self.failure.code

    @property
    def category(self) -> str:
        """The category of the failure."""
        return {ConfigError: "config", LoadError: "config", ParseError: "invalid"}.get(
            type(self.failure), "internal"
        )

    @property
    def detail(self) -> str:
        """What the first problem says."""
        return self.problems[0].message

    @property
    def line(self) -> int:
        """The line of the first problem."""
        return self.problems[0].line

    @property
    def column(self) -> int:
        """The column of the first problem."""
        return self.problems[0].column


def near(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, as the end of a hint."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"Did you mean {close[0]!r}?" if close else ""


def _order(problem: Problem) -> tuple[str, int, int]:
    return problem.file, problem.line, problem.column
