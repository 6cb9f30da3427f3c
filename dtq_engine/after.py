"""What a task waits for, as `after=` and `on_parent_failure=` say it."""

from collections.abc import Iterable, Mapping, Sequence
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
    ids = [validate.check_id(item) for item in items if isinstance(item, str)]
    _refuse_itself(ids, child)
    known = app.store.inspect.places_of(ids) if ids else {}
    places = [place for item in items for place in _places(item, known)]
    return tuple(Parent(task_id, queue, run_anyway) for queue, task_id in dict.fromkeys(places))


def parents_by_id(app: App, ids: Sequence[str], *, run_anyway: bool, child: str | None = None) -> tuple[Parent, ...]:
    """The links to tasks that were submitted before, as a command or a request names them.

    Raises InvalidTask for one that is not there, and for a task that waits for itself.
    """
    _refuse_itself(ids, child)
    known = app.store.inspect.places_of(list(dict.fromkeys(ids))) if ids else {}
    if missing := next((each for each in ids if each not in known), None):
        raise InvalidTask("after", f"There is no task {missing} to wait for: check the id, or its time is over.")
    return tuple(Parent(task_id, known[task_id], run_anyway) for task_id in dict.fromkeys(ids))


def _refuse_itself(ids: Sequence[str], child: str | None) -> None:
    if child is not None and child in ids:
        raise InvalidTask("after", f"task {child} cannot wait for itself: name another task.")


def _places(item: object, known: Mapping[str, str]) -> list[tuple[str, str]]:
    match item:
        case NewTask():
            return [(item.queue, item.id)]
        case Handle():
            return [(item.queue, item.id)]
        case FlowHandle():
            return [(end.queue, end.id) for end in item.ends]
        case str():
            return [(_queue_of(item, known), item)]
        case _:
            raise InvalidTask("after", f"after cannot be {validate.shown(item)}: use handles, prepared tasks or ids.")


def _queue_of(task_id: str, known: Mapping[str, str]) -> str:
    if task_id not in known:
        raise TaskNotFound(
            f"There is no task {task_id} to wait for: an id names one that was submitted; of those that are yet to be, "
            f"make the parents first and pass what prepare() made of them."
        )
    return known[task_id]
