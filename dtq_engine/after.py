"""What a task waits for, as `after=` and `on_parent_failure=` say it."""

from collections.abc import Iterable
from typing import Any

from dtq_engine import validate
from dtq_engine.errors import InvalidTask, TaskNotFound
from dtq_engine.flow import FlowHandle
from dtq_engine.handle import App, Handle
from dtq_engine.model import NewTask, Parent

After = Handle[Any] | FlowHandle[Any] | NewTask | str
"""A task to wait for: its handle, the task itself, or its id; of a workflow its ends."""


def runs_anyway(policy: object) -> bool:
    """What `on_parent_failure` says. Raises InvalidTask for what it cannot be."""
    if policy not in ("cancel", "run"):
        raise InvalidTask(
            "on_parent_failure", f"on_parent_failure cannot be {validate.shown(policy)}: use 'cancel' or 'run'."
        )
    return policy == "run"


def parents_of(
    app: App, after: After | Iterable[After], *, run_anyway: bool, child: str | None = None
) -> tuple[Parent, ...]:
    """The links to the tasks that are to be waited for, by the one of the id `child` if that is known already.

    Raises InvalidTask, also for a task that waits for itself, and TaskNotFound for an unknown id.
    """
    each: Iterable[After] = [after] if isinstance(after, Handle | FlowHandle | NewTask | str) else after
    if not isinstance(each, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTask("after", "after names the tasks to wait for: use handles, prepared tasks or ids.")
    items = list(each)
    if child is not None and child in (item for item in items if isinstance(item, str)):
        raise InvalidTask("after", f"task {child} cannot wait for itself: name another task.")
    places = [place for item in items for place in _places(app, item)]
    return tuple(Parent(task_id, queue, run_anyway) for queue, task_id in dict.fromkeys(places))


def _places(app: App, item: object) -> list[tuple[str, str]]:
    match item:
        case NewTask():
            return [(item.queue, item.id)]
        case Handle():
            return [(item.queue, item.id)]
        case FlowHandle():
            return [(end.queue, end.id) for end in item.ends]
        case str():
            return [(_queue_of(app, validate.check_id(item)), item)]
        case _:
            raise InvalidTask("after", f"after cannot be {validate.shown(item)}: use handles, prepared tasks or ids.")


def _queue_of(app: App, task_id: str) -> str:
    try:
        return app.store.inspect.queue_of(task_id)
    except TaskNotFound:
        raise TaskNotFound(
            f"There is no task {task_id} to wait for: an id names one that was submitted; of those that are yet to be, "
            f"make the parents first and pass what prepare() made of them."
        ) from None
