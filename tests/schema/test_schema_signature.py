"""Function signatures as schemas."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from fairlead.schema import Invalid, signature_of


def test_arguments_are_validated_to_keywords_and_defaults_left_to_the_function() -> None:
    def add(a: int, b: int = 2, *, c: float = 0.5) -> float:
        return a + b + c

    schema = signature_of(add)

    assert schema.validate({"a": 1}) == {"a": 1}
    assert add(**schema.validate({"a": 1, "c": 1})) == 4.0


def test_the_document_shows_types_defaults_and_descriptions() -> None:
    def create(  # type: ignore[no-untyped-def]
        title: Annotated[str, Field(description="The title.", max_length=9)],
        kind: Annotated[Literal["a", "b"], "Which kind."] = "a",
        size: int | None = None,
        tags: list[str] = [],  # noqa: B006
        anything=1,
    ) -> None:
        """Create one.

        Args:
            title: Not this one.
            size (int): How big,
                in metres.
            tags: Words.

        Returns:
            nothing: at all
        """

    assert signature_of(create).json_schema == {
        "type": "object",
        "properties": {
            "title": {"description": "The title.", "type": "string", "maxLength": 9},
            "kind": {"description": "Which kind.", "type": "string", "enum": ["a", "b"], "default": "a"},
            "size": {
                "description": "How big, in metres.",
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "default": None,
            },
            "tags": {"description": "Words.", "type": "array", "items": {"type": "string"}, "default": []},
            "anything": {"default": 1},
        },
        "required": ["title"],
        "additionalProperties": False,
    }


def test_sphinx_descriptions_are_read() -> None:
    def move(path: str, force: bool = False) -> None:
        """Move it.

        :param str path: Where to,
            exactly.
        :param force: Even if it exists.
        :returns: nothing
        """

    properties = signature_of(move).json_schema["properties"]

    assert properties["path"]["description"] == "Where to, exactly."
    assert properties["force"]["description"] == "Even if it exists."


def test_skipped_parameters_are_not_part_of_the_shape() -> None:
    def act(ctx: object, x: int) -> None: ...

    schema = signature_of(act, skip={"ctx"})

    assert schema.validate({"x": 1}) == {"x": 1}
    with pytest.raises(Invalid):
        schema.parse({"x": 1, "ctx": 2})


def test_a_field_as_default_is_filled_in() -> None:
    def act(x: int = Field(3, ge=1), y: int = Field(description="needed")) -> None: ...

    schema = signature_of(act)

    assert schema.validate({"y": 1}) == {"x": 3, "y": 1}
    assert schema.json_schema["required"] == ["y"]


def test_a_default_joins_what_the_author_put_in_the_document() -> None:
    def act(x: Annotated[int, Field(json_schema_extra={"examples": [1]})] = 2) -> None: ...

    assert signature_of(act).json_schema["properties"]["x"] == {
        "type": "integer",
        "default": 2,
        "examples": [1],
    }


def test_local_types_with_postponed_annotations_are_found() -> None:
    class Local(BaseModel):
        n: int

    def act(one: Local, many: list[Local]) -> None: ...

    assert signature_of(act).validate({"one": {"n": 1}, "many": []}) == {"one": Local(n=1), "many": []}


def test_methods_partials_and_callable_objects_work() -> None:
    class Service:
        def run(self, n: int) -> int:
            return n

        def __call__(self, m: int) -> int:
            return m

    def act(a: int, b: int) -> None: ...

    assert signature_of(Service().run).validate({"n": 1}) == {"n": 1}
    assert signature_of(Service()).validate({"m": 1}) == {"m": 1}
    assert signature_of(partial(act, b=2)).validate({"a": 1}) == {"a": 1}


def test_no_parameters_means_an_empty_object() -> None:
    def ping() -> None: ...

    schema = signature_of(ping)

    assert schema.validate({}) == {}
    assert schema.json_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


class Shapeless: ...


def positional(x: int, /) -> None: ...
def starred(*items: int) -> None: ...
def doubled(**items: int) -> None: ...
def unknown(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def shapeless(x: Shapeless) -> None: ...


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (positional, "'x'"),
        (starred, r"\*items"),
        (doubled, r"\*\*items"),
        (unknown, "Missing"),
        (shapeless, "Shapeless"),
    ],
)
def test_parameters_that_cannot_be_passed_by_name_are_refused(function: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        signature_of(function)


def test_unknown_arguments_are_refused_with_the_near_miss() -> None:
    def act(task_name: str) -> None: ...

    with pytest.raises(Invalid) as caught:
        signature_of(act).parse({"task_name": "x", "tusk_nome": 1})

    assert [(issue.path, issue.code) for issue in caught.value.issues] == [(("tusk_nome",), "unexpected")]
