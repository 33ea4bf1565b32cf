"""Every parser of ours as a function of bytes that returns, whatever the bytes are.

A target raises nothing but what is wrong with the parser: failures are answers, and are asserted to be whole.
Seeds are inputs that reach something; `corpus/` keeps more of them, and all that once broke a parser.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fairlead import _json
from fairlead.failures import Failure, action, gateway, host, runtime, tool
from fairlead.outgoing.urls import parse
from fairlead.pipelines.checking import check_text
from fairlead.plugins import frames, manifest
from fairlead.project.diff import diff_manifests
from fairlead.schema import Invalid, schema_of
from fairlead.schema.foreign import foreign
from fairlead.schema.preflight import repair
from fairlead.surfaces.cli.arguments import Arguments
from fairlead.surfaces.cli.console import Console
from fairlead.surfaces.cli.fields import Fields
from fairlead.surfaces.client.sse import Reader, TooLong
from fairlead.surfaces.mcp.framing import Framer, Refused, decoded
from fairlead.surfaces.mcp.templates import Template
from fairlead.tools.arguments import arguments_of

CORPUS: Final = Path(__file__).parent / "corpus"
Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {}
SEEDS: dict[str, tuple[bytes, ...]] = {}

_SHAPE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "count": {"type": "integer", "minimum": 0},
        "flag": {"type": "boolean"},
        "kind": {"enum": ["one", "Two"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "x": {"type": "object", "properties": {"y": {"type": "array", "items": {"type": "number"}}}},
    },
    "required": ["title"],
}
OTHER: Final = {"name": "a", "actions": [{"name": "x", "inputSchema": _SHAPE}]}
_FIELDS: Final = Fields(_SHAPE)
_FOREIGN: Final = foreign(_SHAPE)
_TEMPLATES: Final = [Template(f"files://{each}") for each in ("{a}.{b}.{c}", "{+a}/raw/{+b}", "{a}{b}")]
_TYPED: Final = schema_of(dict[str, int | list[float] | None])


def target(*seeds: bytes) -> Callable[[Target], Target]:
    def named(function: Target) -> Target:
        TARGETS[function.__name__] = function
        SEEDS[function.__name__] = seeds
        return function

    return named


def seeds(name: str) -> Iterator[bytes]:
    yield from SEEDS[name]
    for path in sorted((CORPUS / name).glob("*")):
        yield path.read_bytes()


@target(
    b'{"title":"a","count":"3","flag":"yes"}', b'{"properties":{"title":"a"}}', b'{"title":"a","tags":"[1]"}'
)
def preflight(data: bytes) -> None:
    """What a caller sends, read as it was meant."""
    try:
        value = _json.loads(data)
    except ValueError:
        value = data.decode(errors="replace")
    repair(value, _SHAPE)
    for schema in (_FOREIGN, _TYPED):
        try:
            _json.encode(schema.dump(schema.parse(value)))
        except Invalid as refused:
            assert refused.issues


@target(b'{"title": "a",}', b"{'title': None}", b'```json\n{"a":1}\n```', b'"{\\"a\\":1}"')
def model_arguments(data: bytes) -> None:
    """What a model sends as a tool's arguments."""
    try:
        arguments_of(data.decode(errors="replace"))
    except Failure as failure:
        assert failure.message


@target(
    b"--title\0a", b"--x.y\x001\0--no-flag", b"--json\0{}", b"--tags\0a\0--tags=b", b"--\0-v", b"--count=1e3"
)
def command_line(data: bytes) -> None:
    """The arguments of a command."""
    given = [each.decode(errors="surrogateescape") for each in data.split(b"\0")]
    given = [each for each in given if "@" not in each]  # that would read a file of this machine
    quiet = Console(io.StringIO(), io.StringIO(), io.StringIO(), {})
    read = Arguments(given, lambda: _FIELDS, quiet)
    assert read.issues or read.request.whole or isinstance(read.request.input, dict)


@target(
    b'{"error":{"code":"NOT_FOUND","message":"x"}}',
    b'{"ok":false,"kind":"timeout","message":"x","issues":[{"path":["a"]}]}',
    b'{"success":false,"error":{"type":"x","code":"forbidden","message":"m","details":{}}}',
    b'{"code":"host_timeout","origin":{"family":"tool","code":"timeout","kind":"timeout"}}',
)
def envelopes(data: bytes) -> None:
    """An error of a peer, on each of the five wires; and told again, it is still one."""
    for wire in (action, tool, host, gateway, runtime):
        failure = wire.parse(data)
        assert isinstance(failure, Failure)
        again = wire.parse(_json.encode(wire.render(failure)))
        assert again.kind is failure.kind


