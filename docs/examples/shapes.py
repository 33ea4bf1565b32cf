"""Shapes from type hints."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from fairlead.schema import Invalid, schema_of


class Size(StrEnum):
    small = "small"
    large = "large"


@dataclass
class Parcel:
    size: Size
    weight: Annotated[float, Field(gt=0, le=30, description="In kilograms.")]
    sent: date
    route: Literal["land", "sea"] = "land"
    contents: tuple[str, ...] = ()


parcel = schema_of(Parcel)
value = parcel.validate({"size": "small", "weight": 2.5, "sent": "2030-01-31"})
assert value == Parcel(Size.small, 2.5, date(2030, 1, 31))
assert parcel.dump(value) == {
    "size": "small",
    "weight": 2.5,
    "sent": "2030-01-31",
    "route": "land",
    "contents": [],
}
assert parcel.json_schema["required"] == ["size", "weight", "sent"]
assert parcel.json_schema["additionalProperties"] is False

try:
    parcel.parse({"size": "medium", "weight": 31, "sent": "2030-01-31", "colour": "red"})
except Invalid as invalid:
    found = {(issue.path, issue.code) for issue in invalid.issues}
    assert found == {(("size",), "enum"), (("weight",), "too_large"), (("colour",), "unexpected")}
