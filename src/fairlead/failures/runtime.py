"""The runtime family: the pipeline runtime's codes in six categories, its error object and its tool response.

Exit code and retry advice follow from the category alone. Running pipelines belongs elsewhere.
"""

from __future__ import annotations

from typing import Any

from fairlead import _json
from fairlead.failures import wire
from fairlead.failures.failure import Entry, Failure, lookup, register_base
from fairlead.failures.kinds import PIVOT, Kind
from fairlead.failures.redaction import DEFAULT, Redactor

RESERVED = ("error", "category", "detail")
CATEGORIES = {
    "config": Kind.misconfigured,
    "invalid": Kind.invalid_input,
    "not_found": Kind.not_found,
    "denied": Kind.forbidden,
    "internal": Kind.internal,
    "unavailable": Kind.unavailable,
}


class RuntimeFailure(Failure, family="runtime"):
    """A failure in the runtime family's words."""


register_base(RuntimeFailure)


class ProcessError(RuntimeFailure, code="process_error", kind=Kind.upstream):
    """A child process could not be started, or ended with an error."""


class ValidationError(RuntimeFailure, code="validation_error", kind=Kind.invalid_input):
    """A value going in or coming out is not of the declared type."""


class ParseError(RuntimeFailure, code="parse_error", kind=Kind.malformed):
    """The text is not JSON, or not a pipeline definition."""


class ToolNotLowerable(RuntimeFailure, code="tool_not_lowerable", kind=Kind.unsupported):
    """The process behind this tool does not give exactly one output for each input."""


class ToolNestingError(RuntimeFailure, code="tool_nesting_error", kind=Kind.unsupported):
    """A tool cannot be dispatched from inside another tool's dispatch."""


class InternalError(RuntimeFailure, code="internal_error", kind=Kind.internal):
    """A part of the runtime that is never called as a tool was reached as one."""


class UnknownTool(RuntimeFailure, code="unknown_tool", kind=Kind.unknown_action):
    """No binding and no connected MCP server has a tool of this name."""


class ToolDenied(RuntimeFailure, code="tool_denied", kind=Kind.refused_by_user):
    """The operator declined this tool call."""


class DocstoreNotFound(RuntimeFailure, code="docstore_not_found", kind=Kind.not_found):
    """No document has this path."""


class DocstoreDenied(RuntimeFailure, code="docstore_denied", kind=Kind.outside_scope):
    """The path leads out of the document root, or may not be touched."""


class DocstoreInvalid(RuntimeFailure, code="docstore_invalid", kind=Kind.invalid_input):
    """The pattern is not a valid glob or regular expression."""


class DocstoreIoError(RuntimeFailure, code="docstore_io_error", kind=Kind.unavailable):
    """The file system failed while the document was read or written."""


class PipelineError(RuntimeFailure, code="pipeline_error", kind=Kind.upstream):
    """The called pipeline ended with an error, or without a value."""


class LoadError(RuntimeFailure, code="load_error", kind=Kind.misconfigured):
    """The pipeline's file could not be read, parsed or checked."""


class McpDisconnected(RuntimeFailure, code="mcp_disconnected", kind=Kind.unavailable):
    """The connection to this MCP server was lost earlier and is marked dead."""


class McpCallError(RuntimeFailure, code="mcp_call_error", kind=Kind.upstream):
    """The MCP server answered the call with an error."""


class McpTransportError(RuntimeFailure, code="mcp_transport_error", kind=Kind.unavailable):
    """The connection to the MCP server broke during the call."""


class ConfigError(RuntimeFailure, code="config_error", kind=Kind.misconfigured):
    """The configuration or the specification is not valid."""


class OutputExtractionFailed(
    RuntimeFailure, code="output_extraction_failed", kind=Kind.invalid_output, category="internal"
):
    """The model's replies held no JSON, and there are no retries left."""


class OutputValidationFailed(RuntimeFailure, code="output_validation_failed", kind=Kind.invalid_output):
    """The model's replies were not of the declared type, and there are no retries left."""


