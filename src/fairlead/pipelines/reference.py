"""The language reference, written from the grammar, the tables of settings and the checker's rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from fairlead.pipelines.problems import RULES
from fairlead.pipelines.program import SIDE_INPUTS, SIDE_OUTPUTS
from fairlead.pipelines.settings import BUILTINS, KEYS
from fairlead.pipelines.tokens import KEYWORDS, PRIMITIVES
from fairlead.pipelines.types import shown

_SIGNS = {
    "EQUAL": "=", "COLON": ":", "ARROW": "->", "BAR": "|", "BANG": "!", "QUERY": "?", "LSQB": "[", "RSQB": "]",
    "LPAR": "(", "PORTPAR": "(", "RPAR": ")", "LBRACE": "{", "RBRACE": "}", "COMMA": ",", "SEMI": ";", "DOT": ".",
    "STAR": "*", "SLASH": "/", "PLUS": "+", "MINUS": "-",
}  # fmt: skip
_NAMES = {
    "NAME": "name", "QNAME": "Module.name", "STRING": '"text"', "INT": "integer", "NUMBER": "decimal",
    "DOTINT": ".integer", "PATH": "./path", "PORT": "@name", "PRIMITIVE": "primitive",
    "COMPARE": "( '!=' | '<' | '<=' | '>' | '>=' )",
}  # fmt: skip


def reference() -> str:
    """The page, as Markdown."""
    return "\n".join([*_head(), *_grammar(), *_settings(), *_ports(), *_rules()]) + "\n"


def _head() -> Iterator[str]:
    yield "# The language of pipelines"
    yield ""
    yield "From the grammar, the settings and the checker's rules."
    yield "The [guide](../guides/pipelines.md) says what it all means."
    yield ""
    yield "## Words"
    yield ""
    yield f"Words of the language, which are no names: {_words(KEYWORDS)}."
    yield f"Primitive types, which are none either: {_words(PRIMITIVES)}."
    yield 'A field of such a name is written in quotes: `{ "id": string }`, `value."id"`.'
    yield "Comments are `(* ... *)` and nest. `→` is `->`, `⊗` is `*`, `≠` is `!=`."
    yield ""


def _words(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in words)


def _grammar() -> Iterator[str]:
    with open(os.path.join(os.path.dirname(__file__), "grammar.lark"), encoding="utf-8") as file:
        text = file.read()
    opened = False
    for line in text.splitlines():
        if line.startswith("// ## "):
            yield from ["```", ""] if opened else []
            yield from [f"## {line.removeprefix('// ## ')}", "", "```text"]
            opened = True
        elif opened and line and not line.startswith(("//", "%")):
            yield _readable(line)
    yield from ["```", ""]


def _readable(line: str) -> str:
    line = re.sub(r" -> \w+", "", line.removeprefix("?"))
    line = re.sub(r"^( *)(\w+): ", r"\1\2 = ", line)
    return re.sub(r"\b[A-Z]{2,}\b", _spelled, line)


def _spelled(found: re.Match[str]) -> str:
    word = found[0]
    if word in _SIGNS:
        return f"'{_SIGNS[word]}'"
    return _NAMES.get(word, f"'{word.lower()}'")


def _settings() -> Iterator[str]:
    for kind, keys in KEYS.items():
        yield from [f"## Settings of `{kind}`", "", "| key | is | what it says |", "|---|---|---|"]
        for name, key in keys.items():
            least = f", at least {key.least:g}" if key.least else ""
            yield f"| `{name}` | {key.kind}{least} | {key.words} |"
        yield ""
    yield f"Built-in tools: {_words(BUILTINS)}."
    yield ""


def _ports() -> Iterator[str]:
    yield from ["## Side ports", "", "| process | port | way | type |", "|---|---|---|---|"]
    for way, table in (("in", SIDE_INPUTS), ("out", SIDE_OUTPUTS)):
        for kind, ports in table.items():
            for port in ports:
                yield f"| `{kind}` | `@{port.name}` | {way} | `{shown(port.type)}` |"
    yield ""


def _rules() -> Iterator[str]:
    yield from ["## What the checker refuses", "", "| rule | |", "|---|---|"]
    for rule, words in RULES.items():
        told = " (a warning)" if rule in ("channel", "constraint") else ""
        yield f"| `{rule}` | {words}{told} |"
