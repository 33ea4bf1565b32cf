"""OpenAPI documents as tools, against real servers: our own app, and one that echoes what it was sent."""

from __future__ import annotations

import asyncio
import base64
import json
import runpy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead import App, Failure, Kind
from fairlead.store import open_store
from fairlead.store.secrets import Secrets
from fairlead.tools.openapi import OpenApi, add_openapi, openapi_tools
from servers import until

WORKSHOP = Path(__file__).parents[1] / "surfaces" / "mcp" / "workshop.py"


@contextmanager
def serving(asgi: Any) -> Iterator[str]:
    """A real server for an ASGI app, and where it is."""
    server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server does not start")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the request, byte by byte; some paths answer otherwise."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
    told = {
        "method": scope["method"],
        "path": scope["raw_path"].decode(),
        "query": scope["query_string"].decode(),
        "headers": dict(headers),
        "body": body.decode("utf-8", errors="replace"),
    }
    status, kind, out = 200, b"application/json", json.dumps(told).encode()
    more: list[tuple[bytes, bytes]] = []
    match scope["path"].split("/")[1:]:
        case ["status", number]:
            status, out = int(number), json.dumps({"detail": "the words of the API"}).encode()
            more = [(b"retry-after", b"7")]
        case ["said", word]:
            status, out = 403, json.dumps({"detail": f"{word} is refused"}).encode()
        case ["text"]:
            kind, out = b"text/plain; charset=utf-8", "é".encode()
        case ["bytes"]:
            kind, out = b"image/png", b"\x89PNG"
        case ["nothing"]:
            status, out = 204, b""
        case ["broken"]:
            out = b"{"
        case ["nan"]:
            out = b'{"a": NaN}'
        case ["deep"]:
            out = b"[" * 100_000 + b"]" * 100_000
        case ["cut"]:
            out = rb'{"a": "\\ud83d \ud83d\ude00 \ud83d"}'
        case ["packed"]:
            more = [(b"content-encoding", b"gzip")]
        case ["large"]:
            out = b'"' + b"x" * (17 * 1024 * 1024) + b'"'
        case ["away"]:
            status, more = 302, [(b"location", b"http://elsewhere.test/echo")]
        case ["near"]:
            status, more = 307, [(b"location", b"/echo?moved=1")]
        case ["made"]:
            status, more = 303, [(b"location", b"/echo?made=1")]
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]})
    await send({"type": "http.response.body", "body": out})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(echo) as address:
        yield address


def document(
    path: str = "/echo", method: str = "get", version: str = "3.1.0", **operation: Any
) -> dict[str, Any]:
    components = operation.pop("components", {})
    spec = {"operationId": "call", "responses": {"200": {"description": "Fine."}}, **operation}
    return {
        "openapi": version,
        "info": {"title": "t", "version": "1"},
        "paths": {path: {method: spec}},
        "components": components,
    }


async def call(url: str, given: dict[str, Any], input: dict[str, Any], **options: Any) -> Any:
    """Call the one operation of a document."""
    app = App("caller", actions=openapi_tools(given, base_url=url, **options))
    return (await app.invoke("call", input, confirm=True)).unwrap()


def parameter(name: str, place: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema or {}, **more}


# How parameters are written, by the table of the specification.

COLOURS = ["blue", "black"]
RGB = {"R": 100, "G": 200}
WRITTEN = [
    ("path", "simple", False, "x", "/p/x"),
    ("path", "simple", False, COLOURS, "/p/blue,black"),
    ("path", "simple", True, RGB, "/p/R=100,G=200"),
    ("path", "simple", False, RGB, "/p/R,100,G,200"),
    ("path", "label", False, COLOURS, "/p/.blue,black"),
    ("path", "label", True, COLOURS, "/p/.blue.black"),
    ("path", "label", True, RGB, "/p/.R=100.G=200"),
    ("path", "matrix", False, COLOURS, "/p/;c=blue,black"),
    ("path", "matrix", True, COLOURS, "/p/;c=blue;c=black"),
    ("path", "matrix", True, RGB, "/p/;R=100;G=200"),
    ("query", "form", True, COLOURS, "c=blue&c=black"),
    ("query", "form", False, COLOURS, "c=blue,black"),
    ("query", "form", True, RGB, "R=100&G=200"),
    ("query", "form", False, RGB, "c=R,100,G,200"),
    ("query", "spaceDelimited", False, COLOURS, "c=blue%20black"),
    ("query", "pipeDelimited", False, COLOURS, "c=blue%7Cblack"),
    ("query", "deepObject", True, RGB, "c%5BR%5D=100&c%5BG%5D=200"),
    ("query", "form", True, True, "c=true"),
    ("header", "simple", False, COLOURS, "blue,black"),
    ("header", "simple", True, RGB, "R=100,G=200"),
    ("cookie", "form", False, "a b", "c=a%20b"),
]


