"""Types of messages and values of them, for tests that try many."""

from typing import Any

from hypothesis import strategies as st

from fairlead.pipelines.types import (
    BOOL,
    INT,
    JSON,
    NUMBER,
    STRING,
    UNIT,
    Alias,
    Array,
    Field,
    Product,
    Record,
    Sum,
    Type,
    resolve,
)

NAMES = st.sampled_from("abc")


def _records(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.dictionaries(NAMES, st.tuples(inner, st.booleans()), max_size=3)
    return fields.map(lambda made: Record(tuple(Field(name, *each) for name, each in made.items())))


TYPES: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from((STRING, INT, NUMBER, BOOL, UNIT, JSON)),
    lambda inner: st.one_of(
        inner.map(Array),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: Product(tuple(items))),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: Sum(tuple(items))),
        _records(inner),
        inner.map(lambda each: Alias("T", each)),
    ),
    max_leaves=6,
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def values(type: Type) -> st.SearchStrategy[Any]:
    """Values of a type."""
    plain = resolve(type)
    match plain:
        case Array(item=item):
            return st.lists(values(item), max_size=3)
        case Product(items=items):
            return st.tuples(*map(values, items)).map(list)
        case Sum(variants=several):
            return st.one_of(*map(values, several))
        case Record(fields=fields):
            needed = {each.name: values(each.type) for each in fields if not each.optional}
            return st.fixed_dictionaries(
                needed, optional={each.name: values(each.type) for each in fields if each.optional}
            )
    scalars: dict[Any, st.SearchStrategy[Any]] = {
        STRING: st.text(max_size=3),
        INT: st.integers(-9, 9),
        NUMBER: st.integers(-9, 9) | st.floats(-9, 9),
        BOOL: st.booleans(),
        UNIT: st.none(),
    }
    return scalars.get(plain, ANYTHING)
