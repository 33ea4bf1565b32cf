"""Attacks by content: bodies, schemas and members that are small to send and were meant to be dear to read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from attack.gateway_world import ROUTES, World, name_of, world
from fairlead import App
from fairlead.gateway.call import Route
from fairlead.schema import Invalid, schema_of
from fairlead.schema.foreign import foreign
from fairlead.testing.asgi import request

READING = [route for route in ROUTES if route.method in ("POST", "PUT", "PATCH") and not route.raw]
#: How long anything of this size may take; the attacks took minutes, or for ever.
BOUND = 5.0


def nested(depth: int, opening: bytes = b"[") -> bytes:
    return opening * depth + b"1" + (b"]" if opening == b"[" else b"}") * depth


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


def bombs(whole: dict[str, Any], largest: int) -> Iterator[bytes]:
    """A whole body with a bomb beside, and in place of, what it says."""
    start = json.dumps(whole).encode()[:-1] + (b"," if whole else b"")
    for depth in (129, 990, 20_000):
        yield start + b'"x":%b}' % nested(depth)
        yield start + b'"x":%b,"y":%b}' % (nested(depth, b'{"a":'), b"9" * 30)
    for name in whole:
        left = json.dumps({key: value for key, value in whole.items() if key != name}).encode()[:-1]
        yield left + b'%b"%b":%b}' % (b"" if left == b"{" else b",", name.encode(), nested(300))
    yield start + b'"x":%b}' % (b"9" * 5_000)
    yield start + b'"%b":1}' % (b"k" * (largest // 2))
    yield start + b",".join(b'"k%d":1' % number for number in range(largest // 20)) + b"}"


@pytest.mark.parametrize("route", READING, ids=name_of)
def test_no_body_takes_the_gateway_further_than_a_short_answer(
    here: World, route: Route, capfd: pytest.CaptureFixture[str]
) -> None:
    # Some say all they have to say in their address.
    reads = not here.say("ann", route.method, here.path(route), b"{").served
    for body in bombs(here.body(route), route.body):
        told = here.say("ann", route.method, here.path(route), body)
        assert told.status < 500, told
        assert len(told.body) < 5_000
        if reads and (body.count(b"[") > 128 or body.count(b"{") > 129):
            assert not told.served
    assert "Traceback" not in capfd.readouterr().err


def test_an_agent_elsewhere_cannot_say_what_nobody_can_read(here: World) -> None:
    path = f"/api/v1/runtime/registrations/far/deliveries/{here.ids['turn']}"
    lease = here.ids["lease"].encode()
    for end, rest in (
        ("say", b'"batch":"b","events":[{"type":"draft","draft":{"a":%b}}]'),
        ("reply", b'"status":"completed","data":%b'),
    ):
        for depth in (400, 990):
            body = b'{"leaseId":"%b",%b}' % (lease, rest % nested(depth))
            assert here.say("ann", "POST", f"{path}/{end}", body).status == 400


@pytest.fixture
def app() -> App:
    app = App("app")

    @app.action
    async def keep(thing: dict[str, Any]) -> int:
        """Keep something."""
        return len(thing)

    return app


@pytest.mark.parametrize("depth", [130, 990, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
async def test_deep_messages_are_no_messages_of_mcp(app: App, depth: int, opening: bytes) -> None:
    deep = nested(depth, opening)
    site = app.http()
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    for body in (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keep","arguments":{"thing":{"a":%b}}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":%b}}',
        b"%b",
    ):
        answer = await request(site, "POST", "/mcp", body % deep, headers)
        assert answer.status == 400
        assert json.loads(answer.body)["error"]["code"] == -32700


@pytest.mark.parametrize("depth", [300, 990, 100_000])
async def test_deep_payloads_get_an_envelope_from_the_runner(app: App, depth: int) -> None:
    for text in (b'{"action":"keep","input":{"thing":{"a":%b}}}', b'{"action":"keep","metadata":{"a":%b}}'):
        told = await app.json_runner().invoke(text % nested(depth))
        assert told["ok"] is (depth < 1_000 and b"thing" in text)  # what is any object may be a deep one
        assert len(json.dumps(told)) < 5_000


@pytest.mark.parametrize("depth", [300, 990, 100_000])
async def test_deep_arguments_of_a_model_get_an_envelope(app: App, depth: int) -> None:
    function = {"name": "keep", "arguments": f'{{"thing":{{"a":{nested(depth).decode()}}}}}'}
    told = await app.tools("openai").execute({"id": "c", "type": "function", "function": function})
    assert json.loads(told["content"])["ok"] is (depth < 1_000)
    assert len(told["content"]) < 5_000


def ladder(rungs: int, how: str) -> dict[str, Any]:
    """A document of which each part mentions the one before twice."""
    parts: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, rungs + 1):
        below = {"$ref": f"#/$defs/d{number - 1}"}
        parts[f"d{number}"] = {
            "every": {"allOf": [below, below]},
            "any": {"anyOf": [below, {"allOf": [below]}]},
            "not": {"not": {"not": {"oneOf": [below, below]}}},
            "if": {"if": below, "then": below, "else": below},
            "down": {"allOf": [{"properties": {"a": below}}, {"properties": {"a": below}}]},
            "anchor": {"$anchor": f"r{number}", "allOf": [below, {"$ref": f"#r{number - 1}"}]},
        }[how]
    parts["d0"]["$anchor"] = "r0"
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{rungs}"}}, "$defs": parts}


@pytest.mark.parametrize("how", ["every", "any", "not", "if", "down", "anchor"])
@pytest.mark.parametrize("value", ["text", 5, {"a": {"a": 1}}])
def test_a_schema_that_multiplies_itself_is_not_followed(how: str, value: Any) -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"a": deep}
    schema = foreign(ladder(40, how))
    began = time.process_time()
    for each in (value, deep):
        with suppress(Invalid):
            schema.parse({"x": each})
    assert time.process_time() - began < BOUND


def test_schemas_that_mention_themselves_or_a_part_often_still_check() -> None:
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "inner": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    }
    leaf = {"name": "x"}
    wide = {"name": "x", "inner": [{"name": "y", "inner": [leaf] * 50}] * 50}
    assert foreign(tree).parse(wide) == wide
    with pytest.raises(Invalid):
        foreign(tree).parse({"name": "x", "inner": [{}]})
    assert foreign(ladder(8, "every")).parse({"x": "text"}) == {"x": "text"}


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(?=a)(a+)+$", r"^(a+)+\1$", r"(x+x+)+y"])
def test_a_pattern_of_somebody_elses_costs_no_more_than_its_text(pattern: str) -> None:
    schema = foreign({"type": "string", "pattern": pattern})
    began = time.process_time()
    for text in ("a" * 40 + "!", "x" * 5_000):
        with pytest.raises(Invalid):
            schema.parse(text)
    assert time.process_time() - began < BOUND


def test_a_pattern_that_would_fill_the_memory_is_no_schema() -> None:
    with pytest.raises(TypeError):
        foreign({"type": "string", "pattern": "(((((a{1,60}){1,60}){1,60}){1,60}){1,60})"})


#: Whole numbers that are a multiple of this have the same hash in every Python of 64 bits.
SAME = 2**61 - 1


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (set[int], [SAME * n for n in range(40_000)]),
        (frozenset[int], [str(SAME * n) for n in range(40_000)]),
        (dict[int, int], {str(SAME * n): 1 for n in range(40_000)}),
        (dict[str, set[int]], {"a": [SAME * n for n in range(40_000)]}),
        (set[UUID], [str(UUID(int=SAME * n)) for n in range(40_000)]),
        (set[Decimal], [str(SAME * n) for n in range(40_000)]),
        (list[set[int]], [[SAME * n for n in range(40_000)]]),
    ],
    ids=["set", "texts", "keys", "inner", "uuids", "decimals", "lists"],
)
def test_members_that_share_a_hash_are_refused(hint: Any, value: Any) -> None:
    schema = schema_of(hint)
    began = time.process_time()
    with pytest.raises(Invalid):
        schema.parse(value)
    assert time.process_time() - began < BOUND


def test_members_that_are_the_same_or_merely_many_are_taken() -> None:
    assert schema_of(set[int]).parse([7] * 5_000) == {7}
    assert len(schema_of(set[int]).parse(list(range(20_000)))) == 20_000
    assert len(schema_of(dict[int, int]).parse({str(n): n for n in range(20_000)})) == 20_000
