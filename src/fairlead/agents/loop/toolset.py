"""`Toolset`: what an agent may call, who has to agree to it, and how it is run. All calls go through the runtime."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from fairlead.actions import Action
from fairlead.agents.asking import Book
from fairlead.agents.loop import estimates
from fairlead.agents.loop.policy import Gate
from fairlead.agents.loop.specs import root_of, spec_of
from fairlead.agents.loop.turns import UNREADABLE
from fairlead.agents.models.model import ToolCall
from fairlead.agents.operator import Approval, Operator, Verdict
from fairlead.failures import Failure, Kind, from_exception
from fairlead.failures import tool as wire
from fairlead.failures.runtime import ToolDenied
from fairlead.runtime import Context, Result, Runtime
from fairlead.runtime.context import shown
from fairlead.runtime.durable import CURRENT
from fairlead.runtime.events import READY, Channel, Event, Ready
from fairlead.tools.arguments import arguments_of
from fairlead.tools.hiding import for_models
from fairlead.tools.session import CALLS, Session
from fairlead.tools.time_limits import seconds_for
from fairlead.tools.toolbox import Toolbox

#: The call that a tool is run for.
CALL: Final[ContextVar[str]] = ContextVar("fairlead_call", default="")
#: Models are callers of this surface, whoever runs the conversation.
SURFACE: Final = "ai-sdk"
#: So many different selections are remembered.
_OFFERS: Final = 1_000
#: Where an action says in its metadata of which agent it is.
MARK: Final = "agent"
_SKIPPED: Final = "Skipped: an earlier call of this turn was declined. Nothing was done."
_EXHAUSTED: Final = "Not done: this run may make {most} calls of tools, and has made them."
_UNKNOWN: Final = "There is no tool of this name. Use one that you were given."
_NOBODY: Final = (
    "This tool runs only after a person has agreed, and nobody can be asked here. "
    "Tell the user what you want to do."
)
_DENIED: Final = "The policy of this agent does not allow this tool."
_DECLINED: Final = "The person who was asked did not agree to this call."


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call that may be run."""

    call: ToolCall
    action: Action[..., Any]
    input: Any
    notes: Sequence[str]
    confirm: bool | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that is not run, and what the model is told instead."""

    call: ToolCall
    envelope: str
    #: Whether somebody, or the policy, said no; a wrong argument is not that.
    denied: bool


class Offer:
    """Tools as a model is told of them."""

    __slots__ = ("specs", "tokens")

    def __init__(self, actions: Iterable[Action[..., Any]]) -> None:
        self.specs = tuple(spec_of(action) for action in actions)
        #: About how much of a model's window they take.
        self.tokens = estimates.tools(self.specs)


class Belt:
    """An agent's tools, made once and used by many runs. Too many to tell a model of are kept in a box."""

    def __init__(self, tools: Sequence[Action[..., Any]], own: Sequence[Action[..., Any]] = ()) -> None:
        self._own = tuple(own)
        self._box = Toolbox(tools)
        extra = self._box.actions if self._box.needed else ()
        self.actions = {action.name: action for action in (*self._own, *extra, *tools)}
        self._offers: dict[tuple[Action[..., Any], ...], Offer] = {}
        #: What was last asked for, and its offer: most runs are shown the very same.
        self._last: tuple[tuple[Action[..., Any], ...] | None, Offer] = None, Offer(())

    def offer(self, session: Session | None) -> Offer:
        """What a model is to be told of now, at first where there is no session; the very same until that changes."""
        shown = self._box.offered(session)
        known, offer = self._last
        if known is shown:
            return offer
        offer = self._offer(shown)
        self._last = shown, offer
        return offer

    def _offer(self, shown: tuple[Action[..., Any], ...]) -> Offer:
        offer = self._offers.get(shown)
        if offer is None:
            if len(self._offers) >= _OFFERS:
                self._offers.clear()
            offer = self._offers[shown] = Offer((*shown, *self._own))
        return offer


