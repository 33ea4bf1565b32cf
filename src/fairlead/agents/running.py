"""One run of an agent: from the call to the loop, and from the loop's exit to a result or a failure."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fairlead import _json
from fairlead.agents.asking import Book, root
from fairlead.agents.conversations import LONGEST_ID, OpenConversation, redacted
from fairlead.agents.first import Asked, First, request_of
from fairlead.agents.loop.driver import Driver
from fairlead.agents.loop.policy import UNSPENT, Exit, Outcome, Policy, Spent
from fairlead.agents.loop.toolset import CALL, Belt, Toolset, interrupted, not_kept
from fairlead.agents.loop.turns import answered, unanswered
from fairlead.agents.models.model import Message, ToolCall, Usage
from fairlead.agents.operator import OPERATOR, Approval, Clarification, Operator, Verdict
from fairlead.agents.secrecy import discreet, opened, sealed
from fairlead.agents.voice import SILENCE, Voice, question_of
from fairlead.failures import Failure, Kind
from fairlead.failures.host import ClarifyRequested, ContextOverflow, MaxIterationsReached
from fairlead.failures.runtime import BudgetExceeded, MaxToolCalls, ToolDenied
from fairlead.runtime import App, Context
from fairlead.runtime.durable import Durable
from fairlead.tools.session import SESSION, Session

if TYPE_CHECKING:
    from fairlead.agents.agent import Agent


class Inside:
    """A key of a call's metadata for programs in this process. Metadata may come from outside, where none is sent."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: What surfaces on which people talk with an agent say of a call.
CHAT: Final[Any] = Inside("chat")
#: What a caller says who keeps a run that is not kept here: a function that is given what was said, and the state.
TRANSCRIPT: Final[Any] = Inside("transcript")
#: What was said before a run that is not kept here, and the state that goes with it, where its caller keeps them.
HISTORY: Final[Any] = Inside("history")
#: So deep agents may call agents; two that call each other would never end.
_DEEPEST: Final = 8


Keeper = Callable[[list[Message], dict[str, Any]], None]


def run(agent: Agent, prompt: str, id: str | None, ctx: Context) -> Coroutine[Any, Any, Any]:
    """What runs an agent to its answer.

    Raises:
        Failure: there is no answer, or a question has to be answered first.
    """
    app = ctx.runtime
    if not isinstance(app, App):
        raise Failure(Kind.misconfigured, "An agent needs an App: a bare Runtime knows no models.")
    around, task = SESSION.get(), ctx.task
    if around is not None and around.kept.get("depth", 0) >= _DEEPEST:
        raise Failure(
            Kind.exhausted,
            f"Agents have called agents {_DEEPEST} deep. Do it without asking another agent.",
            details={"depth": _DEEPEST},
        )
    if id is None and around is not None:
        # An agent that is another's tool: kept with it, if that is.
        id = _below(around.id, CALL.get()) if around.kept.get("durable") else None
    elif id is None and task is not None:
        id = root(task).id
    if id is None:
        if around is None and task is None:
            return _alone(agent, app, ctx, prompt)
        return _Run(agent, app, ctx, None, around, task).go(prompt)
    return _kept(agent, app, ctx, id, prompt, around, task)


async def _kept(
    agent: Agent,
    app: App,
    ctx: Context,
    id: str,
    prompt: str,
    around: Session | None,
    task: Durable | None,
) -> Any:
    """A run that a conversation keeps."""
    number, at = ("", 0) if task is None else (task.id, task.run)
    async with app.conversations.open(id, agent.name, ctx.caller, task=number, run=at) as conversation:
        return await _Run(agent, app, ctx, conversation, around, task).go(prompt)