@target(b"data: a\n\n", b"event: x\r\nid: 1\r\ndata\r\n\r\n", b"\xef\xbb\xbf: c\rdata:a\r\r", b"retry: 1\n\n")
def event_stream(data: bytes) -> None:
    """Server-sent events say the same in whatever pieces they come."""
    at_once = Reader().feed(data)
    reader = Reader()
    in_pieces = [each for at in range(len(data)) for each in reader.feed(data[at : at + 1])]
    assert in_pieces == at_once
    small = Reader(largest=16)
    try:
        small.feed(data)
    except TooLong:
        assert len(data) >= 16


@target(
    b'{"jsonrpc":"2.0"}\n',
    b"Content-Length: 2\r\n\r\n{}",
    b"content-length: 99999999999\r\n\r\n{",
    b'\xef\xbb\xbf{"a":1}\n\n[1]',
)
def mcp_frames(data: bytes) -> None:
    """Messages of MCP over stdio are cut the same way in whatever pieces they come."""

    def cut(pieces: list[bytes]) -> list[Any]:
        framer = Framer(largest=1_000)
        found = [frame for piece in pieces for frame in framer.feed(piece)]
        return [*found, *framer.finish()]

    whole = cut([data])
    assert cut([data[at : at + 1] for at in range(len(data))]) == whole
    for frame in whole:
        read = decoded(frame)
        assert not isinstance(read, Refused) or _json.loads(read.answer)["error"]["code"]


@target(
    b"let main : !int -> !int = map(value + 1)",
    b"type T = { a: int }\nuse x",
    b'agent a : !string -> !string { model: "m" }',
)
def plumb(data: bytes) -> None:
    """A program of the pipelines' language: every problem has its place."""
    text = data.decode(errors="replace")
    lines = text.split("\n")
    for problem in check_text(text).problems:
        assert 1 <= problem.line <= len(lines)
        assert problem.shown()


@target(
    b'{"plugin_id":"a.b","version":"1.0.0","name":"n","capabilities":{"tools":[{"id":"t","parameters":{}}]}}',
    b'{"plugin_id":"a.b","capabilities":{"routes":[{"id":"r","path":"/x","methods":["GET"]}],"web":{"mount":"/ui"}}}',
)
def plugin_manifest(data: bytes) -> None:
    try:
        manifest.decode(data)
    except Failure as failure:
        assert failure.message
        assert len(failure.message) < 20_000


@target(
    b'{"name":"a","actions":[{"name":"x","inputSchema":{"type":"object"}}]}',
    b'{"actions":[{"name":"x","inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}}]}',
)
def app_manifest(data: bytes) -> None:
    """The manifest of an app, compared with another."""
    try:
        value = _json.loads(data)
        diff_manifests(value, OTHER)
        diff_manifests(OTHER, value)
    except (Failure, ValueError):
        pass


@target(
    frames.pack(4, 1, (b"a", None)), frames.pack(5, 0, (b"x",)), frames.pack(7, 2, (b"a", b"b")), b"\xff" * 12
)
def plugin_frames(data: bytes) -> None:
    """What a plugin's process says: the three ways to read a frame agree, and none reads beyond it."""
    frames.size(data)
    try:
        whole = frames.unpack(data)
    except frames.Malformed:
        whole = None
    for quick in (frames.unpack_one(data), frames.unpack_two(data)):
        assert quick is None or quick == whole
    if whole is not None:
        assert sum(len(each or b"") for each in whole[2]) <= len(data)


@target(
    b"http://a.example/x?y#z", b"https://[::1]:8/", b"http://u:p@h:80", b"http://0x7f.1/", b"http://a\\@b/"
)
def addresses(data: bytes) -> None:
    """An address that somebody else chose."""
    try:
        found = parse(data.decode(errors="replace"))
    except Failure as failure:
        assert failure.message
    else:
        assert parse(str(found)) == found


@target(b"files://a.b.c", b"....../", b"files://a/b/raw/c.d", b"files://%2e%2e/\xff.x")
def uri_templates(data: bytes) -> None:
    """The URI of a resource that an MCP client asks for."""
    uri = "files://" + data.decode(errors="replace")
    for template in _TEMPLATES:
        found = template.match(uri)
        assert found is None or (len(found) == len(template.variables) and all(found.values()))
