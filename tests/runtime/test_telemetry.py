"""Spans and metrics through the real OpenTelemetry SDK."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fairlead import App, Context, Failure, Kind


class _Spans(InMemorySpanExporter):
    """Takes them while a test looks at them: whatever this process does later is traced, too."""

    listening = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return super().export(spans) if self.listening else SpanExportResult.SUCCESS


_spans = _Spans()
_reader = InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def _sdk() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([_reader]))


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    _spans.listening = True
    yield _spans
    _spans.listening = False
    _spans.clear()


def finished(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def points(name: str) -> list[Any]:
    data = _reader.get_metrics_data()
    if data is None:
        return []
    return [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
    ]


def board() -> App:
    app = App("x")

    @app.action(version="2.0.0")
    async def add(a: int) -> int:
        """Add."""
        return a + 1

    @app.action
    async def fail() -> None:
        """Fail."""
        raise Failure(Kind.conflict, "password=hunter2hunter2")

    @app.action
    async def outer(ctx: Context) -> Any:
        """Ask."""
        return await ctx.invoke("add", {"a": 1})

    @app.action
    def threaded() -> str:
        """Say which span is current."""
        return format(trace.get_current_span().get_span_context().span_id, "x")

    return app


async def test_a_call_is_a_span_with_its_facts(spans: InMemorySpanExporter) -> None:
    await board().invoke("add", {"a": 1}, surface="json", invocation_id="i-1")
    span = finished(spans)["fairlead add"]
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "fairlead.action": "add",
        "fairlead.action.version": "2.0.0",
        "fairlead.surface": "json",
        "fairlead.invocation_id": "i-1",
        "fairlead.replayed": False,
    }
    assert span.status.is_ok or span.status.is_unset


async def test_a_failure_marks_its_span_and_tells_no_secret(spans: InMemorySpanExporter) -> None:
    await board().invoke("fail")
    span = finished(spans)["fairlead fail"]
    assert span.attributes is not None
    assert span.attributes["fairlead.failure.kind"] == "conflict"
    assert span.attributes["fairlead.failure.code"] == "CONFLICT"
    assert not span.status.is_ok
    assert "hunter2" not in span.to_json()


async def test_a_call_inside_a_call_is_a_child(spans: InMemorySpanExporter) -> None:
    await board().invoke("outer")
    told = finished(spans)
    inner, outer = told["fairlead add"], told["fairlead outer"]
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert outer.parent is None


async def test_the_span_is_current_in_the_body_and_in_its_thread(spans: InMemorySpanExporter) -> None:
    result = await board().invoke("threaded")
    span = finished(spans)["fairlead threaded"]
    assert span.context is not None
    assert result.data == format(span.context.span_id, "x")
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_call_joins_the_callers_span(spans: InMemorySpanExporter) -> None:
    tracer = trace.get_tracer("test")
    with tracer.start_as_current_span("request") as parent:
        await board().invoke("add", {"a": 1})
        assert trace.get_current_span() is parent
    assert finished(spans)["fairlead add"].parent == parent.get_span_context()


async def test_streams_and_cancelled_calls_end_their_spans(spans: InMemorySpanExporter) -> None:
    import asyncio

    app = App("x")
    started = asyncio.Event()

    @app.action
    async def wait(ctx: Context) -> None:
        """Wait."""
        await ctx.logger.info("x")
        started.set()
        await asyncio.Event().wait()

    async with app.stream("wait") as stream:
        await anext(stream)
    assert finished(spans)["fairlead wait"].attributes["fairlead.failure.kind"] == "cancelled"  # type: ignore[index]
    spans.clear()
    task = asyncio.create_task(app.invoke("wait"))
    started.clear()
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "fairlead wait" in finished(spans)


async def test_calls_durations_and_failures_are_counted(spans: InMemorySpanExporter) -> None:
    app = App("x")

    @app.action
    async def counted(fail: bool) -> None:
        """Count."""
        if fail:
            raise Failure(Kind.upstream, "x")

    for fail in (False, False, True):
        await app.invoke("counted", {"fail": fail}, surface="json")
    calls = {
        point.attributes.get("fairlead.failure.kind"): point
        for point in points("fairlead.invocations")
        if point.attributes["fairlead.action"] == "counted"
    }
    assert {kind: point.value for kind, point in calls.items()} == {None: 2, "upstream": 1}
    assert calls[None].attributes["fairlead.surface"] == "json"
    durations = [
        point
        for point in points("fairlead.invocation.duration")
        if point.attributes["fairlead.action"] == "counted"
    ]
    assert sum(point.count for point in durations) == 3


async def test_a_replay_is_marked(spans: InMemorySpanExporter) -> None:
    app = App("x")
    app.add(lambda: 1, name="act", description="Act.", side_effects="write")
    for _ in range(2):
        await app.invoke("act", idempotency_key="k")
    marks = [span.attributes["fairlead.replayed"] for span in spans.get_finished_spans() if span.attributes]
    assert marks == [False, True]


def test_without_the_sdk_nothing_is_loaded_and_calls_work() -> None:
    program = """
        import asyncio, importlib.abc, sys

        class Missing(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.partition(".")[0] == "opentelemetry":
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Missing())
        from fairlead import App
        app = App("x")
        @app.action
        async def ping() -> str:
            "Ping."
            return "pong"
        print(asyncio.run(app.invoke("ping")).data)
        print(any(name.startswith("opentelemetry") for name in sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["pong", "False"], done.stderr
