"""Taking secrets out of whatever is shown: by the name of a field, and by the look of a text.

It decides nothing about who may see what. It would rather hide a harmless word than show a secret.
All scanning is linear in the text's length. The heavy patterns are compiled when first needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from fairlead.failures.names import Names, is_pass, words_of

if TYPE_CHECKING:
    from fairlead.failures.failure import Failure, Issue

#: Quotes that are known to stay open up to the end of the text, so that it is not searched again for each.
Unclosed = set[str]
Span = Callable[[re.Match[str], str, Unclosed], tuple[int, int]]

#: Types of plain values that may be secrets. Neither "there is none" nor yes and no is one.
_SECRETS: frozenset[type] = frozenset({str, int})
_TEXTS: frozenset[type] = frozenset({str})
_NONE: frozenset[type] = frozenset()
_SHORT = 256
_DEEPEST = 64
_PASSES = 4
_NESTED = 16

# Words that follow `token:` or `Bearer` in a sentence rather than in a secret.
_PROSE = words_of(
    "a an and any are as auth authentication authorization be but by can cannot can't contains could does "
    "empty error expected expired false field for format found from given has header if in input invalid is "
    "it length malformed mismatch missing must no none not null of on only option or please provide realm "
    "refused rejected required scheme see set should string the this to token tokens too true type "
    "undefined unknown unset use value was were when which while will with wrong you your"
)
# What a list of headers or variables calls the name of one.
_LABELS = ("name", "key", "header", "variable")
_TRAILING = ",.)]}!?:"
# One of these is in every name and in the look of every secret, in small letters.
_MARKS = (
    "pass", "pwd", "secret", "cred", "key", "session", "token", "jwt", "auth", "cookie", "sig", "bearer", "basic",
    "@", "-----begin", "input_value", "eyj", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "_pat_", "_v1_", "glpat",
    "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "xox", "xapp", "akia", "asia", "agpa", "aroa", "aiza", "npm_", "pypi-",
    "hf_", "oag_", "bak_", "flk_", "whsec", "sg.", "ya29", "shp", "gls",
)  # fmt: skip


class Redactor:
    """Hides secrets behind a placeholder. `keys` are names to hide besides the built-in ones."""

    def __init__(self, keys: Collection[str] = (), placeholder: str = "[REDACTED]") -> None:
        if not placeholder.strip() or set(placeholder) & set("\"'`\\\r\n"):
            raise ValueError(
                "the placeholder must be visible text without quotes, backslashes or line breaks, "
                "so that redacted JSON stays JSON"
            )
        self.placeholder = placeholder
        self.names = Names((keys,) if isinstance(keys, str) else keys)
        self._short = lru_cache(maxsize=512)(self._text)
        #: A field's name as it is shown, and the types of plain values that are hidden under it. There are few names,
        #: told again and again.
        self.field = lru_cache(maxsize=2048)(self._field)

    def text(self, text: str) -> str:
        """The text without the secrets in it. Redacting twice changes nothing."""
        # Most texts have nothing to hide, and most of them are new: looking is cheaper than remembering.
        if text.isascii() and _suspicious(text) is None:
            return text
        return self._short(text) if len(text) <= _SHORT else self._text(text)

    def may_hide(self, told: str) -> bool:
        """Whether `value` may hide something of a value whose JSON this is: much sooner told than done."""
        if self.names.extended or not told.isascii():
            return True
        small = told.lower()
        for mark in _MARKS:  # noqa: SIM110 - half the time of `any`
            if mark in small:
                return True
        return False

    def _field(self, name: str) -> tuple[str, frozenset[type]]:
        if self.names.match(name):
            return self.text(name), _SECRETS
        return self.text(name), _TEXTS if is_pass(name) else _NONE

    def value(self, value: Any) -> Any:
        """A copy without the secrets; dates stay dates, what JSON has no word for becomes its text."""
        return self._value(value, ())

    def failure(self, failure: Failure) -> Failure:
        """A copy of the failure without its secrets."""
        from fairlead.failures.failure import rebuild

        state = dict(failure.__dict__)
        state["message"] = self.text(failure.message)
        state["field"] = self._optional(failure.field)
        state["expected"] = self._optional(failure.expected)
        state["issues"] = tuple(self._issue(issue) for issue in failure.issues)
        state["details"] = self.value(failure.details)
        copy = rebuild(type(failure), state)
        copy.__cause__ = failure.__cause__
        return copy

    def _issue(self, issue: Issue) -> Issue:
        return issue._replace(
            path=tuple(self.text(step) if isinstance(step, str) else step for step in issue.path),
            message=self.text(issue.message),
            expected=self._optional(issue.expected),
            received=self._optional(issue.received),
        )

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(str(text))

    def _value(self, value: Any, inside: tuple[int, ...]) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if id(value) in inside:
            return "[Circular]"
        if len(inside) >= _DEEPEST:
            return "[Too deep]"
        inside = (*inside, id(value))
        if isinstance(value, Mapping):
            return self._mapping(value, inside)
        if isinstance(value, list | set | frozenset):
            return [self._value(item, inside) for item in value]
        if isinstance(value, tuple):
            return self._tuple(value, inside)
        return self._other(value)

    def _mapping(self, value: Mapping[Any, Any], inside: tuple[int, ...]) -> dict[Any, Any]:
        told: dict[Any, Any] = {}
        for key, item in value.items():
            if type(item) is str and type(key) is str and len(key) <= _SHORT:
                name, hidden = self.field(key)
                told[name] = self.placeholder if str in hidden else self.text(item)
            else:
                told[self._name(key)] = self._member(key, item, inside)
        if "value" in told:
            # `{"name": "API_KEY", "value": ...}` is how headers and variables are listed.
            name = next((told[key] for key in _LABELS if isinstance(told.get(key), str)), "")
            if self.names.match(name):
                told["value"] = self.placeholder
        return told

    def _tuple(self, value: tuple[Any, ...], inside: tuple[int, ...]) -> tuple[Any, ...]:
        """Named tuples by their names, and `(name, value)`; a tuple of texts may be just that."""
        names: Any = getattr(value, "_fields", None)
        if names is None and len(value) == 2 and isinstance(value[0], str | bytes):
            names = ("", value[0])
        if not isinstance(names, tuple) or len(names) != len(value):
            return tuple(self._value(item, inside) for item in value)
        return tuple(self._member(name, item, inside) for name, item in zip(names, value, strict=True))

    def _name(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.text(key)
        return key if key is None or isinstance(key, int | float) else self._other(key)

    def _member(self, key: Any, item: Any, inside: tuple[int, ...]) -> Any:
        # Neither "there is none" nor yes and no is a secret.
        if item is None or isinstance(item, bool):
            return item
        name = _label(key)
        if self.names.match(name) or (isinstance(item, str) and is_pass(name)):
            return self.placeholder
        return self._value(item, inside)

    def _other(self, value: Any) -> Any:
        if type(value).__module__ == "datetime":
            return value
        try:
            if isinstance(value, bytes | bytearray | memoryview):
                return self.text(bytes(value).decode(errors="replace"))
            text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
        except Exception:
            return f"[{type(value).__name__}]"
        return self.text(text)

    def _text(self, text: str) -> str:
        if not text.isascii():
            # A lone surrogate is no text: nothing that is shown could be written down.
            text = text.encode(errors="replace").decode()
        if _suspicious(text) is None:
            return text
        # One secret may hide another's marks; a few passes settle it, so redacting again changes nothing.
        for _ in range(_PASSES):
            before, text = text, self._once(text)
            if text == before:
                break
        return text

    def _once(self, text: str) -> str:
        if "-----BEGIN" in text:
            text = _private_key().sub(lambda _: self.placeholder, text)
        if "://" in text:
            text = _url().sub(self._url, text)
        text = _scheme().sub(self._scheme, text)
        if "input_value=" in text:
            text = _rejected().sub(f"input_value={self.placeholder}", text)
        if ":" in text or "=" in text:
            text = self._pairs(_pair(), text)
        if "--" in text:
            text = self._pairs(_flag(), text)
        if "(" in text:
            text = self._pairs(_couple(), text)
        if "</" in text:
            text = _element().sub(self._element, text)
        return _shape().sub(lambda _: self.placeholder, text)

    def _url(self, match: re.Match[str]) -> str:
        """A URL without its password; one that holds others in its query, without theirs."""
        if "@" not in match[1]:
            return match[0]
        done, rest = "", match[1]
        for _ in range(_NESTED):
            hidden = self._credentials(rest)
            if hidden is not None:
                return f"{done}://{hidden}"
            outer, inner, rest = rest.partition("://")
            done += f"://{outer}"
            if not inner:
                return done
        return f"{done}://{self.placeholder}"

    def _credentials(self, rest: str) -> str | None:
        user, colon, secret = rest.partition(":")
        if not colon or _past_user().search(user):
            return None
        # The last @ before the query: a password may hold @ and / though it should not.
        at = _query().split(secret, 1)[0].rfind("@")
        at = secret.find("@") if at < 0 else at
        if at <= 0 or _port().match(secret):
            return None
        return f"{user}:{self.placeholder}{secret[at:]}"

    def _scheme(self, match: re.Match[str]) -> str:
        scheme, value = match[1], match[2]
        secret = value.rstrip(_TRAILING)
        if match.string.startswith(self.placeholder, match.start(2)):
            glued = value[len(self.placeholder) :].strip(_TRAILING)
            return scheme + self.placeholder if glued else match[0]
        if not secret or secret.lower() in _PROSE:
            return match[0]
        if scheme[:5].lower() == "basic" and not _is_basic(secret):
            return match[0]
        return scheme + self.placeholder + value[len(secret) :]

    def _element(self, match: re.Match[str]) -> str:
        return match[1] + self.placeholder if self.names.match(match[2]) else match[0]

    def _pairs(self, pattern: re.Pattern[str], text: str) -> str:
        if not any(self._names_a_secret(match, text) for match in pattern.finditer(text)):
            return text
        # A bare value must not swallow the name that stands before a longer one, so those go first.
        for span in (self._header, self._quoted, self._brackets, self._bare):
            text = "".join(self._hidden(pattern, span, text))
        return text

    def _hidden(self, pattern: re.Pattern[str], span: Span, text: str) -> Iterator[str]:
        done = 0
        unclosed: Unclosed = set()
        for match in pattern.finditer(text):
            if match.start() < done or not self._names_a_secret(match, text):
                continue
            start, end = span(match, text, unclosed)
            if start == end:
                continue
            yield text[done:start]
            yield self.placeholder
            done = end
        yield text[done:]

    def _names_a_secret(self, match: re.Match[str], text: str) -> bool:
        if self.names.match(match[1]):
            return True
        if is_pass(match[1]):
            # `pass=5` and `PASS: test_login` tell of tests.
            at = match.end()
            return _opening().match(text, at) is not None or (
                "=" in match[2] and not _count().match(text, at)
            )
        in_query = match.start() > 0 and text[match.start() - 1] in "?&"
        return in_query and match[1].lower() in ("auth", "key", "sig", "signature")

    def _quoted(self, match: re.Match[str], text: str, unclosed: Unclosed) -> tuple[int, int]:
        opening = _opening().match(text, match.end())
        if opening is None:
            return 0, 0
        name = _pair().match(text, opening.end())
        if name is not None and text.startswith(opening[1], name.end(1)) and self.names.match(name[1]):
            return 0, 0
        return opening.end(), _closing(text, opening.end(), opening[1], unclosed)

    def _header(self, match: re.Match[str], text: str, _: Unclosed) -> tuple[int, int]:
        at, name = match.end(), match[1].lower()
        if not name.endswith("authorization") and not (name.endswith("cookie") and ":" in match[2]):
            return 0, 0
        if _opening().match(text, at) or text.startswith(self.placeholder, at):
            return 0, 0
        return at, self._end_of_header(text, match.start(), at)

    def _brackets(self, match: re.Match[str], text: str, _: Unclosed) -> tuple[int, int]:
        at = match.end()
        if text[at] not in "[{(" or text.startswith(self.placeholder, at):
            return 0, 0
        return at, _end_of_brackets(text, at)

    def _bare(self, match: re.Match[str], text: str, _: Unclosed) -> tuple[int, int]:
        at = match.end()
        if text.startswith(self.placeholder, at):
            return at, self._end_after_placeholder(text, at + len(self.placeholder))
        name = _pair().match(text, at)
        if name is not None and name[2][-1].isspace() and self.names.match(name[1]):
            return 0, 0
        bare = _bare().match(text, at)
        if bare is None or _opening().match(text, at):
            return 0, 0
        value = bare[0].rstrip(_TRAILING)
        return (0, 0) if value.lower() in _PROSE else (at, at + len(value))

    def _end_of_header(self, text: str, start: int, at: int) -> int:
        scheme = _one_token().match(text, at)
        if scheme is not None and text.startswith(self.placeholder, scheme.end()):
            return self._end_after_placeholder(text, scheme.end() + len(self.placeholder))
        if start > 0 and text[start - 1] in "\"'`":
            quote = text.find(text[start - 1], at)
            return _end_of_line(text, at, quote if quote >= 0 else len(text))
        return at + len(text[at : _end_of_line(text, at)].rstrip())

    def _end_after_placeholder(self, text: str, at: int) -> int:
        glued = _bare().match(text, at)
        return glued.end() if glued is not None and glued[0].strip(_TRAILING) else at


def _label(key: Any) -> str:
    """A key as a name: members of an enum by their value, what is no text as it is shown."""
    key = getattr(key, "value", key) if not isinstance(key, str) else key
    if isinstance(key, str):
        return key
    if isinstance(key, bytes):
        return key.decode(errors="replace")
    return " ".join(map(_label, key)) if isinstance(key, tuple) else ""


def _closing(text: str, at: int, quote: str, unclosed: Unclosed) -> int:
    """The end of a quoted value; an unclosed one ends with its line."""
    end = at
    if quote in unclosed and not text.startswith(quote, at):
        return _end_of_line(text, at)
    while (end := text.find(quote, end)) >= 0:
        after = end + len(quote)
        # With a word right behind it, this quote opens another value rather than closing this one.
        if (text[end - 1] != "\\" or end == at) and not text[after : after + 1].isalnum():
            return end
        end = after
        if quote in unclosed:
            break
    unclosed.add(quote)
    return _end_of_line(text, at)


def _end_of_line(text: str, at: int, latest: int | None = None) -> int:
    latest = len(text) if latest is None else latest
    newline = _newline().search(text, at, latest)
    return newline.start() if newline is not None else latest


def _end_of_brackets(text: str, at: int) -> int:
    depth = 0
    for bracket in _bracket().finditer(text, at):
        depth += 1 if bracket[0] in "[{(" else -1
        if bracket[0] == "\n":
            return bracket.start()
        if depth == 0:
            return bracket.end()
    return len(text)


def _is_basic(value: str) -> bool:
    from binascii import Error, a2b_base64

    try:
        return b":" in a2b_base64(value + "==")
    except Error:
        return False


def _first_look(text: str) -> re.Match[str] | None:
    """Compile the pattern that each text meets first, and let its search take this function's place."""
    global _suspicious
    # Every branch begins with a literal, which lets the engine skip along the text: four times as fast.
    _suspicious = re.compile(
        r":|=|_|-|</|\([\"'b]|eyJ|AKIA|ASIA|AGPA|AROA|AIza|SG\.|ya29\.|b(?i:earer|asic)|B(?i:earer|asic)"
    ).search
    return _suspicious(text)


