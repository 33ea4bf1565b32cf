"""Headers that repeat what a stateless request's body says, for those who route without reading it: they must agree.

Where they differ, somebody on the way went by one and we would go by the other; so the request is refused.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from fairlead.surfaces.mcp.methods import STATELESS_ERA
from fairlead.surfaces.mcp.peer import VERSION
from fairlead.surfaces.mcp.rpc import HEADER_MISMATCH, Request, RpcError
from fairlead.surfaces.mcp.server import View

Headers = Mapping[bytes, bytes]

_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
#: The methods as clients spell them in a header.
_SPELLED: Final = {name.encode(): name for methods in STATELESS_ERA for name in methods}
_PREFIX: Final = b"=?base64?"
_SUFFIX: Final = b"?="


def check_version(headers: Headers, meta: Any) -> None:
    """The version must be named in the header, and be that of the body. Raises RpcError."""
    said = meta.get(VERSION) if isinstance(meta, dict) else None
    header = headers.get(b"mcp-protocol-version")
    if header is None:
        raise _mismatch("MCP-Protocol-Version", "is missing")
    if type(said) is str and header.strip() != said.encode(errors="replace"):
        raise _mismatch("MCP-Protocol-Version", "does not match the body")


def check(headers: Headers, request: Request, view: View) -> None:
    """Method, name and mirrored arguments. Raises RpcError."""
    _, method, params = request
    header = headers.get(b"mcp-method")
    if header is None:
        raise _mismatch("Mcp-Method", "is missing")
    if _SPELLED.get(header) != method and header.strip() != method.encode(errors="replace"):
        raise _mismatch("Mcp-Method", "does not match the body")
    field = _NAMED.get(method)
    if field is None:
        return
    name = params.get(field)
    if type(name) is not str:
        return
    header = headers.get(b"mcp-name")
    tool = view.tools.get(name) if method == "tools/call" else None
    if tool is None or tool.header != header:
        _check_name(header, name)
    if tool is not None and tool.mirrored:
        for mirrored in tool.mirrored:
            value = _at(params.get("arguments"), mirrored.path)
            _check_argument(mirrored.header.decode("latin-1"), headers.get(mirrored.header), value)


def _check_name(header: bytes | None, name: str) -> None:
    if header is None:
        raise _mismatch("Mcp-Name", "is missing")
    if _decoded("Mcp-Name", header) != name:
        raise _mismatch("Mcp-Name", "does not match the body")


def _check_argument(name: str, header: bytes | None, value: Any) -> None:
    if header is None:
        if value is not None:
            raise _mismatch(name, "is missing")
        return
    said = _decoded(name, header)
    if value is None or not _same(said, value):
        raise _mismatch(name, "does not match the body")


def _same(said: str, value: Any) -> bool:
    if isinstance(value, bool):
        return said == ("true" if value else "false")
    if isinstance(value, int | float):
        try:
            return float(said) == value
        except (ValueError, OverflowError):
            return False
    return bool(said == value)


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        arguments = arguments.get(step) if isinstance(arguments, dict) else None
    return arguments


def _decoded(name: str, header: bytes) -> str:
    value = header.strip()
    if not all(0x20 <= byte < 0x7F or byte == 0x09 for byte in value):
        raise _mismatch(name, "holds characters that a header may not")
    if not (
        value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX) + len(_SUFFIX)
    ):
        return value.decode("ascii")
    try:
        return b64decode(value[len(_PREFIX) : -len(_SUFFIX)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _mismatch(name, "is not Base64, as it says") from None


def _mismatch(header: str, what: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {header} {what}.")
