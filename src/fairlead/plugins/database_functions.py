"""SQL functions that take time by the product of two lengths in SQLite, made anew so that each call is soon over.

SQLite looks at no clock inside a function: one search could hold a plugin's database for hours, and nothing ends it.
These give what SQLite's give, in time by the sum. They are given through SQLite's own interface, since Python's cuts
texts at a zero. LIKE and GLOB stay SQLite's, so that they use indexes, and take short patterns only. `json_patch` stays
SQLite's, too, for no more than it can merge in a few seconds.
"""

from __future__ import annotations

import ctypes
import logging
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

logger = logging.getLogger("fairlead.plugins")

T = TypeVar("T")
#: Bytes of a pattern of LIKE and GLOB.
LONGEST_PATTERN: Final = 200
#: Bytes that can be looked for.
LONGEST_SOUGHT: Final = 1024 * 1024
#: Bytes that `replace` may make: no more than all databases have in memory.
LONGEST_MADE: Final = 256 * 1024 * 1024
#: Bytes of a document times those of its patch: each member of the one is looked for among those of the other.
LARGEST_PATCH: Final = 1 << 32

_LIKE_PATTERN_LENGTH: Final = 8
_ROW: Final = 100
_BLOB: Final = 4
_NULL: Final = 5
_UTF8: Final = 1
_DETERMINISTIC: Final = 0x800
_INNOCUOUS: Final = 0x200000
_TYPED: Final = 0x1000000
#: By which a function that is given a text knows it for JSON.
_JSON: Final = ord("J")
_COPIED: Final = ctypes.c_void_p(-1)
_CONTINUED: Final = bytes(range(0x80, 0xC0))
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_NO_HEX: Final = re.compile("[^0-9a-fA-F]+")
#: Bytes that are searched at once.
_WINDOW: Final = 256 * 1024

_Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
_Entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class TooLarge(Exception):
    """What a function would make is too large."""


def bounded(library: str, connect: Callable[[], T]) -> T:
    """A connection that `connect` opens with the SQLite in a library, with these functions in place of its own."""
    native = _native(library)
    return connect() if native is None else native.bounded(connect)


def instr(text: bytes, sought: bytes, is_text: bool) -> int:
    """Where something is in a text or blob, from 1; 0 where it is not. Raises TooLarge."""
    _sought(sought)
    if len(text) <= _WINDOW:
        at = text.find(sought)
    else:
        # Part by part, so that other threads have their turn.
        starts = range(0, len(text), _WINDOW)
        parts = (text.find(sought, start, start + _WINDOW + len(sought)) for start in starts)
        at = next((found for found in parts if found >= 0), -1)
    if at < 0 or not is_text:
        return at + 1
    return len(text[:at].translate(None, _CONTINUED)) + 1


def replace(text: bytes, old: bytes, new: bytes) -> bytes:
    """A text with one for each of another. Raises TooLarge."""
    _sought(old)
    if len(text) <= _WINDOW and len(new) <= len(old):
        return text.replace(old, new)
    made: list[bytes] = []
    size = at = 0
    while at < len(text):
        end = at + _WINDOW + len(old)
        *before, rest = text[at:end].split(old)
        # What may be the beginning of one is looked at again, with what follows it.
        kept = 0 if end >= len(text) else min(len(rest), len(old) - 1)
        size += sum(map(len, before)) + len(before) * len(new) + len(rest) - kept
        if size > LONGEST_MADE:
            raise TooLarge
        made.append(new.join([*before, rest[: len(rest) - kept]]))
        at = min(end, len(text)) - kept
    return b"".join(made)


def trimmed(text: bytes, which: bytes, left: bool, right: bool) -> bytes:
    """A text without these characters at its ends."""
    whole = text.decode("utf-8", "surrogateescape")
    characters = frozenset(which.partition(b"\0")[0].decode("utf-8", "surrogateescape"))
    start, end = 0, len(whole)
    while left and start < end and whole[start] in characters:
        start += 1
    while right and end > start and whole[end - 1] in characters:
        end -= 1
    return whole[start:end].encode("utf-8", "surrogateescape")


def _sought(words: bytes) -> None:
    if len(words) > LONGEST_SOUGHT:
        raise TooLarge


