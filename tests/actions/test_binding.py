"""How a call reaches a function: parameters, one model, the context wherever it stands, and every kind of callable."""

import functools
import typing
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import attrs
import msgspec
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from fairlead import Action, App, Context, s
from fairlead.actions import DefinitionError


class Task(BaseModel):
    title: str
    done: bool = False


@dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict):
    name: str


class Ship(msgspec.Struct):
    name: str


@attrs.define
class Boat:
    name: str


async def call(function: Any, given: Any, /, **options: Any) -> Any:
    app = App("x")
    app.add(function, **{"name": "it", "description": "It.", **options})
    result = await app.invoke("it", given)
    assert result.failure is None, result.to_dict()
    return result.data


async def code(function: Any, given: Any, /, **options: Any) -> str:
    app = App("x")
    app.add(function, **{"name": "it", "description": "It.", **options})
    result = await app.invoke("it", given)
    assert result.failure is not None
    return result.failure.code


async def test_parameters_are_the_input() -> None:
    async def add(a: int, b: int = 10) -> int:
        return a + b

    assert await call(add, {"a": 1}) == 11
    assert await call(add, {"a": 1, "b": 2}) == 3
    assert await code(add, {"b": 2}) == "VALIDATION_ERROR"
    assert await code(add, {"a": 1, "c": 2}) == "VALIDATION_ERROR"


async def test_keyword_only_parameters_are_parameters() -> None:
    async def add(a: int, *, b: int) -> int:
        return a + b

    assert await call(add, {"a": 1, "b": 2}) == 3


async def test_a_default_is_the_functions_own() -> None:
    marker = object()

    async def has(a: Any = marker) -> bool:
        return a is marker

    assert await call(has, {}) is True


async def test_a_mutable_default_is_not_shared_through_us() -> None:
    async def collect(items: list[int] = []) -> list[int]:  # noqa: B006
        return [*items, 1]

    assert await call(collect, {}) == [1]
    assert await call(collect, {}) == [1]


@pytest.mark.parametrize("model", [Task, Point, Movie, Ship, Boat], ids=lambda model: model.__name__)
async def test_a_lone_model_is_the_whole_input(model: Any) -> None:
    async def name(value: Any) -> str:
        return type(value).__name__

    name.__annotations__["value"] = model
    good = {"x": 1} if model is Point else {"title": "a"} if model is Task else {"name": "a"}
    assert await call(name, good) == (model.__name__ if model is not Movie else "dict")
    assert await code(name, {"value": good, "other": 1}) == "VALIDATION_ERROR"


async def test_an_annotated_model_is_the_whole_input() -> None:
    async def title(task: Annotated[Task, "What to do"]) -> str:
        return task.title

    assert await call(title, {"title": "a"}) == "a"


async def test_a_model_beside_another_parameter_is_a_field() -> None:
    async def both(task: Task, note: str) -> str:
        return task.title + note

    assert await call(both, {"task": {"title": "a"}, "note": "b"}) == "ab"


async def test_an_optional_model_is_a_field() -> None:
    async def title(task: Task | None = None) -> str:
        return task.title if task else "none"

    assert await call(title, {}) == "none"
    assert await call(title, {"task": {"title": "a"}}) == "a"


async def first(ctx: Context, a: int) -> str:
    return f"{ctx.surface} {a}"


async def last(a: int, ctx: Context) -> str:
    return f"{ctx.surface} {a}"


async def middle(a: int, here: Context, b: int = 0) -> str:
    return f"{here.surface} {a + b}"


async def keyword(a: int, *, ctx: Context) -> str:
    return f"{ctx.surface} {a}"


async def unannotated(a, ctx):  # type: ignore[no-untyped-def]
    return f"{ctx.surface} {a}"


async def optional(a: int, ctx: Context | None = None) -> str:
    assert ctx is not None
    return f"{ctx.surface} {a}"


async def quoted(a: int, ctx: "Context") -> str:
    return f"{ctx.surface} {a}"


async def annotated(a: int, ctx: Annotated[Context, "the call"]) -> str:
    return f"{ctx.surface} {a}"