#: Whether there may be anything to hide in a text.
_suspicious: Callable[[str], re.Match[str] | None] = _first_look


@cache
def _private_key() -> re.Pattern[str]:
    return re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    )


@cache
def _url() -> re.Pattern[str]:
    return re.compile(r"://([^\s\"'<>`]+)")


@cache
def _rejected() -> re.Pattern[str]:
    # How pydantic's own messages end: they repeat the value that was refused, cut to some fifty characters.
    return re.compile(r"input_value=.{0,200}?(?=, input_type=)", re.DOTALL)


@cache
def _past_user() -> re.Pattern[str]:
    return re.compile(r"[/?#@\[]")


@cache
def _query() -> re.Pattern[str]:
    return re.compile(r"[?#]")


@cache
def _count() -> re.Pattern[str]:
    return re.compile(r"\d+(?![^\s,;&)\]}])")


@cache
def _port() -> re.Pattern[str]:
    return re.compile(r"\d{1,5}(?:[/?#]|\Z)")


@cache
def _pair() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w.\-])((?:api|access|private|secret|signing|encryption|master)[ \t]keys?|[\w.\-]++)"
        r"(?:\\*+[\"'`])?(?:\](?=[ \t]*+=))?([ \t]*+(?::=|=>|==?|:)[ \t]*+)(?=\S)",
        re.IGNORECASE,
    )


