"""Chapter 1: a function becomes a task, is submitted, and its result comes back."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from dtq_engine import InvalidHandler, InvalidTask, TaskContext, TaskStatus


def test_a_function_becomes_a_task_and_a_worker_runs_it(app, start_worker):
    @app.task("math.add")
    def add(a: int, b: int) -> int:
        return a + b

    handle = add.submit(2, b=3)
    assert handle.status() is TaskStatus.QUEUED

    start_worker()
    assert handle.result(timeout=10) == 5
    assert handle.status() is TaskStatus.SUCCEEDED


def test_the_function_can_still_be_called(app):
    @app.task("math.add")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(2, 3) == 5


def test_an_async_function_becomes_a_task_in_the_same_way(app, start_worker):
    @app.task("math.add")
    async def add(a: int, b: int) -> int:
        return a + b

    handle = add.submit(2, 3)
    start_worker()
    assert handle.result(timeout=10) == 5


def test_a_handler_that_wants_to_know_more_takes_the_context_first(app, start_worker):
    @app.task("reports.build", queue="reports", max_attempts=5)
    def build(ctx: TaskContext, account_id: int) -> list[object]:
        return [ctx.task_id, ctx.queue, ctx.attempt, ctx.max_attempts, ctx.headers["tenant"], account_id]

    handle = build.options(headers={"tenant": "acme"}).submit(7)
    start_worker()
    assert handle.result(timeout=10) == [handle.id, "reports", 1, 5, "acme", 7]


def test_wrong_arguments_are_refused_when_they_are_submitted(app):
    @app.task("reports.build")
    def build(account_id: int, *, month: str = "") -> None: ...

    with pytest.raises(InvalidTask, match="argument account_id: Expected `int`, got `str`"):
        build.submit("seven")
    with pytest.raises(InvalidTask, match="no argument mnth; did you mean month"):
        build.submit(7, mnth="2026-10")


@dataclass
class Invoice:
    number: int
    due: datetime


def test_arguments_and_results_travel_as_json_in_the_types_of_the_annotations(app, start_worker):
    @app.task("invoices.postpone")
    def postpone(invoice: Invoice, due: datetime) -> Invoice:
        return Invoice(invoice.number, due)

    october, november = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    handle = postpone.submit(Invoice(7, october), november)
    assert handle.info().payload == (
        b'{"invoice":{"number":7,"due":"2026-10-01T00:00:00Z"},"due":"2026-11-01T00:00:00Z"}'
    )
    start_worker()
    assert handle.result(timeout=10) == Invoice(7, november)


def test_without_annotation_an_argument_is_any_json_and_nothing_else(app):
    @app.task("notes.keep")
    def keep(note): ...

    with pytest.raises(InvalidTask, match="note is of type set, which JSON has no form for"):
        keep.submit({1, 2, 3})


def test_arguments_have_names_so_a_handler_must_name_them(app):
    with pytest.raises(InvalidHandler, match=r"\*numbers has no name to store arguments by: take a list instead"):

        @app.task("math.sum")
        def add_up(*numbers: int) -> int:
            return sum(numbers)


def test_a_program_without_the_handler_submits_by_name(app, start_worker):
    waiting = app.named("math.add").submit(a=2, b=3)

    @app.task("math.add")
    def add(a: int, b: int) -> int:
        return a + b

    start_worker()
    assert waiting.result(timeout=10) == 5


def test_a_handle_can_be_had_again_from_the_id(app, start_worker):
    @app.task("math.add")
    def add(a: int, b: int) -> int:
        return a + b

    task_id = add.submit(2, 3).id
    start_worker()
    assert app.handle(task_id).result(timeout=10) == 5