@pytest.mark.parametrize(
    "function",
    [first, last, middle, keyword, unannotated, optional, quoted, annotated],
    ids=lambda function: function.__name__,
)
async def test_the_context_is_given_wherever_it_stands(function: Any) -> None:
    assert await call(function, {"a": 1}) == "unknown 1"
    assert "ctx" not in Action(function, name="it", description="It.").input.json_schema["properties"]


async def model_first(task: Task, ctx: Context) -> str:
    return f"{ctx.surface} {task.title}"


async def model_last(ctx: Context, task: Task) -> str:
    return f"{ctx.surface} {task.title}"


async def model_and_keyword_context(task: Task, *, ctx: Context) -> str:
    return f"{ctx.surface} {task.title}"


async def keyword_model(*, task: Task) -> str:
    return f"unknown {task.title}"


async def keyword_model_and_context(*, ctx: Context, task: Task) -> str:
    return f"{ctx.surface} {task.title}"


@pytest.mark.parametrize(
    "function",
    [model_first, model_last, model_and_keyword_context, keyword_model, keyword_model_and_context],
    ids=lambda function: function.__name__,
)
async def test_a_model_and_the_context_may_stand_in_any_order(function: Any) -> None:
    assert await call(function, {"title": "a"}) == "unknown a"


async def test_a_parameter_called_context_with_a_type_of_its_own_is_input() -> None:
    async def explain(context: str) -> str:
        return context

    assert await call(explain, {"context": "a"}) == "a"


async def test_a_function_without_parameters_takes_nothing() -> None:
    async def ping() -> str:
        return "pong"

    assert await call(ping, {}) == "pong"
    assert await code(ping, {"a": 1}) == "VALIDATION_ERROR"


async def test_a_function_of_the_context_alone_takes_nothing() -> None:
    async def where(ctx: Context) -> str:
        return ctx.surface

    assert await call(where, {}) == "unknown"


async def test_a_plain_function_of_one_argument_is_wrapped() -> None:
    def shout(text: str) -> str:
        return text.upper()

    assert await call(shout, {"text": "a"}) == "A"


async def test_an_untyped_function_of_one_argument_takes_the_whole_of_an_explicit_input() -> None:
    def run(input: Any) -> Any:
        return input["title"]

    assert await call(run, {"title": "a"}, input=s.object({"title": s.string()})) == "a"


async def test_a_partial_takes_what_is_left() -> None:
    async def add(a: int, b: int, ctx: Context) -> int:
        return a + b

    assert await call(functools.partial(add, 1), {"b": 2}) == 3
    assert await call(functools.partial(add, b=5), {"a": 1}) == 6


async def test_a_callable_object_is_wrapped() -> None:
    class Adder:
        """Adds."""

        def __init__(self, by: int) -> None:
            self.by = by

        async def __call__(self, a: int, ctx: Context) -> int:
            return a + self.by

    app = App("x")
    made = Action(Adder(5), name="add")
    assert made.description == "Adds."
    assert (await app.invoke(made, {"a": 1})).data == 6


async def test_bound_methods_class_methods_and_static_methods_are_wrapped() -> None:
    class Board:
        size = 3

        def by(self, a: int) -> int:
            return a * self.size

        @classmethod
        async def of(cls, a: int) -> int:
            return a + cls.size

        @staticmethod
        async def plain(a: int) -> int:
            return a

    assert await call(Board().by, {"a": 2}) == 6
    assert await call(Board.of, {"a": 2}) == 5
    assert await call(Board.plain, {"a": 2}) == 2


async def test_a_decorated_function_keeps_its_signature() -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return 2 * await function(*args, **kwargs)

        return wrapper

    @twice
    async def same(a: int) -> int:
        return a

    assert await call(same, {"a": 2}) == 4
    assert await code(same, {"a": "x"}) == "VALIDATION_ERROR"


async def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    async def inner(a: int) -> int:
        return a + 1

    def outer(a: int) -> Any:
        return inner(a)

    assert await call(outer, {"a": 1}) == 2


