"""An input as the flags that give it: for examples in help, and for tests that go there and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairlead import _json
from fairlead.surfaces.cli.fields import Field, Fields
from fairlead.surfaces.cli.shapes import Shape
from fairlead.surfaces.cli.values import write


class _NoFlags(Exception):
    """No flags can say this value."""


def flags_for(fields: Fields, value: Any) -> list[str]:
    """The arguments that give this input: flags where they can, else `--json`."""
    known = {field.path[0]: field for field in fields.top}
    try:
        if not fields.by_flag or not isinstance(value, Mapping) or not known.keys() >= value.keys():
            raise _NoFlags
        return [token for name, item in value.items() for token in _field(fields, known[name], item)]
    except _NoFlags:
        return ["--json", _json.dumps(value)]


def _field(fields: Fields, field: Field, value: Any) -> Iterator[str]:
    kind = field.shape.kind
    if kind == "boolean" and isinstance(value, bool):
        yield from _switch(fields, field, value)
    elif kind == "array" and isinstance(value, list) and value and _plain(field.shape, value):
        for item in value:
            yield from _valued(field.flag, write(field.shape.item(0), item))
    elif kind == "record" and isinstance(value, Mapping) and value and _pairs(field.shape, value):
        for key, item in value.items():
            yield from _valued(field.flag, f"{key}={write(field.shape.value, item)}")
    else:
        yield from _valued(field.flag, write(field.shape, value))


def _switch(fields: Fields, field: Field, value: bool) -> Iterator[str]:
    if value:
        yield field.flag
    elif fields.find("no-" + field.flag[2:]) is None:
        yield "--no-" + field.flag[2:]
    else:
        yield from (field.flag, "false")


def _plain(shape: Shape, items: list[Any]) -> bool:
    """Whether each item can stand after a flag of its own."""
    if "prefixItems" in shape.schema or shape.item(0).kind in ("array", "object", "record", "union", "any"):
        return False
    texts = [write(shape.item(0), item) for item in items]
    return all(text is not None and not text.lstrip().startswith("[") for text in texts)


def _pairs(shape: Shape, value: Mapping[str, Any]) -> bool:
    if shape.value.kind not in ("string", "integer", "number", "boolean", "choice"):
        return False
    return all(
        key
        and "=" not in key
        and not key.startswith(("{", "@", "-"))
        and write(shape.value, item) is not None
        for key, item in value.items()
    )


def _valued(flag: str, text: str | None) -> Iterator[str]:
    if text is None:
        raise _NoFlags
    if text.startswith("--"):
        yield f"{flag}={text}"
    else:
        yield from (flag, text)
