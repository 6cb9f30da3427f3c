"""Running the hooks that wrap tasks and submits. Whatever one of them raises says which it was, and for which task."""

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dtq_engine.context import TaskContext
from dtq_engine.errors import HookFailed
from dtq_engine.model import NewTask

log = logging.getLogger("dtq")

T = TypeVar("T")

_MISUSES = {
    "generator didn't yield": "did not yield",
    "generator didn't stop": "yielded a second time",
    "generator didn't stop after throw()": "yielded again after an error",
    "generator didn't stop after athrow()": "yielded again after an error",
}
"""What contextlib says of a generator function that is no context manager."""

Manager = Any
"""A context manager as hooks make it: of either kind, so that only its two methods say what it is."""


@dataclass(frozen=True, slots=True)
class Around:
    """A hook that wraps: `make` gives its context manager. Equal to another of the same function."""

    fn: Callable[..., Any]
    kind: str
    is_async: bool = field(compare=False)
    make: Callable[..., Manager] = field(compare=False)

    @property
    def name(self) -> str:
        """Its kind and its function, for people."""
        return f"{self.kind} {name_of(self.fn)}"

    def manager(self, subject: object, of: str) -> Manager:
        """Its context manager for a task or a submit, which `of` names. Raises HookFailed if it made none."""
        made = self.make(subject)
        if not hasattr(made, "__aexit__" if self.is_async else "__exit__"):
            raise HookFailed(
                f"the hook {self.name} returned {made!r} for {of}: let it yield once, or return a context manager."
            )
        return made


@contextmanager
def _telling(hook: Around, of: str, earlier: BaseException | None = None) -> Generator[None]:
    """Have what the hook raises, other than what it was told of, say by which hook and for what it was raised."""
    try:
        yield
    except BaseException as error:
        if error is earlier:
            raise
        if isinstance(error, RuntimeError) and (misuse := _MISUSES.get(str(error))):
            raise HookFailed(f"the hook {hook.name} {misuse} for {of}: let it yield exactly once.") from error
        note = f"Raised by the hook {hook.name} for {of}."
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def run(hooks: Sequence[Around], context: TaskContext, call: Callable[[], T]) -> T:
    """What `call` returns, called inside the hooks around a sync handler."""
    if not hooks:
        return call()
    hook, of = hooks[0], _title(context)
    with _telling(hook, of):
        manager = hook.manager(context, of)
        manager.__enter__()
    try:
        value = run(hooks[1:], context, call)
    except BaseException as error:
        with _telling(hook, of, error):
            manager.__exit__(type(error), error, error.__traceback__)
        # Raised again although the hook may have swallowed it: a failure that looks like a success would be lost.
        raise
    with _telling(hook, of):
        manager.__exit__(None, None, None)
    return value


async def run_async(hooks: Sequence[Around], context: TaskContext, call: Callable[[], Awaitable[T]]) -> T:
    """What `call` returns, awaited inside the hooks around an async handler."""
    if not hooks:
        return await call()
    hook, of = hooks[0], _title(context)
    with _telling(hook, of):
        enter, leave = _methods(hook.manager(context, of), is_async=hook.is_async)
        await enter()
    try:
        value = await run_async(hooks[1:], context, call)
    except BaseException as error:
        with _telling(hook, of, error):
            await leave(type(error), error, error.__traceback__)
        raise
    with _telling(hook, of):
        await leave(None, None, None)
    return value


def _title(context: TaskContext) -> str:
    return f"the task {context.type} ({context.task_id})"


def _methods(
    manager: Manager, *, is_async: bool
) -> tuple[Callable[[], Awaitable[object]], Callable[..., Awaitable[object]]]:
    if is_async:
        return manager.__aenter__, manager.__aexit__

    async def enter() -> object:
        return manager.__enter__()

    async def leave(*error: object) -> object:
        return manager.__exit__(*error)

    return enter, leave


def send(hooks: Sequence[Around], tasks: list[NewTask], call: Callable[[list[NewTask]], T]) -> T:
    """What `call` returns, called inside the hooks around a submit with the tasks as they changed them."""
    if not hooks:
        return call(tasks)
    hook, of = hooks[0], _titles(tasks)
    with _telling(hook, of):
        manager = hook.manager(tasks, of)
        given = _same_tasks(hook, of, tasks, manager.__enter__())
    try:
        answer = send(hooks[1:], given, call)
    except BaseException as error:
        _leave(hook, of, manager, error)
        raise
    _leave(hook, of, manager)
    return answer


def _leave(hook: Around, of: str, manager: Manager, error: BaseException | None = None) -> None:
    """Leave a hook after the tasks were sent, or kept from it: nothing that it does now changes the answer."""
    try:
        with _telling(hook, of, error):
            manager.__exit__(None if error is None else type(error), error, error and error.__traceback__)
    except Exception:
        log.exception("the hook %s failed after the submit of %s, whose answer stands", hook.name, of)


def _titles(tasks: Sequence[NewTask]) -> str:
    shown = ", ".join(f"{task.type} ({task.id})" for task in tasks[:3])
    more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
    return f"the task{'' if len(tasks) == 1 else 's'} {shown}{more}"


def _same_tasks(hook: Around, of: str, tasks: list[NewTask], changed: Sequence[NewTask] | None) -> list[NewTask]:
    """The tasks as a hook gave them back; None leaves them as they are."""
    if changed is None:
        return tasks
    found = list(changed) if hasattr(changed, "__iter__") else []
    if [getattr(task, "id", None) for task in found] != [task.id for task in tasks]:
        raise HookFailed(
            f"the hook {hook.name} yielded other tasks than it was given, {of}: yield the same, in their order."
        )
    return found


def name_of(fn: object) -> str:
    """A hook's name for people: its function's, with the module that it is in."""
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{getattr(named, '__module__', '?')}.{getattr(named, '__qualname__', repr(fn))}"