async def test_a_lambda_needs_a_name_and_a_description() -> None:
    with pytest.raises(DefinitionError):
        Action(lambda: 1)
    assert await call(lambda: 1, {}) == 1


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(s.object({"n": s.number().int().min(1)}), id="builder"),
        pytest.param(
            {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]},
            id="json schema",
        ),
    ],
)
async def test_an_explicit_input_may_be_a_builder_or_a_json_schema(spec: Any) -> None:
    async def run(input: Any) -> Any:
        return input["n"]

    assert await call(run, {"n": 1}, input=spec) == 1
    assert await code(run, {"n": 0}, input=spec) == "VALIDATION_ERROR"
    made = Action(run, name="it", description="It.", input=spec)
    assert made.input.json_schema["properties"]["n"]["type"] == "integer"


async def test_an_explicit_input_is_spread_over_several_parameters() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    shape = s.object({"a": s.number(), "b": s.number()})
    assert await call(add, {"a": 1, "b": 2}, input=shape) == 3


class Parcel:
    weight: int


def test_a_plain_class_is_refused_with_what_would_do_in_its_place() -> None:
    def taking(parcel: Parcel, to: str) -> str:
        """Send a parcel."""
        return to

    def giving() -> list[Parcel]:
        """Give the parcels."""
        return []

    for function in (taking, giving):
        with pytest.raises(DefinitionError) as refused:
            App("post").action(function)
        told = "Parcel'> has no declared shape. A dataclass, a TypedDict or a pydantic model has one."
        assert told in str(refused.value)
        assert "arbitrary_types_allowed" not in str(refused.value)


def test_an_explicit_model_for_several_parameters_is_refused() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(DefinitionError, match="input"):
        Action(add, name="it", description="It.", input=Task)


def test_an_explicit_input_that_does_not_name_the_parameters_is_refused() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(DefinitionError, match="input"):
        Action(add, name="it", description="It.", input=s.object({"x": s.number(), "y": s.number()}))


async def test_an_explicit_root_may_be_any_json() -> None:
    async def same(value: Any) -> Any:
        return value

    assert await call(same, None, input=s.literal(None)) is None
    assert await call(same, [1], input=list[int]) == [1]
    assert await call(same, "x", input=str) == "x"
    assert await code(same, {}, input=s.literal(None)) == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        (s.object({"n": s.number()}), {"n": 1}, {"n": "x"}),
        ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
        (Task, Task(title="a"), {"title": 1}),
        (int, 1, "x"),
    ],
    ids=["builder", "json schema", "model", "type"],
)
async def test_an_explicit_output_is_checked(spec: Any, good: Any, bad: Any) -> None:
    async def give() -> Any:
        return good

    async def spoil() -> Any:
        return bad

    expected = good.model_dump() if isinstance(good, Task) else good
    assert await call(give, {}, output=spec) == expected
    assert await code(spoil, {}, output=spec) == "OUTPUT_VALIDATION_ERROR"


async def test_the_return_type_is_the_output() -> None:
    async def make() -> Task:
        return Task(title="a")

    async def lie() -> int:
        return "x"  # type: ignore[return-value]

    assert await call(make, {}) == {"title": "a", "done": False}
    assert await code(lie, {}) == "OUTPUT_VALIDATION_ERROR"
    schema = Action(make, name="it", description="It.").output
    assert schema is not None
    assert schema.output_json_schema["properties"]["title"]["type"] == "string"


async def test_generators_give_the_list_of_what_they_yield() -> None:
    async def up(n: int) -> AsyncIterator[int]:
        for each in range(n):
            yield each

    def down(n: int) -> Iterator[int]:
        yield from reversed(range(n))

    assert await call(up, {"n": 3}) == [0, 1, 2]
    assert await call(down, {"n": 3}) == [2, 1, 0]


async def test_each_yielded_item_is_checked() -> None:
    async def up() -> AsyncIterator[int]:
        yield 1
        yield "two"  # type: ignore[misc]

    assert await code(up, {}) == "OUTPUT_VALIDATION_ERROR"


