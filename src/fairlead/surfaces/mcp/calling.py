"""`tools/call`: from the client's words to a call through the runtime, and back.

Who may call what, and what needs a yes, the runtime decides. Where it wants a yes and the client can ask a person,
the person is asked; where it cannot, the failure says how the call is confirmed.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from fairlead.actions import Action
from fairlead.failures import Failure, Kind
from fairlead.runtime.result import Result
from fairlead.surfaces.mcp import results, rpc
from fairlead.surfaces.mcp.asking import lines_of
from fairlead.surfaces.mcp.exchange import CONFIRM, IDEMPOTENCY_KEY, Exchange, Metadata
from fairlead.surfaces.mcp.peer import LEVELS
from fairlead.surfaces.mcp.rpc import INVALID_PARAMS, RpcError
from fairlead.surfaces.mcp.tools import INPUT, Tool
from fairlead.surfaces.mcp.voice import Voice

SURFACE: Final = "mcp"
_ABSENT: Final = object()
#: Errors are the loudest thing that an action says.
_LOUDEST: Final = LEVELS["error"] + 1
_YES: Final[dict[str, Any]] = {"type": "object", "properties": {}}
#: How much of an argument a person is shown when asked.
_BRIEF: Final = 200


async def call_tool(exchange: Exchange) -> rpc.Result:
    params = exchange.params
    name = params.get("name")
    tool = exchange.view.tools.get(name) if type(name) is str else None
    if tool is None:
        tool = _found(exchange, name)
    if "requestState" in params or "inputResponses" in params:
        await exchange.resume()
    arguments = params.get("arguments", _ABSENT)
    # An explicit null, or another root that is no object, stays what it is.
    if arguments is _ABSENT:
        arguments = {}
    elif type(arguments) is dict and len(arguments) == 1 and INPUT in arguments and tool.wraps_input:
        arguments = arguments[INPUT]
    token, confirm, key = _options(exchange) if exchange.meta else (None, params.get("confirm"), None)
    if key is not None and (type(key) is not str or not key):
        return results.refused(tool, _unusable_key(), exchange)
    if tool.agent:
        try:
            arguments = _taken_up(exchange, tool, arguments)
        except Failure as declined:
            return results.refused(tool, declined, exchange)
        if exchange.wanted:
            return exchange.input_required()
    voice = None
    if not tool.mute and (token is not None or exchange.peer.threshold < _LOUDEST):
        voice = Voice(exchange.sink, tool, token, exchange.peer.threshold)
    try:
        result = await _invoked(exchange, tool, arguments, confirm, key, voice)
        if result.failure is not None:
            return await _failed(exchange, tool, arguments, result, key, voice)
        if voice is not None:
            await voice.finish()
            return results.success(tool, result, exchange, voice.items)
        return results.success(tool, result, exchange, None)
    except BaseException:
        if voice is not None:
            voice.stop()
        raise


def _taken_up(exchange: Exchange, tool: Tool, arguments: Any) -> Any:
    """What an agent is called with: the arguments, or the answer to what it asked in the round before."""
    # Servers without agents do without all that they are made of.
    from fairlead.surfaces.mcp import operator

    operator.operate(exchange)
    return arguments if exchange.paused is None else operator.taken_up(exchange, tool, arguments)


def _found(exchange: Exchange, name: object) -> Tool:
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "Invalid params: name the tool to call, as a string.")
    try:
        return exchange.view.tool(name)
    except Failure as missing:
        shown = exchange.server.app.redactor.text(missing.message)
        raise RpcError(INVALID_PARAMS, f"Unknown tool. {shown}") from missing


def _options(exchange: Exchange) -> tuple[str | int | None, Any, Any]:
    """What `_meta` says of a call: where its progress is told, how it is confirmed, and by which key it is known."""
    meta = exchange.meta
    token = meta.get("progressToken")
    confirm = exchange.params.get("confirm")
    return (
        token if type(token) is str or type(token) is int else None,
        meta.get(CONFIRM) if confirm is None else confirm,
        meta.get(IDEMPOTENCY_KEY),
    )


def _unusable_key() -> Failure:
    return Failure(
        Kind.invalid_input,
        "The idempotency key must be a non-empty string.",
        field=f"_meta.{IDEMPOTENCY_KEY}",
        expected="a non-empty string",
    )


def _invoked(
    exchange: Exchange, tool: Tool, arguments: Any, confirm: Any, key: str | None, voice: Voice | None
) -> Coroutine[Any, Any, Result]:
    user, auth, *_ = exchange.caller
    return exchange.server.app.invoke(
        tool.action,
        arguments,
        surface=SURFACE,
        user=user,
        auth=auth,
        metadata=Metadata(exchange),
        confirm=confirm if confirm is True or type(confirm) is str else None,
        idempotency_key=key,
        _channel=voice,
    )


async def _failed(
    exchange: Exchange, tool: Tool, arguments: Any, result: Result, key: str | None, voice: Voice | None
) -> rpc.Result:
    """What a call that did not succeed is answered with: perhaps it has only to be confirmed."""
    refusal = None
    if result.failure is not None and result.failure.kind is Kind.needs_confirmation:
        try:
            result = await _confirmed(exchange, tool, arguments, result, key, voice)
        except Failure as wrong:
            refusal = wrong
    if tool.agent:
        from fairlead.surfaces.mcp import operator

        operator.pause(exchange, tool, result.failure)
    if voice is not None:
        await voice.finish()
    if refusal is not None:
        return results.refused(tool, refusal, exchange)
    if result.failure is None:
        return results.success(tool, result, exchange, None if voice is None else voice.items)
    if exchange.wanted:
        return exchange.input_required()
    if exchange.missing is not None and exchange.peer.revision.stateless:
        raise exchange.incapable()
    return results.failure(tool, result, exchange)


async def _confirmed(
    exchange: Exchange, tool: Tool, arguments: Any, asked: Result, key: str | None, voice: Voice | None
) -> Result:
    """The call once more, if a person says yes to it, or what it was where nobody can be asked.

    Raises:
        Failure: they said no.
    """
    assert asked.failure is not None
    confirmation = asked.failure.details.get("confirmation")
    if not isinstance(confirmation, dict) or exchange.wanted:
        return asked
    token: str = confirmation["code"]
    if not exchange.confirmed:
        answer = await _answer(exchange, tool, arguments, token)
        if answer is None:
            return asked
        if answer != "accept":
            raise Failure(
                Kind.refused_by_user, f"The user did not agree to {tool.action.title!r}: it was not done."
            )
        exchange.confirmed = True
        # The one that was issued when the person was asked: it works once.
        token = exchange.token or token
    return await _invoked(exchange, tool, arguments, token, key, voice)


async def _answer(exchange: Exchange, tool: Tool, arguments: Any, token: str) -> str | None:
    """What a person says to the call; None where nobody can be asked, or where the next round will tell."""
    if not exchange.peer.can("elicitation"):
        return None
    question = {"message": _question(exchange, tool.action, arguments), "requestedSchema": _YES}
    if exchange.line is not None and not exchange.peer.revision.stateless:
        try:
            answer = await exchange.line.ask("elicitation/create", question, exchange.sink)
        except RpcError:
            return None
        said = answer.get("action") if isinstance(answer, dict) else None
        return said if isinstance(said, str) else None
    given = exchange.answers.get(CONFIRM)
    said = given.get("action") if isinstance(given, dict) and exchange.token is not None else None
    if said in ("accept", "decline", "cancel"):
        return str(said)
    if exchange.peer.revision.stateless:
        exchange.token = token
        exchange.want(CONFIRM, "elicitation/create", question)
    return None


def _question(exchange: Exchange, action: Action[..., Any], arguments: Any) -> str:
    effect = " This cannot be undone." if action.side_effects == "destructive" else ""
    lines = [f"{action.title}: {action.description}{effect}"]
    lines += lines_of(exchange.server.app.redactor.value(arguments), _BRIEF)
    return "\n".join([*lines, "Go ahead?"])
