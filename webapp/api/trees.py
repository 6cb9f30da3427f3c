"""Workflows: which tasks wait for each other."""

from flask import Blueprint, Response

from dtq_engine.tree_shapes import TreeShape, tree_shape
from webapp.answers import reply
from webapp.api.endpoint import Operation, endpoint
from webapp.api.requests import TreeQuery
from webapp.api.waits import checked
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("trees", __name__)


@blueprint.get("/tasks/<task_id>/tree")
@endpoint(
    Operation(
        summary="The workflow that a task is part of",
        roles=(Role.VIEWER,),
        query=TreeQuery,
        answers={200: TreeShape},
        problems=("TASK_NOT_FOUND",),
    )
)
def show(task_id: str, query: TreeQuery) -> Response:
    """The task and all that are linked with it over any number of steps, the nearest first."""
    return reply(tree_shape(web().app.store.trees.tree(checked(task_id), queue=query.queue, limit=query.limit)))
