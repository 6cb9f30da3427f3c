"""Looking a task up, and waiting for its end."""

import re
import time

from dtq_engine import Task, TaskNotFound
from webapp.state import web

SLICE_S = 1.0
"""How soon a waiting request sees that the process is to end."""

_ID = re.compile(r"[0-9A-Za-z_-]{1,64}").fullmatch


def checked(task_id: str) -> str:
    """An id out of an address. Raises TaskNotFound for what cannot be one."""
    if not _ID(task_id):
        raise TaskNotFound("There is no such task: an id has 1 to 64 letters, digits, '_' or '-'.")
    return task_id


def awaited(task_id: str, queue: str | None, wait_s: float) -> Task:
    """The task once it has ended, or as it is after `wait_s` seconds; sooner if this process is to end.

    No longer than the settings allow. Raises TaskNotFound, and a Problem if too many wait already.
    """
    here = web()
    task = here.app.store.inspect.get(task_id, queue=queue)
    wait_s = min(wait_s, here.settings.web_wait_s)
    if wait_s == 0 or task.status.is_final:
        return task
    ends = time.monotonic() + wait_s
    with here.seats.one():
        while (left := ends - time.monotonic()) > 0 and not here.stopping.is_set():
            ended = here.app.waiters.wait(task_id, task.queue, min(left, SLICE_S))
            if ended is not None:
                return ended
    return here.app.store.inspect.get(task_id, queue=task.queue)
