"""Documents that are not quite OpenAPI: what can be used is used, and the rest is said."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead import Failure
from fairlead.tools.openapi import OpenApi

THING = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer", "readOnly": True}, "in": {"$ref": "#/components/schemas/Thing"}},
}
ANSWER = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.1",
    "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "things.test"}}}],
    "components": {"schemas": {"Thing": THING}},
    "paths": {
        "/things/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "look", "responses": {"200": ANSWER}},
            "put": {"operationId": "change", "requestBody": {**ANSWER, "required": True}, "responses": {}},
        }
    },
}
ODD: tuple[Any, ...] = (
    None,
    0,
    True,
    "",
    "https://[",
    [],
    [["x"]],
    [None],
    {},
    {"$ref": 3},
    {"a": 1},
    10**30,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


@pytest.mark.parametrize("place", list(places(DOCUMENT)), ids=lambda place: ".".join(map(str, place)))
def test_an_odd_part_of_a_document_leaves_operations_out_or_is_told(place: tuple[Any, ...]) -> None:
    for odd in ODD:
        given = copy.deepcopy(DOCUMENT)
        holder = given
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = odd
        try:
            api = OpenApi(given, check_output=True)
        except Failure:
            continue
        assert len(api.actions) + len(api.left_out) <= 2
