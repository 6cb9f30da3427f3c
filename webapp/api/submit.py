"""Submitting tasks: one, or a batch."""

import functools
import re
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote

from flask import Blueprint, Response, request

from dtq_engine import DtqError, InvalidTask, MemoryFull, NewTask, NotJson, QueueFull, Receipt, SubmitOutcome
from dtq_engine.strict import Reader
from webapp.answers import reply, request_id
from webapp.api.endpoint import Operation, endpoint
from webapp.api.making import new_task, warnings_about
from webapp.api.requests import BatchBody, NewTaskBody
from webapp.api.responses import Accepted, BatchAnswer, BatchItem, ProblemBody
from webapp.border import ABOUT, Environ
from webapp.errors import problem_of
from webapp.metrics import count_refusal, count_refusals
from webapp.problems import Problem
from webapp.roles import Role
from webapp.state import Web, web

blueprint = Blueprint("submit", __name__)
blueprint.after_request(count_refusal)

_task_reader = Reader(NewTaskBody, "the task")

REFUSALS = (
    "INVALID_TASK",
    "IDEMPOTENCY_CONFLICT",
    "PAYLOAD_TOO_LARGE",
    "IDEMPOTENCY_MISMATCH",
    "QUEUE_FULL",
    "MEMORY_FULL",
    "SUBMIT_UNCERTAIN",
)

_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"').fullmatch


@blueprint.post("/tasks")
@endpoint(
    Operation(
        summary="Submit a task",
        roles=(Role.SUBMIT,),
        body=NewTaskBody,
        misfit="INVALID_TASK",
        answers={202: Accepted, 200: Accepted},
        problems=REFUSALS,
        headers=("Idempotency-Key",),
        example={"type": "reports.build", "payload": {"account": 7}, "delay_seconds": 60},
    )
)
def submit(body: NewTaskBody) -> Response:
    """202 and the place of a new task; 200 if one that was there before stands for it, as `outcome` says."""
    here, environ = web(), request.environ
    if (key := _idempotency_key(environ)) is not None:
        body.idempotency_key = key
    task = new_task(body, here)
    try:
        receipt = here.app.accept(task)
    except (QueueFull, MemoryFull) as error:
        raise _full(error, _empty_in_s(here, task.queue)) from None
    environ[ABOUT] = {"task_id": receipt.id, "queue": receipt.queue}
    place = f"{_root(environ)}/api/v1/tasks/{receipt.id}?queue={receipt.queue}"
    is_new = receipt.outcome is SubmitOutcome.NEW
    answer = _accepted(receipt, warnings_about(task.type, here))
    return reply(answer, status=202 if is_new else 200, headers={"Location": place})


@blueprint.post("/tasks/batch")
@endpoint(
    Operation(
        summary="Submit up to 1,000 tasks",
        roles=(Role.SUBMIT,),
        body=BatchBody,
        misfit="INVALID_TASK",
        answers={200: BatchAnswer},
        problems=REFUSALS,
        example={"tasks": [{"type": "reports.build", "payload": {"account": 7}}, {"type": "reports.send"}]},
    )
)
def submit_batch(body: BatchBody) -> Response:
    """An answer for each task, in their order: it was accepted, or why not."""
    if "HTTP_IDEMPOTENCY_KEY" in request.environ:
        raise Problem(400, "INVALID_TASK", "A batch has no key of its own: give each task its idempotency_key.")
    batch = _Batch(web())
    items = batch.submit([bytes(each) for each in body.tasks])
    accepted = sum(item.task is not None for item in items)
    count_refusals(item.problem.code for item in items if item.problem)
    return reply(BatchAnswer(items=items, accepted=accepted, refused=len(items) - accepted))


class _Batch:
    """The work on one batch: what holds for a queue or a type is found out once."""

    def __init__(self, here: Web) -> None:
        self._here = here
        self._warnings = functools.cache(functools.partial(warnings_about, here=here))
        self._empty_in_s = functools.cache(functools.partial(_empty_in_s, here))

    def submit(self, bodies: Sequence[bytes]) -> list[BatchItem]:
        """What became of each task, in their order."""
        read = [self._read(each) for each in bodies]
        answers = iter(self._accept([each for each in read if isinstance(each, NewTask)]))
        return [self._item(each, next(answers)) if isinstance(each, NewTask) else _refused(each) for each in read]

    def _read(self, data: bytes) -> NewTask | DtqError:
        try:
            return new_task(_task_reader.read_part(data), self._here)
        except (InvalidTask, NotJson) as error:
            return error

    def _accept(self, tasks: Sequence[NewTask]) -> list[Receipt | DtqError]:
        try:
            return self._here.app.accept_many(tasks)
        except MemoryFull as error:
            raise _full(error, self._empty_in_s(tasks[0].queue)) from None

    def _item(self, task: NewTask, answer: Receipt | DtqError) -> BatchItem:
        if isinstance(answer, Receipt):
            return BatchItem(task=_accepted(answer, self._warnings(task.type)))
        if isinstance(answer, QueueFull | MemoryFull):
            return _shown(_full(answer, self._empty_in_s(task.queue)))
        return _refused(answer)


def _refused(error: DtqError) -> BatchItem:
    return _shown(problem_of(error))


def _shown(problem: Problem) -> BatchItem:
    return BatchItem(problem=ProblemBody(**problem.body(request_id())))


def _accepted(receipt: Receipt, warnings: list[str]) -> Accepted:
    is_new = receipt.outcome is SubmitOutcome.NEW
    outcome = cast(Any, receipt.outcome.value)
    return Accepted(receipt.id, receipt.queue, receipt.status, not is_new, warnings if is_new else [], outcome)


def _empty_in_s(here: Web, queue: str) -> int:
    return here.app.store.drains.of(queue).empty_in_s


def _full(error: QueueFull | MemoryFull, seconds: int) -> Problem:
    """A refusal that says when to come again: when the queue will be empty, if it goes on emptying as it does."""
    problem = problem_of(error)
    problem.headers["Retry-After"] = str(seconds)
    problem.more["retry_after"] = seconds
    return problem


def _root(environ: Environ) -> str:
    """The path that this app is mounted at, as it stands in addresses."""
    root: str = environ.get("SCRIPT_NAME", "")  # PEP 3333 lets a server leave it out when it is empty
    return root and quote(root.encode("latin-1"))


def _idempotency_key(environ: Environ) -> str | None:
    """The key in the header, quoted (as the IETF's draft has it) or bare."""
    given: str | None = environ.get("HTTP_IDEMPOTENCY_KEY")
    if given is None:
        return None
    quoted = _QUOTED(given)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else given
    if not (key.isascii() and key.isprintable() and 1 <= len(key) <= 255):
        detail = "The header Idempotency-Key must be 1 to 255 printable ASCII characters, quoted or bare."
        raise Problem(400, "INVALID_TASK", detail, more={"field": "Idempotency-Key"})
    return key
