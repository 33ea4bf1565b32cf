"""`value`: a frozen dataclass to the type checker, and one that is cheap to make when the program runs.

Python freezes a dataclass by setting each field the long way round: one of eight fields takes ten times as long to
make. Where many are made for each call, the checker alone holds everybody to not changing them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:

    def value(*, frozen: bool, slots: bool) -> Callable[[type[T]], type[T]]:
        """The decorator: `@value(frozen=True, slots=True)`."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["value"]
