"""OpenTelemetry traces: a span for each submit and for each attempt, tied together through the tasks' headers.

It needs the extra `otel`: `pip install 'dtq[otel]'`. Nothing of OpenTelemetry is imported before `instrument`.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from dtq_engine import ConfigurationError, Dtq, NewTask, Retry, Snooze, TaskContext

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

Attributes = dict[str, str | int]


def instrument(app: Dtq, tracer_provider: "TracerProvider | None" = None) -> None:
    """Have the app trace its submits and attempts, with the given or the global tracer provider; call it once.

    A submit's span is the parent of the attempts of its tasks: the global propagator writes it into their headers
    (`traceparent`), and reads it from there. An attempt that raises is an error; `Retry` and `Snooze` are none.
    Raises ConfigurationError if OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import trace
    except ImportError as error:
        message = "OpenTelemetry is not installed: run pip install 'dtq[otel]', or do not call otel.instrument."
        raise ConfigurationError([message]) from error
    tracing = _Tracing(trace.get_tracer("dtq", tracer_provider=tracer_provider))
    app.around_submit(tracing.submit)
    app.around_task(tracing.attempt)


class _Tracing:
    """The two hooks. They import OpenTelemetry where they use it, as this module can be imported without."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def submit(self, tasks: list[NewTask]) -> Generator[list[NewTask], None, None]:
        from opentelemetry import propagate, trace

        with self._tracer.start_as_current_span(
            _title("submit", tasks), kind=trace.SpanKind.PRODUCER, attributes=_of_submit(tasks)
        ):
            headers: dict[str, str] = {}
            propagate.inject(headers)
            yield [task.with_headers(headers) for task in tasks]

    def attempt(self, task: TaskContext) -> Generator[None, None, None]:
        from opentelemetry import propagate, trace

        with self._tracer.start_as_current_span(
            f"run {task.type}",
            context=propagate.extract(task.headers),
            kind=trace.SpanKind.CONSUMER,
            attributes=_of_attempt(task),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except (Retry, Snooze) as request:
                span.add_event(type(request).__name__.lower())
                raise
            except BaseException as error:
                span.record_exception(error)
                span.set_status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}")
                raise


def _title(verb: str, tasks: Sequence[NewTask]) -> str:
    types = {task.type for task in tasks}
    return f"{verb} {types.pop()}" if len(types) == 1 else verb


def _of_submit(tasks: Sequence[NewTask]) -> Attributes:
    """What OpenTelemetry's conventions for messaging name, as far as the tasks have it in common."""
    queues = {task.queue for task in tasks}
    shared: Attributes = {"messaging.system": "dtq", "messaging.operation.type": "send"}
    if len(queues) == 1:
        shared["messaging.destination.name"] = queues.pop()
    if len(tasks) == 1:
        return shared | {"messaging.message.id": tasks[0].id}
    return shared | {"messaging.batch.message_count": len(tasks)}


def _of_attempt(task: TaskContext) -> Attributes:
    return {
        "messaging.system": "dtq",
        "messaging.operation.type": "process",
        "messaging.destination.name": task.queue,
        "messaging.message.id": task.task_id,
        "messaging.client.id": task.worker_id,
        "dtq.attempt": task.attempt,
        "dtq.max_attempts": task.max_attempts,
    }
