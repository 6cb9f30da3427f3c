# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnusedExpression=false
"""How the API is typed, for the type checkers to read: nothing here runs.

Each line marked `type: ignore` must be an error: both checkers report a mark that is not needed.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, assert_type
from uuid import UUID

from msgspec import Meta

from dtq_engine import (
    Call,
    Chain,
    Dtq,
    DtqError,
    Failure,
    FlowHandle,
    Group,
    Handle,
    NewTask,
    TaskContext,
    TaskSchema,
    WorkerInfo,
    chain,
    group,
)

app = Dtq()


@app.task("with.context")
def with_context(ctx: TaskContext, account_id: int, *, month: str = "") -> dict[str, int]:
    return {month: account_id}


@app.task("without.context", queue="reports", max_attempts=5, timeout=60, permanent=(ValueError,))
def without_context(account_id: int, *, month: str) -> dict[str, int]:
    return {month: account_id}


@app.task("async.with.context", timeout=timedelta(minutes=1), retry=lambda error, attempt: attempt * 2.0)
async def async_with_context(ctx: TaskContext, url: str) -> bytes:
    return url.encode()


@app.task("async.without.context")
async def async_without_context(url: str) -> bytes:
    return url.encode()


@app.task("no.parameters")
def no_parameters() -> None: ...


@app.task("context.only")
def context_only(ctx: TaskContext) -> int:
    return ctx.attempt


@app.task("wide")
def wide(value: object) -> str:
    return repr(value)


@app.task("others")
def others(first: int, **rest: str) -> int:
    return first


@dataclass
class Line:
    product: UUID
    count: Annotated[int, Meta(ge=1)]


@app.task("rich")
def rich(lines: list[Line], due: datetime, unit: Literal["kg", "t"] = "kg", *, limit: Decimal | None = None) -> Line:
    return lines[0]


def results() -> None:
    assert_type(with_context.submit(7, month="2026-10"), Handle[dict[str, int]])
    assert_type(with_context.submit(7).result(timeout=30), dict[str, int])
    assert_type(without_context.delay(7, month="x").result(), dict[str, int])
    assert_type(async_with_context.submit("u").result(), bytes)
    assert_type(async_without_context.submit(url="u").result(), bytes)
    assert_type(no_parameters.submit().result(), None)
    assert_type(context_only.submit().result(), int)
    assert_type(wide.submit([1, 2]).result(), str)
    assert_type(others.submit(1, b="x").result(), int)
    assert_type(app.handle("id").result(), Any)


def options() -> None:
    urgent = with_context.options(priority=9, delay=timedelta(seconds=5), idempotency_key="r-7")
    assert_type(urgent.submit(7, month="x"), Handle[dict[str, int]])
    assert_type(urgent.options(run_at=datetime.now(UTC)).prepare(7), NewTask)
    assert_type(app.submit_many([urgent.prepare(7)]), list[Handle[Any] | DtqError])
    assert_type(app.named("elsewhere").submit(a=1, b="x"), Handle[Any])
    assert_type(without_context.options(priority=9).delay(7, month="x").result(), dict[str, int])
    assert_type(async_with_context.options(priority=9).submit("u").result(), bytes)
    assert_type(async_without_context.options(timeout=5).submit("u").result(timeout=1), bytes)
    assert_type(rich.submit([Line(UUID(int=1), 1)], datetime.now(UTC), "t", limit=Decimal(5)).result(), Line)
    assert_type(app.store.schemas.list(), list[TaskSchema])


async def direct_calls(ctx: TaskContext) -> None:
    assert_type(with_context(ctx, 7, month="x"), dict[str, int])
    assert_type(without_context(7, month="x"), dict[str, int])
    assert_type(await async_with_context(ctx, "u"), bytes)
    assert_type(await async_without_context("u"), bytes)
    assert_type(await with_context.submit_async(7), Handle[dict[str, int]])
    assert_type(await with_context.options(delay=1).submit_async(7), Handle[dict[str, int]])


def wrong_arguments() -> None:
    with_context.submit("7")  # type: ignore[arg-type]
    with_context.submit(7, month=10)  # type: ignore[arg-type]
    with_context.submit(7, mnth="x")  # type: ignore[call-arg]
    with_context.submit()  # type: ignore[call-arg]
    with_context.submit(7, 8)  # type: ignore[arg-type, call-arg]
    without_context.submit(7)  # type: ignore[call-arg]
    without_context.delay("7", month="x")  # type: ignore[arg-type]
    without_context.prepare("7", month="x")  # type: ignore[arg-type]
    async_with_context.submit(5)  # type: ignore[arg-type]
    async_without_context.submit()  # type: ignore[call-arg]
    no_parameters.submit(1)  # type: ignore[call-arg]
    others.submit(1, b=2)  # type: ignore[arg-type]
    with_context.options(priority=9).submit("7")  # type: ignore[arg-type]
    without_context.options(priority=9).submit(7)  # type: ignore[call-arg]
    without_context.options(priority=9).delay(7, month=5)  # type: ignore[arg-type]
    async_with_context.options(priority=9).delay(5)  # type: ignore[arg-type]
    rich.submit([Line(UUID(int=1), 1)], "2026-10-01")  # type: ignore[arg-type]
    rich.submit(["x"], datetime.now(UTC))  # type: ignore[list-item]
    rich.submit([], datetime.now(UTC), "g")  # type: ignore[arg-type]
    rich.options(priority=9).submit([], datetime.now(UTC), limit=5)  # type: ignore[arg-type]


def the_context_is_not_submitted(ctx: TaskContext) -> None:
    with_context.submit(ctx, 7)  # type: ignore[call-arg, arg-type]
    with_context(7)  # type: ignore[call-arg, arg-type]
    context_only()  # type: ignore[call-arg]


async def wrong_arguments_async() -> None:
    await with_context.submit_async("7")  # type: ignore[arg-type]
    await without_context.submit_async(7)  # type: ignore[call-arg]
    await async_with_context.submit_async()  # type: ignore[call-arg]
    await async_without_context.options(priority=9).submit_async(5)  # type: ignore[arg-type]


def wrong_options() -> None:
    with_context.options(delay="5")  # type: ignore[arg-type]
    with_context.options(priorty=5)  # type: ignore[call-arg]
    with_context.options(run_at=5)  # type: ignore[arg-type]
    app.task("x", timeout="60")  # type: ignore[arg-type]
    app.task("x", permanent=[ValueError])  # type: ignore[arg-type]
    app.submit_many(["x"])  # type: ignore[list-item]


def wrong_results() -> None:
    text: str = with_context.submit(7).result()  # type: ignore[assignment]
    number: int = async_with_context.submit("u").result()  # type: ignore[assignment]
    print(text, number)


# Hooks


@app.on_worker_start
def begin(worker: WorkerInfo) -> None:
    print(worker.id)


@app.on_worker_stop
async def end(worker: WorkerInfo) -> int:
    return worker.pid


@app.on_failure
def tell(failure: Failure) -> None:
    print(failure.exception, failure.error.message)


@app.around_task
def around(task: TaskContext) -> Iterator[None]:
    yield


@app.around_task
def around_as_a_generator(task: TaskContext) -> Generator[None, None, None]:
    yield


@app.around_task
async def around_async(task: TaskContext) -> AsyncIterator[None]:
    yield


@app.around_task
@contextmanager
def around_as_a_manager(task: TaskContext) -> Generator[int, None, None]:
    yield task.attempt


@app.around_task
@asynccontextmanager
async def around_as_an_async_manager(task: TaskContext) -> AsyncGenerator[None, None]:
    yield


@app.around_submit
def send(tasks: list[NewTask]) -> Iterator[list[NewTask]]:
    yield [task.with_headers({"a": "b"}) for task in tasks]


@app.around_submit
def watch(tasks: list[NewTask]) -> Iterator[None]:
    yield


@app.periodic("0 3 * * *", tz="Europe/Berlin", catch_up="once")
@app.periodic(every=3600, jitter=1.5, arguments={"days": 7}, name="weekly")
@app.task("report")
def report(days: int = 1) -> str:
    return str(days)


def periodic_tasks_stay_what_they_were() -> None:
    assert_type(report(2), str)
    assert_type(report.submit(days=2), Handle[str])
    report.submit("2")  # type: ignore[arg-type]


def wrong_periodic_tasks() -> None:
    @app.periodic("0 3 * * *")  # type: ignore[type-var]
    def no_task_yet() -> None: ...

    app.periodic("0 3 * * *", catch_up="all")  # type: ignore[arg-type]
    print(no_task_yet)


def hooks_stay_what_they_were() -> None:
    kept: Callable[[WorkerInfo], None] = begin
    also: Callable[[TaskContext], Iterator[None]] = around
    print(kept, also)


def wrong_hooks() -> None:
    @app.on_worker_start  # type: ignore[type-var]
    def wants_a_context(task: TaskContext) -> None: ...

    @app.around_task  # type: ignore[type-var]
    def wraps_nothing(task: TaskContext) -> None: ...

    @app.around_submit  # type: ignore[type-var]
    def yields_headers(tasks: list[NewTask]) -> Iterator[dict[str, str]]:
        yield {}

    @app.on_failure  # type: ignore[type-var]
    def wants_two(failure: Failure, more: int) -> None: ...

    print(wants_a_context, wraps_nothing, yields_headers, wants_two)


def workflows() -> None:
    assert_type(without_context.s(7, month="x"), Call[dict[str, int]])
    assert_type(without_context.s(month="x"), Call[dict[str, int]])
    assert_type(without_context.si(7, month="x"), Call[dict[str, int]])
    assert_type(chain(with_context.s(7), wide.s()), Chain[str])
    assert_type(group(async_with_context.s("u"), async_with_context.s("v")), Group[list[bytes]])
    assert_type(group(wide.s(1), wide.s(2)).then(context_only.si()), Chain[int])
    assert_type(group(wide.s(1), wide.s(2)).submit().result(1), list[str])
    assert_type(chain(with_context.s(7), wide.s()).submit(), FlowHandle[str])
    with_context.options(after=[with_context.submit(7), "id", with_context.prepare(8)], on_parent_failure="run")
    without_context.s(7, 8, month="x")  # type: ignore[call-overload]
    without_context.s(7, months="x")  # type: ignore[call-overload]
    without_context.si(month="x")  # type: ignore[call-arg]
    with_context.options(on_parent_failure="ignore")  # type: ignore[arg-type]
    group(wide.s(1), 7)  # type: ignore[arg-type]
