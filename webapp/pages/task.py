"""One task: its story, its payload and result, and what can be done to it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from flask import Blueprint, Response, request, url_for

from dtq_engine import InvalidTask, LogLine, NewTask, NotJson, RedisDamaged, Saved, Task, new_id
from dtq_engine.branches import Branch, branches
from dtq_engine.shapes import raw
from dtq_engine.strict import Reader
from webapp.api.waits import checked
from webapp.pages.notices import back
from webapp.pages.render import page
from webapp.pages.rows import CAN
from webapp.pages.story import in_line, story
from webapp.pages.tree import Tree
from webapp.problems import Problem
from webapp.readers import as_seen, lines_as_seen
from webapp.rights import require, who
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("task", __name__)

EDITED_FROM = "dtq-edited-from"
"""The header by which a task names the one whose payload was edited."""

AUDIT_LOOK = 300
"""How many of its queue's latest actions are looked through for those on a task."""

EDITABLE_BYTES = 65_536

LINES = 200
"""How many of the latest log lines are shown; the API has the others."""

WORKFLOW_NODES = 200
"""How many of the tasks linked with it are shown."""


class Workflow(NamedTuple):
    """The tasks that it is linked with, as lines."""

    branches: Sequence[Branch]
    is_cut: bool


_reader = Reader(dict[str, Any], "the payload")


@blueprint.get("/tasks/<path:task_id>")
@require(Role.VIEWER)
def show(task_id: str) -> Response:
    """All there is to know about a task."""
    task = _read(task_id)
    return page(
        "task/index.html",
        live="task/_live.html",
        task=as_seen(task),
        place=f"{task.queue}/{task.id}",
        steps=story(as_seen(task)),
        payload=Tree.of(as_seen(task).payload),
        result=_result(as_seen(task)),
        can=_can(task),
        edited_from=task.headers.get(EDITED_FROM),
        log=_log(task),
        audit=_audit(task),
        workflow=_workflow(task),
        saved=_saved(task),
        in_line=in_line,
        edit=_editable(task),
    )


@blueprint.get("/tasks/<path:task_id>/payload.json")
@require(Role.VIEWER)
def payload(task_id: str) -> Response:
    """The payload as it is, as far as the reader may see it."""
    return Response(bytes(raw(as_seen(_read(task_id)).payload)), content_type="application/json")


@blueprint.get("/tasks/<path:task_id>/result.json")
@require(Role.VIEWER)
def result(task_id: str) -> Response:
    """The result as it is kept, as far as the reader may see it."""
    return Response(bytes(raw(as_seen(_read(task_id)).result)), content_type="application/json")


@blueprint.post("/tasks/<path:task_id>/edit")
@require(Role.OPERATOR)
def edit(task_id: str) -> Response:
    """Submit a task like this one with another payload; the old one stays as it is, and the new one names it."""
    task = _read(task_id)
    if _secrets(task):
        raise Problem(409, "HAS_SECRETS", "This payload has values that are shown to nobody: submit the task anew.")
    typed = request.form.get("payload", "")
    try:
        receipt = web().app.accept(_edited(task, typed))
    except (InvalidTask, NotJson) as error:
        return page("task/edit.html", status=400, task=as_seen(task), typed=typed, problem=str(error))
    return back("edit", to=url_for("pages.task.show", task_id=receipt.id, queue=receipt.queue))


def _read(task_id: str) -> Task:
    return web().app.store.inspect.get(checked(task_id), queue=request.args.get("queue") or None)


def _edited(task: Task, text: str) -> NewTask:
    _reader.read(text.encode("utf-8", "replace"))
    payload = msgspec.json.format(text.encode("utf-8", "replace"), indent=-1)
    if (published := web().catalog.find(task.type)) is not None:
        published.check(payload)
    return NewTask(
        id=new_id(),
        type=task.type,
        payload=payload,
        queue=task.queue,
        priority=task.priority,
        timeout_ms=task.timeout_ms,
        retry=replace(task.retry),
        headers={**task.headers, EDITED_FROM: task.id},
    )


def _secrets(task: Task) -> bool:
    return as_seen(task).payload != task.payload


def _can(task: Task) -> Collection[str]:
    """What the reader may do to the task as it is."""
    verbs = {verb for verb, statuses in CAN.items() if task.status in statuses}
    if not who().holds(Role.ADMIN):
        verbs.discard("discard")
    return verbs if who().may(Role.OPERATOR) else set()


def _editable(task: Task) -> str | None:
    """The payload as text to edit; None where that cannot be."""
    wanted = who().may(Role.OPERATOR) and task.status.is_final
    if not wanted or _secrets(task) or len(task.payload) > EDITABLE_BYTES:
        return None
    try:
        return msgspec.json.format(task.payload, indent=2).decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _workflow(task: Task) -> Workflow | None:
    if not task.is_linked:
        return None
    tree = web().app.store.trees.tree(task.id, queue=task.queue, limit=WORKFLOW_NODES)
    return Workflow(branches(tree), tree.is_cut)


def _saved(task: Task) -> Saved | None:
    """What its executions have saved, None if that is nothing."""
    try:
        saved = web().app.store.steps.saved(task.id, task.queue)
    except RedisDamaged:
        return None
    return None if saved == Saved() else saved


def _result(task: Task) -> Tree | None:
    return None if task.result is None else Tree.of(task.result)


def _log(task: Task) -> Sequence[tuple[int, Sequence[LogLine]]]:
    """The latest lines that its executions logged, by attempt."""
    try:
        lines = lines_as_seen(web().app.store.reports.latest(task.id, task.queue, LINES), task)
    except RedisDamaged:
        return ()
    return [(attempt, list(of_attempt)) for attempt, of_attempt in groupby(lines, key=lambda line: line.attempt)]


def _audit(task: Task) -> Sequence[Any]:
    if not who().holds(Role.OPERATOR):
        return ()
    try:
        latest = web().app.store.events.audit(task.queue, AUDIT_LOOK)
    except RedisDamaged:
        return ()
    return [entry for entry in latest if entry.target == task.id][:20]
