"""Whether one JSON Schema takes in all that another lets through, and where it does not.

It compares meaning, not text: titles, descriptions, examples and the order of things say nothing about values.
Where it cannot tell, it says so as a difference: a break that nobody warned of costs more than a warning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fairlead.project.shapes import (
    BOUNDS,
    TYPES,
    Document,
    Unreadable,
    exact,
    is_type,
    item,
    meet,
    member,
    opaque,
    parts,
    range_of,
    refers,
    text,
    types,
    values,
)
from fairlead.project.verdict import Unnamed, verdict

Path = tuple[str | int, ...]

_DEEPEST = 64
#: Comparisons after which a pair of schemas counts as too large.
_MOST = 20_000
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems", "$dynamicRef")


class Gap(NamedTuple):
    """A place where values pass one schema and not the other."""

    path: Path
    message: str


def gaps(inner: Document, outer: Document, *, unnamed: Unnamed = "as said") -> list[Gap]:
    """Where a value that `inner` lets through might be refused by `outer`; empty when it never is.

    Members that `outer` does not name are taken as its `additionalProperties` says, or always ("taken": who
    reads data ignores what it does not know), or never ("refused": to find what `inner` knows more). Where
    `inner` names members and is silent about others, nobody counts on others.
    """
    try:
        return list(dict.fromkeys(_Comparison(inner, outer, unnamed).gaps(inner, outer, (), 0)))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return [Gap((), "cannot be compared, for one of the two is not a JSON Schema")]


class _Comparison:
    def __init__(self, inner: Document, outer: Document, unnamed: Unnamed) -> None:
        self._inner = inner
        self._outer = outer
        self._unnamed = unnamed
        #: Pairs that hold, or will if the rest does; with the depth of the value where each is looked at.
        self._assumed: dict[tuple[str, str], int | None] = {}
        self._left = _MOST

    def gaps(self, inner: Document, outer: Document, path: Path, depth: int) -> Iterator[Gap]:
        pair = (text(inner), text(outer))
        if pair[0] == pair[1] and not refers(inner):
            return
        if pair in self._assumed:
            if self._assumed[pair] == len(path):
                yield Gap(path, "refers to itself without end")
            return
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            yield Gap(path, "is nested too deeply, or is too large, to compare")
            return
        self._assumed[pair] = len(path)
        found = list(self._compared(inner, outer, path, depth + 1))
        self._assumed[pair] = None
        if found:
            del self._assumed[pair]
        yield from found

    def _compared(self, inner: Document, outer: Document, path: Path, depth: int) -> Iterator[Gap]:
        if outer is True or inner is False:
            return
        if outer is False:
            yield Gap(path, "takes values, where none is taken")
            return
        if not isinstance(outer, Mapping):
            raise Unreadable
        if self._nullable(inner, outer):
            yield Gap(path, "takes null, where it is not taken")
        try:
            said = list(parts(outer, self._outer))
        except Unreadable:
            yield Gap(path, "cannot be compared with what it refers to")
            return
        for word, part in said:
            if word == "schema":
                yield from self.gaps(inner, part, path, depth)
            else:
                for alternative in self._alternatives([inner], path):
                    if word == "plain":
                        yield from self._plain(alternative, part, path, depth)
                    else:
                        yield from self._some(alternative, part, word, path, depth)

    @staticmethod
    def _nullable(inner: Document, outer: Mapping[str, Any]) -> bool:
        """The word is OpenAPI's. In a JSON Schema it says nothing; whoever wrote it meant it nevertheless."""
        if not isinstance(inner, Mapping) or not inner.get("nullable") or outer.get("nullable"):
            return False
        return "null" not in types(outer)

    def _alternatives(self, said: list[Document], path: Path) -> Iterator[Mapping[str, Any]]:
        """Plain schemas of which every value that passes all of `said` passes one."""
        plain: list[Document] = []
        unions: list[list[Document]] = []
        followed = 0
        while said:
            schema, *said = said
            if isinstance(schema, bool):
                plain.append(schema)
                continue
            followed += 1
            if followed > _DEEPEST:
                continue
            try:
                for word, part in parts(schema, self._inner):
                    if word == "plain":
                        plain.append(part)
                    elif word == "schema":
                        said.append(part)
                    else:
                        unions.append(part[word])
            except Unreadable:
                continue
        met = meet(plain)
        if not isinstance(met, Mapping):
            return
        if not unions:
            yield met
            return
        self._left -= 1
        first, *others = unions
        rest: list[Document] = [{"anyOf": union} for union in others]
        if self._left < 0:
            yield met
            return
        for branch in first:
            yield from self._alternatives([met, branch, *rest], path)

    def _some(
        self, inner: Mapping[str, Any], outer: Mapping[str, Any], word: str, path: Path, depth: int
    ) -> Iterator[Gap]:
        """The inner schema fits if it fits one of the branches; what it lacks is told of the nearest one."""
        listed = values(inner)
        if listed is not None:
            yield from self._each(listed, inner, {word: outer[word]}, path)
            return
        named = types(inner)
        if len(named) > 1:
            for each in sorted(named):
                yield from self._some({**inner, "type": each}, outer, word, path, depth)
            return
        best: list[Gap] | None = None
        for index, branch in enumerate(outer[word]):
            assumed = dict(self._assumed)
            found = list(self.gaps(inner, branch, path, depth))
            if not found and word == "oneOf":
                found = list(self._ambiguous(inner, outer, index, path))
            if not found:
                return
            self._assumed = assumed
            if best is None or len(found) < len(best) or _deeper(found, best):
                best = found
        yield from best or [Gap(path, "takes values, where none is taken")]

    def _ambiguous(
        self, inner: Mapping[str, Any], outer: Mapping[str, Any], chosen: int, path: Path
    ) -> Iterator[Gap]:
        """Only one branch of `oneOf` may take a value, so the others must be known to refuse it."""
        tag = (outer.get("discriminator") or {}).get("propertyName")
        branches = outer["oneOf"]
        mine = _tagged([inner, branches[chosen]], tag)
        for index, branch in enumerate(branches):
            if index != chosen and not self._apart(mine, branch):
                yield Gap(path, "may fit several alternatives, where exactly one is to fit")
                return

    def _apart(self, inner: Document, branch: Document) -> bool:
        """Whether it is plain that nothing passes both."""
        swapped = _Comparison(self._outer, self._outer, self._unnamed)
        for one in swapped._alternatives([inner], ()):
            for other in swapped._alternatives([branch], ()):
                if not _disjoint(one, other):
                    return False
        return True

    def _each(
        self, listed: list[Any], inner: Mapping[str, Any], outer: Mapping[str, Any], path: Path
    ) -> Iterator[Gap]:
        """Values that can be listed are looked at one by one."""
        same = opaque(inner).items() & opaque(outer).items()
        known = {keyword for keyword, _ in same if not refers(outer.get(keyword))}
        asked = {key: value for key, value in outer.items() if key not in known}
        extra = [v for v in listed if verdict(v, asked, self._outer, self._unnamed) is not True]
        if not extra:
            return
        allowed = values(outer)
        if allowed is not None:
            yield Gap(path, f"takes {_listed(extra)}, which is not among {_listed(allowed)}")
        else:
            yield Gap(path, f"takes {_listed(extra)}, which might not be taken")

    def _plain(
        self, inner: Mapping[str, Any], outer: Mapping[str, Any], path: Path, depth: int
    ) -> Iterator[Gap]:
        listed, allowed = values(inner), values(outer)
        if listed is not None:
            yield from self._each(listed, inner, outer, path)
            return
        named, taken = types(inner), types(outer)
        refused = {each for each in named if not is_type(each, taken)}
        if refused:
            yield Gap(path, f"takes {_words(refused)}, where only {_words(taken)} is taken")
            return
        if allowed is not None:
            yield Gap(path, f"takes more than {_listed(allowed)}")
            return
        yield from _narrower(inner, outer, path)
        if "object" in named:
            yield from self._members(inner, outer, path, depth)
        if "array" in named:
            yield from self._items(inner, outer, path, depth)

    def _members(
        self, inner: Mapping[str, Any], outer: Mapping[str, Any], path: Path, depth: int
    ) -> Iterator[Gap]:
        mine: Mapping[str, Any] = inner.get("properties", {})
        theirs: Mapping[str, Any] = outer.get("properties", {})
        for name in sorted(set(outer.get("required", ())) - set(inner.get("required", ()))):
            yield Gap((*path, name), "may be left out, where it is required")
        others: Document = outer.get("additionalProperties", True)
        if isinstance(others, bool) and self._unnamed != "as said":
            others = self._unnamed == "taken"
        for name, shape in mine.items():
            if name not in theirs and others is False:
                if shape is not False:
                    yield Gap((*path, name), "is taken, where it is not known")
            else:
                yield from self.gaps(shape, theirs.get(name, others), (*path, name), depth)
        if self._unnamed == "refused" and inner.get("additionalProperties", True) is True:
            return
        yield from self._unnamed_members(inner, outer, others, path, depth)

    def _unnamed_members(
        self, inner: Mapping[str, Any], outer: Mapping[str, Any], others: Document, path: Path, depth: int
    ) -> Iterator[Gap]:
        rest: Document = inner.get("additionalProperties", True)
        patterns, asked = inner.get("patternProperties", {}), outer.get("patternProperties", {})
        silent = "additionalProperties" not in inner and bool(inner.get("properties")) and not patterns
        if asked and (text(patterns) != text(asked) or refers(asked)):
            yield Gap(path, "differs in patternProperties")
            return
        if not silent:
            for name in sorted(outer.get("properties", {}).keys() - inner.get("properties", {}).keys()):
                yield from self.gaps(member(inner, name), outer["properties"][name], (*path, name), depth)
        if patterns and not asked:
            for shape in patterns.values():
                yield from self.gaps(shape, others, (*path, "*"), depth)
        if others is False and rest is not False:
            yield Gap(path, "takes members of any name, where only the named ones are known")
        else:
            yield from self.gaps(rest, others, (*path, "*"), depth)

    def _items(
        self, inner: Mapping[str, Any], outer: Mapping[str, Any], path: Path, depth: int
    ) -> Iterator[Gap]:
        fixed = max(len(inner.get("prefixItems", ())), len(outer.get("prefixItems", ())))
        longest = _most(inner, "array")
        for index in range(int(min(fixed, longest))):
            yield from self.gaps(item(inner, index), item(outer, index), (*path, index), depth)
        if longest > fixed:
            yield from self.gaps(item(inner, fixed), item(outer, fixed), (*path, "*"), depth)
        if outer.get("uniqueItems") and not inner.get("uniqueItems") and longest > 1:
            yield Gap(path, "may repeat items, where they must differ")


