"""Types in, validators and JSON Schema out: one `Schema` for every way of declaring a shape.

This room knows values and their shapes. It does not know what an action is, who calls it, or how a
failure is told.
"""

from __future__ import annotations

from fairlead.schema.builder import s
from fairlead.schema.compiled import Invalid, Schema
from fairlead.schema.jsonable import NotJsonable, jsonable
from fairlead.schema.signature import Signature, signature_of
from fairlead.schema.specs import schema_of

__all__ = [
    "Invalid",
    "NotJsonable",
    "Schema",
    "Signature",
    "jsonable",
    "s",
    "schema_of",
    "signature_of",
]
