"""One trace from the caller's span over the submit to each attempt."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from dtq_engine import Dtq, Snooze, TaskContext, otel
from dtq_engine.worker import Worker
from tests.recipes.conftest import Cook

Start = Callable[..., Worker]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Where the finished spans go."""
    return InMemorySpanExporter()


@pytest.fixture
def tracer(app: Dtq, exporter: InMemorySpanExporter) -> trace.Tracer:
    """The caller's tracer; the app is instrumented for the same provider."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.instrument(app, provider)
    return provider.get_tracer("shop")


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


@pytest.mark.drains
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_submit_and_attempts_belong_to_the_callers_trace(
    app: Dtq, start: Start, exporter: InMemorySpanExporter, tracer: trace.Tracer, kind: str
) -> None:
    def work(ctx: TaskContext) -> str:
        with tracer.start_as_current_span("inside"):
            if ctx.attempt == 1:
                raise ValueError("once more")
        return ctx.headers["traceparent"]

    async def work_async(ctx: TaskContext) -> str:
        await asyncio.sleep(0)
        return work(ctx)

    task = app.task("work")(work if kind == "sync" else work_async)
    start()
    with tracer.start_as_current_span("request") as request:
        handle = task.submit()
    traceparent = str(handle.result(timeout=10))
    [submit] = spans(exporter, "submit work")
    failed, good = spans(exporter, "run work")
    inner, _ = spans(exporter, "inside")
    assert {span.context.trace_id for span in (submit, failed, good, inner)} == {request.get_span_context().trace_id}
    assert parent_of(submit) == request.get_span_context().span_id
    assert parent_of(failed) == parent_of(good) == submit.context.span_id
    assert parent_of(inner) == failed.context.span_id
    assert f"{submit.context.span_id:016x}" in traceparent
    assert (submit.kind, good.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert good.attributes is not None
    assert failed.attributes is not None
    assert (good.attributes["messaging.message.id"], good.attributes["dtq.attempt"]) == (handle.id, 2)
    assert (failed.status.status_code, good.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert failed.status.description == "ValueError: once more"
    assert [event.name for event in failed.events] == ["exception"]


@pytest.mark.drains
def test_a_batch_is_one_span_and_each_task_a_child_of_it(
    app: Dtq, start: Start, exporter: InMemorySpanExporter, tracer: trace.Tracer
) -> None:
    @app.task("work")
    def work() -> None: ...

    start()
    for answer in app.submit_many([work.prepare() for _ in range(3)]):
        app.handle(answer.id).result(timeout=10)
    [submit] = spans(exporter, "submit work")
    assert submit.attributes is not None
    assert submit.attributes["messaging.batch.message_count"] == 3
    assert [parent_of(span) for span in spans(exporter, "run work")] == [submit.context.span_id] * 3


@pytest.mark.drains
def test_a_task_that_is_put_off_is_no_error(
    app: Dtq, start: Start, exporter: InMemorySpanExporter, tracer: trace.Tracer
) -> None:
    turns: list[int] = []

    @app.task("later")
    def later() -> None:
        turns.append(1)
        if len(turns) == 1:
            raise Snooze(0)

    start()
    later.submit().result(timeout=10)
    assert [span.status.status_code for span in spans(exporter, "run later")] == [StatusCode.UNSET] * 2
    assert [event.name for event in spans(exporter, "run later")[0].events] == ["snooze"]


@pytest.mark.drains
def test_a_task_from_a_process_without_traces_begins_one(
    app: Dtq, start: Start, exporter: InMemorySpanExporter, tracer: trace.Tracer
) -> None:
    @app.task("work")
    def work() -> None: ...

    stranger = Dtq(app.settings)
    start()
    stranger.named("work").submit().result(timeout=10)
    stranger.close()
    [span] = spans(exporter, "run work")
    assert span.parent is None


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
import dtq_engine.otel
try:
    dtq_engine.otel.instrument(dtq_engine.Dtq())
except dtq_engine.ConfigurationError as error:
    print(error)
"""


def test_without_opentelemetry_a_sentence_says_how_to_get_it() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("OpenTelemetry is not installed: run pip install 'dtq[otel]'")


@pytest.mark.drains
def test_the_recipe_prints_its_spans_before_the_worker_ends(app: Dtq, cook: Cook) -> None:
    worker = cook("otel_tasks", SUBMITTING)
    assert app.named("pay").submit().result(timeout=10)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert [name in worker.log for name in ("run pay", "submit orders.ship", "run orders.ship")] == [True] * 3


SUBMITTING = """
@app.task("pay")
def pay(ctx: TaskContext) -> str:
    return ship.submit(7).result(timeout=10)
"""
