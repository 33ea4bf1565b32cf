"""A value of a declared type, found in what a model said.

A reply may be JSON as a whole, hold it in a fenced block, or say it amid other words; the last one counts. A
reply for text is taken as it is. The work grows with the reply and not faster, whatever the reply is.
How often a model may try again is not known here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from fairlead import _json
from fairlead.agents.loop.notices import notice
from fairlead.failures import Failure
from fairlead.failures.runtime import OutputExtractionFailed, OutputValidationFailed
from fairlead.schema import Invalid, Schema
from fairlead.schema.compiled import spell

#: How many times the length of a reply may be read in search of values, and how many values are looked at.
_PASSES: Final = 16
_MOST_VALUES: Final = 1_000
#: Quoted text is looked for in the last so many characters.
_QUOTED_WITHIN: Final = 500
#: So much of a schema a model is told again.
_LONGEST_SCHEMA: Final = 4_000
_MOST_ISSUES: Final = 10

#: Brackets, with the text that hides others: text begins after a bracket, a comma or a colon, and nowhere else.
#: No quantifier gives back what it took, so nothing is read twice.
_SIGN: Final = re.compile(r'([\[{,:])(?:\s*+"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")?|[\]}]')
#: How an object or an array can begin.
_BEGINNING: Final = re.compile(r'\{\s*+["}]|\[\s*+[\[\]{"\-\dtfn]')
_PARTNER: Final = {"}": "{", "]": "["}
_SCALAR: Final = re.compile(
    r"(?<![\w.,-])(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?!\w|[.,]\d)"
)
_QUOTED: Final = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"')
_CONTAINERS: Final = frozenset({"object", "array"})
_TYPES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
}
_EVERY: Final = frozenset({*_TYPES.values(), "null"})


def extract(text: str, schema: Schema) -> Any:
    """The value that a reply holds, validated.

    Raises:
        OutputExtractionFailed: the reply holds no value of this kind.
        OutputValidationFailed: it holds one, which does not have the declared shape.
    """
    types = _declared(schema.json_schema)
    if types == {"string"}:
        return _text(text, schema)
    value = _found(text, types)
    try:
        return schema.parse(value)
    except Invalid as refused:
        raise _misfit(refused) from None


def correction(failure: Failure, schema: Schema | None = None) -> str:
    """What to tell the model, for another try. It goes along once, and is not part of the conversation."""
    lines = [f"Your reply cannot be used: {failure.message}"]
    for issue in failure.issues[:_MOST_ISSUES]:
        where = spell(issue.path)
        lines.append(f"- {where}: {issue.message}" if where else f"- {issue.message}")
    if len(failure.issues) > _MOST_ISSUES:
        lines.append(f"- and {len(failure.issues) - _MOST_ISSUES} more")
    if schema is not None and len(shape := _json.dumps(schema.json_schema)) <= _LONGEST_SCHEMA:
        lines.append(f"The JSON Schema is: {shape}")
    lines.append("Answer again with the corrected JSON value and nothing else.")
    return notice("\n".join(lines))


def _text(text: str, schema: Schema) -> Any:
    """For a type of text: what a JSON string says, or else the reply itself."""
    whole = _loaded(text.strip())
    try:
        return schema.validate(whole if isinstance(whole, str) else text)
    except ValueError as refused:
        error: Exception = refused
    # A choice among words may stand amid others, or have spaces around it.
    for candidate in (text.strip(), *_quoted(text)[:1]):
        try:
            return schema.parse(candidate)
        except Invalid:
            continue
    raise _misfit(Invalid(schema.issues(error))) from None


def _found(text: str, types: frozenset[str]) -> Any:
    """The last value of one of these types; else the last value, which will be told what is wrong with it."""
    other = _NONE
    for value in _candidates(text, types):
        if _type(value) in types:
            return value
        if other is _NONE:
            other = value
    return _nothing(types) if other is _NONE else other


def _candidates(text: str, types: frozenset[str]) -> Iterator[Any]:
    """Values in a reply, the likeliest first."""
    for each in (text.strip(), *reversed(_fenced(text))):
        if (value := _loaded(each)) is not _NONE:
            yield value
    spans: list[tuple[int, int]] = []
    for span, value in _containers(text):
        spans.append(span)
        yield value
    # A number in a sentence is an answer only where a number was asked for.
    if types - _CONTAINERS:
        yield from _scalars(text, spans)


def _fenced(text: str) -> list[str]:
    """The contents of fenced blocks. One that is never closed goes to the end."""
    blocks: list[str] = []
    inside: list[str] | None = None
    for line in text.splitlines(keepends=True) if "```" in text else ():
        if not line.lstrip().startswith("```"):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside = []
        else:
            blocks.append("".join(inside))
            inside = None
    if inside:
        blocks.append("".join(inside))
    return blocks


def _containers(text: str) -> Iterator[tuple[tuple[int, int], Any]]:
    """The objects and arrays that are in no other, the last first, and where they stand."""
    left, values = _PASSES * len(text), 0
    outside = len(text) + 1
    for start, end in reversed(_balanced(text)):
        # What closed earlier and began later than one that was taken is a part of that.
        if end > outside or _BEGINNING.match(text, start) is None:
            continue
        left -= end - start
        if left < 0 or values == _MOST_VALUES:
            return
        if (value := _loaded(text[start:end])) is not _NONE:
            values += 1
            outside = start
            yield (start, end), value


def _balanced(text: str) -> list[tuple[int, int]]:
    """Where brackets open and close, in the order of closing. Brackets without a partner are passed over."""
    spans: list[tuple[int, int]] = []
    opened: list[tuple[str, int]] = []
    open_now = {"{": 0, "[": 0}
    for found in _SIGN.finditer(text):
        sign = found.group(1) or found.group()
        if sign in open_now:
            opened.append((sign, found.start()))
            open_now[sign] += 1
        elif (partner := _PARTNER.get(sign)) is not None and open_now[partner]:
            opener = ""
            while opener != partner:
                opener, start = opened.pop()
                open_now[opener] -= 1
            spans.append((start, found.end()))
    return spans


def _scalars(text: str, spans: list[tuple[int, int]]) -> Iterator[Any]:
    """The last number or word of JSON that stands outside of objects and arrays, and the last quoted text."""
    bare, at = [], 0
    for start, end in [*reversed(spans), (len(text), len(text))]:
        bare.append(text[at:start])
        at = end
    # What stood on either side of an object must not become one word.
    outside = "\n".join(bare)
    if (found := deque(_SCALAR.finditer(outside), 1)) and (value := _loaded(found[0].group())) is not _NONE:
        yield value
    yield from _quoted(outside)[:1]


def _quoted(text: str) -> list[str]:
    """Quoted texts near the end, the last first."""
    found = [_loaded(each.group()) for each in _QUOTED.finditer(text[-_QUOTED_WITHIN:])]
    return [each for each in reversed(found) if isinstance(each, str)]


def _loaded(text: str) -> Any:
    try:
        return _json.loads(text)
    except ValueError:
        return _NONE


def _type(value: Any) -> str:
    return "null" if value is None else _TYPES.get(type(value), "")


def _declared(document: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that a schema takes: all of them where it does not say."""
    return _taken(document, document.get("$defs") or {}, 8)