class Toolset:
    """The tools of one run."""

    def __init__(
        self,
        runtime: Runtime,
        belt: Belt,
        gates: Mapping[str, Gate],
        context: Context,
        session: Session,
        operator: Operator | None,
        seconds: float,
        book: Book | None = None,
    ) -> None:
        self.belt = belt
        self._runtime = runtime
        self._gates = gates
        self._context = context
        self._session = session
        self._operator = operator
        self._seconds = seconds
        #: Where questions are entered, for a run that is a task's.
        self._book = book

    def gate(self, action: Action[..., Any]) -> Gate:
        """What is done when the model wants to use this: what was set for it, or else what it asks for itself."""
        gate = self._gates.get(action.name) or self._gates.get("*")
        if gate is None:
            gate = "ask" if action.requires_confirmation else "auto"
        if gate == "ask" and _label(action) in self._session.kept.get("approved", ()):
            return "auto"
        return gate

    async def admit(self, call: ToolCall) -> Admitted | Refused:
        """See whether a call may be run: whether its arguments can be read, and whoever has to agree does."""
        action = self.belt.actions.get(call.name)
        if action is None:
            return self._refused(call, wire.ToolNotFound(_UNKNOWN))
        try:
            given = arguments_of(call.arguments)
        except Failure as failure:
            return self._refused(call, failure)
        input: Any = given.value
        if type(input) is dict and input.get("_error") == UNREADABLE:
            return self._refused(call, _sentinel(input))
        input = root_of(action).decode(input)
        gate = self.gate(action)
        if gate == "deny":
            return self._refused(call, wire.Rejected(_DENIED), denied=True)
        if gate == "auto":
            return Admitted(call, action, input, given.notes, True if action.requires_confirmation else None)
        try:
            # Nobody is bothered with a call that could not be made.
            checked = await self._check(action, input)
        except Failure as failure:
            return self._refused(call, failure)
        try:
            verdict = await self._asked(call, action, checked)
        except wire.Rejected as nobody:
            return self._refused(call, nobody, denied=True)
        if not verdict.approve:
            return self._refused(
                call, ToolDenied(verdict.reason or _DECLINED, details={"tool": call.name}), denied=True
            )
        if verdict.always:
            self._session.kept.setdefault("approved", set()).add(_label(action))
        return Admitted(call, action, input, given.notes, True if action.requires_confirmation else None)

    def exhausted(self, call: ToolCall, most: int) -> Refused:
        """For the calls that come after the last that a run may make."""
        return self._refused(call, wire.Rejected(_EXHAUSTED.format(most=most)))

    def repeatable(self, call: ToolCall) -> bool:
        """Whether a call that was begun by a run which is gone may be made again: what it does is known to it."""
        action = self.belt.actions.get(call.name)
        return action is not None and (action.side_effects == "read" or MARK in action.metadata)

    def skipped(self, call: ToolCall) -> Refused:
        """For the calls that come after one which was declined."""
        return self._refused(call, wire.Rejected(_SKIPPED), denied=True)

    async def run(self, admitted: Admitted) -> str:
        """Run a call to its envelope. Nothing escapes but the cancellation of the awaiting task.

        Raises:
            Failure: the task waits for an answer, and the call for it.
        """
        CALL.set(admitted.call.id)
        token = CALLS.set((*CALLS.get(), (self._session, admitted.call.id)))
        try:
            return await self._run(admitted)
        finally:
            CALLS.reset(token)

    async def _run(self, admitted: Admitted) -> str:
        name = admitted.action.name
        book = self._book
        if book is not None:
            CURRENT.set(book.view(admitted.call.id))
        result = await self._invoked(admitted, admitted.confirm)
        failure = result.failure
        if failure is not None and failure.kind is Kind.cancelled and book is not None and book.waiting:
            # Somebody was asked on the way: the call is made again when the answer is there.
            raise failure
        if failure is not None and admitted.confirm and failure.kind is Kind.needs_confirmation:
            # It takes a token, which was made for this call just now.
            result = await self._invoked(admitted, _token(failure))
            failure = result.failure
        if failure is not None:
            return wire.normalize(wire.dumps(wire.render(failure, name, self._runtime.redactor)), name)
        for artifact in result.artifacts:
            self._context.announce(artifact)
        told = wire.success(
            for_models(admitted.action, result.data), tool=name, warnings=[*admitted.notes, *result.warnings]
        )
        return wire.normalize(wire.dumps(told), name)

    def _invoked(self, admitted: Admitted, confirm: bool | str | None) -> Coroutine[Any, Any, Result]:
        context, action = self._context, admitted.action
        return self._runtime.invoke(
            action,
            admitted.input,
            surface=SURFACE,
            user=context.user,
            auth=context.auth,
            env=context.env,
            services=context.services,
            metadata=context.metadata,
            timeout=seconds_for(action, self._seconds),
            confirm=confirm,
            _channel=_Relay(context, admitted.call) if context.heard else None,
        )

    async def _check(self, action: Action[..., Any], input: Any) -> Any:
        context = self._context
        confirm = True if action.requires_confirmation and action.requires_confirmation != "token" else None
        try:
            checked = await self._runtime.check(
                action, input, surface=SURFACE, user=context.user, auth=context.auth, confirm=confirm
            )
        except Failure as failure:
            if failure.kind is Kind.needs_confirmation:
                return input  # by a token, which comes when it is run
            raise
        return checked.input

    async def _asked(self, call: ToolCall, action: Action[..., Any], input: Any) -> Verdict:
        """What somebody says to a call.

        Raises:
            Rejected: nobody could be asked, so nobody said no either.
        """
        if self._operator is None:
            raise wire.Rejected(_NOBODY)
        visible = shown(input, self._runtime.redactor)
        ask = Approval(call.id, call.name, visible, self._session.agent, action.side_effects)
        if self._book is None or self._book.news(f"approval {call.id}"):
            await self._context.activity(
                "approval", action.title, None, id=call.id, tool=call.name, input=visible, agent=ask.agent
            )
        try:
            return await self._operator.approve(ask)
        except Failure as failure:
            if failure.kind is Kind.cancelled:
                raise
            if failure.kind is Kind.refused_by_user:
                return Verdict(False, failure.message)
            raise wire.Rejected(failure.message, cause=failure) from failure
        except Exception as exc:
            raise wire.Rejected(from_exception(exc).message, cause=exc) from exc

    def _refused(self, call: ToolCall, failure: Failure, denied: bool = False) -> Refused:
        told = wire.render(failure, call.name, self._runtime.redactor)
        return Refused(call, wire.dumps(told), denied)


