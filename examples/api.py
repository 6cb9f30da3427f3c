"""Submitting through the JSON API, as a program in any language would."""

import json
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection, HTTPException
from itertools import islice
from typing import Any

from dtq_engine import NewTask

TASKS_PER_CALL = 500
TIMEOUT_S = 30.0


class ApiFailed(Exception):
    """Raised when the web process did not accept what was sent; says why in a sentence."""


def submit(port: int, tasks: Sequence[NewTask]) -> list[str]:
    """The ids of these tasks, in their order: of one that was there already, the id that it has. Raises ApiFailed."""
    rest = iter(tasks)
    ids: list[str] = []
    while part := list(islice(rest, TASKS_PER_CALL)):
        ids += _ids(_post(port, "/api/v1/tasks/batch", {"tasks": [_body(task) for task in part]}))
    return ids


def _body(task: NewTask) -> dict[str, Any]:
    """A task as `POST /api/v1/tasks` takes it. How it is retried, its type says there."""
    body = {"type": task.type, "id": task.id, "queue": task.queue, "priority": task.priority}
    body |= {"payload": json.loads(task.payload), "idempotency_key": task.idempotency_key}
    return body | {"delay_seconds": task.delay_ms / 1000 if task.delay_ms else None}


def _post(port: int, path: str, body: object) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError) as error:
        raise ApiFailed(f"the web process did not answer: {error}.") from error
    finally:
        connection.close()
    if response.status != 200:
        raise ApiFailed(f"the web process refused the tasks ({response.status}): {answer.get('detail')}")
    return answer


def _ids(answer: Any) -> Iterator[str]:
    for item in answer["items"]:
        if item.get("task") is None:
            raise ApiFailed(f"the web process refused a task: {item['problem']['detail']}")
        yield item["task"]["id"]
