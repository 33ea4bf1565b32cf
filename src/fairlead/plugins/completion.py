"""One completion for a plugin: the agents' loop on the plugin's request, told in the words of the host API.

It runs as the agent that is bound to the call, with what that agent may use. Nobody can be asked: what needs a yes is
declined, and a question of the model's is handed to the plugin.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from fairlead.actions import Action
from fairlead.agents.agent import Agent
from fairlead.agents.conversations import OpenConversation
from fairlead.agents.loop.brief import Brief
from fairlead.agents.loop.driver import Driver
from fairlead.agents.loop.policy import Exit, Limits, Outcome, Policy
from fairlead.agents.loop.toolset import Belt, Offer, Toolset, interrupted
from fairlead.agents.loop.turns import unanswered
from fairlead.agents.models.model import (
    Delta,
    Message,
    Model,
    Reply,
    Request,
    Settings,
    ToolCall,
    ToolSpec,
    Usage,
)
from fairlead.agents.running import Inside
from fairlead.agents.secrecy import discreet, without
from fairlead.failures import Failure, Kind
from fairlead.plugins import answers
from fairlead.plugins.asked import Asked
from fairlead.runtime import App, Context
from fairlead.schema.secrecy import declared_secrets
from fairlead.tools.session import SESSION, Session

#: Seconds for one tool.
TOOL_SECONDS: Final = 120.0
CANCELLED: Final = "Streaming completion cancelled by plugin via complete_cancel."
#: What the action below is to do, for this process alone.
_WORK: Final[Any] = Inside("completion")

Chunk = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a completion happens: whose it is, and what it may use."""

    app: App
    plugin: str
    agent: Agent | None
    #: What the plugin wants models to be told.
    instructions: str
    #: The plugin's own tools, by the names that it gave them.
    own: dict[str, Action[..., Any]]

    @property
    def auth(self) -> dict[str, str]:
        """As whom tools are called. It holds no permissions: what needs some is refused."""
        return {"type": "plugin", "plugin": self.plugin, "agent": self.agent.name if self.agent else ""}

    def conversation(self, session: str) -> str:
        """The id of the conversation that a plugin calls by this name."""
        import uuid

        whose = f"{self.plugin}\0{self.agent.name if self.agent else ''}\0{session}"
        return str(uuid.uuid5(uuid.NAMESPACE_OID, whose)).upper()


def composed(*parts: str) -> str:
    """Parts of a system prompt as one, a blank line between them; blank ones are left out."""
    return "\n\n".join(each.strip() for each in parts if each.strip())


class Ended(Exception):
    """The model's reply is the answer, whatever the loop would make of it."""

    def __init__(self, reply: Reply, finish: str) -> None:
        super().__init__(finish)
        self.reply = reply
        self.finish = finish


async def _perform(ctx: Context) -> Any:
    """Answer a plugin's request with a model."""
    return await ctx.metadata[_WORK](ctx)


#: Gives a completion what a call has: a context, an identity, hooks and telemetry.
_ACTION: Final[Action[..., Any]] = Action(_perform, name="plugin_completion", visibility="private")