class _Relay(Channel):
    """What a tool says while it runs, told as part of the agent's own run."""

    __slots__ = ("_call", "_context")

    def __init__(self, context: Context, call: ToolCall) -> None:
        super().__init__()
        self._context = context
        self._call = call

    def put(self, event: Event) -> Ready | Channel:
        if event["type"] == "activity" and self._call.name == event["kind"]:
            # The list of things to do is the agent's own.
            self._context.activity(event["kind"], event["title"], event["detail"], **event["data"])
            return READY
        if event["type"] != "artifact":  # those are announced when the tool has ended
            self._context.activity("tool_progress", self._call.name, None, id=self._call.id, event=event)
        return READY

    def put_blocking(self, event: Event) -> Ready:
        self._loop.call_soon_threadsafe(self.put, event)
        return READY


def _label(action: Action[..., Any]) -> str:
    """A tool that has changed is another tool: what was agreed to was the one before."""
    return f"{action.name}@{action.version}"


def _token(failure: Failure) -> str | None:
    confirmation = failure.details.get("confirmation")
    return confirmation.get("code") if isinstance(confirmation, dict) else None


def _sentinel(input: Mapping[str, Any]) -> Failure:
    """Arguments that a provider could not read are handed on as an object that says why."""
    field, expected = (str(value) if (value := input.get(key)) else None for key in ("_field", "_expected"))
    message = str(input.get("_message") or "The arguments could not be read.")
    return wire.InvalidArgs(message, field=field, expected=expected)


def cancelled(call: ToolCall) -> str:
    """The envelope of a call whose run was ended before it, or with it."""
    failure = wire.ExecutionError("The run was cancelled before this call was done.", retryable=False)
    return wire.dumps(wire.render(failure, call.name))


def too_late(call: ToolCall) -> str:
    """The envelope of a call that came after the run was completed."""
    failure = wire.ExecutionError("Not done: the run was completed before this call.", retryable=False)
    return wire.dumps(wire.render(failure, call.name))


def interrupted(call: ToolCall) -> str:
    """The envelope of a call that was begun by a run which did not live to see its end."""
    failure = wire.ExecutionError(
        "The run was interrupted during this call: whether it took effect is not known. Look before you repeat it.",
        retryable=False,
    )
    return wire.dumps(wire.render(failure, call.name))


def not_kept(call: ToolCall) -> str:
    """The envelope of a call that cannot be made after a pause: it held a secret, which could not be kept."""
    failure = wire.ExecutionError(
        "The run was paused before this call, and the secret in its arguments could not be kept. Make the call again.",
        retryable=True,
    )
    return wire.dumps(wire.render(failure, call.name))
