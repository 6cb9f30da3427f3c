"""What operators do to tasks and queues: each with a request id, safe to send again, audited where it acts."""

from dtq_engine import validate
from dtq_engine.errors import IdempotencyConflict, InvalidTransition, NewerRecord, TaskNotFound, UniqueConflict
from dtq_engine.model import CancelOutcome
from dtq_engine.store.asked import asked, place
from dtq_engine.store.base import Base
from dtq_engine.store.inspect import Inspect

_ALLOWED = {
    "requeue": "only one that failed, expired or was dead-lettered or cancelled can be requeued",
    "discard": "only one that failed, expired or was dead-lettered or cancelled can be discarded",
    "run_now": "only one that is delayed, to be retried or blocked can be run now",
    "reprioritise": "only one that has neither started nor ended can get another priority",
}


class Control:
    """Cancel, requeue, discard, run now, reprioritise; pause, resume, purge.

    Each raises InvalidTask for an actor, reason, request, id or queue that can be none.
    """

    def __init__(self, base: Base, inspect: Inspect) -> None:
        self._base = base
        self._inspect = inspect

    def cancel(
        self, task_id: str, *, queue: str | None = None, actor: str = "", reason: str = "", request: str | None = None
    ) -> CancelOutcome:
        """End a waiting task now, or ask the worker of a running one to stop it. Raises TaskNotFound."""
        return CancelOutcome(self._verb("cancel", task_id, queue, *asked(request, actor, reason)))

    def requeue(
        self,
        task_id: str,
        *,
        queue: str | None = None,
        actor: str = "",
        reason: str = "",
        request: str | None = None,
        keep_steps: bool = True,
    ) -> None:
        """Give a task that ended without success a new life: attempts from 0, history kept.

        With `keep_steps` it goes on where it was: what its executions saved (steps, checkpoint, marks) stays as well.
        Raises TaskNotFound, InvalidTransition, and IdempotencyConflict or UniqueConflict when its key is another task's
        by now.
        """
        self._verb("requeue", task_id, queue, *asked(request, actor, reason), "1" if keep_steps else "0")

    def discard(
        self, task_id: str, *, queue: str | None = None, actor: str = "", reason: str = "", request: str | None = None
    ) -> None:
        """Forget a task that ended without success, with its history. Raises TaskNotFound, InvalidTransition."""
        self._verb("discard", task_id, queue, *asked(request, actor, reason))

    def pause(
        self, queue: str, *, actor: str = "", reason: str = "", for_ms: int | None = None, request: str | None = None
    ) -> None:
        """Let nobody claim from a queue, for `for_ms` (up to ten years) or until it is resumed; what runs goes on.

        Raises InvalidTask for another time.
        """
        if for_ms is not None:
            validate.whole("for_ms", for_ms, 1, validate.TEN_YEARS_MS)
        validate.check_queue(queue)
        self._base.run("pause", queue, *asked(request, actor, reason), "" if for_ms is None else for_ms)

    def resume(self, queue: str, *, actor: str = "", reason: str = "", request: str | None = None) -> None:
        """Let workers claim from a queue again."""
        validate.check_queue(queue)
        self._base.run("resume", queue, *asked(request, actor, reason))

    def run_now(
        self, task_id: str, *, queue: str | None = None, actor: str = "", reason: str = "", request: str | None = None
    ) -> None:
        """Make a task that waits for its time available at once. Raises TaskNotFound, InvalidTransition."""
        self._verb("run_now", task_id, queue, *asked(request, actor, reason))

    def reprioritise(
        self,
        task_id: str,
        priority: int,
        *,
        queue: str | None = None,
        actor: str = "",
        reason: str = "",
        request: str | None = None,
    ) -> None:
        """Move a waiting task to another priority, 0 to 9. Raises TaskNotFound, InvalidTransition, InvalidTask."""
        validate.whole("priority", priority, 0, 9)
        self._verb("reprioritise", task_id, queue, *asked(request, actor, reason), priority)

    def purge(
        self, queue: str, *, delayed: bool = False, actor: str = "", reason: str = "", request: str | None = None
    ) -> int:
        """Cancel what waits in a queue now, never what runs; `delayed`: what waits for its time too. How many.

        Sent again under the same `request` it cancels nothing that came later.
        """
        validate.check_queue(queue)
        request, actor, reason = asked(request, actor, reason)
        total, call = 0, 0
        part, passed, since = "", "0", ""
        while part != "-":
            args = (f"{request}:{call}", actor, reason, "1" if delayed else "0", part, passed, since)
            cancelled, part, passed, since = self._base.run("purge", queue, *args).decode().split(" ")
            total, call = total + int(cancelled), call + 1
        return total

    def _verb(self, verb: str, task_id: str, queue: str | None, request: str, *args: str | int) -> str:
        """Run a verb on one task; its answer, or the error that the answer stands for."""
        task_id, queue = place(task_id, queue)
        where = queue or self._where(verb, task_id, request)
        reply = self._base.run(verb, where, task_id, request, *args)
        answer, _, detail = str(reply.decode()).partition(":")
        match answer:
            case "missing":
                raise TaskNotFound(f"There is no task {task_id} in queue {where}: check the id, or its time is over.")
            case "invalid":
                raise InvalidTransition(f"Task {task_id} is {detail}: {_ALLOWED[verb]}.")
            case "waits":
                raise InvalidTransition(
                    f"Task {task_id} waits for its parents and cannot run without them: see to those, or cancel it."
                )
            case "parent":
                raise InvalidTransition(
                    f"Task {task_id} was to run after task {detail}, which has failed: requeue that one, and this one "
                    f"comes back with it."
                )
            case "conflict":
                raise IdempotencyConflict(
                    f"The idempotency key of task {task_id} belongs to another task by now: submit it anew instead."
                )
            case "held":
                raise UniqueConflict(
                    f"Another task holds the unique key of task {task_id} by now: let that end, or submit it anew."
                )
            case "newer":
                raise NewerRecord(f"Task {task_id} was written by a newer release of dtq: use that release for it.")
            case _:
                return answer

    def _where(self, verb: str, task_id: str, request: str) -> str:
        """The queue of a task; of one that this very request discarded before, where its answer is remembered."""
        try:
            return self._inspect.queue_of(task_id)
        except TaskNotFound:
            queues = self._inspect.queues()
            answered = [("EXISTS", self._base.keys.request(name, verb, task_id, request)) for name in queues]
            for name, there in zip(queues, self._base.connection.pipeline(answered), strict=True):
                if there == 1:
                    return name
            raise