@pytest.mark.parametrize(("place", "style", "explode", "value", "expected"), WRITTEN)
async def test_parameters_are_written_in_the_documents_style(
    url: str, place: str, style: str, explode: bool, value: Any, expected: str
) -> None:
    path = "/p/{c}" if place == "path" else "/echo"
    given = document(path, parameters=[parameter("c", place, style=style, explode=explode)])
    told = await call(url, given, {"c": value})
    headers = told["headers"]
    seen = {
        "path": told["path"],
        "query": told["query"],
        "header": headers.get("c"),
        "cookie": headers.get("cookie"),
    }
    assert seen[place] == expected


async def test_a_parameter_with_a_media_type_is_json(url: str) -> None:
    given = document(
        parameters=[{"name": "f", "in": "query", "content": {"application/json": {"schema": {}}}}]
    )
    assert parse_qsl((await call(url, given, {"f": {"a": [1]}}))["query"]) == [("f", '{"a":[1]}')]


HOSTILE = ["../admin", "a/b", "a?x=1", "a#b", "%2e%2e", "é☃", "a b", ";x=1", "//evil.test", "\\..\\x"]


@pytest.mark.parametrize("value", HOSTILE)
async def test_no_value_leads_to_another_path(url: str, value: str) -> None:
    from urllib.parse import unquote

    told = await call(url, document("/users/{id}/x", parameters=[parameter("id", "path")]), {"id": value})
    assert told["path"].count("/") == 3
    assert unquote(told["path"]) == f"/users/{value}/x"
    assert told["query"] == ""


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_what_would_name_another_path_is_refused(url: str, value: str) -> None:
    with pytest.raises(Failure) as raised:
        await call(url, document("/users/{id}", parameters=[parameter("id", "path")]), {"id": value})
    assert (raised.value.kind, raised.value.field) == (Kind.invalid_input, "id")


@given(value=st.text(st.characters(codec="utf-8"), min_size=1))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_in_a_query_arrives_as_it_was(url: str, value: str) -> None:
    told = asyncio.run(call(url, document(parameters=[parameter("q", "query")]), {"q": value}))
    assert parse_qsl(told["query"], keep_blank_values=True) == [("q", value)]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", "a\0", "0\x0c", " a", "a ", "\x7f"])
async def test_a_header_takes_one_line_of_ascii(url: str, value: str) -> None:
    with pytest.raises(Failure) as raised:
        await call(url, document(parameters=[parameter("X-A", "header")]), {"X-A": value})
    assert raised.value.kind is Kind.invalid_input


# One input object.


def body(schema: Any, media: str = "application/json", required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {media: {"schema": schema}}}


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


async def test_members_of_a_body_stand_beside_the_parameters(url: str) -> None:
    given = document("/p/{id}", "post", parameters=[parameter("id", "path")], requestBody=body(PERSON))
    (action,) = openapi_tools(given, base_url=url)
    assert action.input.json_schema["required"] == ["id", "name"]
    told = await call(url, given, {"id": 7, "name": "Ann", "age": "30"})
    assert json.loads(told["body"]) == {"name": "Ann", "age": 30}
    assert told["headers"]["content-type"] == "application/json"
    with pytest.raises(Failure) as raised:
        await call(url, given, {"id": 7, "name": "Ann", "colour": "red"})
    assert raised.value.kind is Kind.invalid_input


