# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Which functions can be handlers, and as what type checkers see them: nothing here runs. See calls.py."""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, assert_type

from dtq_engine import Dtq, TaskContext

app = Dtq()

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N", bound=float)


def logged(fn: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        print(fn)
        return fn(*args, **kwargs)

    return wrapper


def retried(fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    @functools.wraps(fn)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return await fn(*args, **kwargs)

    return wrapper


def loosely(fn: Callable[..., T]) -> Callable[..., T]:
    return fn


# Decorated


@app.task("decorated")
@logged
def decorated(number: int) -> str:
    return str(number)


@app.task("decorated.with.context")
@logged
def decorated_with_context(ctx: TaskContext, number: int) -> str:
    return str(number + ctx.attempt)


@app.task("decorated.async")
@retried
async def decorated_async(number: int) -> str:
    return str(number)


@app.task("decorated.async.with.context")
@retried
async def decorated_async_with_context(ctx: TaskContext, number: int) -> str:
    return str(number + ctx.attempt)


@app.task("decorated.loosely")
@loosely
def decorated_loosely() -> str:
    return ""


async def decorated_handlers(ctx: TaskContext) -> None:
    assert_type(decorated.submit(1).result(), str)
    assert_type(decorated(1), str)
    assert_type(decorated_with_context.submit(1).result(), str)
    assert_type(decorated_with_context(ctx, 1), str)
    assert_type(decorated_async.submit(1).result(), str)
    assert_type(await decorated_async(1), str)
    assert_type(decorated_async_with_context.submit(1).result(), str)
    assert_type(await decorated_async_with_context(ctx, 1), str)
    decorated_loosely.submit()
    decorated.submit("1")  # type: ignore[arg-type]
    decorated_with_context.submit("1")  # type: ignore[arg-type]
    decorated_async.submit("1")  # type: ignore[arg-type]
    decorated_async_with_context.submit("1")  # type: ignore[arg-type]


# A context and nothing else, or with names that are not known


@app.task("context.alone")
def context_alone(ctx: TaskContext) -> str:
    return ctx.task_id


@app.task("context.alone.async")
async def context_alone_async(ctx: TaskContext) -> str:
    return ctx.task_id


@app.task("context.and.names")
def context_and_names(ctx: TaskContext, **names: int) -> str:
    return str(names)


@app.task("context.and.names.async")
async def context_and_names_async(ctx: TaskContext, number: int = 0, **names: int) -> str:
    return str(names)


async def handlers_with_little_but_a_context(ctx: TaskContext) -> None:
    assert_type(context_alone.submit().result(), str)
    assert_type(context_alone(ctx), str)
    assert_type(context_alone_async.submit().result(), str)
    assert_type(await context_alone_async(ctx), str)
    assert_type(context_and_names.submit().result(), str)
    assert_type(context_and_names.options(delay=1).submit(one=1).result(), str)
    assert_type(context_and_names(ctx, one=1), str)
    assert_type(context_and_names_async.submit(5, one=1).result(), str)
    assert_type(await context_and_names_async(ctx, 5, one=1), str)
    context_alone.submit(1)  # type: ignore[call-arg]


# Async without `async def`


@app.task("awaitable")
def awaitable(number: int) -> Awaitable[str]:
    return decorated_async(number)


@app.task("coroutine")
def coroutine(number: int) -> Coroutine[Any, Any, str]:
    raise NotImplementedError(number)


async def awaited_handlers() -> None:
    assert_type(awaitable.submit(1).result(), str)
    assert_type(await awaitable(1), str)
    text: str = coroutine.submit(1).result()
    text = await coroutine(1)
    print(text)
    awaitable.submit("1")  # type: ignore[arg-type]


# Objects


class Mailer:
    def __call__(self, to: str, *, copies: int = 0) -> bytes:
        return to.encode() * copies

    def send(self, to: str) -> bytes:
        return to.encode()


class AsyncMailer:
    async def __call__(self, to: str) -> bytes:
        return to.encode()


class MailerWithContext:
    def __call__(self, ctx: TaskContext, to: str) -> bytes:
        return to.encode() * ctx.attempt


mail = app.task("mail")(Mailer())
mail_async = app.task("mail.async")(AsyncMailer())
mail_with_context = app.task("mail.with.context")(MailerWithContext())
send = app.task("send")(Mailer().send)
send_one = app.task("send.one")(functools.partial(Mailer().send, "ann@example.com"))


async def callable_objects(ctx: TaskContext) -> None:
    assert_type(mail.submit("ann", copies=1).result(), bytes)
    assert_type(mail_async.submit("ann").result(), bytes)
    assert_type(await mail_async("ann"), bytes)
    assert_type(mail_with_context.submit("ann").result(), bytes)
    assert_type(mail_with_context(ctx, "ann"), bytes)
    assert_type(send.submit("ann").result(), bytes)
    assert_type(send_one.submit().result(), bytes)
    mail.submit(1)  # type: ignore[arg-type]
    mail_async.submit(1)  # type: ignore[arg-type]
    mail_with_context.submit(1)  # type: ignore[arg-type]
    send.submit(1)  # type: ignore[arg-type]


# Any, object and type variables


@app.task("takes.any")
def takes_any(value: Any) -> str:
    return repr(value)


@app.task("takes.object.async")
async def takes_object_async(value: object, *, width: int) -> str:
    return repr(value)[:width]


@app.task("gives.any")
def gives_any(number: int) -> Any:
    return number


@app.task("gives.any.with.context")
def gives_any_with_context(ctx: TaskContext, number: int) -> Any:
    return number + ctx.attempt


@app.task("generic")
def generic(value: T) -> T:
    return value


@app.task("generic.list")
def generic_list(value: T, others: list[T]) -> list[T]:
    return [value, *others]


@app.task("generic.second")
def generic_second(number: int, value: T) -> T:
    return value


@app.task("generic.with.context")
def generic_with_context(ctx: TaskContext, value: T) -> T:
    return value


@app.task("generic.bound")
def generic_bound(value: N) -> N:
    return value


@app.task("generic.async")
async def generic_async(number: int, value: T) -> T:
    return value


async def wide_handlers(ctx: TaskContext) -> None:
    text: str = takes_any.submit([1]).result()
    assert_type(takes_object_async.submit(1, width=5).result(), str)
    assert_type(await takes_object_async(1, width=5), str)
    takes_object_async.submit(1, width="5")  # type: ignore[arg-type]
    assert_type(gives_any.submit(1).result(), Any)
    assert_type(gives_any_with_context.submit(1).result(), Any)
    number: int = gives_any(1)
    number = gives_any_with_context(ctx, 1)
    print(number, text)


def generic_handlers(ctx: TaskContext) -> None:
    number: int = generic.submit(5).result()
    number = generic(5)
    text: str = generic_second.submit(5, "x").result()
    text = generic_second(5, "x")
    text = generic_with_context.submit("x").result()
    text = generic_with_context(ctx, "x")
    text = generic_async.submit(5, "x").result()
    ratio: float = generic_bound.submit(5).result()
    generic_list.submit(5, [1])
    generic_second.submit(5, "x")
    print(number, text, ratio)
