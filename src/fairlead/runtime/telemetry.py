"""Spans and metrics through OpenTelemetry. Without its SDK there is nothing to tell, and nothing is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.runtime.context import Context
from fairlead.runtime.result import Result

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context as OtelContext
    from opentelemetry.trace import Span

    Started = tuple[Span, Token[OtelContext]]


class Telemetry:
    """One span for each invocation; count, duration and failures as metrics."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace

        self._tracer = trace.get_tracer("fairlead")
        meter = metrics.get_meter("fairlead")
        self._calls = meter.create_counter("fairlead.invocations", description="Calls of actions.")
        self._duration = meter.create_histogram(
            "fairlead.invocation.duration", unit="s", description="How long calls took."
        )

    def begin(self, context: Context) -> Started:
        from opentelemetry import context as current
        from opentelemetry import trace

        span = self._tracer.start_span(f"fairlead {context.action.name}", attributes=_attributes(context))
        return span, current.attach(trace.set_span_in_context(span))

    def end(self, started: Started, context: Context, result: Result) -> None:
        from opentelemetry import context as current
        from opentelemetry.trace import StatusCode

        span, token = started
        current.detach(token)
        labels: dict[str, Any] = {"fairlead.action": result.action, "fairlead.surface": context.surface}
        if result.failure is not None:
            labels["fairlead.failure.kind"] = str(result.failure.kind)
            span.set_attribute("fairlead.failure.kind", str(result.failure.kind))
            span.set_attribute("fairlead.failure.code", result.failure.code)
            span.set_status(StatusCode.ERROR, str(result.failure.kind))
        span.set_attribute("fairlead.replayed", result.replayed)
        span.end()
        self._calls.add(1, labels)
        self._duration.record(result.duration, labels)


def _attributes(context: Context) -> dict[str, Any]:
    return {
        "fairlead.action": context.action.name,
        "fairlead.action.version": context.action.version,
        "fairlead.surface": context.surface,
        "fairlead.invocation_id": context.invocation_id,
    }
