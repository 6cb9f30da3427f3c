"""Tasks that threads submit to one queue at the same moment ride in one call.

Most of what a call costs does not depend on how many tasks it carries. So while one call is under way, those who come
wait for its end, and then one of them takes all the others along. Who comes alone does not wait.
"""

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dtq_engine.errors import RedisUnavailable, SubmitUncertain
from dtq_engine.model import NewTask, Receipt
from dtq_engine.store.base import chunks

OVERHEAD_BYTES = 256
"""What a task weighs beside its payload, roughly."""

Send = Callable[[str, Sequence[NewTask]], list[Receipt]]


@dataclass(slots=True)
class _Rider:
    """One task on its way; `answer` is what its thread waits for."""

    task: NewTask
    answer: Receipt | Exception | None = None


@dataclass(slots=True)
class _Stop:
    """Where tasks for one queue wait; who holds `turn` drives."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[_Rider] = field(default_factory=list[_Rider])


class Carpool:
    """Submits single tasks of many threads; `send` submits several to one queue."""

    def __init__(self, send: Send, most: int) -> None:
        self._send = send
        self._most = most
        self._stops: dict[str, _Stop] = {}

    def submit(self, task: NewTask) -> Receipt:
        """The receipt of a task. Raises what `send` raises."""
        stop = self._stops.get(task.queue) or self._stops.setdefault(task.queue, _Stop())
        rider = _Rider(task)
        stop.waiting.append(rider)
        with stop.turn:
            while rider.answer is None:
                self._drive(task.queue, stop)
        if isinstance(rider.answer, Exception):
            raise rider.answer
        return rider.answer

    def _drive(self, queue: str, stop: _Stop) -> None:
        """Send as many as fit into one call, those who came first."""
        came = list(stop.waiting)
        sizes = [len(rider.task.payload) + OVERHEAD_BYTES for rider in came]
        riders = next(chunks(came, sizes, self._most))
        del stop.waiting[: len(riders)]
        try:
            receipts = self._send(queue, [rider.task for rider in riders])
        except BaseException as error:
            _strand(riders, error)
            if not isinstance(error, Exception):
                raise  # an interrupt is the driver's own; the others only know that they do not know
            if isinstance(error, RedisUnavailable | SubmitUncertain):
                self._turn_away(stop)
            return
        for rider, receipt in zip(riders, receipts, strict=True):
            rider.answer = receipt

    def _turn_away(self, stop: _Stop) -> None:
        """Those who came while Redis went away were not sent: they need not find out one after the other."""
        riders = list(stop.waiting)
        del stop.waiting[: len(riders)]
        _strand(riders, RedisUnavailable("Redis went away before this task was sent: submit it again."))


def _strand(riders: Sequence[_Rider], error: BaseException) -> None:
    """Give each an error of its own: it is raised in several threads."""
    for rider in riders:
        if isinstance(error, Exception) and not isinstance(error, SubmitUncertain):
            rider.answer = copy.copy(error)
        else:
            rider.answer = SubmitUncertain(rider.task.id)
        rider.answer.__cause__ = error
