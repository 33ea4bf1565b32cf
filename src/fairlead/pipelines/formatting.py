"""The formatter: one way to write a program. Comments stay where they belong; formatting twice changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fairlead.pipelines import tree
from fairlead.pipelines.parsing import parse
from fairlead.pipelines.problems import TEXT, CheckError, Problems, Source
from fairlead.pipelines.tokens import Comment, Token, lex

WIDTH: Final = 100
_CLOSE: Final = {"LPAR": "RPAR", "PORTPAR": "RPAR", "LBRACE": "RBRACE", "LSQB": "RSQB"}
_TIGHT_BEFORE: Final = frozenset(("RPAR", "RSQB", "COMMA", "QUERY", "DOTINT", "PORT", "PORTPAR"))
_TIGHT_AFTER: Final = frozenset(("LPAR", "LSQB", "PORTPAR", "BANG"))
_CALLS: Final = frozenset(("MAP", "FILTER", "PROJECT", "PLUMB"))
_OPERANDS: Final = frozenset(
    ("NAME", "QNAME", "STRING", "INT", "NUMBER", "DOTINT", "RPAR", "RSQB", "RBRACE", "TRUE", "FALSE")
)
_SPELLED: Final = {"→": "->", "⊗": "*", "≠": "!="}
_OPENERS: Final = frozenset(("LET", "TYPE", "USE", "PROTOCOL"))


@dataclass(slots=True)
class _Group:
    """Brackets and what is between them."""

    open: Token
    items: list[_Item]
    close: Token
    kind: str


_Item: TypeAlias = Token | Comment | _Group


@dataclass(slots=True)
class _Marks:
    """The offsets at which parts begin that may have a line of their own."""

    statements: set[int] = field(default_factory=set)
    settings: set[int] = field(default_factory=set)
    values: set[int] = field(default_factory=set)


def format_text(text: str, file: str = TEXT) -> str:
    """The same program, written the one way. Raises CheckError where it is none."""
    source, problems = Source(file, text), Problems()
    program = parse(source, problems)
    if problems.errors:
        raise CheckError(problems.errors)
    lexed = lex(source, Problems())
    marks = _Marks()
    for declaration in program.declarations:
        _mark(declaration, marks)
    every: list[Token | Comment] = [*_told_apart(lexed.tokens), *lexed.comments]
    items = sorted(every, key=lambda each: each.start)
    return _Writer(source, marks).write(items)


def _told_apart(tokens: list[Token]) -> Iterator[Token]:
    """The tokens, with signs that are written in two ways told apart."""
    in_spawn = False
    #: How many of its brackets are open.
    in_expression = 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1].type if index else ""
        if in_expression or before in ("MAP", "FILTER"):
            in_expression += (token.type in ("LPAR", "LBRACE", "LSQB")) - (
                token.type in ("RPAR", "RBRACE", "RSQB")
            )
        if token.type in ("SPAWN", "RPAR"):
            in_spawn = token.type == "SPAWN"
        if token.type == "COLON" and index > 1 and tokens[index - 2].type == "LET":
            token = token._replace(type="DECLARES")
        elif token.type == "MINUS" and before not in _OPERANDS:
            token = token._replace(type="NEGATIVE")
        elif token.type == "EQUAL" and in_spawn:
            token = token._replace(type="ASSIGN")
        elif token.type == "DOT" and not in_expression and _is_apart(tokens, index):
            token = token._replace(type="FIELD")
        yield token


def _is_apart(tokens: list[Token], index: int) -> bool:
    """Whether a dot stands apart from a name that would be a module's if it did not."""
    name = tokens[index - 1]
    first = index < 2 or tokens[index - 2].type != "DOT"
    return first and name.type == "NAME" and name.value[0].isupper() and name.stop < tokens[index].start


def _mark(node: object, marks: _Marks) -> None:
    match node:
        case tree.Binding(impl=impl):
            _mark(impl, marks)
        case tree.Plumb(statements=statements):
            _mark_body(statements, marks)
        case tree.Budget(config=config, statements=statements):
            _mark(config, marks)
            _mark_body(statements, marks)
        case tree.Configured(config=config) | tree.ActionCall(config=config):
            _mark(config, marks)
        case tree.Config(settings=settings):
            for each in settings:
                marks.settings.add(each.at)
                _mark(each.value, marks)
        case tree.Value(value=tree.Config() as inner):
            _mark(inner, marks)
        case tree.Value(value=list() as inner):
            for each in inner:
                marks.values.add(each.at)
                _mark(each, marks)
        case tree.Chain(elements=elements):
            for element in elements:
                _mark(element.atom, marks)
        case tree.Tensor(chains=chains):
            for chain in chains:
                _mark(chain, marks)
        case tree.Atom(what=what) if not isinstance(what, str):
            _mark(what, marks)


def _mark_body(statements: tuple[tree.Statement, ...], marks: _Marks) -> None:
    for each in statements:
        marks.statements.add(each.at)
        _mark(each, marks)