def _narrower(inner: Mapping[str, Any], outer: Mapping[str, Any], path: Path) -> Iterator[Gap]:
    named = types(inner)
    if named & {"integer", "number"}:
        yield from _numbers(inner, outer, path, whole="number" not in named)
    for name, about, lower in BOUNDS:
        if about not in named or name not in outer:
            continue
        mine = _least(inner, about) if lower else _most(inner, about)
        if (mine < outer[name]) if lower else (mine > outer[name]):
            yield Gap(path, _beyond(inner, outer, name))
    same = opaque(inner)
    for name, said in sorted(opaque(outer).items()):
        if same.get(name) != said or name in _UNEVALUATED or refers(outer.get(name)):
            yield Gap(path, f"differs in {name}")


def _numbers(inner: Mapping[str, Any], outer: Mapping[str, Any], path: Path, *, whole: bool) -> Iterator[Gap]:
    (low, high), (lowest, highest) = range_of(inner), range_of(outer)
    if whole and math.isfinite(low[0]):
        low = (math.floor(low[0]) + 1 if low[1] else math.ceil(low[0]), False)
    if whole and math.isfinite(high[0]):
        high = (math.floor(high[0]) if high[1] else math.ceil(high[0]) - 1, True)
    if low < lowest and math.isfinite(lowest[0]):
        yield Gap(path, _beyond(inner, outer, "exclusiveMinimum" if lowest[1] else "minimum"))
    if high > highest and math.isfinite(highest[0]):
        yield Gap(path, _beyond(inner, outer, "maximum" if highest[1] else "exclusiveMaximum"))
    step = outer.get("multipleOf")
    steps = [exact(inner["multipleOf"])] if "multipleOf" in inner else []
    steps += [exact(1)] if whole else []
    if step is not None and all(each % exact(step) for each in steps):
        yield Gap(path, f"need not be a multiple of {step}")


