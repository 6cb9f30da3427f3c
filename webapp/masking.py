"""What a reader may not see of a task is taken out here, before anything is made of it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from dtq_engine import LogLine, Task
from dtq_engine.masking import Masks


def masked(task: Task, names: Collection[str]) -> Task:
    """The task with the values of these names masked in its payload and result, at any depth, and in what it says.

    Where else in them the same values stand, they are masked as well.
    """
    if not names:
        return task
    masks = Masks(names, (task.payload, task.result))
    result = None if task.result is None else masks.json(task.result)
    # A result is known to be cut off by its size, which must go on saying so, and not begin to.
    return replace(
        task,
        payload=masks.json(task.payload),
        result=result,
        result_size=task.result_size if result is None or task.result_truncated else len(result),
        errors=tuple(
            replace(error, message=masks.text(error.message), traceback=masks.text(error.traceback))
            for error in task.errors
        ),
        progress=None if task.progress is None else replace(task.progress, note=masks.text(task.progress.note)),
    )


def masked_lines(lines: Sequence[LogLine], task: Task, names: Collection[str]) -> Sequence[LogLine]:
    """Log lines of the task with the same values masked."""
    if not names:
        return lines
    masks = Masks(names, (task.payload, task.result))
    return [replace(line, message=masks.text(line.message)) for line in lines]


def hidden(task: Task) -> Task:
    """The task without its payload and result, and without what its errors and its progress say."""
    errors = tuple(replace(error, message="", traceback="") for error in task.errors)
    progress = None if task.progress is None else replace(task.progress, note="")
    return replace(task, payload=b"null", result=None, result_size=None, errors=errors, progress=progress)
