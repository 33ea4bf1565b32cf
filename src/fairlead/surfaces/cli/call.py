"""One call of an action from the command line: run it, show what it says, and tell how it ended."""

from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from fairlead.actions import Action
from fairlead.failures import Failure, Kind, from_exception
from fairlead.runtime import App, Signal
from fairlead.surfaces.cli import interrupts, render
from fairlead.surfaces.cli.arguments import Request
from fairlead.surfaces.cli.console import YELLOW, Console, harmless
from fairlead.surfaces.cli.identity import Identity
from fairlead.surfaces.cli.live import Live
from fairlead.surfaces.cli.outcome import Envelope, Outcome
from fairlead.surfaces.cli.prompt import ask, typed_line
from fairlead.surfaces.refusal import refusal, writable

if TYPE_CHECKING:
    from fairlead.surfaces.cli.chat_screen import Screen

SURFACE = "cli"


class Call:
    """An action, a request and someone to answer."""

    def __init__(
        self, app: App, action: Action[..., Any], request: Request, identity: Identity, outcome: Outcome
    ) -> None:
        self._app = app
        self._action = action
        self._request = request
        self._identity = identity
        self._outcome = outcome
        self._console = outcome.console
        self._live = Live(self._console, request.verbose)
        self._form = outcome.form
        self._chunks: list[Any] = []
        self._unread: OSError | None = None
        #: Shows what an agent says and does.
        self._screen: Screen | None = None
        self._drawing: asyncio.Task[None] | None = None

    def run(self) -> int:
        quiet_tracebacks(self._console)
        # What the action prints is not its result.
        with redirect_stdout(self._console.stderr):
            return interrupts.run(self._main)

    async def _main(self, signal: Signal) -> int:
        # Where nobody has imported agents there are none, and nobody pays for them.
        if self._console.interactive and "fairlead.agents.agent" in sys.modules:
            self._attend(signal)
        try:
            await started(self._app, signal)
            envelope = writable(await self._confirmed(signal))
        except Failure as failure:
            envelope = refusal(failure, SURFACE, self._app, self._action.name)
        finally:
            self._live.clear()
            if self._screen is not None:
                self._screen.rest()
            clean = await stopped(self._app, self._console)
        for warning in envelope["meta"].get("warnings", ()):
            self._live.log("warn", warning)
        code = 0 if self._said(envelope) else self._outcome.show(envelope)
        return code if clean else code or 1

    def _attend(self, signal: Signal) -> None:
        """Have agents ask the person at the terminal."""
        from fairlead.agents.operator import OPERATOR
        from fairlead.surfaces.cli.chat_operator import TerminalOperator

        async def line(prompt: str) -> str | None:
            self._console.say(prompt, end="")
            typed = await typed_line(self._console, signal)
            if typed == "":
                self._console.say("")  # no line ending came from the terminal
            return typed or None

        OPERATOR.set(TerminalOperator(self._console, line, lambda: self._talking().away()))

    def _talking(self) -> Screen:
        if self._screen is None:
            from fairlead.surfaces.cli.chat_screen import Screen

            # Words that are not the result, but a form of it, are shown when they are read.
            words = self._form == "people" and self._console.out_tty and _is_text(self._action)
            self._screen = Screen(self._console, verbose=self._request.verbose, words=words)
            self._drawing = asyncio.ensure_future(self._screen.drawn())
        return self._screen

    def _said(self, envelope: Envelope) -> bool:
        """Show the rest of an answer of which the beginning was shown; tells whether that is all."""
        if self._drawing is not None:
            self._drawing.cancel()
        if self._screen is None or self._form != "people" or not envelope["ok"]:
            return False
        if not isinstance(envelope["data"], str) or not _is_text(self._action):
            return False
        self._screen.ended(envelope["data"])
        return True

    async def _confirmed(self, signal: Signal) -> Envelope:
        """The call's envelope; someone at a terminal is asked first when the action wants that."""
        envelope = await self._call(signal, self._request.confirm)
        token = _token(envelope)
        if token is None or self._request.confirm is not None or not self._console.interactive:
            return envelope
        shown = self._app.redactor.value(self._request.input)
        if await ask(self._action, shown, self._console, signal):
            return await self._call(signal, token)
        if signal.cancelled:
            raise Failure(Kind.cancelled, signal.reason)
        raise Failure(Kind.refused_by_user, "Not confirmed: nothing was done.")

    async def _call(self, signal: Signal, confirm: bool | str | None) -> Envelope:
        request = self._request
        envelope: Envelope = {}
        stream = self._app.stream(
            self._action,
            request.input,
            surface=SURFACE,
            user=self._identity.user,
            auth=self._identity.auth,
            signal=signal,
            timeout=request.timeout,
            confirm=confirm,
            idempotency_key=request.idempotency_key,
        )
        async with stream:
            async for event in stream:
                if event["type"] == "result":
                    envelope = event["envelope"]
                else:
                    self._event(event, signal)
        if self._unread is not None:
            raise self._unread
        if envelope["ok"] and self._chunks:
            if self._collects:
                envelope["data"] = self._chunks if envelope["data"] is None else envelope["data"]
            elif envelope["data"] == self._chunks:
                envelope["data"] = None  # each was shown as it came
        return envelope

    def _event(self, event: dict[str, Any], signal: Signal) -> None:
        if self._form == "ndjson":
            self._write(self._console.json(event), signal)
            if self._console.out_tty:
                return  # whoever reads the lines there sees each event already
        if event["type"] in ("delta", "activity"):
            if self._form != "ndjson":
                self._live.clear()
                self._talk(event, signal)
        elif event["type"] != "chunk":
            if self._screen is not None:
                self._screen.rest()
            self._live.event(event)
        else:
            self._chunk(event["data"], signal)

    @property
    def _collects(self) -> bool:
        """Whether the items of a stream are shown together, in the end."""
        return self._form in ("json", "table")

    def _chunk(self, data: Any, signal: Signal) -> None:
        if self._form == "ndjson":
            return
        # With a key, the result lists what was shown already.
        if self._collects or self._request.idempotency_key is not None:
            self._chunks.append(data)
        if not self._collects:
            self._live.clear()
            self._write(render.line(data, self._console), signal)

    def _talk(self, event: dict[str, Any], signal: Signal) -> None:
        if self._unread is not None:
            return
        try:
            self._talking().event(event)
        except OSError as exc:
            self._unread = exc
            signal.cancel("Nobody reads the output any more.")

    def _write(self, line: str, signal: Signal) -> None:
        """Write a line of a running action; when nobody gets it any more, the action is cancelled in order."""
        if self._unread is not None:
            return
        try:
            self._console.write(line + "\n")
        except OSError as exc:
            self._unread = exc
            signal.cancel("Nobody reads the output any more.")


