"""Forms: how a value of some shape is written where only closed objects with required keys exist, and read back.

A form is a strict schema with the way there and back. Both are structural: they check nothing, and leave alone what
they do not know, for the runtime to judge. Which shape gets which form is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead import _json
from fairlead.failures import Failure, Kind
from fairlead.schema.fits import Fit
from fairlead.tools.mending import Unreadable, mended

_NULL: Final = {"type": "null"}
#: Types that may stand in a list with null.
_NAMED: Final = ("string", "number", "integer", "boolean")
#: An optional key that is not there.
_ABSENT: Final[Any] = object()


class Fits(NamedTuple):
    """What fits where: in the declared schema, and in the strict one."""

    declared: Fit
    strict: Fit


Recode = Callable[[Any, Fits], Any]


class Form(NamedTuple):
    """A shape in strict words; without functions where values stay as they are."""

    schema: dict[str, Any]
    encode: Recode | None = None
    decode: Recode | None = None

    def encoded(self, value: Any, fits: Fits) -> Any:
        return value if self.encode is None else self.encode(value, fits)

    def decoded(self, value: Any, fits: Fits) -> Any:
        return value if self.decode is None else self.decode(value, fits)

    def saying(self, stated: Mapping[str, Any]) -> Form:
        """The same with some more words in its schema."""
        return self._replace(schema={**self.schema, **stated})


def text() -> Form:
    """Any value, as a text that holds JSON."""
    return Form({"type": "string"}, lambda value, fits: _json.dumps(value, default=str), _from_text)


def tagged(form: Form, tag: str) -> Form:
    """A form inside an object with one key."""

    def decode(value: Any, fits: Fits) -> Any:
        alone = isinstance(value, dict) and set(value) == {tag}
        return form.decoded(value[tag], fits) if alone else value

    return Form(closed({tag: form.schema}), lambda value, fits: {tag: form.encoded(value, fits)}, decode)


def optional(form: Form) -> Form:
    """A property that may be missing, which null says."""
    return Form(
        nullable(form.schema),
        lambda value, fits: None if value is _ABSENT else form.encoded(value, fits),
        lambda value, fits: _ABSENT if value is None else form.decoded(value, fits),
    )


def defaulting(form: Form) -> Form:
    """A property that may be missing, which is the same as null."""

    def encode(value: Any, fits: Fits) -> Any:
        return form.encoded(None if value is _ABSENT else value, fits)

    return Form(form.schema, encode, form.decode)


def held(form: Form) -> Form:
    """A property that may be missing or null, which are different things."""
    description = str(form.schema.get("description", ""))
    note = 'null leaves it out; {"value": null} sets it to null'
    return optional(tagged(form, "value").saying({"description": f"{description} ({note})".strip()}))


def each(item: Form) -> Form:
    """A list of values of one form."""

    def over(recode: Recode) -> Recode:
        return lambda value, fits: (
            [recode(one, fits) for one in value] if isinstance(value, list | tuple) else value
        )

    return Form({"type": "array", "items": item.schema}, over(item.encoded), over(item.decoded))


def places(forms: Sequence[Form]) -> Form:
    """A list whose places have forms of their own, as an object with the keys `0`, `1` and so on."""
    keys = [str(number) for number in range(len(forms))]

    def encode(value: Any, fits: Fits) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(forms):
            return value
        return {key: form.encoded(one, fits) for key, form, one in zip(keys, forms, value, strict=True)}

    def decode(value: Any, fits: Fits) -> Any:
        if not isinstance(value, dict) or set(value) != set(keys):
            return value
        return [form.decoded(value[key], fits) for key, form in zip(keys, forms, strict=True)]

    return Form(closed({key: form.schema for key, form in zip(keys, forms, strict=True)}), encode, decode)


def pairs(key: dict[str, Any], item: Form) -> Form:
    """An object with any keys, as a list of keys and their values."""

    def encode(value: Any, fits: Fits) -> Any:
        if not isinstance(value, dict):
            return value
        return [{"key": name, "value": item.encoded(one, fits)} for name, one in value.items()]

    def decode(value: Any, fits: Fits) -> Any:
        if not isinstance(value, list) or not all(map(_is_pair, value)):
            return value
        decoded = {pair["key"]: item.decoded(pair["value"], fits) for pair in value}
        if len(decoded) < len(value):
            raise Failure(
                Kind.invalid_input,
                "A key is given more than once in a list of keys and values. Give each key once.",
                expected="different keys",
            )
        return decoded

    return Form({"type": "array", "items": closed({"key": key, "value": item.schema})}, encode, decode)


def fields(forms: Mapping[str, Form], required: frozenset[str], under: str, more: Form | None) -> Form:
    """An object with named keys; others, if it takes them, come under a key of their own."""
    properties = {name: form.schema for name, form in forms.items()}
    if more is not None:
        properties[under] = {**more.schema, "description": "Further keys and their values."}

    def encode(value: Any, fits: Fits) -> Any:
        if not isinstance(value, dict):
            return value
        encoded = {
            name: form.encoded(value.get(name, _ABSENT), fits)
            for name, form in forms.items()
            if name in value or name not in required
        }
        rest = {name: one for name, one in value.items() if name not in forms}
        return {**encoded, **rest} if more is None else {**encoded, under: more.encoded(rest, fits)}

    def decode(value: Any, fits: Fits) -> Any:
        if not isinstance(value, dict):
            return value
        decoded = {
            name: found
            for name, one in value.items()
            if (found := forms[name].decoded(one, fits) if name in forms else one) is not _ABSENT
        }
        if more is None or under not in decoded:
            return decoded
        rest = more.decoded(decoded.pop(under), fits)
        return {**rest, **decoded} if isinstance(rest, dict) else {**decoded, under: rest}

    return Form(closed(properties), encode, decode)


def union(branches: Sequence[tuple[Any, Form]]) -> Form:
    """One of several forms, each with the schema that was declared for it; their strict values differ."""
    forms = [form for _, form in branches]

    def encode(value: Any, fits: Fits) -> Any:
        for declared, form in branches:
            if fits.declared(value, declared):
                encoded = form.encoded(value, fits)
                if fits.strict(encoded, form.schema):
                    return encoded
        return value

    def decode(value: Any, fits: Fits) -> Any:
        return next((form.decoded(value, fits) for form in forms if fits.strict(value, form.schema)), value)

    return Form(_either([form.schema for form in forms]), encode, decode)


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these keys."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The same or null."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    if schema.get("type") in _NAMED:
        listed = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, "type": [schema["type"], "null"], **listed}
    told: dict[str, Any] = {key: schema[key] for key in ("title", "description") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in told}
    return {"anyOf": [inner, _NULL], **told}


def _either(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    if len(schemas) == 2 and schemas[1] == _NULL and schemas[0].get("type") in _NAMED:
        return nullable(schemas[0])
    return {"anyOf": schemas}


def _from_text(value: Any, fits: Fits) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return _json.loads(value)
    except ValueError:
        pass
    try:
        # Only what cannot be meant as a text.
        return mended(value).value if value.lstrip()[:1] in ("{", "[", "`") else value
    except Unreadable:
        return value


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"key", "value"} and isinstance(value["key"], str)
