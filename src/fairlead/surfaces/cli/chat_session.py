"""`Chat`: a conversation at the keyboard, or one question from a pipe. What is shown is the screen's matter."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fairlead.agents.agent import CONVERSATION, Agent
from fairlead.agents.operator import OPERATOR, Operator
from fairlead.agents.running import CHAT
from fairlead.failures import Failure, Kind
from fairlead.failures import action as wire
from fairlead.failures.runtime import ToolDenied
from fairlead.runtime import App, Signal
from fairlead.runtime.identity import caller_of
from fairlead.surfaces.cli import chat_cards as cards
from fairlead.surfaces.cli import question as asked
from fairlead.surfaces.cli.call import SURFACE, started, stopped
from fairlead.surfaces.cli.chat_commands import COMMANDS, run_command
from fairlead.surfaces.cli.chat_engine import Engine
from fairlead.surfaces.cli.chat_keyboard import Keyboard
from fairlead.surfaces.cli.chat_operator import TerminalOperator, answer_prompt
from fairlead.surfaces.cli.chat_screen import Screen
from fairlead.surfaces.cli.console import BOLD, CYAN, DIM, harmless, harmless_line
from fairlead.surfaces.cli.outcome import Envelope

if TYPE_CHECKING:
    from fairlead.surfaces.cli.command import Options
    from fairlead.surfaces.cli.program import Program

_INTERRUPTED: Final = 130
_TERMINATED: Final = 143
_CLEAR: Final = "\r\x1b[2K"
_HISTORY: Final = "chat_history.jsonl"


@dataclass(frozen=True, slots=True)
class Talk:
    """With whom, and which conversation."""

    app: App
    agent: Agent
    #: The field of the agent's input that takes what is said.
    field: str
    conversation: str


@dataclass(slots=True)
class Spent:
    """What the turns of this chat have used."""

    turns: int = 0
    used: dict[str, float] = field(default_factory=lambda: {"input": 0, "output": 0, "cost": 0.0})

    def add(self, used: Mapping[str, Any]) -> None:
        self.turns += 1
        for name in self.used:
            self.used[name] += used.get(name) or 0


class Chat:
    """One run of the command."""

    def __init__(self, program: Program, talk: Talk, options: Options) -> None:
        self.program = program
        self.console = program.console
        self.talk = talk
        self.spent = Spent()
        self.owner = caller_of(*program.identity)
        self.over = False
        verbose = not {"--verbose", "-v"}.isdisjoint(options.on)
        thoughts = "--no-thoughts" not in options.on
        # Words of a typed answer are shown when they are read, as the data that they stand for.
        words = talk.agent.output is None
        self.screen = Screen(self.console, thoughts=thoughts, verbose=verbose, words=words)
        self._json = program.form == "ndjson"
        self._resume = "--resume" in options.on
        self._named = "--conversation" in options.values or self._resume
        #: What the agent asked, where the next line is to answer it.
        self._question: Mapping[str, Any] | None = None
        self._operator: Operator | None = None
        self._outcome = program.outcome("chat")

    def run(self) -> int:
        """Talk to the exit code."""
        # What tools print is not what the agent says.
        with Engine() as self.engine, redirect_stdout(self.console.stderr):
            try:
                self.engine.run(lambda signal: started(self.talk.app, signal))
                code = self._talked()
            except KeyboardInterrupt:
                self.console.say("")
                code = _INTERRUPTED
            except Failure as failure:
                if failure.kind is not Kind.cancelled:
                    raise
                code = _INTERRUPTED
            finally:
                clean = self.engine.run(lambda signal: stopped(self.talk.app, self.console))
        if self.engine.terminated and code in (0, _INTERRUPTED):
            return _TERMINATED
        return code if clean else code or 1

    def _talked(self) -> int:
        # What cannot work is told before somebody types a word.
        self.talk.app.models.resolve(self.talk.agent.model)
        if self._named:
            self._taken_up()
        if not self.console.stdin.isatty():
            return self._once()
        return self._turn_by_turn()

    def _taken_up(self) -> None:
        """Go on with a conversation that there is; a new id begins one."""
        conversations = self.talk.app.conversations
        if self._resume:
            latest = self.engine.run(
                lambda signal: conversations.page(self.owner, agent=self.talk.agent.name, limit=1)
            )
            if not latest:
                self._note("There is no conversation to resume: this begins one.")
                return
            self.use(latest[0].id)
        found = self.engine.run(lambda signal: self._state())
        if found is not None:
            self._question = found.get("awaiting")

    async def _state(self) -> dict[str, Any] | None:
        with suppress(Failure):
            about, _ = await self.talk.app.conversations.get(self.talk.conversation, self.owner)
            return about.state
        return None

    def use(self, conversation: str, awaiting: Mapping[str, Any] | None = None) -> None:
        """Go on with another conversation."""
        self.talk = replace(self.talk, conversation=conversation)
        self._question = awaiting

    def _note(self, text: str) -> None:
        """Tell the person something, where there is one."""
        if self.console.err_tty and not self._json:
            self.screen.line(self.console.err(text, DIM))

    # One question from a pipe.

    def _once(self) -> int:
        text = self.engine.typed(self._piped).strip()
        if not text:
            raise Failure(
                Kind.invalid_input,
                "There is nothing to answer: stdin is empty. Pipe a text, or use a terminal.",
            )
        self._note(f"Session {harmless_line(self.talk.conversation)}")
        envelope = self.engine.run(lambda signal: self._turn(text, signal))
        if self._json:
            return self._outcome.show(envelope)
        if envelope["ok"]:
            self._answer(envelope)
            return 0
        self.screen.ended(None)
        question = _question(envelope)
        if question is not None:
            self.console.say(asked.shown(question, self.console))
            self.console.say(f"Answer it with '{self.program.spelled} {self._again()}'.")
            return wire.exit_code(wire.parse(envelope["error"]))
        return self._outcome.show(envelope)

    def _piped(self) -> str:
        try:
            return self.console.stdin.read()
        except UnicodeDecodeError as exc:
            raise Failure(Kind.invalid_input, f"stdin is no text: {exc}.") from exc

    def _again(self) -> str:
        return f"chat {self.talk.agent.action.command_name} --conversation {self.talk.conversation}"

    # A conversation at the keyboard.

    def _turn_by_turn(self) -> int:
        self.keyboard = self._keyboard()
        if self.console.interactive:
            self._operator = TerminalOperator(self.console, self._line, self.screen.away)
        self._welcome()
        try:
            while not self.over:
                text = self._typed()
                if text is None:
                    break
                if text.startswith("/") and not text.startswith("//"):
                    self._commanded(text)
                elif text.strip():
                    self._said(text.removeprefix("/") if text.startswith("//") else text)
                if self.engine.terminated:
                    break
        finally:
            self.keyboard.close()
        return 0

    def _keyboard(self) -> Keyboard:
        from fairlead.store.opening import data_folder

        app = self.talk.app
        return Keyboard(
            self.console,
            data_folder() / _HISTORY,
            lambda text: app.redactor.text(text) != text,
            [f"/{name}" for name in COMMANDS],
        )

    def _welcome(self) -> None:
        agent, say, paint = self.talk.agent, self.console.say, self.console.err
        model = self.talk.app.models.resolve(agent.model).name
        about = f"· {harmless_line(model)} · conversation {harmless_line(self.talk.conversation)}"
        say(f"{paint(harmless_line(agent.name), BOLD)} {paint(about, DIM)}")
        say(paint("/help shows what there is, Ctrl-C interrupts, Ctrl-D leaves.", DIM))
        if self._named:
            run_command(self, "/history 2")
        if self._question is not None:
            say(asked.shown(self._question, self.console))

    def _typed(self) -> str | None:
        question = self._question
        prompt = f"{self.console.err('>', CYAN)} "
        self.console.say("")
        if question is not None:
            prompt = answer_prompt(question.get("options"), bool(question.get("allow_multiple")))
        return self.engine.typed(lambda: self.keyboard.message(prompt))

    async def _line(self, prompt: str) -> str | None:
        return await self.engine.asked(lambda: self.keyboard.line(prompt))

    def _commanded(self, text: str) -> None:
        try:
            run_command(self, text)
        except Failure as failure:
            self.console.say(harmless(failure.message))

    def _said(self, text: str) -> None:
        question, self._question = self._question, None
        if question is not None:
            meant = asked.meant(text.strip(), question)
            text = meant if isinstance(meant, str) else "\n".join(meant)
        envelope = self.engine.run(lambda signal: self._turn(text, signal))
        if self._json:
            self._outcome.show(envelope)
        elif envelope["ok"]:
            self._answer(envelope)
        else:
            self.screen.ended(None)
            self._failed(envelope)
        self._usage(envelope)

    def _failed(self, envelope: Envelope) -> None:
        self._question = _question(envelope)
        if self._question is not None:
            # It was asked when it came, and not answered then.
            self._note("It waits for your answer, which the next line is.")
        elif wire.parse(envelope["error"]).kind is Kind.cancelled:
            if self.console.can_redraw:
                self.console.say(_CLEAR, end="")  # of what the terminal shows for Ctrl-C
            self._note("Interrupted. What was said is kept.")
        elif envelope["error"].get("origin", {}).get("code") == ToolDenied.code:
            self._note("Declined. The turn has ended; say how to go on.")
        else:
            self._outcome.show(envelope)

    # A turn.

    async def _turn(self, text: str, signal: Signal) -> Envelope:
        """Say something, and show what comes of it."""
        OPERATOR.set(self._operator)
        self.screen.begin()
        drawing = asyncio.ensure_future(self.screen.drawn())
        talk = self.talk
        stream = talk.app.stream(
            talk.agent.action,
            {talk.field: text, CONVERSATION: talk.conversation},
            surface=SURFACE,
            user=self.program.identity.user,
            auth=self.program.identity.auth,
            metadata={CHAT: self._operator is not None},
            signal=signal,
            confirm=True,
        )
        envelope: Envelope = {}
        try:
            async with stream:
                async for event in stream:
                    if event["type"] == "result":
                        envelope = event["envelope"]
                    elif self._json:
                        self.console.write_json(event)
                    else:
                        self.screen.event(event)
        finally:
            drawing.cancel()
            self.screen.rest()
        return envelope

    def _answer(self, envelope: Envelope) -> None:
        data = envelope["data"]
        if self.talk.agent.output is None:
            self.screen.ended(data)
            return
        self.screen.ended(None)
        self._outcome.show(envelope)

    def _usage(self, envelope: Envelope) -> None:
        meta = envelope["meta"]
        used = meta.get("agent", {}).get("usage", {})
        self.spent.add(used)
        called = meta.get("agent", {}).get("toolCalls", ())
        calls = sum(each["name"] not in cards.QUIET for each in called)
        parts = [f"{calls} tool{'' if calls == 1 else 's'}"] if calls else []
        if envelope["ok"]:
            self._note(cards.usage_line(used, meta["durationMs"] / 1000, parts))


def _question(envelope: Envelope) -> Mapping[str, Any] | None:
    """What a run waits for, if that is why it ended."""
    details: Mapping[str, Any] = envelope.get("error", {}).get("details") or {}
    return details if "question" in details and CONVERSATION in details else None