@cache
def _flag() -> re.Pattern[str]:
    return re.compile(r"(?<![\w.\-])(--[\w.\-]++)([ \t]++)(?!--)(?=\S)")


@cache
def _couple() -> re.Pattern[str]:
    # ('name', 'value'), as Python shows headers and the items of a dict.
    return re.compile(r"(?<=\()[bBrRuU]{0,2}[\"']([\w.\-]++)[\"'](, ?)(?=[bBrRuU]{0,2}[\"'])")


@cache
def _element() -> re.Pattern[str]:
    return re.compile(r"(<([\w.:\-]++)[^<>]*+>)([^<>]+)(?=</)")


@cache
def _opening() -> re.Pattern[str]:
    return re.compile(r"[bBrRuU]{0,2}(\\*+[\"'`])")


@cache
def _bare() -> re.Pattern[str]:
    return re.compile(r"(?:[^\s;&,\"'`]|[;&,](?![\w.\-\[\]%]*+[\"'`]?[:=]|\s|\Z))+")


@cache
def _one_token() -> re.Pattern[str]:
    return re.compile(r"(?i:bearer|basic)[ \t]++")


@cache
def _newline() -> re.Pattern[str]:
    return re.compile(r"[\r\n]")


@cache
def _bracket() -> re.Pattern[str]:
    return re.compile(r"[\[\]{}()\n]")