def _taken(document: Any, definitions: Mapping[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(document, dict) or not depth:
        return _EVERY
    if "enum" in document or "const" in document:
        listed = document.get("enum", [document.get("const")])
        return frozenset(_type(value) for value in listed)
    if (declared := document.get("type")) is not None:
        names = declared if isinstance(declared, list) else [declared]
        return frozenset("number" if name == "integer" else str(name) for name in names)
    if isinstance(reference := document.get("$ref"), str):
        return _taken(definitions.get(reference.rpartition("/")[2]), definitions, depth - 1)
    branches = document.get("anyOf") or document.get("oneOf") or []
    taken = [_taken(branch, definitions, depth - 1) for branch in branches]
    return frozenset().union(*taken) if taken else _EVERY


def _nothing(types: frozenset[str]) -> NoReturn:
    wanted = " or ".join(sorted(types)) if types != _EVERY else "value"
    raise OutputExtractionFailed(
        f"The reply holds no JSON {wanted}. Give the JSON alone, or in a fenced block at the end.",
        expected=f"JSON {wanted}",
    )


def _misfit(refused: Invalid) -> OutputValidationFailed:
    count = len(refused.issues)
    problems = "1 problem" if count == 1 else f"{count} problems"
    return OutputValidationFailed(
        f"The reply is not of the declared type ({problems}). The first: {refused}", issues=refused.issues
    )


_NONE: Final[Any] = object()