class _Writer:
    def __init__(self, source: Source, marks: _Marks) -> None:
        self._source = source
        self._marks = marks
        self._protocol = False

    def write(self, items: list[Token | Comment]) -> str:
        """The whole text: declarations, with at most one empty line where there were some."""
        out: list[str] = []
        for part in _parts(items):
            first = part[0]
            if out and (self._gap(first.start) or (isinstance(first, Token) and "\n" in out[-1])):
                out.append("")
            if isinstance(first, Comment):
                if out and out[-1] and not self._own_line(first):
                    out[-1] += f" {first.text}"
                else:
                    out.append(first.text)
                continue
            out.append(self._declaration(part))
        return "\n".join(out) + "\n" if out else ""

    def _declaration(self, part: list[Token | Comment]) -> str:
        first = part[0]
        assert isinstance(first, Token)
        self._protocol = first.type == "PROTOCOL"
        trailing: list[Comment] = []
        while isinstance(part[-1], Comment):
            trailing.insert(0, part.pop())  # type: ignore[arg-type]
        text = self._line(_tree(part, self._marks), "", "")
        return " ".join([text, *(each.text for each in trailing)])

    def _gap(self, start: int) -> bool:
        """Whether an empty line stands before an offset."""
        return (
            re.search(r"\n[ \t\r]*\n[ \t\r]*\Z", self._source.text[max(0, start - 400) : start]) is not None
        )

    def _own_line(self, comment: Comment) -> bool:
        before = self._source.text[: comment.start].rpartition("\n")[2]
        return not before.strip()

    # Lines

    def _line(self, items: list[_Item], indent: str, tail: str) -> str:
        """Items in one line where they fit; else the last group that can be broken is, or the chain at its signs."""
        flat = self._flat(items)
        if not self._forced(items) and len(indent) + len(flat) + len(tail) <= WIDTH:
            return flat
        sign = next((each for each in ("SEMI", "BAR") if _count(items, each) > 1), None)
        if sign is not None and not self._forced(items):
            return self._at_signs(items, sign, indent)
        breakable = [
            each for each in items if isinstance(each, _Group) and each.kind not in ("paren", "call")
        ]
        if breakable:
            return self._spread(items, indent, breakable)
        return flat if sign is None else self._at_signs(items, sign, indent)

    def _spread(self, items: list[_Item], indent: str, breakable: list[_Group]) -> str:
        forced = [each for each in breakable if self._forced([each])]
        chosen = {id(each) for each in (forced or breakable[-1:])}
        text, last = "", None
        for item in items:
            gap = " " if last is not None and self._space(last, item) else ""
            if id(item) in chosen and isinstance(item, _Group):
                text += gap + self._broken(item, indent)
            else:
                text += gap + self._one(item)
            last = item
        return text

    def _at_signs(self, items: list[_Item], sign: str, indent: str) -> str:
        lines: list[list[_Item]] = [[]]
        for item in items:
            if isinstance(item, Token) and item.type == sign and lines[-1]:
                lines.append([])
            lines[-1].append(item)
        inner = indent + "  "
        return "\n".join([self._flat(lines[0]), *(inner + self._flat(each) for each in lines[1:])])

    def _broken(self, group: _Group, indent: str) -> str:
        inner = indent + "  "
        lines: list[str] = []
        entries = list(self._entries(group))
        for index, (comments, entry) in enumerate(entries):
            for each in comments:
                if lines and not self._own_line(each):
                    lines[-1] += f" {each.text}"
                else:
                    lines += self._between(lines, group, each.start)
                    lines.append(inner + each.text)
            if entry:
                lines += self._between(lines, group, _start(entry[0]))
                more = any(later for _, later in entries[index + 1 :])
                comma = "," if group.kind != "body" and more else ""
                lines.append(inner + self._line(entry, inner, comma) + comma)
        return "\n".join([group.open.value, *lines, indent + group.close.value])

    def _between(self, lines: list[str], group: _Group, start: int) -> list[str]:
        return [""] if lines and group.kind == "body" and self._gap(start) else []

    def _entries(self, group: _Group) -> Iterator[tuple[list[Comment], list[_Item]]]:
        """Each part with the comments before it; comments at the end come with no part."""
        comments: list[Comment] = []
        entry: list[_Item] = []
        for index, item in enumerate(group.items):
            if isinstance(item, Comment):
                if entry and not self._ends(group, index + 1):
                    entry.append(item)
                    continue
                if entry:
                    yield comments, entry
                    comments, entry = [], []
                comments.append(item)
                continue
            start = _start(item)
            if isinstance(item, Token) and item.type == "COMMA" and group.kind != "body":
                if entry:
                    yield comments, entry
                    comments, entry = [], []
                continue
            if entry and self._begins(group.kind, start):
                yield comments, entry
                comments, entry = [], []
            entry.append(item)
        if comments or entry:
            yield comments, entry

    def _ends(self, group: _Group, index: int) -> bool:
        """Whether a part ends before the item of an index, comments passed over."""
        following = next((each for each in group.items[index:] if not isinstance(each, Comment)), None)
        if following is None:
            return True
        comma = isinstance(following, Token) and following.type == "COMMA" and group.kind != "body"
        return comma or self._begins(group.kind, _start(following))

    def _begins(self, kind: str, start: int) -> bool:
        starts = {
            "body": self._marks.statements,
            "config": self._marks.settings,
            "values": self._marks.values,
        }
        return start in starts.get(kind, ())

    def _forced(self, items: list[_Item]) -> bool:
        """Whether a line of their own is needed: statements, many settings, comments among them."""
        for item in items:
            if isinstance(item, _Group):
                if item.kind == "body" and item.items:
                    return True
                if item.kind not in ("paren", "call") and any(
                    isinstance(each, Comment) for each in item.items
                ):
                    return True
                if item.kind == "config" and len(list(self._entries(item))) > 2:
                    return True
                if self._forced(item.items):
                    return True
        return False

    # Within a line

    def _flat(self, items: list[_Item]) -> str:
        text, last = "", None
        for item in items:
            text += (" " if last is not None and self._space(last, item) else "") + self._one(item)
            last = item
        return text

    def _one(self, item: _Item) -> str:
        if isinstance(item, Comment):
            return item.text
        if isinstance(item, Token):
            return _SPELLED.get(item.value, item.value)
        plain = item.kind in ("paren", "body", "call")
        inside = self._flat(item.items) if plain else self._flat_entries(item)
        gap = " " if item.open.type == "LBRACE" and inside else ""
        return f"{item.open.value}{gap}{inside}{gap}{item.close.value}"

    def _flat_entries(self, group: _Group) -> str:
        text, parts = "", 0
        for comments, entry in self._entries(group):
            said = [each.text for each in comments]
            if entry:
                text += ", " if parts else " " if text else ""
                text += " ".join([*said, self._flat(entry)])
                parts += 1
            else:
                text += " ".join(["" if text else said.pop(0), *said])
        return text

    def _space(self, last: _Item, item: _Item) -> bool:
        if isinstance(last, Comment) or isinstance(item, Comment):
            return True
        left = last.close.type if isinstance(last, _Group) else last.type
        right = item.open.type if isinstance(item, _Group) else item.type
        if right in _TIGHT_BEFORE or (left in _TIGHT_AFTER and not isinstance(last, _Group)):
            return False
        if "FIELD" in (left, right):
            return right == "FIELD" or self._protocol
        if "DOT" in (left, right):
            return self._protocol
        if right == "LPAR":
            return left not in _CALLS and not (isinstance(item, _Group) and item.kind == "call")
        return right not in ("COLON", "ASSIGN") and left not in ("NEGATIVE", "ASSIGN")