@cache
def _scheme() -> re.Pattern[str]:
    return re.compile(r"(?<![A-Za-z0-9])((?i:bearer|basic)[ \t]++)([^\s\"'`]+)")


@cache
def _shape() -> re.Pattern[str]:
    return re.compile(
        r"(?<![A-Za-z0-9])(?:"
        r"eyJ[\w\-]{8,}+(?:\.[\w\-]*+)*+"
        r"|(?:[sS][kK]|[pP][kK]|[rR][kK])[-_][A-Za-z0-9_\-]{12,}+"
        r"|gh[pousr]_[A-Za-z0-9]{12,}+|github_pat_\w{12,}+|glpat-[\w\-]{12,}+"
        r"|xox[a-z]-[\w\-]{10,}+|xapp-[\w\-]{10,}+"
        r"|(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{12,}+|AIza[\w\-]{20,}+"
        r"|npm_[A-Za-z0-9]{20,}+|pypi-(?:Ag[\w\-]{8,}+|[A-Za-z0-9_]{24,}+)|hf_[A-Za-z0-9]{20,}+|(?:oag|bak)_[0-9a-f]{16,}+"
        r"|flk_[A-Za-z0-9]{12}_[A-Za-z0-9]{12,}+"
        r"|whsec_[\w+/=\-]{16,}+|SG\.[\w\-]{16,}+\.[\w\-]{16,}+|ya29\.[\w\-]{16,}+|do[opr]_v1_[0-9a-f]{16,}+"
        r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}+|gls[ac]_\w{16,}+|dckr_pat_[\w\-]{12,}+"
        r")"
    )


DEFAULT = Redactor()
