"""The pages: what people on call look at, complete without a script and live with one."""

from flask import Blueprint

from webapp.pages import assets, login, problems, render, task, tasks, verbs

PARTS = (assets, problems, login, tasks, verbs, task)


def blueprint() -> Blueprint:
    """All of them, at the root of the web process."""
    pages = Blueprint("pages", __name__)
    pages.record(render.set_up)
    for part in PARTS:
        pages.register_blueprint(part.blueprint)
    return pages
