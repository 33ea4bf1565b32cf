"""The run of a task that a plugin dispatched: the agent, with what the plugin has it told and pinned to it.

A plugin can stop it in the middle. Then it ends as one that is completed, and what the plugin said to that is the
last word of the conversation.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fairlead._json import dumps
from fairlead.agents.agent import Agent
from fairlead.agents.loop.toolset import interrupted
from fairlead.agents.loop.turns import unanswered
from fairlead.agents.models.model import Message
from fairlead.agents.running import run
from fairlead.failures import Failure
from fairlead.plugins import sessions
from fairlead.runtime import App, Context


class Chat:
    """One run."""

    def __init__(self, app: App, agent: Agent, session: str, ctx: Context) -> None:
        self._app = app
        self._agent = agent
        self._session = session
        self._ctx = ctx
        self._task = "" if ctx.task is None else ctx.task.id

    async def go(self, prompt: str) -> str:
        """Run the agent to its answer, or until the plugin stops it."""
        if await self._stopped():
            await self._say([prompt], once=True)
            await self._say([await self._message()])
            return ""
        working = asyncio.ensure_future(run(self._agent, prompt, self._session, self._ctx))
        watching = asyncio.ensure_future(self._until_stopped())
        try:
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))
        finally:
            for each in (working, watching):
                each.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
        return await self._ended(working)

    async def _ended(self, working: asyncio.Future[Any]) -> str:
        if not working.cancelled():
            answer = working.result()
            if await self._stopped():
                await self._say([await self._message()])
            return answer if isinstance(answer, str) else dumps(answer)
        said: list[Message] = []
        with suppress(Failure):  # it was stopped before anything was said
            _, said = await self._app.conversations.get(self._session, self._ctx.caller)
        await self._say([await self._message()])
        words = [each.content for each in said if each.role == "assistant" and each.content]
        return words[-1] if words else ""

    async def _until_stopped(self) -> None:
        with self._app.store.listening(sessions.topic(self._session)) as bell:
            while not await self._stopped():
                await bell.rung(30.0)

    async def _stopped(self) -> bool:
        found = await self._app.store.read(lambda tx: sessions.run_of(tx, self._task))
        return found is not None and bool(found.stop)

    async def _message(self) -> str:
        found = await self._app.store.read(lambda tx: sessions.run_of(tx, self._task))
        return "" if found is None else found.message or ""

    async def _say(self, texts: list[str], *, once: bool = False) -> None:
        """Add what a person said to the conversation; with `once`, unless this task has said it before."""
        words = [each for each in texts if each]
        if not words:
            return
        about = (self._session, self._agent.name, self._ctx.caller)
        async with self._app.conversations.open(*about, task=self._task) as conversation:
            if once and conversation.state.get("task") == self._task:
                return
            conversation.state.pop("awaiting", None)
            conversation.state["task"] = self._task
            for call in unanswered(conversation.transcript):
                told = Message("tool", interrupted(call), call_id=call.id, name=call.name)
                conversation.transcript.append(told)
                await conversation.keep(told)
            for text in words:
                await conversation.keep(Message("user", text))