class MaxTokens(RuntimeFailure, code="max_tokens", kind=Kind.exhausted):
    """The reply ran into the limit of tokens."""


class ApiError(RuntimeFailure, code="api_error", kind=Kind.upstream):
    """The model's API refused the request, or its answer was incomplete."""


class ClaudeCodeError(RuntimeFailure, code="claude_code_error", kind=Kind.upstream):
    """The coding agent's process died, or could not be written to or read from."""


# Ours, beside the codes of the contract: what a policy refused, so trying again does not help.


class MaxToolCalls(RuntimeFailure, code="max_tool_calls", kind=Kind.exhausted, category="denied"):
    """The agent called tools more often than it may."""


class BudgetExceeded(RuntimeFailure, code="budget_exceeded", kind=Kind.exhausted, category="denied"):
    """The run used up the tokens, the money or the time that it had."""


def category(failure: Failure) -> str:
    """Which of the six categories the failure is in on this wire."""
    return wire.fact(failure, "runtime", "category") or PIVOT[failure.kind].category


def exit_code(failure: Failure) -> int:
    """2 for a configuration error, 1 for everything else."""
    return 2 if category(failure) == "config" else 1


def retryable(failure: Failure) -> bool:
    """Whether the failure is transient: only what is unavailable is."""
    return category(failure) == "unavailable"


def render(failure: Failure, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The error object, redacted: error, category, detail, then the extras."""
    shown, code = redactor.failure(failure), wire.word(failure, "runtime")
    error = {"error": code, "category": category(failure), "detail": shown.message}
    return {**error, **wire.extras(shown, "runtime", code, RESERVED)}


def dumps(failure: Failure, redactor: Redactor = DEFAULT) -> str:
    """The error object as one line of JSON."""
    return _json.dumps(render(failure, redactor))


def tool_response(id: str, outcome: Any, redactor: Redactor = DEFAULT) -> dict[str, Any]:
    """The answer to a tool call: a failure as an error, anything else as the JSON of its value."""
    if isinstance(outcome, Failure):
        return {"id": id, "content": dumps(outcome, redactor), "is_error": True}
    return {"id": id, "content": _json.dumps(outcome), "is_error": False}


def parse(data: Any) -> Failure:
    """The failure in an error object, a failed tool response, or the JSON text of either. Never raises."""
    sent = wire.load(data)
    error = wire.members(sent)
    if error.get("is_error") is True:
        sent = wire.load(error.get("content"))
        error = wire.members(sent)
    code, detail = wire.code_of(error.get("error")), wire.text(error.get("detail"))
    if detail is None:
        return _flat(sent, error, code)
    return wire.receive(
        "runtime",
        code or PIVOT[Kind.internal].runtime,
        carried=error.get("origin"),
        hint=_kind(error.get("category")),
        message=detail,
        **wire.read_extras(error, RESERVED),
    )


def entry(cls: type[Failure]) -> Entry:
    """What the catalogue says of a code of this family."""
    one = wire.sample(cls)
    return wire.entry(cls, http=None, exit=exit_code(one), retry=retryable(one), where=category(one))


def _kind(name: Any) -> Kind:
    return CATEGORIES.get(name, Kind.internal) if isinstance(name, str) else Kind.internal


def _flat(sent: Any, error: dict[str, Any], code: str | None) -> Failure:
    """An object without detail: a bare code, or the older form with prose in `error`."""
    said = wire.text(error.get("error"))
    if said is None:
        return wire.unreadable("runtime", sent)
    known = code is not None and ("category" in error or lookup("runtime", code) is not RuntimeFailure)
    told = code if known and code else PIVOT[Kind.internal].runtime
    return wire.receive(
        "runtime",
        told,
        carried=error.get("origin"),
        hint=_kind(error.get("category")),
        message=None if known else said,
        **wire.read_extras(error, RESERVED),
    )
