"""JSON that is not quite JSON, read where it has one clear meaning.

Models slip in ways that are well known: single quotes, Python's words, a comma too many, a brace too few at the end,
a fence around it. Those are mended. What was cut off, or could mean two things, is refused with the reason and the
place, never with the text itself. It knows nothing of schemas.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from fairlead.schema.fits import same

_LONGEST: Final = 200_000
_DEEPEST: Final = 100

_FENCE: Final = re.compile(r"\s*```[\w+-]*[ \t]*\r?\n?(.*?)\s*(?:```\s*)?", re.DOTALL)
_BLANK: Final = re.compile(r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_WORD: Final = re.compile(r"[A-Za-z_$][\w$-]*")
_TEXT: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
#: More than Python takes for an integer is nobody's number.
_DIGITS: Final = 4_000
_ESCAPES: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_CUT: Final = "it is cut off"
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}


class Mended(NamedTuple):
    """A value, and what was overlooked to read it."""

    value: Any
    slips: tuple[str, ...]


class Unreadable(ValueError):
    """The text has no one meaning; says why and where."""


def mended(text: str) -> Mended:
    """The value of a text that is no proper JSON. Raises Unreadable."""
    if len(text) > _LONGEST:
        raise Unreadable("it is too long to be mended")
    slips: dict[str, None] = {}
    fenced = _FENCE.fullmatch(text)
    if fenced is not None:
        slips["a code fence around it"] = None
        text = fenced[1]
    return _Reader(text, slips).whole()


class _Reader:
    def __init__(self, text: str, slips: dict[str, None]) -> None:
        self._text = text
        self._at = 0
        self._slips = slips
        self._depth = 0

    def whole(self) -> Mended:
        self._skip()
        values = [self._value()]
        self._skip()
        while not self._ended():
            if self._peek() in "}])":
                self._slip("a bracket too many at the end")
                self._at += 1
            else:
                self._slip("more than one value")
                values.append(self._value())
            self._skip()
        # Some providers send an empty object ahead of the real one.
        distinct = [
            value for n, value in enumerate(values) if not any(same(value, other) for other in values[:n])
        ]
        meant = [value for value in distinct if value != {}] or distinct
        if len(meant) > 1:
            raise Unreadable("it holds more than one value")
        return Mended(meant[0], tuple(self._slips))

    def _value(self) -> Any:
        char = self._peek()
        if char == "{":
            return self._nested(self._members)
        if char in ("[", "("):
            return self._nested(self._items)
        if char in _TEXT:
            return self._string()
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            return self._number(number)
        return self._word()

    def _nested(self, read: Any) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("it is nested too deeply")
        value = read()
        self._depth -= 1
        return value

    def _members(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._at += 1
        while self._more("}", bool(found)):
            key = self._key()
            self._skip()
            if self._peek() != ":":
                raise self._wrong(_CUT if self._ended() else "a colon is missing after a key")
            self._at += 1
            self._skip()
            value = self._value()
            if key in found and found[key] != value:
                raise self._wrong("a key is given twice")
            found[key] = value
        return found

    def _items(self) -> list[Any]:
        closer = _CLOSERS[self._peek()]
        if closer == ")":
            self._slip("a Python tuple")
        found: list[Any] = []
        self._at += 1
        while self._more(closer, bool(found)):
            found.append(self._value())
        return found

    def _more(self, closer: str, begun: bool) -> bool:
        """Go to the next entry, if there is one; past the closing bracket, if there is none."""
        self._skip()
        if self._ended():
            if not begun:
                raise self._wrong(_CUT)
            self._slip("a bracket too few at the end")
            return False
        if self._peek() == closer:
            self._at += 1
            return False
        if not begun:
            return True
        if self._peek() != ",":
            raise self._wrong(f"a comma or {closer!r} is missing")
        self._at += 1
        self._skip()
        if self._ended():
            raise self._wrong(_CUT)
        if self._peek() == closer:
            self._slip("a comma too many")
            self._at += 1
            return False
        return True

    def _key(self) -> str:
        if self._peek() in _TEXT:
            return self._string()
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._wrong("a key must be a string in double quotes")
        self._slip("a key without quotes")
        self._at = word.end()
        return word[0]

    def _string(self) -> str:
        quote = self._peek()
        if quote == "'":
            self._slip("single quotes")
        self._at += 1
        parts = []
        while True:
            run = _TEXT[quote].match(self._text, self._at)
            assert run is not None
            if _CONTROL.search(run[0]):
                self._slip("line breaks or tabs in a string")
            parts.append(run[0])
            self._at = run.end()
            if self._ended():
                raise self._wrong("a string is cut off or not closed")
            if self._peek() == quote:
                self._at += 1
                break
            parts.append(self._escape())
        return _joined("".join(parts))

    def _escape(self) -> str:
        self._at += 1
        char = self._peek()
        if char == "u":
            digits = self._text[self._at + 1 : self._at + 5]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise self._wrong("a \\u in a string needs four hexadecimal digits")
            self._at += 5
            return chr(int(digits, 16))
        if char not in _ESCAPES:
            # Were it taken as it stands, its neighbours that do look like escapes could be meant so too.
            raise self._wrong("a backslash in a string must be doubled")
        self._at += 1
        return _ESCAPES[char]

    def _number(self, found: re.Match[str]) -> Any:
        self._at = found.end()
        if self._ended() and self._depth:
            raise self._wrong(_CUT)  # there may have been more digits
        if self._peek() not in ",]})/ \t\r\n":
            raise self._wrong("a number is malformed")
        text = found[0]
        if not set(text) & set(".eE"):
            if len(text) > _DIGITS:
                raise self._wrong("a number is too large")
            return int(text)
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise self._wrong("a number is too large")
        return value

    def _word(self) -> Any:
        word = _WORD.match(self._text, self._at)
        if word is None or word[0] not in _WORDS:
            raise self._wrong(_CUT if self._ended() else "a value is missing or has no quotes")
        if word[0][0].isupper():
            self._slip("Python's True, False or None")
        self._at = word.end()
        return _WORDS[word[0]]

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._at)
        assert found is not None
        if "/" in found[0]:
            self._slip("a comment")
        self._at = found.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _ended(self) -> bool:
        return self._at >= len(self._text)

    def _slip(self, what: str) -> None:
        self._slips[what] = None

    def _wrong(self, why: str) -> Unreadable:
        before = self._text[: self._at]
        line = before.count("\n") + 1
        return Unreadable(f"{why}, at line {line}, column {self._at - before.rfind(chr(10))}")


def _joined(text: str) -> str:
    """Two escaped halves of one character, put together; a half alone is no character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
