"""The JSON API, version 1."""

from flask import Blueprint

from webapp.api import fleet, history, letters, limits, periodic, queues, spec, submit, tasks, trees

PARTS = (submit, tasks, trees, queues, limits, periodic, letters, fleet, history, spec)


def blueprint() -> Blueprint:
    """All of it, under `/api/v1`."""
    api = Blueprint("api", __name__, url_prefix="/api/v1")
    for part in PARTS:
        api.register_blueprint(part.blueprint)
    return api