class Completion:
    """One request and its answer. Of a stream, it can be stopped."""

    def __init__(self, scene: Scene, asked: Asked, chunk: Chunk | None, *, streamed: bool) -> None:
        self.id = f"cmpl-{secrets.token_hex(6)}"
        self._scene = scene
        self._asked = asked
        self._chunk = chunk
        self._streamed = streamed
        self._said: list[str] = []
        self._last = ""
        #: Calls in the model's order, by their ids.
        self._called: dict[str, str] = {}
        self._driver: Driver | None = None
        self._artifacts: list[dict[str, Any]] = []
        self._usage = Usage()
        #: Whether the model thinks, and has said and called nothing since.
        self._thinking = False
        self._model: _Watched | None = None
        self._tools = _Belt([], [])
        self._stopped = False
        self._sending = False
        self._running: asyncio.Task[Outcome] | None = None

    # What the loop tells as it goes.

    @property
    def heard(self) -> bool:
        return self._streamed

    async def delta(self, text: str) -> None:
        self._thinking = False
        if not self._stopped:
            self._said.append(text)
        await self._send({"content": text})

    async def thought(self, text: str) -> None:
        self._thinking = True
        await self._send({"reasoning_content": text})

    async def called(self, call: ToolCall) -> None:
        self._thinking = False
        self._called[call.id] = call.name
        self._last = "".join(self._said) or self._last
        self._said.clear()
        await self._send({"tool_calls": [_chunk_call(self._discreet(call))]}, "tool_calls")

    async def answered(self, call: ToolCall, envelope: str, seconds: float) -> None:
        artifact = answers.artifact_in(call.name, envelope)
        if artifact is not None:
            self._artifacts.append(artifact)
        await self._send({"role": "tool", "tool_call_id": call.id, "content": envelope})

    async def used(self, usage: Usage) -> None:
        self._usage = self._usage + usage

    async def _send(self, delta: dict[str, Any], finish: str | None = None) -> None:
        if self._streamed and not self._stopped:
            await self._emit(delta, finish)
        if self._stopped and self._running is not None:
            # A task that cancels itself would do so inside whatever it awaits next. This one waits for it here.
            asyncio.get_running_loop().call_soon(self._running.cancel)
            await asyncio.get_running_loop().create_future()

    async def _emit(self, delta: dict[str, Any], finish: str | None = None) -> None:
        if self._chunk is None:
            return
        choice: dict[str, Any] = {"index": 0, "delta": delta}
        if finish is not None:
            choice["finish_reason"] = finish
        self._sending = True
        try:
            await self._chunk(answers.spelled({"id": self.id, "choices": [choice]}))
        finally:
            self._sending = False

    def stop(self) -> None:
        """End the stream; a piece that the plugin is being given is given whole."""
        self._stopped = True
        if self._running is not None and not self._sending:
            self._running.cancel()

    # The run.

    async def answer(self) -> str:
        """The answer, as JSON."""
        scene = self._scene
        result = await scene.app.invoke(_ACTION, auth=scene.auth, metadata={_WORK: self._work})
        failure = result.failure
        if failure is None:
            return str(result.data)
        return answers.error("inference_error", failure.message, **self._gathered())

    async def _work(self, ctx: Context) -> str:
        scene, asked = self._scene, self._asked
        self._tools = await self._belt()
        if asked.session is None:
            return await self._converse(ctx, asked.said(), None)
        id = scene.conversation(asked.session)
        name = scene.agent.name if scene.agent else "default"
        async with scene.app.conversations.open(id, name, ctx.caller) as conversation:
            transcript = conversation.transcript
            for message in self._new(transcript):
                transcript.append(message)
                await self._keep(conversation, message)
            return await self._converse(ctx, transcript, conversation)

    async def _keep(self, conversation: OpenConversation, message: Message) -> None:
        """Keep what was said, without what the tools that it calls declare to be secret."""
        calls = tuple(self._discreet(call) for call in message.calls)
        await conversation.keep(replace(message, calls=calls))

    def _discreet(self, call: ToolCall) -> ToolCall:
        """A call as it may be seen and kept."""
        scene, name = self._scene, call.name
        # A request may repeat calls of tools that are not offered this time.
        action = self._tools.actions.get(name) or scene.own.get(name) or scene.app.catalogue.find(name)
        placeholder = scene.app.redactor.placeholder
        return discreet(without(call, self._tools.secrets(name), placeholder), action, placeholder)

    def _new(self, kept: list[Message]) -> list[Message]:
        """What the request adds to what was said before: it may repeat all of that, or go on from it."""
        said = self._asked.said()
        redact = self._scene.app.redactor.text
        before = [(each.role, each.content) for each in kept if each.role in ("user", "assistant")]
        repeated = [(each.role, redact(each.content)) for each in said if each.role in ("user", "assistant")][
            : len(before)
        ]
        if before and repeated == before:
            left = len(before)
            for at, each in enumerate(said):
                left -= each.role in ("user", "assistant")
                if left == 0:
                    said = said[at + 1 :]
                    break
            said = [each for each in said if each.role != "tool" or each.call_id not in _answered(kept)]
        open_calls = {call.id: call for call in unanswered(kept)}
        for each in said:
            open_calls.pop(each.call_id or "", None)
        closed = [
            Message("tool", interrupted(call), call_id=id, name=call.name) for id, call in open_calls.items()
        ]
        return [*closed, *said]

    async def _converse(
        self, ctx: Context, transcript: list[Message], conversation: OpenConversation | None
    ) -> str:
        scene, asked, agent = self._scene, self._asked, self._scene.agent
        model = self._model = _Watched(_resolved(scene, asked.model), scene.app.clock.monotonic)
        belt = self._tools
        model.foreign = belt.foreign
        session = Session(
            id=ctx.invocation_id if conversation is None else conversation.id,
            agent=agent.name if agent else "",
            owner=ctx.caller,
            root=agent.folder if agent else None,
            kept={"approved": set(), "durable": False, "toolbox": []},
        )
        policy = Policy() if agent is None else agent.policy
        limits = replace(
            policy.limits if agent else Limits(), iterations=asked.iterations, tool_seconds=TOOL_SECONDS
        )
        policy = replace(policy, limits=limits, stop_on_rejection=False, dedupe_notice=False, wrap_up=False)
        token = SESSION.set(session)
        driver = self._driver = Driver(
            model,
            Toolset(scene.app, belt, agent.gates if agent else {}, ctx, session, None, TOOL_SECONDS),
            transcript,
            policy=policy,
            session=session,
            listener=self,
            monotonic=scene.app.clock.monotonic,
            brief=Brief(
                composed(agent.instructions if agent else "", *asked.system(), scene.instructions),
                asked.settled(agent.settings if agent else Settings()),
            ),
            keep=None if conversation is None else partial(self._keep, conversation),
        )
        try:
            return await self._driven(driver, conversation)
        finally:
            SESSION.reset(token)

    async def _driven(self, driver: Driver, conversation: OpenConversation | None) -> str:
        self._running = running = asyncio.ensure_future(driver.run())
        if self._stopped:
            running.cancel()
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait((running,))
            raise
        finally:
            self._usage = driver.account.usage if driver.account.usage.tokens else self._usage
        if running.cancelled():
            so_far = "".join(self._said)
            if conversation is not None and so_far:
                await self._keep(conversation, Message("assistant", so_far))
            return await self._cancelled(so_far)
        error = running.exception()
        if error is None:
            return await self._told(running.result())
        if isinstance(error, Ended):
            # The loop did not get this reply, so it has not counted it.
            self._usage = self._usage + error.reply.usage
            if conversation is not None:
                await self._keep(conversation, error.reply.message())
            return await self._over(error)
        raise error

    async def _belt(self) -> _Belt:
        """The tools that a model is told of: the agent's, those that the plugin named, and those only it knows."""
        scene, asked = self._scene, self._asked
        if scene.agent is None:
            return _Belt([], [each for each in asked.tools if isinstance(each, ToolSpec)])
        if not (asked.agent_tools or asked.tools):
            return _Belt([], [])
        whole = (await scene.agent.ready(scene.app)).actions
        if asked.agent_tools:
            return _Belt(list(whole.values()), [])
        known = {**scene.own, **whole}
        names = [each if isinstance(each, str) else each.name for each in asked.tools]
        chosen = {name: known[name] for name in names if name in known}
        foreign = [each for each in asked.tools if isinstance(each, ToolSpec) and each.name not in chosen]
        return _Belt(list(chosen.values()), foreign)

    # The ends.

    async def _told(self, outcome: Outcome) -> str:
        ask = outcome.clarification
        if ask is not None:
            question: dict[str, Any] = {"question": ask.question, "allow_multiple": ask.allow_multiple}
            if ask.options:
                question["options"] = list(ask.options)
            if self._streamed:
                await self._end("clarify")
                return self._whole(ask.question, "clarify", **question)
            return answers.error("clarify_requested", ask.question, **question, **self._gathered())
        if outcome.exit is Exit.iteration_cap:
            await self._end("max_iterations")
            words = f"The completion used up its {outcome.iterations} steps without an answer."
            partial = "".join(self._said) or self._last or self._model_words()
            return answers.error(
                "max_iterations_reached", words, partial_content=partial, **self._identified()
            )
        if outcome.exit is Exit.over_budget and outcome.reason == "context":
            await self._end("context_overflow")
            words = "The conversation does not fit into the model's window. Send less of it."
            return answers.error("context_overflow", words, **self._identified())
        if outcome.exit is Exit.over_budget:
            words = f"The agent's limit of {outcome.reason} is used up."
            return answers.error("inference_error", words, **self._identified())
        if outcome.exit is Exit.ended_by_surface:
            self._usage = Usage()
        await self._end("stop")
        return self._whole(outcome.text, "stop")

    async def _over(self, ended: Ended) -> str:
        reply = ended.reply
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.calls
        ]
        self._thinking = self._thinking and not calls
        for call in reply.calls if self._streamed else ():
            await self._emit({"tool_calls": [_chunk_call(call)]}, "tool_calls")
        await self._end(ended.finish)
        return self._whole(reply.text, ended.finish, calls=calls)

    async def _cancelled(self, partial: str) -> str:
        await self._end("cancelled")
        stream = self._asked.stream
        beside: dict[str, Any] = {
            "tool_calls_executed": self._executed(),
            "shared_artifacts": self._artifacts,
        }
        beside |= {"usage": self._told_usage() or {}, "stream_id": stream, "partial_content": partial}
        return answers.error("cancelled", CANCELLED, id=self.id, model=self._name(), **beside)

    async def _end(self, finish: str) -> None:
        """The last pieces of a stream: what was used, and why it ended."""
        if not self._streamed:
            return
        if self._usage.output:
            seconds = 0.0 if self._model is None else self._model.seconds
            speed = self._usage.output / seconds if seconds > 0 else 0.0
            usage = {"completion_tokens": self._usage.output, "tokens_per_second": round(speed, 3)}
            await self._emit({"usage": {**usage, "unclosed_reasoning": self._thinking}})
        await self._emit({}, finish)

    def _whole(self, text: str, finish: str, calls: Sequence[Any] = (), **beside: Any) -> str:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = list(calls)
        told: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion",
            "created": int(self._scene.app.wall()),
            "model": self._name(),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        usage = self._told_usage()
        if usage is not None or not self._streamed:
            told["usage"] = usage or {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return answers.spelled({**told, **self._gathered(), **beside})

    def _gathered(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        executed = self._executed()
        if executed:
            told["tool_calls_executed"] = executed
        if self._artifacts:
            told["shared_artifacts"] = self._artifacts
        return told

    def _executed(self) -> list[dict[str, str]]:
        """The calls that were run; what was declined or given again was not."""
        run = set() if self._driver is None else {id for _, id in self._driver.calls}
        return [{"name": name, "tool_call_id": id} for id, name in self._called.items() if id in run]

    def _identified(self) -> dict[str, Any]:
        return {**self._gathered(), "id": self.id, "model": self._name()}

    def _told_usage(self) -> dict[str, int] | None:
        usage = self._usage
        if not usage.tokens:
            return None
        return {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.tokens,
        }

    def _name(self) -> str:
        return "" if self._model is None else self._model.answering

    def _model_words(self) -> str:
        return "" if self._model is None else self._model.words


class _Watched(Model):
    """A model whose replies are looked at before the loop gets them."""

    def __init__(self, inner: Model, monotonic: Callable[[], float]) -> None:
        self._inner = inner
        self._monotonic = monotonic
        self.name = inner.name
        self.window = inner.window
        self.foreign: frozenset[str] = frozenset()
        #: What the model that answered is called, and what it said last.
        self.answering = inner.name
        self.words = ""
        #: How long it took to stream, in all steps.
        self.seconds = 0.0

    @property
    def priced(self) -> bool:
        return self._inner.priced

    async def reply(self, request: Request) -> Reply:
        return self._seen(await self._inner.reply(request))

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        pieces, began = self._inner.stream(request), self._monotonic()
        try:
            async for piece in pieces:
                yield self._seen(piece) if isinstance(piece, Reply) else piece
        finally:
            self.seconds += self._monotonic() - began
            closing = getattr(pieces, "aclose", None)
            if closing is not None:
                await closing()

    def _seen(self, reply: Reply) -> Reply:
        self.answering = reply.model or self.answering
        self.words = reply.text or self.words
        if any(call.name in self.foreign for call in reply.calls):
            calls = tuple(
                call if call.id else replace(call, id=f"call_{secrets.token_hex(12)}") for call in reply.calls
            )
            raise Ended(replace(reply, calls=calls), "tool_calls")
        if reply.stop == "length" and not reply.calls:
            raise Ended(reply, "length")
        return reply


class _Belt(Belt):
    """Tools that are run here, and the definitions of those that are not."""

    def __init__(self, tools: Sequence[Action[..., Any]], foreign: Sequence[ToolSpec]) -> None:
        super().__init__(tools)
        self._foreign = tuple(foreign)
        self.foreign = frozenset(each.name for each in foreign)

    def secrets(self, name: str) -> frozenset[str]:
        """What the definition of a tool that is not run here declares to be secret."""
        named = (each.parameters for each in self._foreign if each.name == name)
        return frozenset().union(*map(declared_secrets, named))

    def offer(self, session: Session | None) -> Offer:
        offer = super().offer(session)
        if not self._foreign:
            return offer
        whole = Offer(())
        from fairlead.agents.loop import estimates

        whole.specs = (*offer.specs, *self._foreign)
        whole.tokens = estimates.tools(whole.specs)
        return whole


def _resolved(scene: Scene, name: str) -> Model:
    models = scene.app.models
    if name in ("", "default"):
        return models.resolve(scene.agent.model if scene.agent is not None else None)
    if name != "foundation":
        return models.resolve(name, foreign=True)
    try:
        return models.resolve(name)
    except Failure as failure:
        if failure.kind is not Kind.not_found:
            raise
        return models.resolve("local")


def _chunk_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}


def _answered(said: Sequence[Message]) -> set[str | None]:
    return {each.call_id for each in said if each.role == "tool"}