def _beyond(inner: Mapping[str, Any], outer: Mapping[str, Any], name: str) -> str:
    if name in inner:
        return f"has {name} {inner[name]}, where it is {outer[name]}"
    return f"has no {name} {outer[name]}"


def _least(schema: Mapping[str, Any], about: str) -> float:
    named = {"string": "minLength", "array": "minItems", "object": "minProperties"}[about]
    known = len(set(schema.get("required", ()))) if about == "object" else 0
    least: float = max(schema.get(named, 0), known)
    return least


def _most(schema: Mapping[str, Any], about: str) -> float:
    named = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}[about]
    known: float = math.inf
    if about == "array" and schema.get("items") is False:
        known = len(schema.get("prefixItems", ()))
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if about == "object" and closed:
        known = len(schema.get("properties", {}))
    most: float = min(schema.get(named, math.inf), known)
    return most


def _tagged(said: list[Document], tag: str | None) -> Document:
    """All of these, with the member that tells alternatives apart: a union with one is not called without."""
    return {"allOf": [*said, {"required": [tag]}] if tag else said}


def _disjoint(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether it is plain that nothing passes both of two plain schemas."""
    both = meet([one, other])
    if not isinstance(both, Mapping):
        return True
    listed = values(both)
    if listed is not None:
        return not listed
    named = types(both)
    if not named <= {"integer", "number", "object"}:
        return False
    if named == {"object"}:
        required, shapes = both.get("required", ()), both.get("properties", {})
        return any(_nothing(shapes.get(name, True)) for name in required)
    (low, above), (high, including) = range_of(both)
    return "object" not in named and (low > high or (low == high and (above or not including)))


def _nothing(shape: Document) -> bool:
    """Whether no value passes, as far as its plain parts show."""
    met = meet(list(_joined(shape)))
    return not isinstance(met, Mapping) or values(met) == []


def _joined(shape: Document) -> Iterator[Document]:
    if isinstance(shape, Mapping) and "allOf" in shape:
        yield {key: value for key, value in shape.items() if key != "allOf"}
        for each in shape["allOf"]:
            yield from _joined(each)
    else:
        yield shape


def _deeper(found: list[Gap], best: list[Gap]) -> bool:
    reach = [max(len(gap.path) for gap in each) for each in (found, best)]
    return len(found) == len(best) and reach[0] > reach[1]


def _listed(listed: list[Any]) -> str:
    shown = [json.dumps(value, ensure_ascii=False) for value in listed[:5]]
    return ", ".join(shown) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")


def _words(named: set[str]) -> str:
    return " or ".join(name for name in TYPES if name in named)
