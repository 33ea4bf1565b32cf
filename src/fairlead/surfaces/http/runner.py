"""Carrying out calls for requests: who calls and what else is known of it go in, envelopes as bytes come out."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Coroutine, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from fairlead._json import encode
from fairlead.actions import Action
from fairlead.failures import Failure, Issue, wire
from fairlead.failures import action as action_wire
from fairlead.failures.action import ValidationError
from fairlead.runtime import Event, InvokeOptions, Result, Runtime
from fairlead.surfaces.auth import Caller
from fairlead.surfaces.http.batch import read_batch, run_batch
from fairlead.surfaces.http.call import Call, read_call, with_key
from fairlead.surfaces.http.directory import Directory
from fairlead.surfaces.http.disconnect import while_connected
from fairlead.surfaces.http.envelopes import Plain, Written, write
from fairlead.surfaces.http.exchange import Exchange
from fairlead.surfaces.http.metrics import Metrics, Series
from fairlead.surfaces.http.stream import send_events
from fairlead.surfaces.http.tracing import trace_of, traced
from fairlead.surfaces.refusal import refusal

#: How a call is counted that its client did not wait for.
_LEFT = "CANCELLED"


#: A request's JSON, and who sent it.
Read = tuple[Any, Caller]


class Line(NamedTuple):
    """What is prepared for the calls of one action."""

    series: Series
    plain: Plain


class Runner:
    """Runs the calls of one surface, and counts them."""

    def __init__(
        self,
        runtime: Runtime,
        surface: str,
        directory: Directory,
        max_response: int | None,
        keep_alive: float,
    ) -> None:
        self._runtime = runtime
        self._surface = surface
        self._directory = directory
        self._max_response = max_response
        self._keep_alive = keep_alive
        self._lines: dict[str, Line] = {}
        self.metrics = Metrics()

    async def invoke(self, exchange: Exchange, name: str, reading: Awaitable[Read]) -> None:
        """Make the call that is being read, and answer with its envelope."""
        members, caller = await reading
        action = self._directory.find(name, caller.hides)
        call = self._call(exchange, members, action)
        id = exchange.invocation_id()
        series, plain = self._lines.get(action.name) or self._line(action.name)
        series.in_flight += 1
        try:
            result = await while_connected(
                self._invocation(exchange, action, call, caller, id), exchange.receive
            )
        except BaseException:
            series.ended(_LEFT, 0.0)
            raise
        body = plain.write(result, id)
        if body is not None and not call.warnings and (self._max_response or len(body)) >= len(body):
            series.ended(None, result.duration)
            await exchange.answer(200, body)
            return
        body, failure, envelope = self.write(result.to_dict(), result.failure, call)
        series.ended(_code(failure), result.duration)
        if failure is None:
            await exchange.answer(200, body)
        else:
            await exchange.fail(failure, envelope)

    async def batch(self, exchange: Exchange, reading: Awaitable[Read], most: int, width: int) -> None:
        """Make the calls that are being read, and answer with their envelopes."""
        members, caller = await reading
        if b"idempotency-key" in exchange.headers:
            message = "A batch has no key of its own: give each call its idempotencyKey."
            raise ValidationError(issues=[Issue(("Idempotency-Key",), "unsupported", message)])
        running = run_batch(read_batch(members, most), lambda item: self._one(exchange, item, caller), width)
        answers = await while_connected(running, exchange.receive)
        await exchange.answer(200, b'{"ok":true,"results":[%b]}' % b",".join(answers))

    async def _one(self, exchange: Exchange, item: Any, caller: Caller) -> bytes:
        """One call of a batch; what is wrong with it is its own answer."""
        named = None
        try:
            call = read_call(item, None)
            named = call.action
            action = self._directory.find(named, caller.hides)
        except Failure as refused:
            return encode(refusal(refused, self._surface, self._runtime, named))
        series = (self._lines.get(action.name) or self._line(action.name)).series
        series.in_flight += 1
        try:
            result = await self._invocation(exchange, action, call, caller, None)
        except BaseException:
            series.ended(_LEFT, 0.0)
            raise
        body, failure, _ = self.write(result.to_dict(), result.failure, call)
        series.ended(_code(failure), result.duration)
        return body

    async def stream(self, exchange: Exchange, name: str, reading: Awaitable[Read]) -> None:
        """Make the call that is being read, and send what it says as it says it."""
        members, caller = await reading
        action = self._directory.find(name, caller.hides)
        call = self._call(exchange, members, action)
        ending = Ending(self, call)
        trace, metadata = _known(exchange, call, caller)
        events = self._runtime.stream(
            action,
            call.input,
            surface=self._surface,
            invocation_id=exchange.invocation_id(),
            user=caller.user,
            auth=caller.auth,
            metadata=metadata,
            timeout=call.timeout,
            confirm=call.confirm,
            idempotency_key=call.idempotency_key,
        )
        sending = send_events(exchange, action.name, aiter(events), ending, self._keep_alive)
        # A quiet stream keeps what it holds for long, so what the call itself holds is let go here.
        call.input = None
        del members, reading, caller, metadata, events
        series = (self._lines.get(action.name) or self._line(action.name)).series
        series.in_flight += 1
        started = perf_counter()
        try:
            unsaid = await (traced(trace, sending) if trace else sending)
            if unsaid is not None:
                _, failure, envelope = self.write(unsaid, action_wire.parse(unsaid), call)
                ending.code = _code(failure)
        finally:
            series.ended(ending.code, perf_counter() - started)
        if unsaid is not None and failure is not None:
            await exchange.fail(failure, envelope)

    def _call(self, exchange: Exchange, members: Any, action: Action[..., Any]) -> Call:
        call = read_call(members, action)
        key = exchange.headers.get(b"idempotency-key")
        return call if key is None else with_key(call, key)

    def _line(self, action: str) -> Line:
        self._lines[action] = line = Line(self.metrics.of(action), Plain(action, self._surface))
        return line

    def _invocation(
        self, exchange: Exchange, action: Action[..., Any], call: Call, caller: Caller, id: str | None
    ) -> Coroutine[Any, Any, Result]:
        trace, metadata = _known(exchange, call, caller)
        # Most calls give none of the others, and each that is given costs.
        options: InvokeOptions = {}
        if id is not None:
            options["invocation_id"] = id
        if metadata is not None:
            options["metadata"] = metadata
        if call.timeout is not None:
            options["timeout"] = call.timeout
        if call.confirm is not None:
            options["confirm"] = call.confirm
        invocation = self._runtime.invoke(
            action,
            call.input,
            surface=self._surface,
            user=caller.user,
            auth=caller.auth,
            idempotency_key=call.idempotency_key,
            **options,
        )
        if trace and "opentelemetry.sdk" in sys.modules:
            return traced(trace, invocation)
        return invocation

    def write(self, envelope: dict[str, Any], failure: Failure | None, call: Call) -> Written:
        """An envelope as this surface sends it."""
        return write(envelope, failure, call.warnings, self._max_response, self._runtime.redactor)


class Ending:
    """Writes the last event of a stream, and knows how the call is counted."""

    __slots__ = ("_call", "_runner", "code")

    def __init__(self, runner: Runner, call: Call) -> None:
        self._runner = runner
        self._call = call
        self.code: str | None = _LEFT

    def __call__(self, event: Event) -> bytes:
        told = event["envelope"]
        failure = None if told["ok"] else action_wire.parse(told)
        body, failure, _ = self._runner.write(told, failure, self._call)
        self.code = _code(failure)
        return b'{"type":"result","envelope":%b}' % body


def _code(failure: Failure | None) -> str | None:
    return None if failure is None else wire.word(failure, "action")


def _known(
    exchange: Exchange, call: Call, caller: Caller
) -> tuple[dict[str, str] | None, Mapping[str, Any] | None]:
    """The trace, and what is known beside the input: the edge's word before the request's, that before the body's."""
    headers = exchange.headers
    if b"traceparent" not in headers and b"x-request-id" not in headers and not caller.metadata:
        return None, call.metadata
    trace = trace_of(headers)
    sent = exchange.sent_id
    request = trace if sent is None else {**trace, "requestId": sent.decode()}
    return trace, {**(call.metadata or {}), **request, **caller.metadata}
