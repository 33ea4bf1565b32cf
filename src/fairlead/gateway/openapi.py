"""`GET /api/v1/openapi.json`: the gateway as an OpenAPI 3.1 document, for programs that write clients or try it out.

It is made of the routes, of what `openapi_operations.py` says of each, and of the catalogue of failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Final

from fairlead._json import encode, loads
from fairlead.failures import Entry, catalogue
from fairlead.gateway import openapi_shapes, openapi_shapes_more
from fairlead.gateway.call import LONGEST_ID, Answer, Call, Route
from fairlead.gateway.openapi_operations import JSON, OPERATIONS, Operation
from fairlead.gateway.openapi_shapes import Schema, text

VERSION: Final = "3.1.0"
#: The published contract that the gateway follows.
CONTRACT: Final = "1.1.0"
PREFIX: Final = "/api/v1/"
#: What any operation may fail with, whoever calls it.
_ANY: Final = (400, 429, 500, 503, 504)
_PART: Final = re.compile(r"{(\w+)}")
_TAGS: Final = {
    "agents": "Agents, and asking one.",
    "tasks": "Work that an agent does in its own time.",
    "webhooks": "Having an address told of a task.",
    "files": "Files that go with messages.",
    "conversations": "Talking with an agent for as long as one likes.",
    "api-keys": "Keys that programs call with.",
    "runtime": "For programs that run an agent elsewhere.",
    "admin": "What goes on.",
    "about": "About this server.",
}
_SUCCESS: Final = {200: "Done.", 201: "Made.", 202: "Accepted.", 204: "Done; there is nothing to say."}
_HEADERS: Final[dict[str, Schema]] = {
    "X-Request-Id": {
        "description": "The request's id, for whoever asks what became of it.",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
    "X-BeeOS-Operation-Id": {
        "description": "The operation's id.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "Content-Disposition": {"description": "The file's name.", "schema": {"type": "string"}},
    "Cache-Control": {"description": "`no-store`.", "schema": {"type": "string"}},
}
_SCHEME: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key (`oag_` and 64 digits), or a token that the server knows.",
}


def document(routes: Iterable[Route], title: str = "Agents", server: str = "/") -> dict[str, Any]:
    """The document for these routes. Those that are not under /api/v1 speak other protocols, and are left out."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.path.startswith(PREFIX):
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    told = {
        "openapi": VERSION,
        "info": {
            "title": title,
            "version": CONTRACT,
            "description": "Agents as an HTTP API: ask one and wait, give it tasks, or talk with it.",
        },
        "servers": [{"url": server}],
        "tags": [{"name": name, "description": words} for name, words in _TAGS.items()],
        "security": [{"bearerAuth": []}],
        "paths": paths,
        "components": {
            "schemas": {**openapi_shapes.SCHEMAS, **openapi_shapes_more.SCHEMAS},
            "responses": _failures(),
            "headers": _HEADERS,
            "securitySchemes": {"bearerAuth": _SCHEME},
        },
    }
    # JSON all the way down, and nobody's but the caller's.
    copy: dict[str, Any] = loads(encode(told))
    return copy


def _operation(route: Route) -> dict[str, Any]:
    about = OPERATIONS[route.name]
    fails = {*_ANY, *about.fails} | (set() if route.open else {401}) | ({413} if about.body else set())
    told: dict[str, Any] = {
        "operationId": route.name,
        "summary": about.summary,
        "tags": [about.tag],
        "parameters": [*_path_parameters(route), *about.parameters],
        "responses": {
            **({} if about.status is None else {str(about.status): _success(about)}),
            **{str(status): {"$ref": f"#/components/responses/Failure{status}"} for status in sorted(fails)},
        },
    }
    if about.body is not None:
        told["requestBody"] = {
            "required": not about.optional,
            "content": _content(about.body),
            **({} if route.raw else {"description": f"At most {route.body} bytes."}),
        }
    if route.open:
        told["security"] = []
    return told


def _path_parameters(route: Route) -> list[Schema]:
    usual, known = text(LONGEST_ID, minLength=1), OPERATIONS[route.name].ids
    return [
        {"name": name, "in": "path", "required": True, "schema": known.get(name, usual)}
        for name in _PART.findall(route.path)
    ]


def _success(about: Operation) -> dict[str, Any]:
    assert about.status is not None
    told: dict[str, Any] = {
        "description": _SUCCESS[about.status],
        "headers": _header_references(("X-Request-Id", *about.headers)),
    }
    return told if about.answer is None else {**told, "content": _content(about.answer)}


def _content(content: dict[str, Schema]) -> dict[str, Any]:
    return {media: {"schema": schema} for media, schema in content.items()}


def _header_references(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


@cache
def _failures() -> dict[str, Any]:
    """A response for each status that the catalogue has, with the codes that it stands for."""
    by_status: dict[int, list[Entry]] = {}
    for entry in catalogue("gateway"):
        if entry.http_status is not None:
            by_status.setdefault(entry.http_status, []).append(entry)
    return {f"Failure{status}": _failure(status, by_status[status]) for status in sorted(by_status)}


def _failure(status: int, entries: list[Entry]) -> dict[str, Any]:
    error = openapi_shapes.SCHEMAS["Error"]
    code = {**error["properties"]["code"], "enum": [entry.code for entry in entries]}
    narrowed = {**error, "properties": {**error["properties"], "code": code}}
    envelope = openapi_shapes.SCHEMAS["ErrorResponse"]
    schema = {**envelope, "properties": {**envelope["properties"], "error": narrowed}}
    headers = ("X-Request-Id", "Retry-After") if status in (429, 503) else ("X-Request-Id",)
    return {
        "description": "\n".join(f"- `{entry.code}`: {entry.message}" for entry in entries),
        "headers": _header_references(headers),
        "content": {JSON: {"schema": schema}},
    }


@lru_cache(16)
def _made(title: str, server: str) -> dict[str, Any]:
    from fairlead.gateway.gateway import routes

    return document(routes(), title, server)


async def get_openapi(call: Call) -> Answer:
    gateway = call.gateway
    server = gateway.public_url or call.request.scope.get("root_path", "").rstrip("/") or "/"
    return Answer(_made(f"{gateway.app.name}: agents", server), flat=True)


async def get_version(call: Call) -> Answer:
    app = call.gateway.app
    return Answer({"name": app.name, "version": app.version, "contract": CONTRACT}, flat=True)


ROUTES: Final = (
    Route("GET", "/api/v1/openapi.json", get_openapi, "getOpenApi", open=True),
    # Where the published contract has them, for programs that look before they have a key.
    Route("GET", "/spec/openapi.json", get_openapi, "getSpec", open=True),
    Route("GET", "/version", get_version, "getVersion", open=True),
)
