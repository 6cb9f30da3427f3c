# mypy: disable-error-code="overload-overlap, overload-cannot-match"
# pyright: reportOverlappingOverload=false
# The overloads below overlap on purpose: the first that fits is meant. tests/typing says for both checkers what fits.
"""`@app.task(…)` as a decorator: what it makes of a function, and how type checkers see that."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from dtq_engine.context import TaskContext
from dtq_engine.handle import App
from dtq_engine.registry import Handler
from dtq_engine.task import Task

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Co = Coroutine[Any, Any, R]


class _Any:
    """Stands for a type that is Any, or what a type variable makes of it."""


class _TakesAny(Protocol[P, R_co]):
    """A handler whose first parameter takes anything, and so is no context although it would take one.

    Of the two signatures, which one function has to have both, the first tells its parameters and the second asks.
    """

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, first: object, /, *args: Any, **kwargs: Any) -> Any: ...


class _GivesAny(Protocol[P, R_co]):
    """A handler whose result may be anything, and so is not to be awaited although it might be."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> _Any: ...


class _TakesAndGivesAny(Protocol[P, R_co]):
    """Both."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, first: object, /, *args: Any, **kwargs: Any) -> _Any: ...


class Register(Protocol):
    """What `Dtq.task` returns: the decorator. The order of the overloads matters to the type checkers.

    First come handlers whose first parameter might be taken for a context, then those with a context, then all others;
    of each, those whose result might be taken for an awaitable, then async ones. Of a handler that returns a type
    variable, arguments are not checked and the result is Any: there is nothing better that both checkers understand.
    Nor does mypy check those of a handler with a context and `**kwargs`, in which it sees that context a second time.
    """

    @overload
    def __call__(self, fn: _TakesAndGivesAny[P, R], /) -> Task[P, R, P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[_Any, ...], _Any], /) -> Task[..., Any, ..., Any]: ...
    @overload
    def __call__(self, fn: _TakesAny[P, Co[R]], /) -> Task[P, R, P, Co[R]]: ...
    @overload
    def __call__(self, fn: _TakesAny[P, R], /) -> Task[P, R, P, R]: ...
    @overload
    def __call__(
        self, fn: _GivesAny[Concatenate[TaskContext, P], R], /
    ) -> Task[P, R, Concatenate[TaskContext, P], R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[TaskContext, ...], _Any], /) -> Task[..., Any, ..., Any]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[TaskContext, P], Co[R]], /
    ) -> Task[P, R, Concatenate[TaskContext, P], Co[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[TaskContext, P], Awaitable[R]], /
    ) -> Task[P, R, Concatenate[TaskContext, P], Awaitable[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[TaskContext, P], R], /
    ) -> Task[P, R, Concatenate[TaskContext, P], R]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[TaskContext, ...], Awaitable[R]], /
    ) -> Task[..., R, ..., Awaitable[R]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[TaskContext, ...], R], /) -> Task[..., R, ..., R]: ...
    @overload
    def __call__(self, fn: _GivesAny[P, R], /) -> Task[P, R, P, R]: ...
    @overload
    def __call__(self, fn: Callable[..., _Any], /) -> Task[..., Any, ..., Any]: ...
    @overload
    def __call__(self, fn: Callable[P, Co[R]], /) -> Task[P, R, P, Co[R]]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R, P, Awaitable[R]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R, P, R]: ...


def registration(app: App, make: Callable[[Callable[..., Any]], Handler]) -> Register:
    """The decorator for one use of `Dtq.task`; `make` builds the handler of the function it is applied to."""

    def register(fn: Callable[..., Any], /) -> Task[..., Any, ..., Any]:
        # Under a second name: the function, not the task that the first decorator made of it.
        fn = fn.handler.fn if isinstance(fn, Task) else fn
        handler = make(fn)
        app.registry.add(handler)
        return Task(app, handler, fn)

    return cast(Register, register)
