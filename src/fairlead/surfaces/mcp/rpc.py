"""JSON-RPC 2.0 as MCP has it: telling messages apart, answers as bytes, errors as an exception.

It knows no method. Anything may come in; what is not a message gives an error that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from fairlead import _json

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
#: "Resource not found", up to 2025-11-25.
RESOURCE_NOT_FOUND: Final = -32002
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

Id = str | int
Params = dict[str, Any]


class RpcError(Exception):
    """A request that is answered with a JSON-RPC error. The text is ours: it repeats nothing a client sent."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def encode(self, id: Id | None) -> bytes:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return _json.encode({"jsonrpc": "2.0", "id": id, "error": error})


class Request(NamedTuple):
    """A message that wants an answer."""

    id: Id
    method: str
    params: Params


class Notification(NamedTuple):
    """A message that wants none."""

    method: str
    params: Params


class Response(NamedTuple):
    """The client's answer to a request of ours: the message as it came."""

    id: Any
    message: dict[str, Any]


class Prepared(NamedTuple):
    """A result that is JSON already."""

    json: bytes


Result = dict[str, Any] | Prepared


def read(message: Any) -> Request | Notification | Response:
    """What a parsed JSON value is. Raises RpcError, to be told with `id_of(message)`."""
    if type(message) is not dict:
        raise RpcError(INVALID_REQUEST, "A message is a JSON object.")
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'Not a JSON-RPC 2.0 message: "jsonrpc" must be "2.0".')
    method = message.get("method")
    if method is None:
        if "id" in message and ("result" in message or "error" in message):
            return Response(message["id"], message)
        raise RpcError(INVALID_REQUEST, "The message has neither a method nor a result.")
    if type(method) is not str:
        raise RpcError(INVALID_REQUEST, "A method's name is a string.")
    params = message.get("params")
    if params is None:
        params = {}
    elif type(params) is not dict:
        raise RpcError(INVALID_PARAMS, "Parameters are given by name, in an object.")
    if "id" not in message:
        return Notification(method, params)
    id = message["id"]
    if type(id) is not str and type(id) is not int:
        raise RpcError(INVALID_REQUEST, "A request's id is a string or an integer.")
    return Request(id, method, params)


def id_of(message: Any) -> Id | None:
    """The id to answer a message with that could not be read; None where it has none that may be repeated."""
    id = message.get("id") if type(message) is dict else None
    return id if type(id) is str or type(id) is int else None


def expects_answer(message: Any) -> bool:
    """Whether a message that could not be read is to be answered: all but notifications are."""
    return not (type(message) is dict and "id" not in message and type(message.get("method")) is str)


def answer(id: Id, result: Result) -> bytes:
    if isinstance(result, Prepared):
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
            b"%d" % id if type(id) is int else encoded(id),
            result[0],
        )
    return encoded({"jsonrpc": "2.0", "id": id, "result": result})


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return encoded(message)


def request(id: Id, method: str, params: Mapping[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return encoded(message)


def encoded(value: Any) -> bytes:
    """JSON of what is JSON already; integers beyond 64 bits take the slower way."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _json.encode(value)
