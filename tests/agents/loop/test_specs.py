"""Tools as models are told of them: in words that every provider takes, whatever the action's own input is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from fairlead import App
from fairlead.actions import Action
from fairlead.agents import Agent
from fairlead.agents.models.script import ScriptModel, call


class Ship(BaseModel):
    kind: Literal["ship"]
    name: str


class Port(BaseModel):
    kind: Literal["port"]
    city: str


EITHER: dict[str, Any] = {
    "type": "object",
    "properties": {"filter[city]": {"type": "string"}, "X-Name": {"type": "string", "writeOnly": True}},
    "anyOf": [{"required": ["filter[city]"]}, {"required": ["X-Name"]}],
}
BOTH: dict[str, Any] = {
    "allOf": [
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"type": "object", "properties": {"day": {"type": "string"}}},
    ]
}
#: What every provider takes as a key at the root of a tool's schema, and what some refuse there.
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
COMPOSED = {"anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"}


@pytest.mark.parametrize(
    ("input", "arguments", "meant"),
    [
        (Ship | Port, {"input": {"kind": "port", "city": "Bergen"}}, Port(kind="port", city="Bergen")),
        (list[int], {"input": [1, 2]}, [1, 2]),
        (EITHER, {"filter_city_": "Bergen"}, {"filter[city]": "Bergen"}),
        (BOTH, {"city": "Bergen"}, {"city": "Bergen"}),
    ],
)
async def test_a_tool_is_told_as_every_provider_takes_it_and_called_as_it_is_meant(
    input: Any, arguments: dict[str, Any], meant: Any
) -> None:
    heard: list[Any] = []
    app = App("harbour")
    tool = Action(lambda given: heard.append(given), name="note", description="Note it.", input=input)
    model = ScriptModel([call("note", **arguments), "Done."])
    app.add(Agent("clerk", model=model, tools=[tool], loop_tools=False))
    (await app.invoke("clerk", {"prompt": "Go."})).unwrap()
    (spec,) = model.requests[0].tools
    assert spec.parameters["type"] == "object"
    assert not COMPOSED & set(spec.parameters)
    assert all(KEY.fullmatch(key) for key in spec.parameters["properties"])
    assert set(arguments) <= set(spec.parameters["properties"])
    assert heard == [meant]


async def test_a_secret_is_not_kept_under_the_name_that_a_model_knows_it_by(tmp_path: Path) -> None:
    app = App("harbour", store=f"sqlite:///{tmp_path}/harbour.db")
    tool = Action(lambda given: None, name="note", description="Note it.", input=EITHER)
    model = ScriptModel([call("note", X_Name="the Pequod"), "Done."])
    app.add(Agent("clerk", model=model, tools=[tool], loop_tools=False))
    (await app.invoke("clerk", {"prompt": "Go.", "conversation": "c1"})).unwrap()
    _, kept = await app.conversations.get("c1", "")
    assert kept[1].calls
    assert "Pequod" not in kept[1].calls[0].arguments
