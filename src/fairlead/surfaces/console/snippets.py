"""One call in the words of every caller: curl, Python, TypeScript, the command line and MCP.

They are ready to paste: quoted for where they go, and with the confirmation that the action asks for.
"""

from __future__ import annotations

import shlex
from pprint import pformat
from typing import Any, NamedTuple

from fairlead import _json
from fairlead.actions import Action
from fairlead.surfaces.cli.fields import Fields
from fairlead.surfaces.cli.spelling import flags_for
from fairlead.surfaces.http.command import HOST, PORT

#: Where `fairlead serve` listens unless told otherwise.
ADDRESS = f"http://{HOST}:{PORT}"
_WIDTH = 88


class Snippet(NamedTuple):
    """A call as text in some language."""

    name: str
    language: str
    text: str
    #: Which surface it goes through, so that the page can say when that one does not show the action.
    surface: str


def snippets(action: Action[..., Any], value: Any, program: str, address: str = ADDRESS) -> list[Snippet]:
    """The call of this action with this input, once in each caller's words."""
    return [
        Snippet("Command line", "shell", _command(action, value, program), "cli"),
        Snippet("curl", "shell", _curl(action, value, address), "http"),
        Snippet("Python", "python", _python(action, value, address), "http"),
        Snippet("TypeScript", "typescript", _typescript(action, value, address), "http"),
        Snippet("MCP", "json", _mcp(action, value), "mcp"),
    ]


def _command(action: Action[..., Any], value: Any, program: str) -> str:
    arguments = flags_for(Fields(action.input.json_schema), value)
    confirm = ["--confirm"] if action.requires_confirmation is True else []
    return f"{program} {action.command_name} {shlex.join([*arguments, *confirm])}".rstrip()


def _curl(action: Action[..., Any], value: Any, address: str) -> str:
    body = shlex.quote(_json.dumps(_body(action, value)))
    return (
        f"curl -sS {address}/fairlead/actions/{action.name}/invoke \\\n"
        f"  -H 'content-type: application/json' \\\n"
        f"  -d {body}"
    )


def _python(action: Action[..., Any], value: Any, address: str) -> str:
    given = pformat(value, width=_WIDTH - 4, sort_dicts=False)
    confirm = ", confirm=True" if action.requires_confirmation else ""
    call = f'client.invoke("{action.name}", {given}{confirm})'
    if "\n" in given or len(call) > _WIDTH - 11:
        inner = given.replace("\n", "\n        ")
        extra = "        confirm=True,\n" if confirm else ""
        call = f'client.invoke(\n        "{action.name}",\n        {inner},\n{extra}    )'
    return (
        f'from fairlead import SyncClient\n\nwith SyncClient(url="{address}") as client:\n    data = {call}'
    )


def _typescript(action: Action[..., Any], value: Any, address: str) -> str:
    body = _body(action, value)
    if _is_exact(value):
        told = f"JSON.stringify({_json.dumps(body, indent=True)})".replace("\n", "\n  ")
    else:
        # As text: a number in the program would be rounded before it is sent.
        told = _json.dumps(_json.dumps(body))
    return (
        f'const response = await fetch("{address}/fairlead/actions/{action.name}/invoke", {{\n'
        '  method: "POST",\n'
        '  headers: { "content-type": "application/json" },\n'
        f"  body: {told},\n"
        "});\n"
        "const envelope = await response.json();"
    )


def _is_exact(value: Any) -> bool:
    """Whether JavaScript's numbers hold all whole ones in it."""
    if isinstance(value, dict):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return not isinstance(value, int) or abs(value) < 2**53


def _mcp(action: Action[..., Any], value: Any) -> str:
    call = {"name": action.name, "arguments": value}
    return _json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, indent=True)


def _body(action: Action[..., Any], value: Any) -> dict[str, Any]:
    return {"input": value, **({"confirm": True} if action.requires_confirmation else {})}