def _parts(items: list[Token | Comment]) -> Iterator[list[Token | Comment]]:
    """The tokens of each declaration, and each comment between them by itself."""
    part: list[Token | Comment] = []
    depth = 0
    for index, item in enumerate(items):
        if isinstance(item, Token):
            if item.type in _OPENERS and depth == 0 and part:
                yield part
                part = []
            depth += (item.type in _CLOSE) - (item.type in _CLOSE.values())
            part.append(item)
        elif not part:
            yield [item]
        else:
            following = next((each for each in items[index:] if isinstance(each, Token)), None)
            if depth == 0 and (following is None or following.type in _OPENERS):
                yield part
                part = []
                yield [item]
            else:
                part.append(item)
    if part:
        yield part


def _tree(items: list[Token | Comment], marks: _Marks) -> list[_Item]:
    stack: list[tuple[Token | None, list[_Item]]] = [(None, [])]
    for item in items:
        if isinstance(item, Token) and item.type in _CLOSE:
            stack.append((item, []))
        elif isinstance(item, Token) and item.type in _CLOSE.values():
            opened, inside = stack.pop()
            assert opened is not None
            stack[-1][1].append(_Group(opened, inside, item, _kind(opened, inside, stack[-1][1], marks)))
        else:
            stack[-1][1].append(item)
    return stack[0][1]


def _count(items: list[_Item], sign: str) -> int:
    return sum(isinstance(each, Token) and each.type == sign for each in items)


def _start(item: _Item) -> int:
    return item.open.start if isinstance(item, _Group) else item.start


def _kind(opened: Token, inside: list[_Item], before: list[_Item], marks: _Marks) -> str:
    words = [each for each in before if isinstance(each, Token)]
    last = before[-1] if before else None
    if opened.type == "LPAR" and len(words) > 1 and words[-2].type == "SPAWN" and last is words[-1]:
        return "call"
    if opened.type in ("LPAR", "PORTPAR"):
        return "paren"
    starts = {_start(each) for each in inside}
    if opened.type == "LSQB":
        return "values" if starts & marks.values else "record"
    if starts & marks.statements:
        return "body"
    if starts & marks.settings:
        return "config"
    if isinstance(last, _Group) and words and words[-1].type in ("PLUMB", "BUDGET") and not inside:
        return "body"
    return "record"
