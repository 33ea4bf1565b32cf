"""What may be told of a run: words without secrets, and a tool's arguments without what its action declares secret."""

from __future__ import annotations

from fairlead import _json
from fairlead.failures.redaction import DEFAULT, Redactor
from fairlead.pipelines.program import Process
from fairlead.runtime import Runtime
from fairlead.schema.secrecy import declared_secrets, masked


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


def _declared(tool: Process | None, app: Runtime | None) -> frozenset[str]:
    while tool is not None and tool.kind in ("tool", "rebinding"):
        tool = tool.behind
    name = None if tool is None or tool.kind != "action" else tool.action
    action = None if app is None or name is None else app.get(name)
    return frozenset() if action is None else declared_secrets(action.input.json_schema)