async def test_a_body_with_a_name_that_is_taken_is_one_member(url: str) -> None:
    given = document("/p/{name}", "post", parameters=[parameter("name", "path")], requestBody=body(PERSON))
    told = await call(url, given, {"name": "in the path", "body": {"name": "Ann"}})
    assert (told["path"], json.loads(told["body"])) == ("/p/in%20the%20path", {"name": "Ann"})


async def test_parameters_of_one_name_get_their_place_in_front(url: str) -> None:
    both = [parameter("id", "query"), parameter("id", "path")]
    told = await call(url, document("/p/{id}", parameters=both), {"id": 1, "query_id": 2})
    assert (told["path"], told["query"]) == ("/p/1", "id=2")


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"oneOf": [PERSON]}, {}])
async def test_a_body_that_is_no_plain_object_is_one_member(url: str, schema: Any) -> None:
    value: Any = [1, 2] if schema.get("type") == "array" else {"name": "Ann"}
    told = await call(url, document(method="post", requestBody=body(schema)), {"body": value})
    assert json.loads(told["body"]) == value


async def test_a_body_that_need_not_be_is_left_out(url: str) -> None:
    given = document(method="post", requestBody=body({**PERSON, "required": []}, required=False))
    assert (await call(url, given, {}))["body"] == ""
    given = document(method="post", requestBody=body({**PERSON, "required": []}))
    assert (await call(url, given, {}))["body"] == "{}"


@pytest.mark.parametrize(
    ("media", "schema", "input", "sent"),
    [
        ("application/x-www-form-urlencoded", PERSON, {"name": "A&B", "age": 3}, "name=A%26B&age=3"),
        ("text/plain", {"type": "string"}, {"body": "words"}, "words"),
        ("application/octet-stream", {}, {"body": base64.b64encode(b"raw").decode()}, "raw"),
        ("application/merge-patch+json", PERSON, {"name": "A"}, '{"name":"A"}'),
    ],
)
async def test_bodies_of_other_media_types(url: str, media: str, schema: Any, input: Any, sent: str) -> None:
    told = await call(url, document(method="post", requestBody=body(schema, media)), input)
    assert (told["body"], told["headers"]["content-type"]) == (sent, media)


def test_an_operation_that_cannot_be_is_left_out_and_said_to_be() -> None:
    api = OpenApi(
        document(method="post", requestBody=body({}, "multipart/form-data")), base_url="http://x.test"
    )
    assert api.actions == []
    assert "multipart/form-data" in api.left_out["call"]


# Schemas.


async def test_a_schema_that_refers_to_itself_is_checked_to_its_depth(url: str) -> None:
    tree = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#/components/schemas/T"}}},
    }
    given = document(
        method="post",
        requestBody=body({"$ref": "#/components/schemas/T"}),
        components={"schemas": {"T": {**tree, "additionalProperties": False}}},
    )
    assert json.loads((await call(url, given, {"kids": [{"kids": []}]}))["body"]) == {"kids": [{"kids": []}]}
    with pytest.raises(Failure) as raised:
        await call(url, given, {"kids": [{"kids": [{"twigs": 1}]}]})
    assert raised.value.kind is Kind.invalid_input


async def test_the_words_of_3_0_are_understood(url: str) -> None:
    schema = {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "nullable": True}
    given = document(version="3.0.3", parameters=[parameter("n", "query", schema)])
    assert (await call(url, given, {"n": 2}))["query"] == "n=2"
    assert (await call(url, given, {"n": None}))["query"] == "n="
    with pytest.raises(Failure):
        await call(url, given, {"n": 1})


def test_read_only_members_are_not_asked_for() -> None:
    schema = {"type": "object", "required": ["id", "a"], "properties": {"id": {"readOnly": True}, "a": {}}}
    (action,) = openapi_tools(document(method="post", requestBody=body(schema)), base_url="http://x.test")
    assert action.input.json_schema["required"] == ["a"]


