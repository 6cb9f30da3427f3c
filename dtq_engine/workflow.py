"""Workflows as they are sent: which tasks go together, and in which order. No I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from dtq_engine import validate
from dtq_engine.config import Settings
from dtq_engine.errors import InvalidTask
from dtq_engine.model import NewTask, Parent, Takes

TASKS_PER_CALL = 500
PARENTS_MAX = 500

Place = tuple[str, str]
"""Queue and id of a task."""


def batches(tasks: Sequence[NewTask]) -> list[list[NewTask]]:
    """The tasks of one workflow in the calls to send one after the other; of each call all are accepted, or none.

    One call where all are of one queue and at most 500. Otherwise the first calls bring only tasks that wait, so that
    nothing starts before the last ones. Raises InvalidTask for links that go in a circle.
    """
    linked = list(_linked(tasks))
    roots = {task.queue for task in linked if _is_root(task)}
    waiting, starting = list[list[NewTask]](), list[list[NewTask]]()
    for queue in sorted({task.queue for task in linked}):
        later = [task for task in linked if task.queue == queue and not _is_root(task)]
        first = [task for task in linked if task.queue == queue and _is_root(task)]
        if roots == {queue} and len(later) + len(first) <= TASKS_PER_CALL:
            starting.append([*later, *first])
            continue
        waiting += _cut(later)
        starting += _cut(first)
    return [_together(batch) for batch in (*waiting, *starting)]


def check(task: NewTask, settings: Settings) -> None:
    """Raise InvalidTask unless a task may be submitted, with the parents that it names."""
    validate.check(task, settings)
    if not task.after and task.takes is Takes.NOTHING:
        return
    if not (_is_a(Takes, task.takes) and all(_is_a(Parent, each) for each in task.after)):
        raise InvalidTask("after", f"task {task.id} cannot wait for {task.after!r}: use Parents, and one of Takes.")
    for each in task.after:
        validate.check_id(each.id)
        validate.check_queue(each.queue)
    _check_parents(task)


def _check_parents(task: NewTask) -> None:
    places = [(each.queue, each.id) for each in task.after]
    if (task.queue, task.id) in places:
        raise InvalidTask("after", f"task {task.id} cannot wait for itself: name another task.")
    if len(set(places)) < len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise InvalidTask("after", f"task {task.id} waits for task {twice[1]} twice: name each parent once.")
    if len(places) > PARENTS_MAX:
        raise InvalidTask(
            "after",
            f"task {task.id} waits for {len(places)} others, and {PARENTS_MAX} are allowed: gather them in groups, "
            f"each with a task behind it.",
        )


def _linked(tasks: Sequence[NewTask]) -> Iterator[NewTask]:
    """The tasks, each with its children, and with what is known of its parents; those that wait first."""
    by_place = {(task.queue, task.id): task for task in tasks}
    if len(by_place) < len(tasks):
        raise InvalidTask("id", "two tasks of a workflow have one id: give each its own.")
    children: dict[Place, list[Place]] = {}
    for place, task in by_place.items():
        for parent in task.after:
            children.setdefault((parent.queue, parent.id), []).append(place)
    for place in _sorted(by_place, children):
        task = by_place[place]
        _check_key(task, len(tasks))
        along = tuple(replace(each, comes_along=(each.queue, each.id) in by_place) for each in task.after)
        yield replace(task, after=along, children=tuple(children.get(place, ())))


def _sorted(tasks: dict[Place, NewTask], children: dict[Place, list[Place]]) -> list[Place]:
    """Children before their parents. Raises InvalidTask for a circle."""
    graph = {place: children.get(place, ()) for place in tasks}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " → ".join(tasks[place].id for place in reversed(error.args[1]))
        raise InvalidTask("after", f"these tasks wait for each other in a circle, {circle}: take out a link.") from None


def _check_key(task: NewTask, number: int) -> None:
    """Raise InvalidTask for a task in whose place another one might be found: those that wait know this one only."""
    given = {"idempotency_key": task.idempotency_key, "unique": task.deduplication}
    field = next((name for name, value in given.items() if value is not None), None)
    if field is not None and number > 1:
        raise InvalidTask(
            field,
            f"task {task.id} ({task.type}) is part of a workflow and cannot stand back for an earlier task, as {field} "
            f"says: give its tasks ids of your own instead, and submit it as often as you like.",
        )


def _is_a(kind: type[object], value: object) -> bool:
    return isinstance(value, kind)


def _is_root(task: NewTask) -> bool:
    """Whether it may start before all of its workflow is there."""
    return not any(parent.comes_along for parent in task.after)


def _together(batch: Sequence[NewTask]) -> list[NewTask]:
    """The tasks of one call. One alone has none to stand back for: not even another workflow's that rides along."""
    return [replace(task, in_flow=len(batch) > 1) for task in batch]


def _cut(tasks: Sequence[NewTask]) -> list[list[NewTask]]:
    return [list(tasks[at : at + TASKS_PER_CALL]) for at in range(0, len(tasks), TASKS_PER_CALL)]
