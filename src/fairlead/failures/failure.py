"""`Failure`, the one exception and value that says what went wrong, and the catalogue of its codes.

A code is a class: it names its family, code and kind, registers itself, and its docstring is its message.
How a failure is told on a wire is not known here; each family's own module knows that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple

from fairlead.failures.kinds import PIVOT, Kind

FAMILIES = ("action", "tool", "host", "gateway", "runtime")


class Origin(NamedTuple):
    """Where a failure was born: a family, and its exact code there."""

    family: str
    code: str


class Issue(NamedTuple):
    """One thing wrong with a value: where, by which rule, and what would have been right."""

    path: tuple[str | int, ...]
    code: str
    message: str
    expected: str | None = None
    received: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The issue as JSON; `expected` and `received` only when they are known."""
        told: dict[str, Any] = {"path": list(self.path), "code": self.code, "message": self.message}
        if self.expected is not None:
            told["expected"] = self.expected
        if self.received is not None:
            told["received"] = self.received
        return told


class Entry(NamedTuple):
    """What the catalogue says of one code; a number is None where the family has no such thing."""

    family: str
    code: str
    kind: Kind
    message: str
    http_status: int | None
    exit_code: int | None
    retryable: bool
    where: str


class Failure(Exception):
    """Something went wrong.

    `Failure(Kind.conflict, "message")` speaks in the action family's words. A code of your own is a subclass:
    `class QuotaExceeded(Failure, code="quota_exceeded", kind=Kind.rate_limited): "default message"`.
    """

    family: ClassVar[str] = "action"
    facts: ClassVar[Mapping[str, Any]] = {}
    kind: Kind
    code: str

    def __init_subclass__(
        cls,
        *,
        code: str | None = None,
        kind: Kind | None = None,
        family: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init_subclass__()
        if family is not None:
            cls.family = _known(family)
        if kind is not None:
            cls.kind = kind
        if facts:
            cls.facts = {**cls.facts, **_checked(facts)}
        if code is None:
            return
        if not code or getattr(cls, "kind", None) is None:
            raise TypeError(f"{cls.__name__} needs a code and a kind: code='name', kind=Kind.conflict")
        cls.code = code
        _register(cls)

    def __init__(
        self,
        kind: Kind | str | None = None,
        message: str | None = None,
        *,
        field: str | None = None,
        expected: str | None = None,
        issues: Iterable[Issue] = (),
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
        origin: Origin | None = None,
        cause: BaseException | None = None,
    ) -> None:
        if isinstance(kind, Kind):
            self.kind = kind
        else:
            message = kind or message
        if getattr(self, "kind", None) is None:
            name = type(self).__name__
            raise TypeError(
                f"{name} takes a Kind first, then the message: {name}(Kind.internal, 'what happened')"
            )
        if getattr(self, "code", None) is None:
            self.code = PIVOT[self.kind].on(self.family)
        self.message = str(message) if message else default_message(type(self), self.code)
        self.field = field
        self.expected = expected
        self.issues = tuple(issues)
        self.details = dict(details) if details else {}
        self.retry_after = retry_after
        self.retryable = retryable
        self.origin = origin
        if cause is not None:
            self.__cause__ = cause
        super().__init__(self.message)

    def for_callers(self) -> Failure:
        """The failure as those may hear of it who do not run the program."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.family} {self.code}: {self.message}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), dict(self.__dict__))


class StoreFailure(Failure):
    """Something is wrong with the store. It says where that is and what to do: words for who runs the program alone."""

    def for_callers(self) -> Failure:
        words = _OF_STORE.get(self.kind, "The store is not available. Try again later.")
        return Failure(self.kind, words, details=self.details, retry_after=self.retry_after, cause=self)


#: What callers are told of a store that is there, and refuses what it was given.
_OF_STORE: Final = {
    Kind.invalid_input: "The store cannot keep a value that it was given.",
    Kind.conflict: "The store holds something that rules this out.",
}


def rebuild(cls: type[Failure], state: Mapping[str, Any]) -> Failure:
    """A failure with exactly these attributes: a copy, or one that came over a wire."""
    failure = cls.__new__(cls)
    failure.__dict__.update(state)
    failure.args = (failure.message,)
    return failure


def revive(family: str, code: str, kind: Kind | None, **attributes: Any) -> Failure:
    """The failure a peer told of: its own class where we know the code, else the family's base class."""
    cls = lookup(family, code)
    if kind is None:
        kind = getattr(cls, "kind", Kind.upstream)
    failure = cls.__new__(cls)
    # Not the class's own constructor: a user's may ask for more than a wire can tell.
    failure.code = code
    Failure.__init__(failure, kind, **attributes)
    return failure


def default_message(cls: type[Failure], code: str) -> str:
    """The docstring's first paragraph, in one line."""
    doc = vars(cls).get("__doc__") if "code" in vars(cls) else None
    if not doc:
        named = lookup(cls.family, code)
        doc = vars(named).get("__doc__") if "code" in vars(named) else None
    if not doc:
        return code.replace("_", " ").capitalize() + "."
    return " ".join(doc.strip().split("\n\n")[0].split())


_codes: dict[str, dict[str, type[Failure]]] = {family: {} for family in FAMILIES}
_homes: dict[tuple[str, str], str] = {}
_bases: dict[str, type[Failure]] = {"action": Failure}


def families() -> tuple[str, ...]:
    """The five families' names."""
    return FAMILIES


def lookup(family: str, code: str) -> type[Failure]:
    """The class of a code, or the family's base class for one nobody registered.

    Raises LookupError for an unknown family.
    """
    if family not in _codes:
        raise LookupError(_no_family(family))
    _load(family)
    return _codes[family].get(code) or _bases[family]


def catalogue(family: str | None = None) -> Iterator[Entry]:
    """Every registered code, family by family, in the order they were defined."""
    for name in FAMILIES if family is None else (_known(family),):
        module = _load(name)
        for cls in list(_codes[name].values()):
            yield module.entry(cls)


def from_exception(exc: BaseException) -> Failure:
    """The failure an exception stands for; the exception stays its cause."""
    if (failure := failure_of(exc)) is not None:
        return failure
    if isinstance(exc, ExceptionGroup) and len(exc.exceptions) == 1:
        return from_exception(exc.exceptions[0])
    from fairlead.failures.redaction import DEFAULT

    return Failure(_kind_of(exc), DEFAULT.text(text_of(exc)), cause=exc)


def failure_of(exc: BaseException) -> Failure | None:
    """The failure that this is; of a group of nothing else, as tasks side by side raise it, the first."""
    if isinstance(exc, Failure):
        return exc
    if not isinstance(exc, ExceptionGroup):
        return None
    found = [failure_of(each) for each in exc.exceptions]
    return None if None in found else found[0]


def text_of(exc: BaseException) -> str:
    """What an exception says, or nothing where even that fails."""
    try:
        return str(exc)
    except Exception:
        return ""


def _kind_of(exc: BaseException) -> Kind:
    if isinstance(exc, TimeoutError):
        return Kind.timeout
    # By name, so that nobody pays for importing asyncio to find out.
    if any(cls.__name__ == "CancelledError" for cls in type(exc).__mro__):
        return Kind.cancelled
    return Kind.internal


def register_base(cls: type[Failure]) -> None:
    """Make a class the one unknown codes of its family fall back to."""
    _bases[cls.family] = cls


def _register(cls: type[Failure]) -> None:
    _load(cls.family)
    codes = _codes[cls.family]
    taken = codes.get(cls.code)
    home = _home(cls)
    # The home of the one before is kept: its module may be gone by now.
    if taken is not None and (_homes[cls.family, cls.code], taken.__qualname__) != (home, cls.__qualname__):
        raise TypeError(
            f"{cls.__qualname__} cannot take the {cls.family} code {cls.code!r}: "
            f"{taken.__module__}.{taken.__qualname__} has it. Choose another code, or raise that class"
        )
    codes[cls.code] = cls
    _homes[cls.family, cls.code] = home


def _load(family: str) -> Any:
    name = f"fairlead.failures.{family}"
    module = sys.modules.get(name)
    # Another thread may be half way through importing it.
    if module is None or getattr(module.__spec__, "_initializing", False):
        module = import_module(name)
    return module


def _home(cls: type) -> str:
    """The file that a class is written in: one that is imported twice, under two names, has the same codes twice."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__


_FACTS = {"http_status": int, "exit_code": int, "retryable": bool, "category": str, "type": str, "where": str}


def _checked(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in facts.items():
        wanted = _FACTS.get(name)
        if wanted is None:
            raise TypeError(f"a failure code has no option {name!r}{_near(name, _FACTS)}")
        if not isinstance(value, wanted):
            raise TypeError(f"{name} of a failure code is {wanted.__name__}, not {type(value).__name__}")
    return facts


def _known(family: str) -> str:
    if family not in _codes:
        raise TypeError(_no_family(family))
    return family


def _no_family(family: str) -> str:
    return f"there is no failure family {family!r}{_near(family, FAMILIES)}; there are {', '.join(FAMILIES)}"


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
