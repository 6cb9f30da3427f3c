"""The pages: what people on call look at, complete without a script and live with one."""

from flask import Blueprint

from webapp.pages import (
    activity,
    assets,
    letters,
    login,
    overview,
    periodic,
    problems,
    queues,
    render,
    system,
    task,
    tasks,
    verbs,
    workers,
)

PARTS = (
    assets, problems, login, overview, tasks, verbs, task, letters, queues, workers, periodic, activity, system,
)  # fmt: skip


def blueprint() -> Blueprint:
    """All of them, at the root of the web process."""
    pages = Blueprint("pages", __name__)
    pages.record(render.set_up)
    for part in PARTS:
        pages.register_blueprint(part.blueprint)
    return pages
