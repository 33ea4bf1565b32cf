"""The arguments after an action's name as a request: its input, and how it is to be called.

All that is wrong is found before anything is refused, so that one look mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairlead import _json
from fairlead.failures import Issue
from fairlead.surfaces.cli.console import Console
from fairlead.surfaces.cli.fields import CALL_FLAGS, Field, Fields
from fairlead.surfaces.cli.hints import closest, near_miss
from fairlead.surfaces.cli.outcome import OUTPUTS
from fairlead.surfaces.cli.values import WORDS, Source, Unreadable, read

if TYPE_CHECKING:
    from fairlead.schema import Schema

_SHORT: Final = {"-h": "--help", "-v": "--verbose"}


class Request:
    """What the arguments ask for."""

    def __init__(self) -> None:
        self.input: Any = {}
        #: Whether `--json` gave the whole input.
        self.whole = False
        self.confirm: bool | str | None = None
        self.idempotency_key: str | None = None
        self.timeout: float | None = None
        self.verbose = False
        self.schema = False
        self.help = False


class Arguments:
    """Reads the arguments one by one. `issues` says what is wrong with them."""

    def __init__(
        self,
        arguments: Sequence[str],
        fields: Callable[[], Fields],
        console: Console,
        more_flags: Sequence[str] = (),
    ) -> None:
        self.request = Request()
        self.issues: list[Issue] = []
        self._arguments = list(arguments)
        self._next = 0
        self._fields = fields
        self._more_flags = more_flags
        self._source = Source(console)
        self._given: set[str] = set()
        self._set: set[tuple[str, ...]] = set()
        #: What was meant to be given and could not be read: the input says nothing about it.
        self._unsure: set[tuple[str, ...]] = set()
        self._read()

    def judge(self, schema: Schema, *, repair: bool) -> None:
        """Add what is wrong with the values that could be read, beside those that could not."""
        from fairlead.schema import Invalid

        try:
            schema.parse(self.request.input, repair=repair)
        except Invalid as exc:
            self.issues += [each for each in exc.issues if not self._is_unsure(each.path)]
        except Exception:
            return  # of the app's own checks: a call tells it, when the command line makes sense

    def _is_unsure(self, path: Sequence[str | int]) -> bool:
        return any(all(a == b for a, b in zip(path, other, strict=False)) for other in self._unsure)

    def _read(self) -> None:
        whole: str | None = None
        while self._next < len(self._arguments):
            token = self._arguments[self._next]
            self._next += 1
            token = _SHORT.get(token, token)
            flag, equals, text = token.partition("=")
            value = text if equals else None
            if flag == "--json":
                given = self._once(flag, value)
                if given is None:
                    self._unsure.add(())
                else:
                    whole = given
            elif flag.replace("_", "-")[2:] in CALL_FLAGS and flag.startswith("--"):
                self._call_flag(flag.replace("_", "-"), value)
            elif flag.startswith("--") and len(token) > 2:
                self._field_flag(flag, value)
            else:
                self._stray(token)
        if whole is not None:
            self._whole(whole)

    # The flags of the call itself.

    def _call_flag(self, flag: str, value: str | None) -> None:
        match flag:
            case "--confirm":
                self._confirm(value)
            case "--output":
                self._output(self._once(flag, value))
            case "--idempotency-key":
                self.request.idempotency_key = self._key(self._once(flag, value))
            case "--timeout-ms":
                self.request.timeout = self._timeout(self._once(flag, value))
            case _ if value is not None:
                self._wrong(flag, "unexpected_value", "takes no value")
            case "--ndjson":
                pass  # the form of the output was read first
            case _:
                setattr(self.request, flag[2:], True)

    def _confirm(self, value: str | None) -> None:
        if value is None and self._word_follows():
            value = self._take()
        if value == "":
            self._wrong("--confirm", "invalid_value", "takes a token, or nothing")
        elif value is None:
            self.request.confirm = True
        else:
            self.request.confirm = WORDS.get(value.lower(), value)

    def _output(self, text: str | None) -> None:
        if text is not None and text not in OUTPUTS:
            message = f"expected one of {', '.join(OUTPUTS)}.{near_miss(text, OUTPUTS)}"
            self._wrong("--output", "invalid_value", message)

    def _key(self, text: str | None) -> str | None:
        if text == "":
            self._wrong("--idempotency-key", "invalid_value", "expected a non-empty text")
        return text

    def _timeout(self, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            milliseconds = float(text)
        except ValueError:
            milliseconds = 0.0
        if not 0 < milliseconds < float("inf"):
            self._wrong(
                "--timeout-ms", "invalid_value", "expected a positive number of milliseconds, such as 5000"
            )
            return None
        return milliseconds / 1000

    def _whole(self, raw: str) -> None:
        """Take the whole input from `--json`; nothing else may set fields."""
        self.request.whole = True
        if self._set:
            flags = ", ".join(sorted(self._fields().flag(path) for path in self._set))
            self._wrong("--json", "conflict", f"gives the whole input, so it cannot stand beside {flags}", ())
            return
        try:
            self.request.input = _json.loads(self._source.text(raw))
        except Unreadable as exc:
            self._wrong("--json", "invalid_value", str(exc), ())
        except ValueError as exc:
            message = f"expected the input as JSON text; this is not JSON: {exc}"
            self._wrong("--json", "invalid_json", message, ())

    # The flags of the action's fields.

    def _field_flag(self, flag: str, value: str | None) -> None:
        fields = self._fields()
        field = fields.find(flag[2:])
        if field is not None:
            self._field(flag, field, value)
            return
        negated = fields.find(flag[5:]) if flag.startswith(("--no-", "--no_")) else None
        if negated is None:
            self._unknown(flag, value)
        elif negated.shape.kind != "boolean":
            message = f"only a boolean has a --no- form; {negated.flag} takes a value"
            self._wrong(flag, "not_boolean", message, negated.path)
        elif value is not None:
            self._wrong(flag, "unexpected_value", f"takes no value; write {negated.flag} false", negated.path)
        else:
            self._put(negated, False)

    def _field(self, flag: str, field: Field, value: str | None) -> None:
        if field.shape.kind == "boolean" and value is None:
            # Nothing but flags can follow, so a word here is the value.
            value = self._take() if self._word_follows() else "true"
        else:
            value = self._value(flag, value)
        if value is None:
            self._unsure.add(field.path)
            return
        try:
            parsed = read(field.shape, value, self._source, self._there(field))
        except Unreadable as exc:
            self.issues.append(Issue(field.path, "invalid_value", str(exc)))
            self._set.add(field.path)
            self._unsure.add(field.path)
            self._holder(field)
        else:
            self._put(field, parsed)

    def _there(self, field: Field) -> int:
        """How many items an array has by now."""
        present = self.request.input
        for step in field.path:
            present = present.get(step) if isinstance(present, dict) else None
        return len(present) if isinstance(present, list) else 0

    def _put(self, field: Field, value: Any) -> None:
        """Set a field; arrays and records grow, and an object takes members given by dotted flags."""
        holder = self._holder(field)
        name = field.path[-1]
        present = holder.get(name) if isinstance(holder, dict) else None
        match field.shape.kind, present, value:
            case "array", list(), list():
                present.extend(value)
            case "record" | "object", dict(), dict() if not present.keys() & value.keys():
                present.update(value)
            case _ if not isinstance(holder, dict) or name in holder:
                self.issues.append(Issue(field.path, "duplicate", "is given twice; it takes one value"))
            case _:
                holder[name] = value
        self._set.add(field.path)

    def _holder(self, field: Field) -> Any:
        """What the field is set in; the objects around it are made."""
        holder = self.request.input
        for step in field.path[:-1]:
            holder = holder.setdefault(step, {})
            if not isinstance(holder, dict):
                break
        return holder

    # Tokens.

    def _once(self, flag: str, value: str | None) -> str | None:
        """The value of a flag that may be given one time only."""
        text = self._value(flag, value)
        if flag in self._given:
            self._wrong(flag, "duplicate", "is given twice; it takes one value")
            return None
        self._given.add(flag)
        return text

    def _value(self, flag: str, value: str | None) -> str | None:
        """The flag's value: after `=`, or the next argument, unless that is a flag itself."""
        if value is not None:
            return value
        if self._next < len(self._arguments) and not self._arguments[self._next].startswith("--"):
            return self._take()
        message = f"needs a value; write {flag}=VALUE if the value starts with '--'"
        self._wrong(flag, "missing_value", message)
        return None

    def _word_follows(self) -> bool:
        return self._next < len(self._arguments) and not self._arguments[self._next].startswith("-")

    def _take(self) -> str:
        self._next += 1
        return self._arguments[self._next - 1]

    def _stray(self, token: str) -> None:
        place = f"argument {self._next}"
        field = self._fields().find(token.lstrip("-").partition("=")[0])
        if field is None:
            self._wrong(place, "unexpected_argument", "stands alone; values follow a --flag")
            return
        self._wrong(place, "unexpected_argument", f"is not a flag. Did you mean {field.flag}?", field.path)
        if token.startswith("-") and "=" not in token:
            self._skip_value()

    def _unknown(self, flag: str, value: str | None) -> None:
        fields = self._fields()
        known = [field.flag for field in fields.all()] + [
            f"--{name}" for name in (*fields.spellings, *CALL_FLAGS)
        ]
        known += self._more_flags
        way_out = near_miss(flag, known) if fields.by_flag else " This action takes its input by --json."
        meant = fields.find((closest(flag, known) or "")[2:])
        path = meant.path if meant is not None else None
        self._wrong(flag, "unknown_flag", f"there is no such flag.{way_out}", path)
        if value is None:
            self._skip_value()

    def _skip_value(self) -> None:
        """Pass over what is most likely the value of a wrong flag: one slip, one message."""
        if self._word_follows():
            self._take()

    def _wrong(self, flag: str, code: str, message: str, unsure: tuple[str, ...] | None = None) -> None:
        self.issues.append(Issue((flag,), code, message))
        if unsure is not None:
            self._unsure.add(unsure)
