"""`AgentWorker`: runs an agent anywhere, and serves it through a gateway. It only calls out; nothing calls in.

    async def answer(turn):
        yield "You said: "
        yield turn.message

    asyncio.run(AgentWorker("https://agents.example.com", "oag_...", "echo", answer).run())

One call after the other reads what there is to do, and says what it holds: that renews its lease, confirms what came,
and brings word of what was cancelled. A gateway that is away is tried again; nothing is lost or doubled meanwhile.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from fairlead._json import encode, loads
from fairlead.failures import Failure, Kind, from_exception
from fairlead.failures import action as action_wire
from fairlead.failures import gateway as wire
from fairlead.failures.redaction import DEFAULT
from fairlead.gateway.agent_turn import AgentTurn, Asked, Busy, Refused
from fairlead.runtime import App
from fairlead.runtime.durable import CURRENT
from fairlead.runtime.hooks import report
from fairlead.schema import NotJsonable, jsonable

if TYPE_CHECKING:
    import httpx

#: An async function of a turn that gives the answer, or an async generator of its pieces.
Handler = Callable[[AgentTurn], Any]

#: Seconds before a gateway that is away is tried again: at first, and at most.
_SOON: Final = 0.1
_LATER: Final = 5.0
#: Seconds that a worker without room waits for some before it only says what it holds.
_MOMENT: Final = 0.05
#: Seconds to connect, and that an answer may take beyond what was asked for.
_CONNECTING: Final = 10.0
_ANSWERING: Final = 20.0
#: Failures after which the same call may succeed.
_PASSING: Final = frozenset({Kind.unavailable, Kind.rate_limited, Kind.timeout, Kind.internal, Kind.busy})


class AgentWorker:
    """Runs one agent: `await worker.run()`, or `async with worker: ...`."""

    def __init__(
        self,
        url: str,
        key: str,
        name: str,
        handler: Handler,
        *,
        id: str | None = None,
        description: str = "",
        display_name: str | None = None,
        skills: Sequence[Mapping[str, Any]] = (),
        mode: str = "push",
        concurrency: int = 16,
        instance: str | None = None,
        lease: float = 30.0,
        attempts: int | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Args:
        url: Where the gateway is.
        key: An `oag_` key: the agent belongs to its owner.
        name: What the agent is called; its id, too, unless one is given.
        mode: `push` (turns run at the same time; without a worker, callers are told that the agent is offline),
            `queue` (one at a time, the rest waits, also while no worker is there) or `busy_reject` (one at a time,
            the rest is turned away).
        concurrency: Turns at once, at most.
        lease: Seconds without a word after which this worker is taken to be lost.
        attempts: How often a turn may take its worker down; by default 1, and 5 for `queue`.
        """
        self.id = id or name
        self._about: dict[str, Any] = {
            "id": self.id,
            "name": name,
            "description": description,
            "displayName": display_name or name,
            "skills": [dict(each) for each in skills],
            "mode": mode,
            "instance": instance or socket.gethostname(),
            "leaseSeconds": lease,
            **({} if attempts is None else {"attempts": attempts}),
        }
        self._handler = handler
        self._concurrency = concurrency
        self._http = _client(url, key, transport)
        self._lease: dict[str, Any] = {}
        #: By delivery.
        self._turns: dict[str, AgentTurn] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()
        self._draining = False
        self._loop: asyncio.Task[None] | None = None

    @classmethod
    def serving(cls, app: App, agent: str, url: str, key: str, **options: Any) -> AgentWorker:
        """A worker for an agent of an app: its action answers the turns, and its conversations are kept here."""
        action = app.get(agent)
        if action is None or "agent" not in action.metadata:
            raise Failure(Kind.unknown_action, f"The app has no agent {agent!r}.")
        options = {"description": action.description, "display_name": action.title, **options}
        return cls(url, key, options.pop("name", agent), _serving(app, action), **options)

    @property
    def busy(self) -> int:
        """How many turns it runs now."""
        return len(self._running)

    async def __aenter__(self) -> AgentWorker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Register the agent, and begin to take turns.

        Raises:
            Failure: the gateway refuses: the key is wrong, or the id is somebody else's.
        """
        self._lease = await self._surely("", self._about)
        self._loop = asyncio.ensure_future(self._work())

    async def run(self, patience: float = 30.0) -> None:
        """Serve until SIGTERM or SIGINT comes; turns that run then have so many seconds to end.

        Raises:
            Failure: the gateway refuses; or another worker has registered the agent.
        """
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        heard = []
        for each in (signal.SIGTERM, signal.SIGINT):
            with suppress(
                NotImplementedError, ValueError, RuntimeError
            ):  # no main thread, or not on this system
                loop.add_signal_handler(each, stopped.set)
                heard.append(each)
        waiting = asyncio.ensure_future(stopped.wait())
        try:
            starting = asyncio.ensure_future(self.start())
            await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return
            await starting
            assert self._loop is not None
            await asyncio.wait((self._loop, waiting), return_when=asyncio.FIRST_COMPLETED)
            if self._loop.done():
                await self._loop
        finally:
            waiting.cancel()
            for each in heard:
                loop.remove_signal_handler(each)
            await self.stop(patience)

    async def stop(self, patience: float = 0.0) -> None:
        """Take no more, wait so many seconds for what runs, then hand the rest back to be taken again."""
        self._draining = True
        self._freed.set()
        if self._running and patience:
            # The loop goes on meanwhile: leases are renewed, and cancels heard.
            await asyncio.wait(self._running.values(), timeout=patience)
        loop, self._loop = self._loop, None
        rest = list(self._running.values())
        for each in [*rest, *([] if loop is None else [loop])]:
            each.cancel()
        await asyncio.gather(*rest, *([] if loop is None else [loop]), return_exceptions=True)
        if self._lease:
            lease, self._lease = self._lease, {}
            try:
                await self._post("/unregister", {"leaseId": lease["leaseId"]})
            except Failure as failure:
                self._untold(failure, lease["leaseSeconds"])
        await self._http.aclose()

    def _untold(self, failure: Failure, seconds: float) -> None:
        """Say that the gateway does not know of the end. One that has another registration by now knows enough."""
        if failure.kind is not Kind.conflict:
            _warn(
                f"The gateway could not be told that the agent {self.id!r} stops, and takes it to be there for up to "
                f"{seconds:g} seconds more: {failure.message}"
            )

    async def wait(self) -> None:
        """Wait until it ends by itself. Raises a Failure when it does: another worker has registered the agent."""
        if self._loop is not None:
            await asyncio.shield(self._loop)

    async def _work(self) -> None:
        """Read, and begin what comes, until it is stopped."""
        try:
            while True:
                told = await self._read()
                for each in told["stopped"]:
                    self._stop(each["deliveryId"])
                for each in await self._confirmed(told["deliveries"]):
                    self._begin(Asked.of(each))
        except Failure:
            for delivery in list(self._turns):
                self._stop(delivery)
            raise

    async def _confirmed(self, deliveries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Say that turns have come; gives those to begin. One that began unconfirmed could be given to another."""
        new = {each["deliveryId"]: each for each in deliveries if each["deliveryId"] not in self._turns}
        if not new:
            return []
        asked = {"leaseId": self._lease["leaseId"], "deliveries": list(new)}
        told = await self._surely("/deliveries/ack", asked)
        return [new[id] for id in told["acknowledged"]]

    async def _read(self) -> dict[str, Any]:
        """Say what is held, and wait for what is new."""
        wait = float(self._lease["leaseSeconds"]) / 3
        if len(self._running) >= self._concurrency and not self._draining:
            # Most turns are short: then the next read asks for more.
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOMENT):
                    await self._freed.wait()
        self._freed.clear()
        room = 0 if self._draining else max(0, min(self._concurrency - len(self._running), 256))
        asked = {
            "leaseId": self._lease["leaseId"],
            "maxCount": room,
            "blockMs": int(wait * 1000),
            "holding": list(self._turns),
            "draining": self._draining,
        }
        reading = asyncio.ensure_future(self._surely("/deliveries/read", asked, wait))
        freed: asyncio.Task[Any] | None = None
        try:
            while True:
                freed = asyncio.ensure_future(self._freed.wait())
                await asyncio.wait((reading, freed), return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    return reading.result()
                self._freed.clear()
                if not room or self._draining:
                    # There is room now, or nothing new is wanted: this read says the wrong thing.
                    return {"stopped": [], "deliveries": []}
        finally:
            for each in (reading, freed):
                if each is not None and not each.done():
                    each.cancel()
                    await asyncio.wait((each,))

    def _stop(self, delivery: str) -> None:
        turn, running = self._turns.get(delivery), self._running.get(delivery)
        if turn is not None and running is not None:
            turn.stopped = True
            running.cancel()

    def _begin(self, asked: Asked) -> None:
        delivery = asked.delivery

        async def send(batch: str, events: list[dict[str, Any]]) -> bool:
            try:
                told = await self._said(delivery, "say", {"batch": batch, "events": events})
            except Failure as failure:
                report(
                    f"Something that the agent {self.id!r} said could not be sent: {failure.message}", DEFAULT
                )
                return True
            if told is None or told["stopped"]:
                self._stop(delivery)
                return False
            return True

        self._turns[delivery] = turn = AgentTurn(asked, send)
        self._running[delivery] = running = asyncio.ensure_future(self._run(turn))

        def ended(running: asyncio.Future[None]) -> None:
            del self._running[delivery], self._turns[delivery]
            turn.end()
            self._freed.set()
            error = None if running.cancelled() else running.exception()
            if error is not None:
                _warn(f"The gateway could not be told how a turn of the agent {self.id!r} ended: {error}")

        running.add_done_callback(ended)

    async def _run(self, turn: AgentTurn) -> None:
        ending = await self._ended(turn)
        if not turn.stopped:
            ending["events"] = await turn.settled()
            if not turn.stopped:
                await self._said(turn.asked_for.delivery, "reply", ending)

    async def _ended(self, turn: AgentTurn) -> dict[str, Any]:
        """Call the handler; gives how the turn ended, as a reply tells it."""
        try:
            given = await _called(self._handler, turn)
            return _completed(given)
        except Refused as failure:
            return {"status": "refused", "reason": failure.message}
        except Busy:
            return {"status": "busy"}
        except Failure as failure:
            if turn.question is not None:
                return turn.question
            return {"status": "failed", "error": failure.message}
        except Exception as error:
            report(f"The agent {self.id!r} failed.", DEFAULT)
            words = from_exception(error).message or type(error).__name__
            return {"status": "failed", "error": words[:1000]}

    async def _said(self, delivery: str, word: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Tell the gateway something of a delivery; None if this registration is over."""
        asked = {"leaseId": self._lease.get("leaseId", ""), **body}
        try:
            return await self._surely(f"/deliveries/{delivery}/{word}", asked)
        except Failure as failure:
            if word == "reply" and failure.kind in (Kind.too_large, Kind.invalid_input):
                words = f"The agent's answer could not be sent: {failure.message}"
                return await self._surely(
                    f"/deliveries/{delivery}/reply",
                    {"leaseId": asked["leaseId"], "status": "failed", "error": words},
                )
            if failure.kind is Kind.conflict:
                return None
            raise

    async def _surely(self, path: str, body: dict[str, Any], waits: float = 0.0) -> dict[str, Any]:
        """Call the gateway until it answers. Raises what it refuses for good."""
        pause = _SOON
        while True:
            try:
                return await self._post(path, body, waits)
            except Failure as failure:
                if failure.kind not in _PASSING:
                    raise
                if pause == _SOON:
                    # Gateways are restarted: where in our own code that is noticed tells nobody anything.
                    _warn(f"The agent {self.id!r} waits for its gateway: {failure.message}")
                await asyncio.sleep(max(failure.retry_after or 0.0, pause * (0.5 + random.random() / 2)))  # noqa: S311
                pause = min(pause * 2, _LATER)

    async def _post(self, path: str, body: dict[str, Any], waits: float = 0.0) -> dict[str, Any]:
        import httpx

        at = "/api/v1/runtime/registrations" + (f"/{self.id}{path}" if path else "")
        times = httpx.Timeout(_ANSWERING + waits, connect=_CONNECTING)
        try:
            answer = await self._http.post(at, content=_spelled(body), timeout=times)
        except (httpx.HTTPError, OSError) as exc:
            why = f": {exc}" if str(exc) else ""
            words = f"The gateway cannot be reached ({type(exc).__name__}{why})."
            raise Failure(Kind.unavailable, words, cause=exc) from exc
        try:
            told = loads(answer.content)
        except ValueError:
            told = None
        if answer.status_code < 300 and isinstance(told, dict) and isinstance(told.get("data"), dict):
            data: dict[str, Any] = told["data"]
            return data
        if isinstance(told, dict) and told.get("success") is False:
            failure = wire.parse(told)
            if answer.status_code >= 500:
                failure = Failure(Kind.unavailable, failure.message, retry_after=failure.retry_after)
            raise failure
        words = f"The gateway answered {answer.status_code}, and not as gateways do."
        raise Failure(Kind.unavailable if answer.status_code != 404 else Kind.not_found, words)


def _warn(words: str) -> None:
    logging.getLogger("fairlead").warning("%s", DEFAULT.text(words))


def _spelled(body: dict[str, Any]) -> bytes:
    """A body as gateways take it: without the character NUL, which no database keeps."""
    spelled = encode(body)
    return encode(_without_nul(body)) if b"\\u0000" in spelled else spelled


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(each) for key, each in value.items()}
    return [_without_nul(each) for each in value] if isinstance(value, list) else value


def _client(url: str, key: str, transport: Any) -> httpx.AsyncClient:
    try:
        import httpx
    except ImportError as exc:
        words = "An AgentWorker needs httpx, which is not installed: pip install 'fairlead[client]'."
        raise Failure(Kind.misconfigured, words, cause=exc) from exc
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    # Each turn may be saying something while another is read.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    return httpx.AsyncClient(base_url=url, headers=headers, transport=transport, limits=limits)


async def _called(handler: Handler, turn: AgentTurn) -> Any:
    """The whole of what a handler gives. Pieces are said as they come."""
    given = handler(turn)
    if inspect.isawaitable(given):
        given = await given
    if not hasattr(given, "__aiter__"):
        return given
    pieces: list[str] = []
    try:
        async for piece in given:
            if not isinstance(piece, str):
                kind = type(piece).__name__
                raise Failure(Kind.invalid_output, f"An agent's pieces are texts, and this one is a {kind}.")
            pieces.append(piece)
            turn.say(piece)
            await turn.room()
    finally:
        close = getattr(given, "aclose", None)
        if close is not None:
            await close()
    return "".join(pieces)


def _completed(given: Any) -> dict[str, Any]:
    if isinstance(given, str) or given is None:
        return {"status": "completed", "text": given or ""}
    try:
        return {"status": "completed", "data": jsonable(given)}
    except NotJsonable as exc:
        return {"status": "failed", "error": f"The agent's answer is neither text nor JSON: {exc}"}


def _serving(app: App, action: Any) -> Handler:
    """A handler that has an agent of an app take the turn, as a task of its own would."""

    async def handler(turn: AgentTurn) -> Any:
        CURRENT.set(turn)
        stream = app.stream(
            action,
            {"prompt": turn.message, "conversation": turn.context_id},
            user={"id": turn.asked_for.caller},
            metadata={**turn.metadata, "taskId": turn.id},
        )
        async with stream as events:
            async for event in events:
                if event["type"] == "delta":
                    turn.say(event["data"])
                elif event["type"] == "activity":
                    _active(turn, event)
                elif event["type"] == "result":
                    envelope = event["envelope"]
                    if envelope["ok"]:
                        return envelope["data"]
                    raise action_wire.parse(envelope)
                await turn.room()
        raise AssertionError("a stream ends with a result")

    return handler


def _active(turn: AgentTurn, event: Mapping[str, Any]) -> None:
    data = event.get("data") or {}
    if event["kind"] == "thinking":
        turn.think(str(data.get("text", "")))
    else:
        turn.activity(event["kind"], event["title"], event.get("detail"), **data)