def unhex(text: bytes, passed: bytes) -> bytes | None:
    """The bytes that a text spells, with these characters between them; None if it spells none."""
    spelled = text.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    characters = frozenset(passed.decode("utf-8", "surrogateescape")) - _HEX
    if any(len(run) % 2 for run in _NO_HEX.split(spelled)):
        return None
    if not frozenset(spelled) - _HEX <= characters:
        return None
    return bytes.fromhex(_NO_HEX.sub("", spelled))


class _Native:
    """The functions of one SQLite library that is loaded already."""

    def __init__(self, path: str) -> None:
        library = ctypes.PyDLL(path)
        pointer, number = ctypes.c_void_p, ctypes.c_int
        for name, gives, takes in (
            ("auto_extension", number, [_Entry]),
            ("cancel_auto_extension", number, [_Entry]),
            ("limit", number, [pointer, number, number]),
            ("create_function_v2", number, [pointer, ctypes.c_char_p, number, number, *[pointer] * 5]),
            ("value_type", number, [pointer]),
            ("value_bytes", number, [pointer]),
            ("value_text", pointer, [pointer]),
            ("value_blob", pointer, [pointer]),
            ("result_int64", None, [pointer, ctypes.c_int64]),
            ("result_text64", None, [pointer, ctypes.c_char_p, ctypes.c_uint64, pointer, ctypes.c_ubyte]),
            ("result_blob64", None, [pointer, ctypes.c_char_p, ctypes.c_uint64, pointer]),
            ("result_error_toobig", None, [pointer]),
            ("result_error_nomem", None, [pointer]),
            ("result_error", None, [pointer, ctypes.c_char_p, number]),
            ("result_value", None, [pointer, pointer]),
            ("result_subtype", None, [pointer, ctypes.c_uint]),
            ("open", number, [ctypes.c_char_p, pointer]),
            ("close", number, [pointer]),
            ("errmsg", ctypes.c_char_p, [pointer]),
            ("prepare_v2", number, [pointer, ctypes.c_char_p, number, pointer, pointer]),
            ("bind_value", number, [pointer, number, pointer]),
            ("column_value", pointer, [pointer, number]),
            ("reset", number, [pointer]),
            ("clear_bindings", number, [pointer]),
            ("finalize", number, [pointer]),
        ):
            function = getattr(library, f"sqlite3_{name}")
            function.restype, function.argtypes = gives, takes
            setattr(self, f"_{name}", function)
        # What may take seconds lets other threads have their turn.
        self._step = ctypes.CDLL(path).sqlite3_step
        self._step.restype, self._step.argtypes = number, [pointer]
        self._here = threading.local()
        self._lock = threading.Lock()
        self._opening: set[int] = set()
        self._entry = _Entry(self._opened)
        # SQLite calls them for as long as there are connections.
        self._functions = {
            (name, count): _Function(self._guarded(function))
            for name, count, function in (
                (b"instr", 2, self._instr),
                (b"replace", 3, self._replace),
                (b"trim", 2, self._trim(True, True)),
                (b"ltrim", 2, self._trim(True, False)),
                (b"rtrim", 2, self._trim(False, True)),
                (b"unhex", 2, self._unhex),
                (b"json_patch", 2, self._patch("json_patch")),
                (b"jsonb_patch", 2, self._patch("jsonb_patch")),
            )
        }

    def __getattr__(self, name: str) -> Any:
        # What is there was set by its name, above.
        raise AttributeError(name)

    def bounded(self, connect: Callable[[], T]) -> T:
        # Other connections of the program, on other threads, are left as they are.
        thread = threading.get_ident()
        with self._lock:
            self._opening.add(thread)
            self._auto_extension(self._entry)
            try:
                return connect()
            finally:
                self._cancel_auto_extension(self._entry)
                self._opening.discard(thread)

    def _opened(self, database: int, message: int, about: int) -> int:
        if threading.get_ident() not in self._opening:
            return 0
        self._limit(database, _LIKE_PATTERN_LENGTH, LONGEST_PATTERN)
        flags = _UTF8 | _DETERMINISTIC | _INNOCUOUS | _TYPED
        for (name, count), function in self._functions.items():
            code = self._create_function_v2(
                database, name, count, flags, None, ctypes.cast(function, ctypes.c_void_p), None, None, None
            )
            if code:
                return int(code)
        return 0

    def _guarded(self, function: Callable[[int, Any], None]) -> Callable[[int, int, Any], None]:
        def call(context: int, count: int, values: Any) -> None:
            try:
                function(context, values)
            except TooLarge:
                self._result_error_toobig(context)
            except MemoryError:
                self._result_error_nomem(context)

        return call

    def _is_null(self, value: int) -> bool:
        return bool(self._value_type(value) == _NULL)

    def _text(self, value: int) -> bytes:
        start = self._value_text(value)
        return ctypes.string_at(start, self._value_bytes(value)) if start else b""

    def _blob(self, value: int) -> bytes:
        start = self._value_blob(value)
        return ctypes.string_at(start, self._value_bytes(value)) if start else b""

    def _tell(self, context: int, text: bytes) -> None:
        self._result_text64(context, text, len(text), _COPIED, _UTF8)

    def _instr(self, context: int, values: Any) -> None:
        text, sought = values[0], values[1]
        if self._is_null(text) or self._is_null(sought):
            return
        if self._value_type(text) == _BLOB and self._value_type(sought) == _BLOB:
            found = instr(self._blob(text), self._blob(sought), False)
        else:
            found = instr(self._text(text), self._text(sought), True)
        self._result_int64(context, found)

    def _replace(self, context: int, values: Any) -> None:
        if self._is_null(values[0]) or self._is_null(values[1]):
            return
        text, old = self._text(values[0]), self._text(values[1])
        if old[:1] in (b"", b"\0"):
            self._tell(context, text)
        elif not self._is_null(values[2]):
            self._tell(context, replace(text, old, self._text(values[2])))

    def _trim(self, left: bool, right: bool) -> Callable[[int, Any], None]:
        def trim(context: int, values: Any) -> None:
            if not (self._is_null(values[0]) or self._is_null(values[1])):
                self._tell(context, trimmed(self._text(values[0]), self._text(values[1]), left, right))

        return trim

    def _unhex(self, context: int, values: Any) -> None:
        if self._is_null(values[0]) or self._is_null(values[1]):
            return
        found = unhex(self._text(values[0]), self._text(values[1]))
        if found is not None:
            self._result_blob64(context, found, len(found), _COPIED)

    def _patch(self, name: str) -> Callable[[int, Any], None]:
        def patch(context: int, values: Any) -> None:
            if self._value_bytes(values[0]) * self._value_bytes(values[1]) > LARGEST_PATCH:
                raise TooLarge
            made = self._here.__dict__
            if name not in made:
                made[name] = _Statement(self, f"SELECT {name}(?1, ?2)")
            made[name].tell(context, values)
            if name == "json_patch":
                self._result_subtype(context, _JSON)

        return patch


class _Statement:
    """A statement that is run with SQLite's own functions, on a connection of one thread's that has none of ours."""

    def __init__(self, native: _Native, sql: str) -> None:
        self._native = native
        self._connection, self._statement = ctypes.c_void_p(), ctypes.c_void_p()
        native._open(b":memory:", ctypes.byref(self._connection))
        code = native._prepare_v2(self._connection, sql.encode(), -1, ctypes.byref(self._statement), None)
        if code:
            raise MemoryError

    def tell(self, context: int, values: Any) -> None:
        """Give what the statement gives, or its error."""
        native, statement = self._native, self._statement
        native._bind_value(statement, 1, values[0])
        native._bind_value(statement, 2, values[1])
        if native._step(statement) == _ROW:
            native._result_value(context, native._column_value(statement, 0))
        else:
            native._result_error(context, native._errmsg(self._connection), -1)
        native._reset(statement)
        native._clear_bindings(statement)

    def __del__(self) -> None:
        self._native._finalize(self._statement)
        self._native._close(self._connection)


@cache
def _native(library: str) -> _Native | None:
    try:
        return _Native(library)
    except (OSError, AttributeError):
        logger.warning("%s shows nothing of its inside: SQL functions of plugins may take long.", library)
        return None
