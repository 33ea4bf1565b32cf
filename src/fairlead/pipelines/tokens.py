"""Text to tokens. Comments nest, so this is not left to a regular grammar; they are kept for the formatter."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fairlead.pipelines.problems import Problems, Source

PRIMITIVES: Final = ("string", "int", "number", "bool", "json", "unit")
#: Words of the language: they are no names, not even of fields.
KEYWORDS: Final = (
    *(
        "type",
        "let",
        "use",
        "protocol",
        "agent",
        "action",
        "tool",
        "exec",
        "plumb",
        "spawn",
        "channel",
        "budget",
    ),
    *("id", "copy", "merge", "discard", "empty", "barrier", "project", "map", "filter"),
    *("true", "false", "and", "or", "not", "send", "recv", "end", "loop"),
)
RESERVED: Final = frozenset((*KEYWORDS, *PRIMITIVES))
#: How deep brackets may nest.
DEEPEST: Final = 60

_SYMBOLS: Final = {
    "->": "ARROW", "→": "ARROW", "<=": "COMPARE", ">=": "COMPARE", "!=": "COMPARE", "≠": "COMPARE",
    "<": "COMPARE", ">": "COMPARE", "=": "EQUAL", "!": "BANG", "?": "QUERY", "|": "BAR", ":": "COLON",
    ";": "SEMI", ",": "COMMA", "*": "STAR", "⊗": "STAR", "/": "SLASH", "+": "PLUS", "-": "MINUS", ".": "DOT",
    "(": "LPAR", ")": "RPAR", "{": "LBRACE", "}": "RBRACE", "[": "LSQB", "]": "RSQB",
}  # fmt: skip
_TOKEN: Final = re.compile(
    r"""
    (?P<SPACE>[\ \t\r\n\f\ufeff]+)
  | (?P<COMMENT>\(\*)
  | (?P<STRING>"(?:[^"\\\n]|\\.)*")
  | (?P<NUMBER>\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+))
  | (?P<INT>\d+)
  | (?P<DOTINT>\.\d+)
  | (?P<PATH>\.{1,2}/[\w./-]+)
  | (?P<PORT>@[^\W\d]\w*)
  | (?P<WORD>[^\W\d]\w*)
  | (?P<SYMBOL>->|→|<=|>=|!=|≠|[<>=!?|:;,*⊗/+\-.(){}\[\]])
    """,
    re.VERBOSE,
)
_PART: Final = re.compile(r"\.([^\W\d]\w*)")
_EDGE: Final = re.compile(r"\(\*|\*\)")
_OPENING: Final = {"LPAR": ")", "PORTPAR": ")", "LBRACE": "}", "LSQB": "]"}
_CLOSING: Final = {"RPAR", "RBRACE", "RSQB"}
#: Words that no expression has: one that is never closed ends before them, or before a `;`.
_DECLARING: Final = frozenset(("LET", "TYPE", "USE", "PROTOCOL", "SPAWN"))


class Token(NamedTuple):
    """One word or sign; `start` and `stop` are offsets."""

    type: str
    value: str
    start: int
    stop: int


class Comment(NamedTuple):
    """A comment and where it stands."""

    text: str
    start: int
    stop: int


class Lexed(NamedTuple):
    """The tokens of a text, and its comments apart."""

    tokens: list[Token]
    comments: list[Comment]
    #: Where something stood that is no token, and was told.
    strays: list[int]


def lex(source: Source, problems: Problems) -> Lexed:
    """Every token of a text; what is none is told as a problem and passed over."""
    text, position = source.text, 0
    tokens: list[Token] = []
    comments: list[Comment] = []
    strays: list[int] = []
    depth, match_at, end = 0, _TOKEN.match, len(source.text)
    #: How deep the expression began that this is in; 0 outside. There, and after a dot, names have no modules.
    expression = 0
    while position < end:
        found = match_at(text, position)
        if found is None:
            strays.append(position)
            position = _stray(source, position, problems)
            continue
        kind, start, position = found.lastgroup, position, found.end()
        if kind == "SPACE":
            continue
        if kind == "COMMENT":
            position = _comment(source, start, problems)
            comments.append(Comment(text[start:position], start, position))
            continue
        assert kind is not None
        value = found.group()
        if kind == "WORD":
            field = expression or (tokens and tokens[-1].type == "DOT")
            kind, value, position = _word(text, value, position, qualified=not field)
            if kind in _DECLARING:
                expression = 0
        elif kind == "SYMBOL":
            kind = _SYMBOLS[value]
            if kind == "SEMI":
                expression = 0
            if kind == "LPAR" and tokens and tokens[-1].type == "PORT" and tokens[-1].stop == start:
                kind = "PORTPAR"
            if kind in _OPENING:
                depth += 1
                if not expression and tokens and tokens[-1].type in ("MAP", "FILTER"):
                    expression = depth
                if depth == DEEPEST + 1:
                    problems.add(
                        source, start, "syntax", f"Brackets nest deeper than {DEEPEST}.",
                        "Give inner parts a name of their own.",
                    )  # fmt: skip
            elif kind in _CLOSING:
                if depth == expression:
                    expression = 0
                depth = max(depth - 1, 0)
        tokens.append(Token(kind, value, start, position))
    return Lexed(tokens, comments, strays)


def _word(text: str, value: str, position: int, *, qualified: bool) -> tuple[str, str, int]:
    """A keyword, a primitive, a name, or `Module.name` when it begins with a capital and may be qualified."""
    if value in PRIMITIVES:
        return "PRIMITIVE", value, position
    if value in RESERVED:
        return value.upper(), value, position
    start = position - len(value)
    if qualified and value[0].isupper():
        while (part := _PART.match(text, position)) is not None and part.group(1) not in RESERVED:
            position = part.end()
    whole = text[start:position]
    return ("NAME" if whole == value else "QNAME"), whole, position


def _comment(source: Source, start: int, problems: Problems) -> int:
    depth, position = 1, start + 2
    while depth:
        edge = _EDGE.search(source.text, position)
        if edge is None:
            problems.add(source, start, "syntax", "This comment is never closed.", "Close it with `*)`.")
            return len(source.text)
        # `(*)` opens a comment: its star is not the first half of an end.
        depth += 1 if edge.group() == "(*" else -1
        position = edge.end()
    return position


def _stray(source: Source, position: int, problems: Problems) -> int:
    """Tell what stands here and is no token; where to go on."""
    char = source.text[position]
    if char == '"':
        end = source.text.find("\n", position)
        problems.add(
            source, position, "syntax", "This text is never closed.",
            'Close it with `"` on the same line; write a line end inside as `\\n`.',
        )  # fmt: skip
        return len(source.text) if end < 0 else end
    hint = {"'": 'Texts stand in double quotes: `"..."`.', "#": "Comments are written `(* ... *)`."}.get(
        char, ""
    )
    problems.add(source, position, "syntax", f"The character {char!r} has no meaning here.", hint)
    return position + 1