@pytest.mark.parametrize(
    "reference", ["other.json#/x", "http://x.test/y", "#/components/schemas/None", "#/a/b"]
)
def test_a_reference_out_of_the_document_leaves_its_operation_out(reference: str) -> None:
    broken = document(method="post", requestBody=body({"$ref": reference}))
    api = OpenApi(broken, base_url="http://x.test")
    assert list(api.left_out) == ["call"]


def test_a_reference_that_leads_back_to_itself_leaves_its_operation_out() -> None:
    loop = {"schemas": {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}}
    broken = document(method="post", requestBody=body({"$ref": "#/components/schemas/A"}), components=loop)
    assert list(OpenApi(broken, base_url="http://x.test").left_out) == ["call"]


# What comes back.


async def test_answers_are_json_text_or_bytes(url: str) -> None:
    assert await call(url, document("/text"), {}) == "é"
    assert await call(url, document("/nothing"), {}) is None
    app = App("caller", actions=openapi_tools(document("/bytes"), base_url=url))
    told = (await app.invoke("call", {})).to_dict()
    assert told["artifacts"][0]["mimeType"] == "image/png"
    assert told["data"]["artifact"] == told["artifacts"][0]["id"]


STATUSES = {
    400: Kind.invalid_input,
    401: Kind.misconfigured,
    403: Kind.forbidden,
    404: Kind.not_found,
    405: Kind.unsupported,
    409: Kind.conflict,
    413: Kind.too_large,
    418: Kind.invalid_input,
    422: Kind.invalid_input,
    429: Kind.rate_limited,
    500: Kind.upstream,
    502: Kind.upstream,
    503: Kind.unavailable,
    504: Kind.timeout,
}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
async def test_a_status_becomes_a_kind_with_the_words_of_the_api(url: str, status: int, kind: Kind) -> None:
    with pytest.raises(Failure) as raised:
        await call(url, document(f"/status/{status}"), {})
    assert raised.value.kind is kind
    assert "the words of the API" in raised.value.message
    assert raised.value.retry_after == 7
    assert raised.value.details == {"status": status}


@pytest.mark.parametrize("path", ["/broken", "/nan", "/deep", "/packed"])
async def test_an_answer_that_is_not_what_it_says_is_the_apis_fault(url: str, path: str) -> None:
    with pytest.raises(Failure) as raised:
        await call(url, document(path), {})
    assert raised.value.kind is Kind.upstream


async def test_an_answer_with_half_a_character_is_read(url: str) -> None:
    assert await call(url, document("/cut"), {}) == {"a": "\\ud83d \U0001f600 \ufffd"}


async def test_an_answer_without_end_is_cut_off(url: str) -> None:
    with pytest.raises(Failure) as raised:
        await call(url, document("/large"), {})
    assert raised.value.kind is Kind.too_large


async def test_outputs_are_checked_on_request_only(url: str) -> None:
    wrong = {"200": {"description": "", "content": {"application/json": {"schema": {"type": "array"}}}}}
    assert (await call(url, document(responses=wrong), {}))["method"] == "GET"
    with pytest.raises(Failure) as raised:
        await call(url, document(responses=wrong), {}, check_output=True)
    assert raised.value.kind is Kind.invalid_output


async def test_a_password_in_the_address_is_not_told_when_nobody_is_there() -> None:
    with pytest.raises(Failure) as raised:
        await call("http://me:hunter2@127.0.0.1:9", document(), {})
    assert "hunter2" not in str(raised.value)


async def test_a_key_that_the_api_repeats_is_not_told(url: str) -> None:
    key = "k-9f8e7d6c5b4a"
    with pytest.raises(Failure) as raised:
        await call(url, document(f"/said/{key}"), {}, headers={"X-Api-Key": key})
    assert raised.value.message.endswith("*** is refused")


async def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Failure) as raised:
        await call("http://127.0.0.1:9", document(), {})
    assert raised.value.kind is Kind.unavailable


# The fence, and who may do what.


