"""Workers: who is there, what each does, and who has not been heard of."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import Blueprint, Response

from dtq_engine import Task, TaskStatus, WorkerInfo
from webapp.pages.render import page
from webapp.pages.rows import said, seen
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("workers", __name__)

LATE = 3
"""After how many missed heartbeats a worker is called late."""

RUNNING = 200
"""How many running tasks are shown beside their workers."""


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker with the tasks it runs; `state` is running, draining or late."""

    info: WorkerInfo
    state: str
    tasks: Sequence[Task]


@blueprint.get("/workers")
@require(Role.VIEWER)
def index() -> Response:
    """All that are alive, by id; those that have been silent for long are forgotten."""
    store = web().app.store
    late_ms = LATE * web().settings.heartbeat_interval_s * 1000
    now_ms = store.now_ms()
    running = [row.task for row in store.search.tasks(status=TaskStatus.RUNNING, limit=RUNNING).rows if row.task]
    lines = [
        WorkerLine(
            info,
            "late" if now_ms - info.seen_ms > late_ms else info.state,
            sorted((seen(task) for task in running if task.worker == info.id), key=lambda task: task.started_ms or 0),
        )
        for info in store.workers.list()
    ]
    return page("workers/index.html", live="workers/_list.html", lines=lines, said=said)