def call(app: App, action: Action[..., Any], request: Request, identity: Identity, outcome: Outcome) -> int:
    """Call an action to the exit code."""
    return Call(app, action, request, identity, outcome).run()


async def started(app: App, signal: Signal) -> None:
    """Start the app's services; a cancel ends the wait."""
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(app.start())

    def give_up() -> None:
        loop.call_soon_threadsafe(starting.cancel)

    unsubscribe = signal.subscribe(give_up)
    try:
        await starting
    except asyncio.CancelledError:
        raise Failure(Kind.cancelled, signal.reason) from None
    except Exception as exc:
        raise from_exception(exc) from exc
    finally:
        unsubscribe()


async def stopped(app: App, console: Console) -> bool:
    """Stop the app's services, and say so when one of them fails to."""
    try:
        await app.stop()
    except (
        Exception
    ) as exc:  # a service of the developer's: whatever it raises is told, and the result still is
        message = harmless(app.redactor.text(str(exc)))
        console.say(f"{console.err('warning:', YELLOW)} a service did not stop cleanly: {message}")
        return False
    return True


def _is_text(action: Action[..., Any]) -> bool:
    """Whether an action's result is a text, or may be."""
    return action.output is None or action.output.json_schema.get("type") == "string"


def _token(envelope: Envelope) -> str | None:
    """The token that confirms the call, if that is what it lacks."""
    error = envelope.get("error") or {}
    token = error.get("details", {}).get("confirmation", {}).get("code")
    return token if isinstance(token, str) else None


def quiet_tracebacks(console: Console) -> None:
    """Tracebacks that the runtime logs are for developers: shown on request, or where logging is set up."""
    import logging

    logger = logging.getLogger("fairlead")
    if not console.debug and not logger.handlers:
        logger.addHandler(logging.NullHandler())