async def test_a_redirect_is_followed_at_home_only(url: str) -> None:
    assert (await call(url, document("/near"), {}))["query"] == "moved=1"
    spelled_otherwise = url.replace("127.0.0.1", "LOCALHOST")
    assert (await call(spelled_otherwise, document("/near"), {}))["query"] == "moved=1"
    for each in (document("/away"), document("/near", "post")):
        with pytest.raises(Failure) as raised:
            await call(url, each, {})
        assert raised.value.kind is Kind.upstream


async def test_what_a_write_has_made_is_read_where_the_api_says(url: str) -> None:
    body = {"content": {"application/json": {"schema": {"type": "array"}}}}
    told = await call(url, document("/made", "post", requestBody=body), {"body": [1]})
    assert (told["method"], told["query"], told["body"]) == ("GET", "made=1", "")
    assert "content-type" not in told["headers"]


async def test_an_idempotency_key_that_the_input_gives_stands_alone(url: str) -> None:
    given = document(method="post", parameters=[parameter("idempotency-key", "header")])
    app = App("caller", actions=openapi_tools(given, base_url=url))
    told = await app.invoke("call", {"idempotency-key": "mine"}, idempotency_key="ours")
    assert told.unwrap()["headers"]["idempotency-key"] == "mine"


async def test_credentials_are_secrets_that_no_input_can_change(url: str) -> None:
    asked = [
        parameter("Authorization", "header"),
        parameter("X-Key", "header"),
        parameter("X-Other", "header"),
    ]
    options: Any = {"headers": {"X-Key": "secret:key"}, "secrets": lambda name: f"value of {name}"}
    (action,) = openapi_tools(document(parameters=asked), base_url=url, **options)
    assert list(action.input.json_schema["properties"]) == ["X-Other"]
    told = await call(url, document(parameters=asked), {"X-Other": "o"}, **options)
    assert (told["headers"]["x-key"], told["headers"]["x-other"]) == ("value of key", "o")


@pytest.mark.parametrize("spelled", ["Cookie", "cookie"])
async def test_a_cookie_that_was_given_stands_alone(url: str, spelled: str) -> None:
    given = document(parameters=[parameter("session", "cookie"), parameter("q", "query")])
    (action,) = openapi_tools(given, base_url=url, headers={spelled: "session=mine"})
    assert list(action.input.json_schema["properties"]) == ["q"]
    told = await call(url, given, {"q": "1"}, headers={spelled: "session=mine", "accept": "text/x"})
    assert (told["headers"]["cookie"], told["headers"]["accept"]) == ("session=mine", "text/x")


async def test_an_app_gives_its_secrets_to_its_apis(url: str, tmp_path: Path) -> None:
    store = open_store(url=f"sqlite:///{tmp_path}/app.db")
    await Secrets(store).set("key", "hunter2")
    app = App("keeper", store=store)
    add_openapi(app, document(), base_url=url, headers={"Authorization": "Bearer secret:key"})
    told = (await app.invoke("call", {})).unwrap()
    assert told["headers"]["authorization"] == "Bearer hunter2"
    store.close()


def test_a_path_with_a_part_that_is_no_parameter_leaves_its_operation_out() -> None:
    api = OpenApi(document("/users/{id}"), base_url="http://x.test")
    assert "id" in api.left_out["call"]


def test_methods_decide_what_an_action_may_do() -> None:
    paths: Any = {"/x": {method: {"responses": {}} for method in ("get", "post", "put", "delete")}}
    actions = openapi_tools({"openapi": "3.1.0", "paths": paths}, base_url="http://x.test")
    effects = {each.name: (each.side_effects, each.requires_confirmation) for each in actions}
    assert effects == {
        "get_x": ("read", False),
        "put_x": ("write", False),
        "post_x": ("write", False),
        "delete_x": ("destructive", True),
    }


def test_operations_are_chosen_by_their_names_or_paths() -> None:
    paths: Any = {
        "/a": {"get": {"operationId": "listA"}, "post": {}},
        "/b": {"get": {"operationId": "listA"}},
    }
    spec = {"openapi": "3.1.0", "paths": paths}

    def names(*include: str) -> list[str]:
        return [each.name for each in openapi_tools(spec, base_url="http://x.test", include=include)]

    assert names("*") == ["list_a", "post_a", "list_a_get_b"]
    assert names("POST /a") == ["post_a"]
    assert names("list*") == ["list_a", "list_a_get_b"]