async def _alone(agent: Agent, app: App, ctx: Context, prompt: str) -> Any:
    """A run that nothing keeps, and that is no part of another. Most are over with the first reply."""
    metadata = ctx.metadata
    if ctx.heard or OPERATOR.get() is not None or HISTORY in metadata:
        return await _Run(agent, app, ctx, None, None, None).go(prompt)
    vouched = _vouched(ctx)
    if vouched is None:
        # Who cannot be told apart from others is refused, and not only when a tool asks who it is.
        _ = ctx.caller
    session, asked, began = Asked(ctx, agent), Message("user", prompt), app.clock.monotonic()
    model = agent.model if vouched is None or "model" not in vouched else _chosen(vouched) or agent.model
    request = request_of(agent, app, model, asked)
    if request is None:
        return await _Run(agent, app, ctx, None, None, None).go(prompt)
    kept: Keeper | None = metadata.get(TRANSCRIPT)
    token = SESSION.set(session)
    try:
        reply = await request[0].reply(request[1])
    except BaseException:
        if kept is not None:
            kept([asked], _noted_in({}, session))
        raise
    finally:
        SESSION.reset(token)
    account = session.account
    if reply.calls or reply.stop == "length" or not reply.text.strip():
        spent = Spent(account.usage, 0, account.calls, app.clock.monotonic() - began)
        return await _Run(agent, app, ctx, None, None, None, First(session, reply, spent)).go(prompt)
    if kept is not None:
        kept([asked, reply.message()], _noted_in({}, session))
    ctx.told_meta = {"agent": _told(Exit.final_response, 1, account.usage + reply.usage, ())}
    return reply.text


def _below(id: str, call: str) -> str:
    """The id of what an agent says as a tool: that of the conversation and the call, as long as ids may be."""
    joined = f"{id}.{call}"
    return (
        joined if len(joined) <= LONGEST_ID else hashlib.sha256(joined.encode(errors="replace")).hexdigest()
    )


