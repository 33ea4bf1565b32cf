"""Texts that UTF-8 cannot carry, and so no JSON: Python gives them for names of files in other encodings.

They are looked for in what actions return. A caller in the same process may well send one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from fairlead.schema.jsonable import jsonable

Core = dict[str, Any]

#: No text is as long. To know a text's length, a validator reads it as UTF-8: the cheapest way to have it read.
_LONGEST = 2**62


def read_as_utf8(core: Mapping[str, Any]) -> Core:
    """A plain core schema that refuses these texts, too."""
    new = dict(core)
    if new["type"] == "str":
        new.setdefault("max_length", _LONGEST)
    for key in ("schema", "items_schema", "keys_schema", "values_schema"):
        if key in new:
            new[key] = read_as_utf8(new[key])
    if "fields" in new:
        new["fields"] = {name: read_as_utf8(field) for name, field in new["fields"].items()}
    return new


def carried(dump: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same dump, which raises NotJsonable for these texts."""

    def checking(value: Any) -> Any:
        data = dump(value)
        try:
            orjson.dumps(data)
        except orjson.JSONEncodeError:
            return jsonable(data)  # says where it is; and integers beyond 64 bits are JSON
        return data

    return checking