async def test_an_idempotency_key_is_passed_on(url: str) -> None:
    app = App("caller", actions=openapi_tools(document(method="post"), base_url=url))
    told = (await app.invoke("call", {}, idempotency_key="k1")).unwrap()
    assert told["headers"]["idempotency-key"] == "k1"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"swagger": "2.0"}, {}),
        ({"openapi": "3.1.0", "paths": {}}, {}),
        ({"openapi": "3.1.0", "paths": []}, {"base_url": "http://x.test"}),
        ({"openapi": "3.1.0", "paths": {}}, {"base_url": "ftp://x.test"}),
        ({"openapi": "3.1.0", "paths": {}}, {"base_url": "http://x.test/?a=1"}),
        ("/no/such/file.json", {}),
    ],
)
def test_what_is_no_document_is_refused_with_a_reason(given: Any, options: Any) -> None:
    with pytest.raises(Failure) as raised:
        OpenApi(given, **options)
    assert raised.value.kind is Kind.misconfigured


# Our own app.


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    app = runpy.run_path(str(WORKSHOP))["app"]
    with serving(app.http()) as address:
        yield address


async def test_our_own_apps_document_is_fetched_and_every_action_called(ours: str) -> None:
    api = await asyncio.to_thread(lambda: OpenApi(f"{ours}/openapi.json", include=["POST *invoke", "GET *"]))
    assert api.left_out == {}
    app = App("caller", actions=api.actions)
    by_path = {each.metadata["openapi"]["path"]: each.name for each in api.actions}

    async def invoked(name: str, input: Any) -> Any:
        takes = app.catalogue.find(by_path[f"/fairlead/actions/{name}/invoke"])
        assert takes is not None
        wrapped = {"input": input} if "input" in takes.input.json_schema["properties"] else input
        return (await app.invoke(takes, wrapped)).unwrap()["data"]

    assert await invoked("add", {"a": 40}) == {"total": 42}
    assert await invoked("greet", {"name": "Ann"}) == "Hello, Ann."
    assert await invoked("count", {"to": 3}) == [0, 1, 2]
    assert await invoked("nothing", {}) is None
    assert await invoked("whatever", {"value": {"deep": [1, None, "é☃"]}}) == {"deep": [1, None, "é☃"]}
    with pytest.raises(Failure):
        await invoked("fail", {"how": "expected"})
    listed = (await app.invoke(by_path["/fairlead/actions"], {})).unwrap()
    assert listed["ok"] is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_given_is_answered_or_refused_and_nothing_breaks(ours: str, data: st.DataObject) -> None:
    actions = _ours(ours)
    action = data.draw(st.sampled_from(actions))
    members = action.input.json_schema["properties"]
    input = data.draw(
        st.fixed_dictionaries({}, optional={name: JSON | _fitting(members[name]) for name in members})
    )
    result = asyncio.run(App("caller", actions=actions).invoke(action, input))
    allowed = {
        Kind.invalid_input,
        Kind.not_found,
        Kind.conflict,
        Kind.malformed,
        Kind.timeout,
        Kind.unsupported,
    }
    assert result.failure is None or result.failure.kind in allowed, result.failure


@cache
def _ours(address: str) -> list[Any]:
    wanted = [
        "describeAction",
        *(f"POST *{name}/invoke" for name in ("add", "greet", "everything", "whatever")),
    ]
    return openapi_tools(f"{address}/openapi.json", include=wanted)


def _fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values that a caller might mean."""
    if "properties" in schema:
        return st.fixed_dictionaries(
            {
                name: _fitting(each)
                for name, each in schema["properties"].items()
                if name in schema.get("required", ())
            }
        )
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        "string": st.text(st.characters(codec="ascii"), min_size=1, max_size=10),
        "integer": st.integers(0, 9),
        "number": st.floats(1, 9),
        "boolean": st.booleans(),
    }
    return kinds.get(schema.get("type") if isinstance(schema.get("type"), str) else None, JSON)
