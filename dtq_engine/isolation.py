"""What is said of handlers that run in a process of their own, and which functions can."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from dtq_engine.errors import InvalidHandler
from dtq_engine.signature import underlying

MAX_TASKS = 1000
MIB_KIB = 1024


@dataclass(frozen=True, slots=True)
class Isolation:
    """When a process is worn out for tasks of a type: after `max_tasks`, or when it keeps more than `max_rss_kib`."""

    max_tasks: int
    max_rss_kib: int | None

    def suits(self, tasks: int, rss_kib: int) -> bool:
        """Whether a process that has run so many tasks and uses so much memory may run another; a new one always."""
        return tasks == 0 or (tasks < self.max_tasks and (self.max_rss_kib is None or rss_kib <= self.max_rss_kib))


def read_isolation(task: str, *, process: bool, max_tasks: int | None, max_memory_mb: int | None) -> Isolation | None:
    """The options of `Dtq.task` about processes as given; None without `process`. Raises InvalidHandler."""
    if not isinstance(process, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may be untyped
        _refuse(task, f"process must be True or False, not {process!r}")
    for name, value in {"max_tasks": max_tasks, "max_memory_mb": max_memory_mb}.items():
        if value is None:
            continue
        if not process:
            _refuse(task, f"{name} is about processes: give process=True as well")
        if type(value) is not int or value < 1:  # not isinstance: True is an int as well
            _refuse(task, f"{name} must be a whole number from 1, not {value!r}")
    if not process:
        return None
    return Isolation(max_tasks or MAX_TASKS, None if max_memory_mb is None else max_memory_mb * MIB_KIB)


def check_reachable(task: str, fn: Callable[..., Any]) -> None:
    """Raise InvalidHandler if another process that imports the app's module would not come by this function.

    A function is never sent to another process; that one registers it anew.
    """
    name: str = underlying(fn).__qualname__
    if "<lambda>" in name or "<locals>" in name:
        _refuse(
            task,
            f"its handler {name} is made within another function, where a process of its own does not find it: "
            "define it at the top of a module (if a decorator made it, let that use functools.wraps)",
        )


def _refuse(task: str, problem: str) -> NoReturn:
    raise InvalidHandler(f"task {task!r} cannot be registered: {problem}.")