class _Run:
    """What one run has at hand."""

    # What is not set on the way keeps its default here.
    _belt: Belt | None = None
    _driver: Driver | None = None
    _book: Book | None = None
    #: Who keeps what is said, where no conversation does.
    _kept: Keeper | None = None

    def __init__(
        self,
        agent: Agent,
        app: App,
        ctx: Context,
        conversation: OpenConversation | None,
        around: Session | None,
        task: Durable | None,
        first: First | None = None,
    ) -> None:
        self._agent = agent
        self._first = first
        self._app = app
        self._ctx = ctx
        self._conversation = conversation
        self._task = None if task is None else root(task)
        #: The run that this one is a tool of.
        self._around = around
        #: Those who are tools of another have their own model, whatever was chosen for that one.
        self._model = agent.model if around is not None else _chosen(_vouched(ctx)) or agent.model
        metadata = ctx.metadata
        transcript: list[Message] = [] if conversation is None else conversation.transcript
        state: dict[str, Any] = {} if conversation is None else conversation.state
        # What an agent that is a tool says is not for those who keep what its caller says.
        if metadata and conversation is None and around is None:
            self._kept = metadata.get(TRANSCRIPT)
            if HISTORY in metadata:
                said, known = metadata[HISTORY]
                transcript, state = [*said], {**known}
        self._transcript = transcript
        self._state = state
        self.session = (
            first.session
            if first is not None
            else Session(
                id=ctx.invocation_id if conversation is None else conversation.id,
                agent=agent.name,
                owner=ctx.caller,
                todo=state.get("todo"),
                root=agent.folder or (None if around is None else around.root),
                kept={
                    "approved": set(state.get("approved", ())),
                    "durable": conversation is not None,
                    "toolbox": state.get("toolbox", []),
                    "depth": 0 if around is None else around.kept.get("depth", 0) + 1,
                },
            )
        )
        self._operator = OPERATOR.get()
        if self._task is not None:
            self._book = Book(self._task, state)
            if self._operator is None:
                self._operator = _TaskOperator(self._book)
        self._policy = agent.policy if not metadata.get(CHAT) else _chatting(agent.policy)
        if self._operator is not None and not isinstance(self._operator, _TaskOperator):
            self._operator = _Unhurried(self._operator, self)

    async def go(self, prompt: str) -> Any:
        transcript = self._transcript
        token = SESSION.set(self.session)
        asked, paused = None, False
        if isinstance(self._operator, _Unhurried):
            # While a tool asks somebody, the time of this run stands still, too.
            asked = OPERATOR.set(self._operator)
            self._let_servers_ask()
        try:
            self._belt = belt = self._agent.worn(self._app) or await self._agent.ready(self._app)
            if self._conversation is None and not transcript:
                transcript.append(Message("user", prompt))
            else:
                await self._heard(prompt, transcript)
            driver = self._driver = self._made(transcript, belt)
            outcome = await driver.run()
            if self._conversation is not None or outcome.clarification is not None:
                await self._note(outcome.clarification, transcript)
            return self._answer(outcome)
        except BaseException:
            paused = self._book is not None and self._book.waiting
            await self._gave_way(transcript)
            raise
        finally:
            SESSION.reset(token)
            if asked is not None:
                OPERATOR.reset(asked)
            if self._driver is not None:
                self._driver.account.close(paid=not paused)
            if self._kept is not None:
                self._hand_over(self._kept, transcript)
            # The two know each other: parted, both are gone at once, and the collector of garbage has nothing to do.
            self._driver = None

    async def _gave_way(self, transcript: list[Message]) -> None:
        """Write down what is not yet, of a run that did not come to its end."""
        driver, conversation = self._driver, self._conversation
        if conversation is None:
            return
        if driver is not None and driver.partial:
            # What was said before the interruption was said.
            transcript.append(message := Message("assistant", driver.partial))
            await self._keep(message)
        if self._book is not None and self._book.waiting:
            # Nothing of what has no result yet has been begun: the task ends here, for now.
            asked = self.session.kept.get("asked") or {"id": "", "question": "A tool has a question."}
            self._state["awaiting"] = asked
            self._book.paused()
            if self._around is not None:
                self._around.kept["asked"] = asked
            self._noted()
            await conversation.note()

    def _hand_over(self, keep: Keeper, transcript: list[Message]) -> None:
        """Give what was said to whoever keeps it. What was used counts only where the run goes on with an answer."""
        _noted_in(self._state, self.session)
        if "awaiting" not in self._state:
            self._state.pop("spent", None)
        elif self._driver is not None:
            self._state["spent"] = _spelled(self._driver.spent)
        keep([self._seen(each) if each.calls else each for each in transcript], self._state)

    def still(self) -> AbstractContextManager[None]:
        """While somebody is asked, whose time is not the run's."""
        return nullcontext() if self._driver is None else self._driver.watch.still()

    def _made(self, transcript: list[Message], belt: Belt) -> Driver:
        agent, app, ctx, first = self._agent, self._app, self._ctx, self._first
        seconds = self._policy.limits.tool_seconds
        tools = Toolset(app, belt, agent.gates, ctx, self.session, self._operator, seconds, self._book)
        return Driver(
            app.models.resolve(self._model),
            tools,
            transcript,
            policy=self._policy,
            session=self.session,
            listener=Voice(ctx, self._discreet, self._book) if ctx.heard else SILENCE,
            monotonic=app.clock.monotonic,
            brief=agent.brief,
            keep=None if self._conversation is None else self._keep,
            ask=None if self._operator is None else self._ask,
            spent=_spent(self._state.get("spent")) if first is None else first.spent,
            above=None if self._around is None else self._around.kept.get("account"),
            first=None if first is None else first.reply,
        )

    async def _heard(self, prompt: str, transcript: list[Message]) -> None:
        """Take in what was said: the answer to a question, a new message, or one that was taken in before."""
        open_calls = unanswered(transcript)
        awaiting = self._state.pop("awaiting", None)
        conversation = self._conversation
        if conversation is not None and self._task is not None and self._state.get("task") == self._task.id:
            # The task is run again: it goes on from what was kept.
            self.session.kept["interrupted"] = awaiting is None
            self.session.kept["ended"] = self._state.get("ended", False)
            await conversation.note()
            await self._unsealed(transcript)
            return
        asked = next(
            (call for call in open_calls if awaiting is not None and call.id == awaiting["id"]), None
        )
        if asked is not None:
            await self._unsealed(transcript)
            await self._add(
                transcript, Message("tool", answered(asked, prompt), call_id=asked.id, name=asked.name)
            )
            return
        for last in ("spent", "ended"):
            self._state.pop(last, None)
        for call in open_calls:
            told = Message("tool", interrupted(call), call_id=call.id, name=call.name)
            await self._add(transcript, told)
        if self._task is not None:
            self._state["task"] = self._task.id
        await self._add(transcript, Message("user", prompt))

    async def _add(self, transcript: list[Message], message: Message) -> None:
        transcript.append(message)
        if self._conversation is not None:
            await self._keep(message)

    async def _keep(self, message: Message) -> None:
        assert self._conversation is not None
        if message.role == "assistant":
            # What was asked in the turn before is done with, and so are its secrets.
            self._state.pop("sealed", None)
            if self._book is not None:
                self._book.turned()
        kept = await self._sealed(message) if message.calls else message
        self._noted()
        await self._conversation.keep(kept)

    def _discreet(self, call: ToolCall) -> ToolCall:
        """A call as it may be seen."""
        action = None if self._belt is None else self._belt.actions.get(call.name)
        return discreet(call, action, self._app.redactor.placeholder)

    def _seen(self, message: Message) -> Message:
        """A message with its calls as they may be seen."""
        if not message.calls:
            return message
        return replace(message, calls=tuple(self._discreet(call) for call in message.calls))

    async def _sealed(self, message: Message) -> Message:
        """A turn as it may be kept; what that leaves out of its calls is kept under lock until they are made."""
        assert self._conversation is not None
        kept = self._seen(message)
        shown = redacted(kept, self._app.redactor).calls
        left_out = {
            call.id: call.arguments
            for call, seen in zip(message.calls, shown, strict=True)
            if seen.arguments != call.arguments
        }
        if left_out:
            with suppress(Failure):  # nothing to seal with: such a call is not made after a pause
                self._state["sealed"] = await sealed(self._app.store, left_out, self._conversation.id)
        return kept

    async def _unsealed(self, transcript: list[Message]) -> None:
        """Give the calls that are still to be made what they are made with."""
        open_calls = {call.id for call in unanswered(transcript)}
        if not open_calls or self._conversation is None:
            return
        known: dict[str, str] = {}
        if (kept := self._state.get("sealed")) is not None:
            with suppress(Failure):
                known = await opened(self._app.store, kept, self._conversation.id)
        at = max(number for number, each in enumerate(transcript) if each.calls)
        calls = tuple(
            replace(call, arguments=known.get(call.id, call.arguments)) for call in transcript[at].calls
        )
        transcript[at] = replace(transcript[at], calls=calls)
        for call in calls:
            if call.id in open_calls - known.keys() and self._app.redactor.placeholder in call.arguments:
                await self._add(transcript, Message("tool", not_kept(call), call_id=call.id, name=call.name))

    async def _ask(self, ask: Clarification) -> str | list[str] | None:
        assert self._operator is not None
        await Voice(self._ctx, self._discreet, self._book).asked(ask)
        return await self._operator.clarify(ask)

    def _let_servers_ask(self) -> None:
        """Have the questions of MCP servers, where there are any, go to whoever answers the agent's."""
        room = sys.modules.get("fairlead.tools.mcp.elicitation")
        if room is not None:
            room.ELICIT.set(self._elicited)

    async def _elicited(self, asked: Any) -> dict[str, Any] | None:
        """A server's question, field by field; None where one is left without an answer."""
        assert self._operator is not None
        schema = asked.schema or {}
        answers: dict[str, Any] = {}
        for name, about in (schema.get("properties") or {"": {}}).items():
            words = about.get("title") or about.get("description") or name
            question = f"{asked.server}: {asked.message}" + (f" ({words})" if name else "")
            options = tuple(str(each) for each in about.get("enum", ())) or (
                ("yes", "no") if not name else ()
            )
            ask = Clarification(self._app.new_id(), question, options, agent=self._agent.name)
            answer = await self._operator.clarify(ask)
            if answer is None or (not name and answer not in ("yes", ["yes"])):
                return None
            if name:
                answers[name] = (
                    answer if about.get("type") == "array" or isinstance(answer, str) else answer[0]
                )
        return answers

    def _noted(self) -> None:
        """Bring the state up to what goes with the last message."""
        _noted_in(self._state, self.session)
        if self.session.kept.get("ended"):
            self._state["ended"] = True
        if self._driver is not None:
            self._state["spent"] = _spelled(self._driver.spent)

    async def _note(self, ask: Clarification | None, transcript: list[Message]) -> None:
        """Write down how the run ended, and what it asks."""
        if ask is not None:
            await Voice(self._ctx, self._discreet).asked(ask)
            if self._kept is not None:
                self._state["awaiting"] = question_of(ask)
            elif self._conversation is None:
                await self._kept_late(ask, transcript)
        if self._conversation is not None:
            self._noted()
            if ask is not None:
                self._state["awaiting"] = question_of(ask)
            await self._conversation.note()

    def _answer(self, outcome: Outcome) -> Any:
        self._tell(outcome)
        if outcome.exit is not Exit.final_response:
            failure = self._failure(outcome)
            if failure is not None:
                raise failure
        return outcome.text if self._agent.output is None else outcome.value

    async def _kept_late(self, ask: Clarification, transcript: list[Message]) -> None:
        """A run that nobody wanted to be kept has asked something: only what is kept can be answered."""
        about = (self.session.id, self._agent.name, self.session.owner)
        async with self._app.conversations.open(*about) as conversation:
            for message in transcript:
                await conversation.keep(self._seen(message))
            conversation.transcript.extend(transcript)
            conversation.state["awaiting"] = question_of(ask)
            await conversation.note()

    def _tell(self, outcome: Outcome) -> None:
        told = _told(outcome.exit, outcome.iterations, outcome.usage, outcome.calls)
        if self._conversation is not None or outcome.clarification is not None:
            told["conversation"] = self.session.id
        self._ctx.told_meta = {"agent": told}

    def _failure(self, outcome: Outcome) -> Failure | None:
        """What an exit without an answer is told as."""
        details: dict[str, Any] = {"iterations": outcome.iterations}
        details["tool_calls_executed"] = [{"name": name, "tool_call_id": id} for name, id in outcome.calls]
        if self._conversation is not None:
            details["conversation"] = self.session.id
        if outcome.clarification is not None:
            ask = outcome.clarification
            return ClarifyRequested(
                ask.question, details={**details, **question_of(ask), "conversation": self.session.id}
            )
        if outcome.exit is Exit.iteration_cap and not (outcome.text and self._agent.output is None):
            told = f"The agent did not finish within {outcome.iterations} steps. Allow more, or ask for less."
            return MaxIterationsReached(told, details={**details, "partial_content": outcome.text})
        if outcome.exit is Exit.tool_rejected:
            return ToolDenied("The run ended: a tool that it wanted to use was declined.", details=details)
        if outcome.exit is Exit.over_budget:
            assert self._driver is not None
            seconds = self._policy.limits.seconds
            most = seconds if outcome.reason == "seconds" else self._driver.account.limit
            return _over(outcome, details, most or 0)
        return None


