"""What tools from elsewhere have in common: names, references to secrets, variables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Action, Failure, Kind
from fairlead.actions.definition import RESERVED_NAMES
from fairlead.tools.remote import described, expanded, legal_name, masked, resolved, unique_names


async def nothing() -> None:
    """Do nothing."""


@settings(deadline=None)
@given(st.text(max_size=200), st.sampled_from(["", "srv_", "Ünï-"]))
def test_any_text_becomes_a_name_that_an_action_can_have(text: str, prefix: str) -> None:
    name = legal_name(text, prefix)
    assert len(name) <= 64
    assert Action(nothing, name=name).name == name


@settings(deadline=None)
@given(st.lists(st.text(alphabet="aB_- .é", max_size=80), max_size=30))
def test_names_differ_and_do_not_depend_on_chance(given_names: list[str]) -> None:
    names = unique_names(given_names)
    assert len(set(names.values())) == len(set(given_names))
    assert names == unique_names(given_names)
    assert all(len(name) <= 64 and re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names.values())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("getUser", "get_user"),
        ("get-user.name", "get_user_name"),
        ("HTTPStatus", "http_status"),
        ("2fa", "tool_2fa"),
        ("GET /users/{id}", "get_users_id"),
        ("tools", "tools_tool"),
        ("☃", "tool"),
    ],
)
def test_names_stay_near_to_what_they_were(text: str, name: str) -> None:
    assert legal_name(text) == name
    assert name not in RESERVED_NAMES


async def test_references_are_resolved_and_only_they_are_shown() -> None:
    values = {"A": "plain", "B": "secret:b", "C": "Bearer secret:c", "D": "${HOME}"}
    told, hidden = await resolved(values, lambda name: f"<{name}>", "it")
    assert told == {"A": "plain", "B": "<b>", "C": "Bearer <c>", "D": "${HOME}"}
    assert hidden == ["<b>", "<c>"]
    assert described(values) == {"A": "***", "B": "secret:b", "C": "Bearer secret:c", "D": "${HOME}"}


def test_variables_are_put_in_and_a_missing_one_is_named() -> None:
    assert expanded("${A}/${B:-b}/$C", {"A": "1"}) == "1/b/$C"
    with pytest.raises(Failure) as raised:
        expanded("${NONE}", {})
    assert raised.value.kind is Kind.misconfigured
    assert "NONE" in raised.value.message


def test_the_longest_secret_is_masked_first() -> None:
    assert masked("abcd abcdef ab", ["abcd", "abcdef", "ab"]) == "*** *** ab"
