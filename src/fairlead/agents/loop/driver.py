"""`Driver`: the one loop of every agent, as a small state machine.

    messages -> model -> tool calls -> results -> messages ... until one of six exits

It asks a model, runs what the model calls and hands the results back. It knows no provider, no database and no
surface: those are the `Model`, what `keep` does, and the `Listener`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

from fairlead.agents.loop import notices, paths
from fairlead.agents.loop.accounts import Account
from fairlead.agents.loop.brief import Brief
from fairlead.agents.loop.compaction import Compaction
from fairlead.agents.loop.extraction import correction, extract
from fairlead.agents.loop.listener import Listener
from fairlead.agents.loop.policy import UNSPENT, Exit, Outcome, Policy, Spent
from fairlead.agents.loop.state import READS, WRITES, Held, TaskState, changed, may_change
from fairlead.agents.loop.stopwatch import Stopwatch
from fairlead.agents.loop.toolset import Admitted, Refused, Toolset, cancelled, interrupted, too_late
from fairlead.agents.loop.turns import answered, ids, result_of, taken, unanswered
from fairlead.agents.models.model import (
    NOTHING,
    Message,
    Model,
    Reply,
    Request,
    ToolCall,
)
from fairlead.agents.operator import Clarification
from fairlead.failures import Failure
from fairlead.failures import tool as wire
from fairlead.failures.runtime import (
    ApiError,
    ConfigError,
    MaxTokens,
    OutputExtractionFailed,
    OutputValidationFailed,
)
from fairlead.runtime.events import READY
from fairlead.tools.loop import pending_items
from fairlead.tools.session import Session

#: Tools that end or pause a run when they succeed.
COMPLETE: Final = "complete"
CLARIFY: Final = "clarify"
_INTERCEPTS: Final = frozenset({COMPLETE, CLARIFY})
#: So many calls of one turn are run at the same time; a model may ask for any number.
_SIDE_BY_SIDE: Final = 32

#: Gets an answer to a question, as a tool's result; None pauses the run.
Ask = Callable[[Clarification], Awaitable[str | list[str] | None]]
#: Writes a message down, before anything follows from it.
Keep = Callable[[Message], Awaitable[None]]


class Driver:
    """One run. The transcript is the conversation so far, and is added to."""

    # Most runs need few of these: what is not set on the way keeps its default here.
    #: What was last streamed of a reply that is not over.
    partial = ""
    #: Whether a call was not let through, because of the limit.
    _out_of_calls = False
    _corrections = 0
    #: About how many tokens were last sent, to be compared with what the provider counts.
    _estimated = 0
    #: What is remembered of calls, once there is one.
    _memory: tuple[TaskState, notices.Staleness] | None = None
    #: The ids that calls have had, once there is one.
    _ids: set[str] | None = None

    def __init__(
        self,
        model: Model,
        tools: Toolset,
        transcript: list[Message],
        *,
        policy: Policy,
        session: Session,
        listener: Listener,
        monotonic: Callable[[], float],
        brief: Brief,
        keep: Keep | None = None,
        ask: Ask | None = None,
        spent: Spent = UNSPENT,
        above: Account | None = None,
        first: Reply | None = None,
    ) -> None:
        self.transcript = transcript
        #: What it has used, which the run that it is a tool of pays for, too.
        self.account = session.kept["account"] = Account(policy.limits, spent, above)
        self.iterations = spent.iterations
        self.calls: list[tuple[str, str]] = []
        self._model = model
        self._tools = tools
        self._policy = policy
        self._session = session
        self._listener = listener
        self._monotonic = monotonic
        self._brief = brief
        self._keep = keep
        self._ask = ask
        #: What the model answered to the first request, where it was asked before.
        self._first = first
        self._bounded = self.account.bounded
        self._compaction = Compaction(model.window, max_tokens=brief.settings.max_tokens)
        self._notices: list[str] = []
        #: What goes after the transcript for one step: a reply that did not fit, and why.
        self._aside: list[Message] = []
        self.watch = Stopwatch(monotonic, spent.seconds)

    @property
    def spent(self) -> Spent:
        """What the run has used so far, with what it had used before it was paused."""
        return Spent(self.account.usage, self.iterations, self.account.calls, self.watch.seconds)

    async def run(self) -> Outcome:
        """Go on from where the transcript is, to an exit.

        Raises:
            Failure: the model could not be asked, or its answer cannot be used.
        """
        limits = self._policy.limits
        if not self._model.priced and self.account.priced:
            raise ConfigError(
                f"The run has a limit of cost, and the price of {self._model.name!r} is not known. Give it in the "
                "models' prices, install genai-prices, or limit the tokens instead.",
                details={"model": self._model.name},
            )
        if limits.seconds is None:
            return await self._run_on()
        try:
            async with self.watch.limit(limits.seconds) as limit:
                return await self._run_on()
        except TimeoutError:
            if not limit.expired():
                raise
        if self.partial:
            await self._record(Message("assistant", self.partial))
        return self._outcome(Exit.over_budget, reason="seconds")

    async def _run_on(self) -> Outcome:
        ended = self._ended_before()
        # Most runs begin with what a user has just said.
        if ended is None and self.transcript and self.transcript[-1].role != "user":
            ended = await self._unanswered()
        empty = 0
        while ended is None:
            remaining = self._policy.limits.iterations - self.iterations
            if remaining <= 0:
                return await self._capped()
            if self._bounded and (reason := self._spent()) is not None:
                return self._outcome(Exit.over_budget, reason=reason)
            request = self._request(remaining)
            if request is None:
                return self._outcome(Exit.over_budget, reason="context")
            reply = await self._step(request)
            if reply.calls:
                self.iterations += 1
                self._aside.clear()
                ended = await self._tool_turn(reply)
            elif not reply.text.strip():
                empty += 1
                if empty > self._policy.empty_retries:
                    await self._say_last(replace(reply, text=notices.EMPTY_REPLY).message())
                    return self._outcome(Exit.final_response, notices.EMPTY_REPLY)
                self._notices = [notices.EMPTY_TURN]
            else:
                self.iterations += 1
                try:
                    value = self._value(reply.text)
                except (OutputExtractionFailed, OutputValidationFailed) as failure:
                    self._corrected(failure)
                    told = correction(failure, self._brief.output)
                    self._aside[:] = [reply.message(), Message("user", told)]
                    continue
                await self._say_last(reply.message())
                return self._outcome(Exit.final_response, reply.text, value)
        return ended

    # One step of the model.

    def _request(self, remaining: int) -> Request | None:
        """What to ask next; None when it does not fit into the model's window."""
        brief, compaction = self._brief, self._compaction
        offer = self._tools.belt.offer(self._session)
        compaction.reserve(system=brief.tokens, tools=offer.tokens)
        messages, tokens, over = compaction.fit(self.transcript)
        if over:
            return None
        self._estimated = brief.tokens + offer.tokens + tokens
        if self._aside:
            messages += self._aside
        told = self._notices
        budget = notices.budget(remaining, self._policy.warn_at)
        if budget is not None:
            told.append(budget)
        if told:
            messages = notices.place(messages, told)
            self._notices = []
        return Request(brief.system + messages, offer.specs, "auto", brief.schema, brief.settings)

    async def _step(self, request: Request) -> Reply:
        account = self.account
        account.asked = self._estimated
        if self._first is not None:
            reply, self._first = self._first, None
        elif not self._listener.heard:
            reply = await self._model.reply(request)
        else:
            self.partial = ""
            reply = await self._streamed(request)
            self.partial = ""
        account.asked, usage = 0, reply.usage
        if usage is not NOTHING:
            account.usage += usage
            if usage.tokens:
                self._compaction.measured(self._estimated, usage.input)
                await self._listener.used(usage)
        if reply.stop == "length":
            told = "The model's reply ran into the limit of tokens. Raise max_tokens, or ask for less."
            raise MaxTokens(told, details={"model": self._model.name})
        return reply

    async def _streamed(self, request: Request) -> Reply:
        listener, pieces = self._listener, []
        stream = self._model.stream(request)
        try:
            async for piece in stream:
                if isinstance(piece, Reply):
                    return piece
                if piece.reasoning:
                    await listener.thought(piece.reasoning)
                if piece.text:
                    pieces.append(piece.text)
                    await listener.delta(piece.text)
        except asyncio.CancelledError:
            self.partial = "".join(pieces)
            raise
        finally:
            closing = getattr(stream, "aclose", None)
            if closing is not None:
                await closing()
        raise ApiError(
            "The model's answer ended before it was complete.", details={"model": self._model.name}
        )

    def _value(self, text: str) -> Any:
        output = self._brief.output
        return text if output is None else extract(text, output)

    def _corrected(self, failure: Failure) -> None:
        """Count a reply that is not of the declared type. Raises the failure when there were too many."""
        self._corrections += 1
        if self._corrections > self._policy.corrections:
            failure.details = {**failure.details, "attempts": self._corrections}
            raise failure

    # The calls of a turn.

    async def _tool_turn(self, reply: Reply) -> Outcome | None:
        if self._ids is None:
            self._ids = ids(self.transcript)
        calls = taken(reply.calls, self._compaction.budget, self._ids)
        await self._record(replace(reply.message(), calls=calls))
        return await self._process(calls)

    def _ended_before(self) -> Outcome | None:
        """The end of a run whose last words were kept, and which did not live to tell them."""
        if not self._session.kept.pop("ended", False):
            return None
        text = self.transcript[-1].content
        return self._outcome(Exit.final_response, text=text, value=self._value(text))

    async def _unanswered(self) -> Outcome | None:
        """Run the calls that an earlier run left without a result."""
        calls = unanswered(self.transcript)
        if not calls:
            return None
        if self._session.kept.pop("interrupted", False):
            # They may have been begun. What only reads is done again, the rest is for the model to look into.
            for call in calls:
                if not self._tools.repeatable(call):
                    await self._record(result_of(call, interrupted(call)))
            calls = unanswered(self.transcript)
        return await self._process(calls)

    async def _process(self, calls: Sequence[ToolCall]) -> Outcome | None:
        done: dict[str, str] = {}
        try:
            if len(calls) == 1 or any(call.name in _INTERCEPTS for call in calls):
                ended = await self._serial(calls, done)
            else:
                ended = await self._batch(calls, done)
        except asyncio.CancelledError:
            # What was run is written down before the run gives way, and so is what was not.
            for call in calls:
                if call.id not in done:
                    await self._answer(call, cancelled(call))
            raise
        touched = any(call.name == "todo" for call in calls)
        state, staleness = self._remembered()
        stale = staleness.after(touched=touched, pending=pending_items(self._session.todo))
        nudge = state.nudge()
        self._notices += [told for told in (nudge, stale) if told is not None]
        return ended

    def _remembered(self) -> tuple[TaskState, notices.Staleness]:
        if self._memory is None:
            policy = self._policy
            self._memory = TaskState(policy.nudges), notices.Staleness(policy.todo_staleness)
        return self._memory

    @property
    def _state(self) -> TaskState:
        return self._remembered()[0]

    async def _serial(self, calls: Sequence[ToolCall], done: dict[str, str]) -> Outcome | None:
        denied = False
        for call in calls:
            await self._listener.called(call)
            held = self._state.held(call.name, call.arguments)
            if held is not None:
                await self._replay(call, held, done)
                continue
            admitted = await self._admit(call, denied)
            if isinstance(admitted, Refused):
                denied = denied or admitted.denied
                await self._finish(call, admitted.envelope, done)
                await self._listener.answered(call, admitted.envelope, 0.0)
                continue
            envelope, seconds = await self._run(admitted)
            if call.name in _INTERCEPTS and wire.is_success(envelope):
                await self._listener.answered(call, envelope, seconds)
                ended = await self._intercept(call, envelope, done)
                if ended is not None:
                    return ended
                continue
            await self._finish(call, envelope, done, admitted.action.side_effects)
            await self._listener.answered(call, envelope, seconds)
        return self._rejected() if denied and self._policy.stop_on_rejection else None

    async def _admit(self, call: ToolCall, denied: bool) -> Admitted | Refused:
        """Whether a call may be run, after what happened to those before it in the turn."""
        if denied:
            return self._tools.skipped(call)
        if call.name in _INTERCEPTS:
            return await self._tools.admit(call)  # how a run ends and asks is none of what it does
        account = self.account
        if self._bounded and account.no_more_calls():
            self._out_of_calls = True
            return self._tools.exhausted(call, int(account.limit))
        # Counted while somebody is asked: others must not be let through on the same count.
        account.calls += 1
        verdict = None
        try:
            verdict = await self._tools.admit(call)
        finally:
            account.calls -= not isinstance(verdict, Admitted)
        return verdict

    async def _batch(self, calls: Sequence[ToolCall], done: dict[str, str]) -> Outcome | None:
        """Ask in the model's order, run side by side, and write down in the model's order."""
        admitted: dict[str, Admitted] = {}
        results: dict[str, str] = {}
        seen: set[tuple[str, str]] = set()
        denied = moving = False
        for call in calls:
            await self._listener.called(call)
            # What the turn changes before may be what is read now.
            held = None if moving else self._state.held(call.name, call.arguments)
            if held is not None:
                results[call.id] = self._replayed(held)
                await self._listener.answered(call, held.envelope, 0.0)
                continue
            if call.name in READS and (call.name, call.arguments) in seen:
                continue  # what the first gives is given again
            seen.add((call.name, call.arguments))
            verdict = await self._admit(call, denied)
            if isinstance(verdict, Refused):
                denied = denied or verdict.denied
                results[call.id] = verdict.envelope
                await self._listener.answered(call, verdict.envelope, 0.0)
            else:
                admitted[call.id] = verdict
                moving = moving or may_change(call.name, verdict.action.side_effects)
        try:
            paused = await self._side_by_side(admitted, results)
        except asyncio.CancelledError:
            for call in calls:
                results.setdefault(call.id, cancelled(call))
            await self._written_down(calls, admitted, results, done)
            raise
        await self._written_down(calls, admitted, results, done, denied=denied)
        if paused is not None:
            raise paused
        return self._rejected() if denied and self._policy.stop_on_rejection else None

    async def _side_by_side(
        self, admitted: Mapping[str, Admitted], results: dict[str, str]
    ) -> Failure | None:
        """Run calls. One that waits for an answer has no result; it is given back when the others have one."""
        locks: dict[str, asyncio.Lock] = {}
        slots = asyncio.Semaphore(_SIDE_BY_SIDE)
        waiting: list[Failure] = []

        async def run(each: Admitted) -> None:
            path = _written(each)
            # Slots and locks are fair: writes to one file happen in the model's order.
            async with slots, nullcontext() if path is None else locks.setdefault(path, asyncio.Lock()):
                try:
                    results[each.call.id], seconds = await self._run(each)
                except Failure as paused:
                    waiting.append(paused)
                    return
            await self._listener.answered(each.call, results[each.call.id], seconds)

        async with asyncio.TaskGroup() as group:
            for each in admitted.values():
                group.create_task(run(each))
        return waiting[0] if waiting else None

    async def _written_down(
        self,
        calls: Sequence[ToolCall],
        admitted: Mapping[str, Admitted],
        results: Mapping[str, str],
        done: dict[str, str],
        *,
        denied: bool = False,
    ) -> None:
        moved = any(
            changed(each.call.name, results[id], each.action.side_effects)
            for id, each in admitted.items()
            if id in results
        )
        for call in calls:
            if call.id in results:
                effects = admitted[call.id].action.side_effects if call.id in admitted else "read"
                await self._finish(call, results[call.id], done, effects, beside=moved)
            elif call.id not in admitted:
                await self._twin(call, done, denied)

    async def _twin(self, call: ToolCall, done: dict[str, str], denied: bool) -> None:
        """A read that the same turn asked for before: what that gave, if it can be given again."""
        held = self._state.held(call.name, call.arguments)
        if held is not None:
            await self._replay(call, held, done)
            return
        verdict = await self._admit(call, denied)
        envelope, seconds = (
            (verdict.envelope, 0.0) if isinstance(verdict, Refused) else await self._run(verdict)
        )
        await self._finish(call, envelope, done)
        await self._listener.answered(call, envelope, seconds)

    async def _run(self, admitted: Admitted) -> tuple[str, float]:
        """The envelope, and how long it took."""
        started = self._monotonic()
        try:
            envelope = await self._tools.run(admitted)
        except Failure:
            # It waits for an answer, and is let through again then.
            self.account.calls -= admitted.call.name not in _INTERCEPTS
            raise
        self.calls.append((admitted.call.name, admitted.call.id))
        return envelope, self._monotonic() - started

    async def _replay(self, call: ToolCall, held: Held, done: dict[str, str]) -> None:
        envelope = self._replayed(held)
        done[call.id] = envelope
        await self._answer(call, envelope)
        await self._listener.answered(call, envelope, 0.0)

    def _replayed(self, held: Held) -> str:
        if held.notice is not None:
            self._notices.append(held.notice)
        elif self._policy.dedupe_notice:
            self._notices.append(notices.DEDUPE)
        return held.envelope

    async def _finish(
        self,
        call: ToolCall,
        envelope: str,
        done: dict[str, str],
        effects: str = "read",
        *,
        beside: bool = False,
    ) -> None:
        self._state.record(call.name, call.arguments, envelope, effects=effects, beside=beside)
        done[call.id] = envelope
        await self._answer(call, envelope)

    async def _answer(self, call: ToolCall, envelope: str) -> None:
        await self._record(result_of(call, envelope))

    async def _intercept(self, call: ToolCall, envelope: str, done: dict[str, str]) -> Outcome | None:
        """`complete` ends the run with its summary; `clarify` asks, and pauses it where nobody answers."""
        told = wire.payload(envelope)
        if call.name == COMPLETE:
            return await self._completed(call, str(told["summary"]), done)
        ask = Clarification(
            call.id,
            told["question"],
            tuple(told.get("options") or ()),
            bool(told.get("allow_multiple")),
            self._session.agent,
        )
        answer = None if self._ask is None else await self._ask(ask)
        if answer is None:
            return self._outcome(Exit.ended_by_surface, text=ask.question, clarification=ask)
        await self._finish(call, answered(call, answer), done)
        return None

    async def _completed(self, call: ToolCall, text: str, done: dict[str, str]) -> Outcome | None:
        """The end, unless the summary should have been of a declared type and is not."""
        try:
            value = self._value(text)
        except (OutputExtractionFailed, OutputValidationFailed) as failure:
            self._corrected(failure)
            refused = wire.InvalidArgs(correction(failure, self._brief.output), field="summary")
            await self._finish(call, wire.dumps(wire.render(refused, call.name)), done)
            return None
        for other in unanswered(self.transcript):
            # Calls that have no result would be in the way of the next message.
            said = wire.dumps(wire.text("Done.", tool=call.name)) if other is call else too_late(other)
            await self._answer(other, said)
        await self._say_last(Message("assistant", text))
        return self._outcome(Exit.ended_by_surface, text=text, value=value)

    # The ends.

    async def _capped(self) -> Outcome:
        """No steps are left. A chat gets one more, without tools, to say where things stand."""
        text = ""
        fitted = self._compaction.fit(self.transcript)
        if self._policy.wrap_up and not fitted.over and self._spent() is None:
            messages = notices.place(fitted.messages, [notices.WRAP_UP])
            brief = self._brief
            reply = await self._step(Request(brief.system + messages, settings=brief.settings))
            text = reply.text.strip() and reply.text
        if text:
            await self._say_last(Message("assistant", text))
        return self._outcome(Exit.iteration_cap, text=text)

    def _rejected(self) -> Outcome:
        return self._outcome(Exit.tool_rejected)

    def _spent(self) -> str | None:
        """Which of the run's limits is used up, if one is."""
        if self._out_of_calls:
            return "tool_calls"
        if (reason := self.account.over()) is not None:
            return reason
        seconds = self._policy.limits.seconds
        return "seconds" if seconds is not None and self.watch.seconds >= seconds else None

    def _outcome(
        self,
        exit: Exit,
        text: str = "",
        value: Any = None,
        clarification: Clarification | None = None,
        reason: str = "",
    ) -> Outcome:
        calls = tuple(self.calls)
        return Outcome(exit, text, value, self.account.usage, self.iterations, calls, clarification, reason)

    def _say_last(self, message: Message) -> Awaitable[None]:
        """Record the last words, and that they are the last."""
        self._session.kept["ended"] = True
        return self._record(message)

    def _record(self, message: Message) -> Awaitable[None]:
        self.transcript.append(message)
        return READY if self._keep is None else self._keep(message)


def _written(admitted: Admitted) -> str | None:
    """The name of the file that a call writes, which most spellings of its path share."""
    if admitted.call.name not in WRITES or not isinstance(admitted.input, dict):
        return None
    path = paths.argument(admitted.input)
    return None if path is None else paths.last(path)