async def test_the_output_schema_of_a_generator_is_a_list() -> None:
    async def up() -> AsyncIterator[int]:
        yield 1

    output = Action(up, name="it", description="It.").output
    assert output is not None
    assert output.output_json_schema["type"] == "array"
    assert output.output_json_schema["items"]["type"] == "integer"


async def test_descriptions_of_parameters_reach_the_schema() -> None:
    async def create(
        title: Annotated[str, Field(description="What to do")],
        owner: Annotated[str, "Who does it"] = "me",
        notes: str = "",
    ) -> str:
        """Create a task.

        Args:
            notes: More words.
        """
        return title

    fields = Action(create).input.json_schema["properties"]
    assert fields["title"]["description"] == "What to do"
    assert fields["owner"]["description"] == "Who does it"
    assert fields["notes"]["description"] == "More words."


async def test_a_default_that_can_be_changed_is_new_for_each_call() -> None:
    class Box(BaseModel):
        items: list[int] = []

    async def keep(
        items: list[int] = [],  # noqa: B006
        box: Box = Box(),  # noqa: B008
        words: dict[str, int] = {"a": 1},  # noqa: B006
        size: int = 1,
    ) -> list[int]:
        """Keep them."""
        for each in (items, box.items):
            each.append(size)
        words["a"] += 1
        return [*items, *box.items, words["a"]]

    app = App("x", actions=[Action(keep)])
    assert [(await app.invoke("keep")).data for _ in range(3)] == [[1, 1, 2]] * 3
    assert (await app.invoke("keep", {"items": [5], "size": 2})).data == [5, 2, 2, 2]


T = TypeVar("T")


@dataclass
class Crate(Generic[T]):
    item: T


@attrs.define
class Sack(Generic[T]):
    item: T


class Jar(msgspec.Struct, Generic[T]):
    item: T


class Tin(typing.TypedDict, Generic[T]):
    item: T
    spare: typing.NotRequired[list["Tin[T]"]]


@dataclass
class Shelf(Generic[T]):
    item: T
    tins: list[Tin[T]]


@pytest.mark.parametrize("model", [Crate, Sack, Jar, Tin])
async def test_one_parameter_that_is_a_generic_model_is_the_input(model: Any) -> None:
    def take(it: Any) -> Any:
        return it["item"] if isinstance(it, dict) else it.item

    take.__annotations__ = {"it": model[int]}
    assert await call(take, {"item": 3}, preflight="strict") == 3
    assert await code(take, {"item": "x"}) == "VALIDATION_ERROR"


async def test_a_generic_model_inside_another_takes_its_types() -> None:
    def count(it: Shelf[int]) -> int:
        return it.item + it.tins[0]["spare"][0]["item"]

    tin = {"item": 1, "spare": [{"item": 2}]}
    assert await call(count, {"item": 3, "tins": [tin]}) == 5
    assert (
        await code(count, {"item": 3, "tins": [{"item": 1, "spare": [{"item": "x"}]}]}) == "VALIDATION_ERROR"
    )


async def test_types_that_stand_in_a_function_may_be_named_in_text() -> None:
    @dataclass
    class Order:
        dish: str

    def place(order: "Order") -> "Order":
        return order

    def serve_up(count: int) -> "Iterator[Order]":
        yield from [Order("soup")] * count

    app = App("x")
    app.add({"place": place, "serve_up": serve_up}, description="Serve people.")
    assert (await app.invoke("place", {"dish": "soup"})).data == {"dish": "soup"}
    served = app.get("serve_up")
    assert served is not None
    assert served.output is not None
    assert served.output.json_schema["items"]["required"] == ["dish"]


def test_a_plain_function_that_is_declared_as_a_stream_is_told_how_to_be_one() -> None:
    async def count() -> AsyncIterator[int]:
        yield 1

    @functools.wraps(count)
    def timed() -> Any:
        return count()

    def listed() -> Iterator[int]:
        return iter([1])

    for function in (timed, listed):
        with pytest.raises(DefinitionError, match="A decorator around a generator has to be one"):
            App("x").add(function, name="it", description="It.")
