"""Tools on demand: which are shown, how they are searched, and what a conversation has taken out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Action, App, Failure, Kind
from fairlead.tools.session import SESSION, Session
from fairlead.tools.toolbox import LOAD, SEARCH, Toolbox

THINGS = ["invoice", "customer", "shipment", "warehouse", "ticket", "calendar_event", "repository", "branch"]
DEEDS = {
    "create": "Make a new",
    "list": "List every",
    "delete": "Remove one",
    "get": "Read one",
    "update": "Change a",
}


def tool(name: str, description: str, **schema: Any) -> Action[..., Any]:
    async def run(input: Any) -> str:
        return name

    return Action(run, name=name, description=description, input={"type": "object", "properties": schema})


MANY = [
    tool(f"{deed}_{thing}", f"{words} {thing.replace('_', ' ')}.", id={"type": "string"})
    for thing in THINGS
    for deed, words in DEEDS.items()
] + [
    tool("send_email", "Send a message to somebody by mail.", recipient={"type": "string"}),
    tool("weather_forecast", "Tell how the weather will be in a city over the next days."),
    tool("resize_image", "Scale a picture to another width and height."),
]

BOX = Toolbox(MANY)


@pytest.fixture
def box() -> Toolbox:
    return Toolbox(MANY, always=["send_email"])


def names(actions: Any) -> list[str]:
    return [action.name for action in actions]


def test_few_tools_are_all_shown() -> None:
    box = Toolbox(MANY[:5])
    assert not box.needed
    assert names(box.offered(Session("s"))) == names(MANY[:5])


def test_many_tools_are_put_away_behind_two(box: Toolbox) -> None:
    assert box.needed
    assert names(box.offered(Session("s"))) == ["send_email", SEARCH, LOAD]


def test_few_tools_with_long_definitions_are_put_away_too() -> None:
    assert Toolbox([tool("long", "x " * 40_000)], budget=10_000).needed


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("make an invoice", "create_invoice"),
        ("creating new invoices", "create_invoice"),
        ("list branches", "list_branch"),
        ("every customer", "list_customer"),
        ("mail somebody", "send_email"),
        ("forecast", "weather_forecast"),
        ("how is the weather in Paris?", "weather_forecast"),
        ("scale picture", "resize_image"),
        ("resiz", "resize_image"),
        ("getTicket", "get_ticket"),
        ("recipient", "send_email"),
        ("delete_warehouse", "delete_warehouse"),
        ("UPDATE CALENDAR", "update_calendar_event"),
    ],
)
def test_a_search_finds_what_is_meant(box: Toolbox, query: str, first: str) -> None:
    assert names(box.search(query))[0] == first


def test_a_ranking_does_not_depend_on_the_order_of_the_tools(box: Toolbox) -> None:
    other = Toolbox(reversed(MANY))
    for query in ("customer", "new", "event branch", "list"):
        assert names(box.search(query, 20)) == names(other.search(query, 20))


@settings(deadline=None)
@given(st.text(max_size=50), st.integers(1, 50))
def test_any_query_is_answered(query: str, limit: int) -> None:
    found = BOX.search(query, limit)
    assert len(found) <= limit
    assert len(set(names(found))) == len(found)


# In a conversation.

Ask = Callable[..., Any]


@pytest.fixture
def session() -> Session:
    return Session("s")


@pytest.fixture
def ask(box: Toolbox, session: Session) -> Ask:
    app = App("box", actions=[*box.actions, *MANY])

    async def call(name: str, **input: Any) -> Any:
        SESSION.set(session)
        return (await app.invoke(name, input)).unwrap()

    return lambda name, **input: asyncio.run(call(name, **input))


def test_what_is_searched_and_loaded_is_offered_at_once(box: Toolbox, session: Session, ask: Ask) -> None:
    found = ask(SEARCH, query="weather", limit=1)["results"]
    assert found == [
        {
            "name": "weather_forecast",
            "description": "Tell how the weather will be in a city over the next days.",
            "loaded": False,
        }
    ]
    assert [each["name"] for each in ask(LOAD, names=["weather_forecast"])["loaded"]] == ["weather_forecast"]
    assert names(box.offered(session))[-1] == "weather_forecast"
    assert ask(SEARCH, query="weather", limit=1)["results"][0]["loaded"] is True
    assert names(box.offered(Session("other"))) == ["send_email", SEARCH, LOAD]


def test_the_offer_is_the_same_object_until_something_changes(box: Toolbox, session: Session) -> None:
    assert box.offered(session) is box.offered(session)
    box.load(session, ["get_ticket"])
    after = box.offered(session)
    assert after is box.offered(session)
    box.load(session, ["get_ticket"])
    assert box.offered(session) is after


def test_a_name_that_is_none_is_told_with_the_near_miss(ask: Ask, session: Session) -> None:
    with pytest.raises(Failure) as raised:
        ask(LOAD, names=["get_tickets"])
    assert raised.value.kind is Kind.not_found
    assert "'get_ticket'" in raised.value.message
    assert "toolbox" not in session.kept or session.kept["toolbox"] == []


def test_what_there_is_of_a_list_of_names_is_loaded(ask: Ask) -> None:
    assert [each["name"] for each in ask(LOAD, names=["get_ticket", "nonsense"])["loaded"]] == ["get_ticket"]


def test_a_list_sent_as_text_is_understood(ask: Ask) -> None:
    assert len(ask(LOAD, names='["get_ticket", "get_branch"]')["loaded"]) == 2


def test_the_oldest_go_back_when_too_many_are_out(session: Session) -> None:
    box = Toolbox(MANY, most_loaded=2)
    for name in ("get_ticket", "get_branch", "get_invoice"):
        box.load(session, [name])
    assert names(box.loaded(session)) == ["get_branch", "get_invoice"]


def test_nothing_found_says_what_to_try(ask: Ask) -> None:
    told = ask(SEARCH, query="zzzz")
    assert told["results"] == []
    assert "hint" in told


async def test_outside_a_conversation_nothing_can_be_loaded(box: Toolbox) -> None:
    result = await App("box", actions=box.actions).invoke(LOAD, {"names": ["get_ticket"]})
    assert result.failure is not None
    assert result.failure.kind is Kind.unavailable


@pytest.mark.parametrize("action", [SEARCH, LOAD])
async def test_unknown_keys_and_missing_ones_are_refused(box: Toolbox, action: str) -> None:
    app = App("box", actions=box.actions)
    for input in ({}, {"query": "x", "names": ["y"], "z": 1}):
        result = await app.invoke(action, input)
        assert result.failure is not None
        assert result.failure.kind is Kind.invalid_input


def test_tools_can_be_exchanged_while_a_conversation_goes_on(box: Toolbox, session: Session) -> None:
    box.load(session, ["get_ticket", "get_branch"])
    box.replace([each for each in MANY if each.name != "get_ticket"])
    assert names(box.loaded(session)) == ["get_branch"]
    assert "get_ticket" not in names(box.search("ticket", 20))
