"""Tokens to the syntax tree, by tables that lark made. Each declaration is read by itself, so all errors are found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.pipelines import reading
from fairlead.pipelines.problems import Problems, Source
from fairlead.pipelines.tokens import RESERVED, Token, lex
from fairlead.pipelines.tree import Program

_OPENERS: Final = frozenset(("LET", "TYPE", "USE", "PROTOCOL"))
_OPENING: Final = {"LPAR": "(", "PORTPAR": "(", "LBRACE": "{", "LSQB": "["}
_CLOSING: Final = {"RPAR": ")", "RBRACE": "}", "RSQB": "]"}
#: What the tables call the end of the tokens.
_END: Final = "$END"
#: How many syntax errors of one declaration are told.
_MOST: Final = 10
_WORDS: Final = {
    "NAME": "a name", "QNAME": "", "STRING": 'a "text"', "INT": "a whole number", "NUMBER": "a number",
    "DOTINT": "", "PATH": "a path such as ./tools", "PORT": "@port", "PORTPAR": "", "PRIMITIVE": "a type",
    "EQUAL": "`=`", "COLON": "`:`", "ARROW": "`->`", "BAR": "`|`", "BANG": "`!`", "QUERY": "`?`",
    "LSQB": "`[`", "RSQB": "`]`", "LPAR": "`(`", "RPAR": "`)`", "LBRACE": "`{`", "RBRACE": "`}`",
    "COMMA": "`,`", "SEMI": "`;`", "DOT": "`.`", "STAR": "`*`", "SLASH": "`/`", "PLUS": "`+`",
    "MINUS": "`-`", "COMPARE": "a comparison", "$END": "the end",
}  # fmt: skip


_PROCESSES: Final = frozenset(
    (
        "ACTION",
        "AGENT",
        "TOOL",
        "EXEC",
        "ID",
        "COPY",
        "MERGE",
        "DISCARD",
        "EMPTY",
        "BARRIER",
        "MAP",
        "FILTER",
        "PROJECT",
        "PLUMB",
    )
)
#: Tokens that are told by one word where all of them could stand.
_GROUPS: Final = (
    ("a process", _PROCESSES),
    (
        "an expression",
        frozenset(
            (
                "NAME",
                "STRING",
                "INT",
                "NUMBER",
                "TRUE",
                "FALSE",
                "PRIMITIVE",
                "LPAR",
                "LSQB",
                "LBRACE",
                "NOT",
                "MINUS",
            )
        ),
    ),
    ("a type", frozenset(("PRIMITIVE", "NAME", "QNAME", "LBRACE", "LSQB", "LPAR", "BANG"))),
    ("an operator", frozenset(("AND", "OR", "EQUAL", "COMPARE", "PLUS", "MINUS", "STAR", "SLASH"))),
)


class _Many(list[Any]):
    """The children that a repetition has gathered, to be put in place of it."""


class _Tables(NamedTuple):
    end: int
    rules: list[tuple[str, int, Any, bool, bool]]
    states: list[dict[str, int]]


class _Unexpected(Exception):
    """A token that no sentence goes on with."""

    def __init__(self, token: Token, expected: set[str]) -> None:
        self.token = token
        self.expected = expected


@cache
def _tables() -> _Tables:
    with open(os.path.join(os.path.dirname(__file__), "tables.json"), "rb") as file:
        read = _json.loads(file.read())
    rules = [
        (origin, size, reading.ACTIONS.get(alias or origin), expand and not alias, origin.startswith("_"))
        for origin, size, alias, expand in read["rules"]
    ]
    return _Tables(read["end"], rules, read["states"])


def parse(source: Source, problems: Problems) -> Program:
    """Read a whole program. What is wrong with it is noted in `problems`; the rest is read all the same."""
    before = len(problems.found)
    lexed = lex(source, problems)
    program = Program()
    if any("nest deeper" in each.message for each in problems.found[before:]):
        return program
    for tokens in _declarations(lexed.tokens):
        strays = [each for each in lexed.strays if tokens[0].start <= each]
        _declaration(tokens, source, problems, program, strays)
    return program


def _declarations(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each declaration: it begins with its word, outside brackets or at the start of a line."""
    begun: list[Token] = []
    depth = 0
    for token in tokens:
        if token.type in _OPENERS and begun and (depth <= 0 or (token.type != "LET" and token.type != "USE")):
            # `type` and `protocol` stand nowhere else: a bracket before them was not closed.
            yield begun
            begun, depth = [], 0
        if token.type in _OPENING:
            depth += 1
        elif token.type in _CLOSING:
            depth -= 1
        begun.append(token)
    if begun:
        yield begun


def _declaration(
    tokens: list[Token], source: Source, problems: Problems, program: Program, strays: list[int]
) -> None:
    told = 0
    while True:
        try:
            made = _read(tokens, source)
        except _Unexpected as unexpected:
            pieces = [] if told else _pieces(tokens, source)
            if len(pieces) > 1:
                for piece in pieces:
                    _declaration(piece, source, problems, program, strays)
                return
            told += 1
            if any(each <= unexpected.token.stop for each in strays):
                # What was no token was told already, and this follows from it.
                _broken(tokens, program)
                return
            _tell(unexpected, tokens, source, problems)
            shorter = _without_line(tokens, unexpected.token, source)
            if shorter is not None and told < _MOST:
                tokens = shorter
                continue
            _broken(tokens, program)
            return
        except reading.Refused as refused:
            problems.add(source, refused.at, "syntax", refused.message, refused.hint)
            _broken(tokens, program)
            return
        if told:
            _broken(tokens, program)
        else:
            program.declarations.append(made)
        return


