"""What an operation takes: its parameters and its body as one input object, and the way back to a request.

The rules for names: parameters keep theirs; of two with the same, the later place (path, query, header, cookie)
gets its place in front, as in `query_id`. The members of a JSON body that is a plain object stand beside the
parameters when no name is taken twice; any other body is one member, `body`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fairlead.failures import Failure, Kind
from fairlead.tools.openapi.document import Document, Operation, Unusable
from fairlead.tools.openapi.parameters import PLACES, Parameter, parameter_of
from fairlead.tools.openapi.shapes import Shapes

#: What HTTP can carry as a header.
_IN_A_HEADER: Final = re.compile(r"([!-~]([\t -~]*[!-~])?)?")
#: The document may list them, but the media types and the credentials decide them.
_NOT_ASKED: Final = frozenset({"accept", "content-type", "authorization", "host", "content-length"})
_PLAIN: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "example", "examples"}
)
_FORM: Final = "application/x-www-form-urlencoded"
_BYTES: Final = "application/octet-stream"


class Request(NamedTuple):
    """A request, ready to be sent."""

    path: str
    query: str
    headers: dict[str, str]
    body: bytes | None


class Takes(NamedTuple):
    """How an input becomes a request."""

    path: str
    schema: dict[str, Any]
    parameters: tuple[Parameter, ...]
    #: The media type of the body, if there is one.
    media: str | None = None
    #: The members of the input that are the body's.
    members: tuple[str, ...] = ()
    #: The member that is the whole body.
    whole: str | None = None
    #: Whether there is always a body, if only an empty one.
    must: bool = False

    def request(self, input: Mapping[str, Any]) -> Request:
        path, query = self.path, []
        headers: dict[str, str] = {}
        cookies: list[tuple[str, str]] = []
        for each in self.parameters:
            if each.key not in input:
                continue
            pairs = each.write(input[each.key])
            if each.place == "path":
                path = path.replace(f"{{{each.name}}}", pairs[0][1])
            elif each.place == "query":
                query += pairs
            elif each.place == "header":
                headers[each.name] = _header(each.key, pairs[0][1])
            else:
                cookies += pairs
        if cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies)
        body = self._body(input)
        if body is not None and self.media is not None:
            headers["Content-Type"] = self.media
        return Request(path, "&".join(f"{name}={value}" for name, value in query), headers, body)

    def _body(self, input: Mapping[str, Any]) -> bytes | None:
        if self.media is None:
            return None
        if self.whole is not None:
            return _encoded(self.media, input[self.whole], self.whole) if self.whole in input else None
        given = {name: input[name] for name in self.members if name in input}
        return _encoded(self.media, given, "body") if given or self.must else None


def takes_of(document: Document, operation: Operation, given_headers: frozenset[str]) -> Takes:
    """What an operation takes. Raises Unusable when it cannot be a tool."""
    shapes = Shapes(document)
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters: list[Parameter] = []
    for spec in sorted(operation.parameters, key=_place):
        if spec["in"] == "header" and spec["name"].lower() in _NOT_ASKED | given_headers:
            continue
        if spec["in"] == "cookie" and "cookie" in given_headers:
            continue
        key = spec["name"] if spec["name"] not in properties else f"{spec['in']}_{spec['name']}"
        if key in properties:
            raise Unusable(f"two parameters are called {spec['name']!r}")
        properties[key] = _described(shapes.of(_schema(spec)), spec)
        if spec.get("required") or spec["in"] == "path":
            required.append(key)
        parameters.append(parameter_of(spec, key))
    unknown = set(re.findall(r"\{([^{}]*)\}", operation.path)) - {
        each.name for each in parameters if each.place == "path"
    }
    if unknown:
        raise Unusable(f"its path has {', '.join(sorted(unknown))}, which is no parameter")
    takes = Takes(operation.path, {}, tuple(parameters))
    body = document.resolved(operation.spec.get("requestBody"))
    if isinstance(body, Mapping):
        takes = _with_body(document, shapes, takes, body, properties, required)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    schema |= {"required": required} if required else {}
    schema |= {"$defs": shapes.definitions} if shapes.definitions else {}
    return takes._replace(schema=schema)


def _with_body(
    document: Document,
    shapes: Shapes,
    takes: Takes,
    body: Mapping[str, Any],
    properties: dict[str, Any],
    required: list[str],
) -> Takes:
    media, schema = _media(body)
    plain = document.resolved(schema) if isinstance(schema, Mapping) else schema
    names = _members(plain)
    if (_is_json(media) or media == _FORM) and names and not names & set(properties):
        told = shapes.of(plain)
        properties |= told["properties"]
        if body.get("required"):
            required += [name for name in told.get("required", ()) if name in told["properties"]]
        must = bool(body.get("required"))
        return takes._replace(media=media, members=tuple(told["properties"]), must=must)
    key = "body" if "body" not in properties else "request_body"
    if media == _BYTES:
        properties[key] = {"type": "string", "contentEncoding": "base64", "description": "Bytes, as base64."}
    else:
        properties[key] = _described(shapes.of(schema), body)
    if body.get("required"):
        required.append(key)
    return takes._replace(media=media, whole=key)


def _media(body: Mapping[str, Any]) -> tuple[str, Any]:
    """The media type to send, and its schema: JSON where that is taken."""
    content = body.get("content")
    offered = {str(name): each for name, each in content.items()} if isinstance(content, Mapping) else {}
    for fits in (_is_json, _FORM.__eq__, _is_text, _BYTES.__eq__):
        for name, each in offered.items():
            if fits(_bare(name)) is True:
                return _bare(name), each.get("schema", {}) if isinstance(each, Mapping) else {}
    raise Unusable(f"its body is only taken as {', '.join(offered) or 'nothing'}")


def _members(schema: Any) -> set[str]:
    """The names of a plain object's members; none for any other schema."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return set()
    if not {key for key in schema if not key.startswith("x-")} <= _PLAIN:
        return set()
    members = schema.get("properties")
    closed = schema.get("additionalProperties", False) in (False, True)
    return set(members) if isinstance(members, Mapping) and closed else set()