def _told(exit: Exit, iterations: int, usage: Usage, calls: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What is told of a run beside its answer."""
    return {
        "exit": str(exit),
        "iterations": iterations,
        "usage": {"input": usage.input, "output": usage.output, "cost": usage.cost},
        "toolCalls": [{"name": name, "tool_call_id": id} for name, id in calls] if calls else [],
    }


def _noted_in(state: dict[str, Any], session: Session) -> dict[str, Any]:
    """Bring a state up to what tools have left in the session."""
    state["todo"] = session.todo
    kept = session.kept
    if approved := kept.get("approved"):
        state["approved"] = sorted(approved)
    if toolbox := kept.get("toolbox"):
        state["toolbox"] = toolbox
    return state


def _over(outcome: Outcome, details: dict[str, Any], most: float) -> Failure:
    if outcome.reason == "context":
        told = "The conversation does not fit into the model's window any more. Begin another, or use a larger model."
        return ContextOverflow(told, details=details)
    if outcome.reason == "tool_calls":
        return MaxToolCalls(f"The agent made more than {most} calls of tools.", details=details)
    spent = {"tokens": f"{most} tokens", "cost": f"{most} US dollars", "seconds": f"{most:g} seconds"}
    return BudgetExceeded(
        f"The run used up what it may: {spent[outcome.reason]}.", details={**details, "limit": outcome.reason}
    )


def _chatting(policy: Policy) -> Policy:
    return replace(policy, stop_on_rejection=True, dedupe_notice=True, wrap_up=True)


def _vouched(ctx: Context) -> Mapping[str, Any] | None:
    """What the gateway vouches for, where it is the gateway that calls: no caller of its own can write there."""
    auth = ctx.auth
    if type(auth) is not dict and not isinstance(auth, Mapping):
        return None
    return auth if auth.get("type") == "gateway" else None


def _chosen(vouched: Mapping[str, Any] | None) -> str | None:
    """The model that the gateway was told to use."""
    model = None if vouched is None else vouched.get("model")
    return model if isinstance(model, str) else None


def _spelled(spent: Spent) -> dict[str, Any]:
    usage = spent.usage
    return {
        "usage": [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cost],
        "iterations": spent.iterations,
        "calls": spent.calls,
        "seconds": spent.seconds,
    }


def _spent(kept: Mapping[str, Any] | None) -> Spent:
    """What the run had used when it was paused."""
    return UNSPENT if kept is None else Spent(**{**kept, "usage": Usage(*kept["usage"])})


class _Unhurried:
    """Somebody who is asked while the time of the run stands still."""

    def __init__(self, operator: Operator, run: _Run) -> None:
        self._operator = operator
        self._run = run

    async def approve(self, ask: Approval) -> Verdict:
        with self._run.still():
            return await self._operator.approve(ask)

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        with self._run.still():
            return await self._operator.clarify(ask)


class _TaskOperator:
    """Whoever answers a task's questions, at whatever time: the task waits for it without being run."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def approve(self, ask: Approval) -> Verdict:
        about = {"id": ask.id, "tool": ask.tool, "input": ask.input, "agent": ask.agent}
        question = f"May {ask.agent} use {ask.tool}?"
        choice = ("approve", "deny")
        # A call that asks for itself is entered under its own id.
        answer = self._asked(f"may {ask.id}", question, choice, auth=True, details={"approval": about})
        said = answer[0] if isinstance(answer, list) and answer else answer
        return Verdict(isinstance(said, str) and said.strip().lower() in ("approve", "yes", "y", "true"))

    async def clarify(self, ask: Clarification) -> str | list[str] | None:
        answer = self._asked(ask.id, ask.question, ask.options, allow_multiple=ask.allow_multiple)
        if isinstance(answer, list):
            return [str(each) for each in answer]
        return answer if isinstance(answer, str) else _json.dumps(answer)

    def _asked(self, whose: str, question: str, options: Sequence[str], **about: Any) -> Any:
        try:
            return self._book.ask(whose, 0, question, options, **about)
        except Failure:
            session = SESSION.get()
            if session is not None:
                session.kept["asked"] = {"id": whose.removeprefix("may "), "question": question}
            raise