def _pieces(tokens: list[Token], source: Source) -> list[list[Token]]:
    """Where a bracket is not closed, the declarations that begin a line."""
    pieces: list[list[Token]] = []
    for token in tokens:
        begins = token.type in _OPENERS and (token.start == 0 or source.text[token.start - 1] == "\n")
        if begins or not pieces:
            pieces.append([])
        pieces[-1].append(token)
    return pieces


def _broken(tokens: list[Token], program: Program) -> None:
    if len(tokens) > 1 and tokens[1].type == "NAME":
        program.broken.add(tokens[1].value)


def _without_line(tokens: list[Token], at: Token, source: Source) -> list[Token] | None:
    """The declaration without the line of an error inside its body, to look for more; None where that is none."""
    if at.type == "$END" or not tokens or tokens[0].type != "LET":
        return None
    line = source.place(at.start)[0]
    first = source.place(tokens[0].start)[0]
    last = source.place(tokens[-1].start)[0]
    if line in (first, last):
        return None
    gone = [each for each in tokens if source.place(each.start)[0] == line]
    opened = sum(each.type in _OPENING for each in gone) - sum(each.type in _CLOSING for each in gone)
    return None if opened else [each for each in tokens if source.place(each.start)[0] != line]


def _read(tokens: list[Token], source: Source) -> Any:
    end_state, rules, states = _tables()
    last = tokens[-1].stop if tokens else len(source.text)
    state_stack: list[int] = [0]
    values: list[Any] = []
    row = states[0]
    for token in (*tokens, Token("$END", "", last, last)):
        while True:
            step = row.get(token.type)
            if step is None:
                raise _Unexpected(token, _possible(state_stack))
            if step >= 0:
                break
            _, size, action, expand, many = rules[-1 - step]
            origin = rules[-1 - step][0]
            if size:
                children = values[-size:]
                del values[-size:], state_stack[-size:]
            else:
                children = []
            if many:
                made: Any = _gather(children)
            else:
                children = _spread(children)
                made = children[0] if expand and len(children) == 1 else action(children, token)
            values.append(made)
            state_stack.append(states[state_stack[-1]][origin])
            row = states[state_stack[-1]]
            if token.type == _END and state_stack[-1] == end_state:
                return values[-1]
        state_stack.append(step)
        values.append(token)
        row = states[step]
    raise AssertionError("the end of the tokens ends the sentence")


def _possible(stack: list[int]) -> set[str]:
    """The tokens that a sentence can really go on with from here; the tables alone name too many."""
    end_state, rules, states = _tables()
    possible = set()
    for token in states[stack[-1]]:
        if not (token.isupper() or token == _END):
            continue
        trial = list(stack)
        while (step := states[trial[-1]].get(token)) is not None and step < 0:
            origin, size, *_ = rules[-1 - step]
            if size:
                del trial[-size:]
            trial.append(states[trial[-1]][origin])
            if token == _END and trial[-1] == end_state:
                break
        if step is not None:
            possible.add(token)
    return possible


def _gather(children: list[Any]) -> _Many:
    if children and type(children[0]) is _Many:
        children[0].extend(_spread(children[1:]))
        first: _Many = children[0]
        return first
    return _Many(_spread(children))


def _spread(children: list[Any]) -> list[Any]:
    for child in children:
        if type(child) is _Many:
            break
    else:
        return children
    spread: list[Any] = []
    for child in children:
        if type(child) is _Many:
            spread.extend(child)
        else:
            spread.append(child)
    return spread


def _tell(unexpected: _Unexpected, tokens: list[Token], source: Source, problems: Problems) -> None:
    token, expected = unexpected.token, unexpected.expected
    index = next((i for i, each in enumerate(tokens) if each.start >= token.start), len(tokens))
    before = tokens[index - 1] if index else None
    found = "the end of the declaration" if token.type == "$END" else f"`{token.value}`"
    message = f"{found[0].upper() + found[1:]} does not belong here."
    at = token.start
    if token.type == "$END" and (opened := _unclosed(tokens)) is not None:
        message, at = f"`{opened.value}` is never closed.", opened.start
    problems.add(source, at, "syntax", message, _hint(token, before, expected))


def _unclosed(tokens: list[Token]) -> Token | None:
    opened: list[Token] = []
    for token in tokens:
        if token.type in _OPENING:
            opened.append(token)
        elif token.type in _CLOSING and opened:
            opened.pop()
    return opened[-1] if opened else None


def _hint(token: Token, before: Token | None, expected: set[str]) -> str:
    if token.value in RESERVED and "NAME" in expected:
        quoted = ' A field may be written in quotes: `"' + token.value + '"`.' if "STRING" in expected else ""
        return f"`{token.value}` is a word of the language and no name.{quoted}"
    if token.type == "EQUAL" and before is not None and before.type == "EQUAL":
        return "Equality is a single `=`."
    if token.type == "EQUAL" and before is not None and before.type == "COMPARE":
        return "Comparisons are `=`, `!=`, `<`, `<=`, `>` and `>=`."
    if not expected & {"NAME", "SEMI"} and expected == {"LET", "TYPE", "USE", "PROTOCOL"}:
        return "A program is made of `use`, `type`, `protocol` and `let` declarations."
    groups = []
    for name, members in _GROUPS:
        if members <= expected:
            expected = expected - members
            groups.append(name)
    words = groups + sorted(filter(None, (_WORDS.get(each, f"`{each.lower()}`") for each in expected)))
    if not words:
        return ""
    shown = words if len(words) <= 8 else [*words[:8], "..."]
    return f"What can stand here: {', '.join(shown)}."