def _schema(spec: Mapping[str, Any]) -> Any:
    if "schema" in spec:
        return spec["schema"]
    content = spec.get("content")
    first: Any = next(iter(content.values()), {}) if isinstance(content, Mapping) else {}
    return first.get("schema", {}) if isinstance(first, Mapping) else {}


def _place(spec: Mapping[str, Any]) -> int:
    if "$ref" in spec or not isinstance(spec.get("name"), str) or spec.get("in") not in PLACES:
        raise Unusable("a parameter has no name or no place, or its reference leads nowhere")
    return PLACES.index(spec["in"])


def _described(schema: Any, spec: Mapping[str, Any]) -> Any:
    words = spec.get("description")
    if not isinstance(words, str) or not isinstance(schema, dict):
        return schema
    return {**schema, "description": words}


def _encoded(media: str, value: Any, key: str) -> bytes:
    if _is_json(media):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    if media == _FORM:
        if not isinstance(value, Mapping):
            raise Failure(Kind.invalid_input, f"{key!r} is sent as a form: it must be an object.", field=key)
        return urlencode({name: _form_text(each) for name, each in value.items()}, doseq=True).encode()
    if media == _BYTES:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Failure(Kind.invalid_input, f"{key!r} must be base64.", field=key) from error
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _form_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_form_text(each) for each in value]
    if isinstance(value, Mapping | bool) or value is None:
        return json.dumps(value)
    return value


def _header(key: str, text: str) -> str:
    if _IN_A_HEADER.fullmatch(text) is None:
        words = f"{key!r} goes into a header: one line of plain ASCII text only, without spaces around it."
        raise Failure(Kind.invalid_input, words, field=key)
    return text


def _bare(media: str) -> str:
    return media.partition(";")[0].strip().lower()


def _is_json(media: str) -> bool:
    return media in ("application/json", "*/*", "application/*") or media.endswith("+json")


def _is_text(media: str) -> bool:
    return media.startswith("text/")
