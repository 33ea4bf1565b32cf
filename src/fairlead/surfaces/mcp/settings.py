"""Putting one entry into a settings file that belongs to someone else. Text in, text out.

Everything else in the file stays as it is, comments and layout too: the text is edited, not written anew. What
comes out is read again and compared with what was meant; where the two differ, nothing is offered at all.
"""

from __future__ import annotations

import json
import re
import tomllib
from json import JSONDecoder
from typing import Any, Final, NamedTuple

Entry = dict[str, Any]

_SPACE: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_PLAIN: Final = re.compile(r"[-+.\w]+")
_COMMENTED: Final = "there are comments in the entry that would be lost"
_ODD: Final = "it is not laid out in a way that can be added to"


class Uneditable(ValueError):
    """The text cannot be edited without losing something; the message says why."""


def put_json(text: str, section: str, name: str, entry: Entry) -> str:
    """The text of a JSON file, with or without comments, in which `section` has the entry under `name`.

    What the entry had before and we do not set stays. Raises Uneditable.
    """
    bom = "\ufeff" if text.startswith("\ufeff") else ""
    text = text.removeprefix(bom) if text.strip("\ufeff \t\r\n") else "{}\n"
    root = _parsed(text)
    entries = root.members.get(section)
    if not isinstance(root.value, dict) or (entries is not None and not isinstance(entries.value, dict)):
        raise Uneditable(f"it is not a JSON object with an object {section!r} in it")
    old = entries.members.get(name) if entries is not None else None
    new = {**old.value, **entry} if old is not None and isinstance(old.value, dict) else entry
    if old is not None and old.value == new:
        return bom + text
    layout = _Layout(text, root)
    if entries is None:
        edited = layout.insert(root, section, {name: new})
    elif old is None:
        edited = layout.insert(entries, name, new)
    else:
        edited = layout.replace(old, new)
    wanted = {**root.value, section: {**root.value.get(section, {}), name: new}}
    if _parsed(edited).value != wanted:
        raise Uneditable(_ODD)
    return bom + edited


def put_toml(text: str, section: str, name: str, entry: Entry) -> str:
    """The text of a TOML file in which the table `section` has the entry under `name`. Raises Uneditable."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise Uneditable(f"it is not TOML: {exc}") from exc
    entries = data.get(section, {})
    if not isinstance(entries, dict):
        raise Uneditable(f"{section!r} is not a table")
    old = entries.get(name)
    new = {**old, **entry} if isinstance(old, dict) else entry
    if old == new:
        return text
    head = text.rstrip()
    end = "\r\n" if "\r\n" in text else "\n"
    edited = (
        (head + 2 * end if head else "") + end.join(toml_lines(section, name, entry)) + end
        if old is None
        else _with_values(text, section, name, entry)
    )
    try:
        read = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:
        read = {}
    if read != {**data, section: {**entries, name: new}}:
        raise Uneditable(_ODD)
    return edited


def toml_lines(section: str, name: str, entry: Entry) -> list[str]:
    """The entry as a table of its own."""
    return [f"[{section}.{name}]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]


def _with_values(text: str, section: str, name: str, entry: Entry) -> str:
    """The text with the entry's keys set in its table; their values may spread over lines."""
    header = re.compile(
        rf"^[ \t]*\[\s*{section}\s*\.\s*(?:{name}|[\"']{name}[\"'])\s*\][^\n]*\n?", re.MULTILINE
    )
    found = header.search(text)
    if found is None:
        raise Uneditable(f"{name!r} has no table of its own")
    after = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, found.end())
    end = len(text) if after is None else after.start()
    body = text[found.end() : end]
    for key, value in entry.items():
        line = f"{key} = {_toml(value)}"
        old = re.compile(rf"^[ \t]*{key}[ \t]*=[ \t]*(?:\[[^\]]*\]|[^\n\[][^\r\n]*)", re.MULTILINE)
        value_before = old.search(body)
        if value_before is None:
            body = f"{line}\n{body}"
            continue
        if "#" in value_before[0]:
            raise Uneditable(_COMMENTED)
        body = body[: value_before.start()] + line + body[value_before.end() :]
    return text[: found.end()] + body + text[end:]


def _toml(value: Any) -> str:
    """A string or a list of strings, which TOML writes as JSON does, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Node(NamedTuple):
    """A JSON value, where it stands in the text, and the nodes of its members."""

    value: Any
    start: int
    end: int
    members: dict[str, _Node]


def _parsed(text: str) -> _Node:
    try:
        node = _value(text, _skip(text, 0))
    except (IndexError, ValueError, RecursionError) as exc:
        raise Uneditable(f"it is not JSON: {exc}") from exc
    if _skip(text, node.end) != len(text):
        raise Uneditable(f"it is not JSON: something follows after character {node.end}")
    return node


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int) -> _Node:
    if text[at] == '"':
        value, end = JSONDecoder().raw_decode(text, at)
        return _Node(value, at, end, {})
    if text[at] in "{[":
        return _container(text, at)
    found = _PLAIN.match(text, at)
    if found is None:
        raise ValueError(f"a value is expected at character {at}")
    return _Node(json.loads(found[0]), at, found.end(), {})


def _container(text: str, start: int) -> _Node:
    close = "}" if text[start] == "{" else "]"
    nodes: list[_Node] = []
    members: dict[str, _Node] = {}
    at = _skip(text, start + 1)
    while text[at] != close:
        if close == "}":
            key = _value(text, at)
            at = _skip(text, key.end)
            if not isinstance(key.value, str) or text[at] != ":":
                raise ValueError(f"a member's name and a colon are expected at character {at}")
            if key.value in members:
                raise ValueError(f"{key.value!r} is there twice")
            at = _skip(text, at + 1)
        node = _value(text, at)
        nodes.append(node)
        if close == "}":
            members[key.value] = node
        at = _skip(text, node.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        elif text[at] != close:
            raise ValueError(f"a comma is expected at character {at}")
    value = (
        {key: each.value for key, each in members.items()} if close == "}" else [each.value for each in nodes]
    )
    return _Node(value, start, at + 1, members)


class _Layout:
    """How a JSON text is laid out, and edits in the same manner."""

    def __init__(self, text: str, root: _Node) -> None:
        self._text = text
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._step = self._indent(next(iter(root.members.values()), root).start) or "  "

    def insert(self, node: _Node, key: str, value: Any) -> str:
        """Add a member at the end of an object, after whatever comments stand there."""
        text, close = self._text, node.end - 1
        outer = self._indent(node.start)
        inner = outer + self._step
        last = max((each.end for each in node.members.values()), default=None)
        before = text[:close].rstrip()
        if last is not None and text[_skip(text, last)] != ",":
            before = before[:last] + "," + before[last:]
        member = f"{json.dumps(key, ensure_ascii=False)}: {self._dumped(value, inner)}"
        return f"{before}{self._line_end}{inner}{member}{self._line_end}{outer}{text[close:]}"

    def replace(self, node: _Node, value: Any) -> str:
        text = self._text
        old = text[node.start : node.end]
        if _has_comments(old):
            raise Uneditable(_COMMENTED)
        return text[: node.start] + self._dumped(value, self._indent(node.start)) + text[node.end :]

    def _dumped(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self._step, ensure_ascii=False).split("\n")
        return f"{self._line_end}{indent}".join(lines)

    def _indent(self, at: int) -> str:
        """The white space at the beginning of the line."""
        line = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]


def _has_comments(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
