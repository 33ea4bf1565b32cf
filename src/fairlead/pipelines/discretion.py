"""What may be told of a run: words without secrets, and a tool's arguments without what its action declares secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead import _json
from fairlead.actions import Action
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.pipelines.program import Process
from fairlead.runtime import Runtime
from fairlead.schema.secrecy import declared_secrets, masked

#: So much of a tool's result is told.
_SHORT: Final = 200


def redactor_of(app: Runtime | None) -> Redactor:
    return DEFAULT if app is None else app.redactor


def shown(arguments: str, tool: Process | None, app: Runtime | None) -> str:
    """Arguments as a model wrote them, without what is secret in them."""
    redactor = redactor_of(app)
    names = _declared(tool, app)
    try:
        given = _json.loads(arguments)
    except ValueError:
        # Nobody can say what is secret in it.
        return redactor.placeholder if names else redactor.text(arguments)
    told = redactor.value(masked(given, names, redactor.placeholder))
    return arguments if told == given else _json.dumps(told)


def outcome(response: Mapping[str, Any], tool: Process | None, app: Runtime | None) -> dict[str, Any]:
    """What a tool's response says in short: the code of its failure, or the beginning of its result."""
    if response["is_error"]:
        error = _json.loads(response["content"])
        return {"is_error": True, "error": error.get("error"), "category": error.get("category")}
    action = _action(tool, app)
    if action is not None and declared_secrets(action.input.json_schema):
        # It may say again, under any name, what it was told in secret.
        return {"is_error": False, "result": redactor_of(app).placeholder}
    # Whole and without secrets before it is cut: half of a secret is not known as one.
    result = shown(response["content"], tool, app)
    return {"is_error": False, "result": result if len(result) <= _SHORT else f"{result[: _SHORT - 3]}..."}


def _declared(tool: Process | None, app: Runtime | None) -> frozenset[str]:
    action = _action(tool, app)
    if action is None:
        return frozenset()
    given = {} if action.output is None else action.output.output_json_schema
    return declared_secrets(action.input.json_schema) | declared_secrets(given)


def _action(tool: Process | None, app: Runtime | None) -> Action[..., Any] | None:
    while tool is not None and tool.kind in ("tool", "rebinding"):
        tool = tool.behind
    name = None if tool is None or tool.kind != "action" else tool.action
    return None if app is None or name is None else app.get(name)
