"""Which requests are the same, where a default is made anew for each of them."""

import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any

import attrs
import msgspec
import pydantic.dataclasses
import pytest
from pydantic import BaseModel, Field, PrivateAttr

from fairlead import App, Kind
from fairlead.runtime import Result


def fresh() -> str:
    return uuid.uuid4().hex


class Modelled(BaseModel):
    dish: str
    id: str = Field(default_factory=fresh)
    tags: list[str] = Field(default_factory=list)
    table: int = 1
    _seen: str = PrivateAttr(default_factory=fresh)


@dataclass
class Plain:
    dish: str
    id: str = field(default_factory=fresh)
    tags: list[str] = field(default_factory=list)
    table: int = 1


@pydantic.dataclasses.dataclass
class Checked:
    dish: str
    id: str = field(default_factory=fresh)
    tags: list[str] = field(default_factory=list)
    table: int = 1


class Packed(msgspec.Struct):
    dish: str
    id: str = msgspec.field(default_factory=fresh)
    tags: list[str] = msgspec.field(default_factory=list)
    table: int = 1


@attrs.define
class Attributed:
    dish: str
    id: str = attrs.field(factory=fresh)
    tags: list[str] = attrs.field(factory=list)
    table: int = 1


def kitchen(record: Any) -> App:
    app = App("x")

    async def order(order: Any, others: Any = ()) -> str:
        """Order."""
        return fresh()

    order.__annotations__ = {"order": record, "others": list[record], "return": str}
    app.add(order, name="order", side_effects="write")
    app.add(order, name="burn", side_effects="destructive", requires_confirmation="token")
    return app


RECORDS = [Modelled, Plain, Checked, Packed, Attributed]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize(
    "again",
    [{}, {"tags": []}, {"table": 1}],
)
async def test_defaults_do_not_make_it_another_request(record: Any, again: dict[str, Any]) -> None:
    app = kitchen(record)
    for extra in ({}, again):
        sent = {"order": {"dish": "soup", **extra}, "others": [{"dish": "bread", **extra}]}
        result = await app.invoke("order", sent, idempotency_key="k")
        assert result.ok, result.to_dict()
    assert result.replayed


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("other", [{"id": "b"}, {"id": "a", "tags": ["x"]}, {"id": "a", "table": 2}, {}])
async def test_what_was_sent_in_place_of_a_default_counts(record: Any, other: dict[str, Any]) -> None:
    for within in (lambda each: {"order": each}, lambda each: {"order": {"dish": "x"}, "others": [each]}):
        app = kitchen(record)
        assert (await app.invoke("order", within({"dish": "soup", "id": "a"}), idempotency_key="k")).ok
        result = await app.invoke("order", within({"dish": "soup", **other}), idempotency_key="k")
        assert result.failure is not None
        assert result.failure.kind is Kind.conflict


@pytest.mark.parametrize("record", RECORDS)
async def test_a_call_with_a_default_made_anew_can_be_confirmed(record: Any) -> None:
    app, sent = kitchen(record), {"order": {"dish": "soup"}}
    asked = await app.invoke("burn", sent)
    assert asked.failure is not None
    token = asked.failure.details["confirmation"]["code"]
    assert (await app.invoke("burn", sent, confirm=token)).ok


async def test_an_id_sent_under_its_alias_counts() -> None:
    @dataclass
    class Inner:
        id: Annotated[str, Field(alias="ID")] = field(default_factory=fresh)

    class Outer(BaseModel):
        inner: Plain = Field(alias="Inner")
        own: Inner

    app = kitchen(Outer)

    async def order(inner: str, own: str) -> Result:
        sent = {"Inner": {"dish": "x", "id": inner}, "own": {"ID": own}}
        return await app.invoke("order", {"order": sent}, idempotency_key="k")

    assert (await order("a", "a")).ok
    assert not (await order("b", "a")).ok
    assert not (await order("a", "b")).ok
    assert (await order("a", "a")).replayed


async def test_an_id_sent_in_another_shape_counts() -> None:
    app = kitchen(Plain)

    async def order(id: str) -> Result:
        sent = {"order": {"dish": "x"}, "others": {"dish": "x", "id": id}}
        return await app.invoke("order", sent, idempotency_key="k")

    one, other = await order("a"), await order("b")
    assert not (one.ok and other.ok)


async def test_a_parameter_made_anew_is_the_same_request() -> None:
    app = App("x")

    @app.action(side_effects="write")
    async def order(dish: str, id: str = Field(default_factory=fresh), table: int = Field(default=1)) -> str:
        """Order."""
        return id

    first = await app.invoke("order", {"dish": "soup"}, idempotency_key="k")
    again = await app.invoke("order", {"dish": "soup", "table": 1}, idempotency_key="k")
    assert (again.data, again.replayed) == (first.data, True)
    assert not (await app.invoke("order", {"dish": "soup", "id": "a"}, idempotency_key="k")).ok


SLIPS: list[Any] = [
    {"bigDish": "soup"},
    {"arguments": {"big_dish": "soup"}},
    {"big_dish": "soup", "table": "2"},
    '{"big_dish": "soup"}',
]


@pytest.mark.parametrize("slip", SLIPS, ids=repr)
@pytest.mark.parametrize("style", ["parameters", "dataclass"])
async def test_a_request_with_a_slip_that_is_mended_is_the_same_when_it_is_repeated(
    slip: Any, style: str
) -> None:
    app = App("x")

    @dataclass
    class Order:
        big_dish: str
        table: int = 1
        id: str = field(default_factory=fresh)

    def order(big_dish: str, table: int = 1, id: str = Field(default_factory=fresh)) -> str:
        """Order."""
        return id

    def order_whole(order: Order) -> str:
        """Order."""
        return order.id

    function = order if style == "parameters" else order_whole
    app.add(function, name="order", side_effects="write")
    app.add(function, name="burn", side_effects="destructive", requires_confirmation="token")

    first = await app.invoke("order", slip, idempotency_key="k")
    again = await app.invoke("order", slip, idempotency_key="k")
    assert again.ok, again.to_dict()
    assert (again.data, again.replayed) == (first.data, True)

    asked = await app.invoke("burn", slip)
    assert asked.failure is not None
    token = asked.failure.details["confirmation"]["code"]
    assert (await app.invoke("burn", slip, confirm=token)).ok


async def test_an_id_sent_under_another_spelling_of_its_name_counts() -> None:
    app = App("x")

    @app.action(side_effects="write")
    async def order(dish: str, dish_id: str = Field(default_factory=fresh)) -> str:
        """Order."""
        return dish_id

    assert (await app.invoke("order", {"dish": "soup", "dishId": "a"}, idempotency_key="k")).ok
    assert not (await app.invoke("order", {"dish": "soup", "dishId": "b"}, idempotency_key="k")).ok
    assert (await app.invoke("order", {"dish": "soup", "dish_id": "a"}, idempotency_key="k")).replayed


async def test_users_with_ids_made_anew_are_different_callers() -> None:
    app, sent = kitchen(Plain), {"order": {"dish": "soup"}}
    for _ in range(2):
        result = await app.invoke("order", sent, user=Modelled(dish="x"), idempotency_key="k")
        assert result.ok
        assert not result.replayed
